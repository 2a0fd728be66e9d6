//! The aggregates by their names.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aggregate {
    Count,
    CountIf,
    Sum,
    Average,
    Min,
    Max,
    MakeList,
    MakeSet,
}

/// Name as written, aggregate, name in query plans.
const TABLE: [(&str, Aggregate, &str); 8] = [
    ("COUNT", Aggregate::Count, "Count"),
    ("COUNTIF", Aggregate::CountIf, "CountIf"),
    ("SUM", Aggregate::Sum, "Sum"),
    ("AVG", Aggregate::Average, "Average"),
    ("MIN", Aggregate::Min, "Min"),
    ("MAX", Aggregate::Max, "Max"),
    ("MAKELIST", Aggregate::MakeList, "MakeList"),
    ("MAKESET", Aggregate::MakeSet, "MakeSet"),
];

impl Aggregate {
    /// The aggregate of this name, in any case.
    pub(crate) fn by_name(name: &str) -> Option<Aggregate> {
        let row = TABLE.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name));
        row.map(|(_, aggregate, _)| *aggregate)
    }

    /// What a query plan calls it.
    pub(crate) fn plan_name(self) -> &'static str {
        let row = TABLE.iter().find(|(_, aggregate, _)| *aggregate == self);
        row.map_or("", |(.., plan_name)| plan_name)
    }
}

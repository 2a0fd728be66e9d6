//! Many values in, one out: `COUNT`, `SUM` and their kin.
//!
//! Undefined is never counted. What a value of the wrong type does differs: it spoils SUM and AVG
//! for good, arrays and objects spoil MIN and MAX, nothing spoils the others. An accumulator can be
//! merged with another one that saw other rows, so partitions can be gathered side by side.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::ops::AddAssign;

use partita_model::{Number, Value};

use crate::cell::{Cell, Kind, footprint};
use crate::compare::{self, Order};
use crate::hash;

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

/// An aggregate in the making.
#[derive(Clone, Debug)]
pub(crate) enum Accumulator {
    /// COUNT and COUNTIF.
    Count { of_true: bool, count: u64 },
    /// SUM and AVG.
    Sum { is_average: bool, sum: Sum },
    /// MIN and MAX: `better` is how a new value must compare to replace the old one.
    Extreme { better: Ordering, found: Option<Value>, spoilt: bool },
    /// MAKELIST and MAKESET.
    List { seen: Option<HashSet<u128>>, values: Vec<Value> },
}

/// By how much an accumulator has grown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub(crate) struct Growth {
    /// Values that it holds on to.
    pub(crate) cells: usize,
    /// The memory that it takes, about; less, if a value was replaced by a shorter one.
    pub(crate) bytes: isize,
}

impl AddAssign for Growth {
    fn add_assign(&mut self, more: Growth) {
        self.cells += more.cells;
        self.bytes = self.bytes.saturating_add(more.bytes);
    }
}

/// What a place in a list takes beside its value: the list grows by doubling.
const LIST_BYTES: usize = size_of::<Value>();

fn bytes_of(value: Option<&Value>) -> isize {
    value.map_or(0, footprint).cast_signed()
}

/// A sum as a double, and exactly for as long as all summands are integers and the sum fits.
#[derive(Clone, Debug)]
pub(crate) struct Sum {
    double: f64,
    exact: Option<i64>,
    count: u64,
    spoilt: bool,
}

impl Accumulator {
    pub(crate) fn new(aggregate: Aggregate) -> Accumulator {
        let sum = Sum { double: 0.0, exact: Some(0), count: 0, spoilt: false };
        let extreme = |better| Accumulator::Extreme { better, found: None, spoilt: false };
        match aggregate {
            Aggregate::Count => Accumulator::Count { of_true: false, count: 0 },
            Aggregate::CountIf => Accumulator::Count { of_true: true, count: 0 },
            Aggregate::Sum => Accumulator::Sum { is_average: false, sum },
            Aggregate::Average => Accumulator::Sum { is_average: true, sum },
            Aggregate::Min => extreme(Ordering::Less),
            Aggregate::Max => extreme(Ordering::Greater),
            Aggregate::MakeList => Accumulator::List { seen: None, values: Vec::new() },
            Aggregate::MakeSet => {
                Accumulator::List { seen: Some(HashSet::new()), values: Vec::new() }
            }
        }
    }

    /// Takes in the value of so many equal rows.
    pub(crate) fn add_times(&mut self, cell: Cell<'_>, times: u64) -> Growth {
        if let Accumulator::Count { of_true, count } = self {
            let counts = !*of_true || cell.as_bool() == Some(true);
            *count += if counts { times } else { 0 };
            return Growth::default();
        }
        let mut growth = Growth::default();
        for _ in 1..times {
            growth += self.add(cell.clone());
        }
        if times > 0 {
            growth += self.add(cell);
        }
        growth
    }

    /// Takes in the value of one row.
    pub(crate) fn add(&mut self, cell: Cell<'_>) -> Growth {
        match self {
            Accumulator::Count { of_true: false, count } => *count += 1,
            Accumulator::Count { of_true: true, count } => {
                *count += u64::from(cell.as_bool() == Some(true));
            }
            Accumulator::Sum { sum, .. } => sum.add(&cell),
            Accumulator::Extreme { spoilt: true, .. } => {}
            Accumulator::Extreme { better, found, spoilt } => {
                let before = bytes_of(found.as_ref());
                match cell.kind() {
                    Kind::Array | Kind::Object => (*spoilt, *found) = (true, None),
                    _ => replace_if(*better, found, cell),
                }
                return Growth { cells: 0, bytes: bytes_of(found.as_ref()) - before };
            }
            Accumulator::List { seen, values } => {
                let is_new = seen.as_mut().is_none_or(|seen| seen.insert(hash::of_cell(&cell)));
                if is_new {
                    let seen_bytes = if seen.is_some() { hash::SEEN_BYTES } else { 0 };
                    let value = cell.into_value();
                    let bytes = LIST_BYTES + seen_bytes + footprint(&value);
                    values.push(value);
                    return Growth { cells: 1, bytes: bytes.cast_signed() };
                }
            }
        }
        Growth::default()
    }

    /// What it would take at most to take in a value so many times; 0 if that is only one value.
    pub(crate) fn bytes_of_adding(&self, cell: &Cell<'_>, times: u64) -> usize {
        match self {
            Accumulator::List { seen: None, .. } => {
                let times = usize::try_from(times).unwrap_or(usize::MAX);
                cell.footprint().saturating_add(LIST_BYTES).saturating_mul(times)
            }
            _ => 0,
        }
    }

    /// Takes in what another accumulator of the same aggregate has seen.
    pub(crate) fn merge(&mut self, other: Accumulator) {
        match (self, other) {
            (Accumulator::Count { count, .. }, Accumulator::Count { count: more, .. }) => {
                *count += more;
            }
            (Accumulator::Sum { sum, .. }, Accumulator::Sum { sum: more, .. }) => sum.merge(&more),
            (
                Accumulator::Extreme { better, found, spoilt },
                Accumulator::Extreme { found: more, spoilt: more_spoilt, .. },
            ) => {
                *spoilt |= more_spoilt;
                match more {
                    _ if *spoilt => *found = None,
                    Some(value) => replace_if(*better, found, Cell::from_value(value)),
                    None => {}
                }
            }
            (list @ Accumulator::List { .. }, Accumulator::List { values, .. }) => {
                for value in values {
                    let _counted_already = list.add(Cell::from_value(value));
                }
            }
            // Accumulators of one aggregate are of one kind.
            _ => {}
        }
    }

    /// How many values it holds on to.
    pub(crate) fn held(&self) -> usize {
        match self {
            Accumulator::List { values, .. } => 1 + values.len(),
            _ => 1,
        }
    }

    /// The result; `None` is undefined.
    pub(crate) fn finish(self) -> Option<Value> {
        match self {
            Accumulator::Count { count, .. } => {
                Some(Value::Number(Number::Int(i64::try_from(count).unwrap_or(i64::MAX))))
            }
            Accumulator::Sum { sum, .. } if sum.spoilt => None,
            Accumulator::Sum { is_average: false, sum } => Some(Value::Number(sum.total())),
            Accumulator::Sum { is_average: true, sum } => {
                let mean = sum.total().as_f64() / sum.count as f64;
                (sum.count > 0).then_some(Value::Number(Number::Double(mean)))
            }
            Accumulator::Extreme { found, .. } => found,
            Accumulator::List { values, .. } => Some(Value::Array(values)),
        }
    }
}

fn replace_if(better: Ordering, found: &mut Option<Value>, cell: Cell<'_>) {
    let is_better = match found {
        None => true,
        Some(held) => scalar_order(&cell, &Cell::from_ref(held)) == better,
    };
    if is_better {
        *found = Some(cell.into_value());
    }
}

/// The order of ORDER BY between two scalars.
fn scalar_order(a: &Cell<'_>, b: &Cell<'_>) -> Ordering {
    match compare::order(a, b) {
        Order::Is(order) => order,
        Order::Unordered => Ordering::Equal,
        Order::Undefined => a.kind().cmp(&b.kind()),
    }
}

impl Sum {
    fn add(&mut self, cell: &Cell<'_>) {
        let Some(number) = cell.as_number() else {
            self.spoilt = true;
            return;
        };
        self.double += number.as_f64();
        self.exact = match (self.exact, number) {
            (Some(sum), Number::Int(summand)) => sum.checked_add(summand),
            _ => None,
        };
        self.count += 1;
    }

    fn merge(&mut self, other: &Sum) {
        self.double += other.double;
        self.exact = match (self.exact, other.exact) {
            (Some(a), Some(b)) => a.checked_add(b),
            _ => None,
        };
        self.count += other.count;
        self.spoilt |= other.spoilt;
    }

    fn total(&self) -> Number {
        self.exact.map_or(Number::Double(self.double), Number::Int)
    }
}

//! What is to be known about a query before it runs.

use std::collections::HashSet;

use partita_model::IndexStep;

use crate::aggregate::Aggregate;
use crate::ir::{Expr, Projection, Query, Source, Step};

/// The shape of a query, for whoever decides how to run it.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// Is there a FROM clause? Without one the query has one row and needs no items.
    pub has_from: bool,
    /// Can one item give several rows?
    pub joins: bool,
    /// The FROM clause in one way to write it, where one item can give several rows.
    pub joined: Option<String>,
    /// Are rows gathered: by GROUP BY, or by an aggregate?
    pub is_grouped: bool,
    /// Are they only counted: `SELECT VALUE COUNT(…)`, or a GROUP BY with no aggregate but COUNT?
    pub only_counts: bool,
    /// Does an aggregate list values (MAKELIST, MAKESET), so that the order of items shows?
    pub lists: bool,
    /// Is there a GROUP BY clause?
    pub has_group_by: bool,
    /// `SELECT DISTINCT`
    pub distinct: bool,
    /// Is there an ORDER BY clause?
    pub ordered: bool,
    /// Its columns.
    pub order: Vec<OrderFact>,
    /// The number of TOP.
    pub top: Option<u64>,
    /// The numbers of OFFSET and LIMIT.
    pub offset_limit: Option<(u64, u64)>,
    /// The user-defined functions it calls, each once.
    pub udfs: Vec<String>,
    /// Is there a WHERE clause?
    pub has_filter: bool,
    /// What a row is made of, if that is values at paths and nothing else.
    pub plain: Option<PlainRow>,
    /// What it looks at in an item.
    pub reads: Reads,
    /// What of that it looks at besides WHERE.
    pub selects: Reads,
    /// The path whose least and greatest values are all that the query asks for, of all items.
    pub extremes_of: Option<Vec<IndexStep>>,
    /// No functions, patterns, subqueries or joins: an item takes no more work than its size.
    pub is_simple: bool,
}

/// A column of ORDER BY.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderFact {
    /// The way from the item to the value, if it leads through members only.
    pub path: Option<Vec<IndexStep>>,
    /// Is it a value of the item, the same for all of its rows? Not so what an alias of a JOIN, or
    /// of a subquery, stands for.
    pub is_of_item: bool,
    /// The column as it was written.
    pub text: String,
    /// Does the largest value come first?
    pub descending: bool,
}

/// The parts of an item that a query looks at.
#[derive(Clone, Debug, PartialEq)]
pub enum Reads {
    /// Any of them.
    Whole,
    /// Only these, each the way through members from the item. What is read below an element of
    /// an array counts as a read of the array.
    Paths(Vec<Vec<IndexStep>>),
}

/// A row of one item that is values of the item and nothing else, each the way through members.
#[derive(Clone, Debug, PartialEq)]
pub enum PlainRow {
    /// `SELECT *`: the item as it is.
    Item,
    /// `SELECT VALUE c.a`: no row where there is no value.
    Value(Vec<IndexStep>),
    /// `SELECT c.a, c.b`: names, of which those without a value are left out.
    Members(Vec<(String, Vec<IndexStep>)>),
}

impl Facts {
    /// Is a row one value of the item, and the order that of this value?
    pub fn is_ordered_by_row(&self) -> bool {
        let [column] = self.order.as_slice() else { return false };
        self.row_path().is_some_and(|path| column.path.as_deref() == Some(path))
    }

    /// The path of the value that is all of a row.
    pub fn row_path(&self) -> Option<&[IndexStep]> {
        match self.plain.as_ref()? {
            PlainRow::Value(path) => Some(path),
            PlainRow::Members(members) => match members.as_slice() {
                [(_, path)] => Some(path),
                _ => None,
            },
            PlainRow::Item => None,
        }
    }

    pub(crate) fn new(meaning: &Query) -> Facts {
        let order = meaning.order_by.iter().map(|column| OrderFact {
            path: column.expr.index_path(),
            is_of_item: !is_in_slot(&column.expr),
            text: column.text.clone(),
            descending: column.descending,
        });
        let mut seen = Seen::default();
        meaning.for_each_expr(&mut |expr| seen.visit(expr));
        let joins = meaning.joins();
        Facts {
            has_from: !meaning.sources.is_empty(),
            joins,
            joined: meaning.joined.clone(),
            is_grouped: meaning.grouping.is_some(),
            only_counts: only_counts(meaning),
            lists: lists(meaning),
            has_group_by: meaning.grouping.as_ref().is_some_and(|by| !by.keys.is_empty()),
            distinct: meaning.distinct,
            ordered: !meaning.order_by.is_empty(),
            order: order.collect(),
            top: meaning.top,
            offset_limit: meaning.offset_limit,
            udfs: seen.udfs,
            has_filter: meaning.filter.is_some(),
            plain: plain(meaning),
            reads: if seen.whole { Reads::Whole } else { Reads::Paths(seen.paths) },
            selects: selects(meaning),
            extremes_of: extremes_of(meaning),
            is_simple: !joins && !seen.computes,
        }
    }
}

/// Is it what a source left in its slot, or a part of that?
fn is_in_slot(expr: &Expr) -> bool {
    match expr {
        Expr::Slot(_) => true,
        Expr::Path { base, .. } => is_in_slot(base),
        _ => false,
    }
}

/// See [`Facts::only_counts`].
fn only_counts(meaning: &Query) -> bool {
    let Some(grouping) = &meaning.grouping else { return false };
    // Without keys, the slots of a group are its aggregates.
    let is_value = matches!(meaning.projection, Projection::Value(Expr::Slot(_)));
    let counts = |(aggregate, _): &(Aggregate, Expr)| *aggregate == Aggregate::Count;
    (is_value || !grouping.keys.is_empty()) && grouping.aggregates.iter().all(counts)
}

/// See [`Facts::lists`].
fn lists(meaning: &Query) -> bool {
    let lists = |(aggregate, _): &(Aggregate, Expr)| {
        matches!(aggregate, Aggregate::MakeList | Aggregate::MakeSet)
    };
    meaning.grouping.as_ref().is_some_and(|grouping| grouping.aggregates.iter().any(lists))
}

/// See [`PlainRow`].
fn plain(meaning: &Query) -> Option<PlainRow> {
    if meaning.grouping.is_some() || meaning.sources != [Source::Value(Expr::Item)] {
        return None;
    }
    // The values of computed properties are those of the index only where it has them.
    let path = |expr: &Expr| match expr {
        Expr::Path { base, .. } if **base == Expr::Item => expr.index_path(),
        _ => None,
    };
    match &meaning.projection {
        Projection::Value(Expr::Item) => Some(PlainRow::Item),
        Projection::Value(expr) => path(expr).map(PlainRow::Value),
        Projection::Members(members) => {
            let member = |(name, expr): &(String, Expr)| Some((name.clone(), path(expr)?));
            members.iter().map(member).collect::<Option<_>>().map(PlainRow::Members)
        }
    }
}

/// What a query looks at besides WHERE.
fn selects(meaning: &Query) -> Reads {
    let mut seen = Seen::default();
    meaning.for_each_expr(&mut |expr| {
        let is_filter = meaning.filter.as_ref().is_some_and(|filter| std::ptr::eq(filter, expr));
        if !is_filter {
            seen.visit(expr);
        }
    });
    if seen.whole { Reads::Whole } else { Reads::Paths(seen.paths) }
}

/// The path of `SELECT MIN(c.a), MAX(c.a) FROM c`: no filter, no groups, nothing but extremes.
fn extremes_of(meaning: &Query) -> Option<Vec<IndexStep>> {
    let grouping = meaning.grouping.as_ref()?;
    if meaning.filter.is_some() || !grouping.keys.is_empty() || meaning.first_slot != 0 {
        return None;
    }
    let mut paths = grouping.aggregates.iter().map(|(aggregate, operand)| match aggregate {
        Aggregate::Min | Aggregate::Max => operand.item_path().and_then(members),
        _ => None,
    });
    let first = paths.next()??;
    let same = paths.all(|path| path.as_ref() == Some(&first));
    (same && !first.is_empty()).then_some(first)
}

#[derive(Default)]
struct Seen {
    whole: bool,
    paths: Vec<Vec<IndexStep>>,
    known: HashSet<Vec<IndexStep>>,
    udfs: Vec<String>,
    /// There is more than operators.
    computes: bool,
}

impl Seen {
    fn visit(&mut self, expr: &Expr) {
        match expr {
            Expr::Item => self.whole = true,
            Expr::Path { base, steps } if **base == Expr::Item => self.path(steps),
            other => {
                self.computes |= matches!(
                    other,
                    Expr::Call { .. }
                        | Expr::Udf { .. }
                        | Expr::Like { .. }
                        | Expr::LikeComputed { .. }
                        | Expr::Subquery { .. }
                );
                if let Expr::Udf { name, .. } = other
                    && !self.udfs.contains(name)
                {
                    self.udfs.push(name.clone());
                }
                other.for_each_child(&mut |child| self.visit(child));
            }
        }
    }

    fn path(&mut self, steps: &[Step]) {
        let to_array = steps.iter().map_while(|step| match step {
            Step::Member(name) => Some(IndexStep::Member(name.to_string())),
            Step::Element(_) | Step::Nowhere => None,
        });
        let path: Vec<IndexStep> = to_array.collect();
        if path.is_empty() {
            self.whole = true;
        } else if self.known.insert(path.clone()) {
            self.paths.push(path);
        }
    }
}

/// The members that steps lead through, if they lead through nothing else.
pub(crate) fn members(steps: &[Step]) -> Option<Vec<IndexStep>> {
    let of_step = |step: &Step| match step {
        Step::Member(name) => Some(IndexStep::Member(name.to_string())),
        Step::Element(_) | Step::Nowhere => None,
    };
    steps.iter().map(of_step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Query;

    #[test]
    fn a_query_tells_whether_it_only_counts() {
        for (text, expected) in [
            ("SELECT VALUE COUNT(1) FROM c", true),
            ("SELECT DISTINCT VALUE COUNT(c.a) FROM c", true),
            ("SELECT VALUE count(1) FROM (SELECT DISTINCT VALUE c.a FROM c)", true),
            ("SELECT COUNT(1) FROM c", false),
            ("SELECT VALUE COUNT(1) + 1 FROM c", false),
            ("SELECT VALUE {n: COUNT(1)} FROM c", false),
            ("SELECT VALUE COUNTIF(c.a) FROM c", false),
            ("SELECT VALUE SUM(c.a) FROM c", false),
            ("SELECT c.a FROM c GROUP BY c.a", true),
            ("SELECT c.a, COUNT(1) AS n FROM c GROUP BY c.a", true),
            ("SELECT c.a, COUNT(1) AS n, MAX(c.b) AS m FROM c GROUP BY c.a", false),
            ("SELECT c.a, AVG(c.b) AS m FROM c GROUP BY c.a", false),
            ("SELECT c.a FROM c", false),
        ] {
            let query = Query::parse(text, &[], &[]).unwrap();
            assert_eq!(query.facts().only_counts, expected, "{text}");
        }
    }

    #[test]
    fn a_column_of_the_order_is_of_the_item_or_of_a_source_of_its_rows() {
        for (text, expected) in [
            ("SELECT * FROM c ORDER BY c.a", vec![true]),
            ("SELECT * FROM c ORDER BY c.a[0].b", vec![true]),
            ("SELECT VALUE a FROM c.a.b a ORDER BY a.d", vec![true]),
            ("SELECT VALUE t FROM c JOIN t IN c.tags ORDER BY c.a", vec![true]),
            ("SELECT VALUE t FROM c JOIN t IN c.tags ORDER BY t", vec![false]),
            ("SELECT VALUE t FROM c JOIN t IN c.tags ORDER BY c.a, t.b", vec![true, false]),
            ("SELECT VALUE t FROM t IN c.tags ORDER BY t.b", vec![false]),
            ("SELECT VALUE t FROM c JOIN (SELECT VALUE c.a) t ORDER BY t", vec![false]),
            ("SELECT VALUE t FROM (SELECT VALUE c.a FROM c) t ORDER BY t", vec![false]),
        ] {
            let query = Query::parse(text, &[], &[]).unwrap();
            let found: Vec<bool> =
                query.facts().order.iter().map(|column| column.is_of_item).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn a_query_tells_what_it_reads_besides_its_filter() {
        let member = |name: &str| vec![IndexStep::Member(name.to_owned())];
        for (text, reads, selects, extremes) in [
            ("SELECT VALUE COUNT(1) FROM c", vec![], vec![], None),
            ("SELECT VALUE COUNT(1) FROM c WHERE c.a = 1", vec![member("a")], vec![], None),
            (
                "SELECT c.b, SUM(c.d) AS s FROM c WHERE c.a = 1 GROUP BY c.b",
                vec![member("a"), member("b"), member("d")],
                vec![member("b"), member("d")],
                None,
            ),
            (
                "SELECT MIN(c.a), MAX(c.a) FROM c",
                vec![member("a")],
                vec![member("a")],
                Some(member("a")),
            ),
        ] {
            let query = Query::parse(text, &[], &[]).unwrap();
            let sorted = |reads: &Reads| match reads {
                Reads::Whole => panic!("{text} reads everything"),
                Reads::Paths(paths) => {
                    let mut paths = paths.clone();
                    paths.sort_by_key(|path| format!("{path:?}"));
                    paths
                }
            };
            assert_eq!(sorted(&query.facts().reads), reads, "{text}");
            assert_eq!(sorted(&query.facts().selects), selects, "{text}");
            assert_eq!(query.facts().extremes_of, extremes, "{text}");
            assert!(query.facts().is_simple, "{text}");
        }
        for text in [
            "SELECT * FROM c WHERE LOWER(c.a) = 'b'",
            "SELECT * FROM c WHERE c.a LIKE '%b%'",
            "SELECT * FROM c WHERE udf.f(c.a)",
            "SELECT c.a, t FROM c JOIN t IN c.tags",
            "SELECT VALUE t FROM t IN c.tags",
            "SELECT * FROM c WHERE EXISTS(SELECT VALUE t FROM t IN c.tags)",
            "SELECT VALUE [1, {a: [c.a, UPPER(c.b)]}] FROM c",
            "SELECT VALUE MAX(c.a) FROM c GROUP BY RIGHT(c.b, 2)",
        ] {
            assert!(!Query::parse(text, &[], &[]).unwrap().facts().is_simple, "{text}");
        }
        let star = Query::parse("SELECT * FROM c", &[], &[]).unwrap();
        assert_eq!(star.facts().reads, Reads::Whole);
    }
}

//! The plan of a leaf: which way it takes to the items of its partition, and what it makes of them.
//!
//! A plan is what [`choose`](super::choose) has decided on, with the sets of items that it found in
//! the index on its way. It prints as a tree, a line for each operator with its inputs below it:
//!
//! ```text
//! fetch 12 items by resource id
//!   index /device = "device-77": 12
//! ```
//!
//! That is what EXPLAIN shows, and what golden files hold. The whole language of plans is in this
//! file; how each of them runs is in `scan.rs`, `items.rs`, `columns.rs`, `order_walk.rs` and
//! `groups.rs`.

use std::fmt::{self, Write as _};
use std::ops::Bound;

use partita_model::{CompositeIndex, CompositePath, IndexStep, Scalar, Value, write_string};
use partita_query::Judge;
use partita_query::access::{Condition, Interval, Kinds, Test};

use super::columns::ColumnScan;
use super::groups::Extremes;
use super::order_walk::WalkPlan;
use crate::index::{EntryValue, RidSet};
use crate::op::IndexUse;

/// A way to the rows, or to the groups, of a leaf.
pub(super) enum LeafPlan<'a> {
    /// All items as they lie, in the order of their keys.
    ScanByKey,
    /// Items along resource ids, oldest first. Given up for [`LeafPlan::KeepOldest`] when it has
    /// cost more than this.
    ScanByAge { cost_max: u64 },
    /// All items as they lie; the rows of the oldest are kept.
    KeepOldest { want: usize },
    /// All items as they lie; the first rows of the order are kept.
    Sort { want: usize },
    /// The items of a set, oldest first.
    Fetch(ItemSet),
    /// The items of a set; the first rows of the order are kept.
    SortFetched { set: ItemSet, want: usize },
    /// The items that pass the filter by the values that they have in columns of the index.
    FilterColumns { judge: Judge, scan: ColumnScan, made_of_keys: bool },
    /// Along an index that has the order.
    Walk(WalkPlan<'a>),
    /// Groups of all items as they lie, or from the oldest on.
    GroupScanned { by_age: bool },
    /// Groups of the items of a set.
    GroupFetched(ItemSet),
    /// Groups of the values that items have in columns of the index.
    GroupColumns { scan: ColumnScan, is_exact: bool },
    /// A counter has the answer.
    Count { items: u64 },
    /// The two ends of an index have the answer.
    Extremes(Extremes),
}

/// Items that an index found.
#[derive(Debug, Default)]
pub(super) struct ItemSet {
    pub(super) rids: RidSet,
    /// Are all of them what was asked for?
    pub(super) exact: bool,
    pub(super) trace: Trace,
}

/// How a set was found, for people. Empty if nobody wants to know.
#[derive(Debug, Default)]
pub(super) struct Trace {
    lines: Vec<String>,
    used: Vec<IndexUse>,
}

impl Trace {
    pub(super) fn push(&mut self, depth: usize, line: &str) {
        self.lines.push(format!("{}{line}", INDENT.repeat(depth)));
    }

    pub(super) fn uses(&mut self, index: IndexUse) {
        if !self.used.contains(&index) {
            self.used.push(index);
        }
    }

    /// Where it stands.
    pub(super) fn mark(&self) -> (usize, usize) {
        (self.lines.len(), self.used.len())
    }

    /// Forgets what came since.
    pub(super) fn back_to(&mut self, (lines, used): (usize, usize)) {
        self.lines.truncate(lines);
        self.used.truncate(used);
    }

    /// Puts a line above those that came since.
    pub(super) fn put_above(&mut self, (line, _): (usize, usize), depth: usize, text: &str) {
        self.lines.insert(line, format!("{}{text}", INDENT.repeat(depth)));
    }

    /// Takes in what was found with another set.
    pub(super) fn add(&mut self, other: Trace) {
        self.lines.extend(other.lines);
        other.used.into_iter().for_each(|used| self.uses(used));
    }
}

const INDENT: &str = "  ";

impl LeafPlan<'_> {
    /// The indexes that it uses.
    pub(super) fn indexes(&self) -> Vec<IndexUse> {
        let mut all = Trace::default();
        let mut add = |set: &ItemSet| set.trace.used.iter().cloned().for_each(|i| all.uses(i));
        match self {
            LeafPlan::Fetch(set)
            | LeafPlan::SortFetched { set, .. }
            | LeafPlan::GroupFetched(set) => add(set),
            LeafPlan::FilterColumns { scan, .. } | LeafPlan::GroupColumns { scan, .. } => {
                scan.set.iter().for_each(add);
                scan.paths.iter().for_each(|path| all.uses(path_use(path)));
            }
            LeafPlan::Walk(walk) => {
                walk.among.iter().for_each(add);
                all.uses(walk.index_use());
            }
            LeafPlan::Extremes(extremes) => all.uses(path_use(&extremes.path)),
            LeafPlan::ScanByKey
            | LeafPlan::ScanByAge { .. }
            | LeafPlan::KeepOldest { .. }
            | LeafPlan::Sort { .. }
            | LeafPlan::GroupScanned { .. }
            | LeafPlan::Count { .. } => {}
        }
        all.used
    }

    /// Its operators, the last to run first, and how the items at its beginning are found.
    fn operators(&self) -> (Vec<String>, Option<&ItemSet>) {
        let scan = |by: &str| format!("scan items by {by}");
        let fetch = |set: &ItemSet| match set.rids.len() {
            1 => "fetch 1 item by resource id".to_owned(),
            items => format!("fetch {items} items by resource id"),
        };
        match self {
            LeafPlan::ScanByKey => (vec![scan("key")], None),
            LeafPlan::ScanByAge { .. } => (vec![scan("resource id")], None),
            LeafPlan::KeepOldest { want } => {
                (vec![format!("keep the oldest {}", wanted(*want)), scan("key")], None)
            }
            LeafPlan::Sort { want } => {
                (vec![format!("sort, keep {}", wanted(*want)), scan("key")], None)
            }
            LeafPlan::Fetch(set) => (vec![fetch(set)], Some(set)),
            LeafPlan::SortFetched { set, want } => {
                (vec![format!("sort, keep {}", wanted(*want)), fetch(set)], Some(set))
            }
            LeafPlan::FilterColumns { scan, made_of_keys, .. } => {
                (vec![way_to_rows(*made_of_keys), format!("filter {scan}")], scan.set.as_ref())
            }
            LeafPlan::Walk(walk) => {
                (vec![way_to_rows(walk.made_of_keys), walk.to_string()], walk.among.as_ref())
            }
            LeafPlan::GroupScanned { by_age } => {
                (vec!["group".to_owned(), scan(if *by_age { "resource id" } else { "key" })], None)
            }
            LeafPlan::GroupFetched(set) => (vec!["group".to_owned(), fetch(set)], Some(set)),
            LeafPlan::GroupColumns { scan, .. } => {
                (vec![format!("group {scan}")], scan.set.as_ref())
            }
            LeafPlan::Count { items } => (vec![format!("counter of items: {items}")], None),
            LeafPlan::Extremes(extremes) => {
                let path = path_text(&extremes.path);
                (vec![format!("first and last value of index {path}")], None)
            }
        }
    }
}

/// How the rows of items are made that are found one after another.
pub(super) fn way_to_rows(made_of_keys: bool) -> String {
    match made_of_keys {
        true => "make rows of keys".to_owned(),
        false => "fetch by resource id".to_owned(),
    }
}

/// As many rows as are of use.
fn wanted(rows: usize) -> String {
    if rows < usize::MAX { rows.to_string() } else { "all".to_owned() }
}

impl fmt::Display for LeafPlan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operators, set) = self.operators();
        let found = set.iter().flat_map(|set| &set.trace.lines);
        let below = found.map(|line| (operators.len(), line));
        for (number, (depth, line)) in operators.iter().enumerate().chain(below).enumerate() {
            if number > 0 {
                f.write_char('\n')?;
            }
            write!(f, "{}{line}", INDENT.repeat(depth))?;
        }
        Ok(())
    }
}

/// A composite index, as reports name it.
pub(super) fn composite_use(index: &CompositeIndex) -> IndexUse {
    let column = |column: &CompositePath| {
        let direction = if column.descending { "DESC" } else { "ASC" };
        format!("{} {direction}", column.text)
    };
    let paths = index.paths.iter().map(column).collect();
    IndexUse { paths, composite: true, precise: true }
}

/// The index of a path, which gives exactly the items that are asked for.
pub(super) fn path_use(path: &[IndexStep]) -> IndexUse {
    let paths = vec![format!("{}/?", path_text(path))];
    IndexUse { paths, composite: false, precise: true }
}

/// `/a/"b c"/[]`
pub(super) fn path_text(path: &[IndexStep]) -> String {
    let mut text = String::new();
    for step in path {
        text.push('/');
        match step {
            IndexStep::Element => text.push_str("[]"),
            IndexStep::Member(name) if is_plain(name) => text.push_str(name),
            IndexStep::Member(name) => write_string(&mut text, name),
        }
    }
    text
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// `/type = "a"`
pub(super) fn condition_text(condition: &Condition) -> String {
    let path = path_text(&condition.path);
    match &condition.test {
        Test::Values(intervals) => format!("{path} {}", intervals_text(intervals)),
        Test::Each(_) => format!("{path} each value tested"),
        Test::Kinds(kinds) => format!("{path} is {}", kinds_text(*kinds)),
    }
}

/// More values than this are counted, not listed.
const LISTED_MAX: usize = 3;

/// `= "a" or in [1, 5)`
pub(super) fn intervals_text(intervals: &[Interval]) -> String {
    let texts: Vec<String> = intervals.iter().take(LISTED_MAX).map(interval_text).collect();
    let rest = intervals.len().saturating_sub(LISTED_MAX);
    match (texts.as_slice(), rest) {
        ([one], 0) => one.clone(),
        (_, 0) => texts.join(" or "),
        _ => format!("{} or {rest} more", texts.join(" or ")),
    }
}

fn interval_text(interval: &Interval) -> String {
    if let Some(point) = interval.as_point() {
        return format!("= {}", value_text(point));
    }
    let low = match &interval.low {
        Bound::Unbounded => "(…".to_owned(),
        Bound::Included(value) => format!("[{}", value_text(value)),
        Bound::Excluded(value) => format!("({}", value_text(value)),
    };
    let high = match &interval.high {
        Bound::Unbounded => "…)".to_owned(),
        Bound::Included(value) => format!("{}]", value_text(value)),
        Bound::Excluded(value) => format!("{})", value_text(value)),
    };
    format!("in {low}, {high}")
}

/// A scalar as JSON; the bounds of a type and of a beginning of strings have no value of their own.
fn value_text(encoded: &[u8]) -> String {
    match EntryValue::new(encoded).scalar() {
        Some(Scalar::Null) => "null".to_owned(),
        Some(Scalar::Bool(value)) => value.to_string(),
        Some(Scalar::Number(double)) => Value::from(double).to_string(),
        Some(Scalar::String(text)) => {
            let mut out = String::new();
            write_string(&mut out, &text);
            out
        }
        None => match encoded {
            [0x05, ..] => "numbers".to_owned(),
            [0x06, ..] => "end of numbers".to_owned(),
            [0x08] => "strings".to_owned(),
            [0x09] => "end of strings".to_owned(),
            [0x08, beginning @ ..] => format!("{}…", String::from_utf8_lossy(beginning)),
            _ => "…".to_owned(),
        },
    }
}

fn kinds_text(kinds: Kinds) -> String {
    let named = [
        (kinds.undefined, "undefined"),
        (kinds.scalar, "scalar"),
        (kinds.array, "array"),
        (kinds.object, "object"),
    ];
    let names: Vec<&str> = named.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
    names.join(" or ")
}

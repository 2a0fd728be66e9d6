//! Which indexes a query can use, and which it would like to have.
//!
//! The service tells this of any query that asks for index metrics. A path that is filtered by has
//! an index of its own; a filter by equality and one by range together would gain from a composite
//! index, equalities first. The order of the lists is the service's: what is filtered last comes
//! first. A composite index of the policy is named, as the policy has it, where it finds what two
//! filters or more ask for, or has the order of several columns.
//!
//! What is told depends on the query and the policy only, not on how much there is to look at: a
//! path whose index would serve is named also where a scan is shorter.

use super::names::ItemNames;
use super::shape::aggregate_of;
use crate::ir::BinaryOperator;
use crate::query::Query as Meaning;
use crate::sql::ast::{Direction, Expr, OrderBy, OrderItem, Query, Selection};
use crate::sql::lower::Parameters;
use crate::sql::parser;
use partita_model::{
    CompositeIndex, CompositePath, IndexStep, IndexingPolicy, Result, Step, Value, json,
};

/// Indexes that serve a query, and indexes that would.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexMetrics {
    /// In the policy, and of use.
    pub utilized: Vec<IndexSpec>,
    /// Not in the policy, but of use if they were.
    pub potential: Vec<IndexSpec>,
}

/// An index as the service names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexSpec {
    /// `/a/b/?`
    Single(String),
    /// `/a ASC`, `/b ASC`
    Composite(Vec<String>),
}

/// How a path is filtered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Equality,
    /// One of several values.
    Choice,
    /// Several values: a comparison, or a function that looks at strings.
    Range,
}

type Path = Vec<String>;

/// Where a filter looks at more paths than this, their indexes take longer than the items.
const JUDGED_PATHS_MAX: usize = 3;

/// Finds the indexes that matter to a query under an indexing policy.
pub fn index_metrics(
    text: &str,
    parameters: &[(String, Value)],
    policy: &IndexingPolicy,
) -> Result<IndexMetrics> {
    let query = parser::parse_query(text, parameters).map_err(|error| error.into_error(text))?;
    let Some(from) = &query.from else { return Ok(IndexMetrics::default()) };
    let reader = Reader { names: ItemNames::of(from), parameters };
    let filters = reader.filters(&query);
    let mut metrics = IndexMetrics::default();
    let composites = reader.composites(&query, &filters);
    for path in reader.singles(&query, &filters, !composites.is_empty()) {
        let list =
            if is_indexed(policy, &path) { &mut metrics.utilized } else { &mut metrics.potential };
        list.push(single(&path));
    }
    let judged = judged(&Meaning::parse(text, parameters, &[])?, policy);
    let judged = judged.iter().filter(|path| filters.iter().all(|(known, _)| known != *path));
    metrics.utilized.extend(judged.map(single));

    let narrowing = reader.narrowing(&query, policy);
    let ordering = reader.ordering(&query, policy);
    for index in policy.composite() {
        let is_one = |found: Option<&CompositeIndex>| found.is_some_and(|one| one == index);
        let is_wanted = composites.iter().any(|paths| serves(index, paths));
        if is_one(narrowing) || is_one(ordering) || is_wanted {
            metrics.utilized.push(IndexSpec::Composite(index.paths.iter().map(column).collect()));
        }
    }
    for paths in composites {
        if !policy.composite().iter().any(|index| serves(index, &paths)) {
            let columns = paths.iter().map(|path| format!("{} ASC", path_text(path)));
            metrics.potential.push(IndexSpec::Composite(columns.collect()));
        }
    }
    Ok(metrics)
}

/// The paths whose indexes together decide a filter that none of them answers, as `c.a + c.b = 1`.
fn judged(query: &Meaning, policy: &IndexingPolicy) -> Vec<Path> {
    let Some(judge) = query.judge() else { return Vec::new() };
    let member = |step: &IndexStep| match step {
        IndexStep::Member(name) => Some(name.clone()),
        _ => None,
    };
    let paths: Option<Vec<Path>> =
        judge.paths().iter().map(|path| path.iter().map(member).collect()).collect();
    let of_use = |paths: &Vec<Path>| {
        paths.len() <= JUDGED_PATHS_MAX && paths.iter().all(|path| is_indexed(policy, path))
    };
    paths.filter(of_use).unwrap_or_default()
}

struct Reader<'a> {
    names: ItemNames,
    parameters: &'a Parameters,
}

impl Reader<'_> {
    /// All filters in the order of the text. What a projection computes from a path by way of an
    /// index counts too, unless it is aggregated.
    fn filters(&self, query: &Query) -> Vec<(Path, Use)> {
        let mut filters = Vec::new();
        match &query.select.selection {
            Selection::Value(expr) if aggregate_of(expr).is_none() => self.add(expr, &mut filters),
            Selection::List(items) => {
                let plain = items.iter().filter(|item| aggregate_of(&item.expr).is_none());
                plain.for_each(|item| self.add(&item.expr, &mut filters));
            }
            _ => {}
        }
        query.condition.iter().for_each(|expr| self.add(expr, &mut filters));
        filters
    }

    fn add(&self, expr: &Expr, filters: &mut Vec<(Path, Use)>) {
        let found = match expr {
            Expr::Chain { first, rest } => match rest.as_slice() {
                [(operator, second)] => {
                    use_of(*operator).map(|used| (vec![&**first, second], used))
                }
                _ => None,
            },
            Expr::In { negated: false, operand, .. } => Some((vec![&**operand], Use::Choice)),
            Expr::Between { operand, .. } | Expr::Like { operand, .. } => {
                Some((vec![&**operand], Use::Range))
            }
            Expr::Call { name, arguments, .. } => {
                call_use(name).map(|used| (arguments.iter().take(1).collect(), used))
            }
            _ => None,
        };
        let Some((operands, used)) = found else {
            return expr.for_each_part(&mut |part| self.add(part, filters));
        };
        let paths = operands.iter().filter_map(|operand| self.names.path(operand, self.parameters));
        filters.extend(paths.map(|path| (path, used)));
    }

    /// The paths whose own indexes are used, the last filter first.
    fn singles(&self, query: &Query, filters: &[(Path, Use)], composed: bool) -> Vec<Path> {
        let mut paths: Vec<Path> = Vec::new();
        for (path, _) in filters.iter().rev() {
            if !paths.contains(path) {
                paths.push(path.clone());
            }
        }
        let ordered = match &query.order_by {
            Some(OrderBy::Items(items)) => match items.as_slice() {
                [item] => self.names.path(&item.expr, self.parameters),
                _ => None,
            },
            _ => None,
        };
        if let Some(ordered) = ordered {
            // The index that orders is not told beside several that filter.
            if paths.len() > 1 && !composed {
                paths.retain(|path| *path != ordered);
            } else if !paths.contains(&ordered) {
                paths.push(ordered);
            }
        }
        paths
    }

    /// The columns of composite indexes that would serve the whole filter.
    fn composites(&self, query: &Query, filters: &[(Path, Use)]) -> Vec<Vec<Path>> {
        let of = |wanted: &[Use]| {
            let mut paths: Vec<Path> = Vec::new();
            for (path, used) in filters {
                if wanted.contains(used) && !paths.contains(path) {
                    paths.push(path.clone());
                }
            }
            paths
        };
        let (equal, ranges) = (of(&[Use::Equality, Use::Choice]), of(&[Use::Range]));
        if equal.is_empty() || !is_conjunction(query) {
            return Vec::new();
        }
        let with = |range: Path| equal.iter().cloned().chain([range]).collect::<Vec<Path>>();
        if !ranges.is_empty() {
            return ranges.into_iter().filter(|range| !equal.contains(range)).map(with).collect();
        }
        let groups = query.group_by.iter().map(|expr| self.names.path(expr, self.parameters));
        match groups.collect::<Option<Vec<Path>>>() {
            Some(groups) if groups.len() > 1 && groups.iter().all(|path| equal.contains(path)) => {
                vec![groups]
            }
            _ => Vec::new(),
        }
    }

    /// The composite index that narrows the filter most: by one value of each leading column, then
    /// by whatever the next one is filtered by.
    fn narrowing<'p>(
        &self,
        query: &Query,
        policy: &'p IndexingPolicy,
    ) -> Option<&'p CompositeIndex> {
        let condition = query.condition.as_ref().filter(|_| is_conjunction(query))?;
        let mut filters = Vec::new();
        self.add(condition, &mut filters);
        let narrowed = |index: &CompositeIndex| {
            let mut columns = 0;
            for column in &index.paths {
                let mut uses = filters.iter().filter(|(path, _)| is_at(column, path)).peekable();
                columns += usize::from(uses.peek().is_some());
                if !uses.any(|(_, used)| *used == Use::Equality) {
                    break;
                }
            }
            columns
        };
        let best = policy.composite().iter().max_by_key(|index| narrowed(index))?;
        (narrowed(best) > 1).then_some(best)
    }

    /// The composite index that has the order of several columns, or its reverse.
    fn ordering<'p>(
        &self,
        query: &Query,
        policy: &'p IndexingPolicy,
    ) -> Option<&'p CompositeIndex> {
        let Some(OrderBy::Items(items)) = &query.order_by else { return None };
        let has_order = |index: &&CompositeIndex| {
            let pairs = || index.paths.iter().zip(items);
            let is_same = |(column, item): (&CompositePath, &OrderItem)| {
                let path = self.names.path(&item.expr, self.parameters);
                path.is_some_and(|path| is_at(column, &path))
            };
            let turned = |(column, item): (&CompositePath, &OrderItem)| {
                column.descending != (item.direction == Some(Direction::Descending))
            };
            index.paths.len() == items.len()
                && pairs().all(is_same)
                && (pairs().all(turned) || !pairs().any(turned))
        };
        policy.composite().iter().find(has_order)
    }
}

fn is_indexed(policy: &IndexingPolicy, path: &Path) -> bool {
    let steps: Vec<Step<'_>> = path.iter().map(|name| Step::Member(name.as_str().into())).collect();
    policy.indexes(&steps)
}

fn single(path: &Path) -> IndexSpec {
    IndexSpec::Single(format!("{}/?", path_text(path)))
}

/// A column as the policy has it.
fn column(column: &CompositePath) -> String {
    format!("{} {}", column.text, if column.descending { "DESC" } else { "ASC" })
}

/// How an index serves a comparison.
fn use_of(operator: BinaryOperator) -> Option<Use> {
    match operator {
        BinaryOperator::Equal => Some(Use::Equality),
        BinaryOperator::Less
        | BinaryOperator::LessOrEqual
        | BinaryOperator::Greater
        | BinaryOperator::GreaterOrEqual
        | BinaryOperator::NotEqual => Some(Use::Range),
        _ => None,
    }
}

/// How an index serves a function of a path.
fn call_use(name: &str) -> Option<Use> {
    const BY_INDEX: [&str; 8] = [
        "STARTSWITH",
        "CONTAINS",
        "ENDSWITH",
        "STRINGEQUALS",
        "REGEXMATCH",
        "IS_DEFINED",
        "IS_NULL",
        "IS_STRING",
    ];
    BY_INDEX.iter().any(|known| known.eq_ignore_ascii_case(name)).then_some(Use::Range)
}

/// Must all filters hold? Then one index can serve them together.
fn is_conjunction(query: &Query) -> bool {
    query.condition.as_ref().is_some_and(|expr| {
        !expr.any(&|part| match part {
            Expr::Chain { rest, .. } => matches!(rest.first(), Some((BinaryOperator::Or, _))),
            Expr::Unary { .. } | Expr::Conditional { .. } | Expr::Coalesce(_) => true,
            _ => false,
        })
    })
}

/// Has an index these columns? Its directions make no difference, nor does the order of those
/// before the last.
fn serves(index: &CompositeIndex, paths: &[Path]) -> bool {
    let (Some((last, before)), Some((path, others))) =
        (index.paths.split_last(), paths.split_last())
    else {
        return false;
    };
    let is_there = |path: &Path| before.iter().any(|column| is_at(column, path));
    before.len() == others.len() && is_at(last, path) && others.iter().all(is_there)
}

fn is_at(column: &CompositePath, path: &Path) -> bool {
    let steps = column.path.steps();
    let is_step =
        |(step, name): (&IndexStep, &String)| matches!(step, IndexStep::Member(own) if own == name);
    steps.len() == path.len() && steps.iter().zip(path).all(is_step)
}

/// `/a/"b c"`: names of other characters than letters, digits and `_` are quoted.
fn path_text(path: &[String]) -> String {
    let mut text = String::new();
    for name in path {
        text.push('/');
        let plain = |character: char| character.is_alphanumeric() || character == '_';
        if !name.is_empty() && name.chars().all(plain) {
            text.push_str(name)
        } else {
            json::write_string(&mut text, name)
        }
    }
    text
}

//! Which indexes a query can use, and which it would like to have.
//!
//! The service tells this of any query that asks for index metrics. A path that is filtered by has
//! an index of its own; a filter by equality and one by range together would gain from a composite
//! index, equalities first. The order of the lists is the service's: what is filtered last comes
//! first.

use super::names::ItemNames;
use super::shape::aggregate_of;
use crate::ir::BinaryOperator;
use crate::sql::ast::{Expr, OrderBy, Query, Selection};
use crate::sql::lower::Parameters;
use crate::sql::parser;
use partita_model::{IndexStep, IndexingPolicy, Result, Step, Value, json};

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
    /// Several values: a comparison, or a function that looks at strings.
    Range,
}

type Path = Vec<String>;

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
        let steps: Vec<Step<'_>> =
            path.iter().map(|name| Step::Member(name.as_str().into())).collect();
        let list = match policy.indexes(&steps) {
            true => &mut metrics.utilized,
            false => &mut metrics.potential,
        };
        list.push(IndexSpec::Single(format!("{}/?", path_text(&path))));
    }
    for paths in composites {
        let list = match has_composite(policy, &paths) {
            true => &mut metrics.utilized,
            false => &mut metrics.potential,
        };
        let columns = paths.iter().map(|path| format!("{} ASC", path_text(path)));
        list.push(IndexSpec::Composite(columns.collect()));
    }
    Ok(metrics)
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
            Expr::In { negated: false, operand, .. } => Some((vec![&**operand], Use::Equality)),
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
        let of = |wanted: Use| {
            let mut paths: Vec<Path> = Vec::new();
            for (path, used) in filters {
                if *used == wanted && !paths.contains(path) {
                    paths.push(path.clone());
                }
            }
            paths
        };
        let (equal, ranges) = (of(Use::Equality), of(Use::Range));
        if equal.is_empty() || !is_conjunction(query.condition.as_ref()) {
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
fn is_conjunction(condition: Option<&Expr>) -> bool {
    condition.is_some_and(|expr| {
        !expr.any(&|part| match part {
            Expr::Chain { rest, .. } => matches!(rest.first(), Some((BinaryOperator::Or, _))),
            Expr::Unary { .. } | Expr::Conditional { .. } | Expr::Coalesce(_) => true,
            _ => false,
        })
    })
}

/// Is there such an index, in whichever direction?
fn has_composite(policy: &IndexingPolicy, paths: &[Path]) -> bool {
    policy.composite().iter().any(|index| {
        index.paths.len() == paths.len()
            && index.paths.iter().zip(paths).all(|(column, path)| {
                let steps = column.path.steps();
                steps.len() == path.len()
                    && steps.iter().zip(path).all(
                        |(step, name)| matches!(step, IndexStep::Member(member) if member == name),
                    )
            })
    })
}

/// `/a/"b c"`: names of other characters than letters, digits and `_` are quoted.
fn path_text(path: &[String]) -> String {
    let mut text = String::new();
    for name in path {
        text.push('/');
        let plain = |character: char| character.is_alphanumeric() || character == '_';
        match !name.is_empty() && name.chars().all(plain) {
            true => text.push_str(name),
            false => json::write_string(&mut text, name),
        }
    }
    text
}

//! ORDER BY RANK: one query per scoring function, whose ranks the client fuses.
//!
//! A score of a text depends on counts over the whole container: how many items there are, how many
//! words their texts have, how many items contain each term. The client gathers these first with
//! the statistics query and puts them where the component queries have placeholders.

use super::info::{HybridInfo, OrderColumn, QueryInfo};
use super::rewrite::{self, is_call};
use super::shape::Shape;
use super::vector;
use crate::sql::ast::{Expr, Query};
use crate::sql::error::SqlResult;
use crate::sql::lower::{self, Parameters};
use crate::sql::print;
use partita_model::{Value, VectorEmbeddingPolicy};

/// Every component gives at least so many rows, for ranks further down still count a little.
const ROWS_MIN: u64 = 120;
/// … and so many times as many as are wanted.
const ROWS_FACTOR: u64 = 2;

/// What the service writes for the worst score of all.
const WORST: &str = "1.79769e+308";

const TOTAL_DOCUMENTS: &str = "{documentdb-formattablehybridsearchquery-totaldocumentcount}";
const TOTAL_WORDS: &str = "{documentdb-formattablehybridsearchquery-totalwordcount-";
const HIT_COUNTS: &str = "{documentdb-formattablehybridsearchquery-hitcountsarray-";

/// One scoring function.
struct Component {
    /// The score as printed.
    score: String,
    /// Is a greater score better?
    descending: bool,
    /// What stands behind the score in ORDER BY.
    direction: &'static str,
    /// The score of an item that has none.
    missing: String,
    /// What the statistics query counts for it.
    statistics: Option<String>,
}

pub(super) fn plan(
    shape: &Shape<'_>,
    functions: &[Expr],
    parameters: &Parameters,
    vectors: Option<&VectorEmbeddingPolicy>,
    skip_rewrite: bool,
) -> SqlResult<HybridInfo> {
    let (scores, weights) = fused(functions, parameters);
    let mut components: Vec<Component> = Vec::with_capacity(scores.len());
    for (index, score) in scores.iter().enumerate() {
        let inverted = weights.get(index).is_some_and(|weight| *weight < 0.0);
        let texts = components.iter().filter(|one| one.statistics.is_some()).count();
        components.push(if is_call(score, "FullTextScore") {
            text_component(score, texts, inverted, parameters)
        } else {
            vector_component(score, inverted, parameters, vectors)
        });
    }
    let (skip, take) = match (shape.offset_limit, shape.top) {
        (Some((offset, limit)), _) => (Some(offset), Some(limit)),
        (None, top) => (None, top),
    };
    Ok(HybridInfo {
        statistics_query: statistics_query(shape.query, &components),
        needs_statistics: components.iter().any(|one| one.statistics.is_some()),
        components: (0..components.len())
            .map(|index| component_info(shape, &components, index, skip_rewrite))
            .collect(),
        weights: weights.iter().map(|weight| weight.abs()).collect(),
        skip,
        take,
    })
}

/// The scoring functions and their weights: `RRF(a, b, [1, 2])`, or one function alone.
fn fused<'a>(functions: &'a [Expr], parameters: &Parameters) -> (Vec<&'a Expr>, Vec<f64>) {
    let fusion = match functions {
        [call] if is_call(call, "RRF") => arguments(call),
        _ => functions,
    };
    let (scores, rest): (Vec<&Expr>, Vec<&Expr>) =
        fusion.iter().partition(|expr| matches!(expr, Expr::Call { .. }));
    let weights = rest.first().and_then(|weights| lower::constant(weights, parameters));
    let weights = weights.as_ref().and_then(Value::as_array);
    let weights = weights.unwrap_or_default().iter().filter_map(Value::as_f64).collect();
    (scores, weights)
}

fn text_component(
    score: &Expr,
    index: usize,
    inverted: bool,
    parameters: &Parameters,
) -> Component {
    let arguments = arguments(score);
    let path = arguments.first().map(print::expr).unwrap_or_default();
    let terms = terms(arguments.get(1..).unwrap_or_default(), parameters);
    let hits: Vec<String> =
        terms.iter().map(|term| format!("COUNTIF(FullTextContains({path}, {term}))")).collect();
    Component {
        score: format!(
            "_FullTextScore({path}, [{}], {TOTAL_DOCUMENTS}, {TOTAL_WORDS}{index}}}, \
             {HIT_COUNTS}{index}}})",
            terms.join(", ")
        ),
        descending: !inverted,
        direction: if inverted { " ASC" } else { " DESC" },
        missing: if inverted { WORST.to_owned() } else { "-1".to_owned() },
        statistics: Some(format!(
            "{{\"totalWordCount\": SUM(_FullTextWordCount({path})), \"hitCounts\": [{}]}}",
            hits.join(", ")
        )),
    }
}

fn vector_component(
    score: &Expr,
    inverted: bool,
    parameters: &Parameters,
    vectors: Option<&VectorEmbeddingPolicy>,
) -> Component {
    let printed: Vec<String> = arguments(score).iter().map(print::expr).collect();
    let greatest = vector::nearest_is_greatest(score, parameters, vectors).unwrap_or(true);
    let descending = greatest != inverted;
    Component {
        score: format!("_VectorScore({})", printed.join(", ")),
        descending,
        direction: match (inverted, descending) {
            (false, _) => "",
            (true, false) => " ASC",
            (true, true) => " DESC",
        },
        missing: if descending { format!("-{WORST}") } else { WORST.to_owned() },
        statistics: None,
    }
}

fn arguments(call: &Expr) -> &[Expr] {
    match call {
        Expr::Call { arguments, .. } => arguments,
        _ => &[],
    }
}

/// The search terms as printed. An array of terms, written or as a parameter, is so many terms.
fn terms(arguments: &[Expr], parameters: &Parameters) -> Vec<String> {
    let mut terms = Vec::new();
    for argument in arguments {
        match (argument, lower::constant(argument, parameters)) {
            (Expr::Array(elements), _) => terms.extend(elements.iter().map(print::expr)),
            (Expr::Parameter { .. }, Some(Value::Array(values))) => {
                terms.extend(values.iter().map(|value| print::expr(&Expr::Literal(value.clone()))))
            }
            (term, _) => terms.push(print::expr(term)),
        }
    }
    terms
}

fn statistics_query(query: &Query, components: &[Component]) -> String {
    let texts: Vec<&str> =
        components.iter().filter_map(|component| component.statistics.as_deref()).collect();
    let select =
        format!("SELECT COUNT(1) AS documentCount, [{}] AS fullTextStatistics", texts.join(", "));
    let from = query.from.as_ref().map(print::from);
    std::iter::once(select).chain(from).collect::<Vec<_>>().join("\n")
}

fn component_info(
    shape: &Shape<'_>,
    components: &[Component],
    index: usize,
    skip_rewrite: bool,
) -> QueryInfo {
    let Some(component) = components.get(index) else { return QueryInfo::default() };
    let rows = Rows::of(shape);
    let scores: Vec<String> = components
        .iter()
        .map(|component| format!("({} ?? {})", component.score, component.missing))
        .collect();
    let scores = format!("[{}]", scores.join(", "));
    let (root, payload) = (shape.root(), rewrite::payload(shape));
    let score = &component.score;
    let mut lines = Vec::new();
    lines.push(if skip_rewrite {
        format!(
            "SELECT {}{root}._rid, {payload} AS payload, {scores} AS componentScores",
            rows.top_text
        )
    } else {
        format!(
            "SELECT {}{root}._rid, [{{\"item\": {score}}}] AS orderByItems, {{\"payload\": \
             {payload}, \"componentScores\": {scores}}} AS payload",
            rows.top_text
        )
    });
    lines.extend(shape.query.from.as_ref().map(print::from));
    lines.extend(match (skip_rewrite, &shape.query.condition) {
        (false, _) => Some(format!("WHERE {}", rewrite::resumable(shape))),
        (true, condition) => condition.as_ref().map(|expr| format!("WHERE {}", print::expr(expr))),
    });
    lines.push(format!("ORDER BY {score}{}", component.direction));
    lines.extend(rows.limit.map(|limit| format!("OFFSET 0 LIMIT {limit}")));
    let column = OrderColumn { expression: score.clone(), descending: component.descending };
    QueryInfo {
        top: rows.top,
        offset: rows.limit.map(|_| 0),
        limit: rows.limit,
        order_by: if skip_rewrite { Vec::new() } else { vec![column] },
        rewritten: lines.join("\n"),
        has_non_streaming_order_by: !skip_rewrite,
        ..QueryInfo::default()
    }
}

/// How many rows a component gives, in the clause that the query used.
///
/// The numbers wrap at 32 bits as the service's do, except in the text of TOP.
struct Rows {
    top: Option<u64>,
    top_text: String,
    limit: Option<u64>,
}

impl Rows {
    fn of(shape: &Shape<'_>) -> Rows {
        let rows = |wanted: u64| wanted.saturating_mul(ROWS_FACTOR).max(ROWS_MIN);
        let wrapped = |rows: u64| rows & u64::from(u32::MAX);
        match (shape.offset_limit, shape.top) {
            (Some((offset, limit)), _) => {
                let limit = wrapped(rows(offset.saturating_add(limit)));
                Rows { top: None, top_text: String::new(), limit: Some(limit) }
            }
            (None, Some(top)) => {
                let rows = rows(top);
                let top_text = format!("TOP {rows} ");
                Rows { top: Some(wrapped(rows)), top_text, limit: None }
            }
            (None, None) => Rows { top: None, top_text: String::new(), limit: None },
        }
    }
}

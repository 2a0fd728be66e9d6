//! Queries: `{"query": "…", "parameters": [{"name": "@x", "value": …}]}`, and what its headers ask.
//!
//! One body serves three requests. On the feeds of databases, containers and other resources it
//! picks some of them, or makes rows of them. On a container's items it is a query, or the question
//! how a client should run one over many partitions: a *plan*. Members of the body that we do not
//! know are left alone, as clients add some that mean nothing to a server.

use http::Method;
use partita_engine::{
    ChangesQuery, ContainerPath, Op, PageRequest, PlanHint, PlanQueryRequest, QueryRequest, Serving,
};
use partita_model::{Error, ErrorKind, Result, Value};
use partita_query::{Filter, PlainRow, Query};

use super::items::scope;
use super::{Incoming, ResponseOptions, wrong_type};
use crate::headers::{self, Headers};

/// What the client wants to know beside the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueryOptions {
    /// How the query was executed, instead of its rows.
    pub(crate) explain: bool,
    /// Times and counts.
    pub(crate) metrics: bool,
    /// Which indexes were used, and which would help.
    pub(crate) index_metrics: Option<IndexMetrics>,
    /// The request names a partition key.
    pub(crate) keyed: bool,
    /// The request is for a plan: its errors have another introduction.
    pub(crate) plan: bool,
}

/// The two forms in which SDKs read index metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexMetrics {
    V1,
    V2,
}

/// What a query's body says.
struct QueryBody {
    text: String,
    parameters: Vec<(String, Value)>,
    resume: Option<Value>,
}

/// Is this a request for a list of databases, containers or other resources, or a query over it?
pub(super) fn is_list(incoming: &Incoming<'_>) -> Result<bool> {
    Ok(match *incoming.method {
        Method::GET => true,
        Method::POST => incoming.headers.is_query()?,
        _ => false,
    })
}

/// The list, or a query over it. Most queries only pick some of what `op` lists; the others are
/// run on the whole list.
pub(super) fn list(
    incoming: &Incoming<'_>,
    op: impl FnOnce(Option<Filter>, PageRequest) -> Op,
) -> Result<Op> {
    let page = incoming.headers.page()?;
    if incoming.method == Method::GET {
        return Ok(op(None, page));
    }
    Ok(match Selection::parse(&incoming.body)? {
        Selection::Some(filter) => op(Some(filter), page),
        Selection::Rows(query) => {
            let list = Box::new(op(None, PageRequest::default()));
            Op::QueryResources { list, query, page }
        }
    })
}

/// What a query does with resources.
pub(super) enum Selection {
    /// It picks some, and leaves them whole.
    Some(Filter),
    Rows(Query),
}

impl Selection {
    pub(super) fn parse(body: &[u8]) -> Result<Selection> {
        let body = QueryBody::parse(body)?;
        match Filter::parse_query(&body.text, &body.parameters) {
            Ok(filter) => Ok(Selection::Some(filter)),
            Err(error) if error.kind == ErrorKind::Unsupported => {
                Query::parse(&body.text, &body.parameters, &[]).map(Selection::Rows)
            }
            Err(error) => Err(error),
        }
    }
}

/// A query over a container's items.
pub(super) fn query(container: ContainerPath, incoming: &Incoming<'_>) -> Result<Op> {
    let headers = incoming.headers;
    let QueryBody { text, parameters, resume } = QueryBody::parse(&incoming.body)?;
    let query = QueryRequest {
        text,
        parameters,
        resume,
        scope: scope(headers)?,
        cross_partition: headers.flag(&headers::ENABLE_CROSS_PARTITION)?,
        page: headers.page()?,
        token_bytes_max: headers.token_bytes_max()?,
        serving: serving(headers)?,
        plan_hint: PlanHint::Best,
        explain: explains(headers)?,
    };
    Ok(Op::Query { container, query: Box::new(query) })
}

/// A query that filters the change feed.
pub(super) fn of_changes(incoming: &Incoming<'_>) -> Result<ChangesQuery> {
    let QueryBody { text, parameters, .. } = QueryBody::parse(&incoming.body)?;
    let previous = match Value::parse(&incoming.body)?.get("enableQueryOnPreviousImage") {
        None | Some(Value::Null) => false,
        Some(value) => {
            let name = "enableQueryOnPreviousImage";
            value.as_bool().ok_or_else(|| wrong_type(name, "true or false"))?
        }
    };
    Ok(ChangesQuery { text, parameters, previous })
}

/// Are its rows items, whole? What is wrong with the query is refused by those who run it.
pub(super) fn selects_items(text: &str, parameters: &[(String, Value)]) -> bool {
    Query::parse(text, parameters, &[])
        .is_ok_and(|query| query.facts().plain == Some(PlainRow::Item))
}

/// Does the client want to know how the query was executed, in any form?
fn explains(headers: Headers<'_>) -> Result<bool> {
    Ok(headers.flag(&headers::EXPLAIN)?
        || headers.flag(&headers::POPULATE_QUERY_METRICS)?
        || index_metrics(headers)?.is_some())
}

/// How a client should run a query.
pub(super) fn plan(container: ContainerPath, incoming: &Incoming<'_>) -> Result<Op> {
    let headers = incoming.headers;
    let QueryBody { text, parameters, .. } = QueryBody::parse(&incoming.body)?;
    let features = headers.text(&headers::QUERY_FEATURES)?.map(str::to_owned);
    let partition_key = headers.partition_key()?;
    let query = PlanQueryRequest { text, parameters, features, partition_key };
    Ok(Op::PlanQuery { container, query: Box::new(query) })
}

/// What the client wants of the answer to a query or a plan.
pub(super) fn options(headers: Headers<'_>) -> Result<ResponseOptions> {
    let query = QueryOptions {
        explain: headers.flag(&headers::EXPLAIN)?,
        metrics: headers.flag(&headers::POPULATE_QUERY_METRICS)?,
        index_metrics: index_metrics(headers)?,
        keyed: headers.partition_key()?.is_some_and(|key| !key.0.is_empty()),
        plan: headers.flag(&headers::IS_QUERY_PLAN)?,
    };
    Ok(ResponseOptions { query, ..ResponseOptions::default() })
}

/// The form in which the client wants index metrics, if it does.
fn index_metrics(headers: Headers<'_>) -> Result<Option<IndexMetrics>> {
    if headers.flag(&headers::POPULATE_INDEX_METRICS_V2)? {
        return Ok(Some(IndexMetrics::V2));
    }
    Ok(headers.flag(&headers::POPULATE_INDEX_METRICS)?.then_some(IndexMetrics::V1))
}

/// Who puts the answers of several partitions together: by default the client, as at the service.
fn serving(headers: Headers<'_>) -> Result<Serving> {
    let words = [("service", Serving::AsService), ("global", Serving::Global)];
    let serving = headers.choice(&headers::QUERY_SERVING, words, "must be service or global")?;
    Ok(serving.unwrap_or(Serving::AsService))
}

impl QueryBody {
    fn parse(body: &[u8]) -> Result<QueryBody> {
        let body = Value::parse(body)?;
        let text = body.get("query").and_then(Value::as_str);
        let text = text.ok_or_else(|| wrong_type("query", "a string"))?.to_owned();
        let resume = body.get("resumeFilter").filter(|resume| !resume.is_null()).cloned();
        Ok(QueryBody { text, parameters: parameters(&body)?, resume })
    }
}

fn parameters(body: &Value) -> Result<Vec<(String, Value)>> {
    let list = match body.get("parameters") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(list) => list.as_array().ok_or_else(|| wrong_type("parameters", "an array"))?,
    };
    let mut parameters = Vec::with_capacity(list.len());
    for entry in list {
        let name = entry.get("name").and_then(Value::as_str);
        let (Some(name), Some(value)) = (name, entry.get("value")) else {
            return Err(Error::bad_request(format!(
                "The query parameter {entry} must be an object with a string 'name' and a 'value'."
            )));
        };
        parameters.push((name.to_owned(), value.clone()));
    }
    Ok(parameters)
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue, Uri};
    use partita_gateway::Head;

    use super::*;

    fn with(pairs: &[(HeaderName, &'static str)]) -> Head {
        let pair = |(name, text): &(HeaderName, &'static str)| {
            (name.clone(), HeaderValue::from_static(text))
        };
        Head::new(&Uri::from_static("/"), &pairs.iter().map(pair).collect())
    }

    #[test]
    fn parameters_are_bound_by_name() {
        let body = br#"{"query":"SELECT * FROM root r WHERE r.id=@id","parameters":[{"name":"@id","value":"x"}]}"#;
        let Ok(Selection::Some(filter)) = Selection::parse(body) else { panic!() };
        let row = |id: &str| Value::from(partita_model::Object::new().with("id", id));
        assert!(filter.matches(&row("x")).unwrap());
        assert!(!filter.matches(&row("y")).unwrap());
    }

    #[test]
    fn parameters_may_be_absent_and_unknown_members_are_left_alone() {
        for body in [
            r#"{"query":"q"}"#,
            r#"{"query":"q","parameters":null}"#,
            r#"{"query":"q","parameters":[]}"#,
            r#"{"query":"q","options":{"x":1},"clientQLCompatibilityLevel":1,"resumeFilter":null}"#,
        ] {
            let body = QueryBody::parse(body.as_bytes()).unwrap();
            assert_eq!((body.text.as_str(), body.parameters.len()), ("q", 0));
            assert_eq!(body.resume, None);
        }
        let body = QueryBody::parse(br#"{"query":"q","resumeFilter":{"value":[1]}}"#).unwrap();
        assert!(body.resume.is_some_and(|resume| resume.get("value").is_some()));
    }

    #[test]
    fn bodies_that_are_no_query_are_refused() {
        for body in [
            "",
            "[]",
            "{}",
            r#"{"query":1}"#,
            r#"{"query":"SELECT * FROM r","parameters":{}}"#,
            r#"{"query":"SELECT * FROM r","parameters":[{"name":"@a"}]}"#,
            r#"{"query":"SELECT * FROM r","parameters":["@a"]}"#,
        ] {
            let Err(error) = Selection::parse(body.as_bytes()) else { panic!("{body}") };
            assert_eq!(error.kind, ErrorKind::BadRequest, "{body}");
        }
    }

    #[test]
    fn a_continuation_is_limited_in_kilobytes() {
        let read =
            |text| Headers::new(&with(&[(headers::CONTINUATION_KB_MAX, text)])).token_bytes_max();
        assert_eq!(read("1"), Ok(Some(1024)));
        assert_eq!(Headers::new(&with(&[])).token_bytes_max(), Ok(None));
        for text in ["0", "-1", "x"] {
            assert_eq!(read(text).unwrap_err().kind, ErrorKind::BadRequest);
        }
    }

    #[test]
    fn the_newer_form_of_index_metrics_wins() {
        let read = |pairs: &[(HeaderName, &'static str)]| {
            options(Headers::new(&with(pairs))).map(|options| options.query.index_metrics)
        };
        let (v1, v2) = (headers::POPULATE_INDEX_METRICS, headers::POPULATE_INDEX_METRICS_V2);
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(
            read(&[(v1.clone(), "True"), (v2.clone(), "False")]),
            Ok(Some(IndexMetrics::V1))
        );
        assert_eq!(read(&[(v1, "True"), (v2, "True")]), Ok(Some(IndexMetrics::V2)));
    }

    #[test]
    fn only_two_ways_of_serving_are_known() {
        let read = |text| serving(Headers::new(&with(&[(headers::QUERY_SERVING, text)])));
        assert_eq!(read("global"), Ok(Serving::Global));
        assert_eq!(read("Service"), Ok(Serving::AsService));
        assert!(read("local").unwrap_err().message.contains("'local'"));
    }
}

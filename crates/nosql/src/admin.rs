//! The admin API: requests about a container's physical partitions, below `/_partita/`.
//!
//! | Request | What it does |
//! |---|---|
//! | `GET …/partitions?top=N` | describes them, with the N largest logical partitions (10) |
//! | `POST …/partitions/{id}/split` | begins a split: `{"mode":"storage"}`, `midpoint` or `epk` |
//! | `POST …/partitions/merge` | begins a merge of neighbours: `{"ids":["1","2"]}` |
//! | `GET …/queries` | the queries that were asked lately, without the values of parameters |
//! | `GET …/explain-key?key=["a"]` | where a partition key lives |
//!
//! `…` is `/_partita/databases/{database}/containers/{container}`. The paths follow the management
//! API of Microsoft's open-source emulator, which has no keys; here the account's keys are needed
//! as for everything else. A client signs the type `_partita` and its path without the leading
//! slash.

use http::Method;
use partita_engine::{ContainerPath, Op, SplitAt};
use partita_model::{Epk, Error, PartitionKeyHeader, Result, Value};

use crate::link::decode;

/// Logical partitions that are listed when nobody says how many.
const TOP_DEFAULT: usize = 10;

/// The first segment of every path.
pub(crate) const ROOT: &str = "_partita";

/// What an admin request addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AdminLink {
    container: ContainerPath,
    target: Target,
    /// The query string, as it came.
    query: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Partitions,
    Split { range_id: String },
    Merge,
    Queries,
    ExplainKey,
}

/// Takes the part of a path behind [`ROOT`] apart. None: there is nothing of that kind.
pub(crate) fn route(segments: &[&str], query: Option<&str>) -> Result<Option<AdminLink>> {
    let ["databases", database, "containers", container, inside @ ..] = segments else {
        return Ok(None);
    };
    let target = match inside {
        ["partitions"] => Target::Partitions,
        ["partitions", "merge"] => Target::Merge,
        ["partitions", id, "split"] => Target::Split { range_id: decode(id)?.into_owned() },
        ["queries"] => Target::Queries,
        ["explain-key"] => Target::ExplainKey,
        _ => return Ok(None),
    };
    let container = ContainerPath {
        database: decode(database)?.into_owned(),
        container: decode(container)?.into_owned(),
    };
    Ok(Some(AdminLink { container, target, query: query.unwrap_or_default().to_owned() }))
}

/// The operation that a request asks for.
pub(crate) fn read(link: AdminLink, method: &Method, body: &[u8]) -> Result<Op> {
    let AdminLink { container, target, query } = link;
    match (target, method) {
        (Target::Partitions, &Method::GET) => {
            let top = match parameter(&query, "top")? {
                None => TOP_DEFAULT,
                Some(text) => text.parse().map_err(|_| {
                    Error::bad_request(format!("top={text}: give a number, for example top=10."))
                })?,
            };
            Ok(Op::DescribePartitions { container, top })
        }
        (Target::Split { range_id }, &Method::POST) => {
            Ok(Op::SplitPartition { container, range_id, at: split_at(body)? })
        }
        (Target::Merge, &Method::POST) => {
            Ok(Op::MergePartitions { container, range_ids: merged(body)? })
        }
        (Target::Split { .. } | Target::Merge, _) => Err(not_allowed(method, "POST")),
        (Target::Queries, &Method::GET) => Ok(Op::RecentQueries { container }),
        (Target::ExplainKey, &Method::GET) => {
            let key = parameter(&query, "key")?.ok_or_else(|| {
                Error::bad_request(
                    "Say which partition key: ?key=[\"a\"], a JSON array with one value per path \
                     (percent-encoded).",
                )
            })?;
            Ok(Op::LocateKey { container, key: PartitionKeyHeader::parse(&key)? })
        }
        (Target::Partitions | Target::Queries | Target::ExplainKey, _) => {
            Err(not_allowed(method, "GET"))
        }
    }
}

pub(crate) fn not_allowed(method: &Method, accepted: &str) -> Error {
    Error::method_not_allowed(format!("The method {method} is not allowed here: use {accepted}."))
}

/// Where a split divides. An empty body asks for the usual: by storage.
fn split_at(body: &[u8]) -> Result<SplitAt> {
    if body.is_empty() {
        return Ok(SplitAt::Storage);
    }
    let body = Value::parse(body)?;
    let text = |name: &str| body.get(name).and_then(Value::as_str);
    match (text("mode"), text("epk")) {
        (Some("epk"), Some(epk)) => Epk::parse_hex(epk).map(SplitAt::Epk).ok_or_else(|| {
            Error::bad_request(format!(
                "'{epk}' is no EPK: give an even number of hexadecimal digits, as explain-key \
                     prints them."
            ))
        }),
        (Some("epk"), None) => {
            Err(Error::bad_request("The mode epk needs the EPK to split at: \"epk\":\"1F…\"."))
        }
        (Some("midpoint"), None) => Ok(SplitAt::Midpoint),
        (Some("storage") | None, None) => Ok(SplitAt::Storage),
        (mode, _) => Err(Error::bad_request(format!(
            "The mode '{}' with these members makes no sense: say \"storage\" (half of the bytes on \
             each side), \"midpoint\" (half of the hash range), or \"epk\" together with an \"epk\".",
            mode.unwrap_or_default()
        ))),
    }
}

/// The range ids to merge.
fn merged(body: &[u8]) -> Result<Vec<String>> {
    let body = Value::parse(body)?;
    let ids = body.get("ids").and_then(Value::as_array).unwrap_or_default();
    let ids: Option<Vec<String>> = ids.iter().map(|id| id.as_str().map(str::to_owned)).collect();
    ids.filter(|ids| !ids.is_empty()).ok_or_else(|| {
        Error::bad_request("Say which neighbours to merge: {\"ids\":[\"1\",\"2\"]}.")
    })
}

/// A parameter of the query string, decoded.
fn parameter(query: &str, name: &str) -> Result<Option<String>> {
    let mut pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    match pairs.find(|(known, _)| *known == name) {
        Some((_, value)) => Ok(Some(decode(value)?.into_owned())),
        None => Ok(None),
    }
}

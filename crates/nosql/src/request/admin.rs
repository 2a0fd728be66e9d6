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
//! `…` is `/_partita/databases/{database}/containers/{container}`.

use http::Method;
use partita_engine::{Op, SplitAt};
use partita_model::{Epk, Error, PartitionKeyHeader, Result, Value};

use super::not_allowed_here;
use crate::link::{AdminLink, AdminResource, decode};

/// Logical partitions that are listed when nobody says how many.
const TOP_DEFAULT: usize = 10;

/// The operation that a request asks for.
pub(super) fn read(link: AdminLink, method: &Method, body: &[u8]) -> Result<Op> {
    let AdminLink { container, resource, query } = link;
    match (resource, method) {
        (AdminResource::Partitions, &Method::GET) => {
            let top = match parameter(&query, "top")? {
                None => TOP_DEFAULT,
                Some(text) => text.parse().map_err(|_| {
                    Error::bad_request(format!("top={text}: give a number, for example top=10."))
                })?,
            };
            Ok(Op::DescribePartitions { container, top })
        }
        (AdminResource::Split { range_id }, &Method::POST) => {
            Ok(Op::SplitPartition { container, range_id, at: split_at(body)? })
        }
        (AdminResource::Merge, &Method::POST) => {
            Ok(Op::MergePartitions { container, range_ids: merged(body)? })
        }
        (AdminResource::Split { .. } | AdminResource::Merge, _) => {
            Err(not_allowed_here(method, "POST"))
        }
        (AdminResource::Queries, &Method::GET) => Ok(Op::RecentQueries { container }),
        (AdminResource::ExplainKey, &Method::GET) => {
            let key = parameter(&query, "key")?.ok_or_else(|| {
                Error::bad_request(
                    "Say which partition key: ?key=[\"a\"], a JSON array with one value per path \
                     (percent-encoded).",
                )
            })?;
            Ok(Op::LocateKey { container, key: PartitionKeyHeader::parse(&key)? })
        }
        (AdminResource::Partitions | AdminResource::Queries | AdminResource::ExplainKey, _) => {
            Err(not_allowed_here(method, "GET"))
        }
    }
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

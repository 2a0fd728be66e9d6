//! The admin API: requests about a container's physical partitions, below `/_partita/`.
//!
//! | Request | What it does |
//! |---|---|
//! | `GET …/partitions?top=N` | describes them, with the N largest logical partitions (10) |
//! | `GET …/queries` | the queries that were asked lately, without the values of parameters |
//! | `GET …/explain-key?key=["a"]` | where a partition key lives |
//!
//! `…` is `/_partita/databases/{database}/containers/{container}`. The paths follow the management
//! API of Microsoft's open-source emulator, which has no keys; here the account's keys are needed
//! as for everything else. A client signs the type `_partita` and its path without the leading
//! slash.

use http::Method;
use partita_engine::{ContainerPath, Op};
use partita_model::{Error, PartitionKeyHeader, Result};

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
pub(crate) fn read(link: AdminLink, method: &Method) -> Result<Op> {
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
        (Target::Partitions | Target::Queries | Target::ExplainKey, _) => Err(
            Error::method_not_allowed(format!("The method {method} is not allowed here: use GET.")),
        ),
    }
}

/// A parameter of the query string, decoded.
fn parameter(query: &str, name: &str) -> Result<Option<String>> {
    let mut pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    match pairs.find(|(known, _)| *known == name) {
        Some((_, value)) => Ok(Some(decode(value)?.into_owned())),
        None => Ok(None),
    }
}

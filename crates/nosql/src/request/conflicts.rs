//! Requests on conflicts. There are none (see the engine), but the rules of asking are the same.

use http::Method;
use partita_engine::{ContainerPath, Op};
use partita_model::{Error, Result};

use super::{Incoming, not_allowed, query};
use crate::headers;

/// The service's text for a query that names no partition key and does not allow to ask them all.
const CROSS_PARTITION: &str = "Cross partition query is required but disabled. Please set \
    x-ms-documentdb-query-enablecrosspartition to true, specify x-ms-documentdb-partitionkey, or \
    revise your query to avoid this exception.";

/// The conflicts of a container.
pub(super) fn conflicts(container: ContainerPath, incoming: Incoming<'_>) -> Result<Op> {
    let headers = incoming.headers;
    match *incoming.method {
        Method::GET => Ok(Op::ListConflicts { container }),
        Method::POST if headers.is_query()? => {
            // Java clients name a range.
            let named = headers.text(&headers::PARTITION_KEY)?.is_some()
                || headers.text(&headers::RANGE_ID)?.is_some();
            if !named && !headers.flag(&headers::ENABLE_CROSS_PARTITION)? {
                return Err(Error::bad_request(CROSS_PARTITION));
            }
            // No row can pass, but what is no query is refused all the same.
            query::Selection::parse(&incoming.body)?;
            Ok(Op::ListConflicts { container })
        }
        _ => Err(not_allowed(incoming.method, "the conflicts of a container", "GET or a query")),
    }
}

/// One conflict.
pub(super) fn conflict(container: ContainerPath, id: String, incoming: Incoming<'_>) -> Result<Op> {
    match *incoming.method {
        Method::GET | Method::DELETE => Ok(Op::FindConflict { container, id }),
        _ => Err(not_allowed(incoming.method, "a conflict", "GET or DELETE")),
    }
}

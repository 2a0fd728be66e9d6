//! The answer that carries one item, whole: by far the most frequent one.
//!
//! It has two dozen headers, always the same ones, so their names are here as they are written, and
//! only the values between them are looked at. All of these are made of digits, letters and signs
//! that a header may have, by those who make them; only the location is checked, as it repeats what
//! the client or an operator wrote.

use http::header;
use partita_engine::{Change, Outcome, Reply};
use partita_gateway::Lines;

use super::{EVERYWHERE, HEADERS_BYTES, ITEM_QUOTA, ResponseContext, alternative_path};
use crate::session;
use crate::text::{self, number};

/// All headers of an answer that carries an item; None if this one does not.
pub(super) fn headers(reply: &Reply, context: &ResponseContext<'_>) -> Option<Lines> {
    let Reply { result: Ok(Outcome::Item { etag, change, .. }), log: None, .. } = reply else {
        return None;
    };
    let (served, container) = (reply.served.as_ref()?, reply.container.as_deref()?);
    let item_lsn = number(served.item_lsn?.0);
    if context.options.minimal && *change != Change::None {
        return None;
    }
    // There is one replica, so every way of counting LSNs gives the same number.
    let lsn = number(served.lsn.0);
    let (item_lsn, lsn) = (item_lsn.as_bytes(), lsn.as_bytes());
    let mut lines = Lines::with_capacity(HEADERS_BYTES);
    let mut put = |name: &str, value: &[u8]| {
        lines.push_written(name.as_bytes());
        lines.push_written(value);
    };
    put("x-ms-activity-id: ", context.activity_id.as_bytes());
    put("\r\nx-ms-request-charge: ", text::charge(reply.charge).as_bytes());
    put("\r\nx-ms-request-duration-ms: ", text::millis(context.nanos).as_bytes());
    put("\r\nx-ms-documentdb-partitionkeyrangeid: ", number(served.range_id).as_bytes());
    put("\r\nx-ms-session-token: ", session::token(served).as_bytes());
    put("\r\nx-ms-content-path: ", container.rid.to_text().as_bytes());
    put("\r\nx-ms-alt-content-path: ", alternative_path(container, context.address).as_bytes());
    put("\r\netag: ", text::etag(etag).as_bytes());
    put("\r\nx-ms-item-lsn: ", item_lsn);
    put("\r\nx-ms-cosmos-item-llsn: ", item_lsn);
    put("\r\nlsn: ", lsn);
    put("\r\nx-ms-global-committed-lsn: ", lsn);
    put("\r\nx-ms-quorum-acked-lsn: ", lsn);
    put("\r\nx-ms-cosmos-llsn: ", lsn);
    put("\r\nx-ms-cosmos-quorum-acked-llsn: ", lsn);
    lines.push_written(b"\r\n");
    lines.push_written(ITEM_QUOTA);
    if let Some(location) = &context.location {
        lines.push_parts(&header::CONTENT_LOCATION, &location.parts().map(str::as_bytes));
    }
    lines.push_written(EVERYWHERE);
    lines.push_written(b"content-type: application/json\r\n");
    Some(lines)
}

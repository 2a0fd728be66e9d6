//! The answer that carries one item, whole: by far the most frequent one.
//!
//! It has two dozen headers, always the same ones. Put into a map one by one, each name is hashed
//! and looked for; here a map that holds them all is copied, and the values that differ are
//! replaced as the map lists them: a copy lists its headers in the order of its original, and that
//! in the order in which they were put in. The texts of an answer share one piece of memory.

use std::sync::LazyLock;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use partita_engine::{Change, Container, Outcome, Reply, Served};
use partita_model::{Etag, Lsn};

use super::{EVERYWHERE, Frame, JSON, alternative_path};
use crate::headers;
use crate::session;
use crate::text::{self, Text};

/// The headers whose values differ from answer to answer. The last one is for reads only.
const DIFFERENT: [HeaderName; 16] = [
    headers::ACTIVITY_ID,
    headers::REQUEST_CHARGE,
    headers::REQUEST_DURATION,
    headers::RANGE_ID,
    headers::SESSION_TOKEN,
    headers::CONTENT_PATH,
    headers::ALT_CONTENT_PATH,
    header::ETAG,
    headers::ITEM_LSN,
    headers::ITEM_LOCAL_LSN,
    headers::LSN,
    headers::GLOBAL_COMMITTED_LSN,
    headers::QUORUM_ACKED_LSN,
    headers::LOCAL_LSN,
    headers::QUORUM_ACKED_LOCAL_LSN,
    header::CONTENT_LOCATION,
];

static READ: LazyLock<HeaderMap> = LazyLock::new(|| template(&DIFFERENT));
static WRITTEN: LazyLock<HeaderMap> =
    LazyLock::new(|| template(DIFFERENT.split_last().map_or(&[][..], |(_, others)| others)));

const NOTHING: HeaderValue = HeaderValue::from_static("");

fn template(different: &[HeaderName]) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(DIFFERENT.len() + EVERYWHERE.len() + 1);
    for name in different {
        headers.insert(name, NOTHING);
    }
    for (name, value) in EVERYWHERE {
        headers.insert(name, value);
    }
    headers.insert(header::CONTENT_TYPE, JSON);
    headers
}

/// All headers of an answer that carries an item; None if this one does not.
pub(super) fn headers(reply: &Reply, frame: &Frame<'_>) -> Option<HeaderMap> {
    let Reply { result: Ok(Outcome::Item { etag, change, .. }), log: None, .. } = reply else {
        return None;
    };
    let (served, container) = (reply.served.as_ref()?, reply.container.as_deref()?);
    let item_lsn = served.item_lsn?;
    if frame.shape.minimal && *change != Change::None {
        return None;
    }
    let told = Told { served, item_lsn, container, etag };
    let [activity, charge, duration, range, session, path, alternative, etag, item, lsn, location] =
        texts(reply, &told, frame)?;
    let values = [
        activity,
        charge,
        duration,
        range,
        session,
        path,
        alternative,
        etag,
        item.clone(),
        item,
        // There is one replica, so every way of counting LSNs gives the same number.
        lsn.clone(),
        lsn.clone(),
        lsn.clone(),
        lsn.clone(),
        lsn,
        location,
    ];
    let (template, different) = match frame.location {
        Some(_) => (&*READ, DIFFERENT.len()),
        None => (&*WRITTEN, DIFFERENT.len() - 1),
    };
    let mut headers = template.clone();
    for (place, value) in headers.values_mut().zip(values.into_iter().take(different)) {
        *place = value;
    }
    Some(headers)
}

/// What an item's answer tells.
struct Told<'a> {
    served: &'a Served,
    item_lsn: Lsn,
    container: &'a Container,
    etag: &'a Etag,
}

/// The texts in the order of their headers. None if one cannot be a header.
fn texts(reply: &Reply, told: &Told<'_>, frame: &Frame<'_>) -> Option<[HeaderValue; 11]> {
    let Told { served, item_lsn, container, etag } = told;
    let number = |number: u64| Text::new().number(number);
    let charge = text::charge(reply.charge);
    let duration = text::millis(frame.nanos);
    let range = number(u64::from(served.range_id));
    let session = session::token(served);
    let path = container.rid.to_text();
    let alternative = alternative_path(container, frame.address);
    let etag = text::etag(etag);
    let (item, lsn) = (number(item_lsn.0), number(served.lsn.0));
    let location = frame.location.as_ref().map_or([""; 4], |location| location.parts());
    shared([
        &[frame.activity_id.as_bytes()],
        &[charge.as_bytes()],
        &[duration.as_bytes()],
        &[range.as_bytes()],
        &[session.as_bytes()],
        &[path.as_bytes()],
        &[alternative.as_bytes()],
        &[etag.as_bytes()],
        &[item.as_bytes()],
        &[lsn.as_bytes()],
        &location.map(str::as_bytes),
    ])
}

/// Texts, each given in parts, as parts of one piece of memory.
fn shared<const N: usize>(texts: [&[&[u8]]; N]) -> Option<[HeaderValue; N]> {
    let length = |text: &[&[u8]]| -> usize { text.iter().map(|part| part.len()).sum() };
    let mut all = Vec::with_capacity(texts.iter().map(|text| length(text)).sum());
    for part in texts.into_iter().flatten() {
        all.extend_from_slice(part);
    }
    let all = Bytes::from(all);
    let (mut start, mut possible) = (0, true);
    let values = texts.map(|text| {
        let end = start + length(text);
        let value = HeaderValue::from_maybe_shared(all.slice(start..end));
        start = end;
        value.unwrap_or_else(|_| {
            possible = false;
            NOTHING
        })
    });
    possible.then_some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copied_template_lists_its_headers_in_the_order_of_the_values() {
        for (template, different) in [(&*READ, 16), (&*WRITTEN, 15)] {
            let names: Vec<HeaderName> = template.clone().keys().take(different).cloned().collect();
            assert_eq!(names, DIFFERENT[..different]);
        }
    }

    #[test]
    fn texts_share_their_memory_and_keep_their_ends() {
        let values = shared([&[b"a"], &[], &[b"b", b"", b"c"]]).unwrap();
        assert_eq!(values, ["a", "", "bc"]);
        assert_eq!(shared([&[b"a\n"]]), None);
    }
}

//! Continuation tokens: how far a query has come, as a text that clients carry.
//!
//! ```text
//! Q3.  base64url( progress, masked · 16 bytes of an HMAC-SHA256 )
//! ```
//!
//! The HMAC covers the progress and everything that a token is only good for: the container, the
//! query's text and parameters, and the kind of its scope. Its secret is made once and kept in the
//! catalog, so tokens survive restarts and nobody else can make or read one: what is decoded was
//! encoded here. A range of partition key ranges or EPKs is not part of it, since a client goes on
//! with the token of a partition in the parts that it was split into; a partition key is. But where
//! that key is all of a range that a token was made for, the token is good for the key as well.
//!
//! Clients that merge go on in an order with a filter that excludes what they have seen, and with
//! the token of a page without it. A place in an order of items is a place whatever the filter, so
//! there the columns of the order stand for the text, and with a JOIN the FROM clause: an item's
//! rows are counted as that makes them, not as the filter leaves them.
//!
//! Clients limit the length of tokens, and keys do not fit always: `compact.rs` has the short form.

pub(super) mod codec;
pub(super) mod compact;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use partita_model::{ContainerRid, EpkRange, Error, Result, keycode};
use partita_query::Facts;
use sha2::{Digest, Sha256};

use self::codec::{Input, put_blob, put_blobs, put_epk, put_number};
use self::compact::Compact;
use super::cursor::{Cursor, Progress, Stretch};
use super::places::{Position, SortPosition};
use crate::op::{QueryRequest, Scope, Serving};

const PREFIX: &str = "Q3.";
const MAC_BYTES: usize = 16;

/// What is signed besides the progress.
pub(super) struct Binding<'a> {
    pub(super) secret: &'a [u8],
    pub(super) container: ContainerRid,
    pub(super) request: &'a QueryRequest,
    pub(super) facts: &'a Facts,
    /// The EPKs that the request names.
    pub(super) area: &'a EpkRange,
}

/// What a token says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decoded {
    Whole(Progress),
    /// To be completed from the item that it names.
    Short(Compact),
}

impl Decoded {
    /// Is it a place in an order?
    pub(super) fn is_sorted(&self) -> bool {
        match self {
            Decoded::Whole(progress) => matches!(progress.cursor, Cursor::Sorted(_)),
            Decoded::Short(compact) => compact.is_sorted(),
        }
    }
}

/// The token of a query's progress, in the short form if the whole one is too long.
pub(super) fn encode(
    binding: &Binding<'_>,
    partition_key_paths: usize,
    progress: &Progress,
    bytes_max: usize,
) -> String {
    let mut payload = vec![WHOLE];
    put_progress(&mut payload, progress);
    if text_bytes(payload.len()) > bytes_max
        && let Some(short) = compact::shorten(progress, partition_key_paths, room(bytes_max))
    {
        payload = vec![SHORT];
        short.put(&mut payload);
    }
    let mac = mac(binding, &payload);
    mask(binding.secret, &mac, &mut payload);
    payload.extend_from_slice(&mac);
    format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(payload))
}

pub(super) fn decode(binding: &Binding<'_>, token: &str) -> Result<Decoded> {
    let encoded = token.strip_prefix(PREFIX).ok_or_else(invalid)?;
    let mut bytes = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| invalid())?;
    let length = bytes.len().checked_sub(MAC_BYTES).ok_or_else(invalid)?;
    let (payload, signed) = bytes.split_at_mut(length);
    mask(binding.secret, signed, payload);
    let (payload, signed) = (&*payload, &*signed);
    let is_signed = |scope| hasher(binding, scope, payload).verify_truncated_left(signed).is_ok();
    let of_range = !is_signed(&binding.request.scope);
    if of_range && !(names_key(binding.request) && is_signed(&Scope::Epks(EpkRange::all()))) {
        return Err(invalid());
    }
    let (kind, body) = payload.split_first().ok_or_else(invalid)?;
    let mut input = Input::new(body);
    let decoded = match *kind {
        WHOLE => read_progress(&mut input).map(Decoded::Whole),
        SHORT => Compact::read(&mut input).map(Decoded::Short),
        _ => None,
    };
    let decoded = decoded.filter(|_| input.is_empty()).ok_or_else(invalid)?;
    if of_range && !speaks_of(&decoded, binding.area) {
        return Err(invalid());
    }
    Ok(decoded)
}

/// Does the token of a range tell where to go on in this part of it? A place in an order does.
fn speaks_of(decoded: &Decoded, area: &EpkRange) -> bool {
    match decoded {
        Decoded::Whole(Progress { cursor: Cursor::Spread { from, .. }, .. }) => area.contains(from),
        Decoded::Whole(Progress { cursor: Cursor::Sorted(_), .. }) => true,
        Decoded::Whole(Progress { cursor: Cursor::Counted { .. }, .. }) | Decoded::Short(_) => {
            false
        }
    }
}

/// Clients make a range of a partition key, and may come back to the key with the range's token.
fn names_key(request: &QueryRequest) -> bool {
    matches!(&request.scope, Scope::PartitionKey(header) if !header.0.is_empty())
}

/// The answer to a token that was not made for this query, or not by us.
pub(super) fn invalid() -> Error {
    Error::bad_request(
        "Invalid Continuation Token: pass it on as the page before returned it, with the same query",
    )
}

/// The answer to a token whose place cannot be found any more: see `compact.rs`.
pub(super) fn lost() -> Error {
    Error::bad_request(
        "Invalid Continuation Token: the item that the page before ended with is gone, and its \
         token was too short to hold all of its keys. Start the query again, or allow longer \
         continuations",
    )
}

const WHOLE: u8 = 0;
const SHORT: u8 = 1;
const SPREAD: u8 = 0;
const SORTED: u8 = 1;
const COUNTED: u8 = 2;
const BY_KEY: u8 = 0;
const BY_RID: u8 = 1;
const BY_SORT: u8 = 2;

/// The length of a token with that many bytes of progress.
fn text_bytes(payload: usize) -> usize {
    PREFIX.len() + ((payload + MAC_BYTES) * 4).div_ceil(3)
}

/// The bytes of progress that fit into a token of this length.
fn room(bytes_max: usize) -> usize {
    (bytes_max.saturating_sub(PREFIX.len()) * 3 / 4).saturating_sub(MAC_BYTES + 1)
}

fn hasher(binding: &Binding<'_>, scope: &Scope, payload: &[u8]) -> Hmac<Sha256> {
    let request = binding.request;
    let mut about = Vec::new();
    keycode::put_str(&mut about, &binding.container.to_string());
    put_query(&mut about, binding);
    for (name, value) in &request.parameters {
        keycode::put_str(&mut about, name);
        keycode::put_str(&mut about, &value.to_json());
    }
    about.push(match request.serving {
        Serving::AsService => 0,
        Serving::Global => 1,
    });
    match scope {
        Scope::All => about.push(0),
        Scope::PartitionKey(header) => {
            about.push(1);
            header.0.iter().for_each(|part| keycode::put_key_part(&mut about, part));
        }
        Scope::Range { .. } | Scope::Epks(_) => about.push(2),
    }
    // A key of any length is good for an HMAC.
    let mut mac = Hmac::<Sha256>::new_from_slice(binding.secret)
        .unwrap_or_else(|_| Hmac::new(&Default::default()));
    mac.update(&Sha256::digest(&about));
    mac.update(payload);
    mac
}

/// What of a query's text a token is good for.
fn put_query(about: &mut Vec<u8>, binding: &Binding<'_>) {
    let facts = binding.facts;
    let is_place = facts.ordered && !facts.is_grouped && !facts.distinct;
    about.push(u8::from(is_place));
    if !is_place {
        return keycode::put_str(about, &binding.request.text);
    }
    if let Some(joined) = &facts.joined {
        keycode::put_str(about, joined);
    }
    for column in &facts.order {
        keycode::put_str(about, &column.text);
        about.push(u8::from(column.descending));
    }
    let (offset, limit) = facts.offset_limit.unzip();
    for number in [facts.top, offset, limit] {
        keycode::put_str(about, &number.map(|number| number.to_string()).unwrap_or_default());
    }
}

fn mac(binding: &Binding<'_>, payload: &[u8]) -> Vec<u8> {
    let whole = hasher(binding, &binding.request.scope, payload).finalize().into_bytes();
    whole.iter().copied().take(MAC_BYTES).collect()
}

fn put_progress(out: &mut Vec<u8>, progress: &Progress) {
    put_counts(out, progress);
    match &progress.cursor {
        Cursor::Spread { from, stretches } => {
            out.push(SPREAD);
            put_epk(out, from);
            put_number(out, stretches.len() as u64);
            for stretch in stretches {
                put_epk(out, &stretch.until);
                put_position(out, &stretch.position);
            }
        }
        Cursor::Sorted(position) => {
            out.push(SORTED);
            put_sort_position(out, position);
        }
        Cursor::Counted { area } => {
            out.push(COUNTED);
            put_epk(out, &area.min);
            put_epk(out, &area.max);
        }
    }
}

pub(super) fn read_progress(input: &mut Input<'_>) -> Option<Progress> {
    let (delivered, skipped, started_ticks) = read_counts(input)?;
    let cursor = match input.byte()? {
        SPREAD => {
            let from = input.epk()?;
            let count = input.number()?;
            let mut stretches = Vec::new();
            for _ in 0..count {
                let until = input.epk()?;
                stretches.push(Stretch { until, position: read_position(input)? });
            }
            Cursor::Spread { from, stretches }
        }
        SORTED => Cursor::Sorted(read_sort_position(input)?),
        COUNTED => Cursor::Counted { area: EpkRange { min: input.epk()?, max: input.epk()? } },
        _ => return None,
    };
    Some(Progress { cursor, delivered, skipped, started_ticks })
}

fn put_counts(out: &mut Vec<u8>, progress: &Progress) {
    put_number(out, progress.delivered);
    put_number(out, progress.skipped);
    put_number(out, progress.started_ticks);
}

fn read_counts(input: &mut Input<'_>) -> Option<(u64, u64, u64)> {
    Some((input.number()?, input.number()?, input.number()?))
}

fn put_position(out: &mut Vec<u8>, position: &Position) {
    match position {
        Position::Key { item_key, rid, row } => {
            out.push(BY_KEY);
            put_blob(out, item_key);
            put_number(out, *rid);
            put_number(out, u64::from(*row));
        }
        Position::Rid { rid, row } => {
            out.push(BY_RID);
            put_number(out, *rid);
            put_number(out, u64::from(*row));
        }
        Position::Sorted(position) => {
            out.push(BY_SORT);
            put_sort_position(out, position);
        }
    }
}

fn read_position(input: &mut Input<'_>) -> Option<Position> {
    match input.byte()? {
        BY_KEY => {
            Some(Position::Key { item_key: input.blob()?, rid: input.number()?, row: input.row()? })
        }
        BY_RID => Some(Position::Rid { rid: input.number()?, row: input.row()? }),
        BY_SORT => read_sort_position(input).map(Position::Sorted),
        _ => None,
    }
}

fn put_sort_position(out: &mut Vec<u8>, position: &SortPosition) {
    put_blobs(out, &position.keys);
    put_number(out, position.rid);
    put_number(out, u64::from(position.row));
}

fn read_sort_position(input: &mut Input<'_>) -> Option<SortPosition> {
    Some(SortPosition { keys: input.blobs()?, rid: input.number()?, row: input.row()? })
}

/// What the stream's key is derived with. Signatures cover more bytes than these, so none is ever
/// equal to the key.
const DERIVATION: &[u8] = b"veil";

/// Masks a payload that has this signature, or unmasks it.
///
/// A token holds the place where a page ended, and in an order that place is made of values. Along
/// an index it may be the place of an item that the asker may not see: a page of the items under
/// one partition key passes those of others on its way, and may end between two of them. So nobody
/// but the server reads a token.
///
/// The payload is combined with a stream that is derived from its own signature (a synthetic
/// initialisation vector): equal tokens look equal, and tokens that differ anywhere look unrelated.
fn mask(secret: &[u8], signature: &[u8], payload: &mut [u8]) {
    let key = keyed_hash(secret, &[DERIVATION]);
    for (number, block) in payload.chunks_mut(key.len()).enumerate() {
        let stream = keyed_hash(&key, &[signature, &(number as u64).to_be_bytes()]);
        for (byte, hidden_by) in block.iter_mut().zip(stream) {
            *byte ^= hidden_by;
        }
    }
}

fn keyed_hash(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    // A key of any length is good for an HMAC.
    let mut mac =
        Hmac::<Sha256>::new_from_slice(key).unwrap_or_else(|_| Hmac::new(&Default::default()));
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;
    use partita_model::{DatabaseRid, Epk, KeyPart, PartitionKey};
    use partita_query::Query;
    use std::sync::LazyLock;

    fn request() -> QueryRequest {
        QueryRequest::new("SELECT * FROM c")
    }

    fn bound(request: &QueryRequest) -> Binding<'_> {
        static ALL: LazyLock<EpkRange> = LazyLock::new(EpkRange::all);
        static QUERY: LazyLock<Query> =
            LazyLock::new(|| Query::parse("SELECT * FROM c", &[], &[]).unwrap());
        let container = ContainerRid { database: DatabaseRid(7), container: 9 };
        Binding { secret: b"secret", container, request, facts: QUERY.facts(), area: &ALL }
    }

    fn progress(cursor: Cursor) -> Progress {
        Progress { cursor, delivered: 300, skipped: 7, started_ticks: 17_000_000_000_000_000 }
    }

    fn by_key(key_bytes: usize, id_bytes: usize) -> Progress {
        let epk = Epk::from_bytes(vec![0x3A; 16]);
        let key = PartitionKey(vec![KeyPart::String("k".repeat(key_bytes))]);
        let item_key = keys::item(&epk, &key, &"i".repeat(id_bytes));
        let position = Position::Key { item_key, rid: 1 << 41, row: 3 };
        let stretches = vec![Stretch { until: Epk::max(), position }];
        progress(Cursor::Spread { from: Epk::min(), stretches })
    }

    fn sorted(key_bytes: &[usize]) -> Progress {
        let keys = key_bytes.iter().map(|bytes| vec![8; *bytes]).collect();
        progress(Cursor::Sorted(SortPosition { keys, rid: 1 << 41, row: u32::MAX }))
    }

    #[test]
    fn a_token_says_what_went_into_it() {
        let request = request();
        let area = EpkRange::new(Epk::min(), Epk::parse_hex("20").unwrap());
        let stretch = |rid| Stretch {
            until: Epk::parse_hex("10").unwrap(),
            position: Position::Rid { rid, row: u32::MAX },
        };
        for progress in [
            by_key(3, 5),
            sorted(&[9, 1, 500]),
            progress(Cursor::Counted { area }),
            progress(Cursor::Spread { from: Epk::min(), stretches: vec![] }),
            progress(Cursor::Spread {
                from: Epk::min(),
                stretches: vec![stretch(1), stretch(u64::MAX)],
            }),
        ] {
            let token = encode(&bound(&request), 1, &progress, usize::MAX);
            assert_eq!(decode(&bound(&request), &token), Ok(Decoded::Whole(progress)));
        }
    }

    #[test]
    fn a_token_does_not_show_what_it_says() {
        let request = request();
        for progress in [by_key(40, 40), sorted(&[40, 40])] {
            let token = encode(&bound(&request), 1, &progress, usize::MAX);
            let bytes = URL_SAFE_NO_PAD.decode(token.strip_prefix(PREFIX).unwrap()).unwrap();
            let runs = bytes.windows(8).filter(|run| run.iter().all(|byte| *byte == run[0]));
            assert_eq!(runs.count(), 0, "{bytes:?}");
        }
    }

    #[test]
    fn a_token_is_as_short_as_it_must_be_whatever_the_keys() {
        let request = request();
        for limit in [512, 1_024, 4_096] {
            for bytes in (0..1_023).step_by(31) {
                for progress in [
                    by_key(bytes, 1_023),
                    by_key(2_000, bytes),
                    sorted(&[bytes, 700]),
                    sorted(&[bytes * 100; 8]),
                ] {
                    let token = encode(&bound(&request), 1, &progress, limit);
                    assert!(token.len() <= limit, "{} of {limit}", token.len());
                    assert!(decode(&bound(&request), &token).is_ok());
                }
            }
        }
    }

    #[test]
    fn what_is_hidden_is_shown_by_the_same_and_by_nothing_else() {
        let payload: Vec<u8> = (0..100).collect();
        let hidden = |secret: &[u8], signature: &[u8]| {
            let mut bytes = payload.clone();
            mask(secret, signature, &mut bytes);
            bytes
        };
        let mut bytes = hidden(b"secret", b"signature");
        assert!(bytes.iter().zip(&payload).filter(|(a, b)| a == b).count() < 10);
        assert_ne!(bytes.get(..32), bytes.get(32..64));
        assert_ne!(bytes, hidden(b"secret", b"another"));
        assert_ne!(bytes, hidden(b"another", b"signature"));
        mask(b"secret", b"signature", &mut bytes);
        assert_eq!(bytes, payload);
        mask(b"secret", b"signature", &mut []);
    }
}

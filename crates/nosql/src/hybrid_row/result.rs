//! The row of a result: what came of an operation.
//!
//! | column | storage | presence bit | token |
//! |---|---|---|---|
//! | statusCode, subStatusCode | fixed | 0, 1 | 1, 2 |
//! | eTag, resourceBody | variable | 2, 3 | 3, 4 |
//! | retryAfterMilliseconds, requestCharge | sparse | | 5, 6 |
//!
//! The client takes an answer of which one row is broken for none at all, although its writes have
//! happened: status and charge are always there.

use bytes::{BufMut, Bytes, BytesMut};

use super::crc::crc32;
use super::{RECORD, RESULT, SEGMENT, SEGMENT_BYTES, VERSION};

/// Type codes and tokens of the sparse fields.
const RETRY_AFTER: [u8; 2] = [11, 5];
const CHARGE: [u8; 2] = [16, 6];

/// Bytes of a row beside its ETag and body, and of its record header.
const ROW_BYTES: usize = 64;

/// The result of an operation, to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResultRow<'a> {
    pub(crate) status: u16,
    pub(crate) substatus: u32,
    pub(crate) etag: Option<&'a str>,
    /// The item, or the text of an error.
    pub(crate) body: Option<&'a [u8]>,
    /// 0: none.
    pub(crate) retry_after_ms: u32,
    pub(crate) charge: f64,
}

/// A stream in the making.
pub(crate) struct Writer(BytesMut);

impl Writer {
    /// With room for so many rows, and for so many bytes of what they carry.
    pub(crate) fn new(rows: usize, carried_bytes: usize) -> Writer {
        let mut out = BytesMut::with_capacity(rows * ROW_BYTES + carried_bytes);
        put_header(&mut out, SEGMENT);
        out.put_u8(1);
        out.put_u32_le(SEGMENT_BYTES as u32);
        Writer(out)
    }

    /// Appends a record.
    pub(crate) fn push(&mut self, result: &ResultRow<'_>) {
        let out = &mut self.0;
        put_header(out, RECORD);
        // The row's length and sum are known when it is written.
        let sums = out.len();
        out.put_u64_le(0);
        let start = out.len();
        put_row(out, result);
        let (head, row) = out.split_at_mut(start);
        let length = u32::try_from(row.len()).unwrap_or(u32::MAX);
        let length_and_sum = u64::from(length) | u64::from(crc32(row)) << 32;
        if let Some(slot) = head.get_mut(sums..) {
            slot.copy_from_slice(&length_and_sum.to_le_bytes());
        }
    }

    pub(crate) fn finish(self) -> Bytes {
        self.0.freeze()
    }
}

fn put_header(out: &mut BytesMut, schema: i32) {
    out.put_u8(VERSION);
    out.put_i32_le(schema);
}

fn put_row(out: &mut BytesMut, result: &ResultRow<'_>) {
    put_header(out, RESULT);
    let etag = u8::from(result.etag.is_some()) << 2;
    let body = u8::from(result.body.is_some()) << 3;
    out.put_u8(0b11 | etag | body);
    out.put_i32_le(i32::from(result.status));
    out.put_u32_le(result.substatus);
    for column in [result.etag.map(str::as_bytes), result.body].into_iter().flatten() {
        put_varuint(out, column.len());
        out.put_slice(column);
    }
    if result.retry_after_ms != 0 {
        out.put_slice(&RETRY_AFTER);
        out.put_u32_le(result.retry_after_ms);
    }
    out.put_slice(&CHARGE);
    out.put_f64_le(result.charge);
}

fn put_varuint(out: &mut BytesMut, mut number: usize) {
    while number > 0x7F {
        out.put_u8(number as u8 | 0x80);
        number >>= 7;
    }
    out.put_u8(number as u8);
}

//! Batches in HybridRow: the recording's names inside of them, and the statuses in their answers.
//!
//! A stream is a segment header of ten bytes, then for each row a header of thirteen bytes with the
//! row's length and checksum. This knows no more of the encoding than that, and where a result has
//! its status.

use super::names::Names;

const SEGMENT_HEADER_BYTES: usize = 10;
const RECORD_HEADER_BYTES: usize = 13;

/// The texts in a stream that look like ETags of items.
pub(super) fn etags(stream: &[u8]) -> Vec<String> {
    let is_etag = |window: &&[u8]| {
        window[0] == b'"'
            && window[37] == b'"'
            && window[1..37].iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-')
    };
    let text = |window: &[u8]| String::from_utf8_lossy(window).into_owned();
    stream.windows(38).filter(is_etag).map(text).collect()
}

/// A stream with our names in its rows.
pub(super) fn translate(stream: &[u8], names: &Names) -> Vec<u8> {
    if stream.first() != Some(&0x81) {
        return stream.to_vec();
    }
    let mut own = stream[..SEGMENT_HEADER_BYTES].to_vec();
    for row in rows(stream) {
        let mut row = row.to_vec();
        names.translate_bytes(&mut row);
        own.extend_from_slice(&[0x81, 0xF1, 0xD8, 0xFF, 0x7F]);
        own.extend_from_slice(&u32::try_from(row.len()).unwrap().to_le_bytes());
        own.extend_from_slice(&crc32(&row).to_le_bytes());
        own.extend_from_slice(&row);
    }
    own
}

/// Status and sub-status of each result in an answer. None if it is no sound stream of results.
pub(super) fn results(stream: &[u8]) -> Option<Vec<(u32, u32)>> {
    if stream.first() != Some(&0x81) {
        return None;
    }
    let status = |row: &[u8]| {
        // Version, schema, and the bits that say which columns are there: both statuses always are.
        let number = |at: usize| Some(u32::from_le_bytes(row.get(at..at + 4)?.try_into().ok()?));
        (row.get(..5)? == [0x81, 0x71, 0x54, 0xE1, 0x7F] && row.get(5)? & 3 == 3)
            .then(|| Some((number(6)?, number(10)?)))?
    };
    let statuses: Option<Vec<(u32, u32)>> = rows(stream).into_iter().map(status).collect();
    let length: usize = rows(stream).iter().map(|row| row.len() + RECORD_HEADER_BYTES).sum();
    statuses.filter(|_| length + SEGMENT_HEADER_BYTES == stream.len())
}

/// The rows of a stream, up to the first whose checksum is wrong.
fn rows(stream: &[u8]) -> Vec<&[u8]> {
    let mut rows = Vec::new();
    let mut rest = stream.get(SEGMENT_HEADER_BYTES..).unwrap_or_default();
    while rest.len() > RECORD_HEADER_BYTES {
        let number = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
        let end = RECORD_HEADER_BYTES + usize::try_from(number(5)).unwrap();
        let Some(row) = rest.get(RECORD_HEADER_BYTES..end) else { break };
        if crc32(row) != number(9) {
            break;
        }
        rows.push(row);
        rest = &rest[end..];
    }
    rows
}

/// The common CRC-32, bit by bit: rows are short.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
    let byte = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), step);
    !bytes.iter().fold(!0, byte)
}

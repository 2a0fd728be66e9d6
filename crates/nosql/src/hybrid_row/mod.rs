//! HybridRow, the encoding in which the .NET SDK sends batches and wants their results.
//!
//! A body is a stream of *records* (RecordIO): one segment header, then for each operation a record
//! header and the operation's row. It ends where the body ends. All integers are little-endian.
//!
//! ```text
//!   segment header   81 · F0D8FF7F · presence · length (4) · fields that are skipped
//!   record header    81 · F1D8FF7F · length of the row (4) · CRC-32 of the row (4)
//!   row              81 · schema (4) · presence · fixed columns · variable columns · sparse fields
//! ```
//!
//! A *fixed column* has its place even when it is absent. A *variable column* is there if its bit
//! of the presence byte is set: its length as a varuint (seven bits a byte, the lowest first), then
//! its bytes. A *sparse field* is a type code, a path and a value; they go on to the end of the
//! row. A path is the column's token, or, from the number of columns on, the length of a name that
//! follows.
//!
//! There are two schemas, both known by their number only: `operation` reads the rows of requests,
//! `result` writes those of answers, `crc` is what guards both. The reader believes nothing: what
//! is no such stream is refused with the byte where it stops being one, and nothing it reads can
//! make it panic. What the operations mean is not decided here.

mod crc;
mod cursor;
mod operation;
mod result;
#[cfg(test)]
mod tests;

use partita_model::Result;

use self::cursor::{Cursor, malformed};
pub(crate) use self::operation::{Operation, OperationType};
pub(crate) use self::result::{ResultRow, Writer};

/// The version of the encoding, with which every row begins. No UTF-8 text begins with it.
const VERSION: u8 = 0x81;

/// The schemas, by their numbers.
const SEGMENT: i32 = 2_147_473_648;
const RECORD: i32 = 2_147_473_649;
const OPERATION: i32 = 2_145_473_648;
const RESULT: i32 = 2_145_473_649;

/// A segment header without optional fields.
const SEGMENT_BYTES: usize = 10;

/// Bytes of a bulk in HybridRow. The .NET SDK fills its bulks up to this size, which is 2 MiB and a
/// twentieth; its transactional batches have the limit of other requests.
pub(crate) const BULK_BYTES_MAX: usize = 2_202_010;

/// Is this HybridRow, going by its first byte?
pub(crate) fn is_hybrid_row(body: &[u8]) -> bool {
    body.first() == Some(&VERSION)
}

/// The operations of a request.
pub(crate) fn read(body: &[u8]) -> Result<Vec<Operation<'_>>> {
    let mut stream = Cursor::new(body, 0);
    segment(&mut stream)?;
    let mut operations = Vec::new();
    while !stream.is_at_end() {
        let at = stream.at();
        match stream.peek_schema()? {
            SEGMENT => segment(&mut stream)?,
            RECORD => operations.push(record(&mut stream)?),
            other => {
                let problem = format!("expected a record, found the unknown schema {other}");
                return Err(malformed(at, problem));
            }
        }
    }
    Ok(operations)
}

/// One row without the header that guards it.
#[cfg(fuzzing)]
pub(crate) fn read_row(row: &[u8]) -> Result<Operation<'_>> {
    Operation::read(Cursor::new(row, 0))
}

/// Steps over a segment header, whatever it says beside its length.
fn segment(stream: &mut Cursor<'_>) -> Result<()> {
    let at = stream.at();
    stream.header(SEGMENT, "a segment header")?;
    let presence = stream.byte()?;
    let length = stream.length()?;
    if presence & 1 == 0 || length < SEGMENT_BYTES {
        return Err(malformed(at, "the segment header does not tell its length"));
    }
    stream.take(length - SEGMENT_BYTES)?;
    Ok(())
}

/// A record's header and its row.
fn record<'a>(stream: &mut Cursor<'a>) -> Result<Operation<'a>> {
    stream.header(RECORD, "a record header")?;
    let length = stream.length()?;
    let expected = u32::from_le_bytes(stream.array()?);
    let at = stream.at();
    let row = stream.take(length)?;
    let actual = crc::crc32(row);
    if actual != expected {
        let problem =
            format!("the row's checksum is {actual:#010x}, its header says {expected:#010x}");
        return Err(malformed(at, problem));
    }
    Operation::read(Cursor::new(row, at))
}

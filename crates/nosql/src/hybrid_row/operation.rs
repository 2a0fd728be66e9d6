//! The row of an operation: what a client wants done.
//!
//! | column | storage | presence bit | token |
//! |---|---|---|---|
//! | operationType, resourceType | fixed | 0, 1 | 1, 2 |
//! | partitionKey, effectivePartitionKey, id, binaryId, resourceBody | variable | 2 to 6 | 3 to 7 |
//! | indexingDirective, ifMatch, ifNoneMatch | sparse | | 8 to 10 |
//! | timeToLiveInSeconds, minimalReturnPreference | sparse | | 11, 12 |
//!
//! `effectivePartitionKey` and `binaryId` are for the service's own use and say nothing that the
//! others do not: they are stepped over. So are sparse fields that nobody knows.

use partita_model::Result;

use super::OPERATION;
use super::cursor::{Cursor, malformed};

/// What an operation does, by the numbers of the SDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationType {
    Create,
    Patch,
    Read,
    Delete,
    Replace,
    Upsert,
}

/// An operation as it arrived. Every column may be absent but the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Operation<'a> {
    pub(crate) operation_type: OperationType,
    pub(crate) partition_key: Option<&'a str>,
    pub(crate) id: Option<&'a str>,
    pub(crate) body: Option<&'a [u8]>,
    pub(crate) indexing_directive: Option<&'a str>,
    pub(crate) if_match: Option<&'a str>,
    pub(crate) if_none_match: Option<&'a str>,
    pub(crate) ttl_seconds: Option<i32>,
    pub(crate) minimal: Option<bool>,
}

/// Of resources, batches are for documents only.
const DOCUMENT: i32 = 2;

/// Names of the columns, in the order of their tokens, which begin at 1.
const COLUMNS: [&str; 12] = [
    "operationType",
    "resourceType",
    "partitionKey",
    "effectivePartitionKey",
    "id",
    "binaryId",
    "resourceBody",
    "indexingDirective",
    "ifMatch",
    "ifNoneMatch",
    "timeToLiveInSeconds",
    "minimalReturnPreference",
];

/// A sparse field's value, of those types that our columns have.
enum Field<'a> {
    Null,
    Bool(bool),
    Int32(i32),
    Text(&'a str),
    /// It was stepped over.
    Other,
}

impl<'a> Operation<'a> {
    /// Reads a row to its end.
    pub(super) fn read(mut row: Cursor<'a>) -> Result<Operation<'a>> {
        row.header(OPERATION, "an operation")?;
        let presence = row.byte()?;
        let is_present = |bit: u8| presence & 1 << bit != 0;
        let type_at = row.at();
        let number = row.int32()?;
        let resource_at = row.at();
        let resource = row.int32()?;
        if !is_present(0) {
            return Err(malformed(type_at, "an operation has no operationType"));
        }
        if is_present(1) && resource != DOCUMENT {
            let problem = format!("a batch is for documents (2), not for the resource {resource}");
            return Err(malformed(resource_at, problem));
        }
        let operation_type = OperationType::of(number)
            .ok_or_else(|| malformed(type_at, format!("unknown operationType {number}")))?;
        let partition_key = is_present(2).then(|| row.text()).transpose()?;
        is_present(3).then(|| row.bytes()).transpose()?;
        let id = is_present(4).then(|| row.text()).transpose()?;
        is_present(5).then(|| row.bytes()).transpose()?;
        let body = is_present(6).then(|| row.bytes()).transpose()?;
        let mut operation = Operation {
            operation_type,
            partition_key,
            id,
            body,
            indexing_directive: None,
            if_match: None,
            if_none_match: None,
            ttl_seconds: None,
            minimal: None,
        };
        while !row.is_at_end() {
            operation.read_sparse(&mut row)?;
        }
        Ok(operation)
    }

    fn read_sparse(&mut self, row: &mut Cursor<'a>) -> Result<()> {
        let at = row.at();
        let code = row.byte()?;
        let name = path(row)?;
        let field = Field::read(row, at, code)?;
        let mistyped = |_| malformed(at, format!("'{name}' cannot be of the type {code}"));
        match name {
            "indexingDirective" => self.indexing_directive = field.text().map_err(mistyped)?,
            "ifMatch" => self.if_match = field.text().map_err(mistyped)?,
            "ifNoneMatch" => self.if_none_match = field.text().map_err(mistyped)?,
            "timeToLiveInSeconds" => self.ttl_seconds = field.int32().map_err(mistyped)?,
            "minimalReturnPreference" => self.minimal = field.bool().map_err(mistyped)?,
            // The others have places of their own, and two of one column would contradict.
            name if COLUMNS.contains(&name) => {
                return Err(malformed(at, format!("'{name}' is no sparse field")));
            }
            _ => {}
        }
        Ok(())
    }
}

impl OperationType {
    fn of(number: i32) -> Option<OperationType> {
        match number {
            0 => Some(OperationType::Create),
            1 => Some(OperationType::Patch),
            2 => Some(OperationType::Read),
            4 => Some(OperationType::Delete),
            5 => Some(OperationType::Replace),
            20 => Some(OperationType::Upsert),
            _ => None,
        }
    }
}

/// The path of a sparse field: a column by its token, or a name.
fn path<'a>(row: &mut Cursor<'a>) -> Result<&'a str> {
    let at = row.at();
    let token = row.varuint()?;
    if let Some(length) = token.checked_sub(COLUMNS.len() + 1) {
        let name = row.take(length)?;
        return std::str::from_utf8(name).map_err(|_| malformed(at, "invalid UTF-8 in a path"));
    }
    match token.checked_sub(1) {
        None => Ok(""),
        Some(column) => Ok(COLUMNS.get(column).copied().unwrap_or_default()),
    }
}

impl<'a> Field<'a> {
    /// Reads what a type code announces. `at` is where the field begins.
    fn read(row: &mut Cursor<'a>, at: usize, code: u8) -> Result<Field<'a>> {
        let bytes = match code {
            1 => return Ok(Field::Null),
            2 => return Ok(Field::Bool(false)),
            3 => return Ok(Field::Bool(true)),
            7 => return row.int32().map(Field::Int32),
            20 => return row.text().map(Field::Text),
            13 | 14 => {
                row.varuint()?;
                return Ok(Field::Other);
            }
            21 => {
                row.bytes()?;
                return Ok(Field::Other);
            }
            5 | 9 => 1,
            6 | 10 => 2,
            11 | 15 => 4,
            8 | 12 | 16 | 18 | 23 => 8,
            24 => 12,
            17 | 19 | 22 => 16,
            other => {
                let problem =
                    format!("a sparse field has the type {other}, which is not read here");
                return Err(malformed(at, problem));
            }
        };
        row.take(bytes)?;
        Ok(Field::Other)
    }

    fn text(self) -> std::result::Result<Option<&'a str>, Field<'a>> {
        match self {
            Field::Null => Ok(None),
            Field::Text(text) => Ok(Some(text)),
            other => Err(other),
        }
    }

    fn int32(self) -> std::result::Result<Option<i32>, Field<'a>> {
        match self {
            Field::Null => Ok(None),
            Field::Int32(number) => Ok(Some(number)),
            other => Err(other),
        }
    }

    fn bool(self) -> std::result::Result<Option<bool>, Field<'a>> {
        match self {
            Field::Null => Ok(None),
            Field::Bool(value) => Ok(Some(value)),
            other => Err(other),
        }
    }
}

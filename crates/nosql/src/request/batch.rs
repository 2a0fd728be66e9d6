//! Batches: transactional ones on a partition key, bulks on a partition key range.
//!
//! The body is a JSON array of operations. Their documents are cut out of it as texts, so that
//! every literal reaches the store as the client wrote it. What is wrong with one operation becomes
//! that operation's result; the request fails only if its body is no array of objects.
//!
//! Refused by name: HybridRow, the binary encoding in which the .NET SDK sends batches.

use std::borrow::Cow;

use http::HeaderName;
use partita_engine::{
    BatchAction, BatchMode, BatchOperation, Condition, ContainerPath, EtagPattern, Indexing,
    KeyRequired, OnError, Op, Returns,
};
use partita_model::{Document, Error, PartitionKeyHeader, Raw, RawKind, Result, compact_array};

use super::{Incoming, partition_key};
use crate::headers::{self, Headers, etag_pattern};

/// The levels of the body around an item: the array and the operation.
const LEVELS_AROUND_ITEM: usize = 2;

/// How a body in HybridRow begins.
const HYBRID_ROW: u8 = 0x81;

/// A POST to `docs` that says it is a batch.
pub(super) fn batch(
    container: ContainerPath,
    incoming: Incoming<'_>,
    key_required: KeyRequired,
) -> Result<Op> {
    let Incoming { headers, body, .. } = incoming;
    if body.first() == Some(&HYBRID_ROW) {
        return Err(Error::unsupported(
            "Not supported by this server yet: batches in the binary encoding HybridRow. Send the \
             operations as a JSON array.",
        ));
    }
    let mode = mode(headers, key_required)?;
    let returns = if headers.minimal()? { Returns::Etag } else { Returns::Item };
    let text = compact_array(&body, LEVELS_AROUND_ITEM)?;
    let elements = Document::new(&text).elements().enumerate();
    let operations =
        elements.map(|(at, raw)| operation(at, raw, returns)).collect::<Result<_>>()?;
    Ok(Op::Batch { container, operations, mode })
}

/// Operations of one batch always take effect in the order of the body where that can be told, so
/// `x-ms-cosmos-batch-ordered` makes no difference.
fn mode(headers: Headers<'_>, key_required: KeyRequired) -> Result<BatchMode> {
    if headers.flag(&headers::BATCH_ATOMIC)? {
        return Ok(BatchMode::Atomic { partition_key: partition_key(key_required, headers)? });
    }
    let Some(range_id) = headers.text(&headers::RANGE_ID)? else {
        return Err(missing(&headers::RANGE_ID));
    };
    let on_error = match headers.flag(&headers::BATCH_CONTINUE)? {
        true => OnError::Continue,
        false => OnError::Stop,
    };
    Ok(BatchMode::Bulk { range_id: range_id.to_owned(), on_error })
}

fn missing(header: &HeaderName) -> Error {
    Error::bad_request(format!(
        "A batch that is not atomic must name the partition key range that it is for: the header \
         {header} is missing."
    ))
}

/// One element of the body; `at` is counted from 0.
fn operation(at: usize, raw: Raw<'_>, returns: Returns) -> Result<BatchOperation> {
    if raw.kind() != RawKind::Object {
        return Err(Error::bad_request(format!("The batch's operation {at} must be an object.")));
    }
    let members = Members { at, found: raw.document().members().collect() };
    Ok(members.operation(returns).unwrap_or_else(|error| BatchOperation {
        action: BatchAction::Refused(error),
        partition_key: None,
        condition: None,
        returns,
    }))
}

/// The members of one operation: a handful, taken apart once, for one of them is the document.
struct Members<'a> {
    at: usize,
    found: Vec<(Cow<'a, str>, Raw<'a>)>,
}

impl Members<'_> {
    fn operation(&self, returns: Returns) -> Result<BatchOperation> {
        if self.member("timeToLiveInSeconds").is_some() {
            return Err(Error::unsupported(
                "Not supported by this server yet: timeToLiveInSeconds of a batch's operation. Set \
                 the item's property 'ttl'.",
            ));
        }
        let action = self.action()?;
        let key = self.string("partitionKey")?;
        let minimal = self.boolean("minimalReturnPreference")?;
        Ok(BatchOperation {
            condition: self.condition(&action)?,
            action,
            partition_key: key.as_deref().map(PartitionKeyHeader::parse).transpose()?,
            returns: match minimal {
                Some(true) => Returns::Etag,
                Some(false) => Returns::Item,
                None => returns,
            },
        })
    }

    fn action(&self) -> Result<BatchAction> {
        let kind = self.required("operationType")?;
        match kind.as_str() {
            "Create" => Ok(BatchAction::Create { body: self.body()?, indexing: self.indexing()? }),
            "Upsert" => Ok(BatchAction::Upsert { body: self.body()?, indexing: self.indexing()? }),
            "Replace" => Ok(BatchAction::Replace {
                id: self.required("id")?,
                body: self.body()?,
                indexing: self.indexing()?,
            }),
            "Patch" => Ok(BatchAction::Patch { id: self.required("id")?, body: self.body()? }),
            "Read" => Ok(BatchAction::Read { id: self.required("id")? }),
            "Delete" => Ok(BatchAction::Delete { id: self.required("id")? }),
            other => Err(self.wrong(
                "operationType",
                &format!(
                    "must be Create, Upsert, Replace, Patch, Read or Delete, not '{}'",
                    other.chars().take(40).collect::<String>()
                ),
            )),
        }
    }

    /// As the headers of a single request: a read may be spared, an upsert may insist on a version
    /// or on none, a change insists on a version. A create finds nothing to compare.
    fn condition(&self, action: &BatchAction) -> Result<Option<Condition>> {
        let matching = self.etag("ifMatch")?.map(Condition::Match);
        let none_matching = self.etag("ifNoneMatch")?.map(Condition::NoneMatch);
        Ok(match action {
            BatchAction::Read { .. } => none_matching.or(matching),
            BatchAction::Upsert { .. } => matching.or(none_matching),
            BatchAction::Create { .. }
            | BatchAction::Replace { .. }
            | BatchAction::Patch { .. }
            | BatchAction::Delete { .. }
            | BatchAction::Refused(_) => matching,
        })
    }

    fn etag(&self, name: &str) -> Result<Option<EtagPattern>> {
        Ok(self.string(name)?.as_deref().map(etag_pattern))
    }

    fn indexing(&self) -> Result<Indexing> {
        match self.string("indexingDirective")?.as_deref() {
            None | Some("Default") => Ok(Indexing::ByPolicy),
            Some("Include") => Ok(Indexing::Include),
            Some("Exclude") => Ok(Indexing::Exclude),
            Some(_) => Err(self.wrong("indexingDirective", "must be Include, Exclude or Default")),
        }
    }

    /// The document's text, as it came.
    fn body(&self) -> Result<Vec<u8>> {
        match self.member("resourceBody") {
            Some(raw) => Ok(raw.bytes().to_vec()),
            None => Err(self.wrong("resourceBody", "is missing")),
        }
    }

    fn required(&self, name: &str) -> Result<String> {
        self.string(name)?.ok_or_else(|| self.wrong(name, "is missing"))
    }

    fn string(&self, name: &str) -> Result<Option<String>> {
        let Some(raw) = self.member(name) else { return Ok(None) };
        match raw.to_value().as_str() {
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(self.wrong(name, "must be a string")),
        }
    }

    fn boolean(&self, name: &str) -> Result<Option<bool>> {
        match self.member(name).map(|raw| raw.text()) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(self.wrong(name, "must be true or false")),
        }
    }

    /// A member; null counts as absent.
    fn member(&self, name: &str) -> Option<Raw<'_>> {
        let mut found = self.found.iter();
        let (_, raw) = found.find(|(known, _)| known == name)?;
        Some(*raw).filter(|raw| raw.kind() != RawKind::Null)
    }

    fn wrong(&self, name: &str, how: &str) -> Error {
        Error::bad_request(format!("The property '{name}' of the operation {} {how}.", self.at))
    }
}

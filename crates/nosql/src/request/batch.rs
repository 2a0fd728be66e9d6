//! Batches: transactional ones on a partition key, bulks on a partition key range.
//!
//! The body is a JSON array of operations, or the same in HybridRow, the encoding of the .NET SDK:
//! its first byte tells. Either way an operation becomes what was *given* first, and then what that
//! means. Documents are cut out of a JSON body as texts, so that every literal reaches the store as
//! the client wrote it. What is wrong with one operation becomes that operation's result; the
//! request fails only if its body is no array of objects, or no HybridRow.
//!
//! Triggers are named by the request's headers, for every write, or by an operation for itself. No
//! SDK has a way to say the latter, and HybridRow no column for it; the names are those of their
//! options of single writes.

use std::borrow::Cow;

use http::HeaderName;
use partita_engine::{
    BatchAction, BatchMode, BatchOperation, Condition, ContainerPath, EtagPattern, Indexing,
    KeyRequired, OnError, Op, Returns, TriggerNames,
};
use partita_model::{
    Document, Error, PartitionKeyHeader, Raw, RawKind, Result, Value, binary_json, compact_array,
};

use super::scripts::{trigger_names, triggers};
use super::{Incoming, partition_key};
use crate::headers::{self, Headers, etag_pattern};
use crate::hybrid_row::{self, OperationType};

/// The levels of the body around an item: the array and the operation.
const LEVELS_AROUND_ITEM: usize = 2;

/// A POST to `docs` that says it is a batch.
pub(super) fn batch(
    container: ContainerPath,
    incoming: Incoming<'_>,
    key_required: KeyRequired,
) -> Result<Op> {
    let Incoming { headers, body, .. } = incoming;
    let mode = mode(headers, key_required)?;
    let wishes = Wishes {
        returns: if headers.minimal()? { Returns::Etag } else { Returns::Item },
        triggers: triggers(headers)?,
    };
    let operations = if hybrid_row::is_hybrid_row(&body) {
        let rows = hybrid_row::read(&body)?.into_iter().enumerate();
        rows.map(|(at, row)| understood(Given::from_row(at, row), &wishes)).collect()
    } else {
        let text = compact_array(&body, LEVELS_AROUND_ITEM)?;
        let elements = Document::new(&text).elements().enumerate();
        elements.map(|(at, raw)| element(at, raw, &wishes)).collect::<Result<_>>()?
    };
    Ok(Op::Batch { container, operations, mode })
}

/// Operations of one batch always take effect in the order of the body where it matters, so
/// `x-ms-cosmos-batch-ordered` makes no difference.
fn mode(headers: Headers<'_>, key_required: KeyRequired) -> Result<BatchMode> {
    if headers.flag(&headers::BATCH_ATOMIC)? {
        return Ok(BatchMode::Atomic { partition_key: partition_key(key_required, headers)? });
    }
    let Some(range) = headers.range()? else {
        return Err(missing(&headers::RANGE_ID));
    };
    let on_error =
        if headers.flag(&headers::BATCH_CONTINUE)? { OnError::Continue } else { OnError::Stop };
    Ok(BatchMode::Bulk { range_id: range.id.to_owned(), on_error })
}

fn missing(header: &HeaderName) -> Error {
    Error::bad_request(format!(
        "A batch that is not atomic must name the partition key range that it is for: the header \
         {header} is missing."
    ))
}

/// One element of a JSON body; `at` is counted from 0.
fn element(at: usize, raw: Raw<'_>, wishes: &Wishes) -> Result<BatchOperation> {
    if raw.kind() != RawKind::Object {
        return Err(Error::bad_request(format!("The batch's operation {at} must be an object.")));
    }
    let members = Members { at, found: raw.document().members().collect() };
    Ok(understood(members.given(), wishes))
}

/// What a given operation means, or why it means nothing.
fn understood(given: Result<Given<'_>>, wishes: &Wishes) -> BatchOperation {
    given.and_then(|given| given.operation(wishes)).unwrap_or_else(|error| BatchOperation {
        action: BatchAction::Refused(error),
        partition_key: None,
        condition: None,
        ttl_seconds: None,
        triggers: TriggerNames::default(),
        returns: wishes.returns,
    })
}

/// What the request's headers want of its operations, unless one of them wants something else.
struct Wishes {
    returns: Returns,
    /// What runs with every write.
    triggers: TriggerNames,
}

/// An operation as it was given, in whatever encoding.
struct Given<'a> {
    at: usize,
    operation_type: OperationType,
    partition_key: Option<Cow<'a, str>>,
    id: Option<Cow<'a, str>>,
    /// The document's text, as it came.
    body: Option<Cow<'a, [u8]>>,
    indexing_directive: Option<Cow<'a, str>>,
    if_match: Option<Cow<'a, str>>,
    if_none_match: Option<Cow<'a, str>>,
    ttl_seconds: Option<i32>,
    minimal: Option<bool>,
    /// None: those of the request.
    pre_triggers: Option<Vec<String>>,
    post_triggers: Option<Vec<String>>,
}

impl<'a> Given<'a> {
    /// Bodies may be binary JSON here; the database never sees it.
    fn from_row(at: usize, row: hybrid_row::Operation<'a>) -> Result<Given<'a>> {
        let body = match row.body {
            Some(body) if binary_json::is_binary(body) => {
                Some(Cow::Owned(binary_json::to_text(body)?.into_bytes()))
            }
            body => body.map(Cow::Borrowed),
        };
        Ok(Given {
            at,
            operation_type: row.operation_type,
            partition_key: row.partition_key.map(Cow::Borrowed),
            id: row.id.map(Cow::Borrowed),
            body,
            indexing_directive: row.indexing_directive.map(Cow::Borrowed),
            if_match: row.if_match.map(Cow::Borrowed),
            if_none_match: row.if_none_match.map(Cow::Borrowed),
            ttl_seconds: row.ttl_seconds,
            minimal: row.minimal,
            // There is no column for them.
            pre_triggers: None,
            post_triggers: None,
        })
    }

    fn operation(mut self, wishes: &Wishes) -> Result<BatchOperation> {
        let action = self.action()?;
        let key = self.partition_key.as_deref();
        Ok(BatchOperation {
            condition: self.condition(&action),
            action,
            partition_key: key.map(PartitionKeyHeader::parse).transpose()?,
            ttl_seconds: self.ttl_seconds,
            triggers: self.triggers(&wishes.triggers),
            returns: match self.minimal {
                Some(true) => Returns::Etag,
                Some(false) => Returns::Item,
                None => wishes.returns,
            },
        })
    }

    fn action(&mut self) -> Result<BatchAction> {
        Ok(match self.operation_type {
            OperationType::Create => {
                BatchAction::Create { body: self.body()?, indexing: self.indexing()? }
            }
            OperationType::Upsert => {
                BatchAction::Upsert { body: self.body()?, indexing: self.indexing()? }
            }
            OperationType::Replace => BatchAction::Replace {
                id: self.id()?,
                body: self.body()?,
                indexing: self.indexing()?,
            },
            OperationType::Patch => BatchAction::Patch { id: self.id()?, body: self.body()? },
            OperationType::Read => BatchAction::Read { id: self.id()? },
            OperationType::Delete => BatchAction::Delete { id: self.id()? },
        })
    }

    /// Its own, or those of the request, which are for writes.
    fn triggers(&mut self, of_request: &TriggerNames) -> TriggerNames {
        let reads = self.operation_type == OperationType::Read;
        let or = |own: Option<Vec<String>>, of_request: &[String]| match own {
            Some(own) => own,
            None if reads => Vec::new(),
            None => of_request.to_vec(),
        };
        TriggerNames {
            pre: or(self.pre_triggers.take(), &of_request.pre),
            post: or(self.post_triggers.take(), &of_request.post),
        }
    }

    /// As the headers of a single request: a read may be spared, an upsert may insist on a version
    /// or on none, a change insists on a version. A create finds nothing to compare.
    fn condition(&self, action: &BatchAction) -> Option<Condition> {
        let pattern = |etag: &Option<Cow<'_, str>>| -> Option<EtagPattern> {
            etag.as_deref().map(etag_pattern)
        };
        let matching = pattern(&self.if_match).map(Condition::Match);
        let none_matching = pattern(&self.if_none_match).map(Condition::NoneMatch);
        match action {
            BatchAction::Read { .. } => none_matching.or(matching),
            BatchAction::Upsert { .. } => matching.or(none_matching),
            BatchAction::Create { .. }
            | BatchAction::Replace { .. }
            | BatchAction::Patch { .. }
            | BatchAction::Delete { .. }
            | BatchAction::Refused(_) => matching,
        }
    }

    fn indexing(&self) -> Result<Indexing> {
        match self.indexing_directive.as_deref() {
            None | Some("Default") => Ok(Indexing::ByPolicy),
            Some("Include") => Ok(Indexing::Include),
            Some("Exclude") => Ok(Indexing::Exclude),
            Some(_) => {
                let how = "must be Include, Exclude or Default";
                Err(wrong(self.at, "indexingDirective", how))
            }
        }
    }

    fn body(&mut self) -> Result<Vec<u8>> {
        let body = self.body.take().ok_or_else(|| wrong(self.at, "resourceBody", "is missing"))?;
        Ok(body.into_owned())
    }

    fn id(&mut self) -> Result<String> {
        let id = self.id.take().ok_or_else(|| wrong(self.at, "id", "is missing"))?;
        Ok(id.into_owned())
    }
}

/// The members of one operation in JSON: a handful, taken apart once, for one of them is the
/// document.
struct Members<'a> {
    at: usize,
    found: Vec<(Cow<'a, str>, Raw<'a>)>,
}

impl<'a> Members<'a> {
    fn given(&self) -> Result<Given<'a>> {
        Ok(Given {
            at: self.at,
            operation_type: self.operation_type()?,
            partition_key: self.string("partitionKey")?,
            id: self.string("id")?,
            body: self.member("resourceBody").map(|raw| Cow::Borrowed(raw.bytes())),
            indexing_directive: self.string("indexingDirective")?,
            if_match: self.string("ifMatch")?,
            if_none_match: self.string("ifNoneMatch")?,
            ttl_seconds: self.ttl_seconds()?,
            minimal: self.boolean("minimalReturnPreference")?,
            pre_triggers: self.names("preTriggerInclude")?,
            post_triggers: self.names("postTriggerInclude")?,
        })
    }

    fn operation_type(&self) -> Result<OperationType> {
        const NAME: &str = "operationType";
        let kind = self.string(NAME)?.ok_or_else(|| wrong(self.at, NAME, "is missing"))?;
        match &*kind {
            "Create" => Ok(OperationType::Create),
            "Upsert" => Ok(OperationType::Upsert),
            "Replace" => Ok(OperationType::Replace),
            "Patch" => Ok(OperationType::Patch),
            "Read" => Ok(OperationType::Read),
            "Delete" => Ok(OperationType::Delete),
            other => {
                let other: String = other.chars().take(40).collect();
                let known = "must be Create, Upsert, Replace, Patch, Read or Delete";
                Err(wrong(self.at, NAME, &format!("{known}, not '{other}'")))
            }
        }
    }

    fn string(&self, name: &str) -> Result<Option<Cow<'a, str>>> {
        let Some(raw) = self.member(name) else { return Ok(None) };
        match raw.to_value().as_str() {
            Some(text) => Ok(Some(Cow::Owned(text.to_owned()))),
            None => Err(wrong(self.at, name, "must be a string")),
        }
    }

    fn ttl_seconds(&self) -> Result<Option<i32>> {
        const NAME: &str = "timeToLiveInSeconds";
        let Some(raw) = self.member(NAME) else { return Ok(None) };
        let seconds = raw.to_value().as_i64().and_then(|ttl| i32::try_from(ttl).ok());
        seconds.map(Some).ok_or_else(|| wrong(self.at, NAME, "must be an integer of 32 bits"))
    }

    /// Names of triggers: a text as in the request's header, or an array of texts.
    fn names(&self, name: &str) -> Result<Option<Vec<String>>> {
        let Some(raw) = self.member(name) else { return Ok(None) };
        let value = raw.to_value();
        let names = match &value {
            Value::String(list) => Some(trigger_names(list)),
            Value::Array(names) => {
                names.iter().map(|name| name.as_str().map(str::to_owned)).collect()
            }
            _ => None,
        };
        names.map(Some).ok_or_else(|| wrong(self.at, name, "must be a string or an array of them"))
    }

    fn boolean(&self, name: &str) -> Result<Option<bool>> {
        match self.member(name).map(|raw| raw.text()) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(wrong(self.at, name, "must be true or false")),
        }
    }

    /// A member; null counts as absent.
    fn member(&self, name: &str) -> Option<Raw<'a>> {
        let mut found = self.found.iter();
        let (_, raw) = found.find(|(known, _)| known == name)?;
        Some(*raw).filter(|raw| raw.kind() != RawKind::Null)
    }
}

fn wrong(at: usize, name: &str, how: &str) -> Error {
    Error::bad_request(format!("The property '{name}' of the operation {at} {how}."))
}

//! What server and worker say to each other.

use std::io;

use partita_engine::{
    HostItem, HostLink, HostPage, HostQuery, HostTarget, HostWrite, Indexing, Script, ScriptCall,
    ScriptEnd, ScriptRole, WriteKind,
};
use partita_model::{Error, ErrorKind, Result, Value};

use super::wire::{Decoder, Encoder, broken};
use crate::bridge::status;
use crate::queue::{Link, Operation, Page, Target};

// What the server says first.
pub(super) const CHECK: u8 = 1;
pub(super) const RUN: u8 = 2;
pub(super) const LOAD: u8 = 3;
pub(super) const CALL: u8 = 4;
// What a worker says: a question of a script, or the answer, which may be its last.
pub(super) const ASK: u8 = 5;
pub(super) const END: u8 = 6;
pub(super) const LAST: u8 = 7;
// What follows on a question.
const ITEM: u8 = 8;
const NOTHING: u8 = 9;
const PAGE: u8 = 10;
const FAILED: u8 = 11;

/// In the place of an error's number: it is the script's own, and follows.
const SCRIPT_FAILED: u64 = 1_000;

pub(super) fn put_script(frame: Encoder, script: &Script) -> Encoder {
    frame.text(&script.name).text(&script.source)
}

pub(super) fn get_script(frame: &mut Decoder) -> io::Result<Script> {
    // A worker keeps nothing under versions.
    Ok(Script { name: frame.text()?, source: frame.text()?.into(), version: 0 })
}

/// A call of a procedure or trigger, owned.
pub(super) struct Call {
    pub(super) script: Script,
    role: Role,
    pub(super) logs: bool,
    pub(super) millis_max: u64,
    self_link: String,
    alt_link: String,
}

enum Role {
    Procedure(String),
    PreTrigger(WriteKind, Option<String>),
    PostTrigger(WriteKind, Option<String>, Option<String>),
}

pub(super) fn put_call(call: &ScriptCall<'_>) -> Encoder {
    let frame = put_script(Encoder::default().byte(RUN), call.script);
    let frame = frame.byte(call.logs.into()).number(call.millis_max);
    let frame = frame.text(call.self_link).text(call.alt_link);
    match call.role {
        ScriptRole::Procedure { arguments } => frame.byte(0).text(arguments),
        ScriptRole::PreTrigger { operation, document } => {
            frame.byte(1).byte(put_kind(operation)).optional(document)
        }
        ScriptRole::PostTrigger { operation, document, answer } => {
            frame.byte(2).byte(put_kind(operation)).optional(document).optional(answer)
        }
    }
}

pub(super) fn get_call(frame: &mut Decoder) -> io::Result<Call> {
    Ok(Call {
        script: get_script(frame)?,
        logs: frame.byte()? != 0,
        millis_max: frame.number()?,
        self_link: frame.text()?,
        alt_link: frame.text()?,
        role: match frame.byte()? {
            0 => Role::Procedure(frame.text()?),
            1 => Role::PreTrigger(get_kind(frame)?, frame.optional()?),
            2 => Role::PostTrigger(get_kind(frame)?, frame.optional()?, frame.optional()?),
            _ => return Err(broken()),
        },
    })
}

impl Call {
    pub(super) fn as_call(&self) -> ScriptCall<'_> {
        let role = match &self.role {
            Role::Procedure(arguments) => ScriptRole::Procedure { arguments },
            Role::PreTrigger(operation, document) => {
                ScriptRole::PreTrigger { operation: *operation, document: document.as_deref() }
            }
            Role::PostTrigger(operation, document, answer) => ScriptRole::PostTrigger {
                operation: *operation,
                document: document.as_deref(),
                answer: answer.as_deref(),
            },
        };
        ScriptCall {
            script: &self.script,
            role,
            logs: self.logs,
            millis_max: self.millis_max,
            self_link: &self.self_link,
            alt_link: &self.alt_link,
        }
    }
}

fn put_kind(kind: WriteKind) -> u8 {
    match kind {
        WriteKind::Create => 0,
        WriteKind::Upsert => 1,
        WriteKind::Replace => 2,
        WriteKind::Delete => 3,
    }
}

fn get_kind(frame: &mut Decoder) -> io::Result<WriteKind> {
    Ok(match frame.byte()? {
        0 => WriteKind::Create,
        1 => WriteKind::Upsert,
        2 => WriteKind::Replace,
        3 => WriteKind::Delete,
        _ => return Err(broken()),
    })
}

pub(super) fn ask_write(write: &HostWrite<'_>) -> Encoder {
    let frame = Encoder::default().byte(ASK).byte(0).text(write.document);
    let frame = frame.byte(match write.indexing {
        Indexing::ByPolicy => 0,
        Indexing::Include => 1,
        Indexing::Exclude => 2,
    });
    let frame = frame.optional(write.if_match);
    match write.target {
        HostTarget::Create => frame.byte(0),
        HostTarget::Upsert => frame.byte(1),
        HostTarget::Replace(link) => put_link(frame.byte(2), link),
    }
}

pub(super) fn ask_read(link: HostLink<'_>, if_none_match: Option<&str>) -> Encoder {
    put_link(Encoder::default().byte(ASK).byte(1), link).optional(if_none_match)
}

pub(super) fn ask_delete(link: HostLink<'_>, if_match: Option<&str>) -> Encoder {
    put_link(Encoder::default().byte(ASK).byte(2), link).optional(if_match)
}

pub(super) fn ask_query(query: &HostQuery<'_>) -> Encoder {
    let frame = Encoder::default().byte(ASK).byte(3).optional(query.text);
    let frame = frame.number(query.page_size as u64).optional(query.continuation);
    let frame = frame.number(query.parameters.len() as u64);
    let put =
        |frame: Encoder, (name, value): &(String, Value)| put_value(frame.text(name), Some(value));
    query.parameters.iter().fold(frame, put)
}

/// What a worker asks, after the byte that says that it asks.
pub(super) fn get_ask(frame: &mut Decoder) -> io::Result<Operation> {
    Ok(match frame.byte()? {
        0 => Operation::Write {
            document: frame.text()?,
            indexing: match frame.byte()? {
                0 => Indexing::ByPolicy,
                1 => Indexing::Include,
                2 => Indexing::Exclude,
                _ => return Err(broken()),
            },
            if_match: frame.optional()?,
            target: match frame.byte()? {
                0 => Target::Create,
                1 => Target::Upsert,
                2 => Target::Replace(get_link(frame)?),
                _ => return Err(broken()),
            },
        },
        1 => Operation::Read { link: get_link(frame)?, if_none_match: frame.optional()? },
        2 => Operation::Delete { link: get_link(frame)?, if_match: frame.optional()? },
        3 => get_query(frame)?,
        _ => return Err(broken()),
    })
}

fn get_query(frame: &mut Decoder) -> io::Result<Operation> {
    let text = frame.optional()?;
    let size = usize::try_from(frame.number()?).map_err(|_| broken())?;
    let page = Page { size, continuation: frame.optional()? };
    let mut parameters = Vec::new();
    for _ in 0..frame.count()? {
        let name = frame.text()?;
        parameters.push((name, get_value(frame)?.ok_or_else(broken)?));
    }
    Ok(Operation::Query { text, parameters, bytes: 0, page })
}

fn put_link(frame: Encoder, link: HostLink<'_>) -> Encoder {
    match link {
        HostLink::Name(id) => frame.byte(0).text(id),
        HostLink::Rid(rid) => frame.byte(1).text(rid),
    }
}

fn get_link(frame: &mut Decoder) -> io::Result<Link> {
    Ok(match frame.byte()? {
        0 => Link::Name(frame.text()?),
        1 => Link::Rid(frame.text()?),
        _ => return Err(broken()),
    })
}

/// The answer to a question: an item, nothing, a page, or why not.
pub(super) enum Reply {
    Item(HostItem),
    Nothing,
    Page(HostPage),
    Failed(Error),
}

pub(super) fn put_reply(reply: &Reply) -> Encoder {
    match reply {
        Reply::Item(item) => Encoder::default().byte(ITEM).text(&item.text),
        Reply::Nothing => Encoder::default().byte(NOTHING),
        Reply::Page(page) => {
            let frame = Encoder::default().byte(PAGE).optional(page.continuation.as_deref());
            let frame = frame.number(page.rows.len() as u64);
            page.rows.iter().fold(frame, |frame, row| frame.text(row))
        }
        Reply::Failed(error) => put_error(Encoder::default().byte(FAILED), error),
    }
}

pub(super) fn get_reply(frame: &mut Decoder) -> io::Result<Reply> {
    Ok(match frame.byte()? {
        ITEM => Reply::Item(HostItem { text: frame.text()? }),
        NOTHING => Reply::Nothing,
        PAGE => {
            let continuation = frame.optional()?;
            let rows: io::Result<_> = (0..frame.count()?).map(|_| frame.text()).collect();
            Reply::Page(HostPage { rows: rows?, continuation })
        }
        FAILED => Reply::Failed(get_error(frame)?),
        _ => return Err(broken()),
    })
}

pub(super) fn put_end(frame: Encoder, end: &ScriptEnd) -> Encoder {
    put_result(frame.text(&end.log), &end.result, |frame, text| frame.optional(text.as_deref()))
}

/// How a run ended, after the byte that says that it did.
pub(super) fn get_end(frame: &mut Decoder) -> io::Result<ScriptEnd> {
    Ok(ScriptEnd { log: frame.text()?, result: get_result(frame, Decoder::optional)? })
}

pub(super) fn put_result<T>(
    frame: Encoder,
    result: &Result<T>,
    put: impl FnOnce(Encoder, &T) -> Encoder,
) -> Encoder {
    match result {
        Ok(value) => put(frame.byte(1), value),
        Err(error) => put_error(frame.byte(0), error),
    }
}

pub(super) fn get_result<T>(
    frame: &mut Decoder,
    get: impl FnOnce(&mut Decoder) -> io::Result<T>,
) -> io::Result<Result<T>> {
    match frame.byte()? {
        1 => get(frame).map(Ok),
        0 => get_error(frame).map(Err),
        _ => Err(broken()),
    }
}

pub(super) fn put_value(frame: Encoder, value: Option<&Value>) -> Encoder {
    frame.optional(value.map(Value::to_json).as_deref())
}

pub(super) fn get_value(frame: &mut Decoder) -> io::Result<Option<Value>> {
    match frame.optional()? {
        None => Ok(None),
        Some(text) => Value::parse(text.as_bytes()).map(Some).map_err(|_| broken()),
    }
}

/// An error by the number that a script sees. Those that no script sees go as one: the server knows
/// which one it was.
fn put_error(frame: Encoder, error: &Error) -> Encoder {
    if let ErrorKind::ScriptFailed { number } = error.kind {
        return frame.number(SCRIPT_FAILED).number(number.into()).text(&error.message);
    }
    let number = match error.kind {
        ErrorKind::Timeout => 408,
        ErrorKind::Unavailable => 503,
        ErrorKind::DiskFull => 507,
        _ => status(&error.kind).unwrap_or(500),
    };
    frame.number(number.into()).text(&error.message)
}

fn get_error(frame: &mut Decoder) -> io::Result<Error> {
    let kind = match frame.number()? {
        SCRIPT_FAILED => {
            let number = u32::try_from(frame.number()?).map_err(|_| broken())?;
            ErrorKind::ScriptFailed { number }
        }
        400 => ErrorKind::BadRequest,
        401 => ErrorKind::Unauthenticated,
        403 => ErrorKind::Forbidden,
        404 => ErrorKind::NotFound,
        405 => ErrorKind::MethodNotAllowed,
        408 => ErrorKind::Timeout,
        409 => ErrorKind::Conflict,
        412 => ErrorKind::PreconditionFailed,
        413 => ErrorKind::TooLarge,
        424 => ErrorKind::FailedDependency,
        501 => ErrorKind::Unsupported,
        503 => ErrorKind::Unavailable,
        507 => ErrorKind::DiskFull,
        _ => ErrorKind::Internal,
    };
    Ok(Error::new(kind, frame.text()?))
}

//! Requests on stored procedures, triggers and user-defined functions.

use http::{HeaderName, Method};
use partita_engine::{
    ContainerPath, KeyRequired, Op, ProcedureCall, ScriptOp, ScriptPath, TriggerNames,
};
use partita_model::{Error, Result, ScriptKind, Value};

use super::import;
use super::metadata::resource_body;
use super::query::{is_list, list};
use super::{Incoming, if_match, not_allowed, partition_key, read_condition};
use crate::headers::{self, Headers};

pub(super) fn scripts(
    container: ContainerPath,
    kind: ScriptKind,
    incoming: Incoming<'_>,
) -> Result<Op> {
    if is_list(&incoming)? {
        return list(&incoming, |filter, page| {
            Op::Script(ScriptOp::List { container, kind, filter, page })
        });
    }
    let headers = incoming.headers;
    Ok(Op::Script(match *incoming.method {
        Method::POST => {
            let body = resource_body(&incoming)?;
            if headers.flag(&headers::IS_UPSERT)? {
                ScriptOp::Upsert { container, kind, body, condition: if_match(headers)? }
            } else {
                ScriptOp::Create { container, kind, body }
            }
        }
        _ => return Err(not_allowed(incoming.method, "the scripts of a container", "GET or POST")),
    }))
}

pub(super) fn script(
    script: ScriptPath,
    incoming: Incoming<'_>,
    key_required: KeyRequired,
) -> Result<Op> {
    let headers = incoming.headers;
    Ok(Op::Script(match *incoming.method {
        Method::GET => ScriptOp::Read { script, condition: read_condition(headers)? },
        Method::PUT => {
            let body = resource_body(&incoming)?;
            ScriptOp::Replace { script, body, condition: if_match(headers)? }
        }
        Method::DELETE => ScriptOp::Delete { script, condition: if_match(headers)? },
        Method::POST if script.kind == ScriptKind::Procedure => {
            return if import::is_system_procedure(&script.script) {
                import::run(script, incoming, key_required)
            } else {
                run(script, incoming, key_required)
            };
        }
        _ if script.kind == ScriptKind::Procedure => {
            let accepted = "GET, PUT, DELETE or POST";
            return Err(not_allowed(incoming.method, "a stored procedure", accepted));
        }
        _ => return Err(not_allowed(incoming.method, "a script", "GET, PUT or DELETE")),
    }))
}

/// A run of a procedure. The body is the list of its arguments, or what the language's `apply`
/// takes for one: null, and an object with a length.
fn run(script: ScriptPath, incoming: Incoming<'_>, key_required: KeyRequired) -> Result<Op> {
    let arguments = if incoming.body.is_empty() {
        Value::Array(Vec::new())
    } else {
        Value::parse(&incoming.body)?
    };
    if !matches!(arguments, Value::Null | Value::Array(_) | Value::Object(_)) {
        return Err(Error::bad_request(
            "The body of a request that runs a stored procedure must be an array: its arguments.",
        ));
    }
    Ok(Op::ExecuteProcedure(ProcedureCall {
        container: script.container,
        procedure: script.script,
        partition_key: partition_key(key_required, incoming.headers)?,
        arguments: arguments.to_json(),
        logs: incoming.headers.flag(&headers::SCRIPT_LOGGING)?,
    }))
}

/// The triggers that a write names.
pub(super) fn triggers(headers: Headers<'_>) -> Result<TriggerNames> {
    let names = |name: &HeaderName| -> Result<Vec<String>> {
        Ok(trigger_names(headers.text(name)?.unwrap_or_default()))
    };
    let (pre, post) = (names(&headers::PRE_TRIGGERS)?, names(&headers::POST_TRIGGERS)?);
    Ok(TriggerNames { pre, post })
}

/// Names in a list with commas.
pub(super) fn trigger_names(list: &str) -> Vec<String> {
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

/// A write with the triggers that its request names.
pub(super) fn triggered(headers: Headers<'_>, write: Op) -> Result<Op> {
    let triggers = triggers(headers)?;
    if triggers.is_empty() {
        return Ok(write);
    }
    Ok(Op::Triggered { write: Box::new(write), triggers })
}

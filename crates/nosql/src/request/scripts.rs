//! Requests on stored procedures, triggers and user-defined functions.

use http::Method;
use partita_engine::{ContainerPath, Op, ScriptOp, ScriptPath};
use partita_model::{Result, ScriptKind, Value};

use super::metadata::required_id;
use super::query::filter;
use super::{Incoming, Runs, if_match, not_allowed, read_condition};
use crate::feature::Feature;
use crate::headers;

pub(super) fn scripts(
    container: ContainerPath,
    kind: ScriptKind,
    incoming: Incoming<'_>,
) -> Result<Op> {
    let headers = incoming.headers;
    Ok(Op::Script(match *incoming.method {
        Method::GET => ScriptOp::List { container, kind, filter: None, page: headers.page()? },
        Method::POST if headers.is_query()? => {
            let filter = Some(filter(&incoming.body)?);
            ScriptOp::List { container, kind, filter, page: headers.page()? }
        }
        Method::POST => {
            let body = body(&incoming)?;
            if headers.flag(&headers::IS_UPSERT)? {
                ScriptOp::Upsert { container, kind, body, condition: if_match(headers)? }
            } else {
                ScriptOp::Create { container, kind, body }
            }
        }
        _ => return Err(not_allowed(incoming.method, "the scripts of a container", "GET or POST")),
    }))
}

pub(super) fn script(script: ScriptPath, incoming: Incoming<'_>) -> Result<Op> {
    let headers = incoming.headers;
    Ok(Op::Script(match *incoming.method {
        Method::GET => ScriptOp::Read { script, condition: read_condition(headers)? },
        Method::PUT => {
            let body = body(&incoming)?;
            ScriptOp::Replace { script, body, condition: if_match(headers)? }
        }
        Method::DELETE => ScriptOp::Delete { script, condition: if_match(headers)? },
        Method::POST if script.kind == ScriptKind::Procedure => {
            return Err(Feature::StoredProcedures.refusal());
        }
        _ => return Err(not_allowed(incoming.method, "a script", "GET, PUT or DELETE")),
    }))
}

fn body(incoming: &Incoming<'_>) -> Result<Value> {
    let body = Value::parse(&incoming.body)?;
    required_id(&body)?;
    Ok(body)
}

pub(super) fn profile(op: &ScriptOp) -> (&'static str, Runs) {
    match op {
        ScriptOp::Create { .. } => ("CreateScript", Runs::InPool),
        ScriptOp::Upsert { .. } => ("UpsertScript", Runs::InPool),
        ScriptOp::Read { .. } => ("ReadScript", Runs::Inline),
        ScriptOp::Replace { .. } => ("ReplaceScript", Runs::InPool),
        ScriptOp::Delete { .. } => ("DeleteScript", Runs::InPool),
        ScriptOp::List { .. } => ("ListScripts", Runs::InPool),
    }
}

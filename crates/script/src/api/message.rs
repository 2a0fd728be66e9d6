//! The objects `getRequest()` and `getResponse()` of a script.

use std::rc::Rc;

use rquickjs::{Ctx, Object, Value};

use super::method::method;
use crate::bridge::{JsResult, lossy, throw};
use crate::run::{BODY, Message, OPERATION_TYPE, Run};

/// What the service knows of a container's quota, and we do not.
const QUOTA_METHODS: [&str; 2] = ["getResourceQuotaCurrentUsage", "getMaxResourceQuota"];

/// Which of the two.
#[derive(Clone, Copy)]
pub(crate) enum Side {
    Request,
    Response,
}

/// The object that a script gets for it.
pub(crate) fn object<'js>(ctx: &Ctx<'js>, run: &Rc<Run>, side: Side) -> JsResult<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    method(ctx, &object, "getBody", run, move |ctx, run, _| of(ctx, run, side)?.body(ctx))?;
    method(ctx, &object, "setBody", run, move |ctx, run, arguments| {
        write(ctx, run, side, BODY, arguments.first(), Message::set)
    })?;
    method(ctx, &object, "appendBody", run, move |ctx, run, arguments| {
        write(ctx, run, side, BODY, arguments.first(), Message::append)
    })?;
    method(ctx, &object, "getValue", run, move |ctx, run, arguments| {
        of(ctx, run, side)?.get(ctx, &name(ctx, arguments)?)
    })?;
    method(ctx, &object, "setValue", run, move |ctx, run, arguments| {
        write(ctx, run, side, &name(ctx, arguments)?, arguments.get(1), Message::set)
    })?;
    method(ctx, &object, "appendValue", run, move |ctx, run, arguments| {
        write(ctx, run, side, &name(ctx, arguments)?, arguments.get(1), Message::append)
    })?;
    if of(ctx, run, side)?.operation.is_some() {
        method(ctx, &object, "getOperationType", run, move |ctx, run, _| {
            of(ctx, run, side)?.get(ctx, OPERATION_TYPE)
        })?;
    }
    if let Side::Response = side {
        for name in QUOTA_METHODS {
            method(ctx, &object, name, run, move |ctx, _, _| {
                Err(throw(ctx, 501, &format!("{name} is not supported by Partita.")))
            })?;
        }
    }
    Ok(object)
}

fn of<'a>(ctx: &Ctx<'_>, run: &'a Run, side: Side) -> JsResult<&'a Message> {
    match side {
        Side::Request => Ok(&run.request),
        Side::Response => {
            run.response.as_ref().ok_or_else(|| throw(ctx, 400, "There is no response here."))
        }
    }
}

fn name<'js>(ctx: &Ctx<'js>, arguments: &[Value<'js>]) -> JsResult<String> {
    match arguments.first().and_then(Value::as_string) {
        Some(name) => lossy(ctx, name),
        None => Err(throw(ctx, 400, "The name of a value must be a string.")),
    }
}

type Write = for<'js> fn(&Message, &Ctx<'js>, &Run, &Value<'js>) -> JsResult<()>;

fn write<'js>(
    ctx: &Ctx<'js>,
    run: &Run,
    side: Side,
    name: &str,
    value: Option<&Value<'js>>,
    write: Write,
) -> JsResult<Value<'js>> {
    let message = of(ctx, run, side)?;
    message.check_writable(ctx, name)?;
    let undefined = Value::new_undefined(ctx.clone());
    write(message, ctx, run, value.unwrap_or(&undefined))?;
    Ok(undefined)
}

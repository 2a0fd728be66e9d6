//! The request and the response, as a script sees them.
//!
//! Both are a small map of values of which only the body can ever be written: of the response
//! in procedures and post-triggers, of the request in pre-triggers. The body of a procedure's
//! response starts as the empty string, so appending to it makes text until something else is set.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use partita_model::limits::RESPONSE_BYTES_MAX;
use rquickjs::{Ctx, Object, Persistent, String as JsString, Value};

use crate::bridge::{JsResult, Kept, lossy, stringify, throw};
use crate::context::method;
use crate::run::Run;

pub(crate) const BODY: &str = "Body";
const OPERATION_TYPE: &str = "OperationType";
/// What the service knows of a container's quota, and we do not.
const QUOTA_METHODS: [&str; 2] = ["getResourceQuotaCurrentUsage", "getMaxResourceQuota"];

pub(crate) struct Message {
    writable: bool,
    operation: Option<&'static str>,
    body: RefCell<Option<Kept>>,
    /// Length of the body, if it is a string that was appended to.
    length: Cell<usize>,
    written: Cell<bool>,
}

/// Which of the two.
#[derive(Clone, Copy)]
pub(crate) enum Side {
    Request,
    Response,
}

impl Message {
    pub(crate) fn new<'js>(
        ctx: &Ctx<'js>,
        writable: bool,
        operation: Option<&'static str>,
        body: Value<'js>,
    ) -> Message {
        Message {
            writable,
            operation,
            body: RefCell::new(Some(Persistent::save(ctx, body))),
            length: Cell::new(0),
            written: Cell::new(false),
        }
    }

    /// The body, if the script has set it.
    pub(crate) fn written_body<'js>(&self, ctx: &Ctx<'js>) -> JsResult<Option<Value<'js>>> {
        if self.written.get() { self.body(ctx).map(Some) } else { Ok(None) }
    }

    pub(crate) fn clear(&self) {
        self.body.take();
    }

    fn body<'js>(&self, ctx: &Ctx<'js>) -> JsResult<Value<'js>> {
        match self.body.borrow().clone() {
            Some(body) => body.restore(ctx),
            None => Ok(Value::new_undefined(ctx.clone())),
        }
    }

    fn get<'js>(&self, ctx: &Ctx<'js>, name: &str) -> JsResult<Value<'js>> {
        match (name, self.operation) {
            (BODY, _) => self.body(ctx),
            (OPERATION_TYPE, Some(operation)) => {
                Ok(JsString::from_str(ctx.clone(), operation)?.into_value())
            }
            _ => Err(throw(ctx, 400, &format!("There is no such value: {name}"))),
        }
    }

    /// Refuses to write anything but the body, and that where it may not be.
    fn check_writable(&self, ctx: &Ctx<'_>, name: &str) -> JsResult<()> {
        if name == BODY && self.writable {
            return Ok(());
        }
        let known = name == BODY || (name == OPERATION_TYPE && self.operation.is_some());
        Err(if known {
            throw(ctx, 403, &format!("Not a writable property: {name}"))
        } else {
            throw(ctx, 400, &format!("Cannot set new values: {name}"))
        })
    }

    fn set<'js>(&self, ctx: &Ctx<'js>, run: &Run, value: &Value<'js>) -> JsResult<()> {
        let length = length(ctx, value)?;
        self.keep(ctx, run, length, value)
    }

    /// What `+` does in the language: texts are joined, numbers added.
    pub(crate) fn append<'js>(
        &self,
        ctx: &Ctx<'js>,
        run: &Run,
        value: &Value<'js>,
    ) -> JsResult<()> {
        let before = self.body(ctx)?;
        if before.is_null() || before.is_undefined() {
            return self.set(ctx, run, value);
        }
        let known = before.is_string().then(|| self.length.get());
        let add: rquickjs::Function<'js> = ctx.eval("(a, b) => a + b")?;
        let sum: Value<'js> = add.call((before, value.clone()))?;
        let length = match known.filter(|known| *known > 0) {
            Some(known) => known + length(ctx, value)?,
            None => length(ctx, &sum)?,
        };
        self.keep(ctx, run, length, &sum)
    }

    fn keep<'js>(
        &self,
        ctx: &Ctx<'js>,
        run: &Run,
        length: usize,
        value: &Value<'js>,
    ) -> JsResult<()> {
        if length > RESPONSE_BYTES_MAX {
            return Err(run.refuse_size(ctx, BODY));
        }
        self.length.set(length);
        self.written.set(true);
        self.body.replace(Some(Persistent::save(ctx, value.clone())));
        Ok(())
    }
}

/// How long a value is as text, about.
fn length<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> JsResult<usize> {
    if let Some(string) = value.as_string() {
        return Ok(lossy(ctx, string)?.len());
    }
    if value.is_number() || value.is_bool() || value.is_null() || value.is_undefined() {
        return Ok(0);
    }
    Ok(stringify(ctx, value)?.map_or(0, |text| text.len()))
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

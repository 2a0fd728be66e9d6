//! The request and the response, as a script sees them.
//!
//! Both are a small map of values of which only the body can ever be written: of the response
//! in procedures and post-triggers, of the request in pre-triggers. The body of a procedure's
//! response starts as the empty string, so appending to it makes text until something else is set.

use std::cell::{Cell, RefCell};

use partita_model::limits::RESPONSE_BYTES_MAX;
use rquickjs::{Ctx, Persistent, String as JsString, Value};

use super::Run;
use crate::bridge::{JsResult, SavedValue, lossy, stringify, throw};

pub(crate) const BODY: &str = "Body";
pub(crate) const OPERATION_TYPE: &str = "OperationType";

pub(crate) struct Message {
    writable: bool,
    pub(crate) operation: Option<&'static str>,
    body: RefCell<Option<SavedValue>>,
    /// Length of the body, if it is a string that was appended to.
    length: Cell<usize>,
    written: Cell<bool>,
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

    pub(crate) fn body<'js>(&self, ctx: &Ctx<'js>) -> JsResult<Value<'js>> {
        match self.body.borrow().clone() {
            Some(body) => body.restore(ctx),
            None => Ok(Value::new_undefined(ctx.clone())),
        }
    }

    pub(crate) fn get<'js>(&self, ctx: &Ctx<'js>, name: &str) -> JsResult<Value<'js>> {
        match (name, self.operation) {
            (BODY, _) => self.body(ctx),
            (OPERATION_TYPE, Some(operation)) => {
                Ok(JsString::from_str(ctx.clone(), operation)?.into_value())
            }
            _ => Err(throw(ctx, 400, &format!("There is no such value: {name}"))),
        }
    }

    /// Refuses to write anything but the body, and that where it may not be.
    pub(crate) fn check_writable(&self, ctx: &Ctx<'_>, name: &str) -> JsResult<()> {
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

    pub(crate) fn set<'js>(&self, ctx: &Ctx<'js>, run: &Run, value: &Value<'js>) -> JsResult<()> {
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

//! Why a script failed, as an error of the database.
//!
//! Whatever a script throws, the client gets a 400 with the exception's text and place; the number
//! of a numbered error stands in the text, and is the answer's sub-status. Only the limits have
//! statuses of their own: time 408, memory 403, size of the answer 413.

use partita_model::{Error, ErrorKind};
use rquickjs::{Ctx, Object, Value};

use crate::bridge::{display, lossy, stringify};
use crate::machine::Watch;

/// Characters of an exception's text, and of its place, that are told.
const TEXT_CHARS_MAX: usize = 4096;

/// What ran, for messages.
pub(crate) struct Subject<'a> {
    pub(crate) name: &'a str,
    pub(crate) watch: &'a Watch,
    pub(crate) memory_bytes_max: usize,
}

impl Subject<'_> {
    /// What became of a script that ended with this error.
    pub(crate) fn explain(&self, ctx: &Ctx<'_>, error: &rquickjs::Error) -> Error {
        // Taken off in any case, so that it does not stay behind.
        let thrown = error.is_exception().then(|| ctx.catch());
        if self.watch.expired() {
            return self.timeout();
        }
        match thrown {
            Some(thrown) => self.thrown(ctx, &thrown),
            None if matches!(error, rquickjs::Error::Allocation) => self.out_of_memory(),
            None => Error::bad_request(exception(&error.to_string(), "")),
        }
    }

    pub(crate) fn timeout(&self) -> Error {
        Error::timeout(format!(
            "The script '{}' ran longer than it may. Do less in one call, and go on in the next: \
             operations that are not accepted say when it is time to return.",
            self.name
        ))
    }

    pub(crate) fn out_of_memory(&self) -> Error {
        Error::forbidden(format!(
            "The script '{}' needs more than the {} bytes of memory that it may use.",
            self.name, self.memory_bytes_max
        ))
    }

    /// What was thrown. Reading it may run the script's code, and so may fail or take too long.
    pub(crate) fn thrown<'js>(&self, ctx: &Ctx<'js>, thrown: &Value<'js>) -> Error {
        // With no memory left for an error, null is thrown.
        if thrown.is_null() || is_out_of_memory(ctx, thrown) {
            return self.out_of_memory();
        }
        let text = text_of(ctx, thrown);
        let stack = stack_of(ctx, thrown);
        let number = number_of(ctx, thrown);
        if self.watch.expired() {
            return self.timeout();
        }
        let message = exception(&text, &stack);
        match number {
            Some(number) => Error::new(ErrorKind::ScriptFailed { number }, message),
            None => Error::bad_request(message),
        }
    }
}

fn exception(text: &str, stack: &str) -> String {
    format!(
        "Encountered exception while executing function. Exception = {}\r\nStack trace: {}",
        shortened(text),
        shortened(stack)
    )
}

/// The number of an error that has one, if it can be a sub-status.
fn number_of<'js>(ctx: &Ctx<'js>, thrown: &Value<'js>) -> Option<u32> {
    let error = thrown.as_object().filter(|object| object.is_error())?;
    let number = member(ctx, error, "number").parse().ok();
    ctx.catch();
    number
}

fn shortened(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

fn is_out_of_memory<'js>(ctx: &Ctx<'js>, thrown: &Value<'js>) -> bool {
    let Some(error) = thrown.as_object().filter(|object| object.is_error()) else { return false };
    let found = member(ctx, error, "name") == "InternalError"
        && member(ctx, error, "message") == "out of memory";
    ctx.catch();
    found
}

/// An error by its name, number and message; anything else as it would be printed.
fn text_of<'js>(ctx: &Ctx<'js>, thrown: &Value<'js>) -> String {
    let text = match thrown.as_object() {
        Some(error) if error.is_error() => {
            let mut text = member(ctx, error, "name");
            if text.is_empty() {
                text.push_str("Error");
            }
            text.push_str(": ");
            text.push_str(&member(ctx, error, "message"));
            let number = member(ctx, error, "number");
            if !number.is_empty() && number != "undefined" {
                text.push_str(&format!("\r\nNumber: {number}"));
            }
            text
        }
        Some(object) => match stringify(ctx, object.as_value()) {
            Ok(Some(json)) => json,
            _ => "an object that cannot be shown".to_owned(),
        },
        None => display(ctx, thrown).unwrap_or_else(|_| "a value that cannot be shown".to_owned()),
    };
    ctx.catch();
    text
}

fn stack_of<'js>(ctx: &Ctx<'js>, thrown: &Value<'js>) -> String {
    let Some(error) = thrown.as_object().filter(|object| object.is_error()) else {
        return String::new();
    };
    let stack = error.get::<_, Value<'_>>("stack");
    let text = match &stack {
        Ok(stack) => match stack.as_string() {
            Some(stack) => lossy(ctx, stack).unwrap_or_default(),
            None => String::new(),
        },
        Err(_) => String::new(),
    };
    ctx.catch();
    text
}

/// A member as text; nothing if it cannot be read.
fn member<'js>(ctx: &Ctx<'js>, error: &Object<'js>, name: &str) -> String {
    let value = error.get::<_, Value<'_>>(name);
    value.and_then(|value| display(ctx, &value)).unwrap_or_default()
}

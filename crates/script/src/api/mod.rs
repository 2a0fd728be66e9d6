//! Puts the server-side API into a heap: `getContext()`, `__`, `console`, `ErrorCodes`, and errors
//! with numbers.
//!
//! Each object of the API has a file; a method checks its arguments (`arguments.rs`) and works on
//! the state of the run.

mod arguments;
mod chain;
mod collection;
mod message;
mod method;

use std::rc::Rc;

use rquickjs::context::EvalOptions;
use rquickjs::{Ctx, Function, Object, Persistent, String as JsString, Value};

use self::message::Side;
use self::method::method;
use crate::bridge::{JsResult, display, lossy, throw};
use crate::run::Run;

/// What is easier said in the language itself. It runs before any script, and keeps what it needs.
const BOOTSTRAP: &str = include_str!("bootstrap.js");

const SPATIAL_METHODS: [&str; 5] =
    ["distance", "within", "intersects", "isValid", "isValidDetailed"];

/// What every script finds, functions of queries included. Returns a function that makes functions
/// that return a value: were they ours, the heap could not see what they hold, and never free it.
pub(crate) fn add_errors<'js>(ctx: &Ctx<'js>) -> JsResult<Function<'js>> {
    let mut options = EvalOptions::default();
    options.filename = Some("bootstrap.js".to_owned());
    ctx.eval_with_options(BOOTSTRAP, options)
}

/// What procedures and triggers find.
pub(crate) fn add<'js>(ctx: &Ctx<'js>, run: &Rc<Run>) -> JsResult<()> {
    let constant = add_errors(ctx)?;
    let globals = ctx.globals();
    let collection = collection(ctx, run)?;
    let request = message::object(ctx, run, Side::Request)?;
    let response = match run.response {
        Some(_) => Some(message::object(ctx, run, Side::Response)?),
        None => None,
    };

    let context = Object::new(ctx.clone())?;
    getter(&constant, &context, "getCollection", &collection)?;
    getter(&constant, &context, "getRequest", &request)?;
    if let Some(response) = &response {
        getter(&constant, &context, "getResponse", response)?;
    }
    method(ctx, &context, "abort", run, abort)?;
    getter(&constant, &globals, "getContext", &context)?;

    let shortcut = Object::new_proto(ctx.clone(), Some(&collection))?;
    shortcut.set("request", request)?;
    if let Some(response) = response {
        shortcut.set("response", response)?;
    }
    globals.set("__", shortcut)?;

    let console = Object::new(ctx.clone())?;
    method(ctx, &console, "log", run, log)?;
    globals.set("console", console)
}

fn collection<'js>(ctx: &Ctx<'js>, run: &Rc<Run>) -> JsResult<Object<'js>> {
    let collection = Object::new(ctx.clone())?;
    collection::add_methods(ctx, &collection, run)?;
    chain::add_methods(ctx, &collection, run)?;
    let spatial = Object::new(ctx.clone())?;
    for name in SPATIAL_METHODS {
        method(ctx, &spatial, name, run, move |ctx, _, _| {
            Err(throw(ctx, 501, &format!("spatial.{name} is not supported by Partita.")))
        })?;
    }
    collection.set("spatial", spatial)?;
    Ok(collection)
}

fn getter<'js>(
    constant: &Function<'js>,
    object: &Object<'js>,
    name: &str,
    value: &Object<'js>,
) -> JsResult<()> {
    object.set(name, constant.call::<_, Value<'js>>((value.clone(),))?)
}

/// Ends the run. The exception is for the script's next lines; it cannot be caught for long.
fn abort<'js>(ctx: &Ctx<'js>, run: &Rc<Run>, arguments: &[Value<'js>]) -> JsResult<Value<'js>> {
    let reason = match arguments.first() {
        Some(reason) => reason.clone(),
        None => JsString::from_str(ctx.clone(), "The script was aborted.")?.into_value(),
    };
    run.abort(Persistent::save(ctx, reason.clone()));
    Err(ctx.throw(reason))
}

/// One argument is logged as it is; several are a format and what goes into it.
fn log<'js>(ctx: &Ctx<'js>, run: &Rc<Run>, arguments: &[Value<'js>]) -> JsResult<Value<'js>> {
    let undefined = Value::new_undefined(ctx.clone());
    if !run.logs() {
        return Ok(undefined);
    }
    let text = match arguments {
        [] => {
            let message = "The function \"log\" requires at least 1 argument(s) but was called \
                           with 0 argument(s).";
            return Err(throw(ctx, 400, message));
        }
        [only] => display(ctx, only)?,
        [format, values @ ..] => match format.as_string() {
            Some(format) => substitute(ctx, &lossy(ctx, format)?, values)?,
            None => {
                let message = "First argument to console.log should be a string containing zero \
                               or more substitution strings.";
                return Err(throw(ctx, 400, message));
            }
        },
    };
    run.log(ctx, &text)?;
    Ok(undefined)
}

/// Puts values in the places of `%s`; `%%` is a percent sign.
fn substitute<'js>(ctx: &Ctx<'js>, format: &str, values: &[Value<'js>]) -> JsResult<String> {
    let mut text = String::new();
    let mut values = values.iter();
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('%') {
        text.push_str(before);
        rest = match after.chars().next() {
            Some('s') => {
                let value = values.next();
                text.push_str(&value.map_or(Ok("undefined".to_owned()), |v| display(ctx, v))?);
                after.get(1..).unwrap_or_default()
            }
            Some('%') => {
                text.push('%');
                after.get(1..).unwrap_or_default()
            }
            _ => {
                text.push('%');
                after
            }
        };
    }
    text.push_str(rest);
    Ok(text)
}

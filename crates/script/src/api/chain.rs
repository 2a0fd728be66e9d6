//! Queries in JavaScript: `filter`, `map`, `sortBy`, `pluck`, `flatten`, `unwind`, each alone or in
//! a `chain()` that ends with `value()`.
//!
//! Alone, a method takes options and a callback and is queued at once. In a chain it gives the
//! chain, one step longer, and only `value` takes them. What is returned says with `isAccepted`
//! whether more was accepted; a chain that was not stays so, and its methods do nothing.

use std::rc::Rc;

use rquickjs::{Ctx, Object, Value};

use super::arguments::{Tail, save};
use super::method::{is_collection, method};
use crate::bridge::{JsResult, SavedFunction, lossy, throw};
use crate::queue::Operation;
use crate::run::Run;
use crate::transform::Transform;

/// Steps of one chain: each link of it is kept with all steps before.
const STEPS_MAX: usize = 32;

const METHODS: [(&str, Reader); 7] = [
    ("filter", |ctx, arguments| function(ctx, arguments, Transform::Filter)),
    ("map", |ctx, arguments| function(ctx, arguments, Transform::Map)),
    ("sortBy", |ctx, arguments| {
        function(ctx, arguments, |key| Transform::SortBy { key, descending: false })
    }),
    ("sortByDescending", |ctx, arguments| {
        function(ctx, arguments, |key| Transform::SortBy { key, descending: true })
    }),
    ("pluck", pluck),
    ("flatten", flatten),
    ("unwind", unwind),
];

/// Takes what belongs to the step off the front of the arguments.
type Reader =
    for<'a, 'js> fn(&Ctx<'js>, &'a [Value<'js>]) -> JsResult<(Transform, &'a [Value<'js>])>;

/// Adds the methods to the collection object.
pub(crate) fn add_methods<'js>(
    ctx: &Ctx<'js>,
    collection: &Object<'js>,
    run: &Rc<Run>,
) -> JsResult<()> {
    for (name, read) in METHODS {
        method(ctx, collection, name, run, move |ctx, run, arguments| {
            let (step, rest) = read(ctx, without_collection(arguments))?;
            ask(ctx, run, vec![step], rest)
        })?;
    }
    method(ctx, collection, "chain", run, |ctx, run, _| chain(ctx, run, Some(Vec::new())))
}

/// A chain of these steps. Without steps it was not accepted.
fn chain<'js>(
    ctx: &Ctx<'js>,
    run: &Rc<Run>,
    steps: Option<Vec<Transform>>,
) -> JsResult<Value<'js>> {
    let chain = Object::new(ctx.clone())?;
    let at = steps.and_then(|steps| run.begin_chain(steps));
    chain.set("isAccepted", at.is_some())?;
    for (name, read) in METHODS {
        method(ctx, &chain, name, run, move |ctx, run, arguments| {
            self::chain(ctx, run, longer(ctx, run, at, read, arguments)?)
        })?;
    }
    method(ctx, &chain, "value", run, move |ctx, run, arguments| match at {
        None => answer(ctx, false),
        Some(at) => ask(ctx, run, run.chain(at), arguments),
    })?;
    Ok(chain.into_value())
}

/// The steps of a chain with one more.
fn longer<'js>(
    ctx: &Ctx<'js>,
    run: &Run,
    at: Option<usize>,
    read: Reader,
    arguments: &[Value<'js>],
) -> JsResult<Option<Vec<Transform>>> {
    let Some(at) = at else { return Ok(None) };
    let (step, rest) = read(ctx, without_collection(arguments))?;
    refuse_rest(ctx, rest)?;
    let mut steps = run.chain(at);
    if steps.len() == STEPS_MAX {
        return Err(throw(ctx, 400, &format!("A chain has more than {STEPS_MAX} steps.")));
    }
    steps.push(step);
    Ok(Some(steps))
}

fn ask<'js>(
    ctx: &Ctx<'js>,
    run: &Run,
    steps: Vec<Transform>,
    rest: &[Value<'js>],
) -> JsResult<Value<'js>> {
    let tail = Tail::of(ctx, rest.first(), rest.get(1))?;
    if tail.callback.is_none() && run.response.is_none() {
        let message = "The callback function must be provided for scenarios, such as pre-trigger, \
                       when response object is not available.";
        return Err(throw(ctx, 400, message));
    }
    let page = tail.page(ctx)?;
    answer(ctx, run.ask(Operation::Chain { steps, page }, tail.callback))
}

fn answer<'js>(ctx: &Ctx<'js>, accepted: bool) -> JsResult<Value<'js>> {
    let answer = Object::new(ctx.clone())?;
    answer.set("isAccepted", accepted)?;
    Ok(answer.into_value())
}

/// Options and callbacks belong to `value`.
fn refuse_rest(ctx: &Ctx<'_>, rest: &[Value<'_>]) -> JsResult<()> {
    match rest.iter().find(|value| !value.is_undefined()) {
        None => Ok(()),
        Some(callback) if callback.is_function() => Err(throw(
            ctx,
            400,
            "When using \"chain\", the callback parameter can only be provided on the \"value\" \
             function.",
        )),
        Some(_) => Err(throw(
            ctx,
            400,
            "When using \"chain\", options can only be provided on the call to the \"value\" \
             function",
        )),
    }
}

/// The first argument may be the collection itself, or undefined in its place.
fn without_collection<'a, 'js>(arguments: &'a [Value<'js>]) -> &'a [Value<'js>] {
    match arguments {
        [first, rest @ ..] if first.is_undefined() || is_collection(first) => rest,
        all => all,
    }
}

fn function<'a, 'js>(
    ctx: &Ctx<'js>,
    arguments: &'a [Value<'js>],
    step: fn(SavedFunction) -> Transform,
) -> JsResult<(Transform, &'a [Value<'js>])> {
    match arguments {
        [function, rest @ ..] if function.is_function() => Ok((step(saved(ctx, function)?), rest)),
        _ => Err(throw(ctx, 400, "The predicate/transform function must be provided.")),
    }
}

fn pluck<'a, 'js>(
    ctx: &Ctx<'js>,
    arguments: &'a [Value<'js>],
) -> JsResult<(Transform, &'a [Value<'js>])> {
    let wrong = || throw(ctx, 400, "The property name must be a string and cannot be empty.");
    let [name, rest @ ..] = arguments else { return Err(wrong()) };
    let name = name.as_string().ok_or_else(wrong)?;
    let name = lossy(ctx, name)?;
    if name.is_empty() { Err(wrong()) } else { Ok((Transform::Pluck(name), rest)) }
}

fn flatten<'a, 'js>(
    _: &Ctx<'js>,
    arguments: &'a [Value<'js>],
) -> JsResult<(Transform, &'a [Value<'js>])> {
    Ok(match arguments {
        [first, rest @ ..] if first.is_bool() => {
            (Transform::Flatten { shallow: first.as_bool() == Some(true) }, rest)
        }
        all => (Transform::Flatten { shallow: false }, all),
    })
}

fn unwind<'a, 'js>(
    ctx: &Ctx<'js>,
    arguments: &'a [Value<'js>],
) -> JsResult<(Transform, &'a [Value<'js>])> {
    let [inner, rest @ ..] = arguments else {
        let message = "When using \"unwind\", \"collectionSelector\" must be used.";
        return Err(throw(ctx, 400, message));
    };
    if !inner.is_function() {
        let message = "When using \"unwind\", \"collectionSelector\" must be a function.";
        return Err(throw(ctx, 400, message));
    }
    let inner = saved(ctx, inner)?;
    Ok(match rest {
        [result, rest @ ..] if result.is_function() => {
            (Transform::Unwind { inner, result: Some(saved(ctx, result)?) }, rest)
        }
        rest => (Transform::Unwind { inner, result: None }, rest),
    })
}

fn saved<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> JsResult<SavedFunction> {
    match value.as_function() {
        Some(function) => Ok(save(ctx, function)),
        None => Err(throw(ctx, 400, "The predicate/transform function must be provided.")),
    }
}

//! Does what the script asked for, one operation after the other, and calls it back.
//!
//! A callback may ask for more; that goes to the end of the queue. The run is over when the queue
//! is empty. An error that no callback takes is thrown, and so ends the run.

use partita_engine::{HostPage, HostQuery, HostWrite, ScriptHost};
use partita_model::Error;
use rquickjs::{Ctx, Object, Value};

use crate::bridge::{JsResult, call, numbered, parse, status, stringify, text, throw};
use crate::queue::{Operation, Page, Queued};
use crate::run::Run;
use crate::transform::{Transform, to_array};

/// What a continuation of a chain that sorts begins with; then comes how many rows it has given.
const SORTED: &str = "sorted:";

/// Rows read at once for a chain that sorts: it needs all of them.
const SORTED_PAGE: usize = 1000;

/// Works until nothing is left to do.
pub(crate) fn drive<'js>(ctx: &Ctx<'js>, run: &Run, host: &mut dyn ScriptHost) -> JsResult<()> {
    loop {
        run_promises(ctx, run)?;
        let Some(queued) = run.queue.pop() else { return Ok(()) };
        perform(ctx, run, host, queued)?;
    }
}

/// Runs the jobs that promises have queued. Their results and failures are ignored.
fn run_promises(ctx: &Ctx<'_>, run: &Run) -> JsResult<()> {
    loop {
        if run.watch.expired() || run.verdict().is_some() || run.aborted().is_some() {
            return Err(rquickjs::Error::Unknown);
        }
        if !ctx.execute_pending_job() {
            return Ok(());
        }
    }
}

/// What an operation returned.
enum Answer<'js> {
    /// A value for the callback's second argument, and the response options for its third.
    Value(Value<'js>, Object<'js>),
    /// Only the response options.
    Done(Object<'js>),
    /// The rows of a query in JavaScript, and the response options.
    Feed(Value<'js>, Object<'js>),
}

fn perform<'js>(
    ctx: &Ctx<'js>,
    run: &Run,
    host: &mut dyn ScriptHost,
    queued: Queued,
) -> JsResult<()> {
    let answer = answer(ctx, run, host, &queued.operation)?;
    let Some(callback) = queued.callback else { return unheard(ctx, run, answer) };
    let callback = callback.restore(ctx)?;
    let undefined = Value::new_undefined(ctx.clone());
    match answer {
        Ok(Answer::Value(value, info) | Answer::Feed(value, info)) => {
            call(ctx, &callback, [undefined, value, info.into_value()])?;
        }
        Ok(Answer::Done(info)) => {
            call(ctx, &callback, [undefined, info.into_value()])?;
        }
        Err(error) => {
            call(ctx, &callback, [error])?;
        }
    }
    Ok(())
}

/// Without a callback an error ends the run, and the rows of a query in JavaScript go into the
/// response.
fn unheard<'js>(
    ctx: &Ctx<'js>,
    run: &Run,
    answer: Result<Answer<'js>, Value<'js>>,
) -> JsResult<()> {
    match answer {
        Err(error) => Err(ctx.throw(error)),
        Ok(Answer::Feed(rows, _)) => match (&run.response, stringify(ctx, &rows)?) {
            (Some(response), Some(rows)) => response.append(ctx, run, &text(ctx, &rows)?),
            _ => Ok(()),
        },
        Ok(Answer::Value(..) | Answer::Done(_)) => Ok(()),
    }
}

/// Asks the host. The inner error is for the callback.
fn answer<'js>(
    ctx: &Ctx<'js>,
    run: &Run,
    host: &mut dyn ScriptHost,
    operation: &Operation,
) -> JsResult<Result<Answer<'js>, Value<'js>>> {
    let done = match operation {
        Operation::Write { target, document, indexing, if_match } => {
            let write = HostWrite {
                target: target.as_host(),
                document,
                indexing: *indexing,
                if_match: if_match.as_deref(),
            };
            match host.write(write) {
                Ok(item) => Ok(Answer::Value(parse(ctx, &item.text)?, info(ctx, target.status())?)),
                Err(error) => Err(error),
            }
        }
        Operation::Read { link, if_none_match } => {
            match host.read(link.as_host(), if_none_match.as_deref()) {
                Ok(Some(item)) => Ok(Answer::Value(parse(ctx, &item.text)?, info(ctx, 200)?)),
                Ok(None) => {
                    let info = info(ctx, 304)?;
                    info.set("notModified", true)?;
                    Ok(Answer::Value(Value::new_undefined(ctx.clone()), info))
                }
                Err(error) => Err(error),
            }
        }
        Operation::Delete { link, if_match } => {
            match host.delete(link.as_host(), if_match.as_deref()) {
                Ok(()) => Ok(Answer::Done(info(ctx, 204)?)),
                Err(error) => Err(error),
            }
        }
        Operation::Query { text, parameters, page, .. } => {
            let query = HostQuery {
                text: text.as_deref(),
                parameters,
                page_size: page.size,
                continuation: page.continuation.as_deref(),
            };
            match host.query(query) {
                Ok(page) => rows(ctx, page).map(Ok)?,
                Err(error) => Err(error),
            }
        }
        Operation::Chain { steps, page } => return chain(ctx, run, host, steps, page),
    };
    done.map_or_else(|error| Ok(Err(error_for_script(ctx, run, error)?)), |answer| Ok(Ok(answer)))
}

/// An error of the host as a value for the script. Errors without a status end the run.
fn error_for_script<'js>(ctx: &Ctx<'js>, run: &Run, error: Error) -> JsResult<Value<'js>> {
    match status(&error.kind) {
        Some(number) => numbered(ctx, number, &error.message),
        None => Err(run.condemn(error)),
    }
}

fn info<'js>(ctx: &Ctx<'js>, status: u16) -> JsResult<Object<'js>> {
    let info = Object::new(ctx.clone())?;
    info.set("statusCode", status)?;
    Ok(info)
}

fn feed_info<'js>(ctx: &Ctx<'js>, continuation: Option<String>) -> JsResult<Object<'js>> {
    let info = info(ctx, 200)?;
    if let Some(continuation) = continuation {
        info.set("continuation", continuation)?;
    }
    Ok(info)
}

fn rows<'js>(ctx: &Ctx<'js>, page: HostPage) -> JsResult<Answer<'js>> {
    let info = feed_info(ctx, page.continuation)?;
    Ok(Answer::Value(to_array(ctx, parse_all(ctx, &page.rows)?)?, info))
}

fn parse_all<'js>(ctx: &Ctx<'js>, rows: &[String]) -> JsResult<Vec<Value<'js>>> {
    rows.iter().map(|row| parse(ctx, row)).collect()
}

/// A query in JavaScript. What its functions throw is for the callback, as the host's errors are.
fn chain<'js>(
    ctx: &Ctx<'js>,
    run: &Run,
    host: &mut dyn ScriptHost,
    steps: &[Transform],
    page: &Page,
) -> JsResult<Result<Answer<'js>, Value<'js>>> {
    let found = if steps.iter().any(Transform::sorts) {
        sorted(ctx, run, host, steps, page)
    } else {
        streamed(ctx, run, host, steps, page)
    };
    match found {
        Ok((rows, continuation)) => {
            let info = feed_info(ctx, continuation)?;
            Ok(Ok(Answer::Feed(to_array(ctx, rows)?, info)))
        }
        Err(rquickjs::Error::Exception) => {
            let thrown = ctx.catch();
            let over = run.watch.expired() || run.verdict().is_some() || run.aborted().is_some();
            if over { Err(ctx.throw(thrown)) } else { Ok(Err(thrown)) }
        }
        Err(error) => Err(error),
    }
}

type Found<'js> = (Vec<Value<'js>>, Option<String>);

/// Reads pages until there are as many rows as were asked for. Where the next page begins is where
/// the host's does, so a page of a host is never cut: it is asked for no more than is missing.
fn streamed<'js>(
    ctx: &Ctx<'js>,
    run: &Run,
    host: &mut dyn ScriptHost,
    steps: &[Transform],
    page: &Page,
) -> JsResult<Found<'js>> {
    let mut found = Vec::new();
    let mut continuation = page.continuation.clone();
    loop {
        let missing = page.size.saturating_sub(found.len()).max(1);
        let (rows, next) = read_page(ctx, run, host, missing, continuation.as_deref())?;
        found.extend(apply(ctx, steps, rows)?);
        continuation = next;
        if continuation.is_none() || found.len() >= page.size {
            return Ok((found, continuation));
        }
    }
}

/// Reads everything, since the last row may have to come first. Where the next page begins is how
/// many rows were given.
fn sorted<'js>(
    ctx: &Ctx<'js>,
    run: &Run,
    host: &mut dyn ScriptHost,
    steps: &[Transform],
    page: &Page,
) -> JsResult<Found<'js>> {
    let given = match &page.continuation {
        None => 0,
        Some(token) => match token.strip_prefix(SORTED).and_then(|given| given.parse().ok()) {
            Some(given) => given,
            None => return Err(throw(ctx, 400, "Invalid Continuation Token")),
        },
    };
    let mut rows = Vec::new();
    let mut continuation = None;
    loop {
        let (more, next) = read_page(ctx, run, host, SORTED_PAGE, continuation.as_deref())?;
        rows.extend(more);
        if next.is_none() {
            break;
        }
        continuation = next;
    }
    let all = apply(ctx, steps, rows)?;
    let until = usize::saturating_add(given, page.size);
    let next = (until < all.len()).then(|| format!("{SORTED}{until}"));
    Ok((all.into_iter().skip(given).take(page.size).collect(), next))
}

fn apply<'js>(
    ctx: &Ctx<'js>,
    steps: &[Transform],
    rows: Vec<Value<'js>>,
) -> JsResult<Vec<Value<'js>>> {
    steps.iter().try_fold(rows, |rows, step| step.apply(ctx, rows))
}

/// A page of all items.
fn read_page<'js>(
    ctx: &Ctx<'js>,
    run: &Run,
    host: &mut dyn ScriptHost,
    page_size: usize,
    continuation: Option<&str>,
) -> JsResult<Found<'js>> {
    if run.watch.expired() {
        return Err(rquickjs::Error::Unknown);
    }
    match host.query(HostQuery { text: None, parameters: &[], page_size, continuation }) {
        Ok(page) => Ok((parse_all(ctx, &page.rows)?, page.continuation)),
        Err(error) => {
            let error = error_for_script(ctx, run, error)?;
            Err(ctx.throw(error))
        }
    }
}

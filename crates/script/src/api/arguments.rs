//! What the API's methods take: links, options and callbacks, checked as the service checks them.
//!
//! Everything wrong here is thrown at the script at once, as an error with the number 400, and
//! nothing is queued.

use partita_engine::Indexing;
use rquickjs::{Ctx, Function, Object, Persistent, Value};

use crate::bridge::{JsResult, SavedFunction, lossy, member, throw, truthy, type_name};
use crate::queue::{Link, Page};
use crate::run::Run;

/// Rows of a page when a script does not say.
const PAGE_SIZE_DEFAULT: usize = 100;
/// Rows of a page at most, and when a script leaves it to the server (-1).
const PAGE_SIZE_MAX: usize = 1000;

/// Refuses a call with too few arguments.
pub(crate) fn at_least(
    ctx: &Ctx<'_>,
    function: &str,
    arguments: &[Value<'_>],
    count: usize,
) -> JsResult<()> {
    let given = arguments.len();
    if given >= count {
        return Ok(());
    }
    let message = format!(
        "The function \"{function}\" requires at least {count} argument(s) but was called with \
         {given} argument(s)."
    );
    Err(throw(ctx, 400, &message))
}

/// The link of the container that the script belongs to, and no other.
pub(crate) fn check_container_link<'js>(
    ctx: &Ctx<'js>,
    run: &Run,
    link: &Value<'js>,
) -> JsResult<()> {
    let invalid = |link: &str| throw(ctx, 400, &format!("Invalid collection link: \"{link}\"."));
    let Some(link) = link.as_string() else { return Err(invalid(type_name(link))) };
    let link = lossy(ctx, link)?;
    if link == run.self_link || link == run.alt_link {
        return Ok(());
    }
    let parts: Vec<&str> = link.strip_suffix('/').unwrap_or(&link).split('/').collect();
    match parts.as_slice() {
        [dbs, _, colls, _] if is(dbs, "dbs") && is(colls, "colls") => Err(outside(ctx, &link)),
        _ => Err(invalid(&link)),
    }
}

/// The link of an item of the container that the script belongs to.
pub(crate) fn document_link<'js>(ctx: &Ctx<'js>, run: &Run, link: &Value<'js>) -> JsResult<Link> {
    let invalid = |link: &str| throw(ctx, 400, &format!("Invalid document link: \"{link}\"."));
    let Some(link) = link.as_string() else { return Err(invalid(type_name(link))) };
    let link = lossy(ctx, link)?;
    let parts: Vec<&str> = link.strip_suffix('/').unwrap_or(&link).split('/').collect();
    let [dbs, _, colls, _, docs, item] = parts.as_slice() else { return Err(invalid(&link)) };
    if !(is(dbs, "dbs") && is(colls, "colls") && is(docs, "docs")) || item.is_empty() {
        return Err(invalid(&link));
    }
    if below(&link, &run.self_link) {
        Ok(Link::Rid((*item).to_owned()))
    } else if below(&link, &run.alt_link) {
        Ok(Link::Name((*item).to_owned()))
    } else {
        Err(outside(ctx, &link))
    }
}

fn is(part: &str, name: &str) -> bool {
    part.eq_ignore_ascii_case(name)
}

/// Does the link begin with the container's, part by part?
fn below(link: &str, container: &str) -> bool {
    let container = container.strip_suffix('/').unwrap_or(container);
    link.strip_prefix(container).is_some_and(|rest| rest.starts_with('/'))
}

fn outside(ctx: &Ctx<'_>, link: &str) -> rquickjs::Error {
    let message = format!(
        "Function is not allowed to operate on resources outside current collection. Make sure \
         that the link provided, \"{link}\", belongs to current collection."
    );
    throw(ctx, 400, &message)
}

/// The last two arguments of every method. The callback may stand in the options' place.
pub(crate) struct Tail<'js> {
    options: Option<Object<'js>>,
    pub(crate) callback: Option<SavedFunction>,
}

impl<'js> Tail<'js> {
    pub(crate) fn of(
        ctx: &Ctx<'js>,
        options: Option<&Value<'js>>,
        callback: Option<&Value<'js>>,
    ) -> JsResult<Tail<'js>> {
        let options = options.filter(|value| !value.is_undefined());
        let callback = callback.filter(|value| !value.is_undefined());
        let (options, callback) = match (options, callback) {
            (Some(only), None) if only.is_function() => (None, Some(only)),
            both => both,
        };
        if let Some(options) = options
            && type_name(options) != "object"
        {
            return Err(wrong_type(ctx, "options", "object", options));
        }
        let callback = match callback {
            None => None,
            Some(value) => match value.as_function() {
                Some(function) => Some(save(ctx, function)),
                None => return Err(wrong_type(ctx, "callback", "function", value)),
            },
        };
        Ok(Tail { options: options.and_then(|value| value.as_object().cloned()), callback })
    }

    fn option(&self, name: &str) -> JsResult<Option<Value<'js>>> {
        let Some(options) = &self.options else { return Ok(None) };
        Ok(member(options, name)?.filter(truthy))
    }

    /// An option that is a text.
    pub(crate) fn text(&self, ctx: &Ctx<'js>, name: &str) -> JsResult<Option<String>> {
        match self.option(name)? {
            None => Ok(None),
            Some(value) => match value.as_string() {
                Some(text) => lossy(ctx, text).map(Some),
                None => Err(wrong_type(ctx, name, "string", &value)),
            },
        }
    }

    /// An option that is on only if it is `true` itself.
    pub(crate) fn flag(&self, name: &str) -> JsResult<bool> {
        Ok(self.option(name)?.and_then(|value| value.as_bool()) == Some(true))
    }

    pub(crate) fn indexing(&self, ctx: &Ctx<'js>) -> JsResult<Indexing> {
        let Some(action) = self.text(ctx, "indexAction")? else { return Ok(Indexing::ByPolicy) };
        match action.to_ascii_lowercase().as_str() {
            "default" => Ok(Indexing::ByPolicy),
            "include" => Ok(Indexing::Include),
            "exclude" => Ok(Indexing::Exclude),
            _ => {
                let message = format!(
                    "The \"indexAction\" option must be \"default\", \"include\" or \"exclude\", \
                     not \"{action}\"."
                );
                Err(throw(ctx, 400, &message))
            }
        }
    }

    pub(crate) fn page(&self, ctx: &Ctx<'js>) -> JsResult<Page> {
        let size = match self.option("pageSize")? {
            None => PAGE_SIZE_DEFAULT,
            Some(value) => match value.as_number() {
                Some(-1.0) => PAGE_SIZE_MAX,
                Some(size) if size >= 1.0 => (size as usize).min(PAGE_SIZE_MAX),
                Some(_) => return Err(throw(ctx, 400, "The \"pageSize\" must be above 0, or -1.")),
                None => return Err(wrong_type(ctx, "pageSize", "number", &value)),
            },
        };
        Ok(Page { size, continuation: self.text(ctx, "continuation")? })
    }
}

fn wrong_type(ctx: &Ctx<'_>, name: &str, wanted: &str, given: &Value<'_>) -> rquickjs::Error {
    let given = type_name(given);
    let message = format!(
        "The \"{name}\" parameter must be of type \"{wanted}\". Actual type is: \"{given}\"."
    );
    throw(ctx, 400, &message)
}

/// Saves a function beyond the call that it was passed to.
pub(crate) fn save<'js>(ctx: &Ctx<'js>, function: &Function<'js>) -> SavedFunction {
    Persistent::save(ctx, function.clone())
}

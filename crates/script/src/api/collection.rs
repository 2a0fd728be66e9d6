//! The methods of the collection object that read and write items.
//!
//! Each checks its arguments, turns them into an [`Operation`], queues it and says whether it was
//! accepted.

use std::rc::Rc;

use partita_model::Value as Tree;
use rquickjs::{Ctx, Object, Value};

use super::arguments::{Tail, at_least, check_container_link, document_link};
use super::method::method;
use crate::bridge::{JsResult, lossy, parse, stringify, text, throw, truthy, type_name};
use crate::queue::{Operation, Target};
use crate::run::Run;

/// Attachments are long gone from the service; a script that calls for them should learn so.
const ATTACHMENT_METHODS: [&str; 7] = [
    "createAttachment",
    "readAttachment",
    "readAttachments",
    "queryAttachments",
    "replaceAttachment",
    "upsertAttachment",
    "deleteAttachment",
];

/// Adds the methods to the collection object.
pub(crate) fn add_methods<'js>(
    ctx: &Ctx<'js>,
    collection: &Object<'js>,
    run: &Rc<Run>,
) -> JsResult<()> {
    method(ctx, collection, "getSelfLink", run, |ctx, run, _| text(ctx, &run.self_link))?;
    method(ctx, collection, "getAltLink", run, |ctx, run, _| text(ctx, &run.alt_link))?;
    method(ctx, collection, "createDocument", run, |ctx, run, arguments| {
        create(ctx, run, "createDocument", Target::Create, arguments)
    })?;
    method(ctx, collection, "upsertDocument", run, |ctx, run, arguments| {
        create(ctx, run, "upsertDocument", Target::Upsert, arguments)
    })?;
    method(ctx, collection, "replaceDocument", run, replace)?;
    method(ctx, collection, "readDocument", run, read)?;
    method(ctx, collection, "deleteDocument", run, delete)?;
    method(ctx, collection, "readDocuments", run, read_all)?;
    method(ctx, collection, "queryDocuments", run, query)?;
    for name in ATTACHMENT_METHODS {
        method(ctx, collection, name, run, move |ctx, _, _| {
            let message = format!("{name}: attachments are not supported by Partita.");
            Err(throw(ctx, 501, &message))
        })?;
    }
    Ok(())
}

fn ask<'js>(
    ctx: &Ctx<'js>,
    run: &Run,
    operation: Operation,
    tail: Tail<'js>,
) -> JsResult<Value<'js>> {
    Ok(Value::new_bool(ctx.clone(), run.ask(operation, tail.callback)))
}

fn create<'js>(
    ctx: &Ctx<'js>,
    run: &Run,
    name: &str,
    target: Target,
    arguments: &[Value<'js>],
) -> JsResult<Value<'js>> {
    at_least(ctx, name, arguments, 2)?;
    let [link, body, rest @ ..] = arguments else { return Err(rquickjs::Error::Unknown) };
    if body.is_null() || !matches!(type_name(body), "object" | "string") {
        return Err(body_must_be_object(ctx));
    }
    check_container_link(ctx, run, link)?;
    let tail = Tail::of(ctx, rest.first(), rest.get(1))?;
    let document = match tail.flag("disableAutomaticIdGeneration")? {
        true => document_text(ctx, body)?,
        false => document_with_id(ctx, run, body)?,
    };
    let operation = Operation::Write {
        target,
        document,
        indexing: tail.indexing(ctx)?,
        if_match: tail.text(ctx, "etag")?,
    };
    ask(ctx, run, operation, tail)
}

fn replace<'js>(ctx: &Ctx<'js>, run: &Rc<Run>, arguments: &[Value<'js>]) -> JsResult<Value<'js>> {
    at_least(ctx, "replaceDocument", arguments, 2)?;
    let [link, body, rest @ ..] = arguments else { return Err(rquickjs::Error::Unknown) };
    let link = document_link(ctx, run, link)?;
    if body.is_null() || !matches!(type_name(body), "object" | "string") {
        return Err(body_must_be_object(ctx));
    }
    let document = document_text(ctx, body)?;
    let tail = Tail::of(ctx, rest.first(), rest.get(1))?;
    let operation = Operation::Write {
        target: Target::Replace(link),
        document,
        indexing: tail.indexing(ctx)?,
        if_match: tail.text(ctx, "etag")?,
    };
    ask(ctx, run, operation, tail)
}

fn read<'js>(ctx: &Ctx<'js>, run: &Rc<Run>, arguments: &[Value<'js>]) -> JsResult<Value<'js>> {
    at_least(ctx, "readDocument", arguments, 1)?;
    let [link, rest @ ..] = arguments else { return Err(rquickjs::Error::Unknown) };
    let link = document_link(ctx, run, link)?;
    let tail = Tail::of(ctx, rest.first(), rest.get(1))?;
    let if_none_match = tail.text(ctx, "ifNoneMatch")?;
    ask(ctx, run, Operation::Read { link, if_none_match }, tail)
}

fn delete<'js>(ctx: &Ctx<'js>, run: &Rc<Run>, arguments: &[Value<'js>]) -> JsResult<Value<'js>> {
    at_least(ctx, "deleteDocument", arguments, 1)?;
    let [link, rest @ ..] = arguments else { return Err(rquickjs::Error::Unknown) };
    let link = document_link(ctx, run, link)?;
    let tail = Tail::of(ctx, rest.first(), rest.get(1))?;
    let if_match = tail.text(ctx, "etag")?;
    ask(ctx, run, Operation::Delete { link, if_match }, tail)
}

fn read_all<'js>(ctx: &Ctx<'js>, run: &Rc<Run>, arguments: &[Value<'js>]) -> JsResult<Value<'js>> {
    at_least(ctx, "readDocuments", arguments, 1)?;
    let [link, rest @ ..] = arguments else { return Err(rquickjs::Error::Unknown) };
    check_container_link(ctx, run, link)?;
    let tail = Tail::of(ctx, rest.first(), rest.get(1))?;
    let page = tail.page(ctx)?;
    let operation = Operation::Query { text: None, parameters: Vec::new(), bytes: 0, page };
    ask(ctx, run, operation, tail)
}

fn query<'js>(ctx: &Ctx<'js>, run: &Rc<Run>, arguments: &[Value<'js>]) -> JsResult<Value<'js>> {
    at_least(ctx, "queryDocuments", arguments, 2)?;
    let [link, query, rest @ ..] = arguments else { return Err(rquickjs::Error::Unknown) };
    check_container_link(ctx, run, link)?;
    let tail = Tail::of(ctx, rest.first(), rest.get(1))?;
    let (text, parameters, bytes) = query_spec(ctx, query)?;
    let page = tail.page(ctx)?;
    ask(ctx, run, Operation::Query { text: Some(text), parameters, bytes, page }, tail)
}

type QuerySpec = (String, Vec<(String, Tree)>, usize);

/// A query is a text, or an object with the text and the values of its parameters.
fn query_spec<'js>(ctx: &Ctx<'js>, query: &Value<'js>) -> JsResult<QuerySpec> {
    if let Some(query) = query.as_string() {
        let query = lossy(ctx, query)?;
        let bytes = query.len();
        return Ok((query, Vec::new(), bytes));
    }
    if type_name(query) != "object" {
        let message = format!(
            "The \"filterQuery\" parameter must be of type \"string\" or \"object\". Actual type \
             is: \"{}\".",
            type_name(query)
        );
        return Err(throw(ctx, 400, &message));
    }
    let json = stringify(ctx, query)?.unwrap_or_default();
    let tree = Tree::parse(json.as_bytes()).map_err(|error| throw(ctx, 400, &error.message))?;
    let Some(text) = tree.get("query").and_then(Tree::as_str) else {
        return Err(throw(ctx, 400, "The query object must have a \"query\" that is a string."));
    };
    let mut parameters = Vec::new();
    for parameter in tree.get("parameters").and_then(Tree::as_array).unwrap_or_default() {
        let Some(name) = parameter.get("name").and_then(Tree::as_str) else {
            return Err(throw(ctx, 400, "Every parameter of a query must have a \"name\"."));
        };
        // A value that is undefined has no place in JSON, and is so for the query as well.
        if let Some(value) = parameter.get("value") {
            parameters.push((name.to_owned(), value.clone()));
        }
    }
    Ok((text.to_owned(), parameters, json.len()))
}

fn body_must_be_object(ctx: &Ctx<'_>) -> rquickjs::Error {
    let message =
        "The document body must be an object or a string representing a JSON-serialized object.";
    throw(ctx, 400, message)
}

/// The document as it was given.
fn document_text<'js>(ctx: &Ctx<'js>, body: &Value<'js>) -> JsResult<String> {
    if let Some(text) = body.as_string() {
        // The host reads it, and refuses what is not JSON.
        return lossy(ctx, text);
    }
    stringify(ctx, body)?.ok_or_else(|| body_must_be_object(ctx))
}

/// The document, with an id made up if it has none. The script's own object stays as it is.
fn document_with_id<'js>(ctx: &Ctx<'js>, run: &Run, body: &Value<'js>) -> JsResult<String> {
    let text = document_text(ctx, body)?;
    let given = if body.is_string() { parse(ctx, &text)? } else { body.clone() };
    let Some(object) = given.as_object() else { return Err(body_must_be_object(ctx)) };
    let id: Value<'js> = object.get("id")?;
    if truthy(&id) || object.is_array() {
        return Ok(text);
    }
    let copy = if body.is_string() { given } else { parse(ctx, &text)? };
    let Some(object) = copy.as_object() else { return Err(body_must_be_object(ctx)) };
    object.set("id", run.new_id())?;
    document_text(ctx, &copy)
}

//! From the database's reply to HTTP: status, headers, body.
//!
//! A reply's facts become headers here for errors as well as for successes: SDKs learn their
//! session token from a 404 or 409 too. A point read's body is the stored text itself; nothing is
//! parsed or copied. `item` writes the answer that carries an item, `partitions` the ranges and
//! sizes of a container's partitions, `query` the rows and metrics of a query, `changes` the change
//! feed.

mod admin;
mod batch;
mod changes;
mod item;
mod partitions;
mod query;

use std::borrow::Cow;

use bytes::{BufMut, Bytes, BytesMut};
use http::{StatusCode, header};
use partita_engine::{
    Change, Container, FIRST_LSN, ItemBody, KeyRequired, Offer, Outcome, PartitionStatistics,
    RangesSeen, Reply, Served,
};
use partita_gateway::{Lines, Response};
use partita_model::{
    Charge, Error, ErrorKind, Etag, Object, ScriptKind, Value, binary_json, limits, unstamp,
};

use crate::account::Endpoint;
use crate::activity::ActivityId;
use crate::error::Failure;
use crate::headers;
use crate::link::{Address, encode};
use crate::request::ResponseOptions;
use crate::session;
use crate::text::{self, number};
use crate::token::Issuer;

/// Room for the headers of an answer, so that they are hardly ever moved.
const HEADERS_BYTES: usize = 1280;

const JSON: &str = "application/json";

/// What every response tells in the same words. The replicas are those that the account names.
const EVERYWHERE: &[u8] = b"\
    x-ms-version: 2020-07-15\r\n\
    x-ms-schemaversion: 1.19\r\n\
    x-ms-serviceversion: version=2.14.0.0\r\n\
    x-ms-gatewayversion: version=2.0.0\r\n\
    x-ms-current-write-quorum: 3\r\n\
    x-ms-current-replica-set-size: 4\r\n\
    cache-control: no-store, no-cache\r\n\
    server: Microsoft-HTTPAPI/2.0\r\n";

/// What a container may hold, and that what it holds was not counted for one item: clients who want
/// to know ask for the container.
const ITEM_QUOTA: &[u8] = b"\
    x-ms-resource-quota: \
    documentSize=2048;documentsSize=1073741824;documentsCount=-1;collectionSize=1073741824;\r\n\
    x-ms-resource-usage: documentSize=0;documentsSize=-1;documentsCount=-1;collectionSize=-1;\r\n";

/// What the answer to a request refers to.
pub(crate) struct ResponseContext<'a> {
    pub(crate) address: &'a Address<'a>,
    pub(crate) activity_id: &'a ActivityId,
    /// What was read, for answers to reads.
    pub(crate) location: Option<Location<'a>>,
    /// How long the request took.
    pub(crate) nanos: u64,
    pub(crate) tokens: Issuer<'a>,
    pub(crate) options: ResponseOptions,
    /// Sizes of the container's partitions, where the client asked for them.
    pub(crate) statistics: Option<Vec<PartitionStatistics>>,
}

/// The URL of what was read.
pub(crate) struct Location<'a> {
    pub(crate) endpoint: Endpoint<'a>,
    pub(crate) path: &'a str,
}

impl Location<'_> {
    fn parts(&self) -> [&str; 4] {
        let [scheme, host, end] = self.endpoint.parts();
        [scheme, host, end, self.path.trim_start_matches('/')]
    }
}

/// The answer to a request, with all its headers or without those that every answer has: see
/// [`seal`].
pub(crate) enum ResponseDraft {
    Sealed(Response),
    Open(Response),
}

/// A failed request: why, and what its response tells all the same.
#[derive(Debug)]
pub(crate) struct FailedRequest {
    pub(crate) failure: Failure,
    pub(crate) headers: Lines,
}

impl<E: Into<Failure>> From<E> for Box<FailedRequest> {
    fn from(error: E) -> Box<FailedRequest> {
        Box::new(FailedRequest { failure: error.into(), headers: Lines::new() })
    }
}

/// A reply that went well, or its error for [`failure`]; the headers are for both.
pub(crate) fn reply(
    reply: Reply,
    context: &ResponseContext<'_>,
) -> Result<ResponseDraft, Box<FailedRequest>> {
    if let Some(headers) = item::headers(&reply, context)
        && let Ok(Outcome::Item { body: ItemBody(body), change, .. }) = reply.result
    {
        let body = if context.options.bare { bare(&body) } else { body };
        let body = if context.options.binary { to_binary(body) } else { body };
        return Ok(ResponseDraft::Sealed(Response::with_headers(status_of(change), headers, body)));
    }
    let mut response = other_reply(reply, context)?;
    // Plans and reports are no items.
    if context.options.binary && !context.options.query.plan && !context.options.query.explain {
        response.body = to_binary(response.body);
    }
    if let Some(location) = &context.location {
        let parts = location.parts().map(str::as_bytes);
        response.headers.push_parts(&header::CONTENT_LOCATION, &parts);
    }
    Ok(ResponseDraft::Open(response))
}

/// The body in binary JSON. What cannot be said in it (nothing, rows of a batch, a row that is
/// nested too deep) stays what it is: clients look at the first byte.
fn to_binary(body: Bytes) -> Bytes {
    match body.first() {
        Some(b'{') => binary_json::from_text(&body).map_or(body, Bytes::from),
        Some(_) | None => body,
    }
}

fn other_reply(
    reply: Reply,
    context: &ResponseContext<'_>,
) -> Result<Response, Box<FailedRequest>> {
    let mut headers = Lines::with_capacity(HEADERS_BYTES);
    let container = reply.container.as_deref();
    if let Some(served) = &reply.served {
        put_served(&mut headers, served);
    }
    let is_script = matches!(reply.result, Ok(Outcome::Script { .. } | Outcome::Scripts { .. }));
    if let Some(container) = container.filter(|_| reply.served.is_some() || is_script) {
        // The service does not name the owner of what is not there by its resource id.
        let is_missing = |error: &Error| error.kind == ErrorKind::NotFound;
        if !reply.result.as_ref().is_err_and(is_missing) {
            headers.push(&headers::CONTENT_PATH, container.rid.to_text());
        }
        let path = alternative_path(container, context.address);
        headers.push(&headers::ALT_CONTENT_PATH, path.as_bytes());
    }
    if let Some(log) = &reply.log {
        headers.push(&headers::SCRIPT_LOG, encode(log));
    }
    match reply.result {
        Ok(outcome) => Ok(success(outcome, container, headers, context)),
        Err(error) => {
            let planning = context.options.query.plan;
            let failure = Failure { planning, ..Failure::from(error) };
            Err(Box::new(FailedRequest { failure, headers }))
        }
    }
}

/// The answer to a failed request; `headers` may hold what is known of the partition that served
/// it.
pub(crate) fn failure(
    failure: &Failure,
    mut headers: Lines,
    activity_id: &str,
    path: &str,
) -> Response {
    headers.push(&headers::SUBSTATUS, number(failure.substatus));
    if let Some(retry_after_ms) = failure.retry_after_ms {
        headers.push(&headers::RETRY_AFTER_MS, number(retry_after_ms));
        if failure.status == StatusCode::SERVICE_UNAVAILABLE {
            // For whoever knows HTTP only.
            headers.push(&header::RETRY_AFTER, number(retry_after_ms.div_ceil(1_000)));
        }
    }
    with_body(failure.status, headers, failure.body(activity_id, path))
}

/// A response with a JSON body.
pub(crate) fn with_body(
    status: StatusCode,
    mut headers: Lines,
    body: impl Into<Bytes>,
) -> Response {
    headers.push(&header::CONTENT_TYPE, JSON);
    Response::with_headers(status, headers, body)
}

/// What every response tells.
pub(crate) fn seal(response: &mut Response, activity_id: &ActivityId, charge: Charge, nanos: u64) {
    let headers = &mut response.headers;
    headers.push(&headers::ACTIVITY_ID, activity_id.as_bytes());
    headers.push(&headers::REQUEST_CHARGE, text::charge(charge));
    headers.push(&headers::REQUEST_DURATION, text::millis(nanos));
    headers.push_written(EVERYWHERE);
}

fn success(
    outcome: Outcome,
    container: Option<&Container>,
    mut headers: Lines,
    context: &ResponseContext<'_>,
) -> Response {
    match outcome {
        Outcome::Item { etag, body, change } => item(&etag, body, change, headers, context.options),
        Outcome::Items { items, continuation } => {
            put_page(&mut headers, items.len(), continuation);
            let whole = items.into_iter().map(|item| item.0);
            let items: Vec<Bytes> = if context.options.bare {
                whole.map(|item| bare(&item)).collect()
            } else {
                whole.collect()
            };
            ok(headers, envelope(&items, container))
        }
        Outcome::Changes { changes, etag, more, next: _ } => {
            let page = changes::FeedPage { changes: &changes, etag: &etag, more };
            changes::page(page, container, headers, context.options)
        }
        Outcome::Query { rows, continuation, report } => {
            let rows = if context.options.bare { bare_rows(&rows) } else { rows };
            query::rows(&rows, continuation, &report, container, headers, context.options.query)
        }
        Outcome::Plan { plan } => ok(headers, plan.to_json()),
        Outcome::PartitionKeyDeleted => empty(StatusCode::OK, headers),
        Outcome::NoConflicts => {
            let rid = container.map(|container| container.rid.to_string()).unwrap_or_default();
            feed(&rid, "Conflicts", Vec::new(), None, headers)
        }
        Outcome::Batch { results } => batch::reply(results, headers, context.options),
        Outcome::Container { change, index_progress, shares_throughput } => {
            if shares_throughput {
                headers.push(&headers::SHARE_THROUGHPUT, "true");
            }
            container_reply(container, change, index_progress, headers, context)
        }
        Outcome::Partitions { etag, unchanged, since } => {
            ranges(&etag, container.filter(|_| !unchanged), since, headers)
        }
        Outcome::PartitionReport(report) => ok(headers, admin::partitions(&report, container)),
        Outcome::RecentQueries { queries } => ok(headers, admin::queries(&queries, container)),
        Outcome::KeyLocation(location) => ok(headers, admin::location(&location, container)),
        Outcome::Imported { count, existing } => ok(headers, imported(count, existing.as_deref())),
        Outcome::ProcedureAnswer { answer: Some(answer) } => ok(headers, answer),
        Outcome::ProcedureAnswer { answer: None } => empty(StatusCode::OK, headers),
        Outcome::NotModified { etag } => not_modified(&etag, headers),
        Outcome::MovePlanned { parents, children } => planned(&parents, &children, headers),
        Outcome::Deleted | Outcome::Statistics { .. } => empty(StatusCode::NO_CONTENT, headers),
        Outcome::Database { .. }
        | Outcome::Databases { .. }
        | Outcome::Containers { .. }
        | Outcome::Offer { .. }
        | Outcome::Offers { .. }
        | Outcome::ResourceRows { .. }
        | Outcome::EncryptionKey { .. }
        | Outcome::EncryptionKeys { .. }
        | Outcome::User { .. }
        | Outcome::Users { .. }
        | Outcome::Permission { .. }
        | Outcome::Permissions { .. }
        | Outcome::Script { .. }
        | Outcome::Scripts { .. } => resource(outcome, container, headers, context),
    }
}

/// Resources of the catalog, each alone or in a feed.
fn resource(
    outcome: Outcome,
    container: Option<&Container>,
    mut headers: Lines,
    context: &ResponseContext<'_>,
) -> Response {
    match outcome {
        Outcome::Database { database, change } => {
            if change == Change::Created {
                // Databases are kept in one place, which counts its commits as any partition does.
                let served = Served { range_id: 0, lsn: database.lsn, item_lsn: None };
                headers.push(&headers::SESSION_TOKEN, session::token(&served));
            }
            one(&database.etag, &database.to_value(), change, headers)
        }
        Outcome::Databases { databases, continuation } => {
            let rows = databases.iter().map(|database| database.to_value()).collect();
            feed("", "Databases", rows, continuation, headers)
        }
        Outcome::Containers { database, containers, continuation } => {
            let rows =
                containers.iter().map(|found| container_body(found, context.options)).collect();
            feed(&database.rid.to_string(), "DocumentCollections", rows, continuation, headers)
        }
        Outcome::Offer { offer, change } => one_offer(&offer, change, headers),
        Outcome::Offers { offers, continuation } => {
            let rows = offers.iter().map(|offer| offer.to_value()).collect();
            feed("", "Offers", rows, continuation, headers)
        }
        Outcome::ResourceRows { of, rows, continuation } => {
            rows_of(&of, rows, continuation, container, headers, context)
        }
        Outcome::EncryptionKey { key, change } => one(&key.etag, &key.to_value(), change, headers),
        Outcome::EncryptionKeys { database, keys, continuation } => {
            let rows = keys.iter().map(|key| key.to_value()).collect();
            feed(&database.rid.to_string(), "ClientEncryptionKeys", rows, continuation, headers)
        }
        Outcome::User { user, change } => one(&user.etag, &user.to_value(), change, headers),
        Outcome::Users { database, users, continuation } => {
            let rows = users.iter().map(|user| user.to_value()).collect();
            feed(&database.rid.to_string(), "Users", rows, continuation, headers)
        }
        Outcome::Permission { permission, change } => {
            let body = context.tokens.with_token(&permission, context.options.token_seconds);
            one(&permission.etag, &body, change, headers)
        }
        Outcome::Permissions { user, permissions, continuation } => {
            let seconds = context.options.token_seconds;
            let rows = permissions.iter().map(|p| context.tokens.with_token(p, seconds)).collect();
            feed(&user.rid.to_string(), "Permissions", rows, continuation, headers)
        }
        Outcome::Script { script, count, change } => {
            put_script_quota(&mut headers, script.rid.kind, count);
            one(&script.etag, &script.to_value(), change, headers)
        }
        Outcome::Scripts { kind, scripts, continuation } => {
            let rid = container.map(|container| container.rid.to_string()).unwrap_or_default();
            let rows = scripts.iter().map(|script| script.to_value()).collect();
            feed(&rid, scripts_name(kind), rows, continuation, headers)
        }
        // The caller has dealt with everything else.
        _ => empty(StatusCode::INTERNAL_SERVER_ERROR, headers),
    }
}

/// How many scripts of a kind a container may have, and has.
fn put_script_quota(headers: &mut Lines, kind: ScriptKind, count: usize) {
    let (name, count_max) = match kind {
        ScriptKind::Procedure => ("storedProcedures", limits::PROCEDURES_MAX),
        ScriptKind::Trigger => ("triggers", limits::TRIGGERS_MAX),
        ScriptKind::Function => ("functions", limits::FUNCTIONS_MAX),
    };
    headers.push(&headers::RESOURCE_QUOTA, format!("{name}={count_max};"));
    headers.push(&headers::RESOURCE_USAGE, format!("{name}={count};"));
}

/// The rows of a query over resources, in the envelope that a list of these has. A row that is a
/// whole permission has a token, as it has in the list.
fn rows_of(
    of: &Outcome,
    mut rows: Vec<Value>,
    continuation: Option<String>,
    container: Option<&Container>,
    headers: Lines,
    context: &ResponseContext<'_>,
) -> Response {
    let of_container = || container.map(|container| container.rid.to_string()).unwrap_or_default();
    let (parent, kind) = match of {
        Outcome::Containers { database, .. } => (database.rid.to_string(), "DocumentCollections"),
        Outcome::Offers { .. } => (String::new(), "Offers"),
        Outcome::Users { database, .. } => (database.rid.to_string(), "Users"),
        Outcome::EncryptionKeys { database, .. } => {
            (database.rid.to_string(), "ClientEncryptionKeys")
        }
        Outcome::Scripts { kind, .. } => (of_container(), scripts_name(*kind)),
        Outcome::Permissions { user, permissions, .. } => {
            for row in &mut rows {
                if let Some(whole) = permissions.iter().find(|p| p.to_value() == *row) {
                    *row = context.tokens.with_token(whole, context.options.token_seconds);
                }
            }
            (user.rid.to_string(), "Permissions")
        }
        _ => (String::new(), "Databases"),
    };
    feed(&parent, kind, rows, continuation, headers)
}

/// What a feed of scripts is called.
fn scripts_name(kind: ScriptKind) -> &'static str {
    match kind {
        ScriptKind::Procedure => "StoredProcedures",
        ScriptKind::Trigger => "Triggers",
        ScriptKind::Function => "UserDefinedFunctions",
    }
}

fn not_modified(etag: &str, mut headers: Lines) -> Response {
    headers.push(&header::ETAG, quoted(etag));
    empty(StatusCode::NOT_MODIFIED, headers)
}

fn ok(headers: Lines, body: impl Into<Bytes>) -> Response {
    with_body(StatusCode::OK, headers, body)
}

/// A split or merge that goes on after the answer.
fn planned(parents: &[u32], children: &[u32], headers: Lines) -> Response {
    with_body(StatusCode::ACCEPTED, headers, admin::planned(parents, children))
}

pub(crate) fn empty(status: StatusCode, headers: Lines) -> Response {
    Response::with_headers(status, headers, Bytes::new())
}

fn status_of(change: Change) -> StatusCode {
    match change {
        Change::Created => StatusCode::CREATED,
        Change::Replaced | Change::None => StatusCode::OK,
    }
}

fn item(
    etag: &Etag,
    body: ItemBody,
    change: Change,
    mut headers: Lines,
    options: ResponseOptions,
) -> Response {
    headers.push(&header::ETAG, text::etag(etag));
    if options.minimal && change != Change::None {
        return empty(status_of(change), headers);
    }
    let body = if options.bare { bare(&body.0) } else { body.0 };
    with_body(status_of(change), headers, body)
}

/// What the procedure for imports answers. What it cannot do because it is there already comes
/// with the status that it would have alone.
fn imported(count: usize, existing: Option<&[u8]>) -> String {
    let existing = existing.map(String::from_utf8_lossy);
    let code = if existing.is_some() { StatusCode::CONFLICT.as_u16() } else { 0 };
    let failed = existing.as_deref().unwrap_or("null");
    format!(r#"{{"count":{count},"errorCode":{code},"failedDoc":{failed}}}"#)
}

/// Rows that are items, without what the system has added to them.
fn bare_rows(rows: &[String]) -> Vec<String> {
    rows.iter().map(|row| unstamp(row)).collect()
}

/// An item without what the system has added to it.
fn bare(item: &Bytes) -> Bytes {
    match std::str::from_utf8(item) {
        Ok(text) => Bytes::from(unstamp(text)),
        Err(_) => item.clone(),
    }
}

/// A database, container or offer.
fn one(etag: &Etag, body: &Value, change: Change, mut headers: Lines) -> Response {
    headers.push(&header::ETAG, text::etag(etag));
    with_body(status_of(change), headers, body.to_json())
}

fn one_offer(offer: &Offer, change: Change, mut headers: Lines) -> Response {
    let pending = if offer.observed.replace_pending { "true" } else { "false" };
    headers.push(&headers::OFFER_REPLACE_PENDING, pending);
    headers.push(&headers::MIN_THROUGHPUT, number(offer.observed.minimum_ru));
    one(&offer.etag, &offer.to_value(), change, headers)
}

fn container_body(container: &Container, options: ResponseOptions) -> Value {
    container.shown_to(if options.keyless { KeyRequired::No } else { KeyRequired::Yes })
}

fn container_reply(
    container: Option<&Container>,
    change: Change,
    index_progress: u8,
    mut headers: Lines,
    context: &ResponseContext<'_>,
) -> Response {
    let Some(container) = container else {
        return empty(status_of(change), headers);
    };
    if change == Change::Created
        && let Some(first) = container.partitions.first()
    {
        let served = Served { range_id: first.range_id, lsn: FIRST_LSN, item_lsn: None };
        headers.push(&headers::SESSION_TOKEN, session::token(&served));
    }
    // Java clients make the container's path of its owner's.
    headers.push(&headers::CONTENT_PATH, container.rid.database.to_string());
    let owner = format!("dbs/{}", encode(&container.database.name));
    headers.push(&headers::ALT_CONTENT_PATH, owner);
    let mut body = container_body(container, context.options);
    if context.options.quota {
        let progress = number(index_progress);
        headers.push(&headers::INDEX_PROGRESS, progress);
        if let Some(statistics) = &context.statistics {
            headers.push(&headers::RESOURCE_QUOTA, partitions::QUOTA);
            headers.push(&headers::RESOURCE_USAGE, partitions::usage(statistics));
        }
    }
    if let (true, Some(statistics), Value::Object(body)) =
        (context.options.statistics, &context.statistics, &mut body)
    {
        body.insert("statistics", partitions::statistics(statistics));
    }
    one(&container.etag, &body, change, headers)
}

fn ranges(
    etag: &str,
    changed: Option<&Container>,
    since: Option<RangesSeen>,
    mut headers: Lines,
) -> Response {
    let etag = quoted(etag);
    headers.push(&header::ETAG, etag.clone());
    let Some(container) = changed else {
        return empty(StatusCode::NOT_MODIFIED, headers);
    };
    let rows = partitions::ranges(container, since, &etag);
    feed(&container.rid.to_string(), "PartitionKeyRanges", rows, None, headers)
}

/// The envelope of a feed: `{"_rid":…,"<kind>":[…],"_count":n}`.
fn feed(
    parent: &str,
    kind: &str,
    rows: Vec<Value>,
    continuation: Option<String>,
    mut headers: Lines,
) -> Response {
    put_page(&mut headers, rows.len(), continuation);
    let count = i64::try_from(rows.len()).unwrap_or(i64::MAX);
    let body = Object::new().with("_rid", parent).with(kind, rows).with("_count", count);
    with_body(StatusCode::OK, headers, Value::from(body).to_json())
}

/// The same around items or rows, whose texts are copied as they are.
fn envelope<T: AsRef<[u8]>>(rows: &[T], container: Option<&Container>) -> Bytes {
    let rid = container.map(|container| container.rid.to_string()).unwrap_or_default();
    let bytes: usize = rows.iter().map(|row| row.as_ref().len() + 1).sum();
    let mut body = BytesMut::with_capacity(bytes + 96);
    body.put_slice(b"{\"_rid\":\"");
    body.put_slice(rid.as_bytes());
    body.put_slice(b"\",\"Documents\":[");
    for (index, row) in rows.iter().enumerate() {
        if index > 0 {
            body.put_u8(b',');
        }
        body.put_slice(row.as_ref());
    }
    body.put_slice(b"],\"_count\":");
    body.put_slice(rows.len().to_string().as_bytes());
    body.put_u8(b'}');
    body.freeze()
}

fn put_page(headers: &mut Lines, count: usize, continuation: Option<String>) {
    headers.push(&headers::ITEM_COUNT, number(count as u64));
    if let Some(continuation) = continuation {
        headers.push(&headers::CONTINUATION, continuation);
    }
}

/// Which partition served the request and how far it was. There is one replica, so every way of
/// counting LSNs gives the same number.
fn put_served(headers: &mut Lines, served: &Served) {
    let lsn = number(served.lsn.0);
    headers.push(&headers::RANGE_ID, number(served.range_id));
    headers.push(&headers::SESSION_TOKEN, session::token(served));
    headers.push(&headers::GLOBAL_COMMITTED_LSN, lsn);
    headers.push(&headers::QUORUM_ACKED_LSN, lsn);
    headers.push(&headers::LOCAL_LSN, lsn);
    headers.push(&headers::QUORUM_ACKED_LOCAL_LSN, lsn);
    headers.push(&headers::LSN, lsn);
    if let Some(item_lsn) = served.item_lsn {
        let item_lsn = number(item_lsn.0);
        headers.push(&headers::ITEM_LSN, item_lsn);
        headers.push(&headers::ITEM_LOCAL_LSN, item_lsn);
        headers.push_written(ITEM_QUOTA);
    }
}

/// The container by name. Clients find their session by the name as they wrote it, so a path that
/// used the names is repeated as it came.
fn alternative_path<'a>(container: &Container, address: &Address<'a>) -> Cow<'a, str> {
    let (database, name) = (&container.database.name, &container.definition.name);
    let is_visible = |raw: &&str| raw.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let raw = address.raw_container().filter(is_visible);
    match raw.filter(|_| address.is_by_names(database, name)) {
        Some(raw) => Cow::Borrowed(raw),
        None => Cow::Owned(format!("dbs/{}/colls/{}", encode(database), encode(name))),
    }
}

fn quoted(etag: &str) -> String {
    if etag.starts_with('"') { etag.to_owned() } else { format!("\"{etag}\"") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etags_are_quoted_once() {
        assert_eq!(quoted("a"), "\"a\"");
        assert_eq!(quoted("\"a\""), "\"a\"");
    }

    #[test]
    fn item_feeds_repeat_the_stored_texts() {
        let items = ["{\"id\":\"1\"}", "{\"id\":\"2\"}"];
        let expected = r#"{"_rid":"","Documents":[{"id":"1"},{"id":"2"}],"_count":2}"#;
        assert_eq!(envelope(&items, None), expected);
        assert_eq!(envelope::<&str>(&[], None), r#"{"_rid":"","Documents":[],"_count":0}"#);
    }
}

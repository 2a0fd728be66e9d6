//! From HTTP to an operation of the database: all validation that is the protocol's own.
//!
//! First what every request has (version, consistency, size), then by what is addressed: `metadata`
//! for databases, containers, offers and ranges, `items` for items. What the database must decide
//! anyway (is the body a valid item, does the key fit the container) is left to it, so that every
//! door gets the same answer.

mod admin;
mod batch;
mod changes;
mod conflicts;
mod encryption_keys;
mod import;
mod items;
mod metadata;
mod query;
mod scripts;
mod users;

use bytes::Bytes;
use http::Method;
use partita_engine::{Access, Condition, Context, KeyRequired, Op};
use partita_executor::Profile;
use partita_gateway::{IfLeft, Request};
use partita_model::{Consistency, Error, PartitionKeyHeader, Result, binary_json, json, limits};

use crate::headers::{self, Headers};
use crate::hybrid_row;
use crate::link::Link;

pub(crate) use query::{IndexMetrics, QueryOptions};

/// The text that SDK tests look for.
pub(crate) const REQUEST_TOO_LARGE: &str = "Request size is too large";

/// A request that was not looked into yet.
#[derive(Debug)]
pub(crate) struct Incoming<'a> {
    pub(crate) method: &'a Method,
    pub(crate) headers: Headers<'a>,
    pub(crate) body: Bytes,
}

/// A request understood.
#[derive(Debug)]
pub(crate) enum Call {
    /// `GET /`.
    Account,
    /// Everything that the database answers.
    Database(Box<DatabaseCall>),
}

/// An operation, and how its answer shall look.
#[derive(Debug)]
pub(crate) struct DatabaseCall {
    pub(crate) op: Op,
    pub(crate) context: Context,
    pub(crate) options: ResponseOptions,
}

/// What the client wants of the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResponseOptions {
    /// No body in the answer to a write.
    pub(crate) minimal: bool,
    /// The client knows no system keys: containers without a partition key show none.
    pub(crate) keyless: bool,
    /// Items without their system properties. Rows that a query makes of items stay as they are.
    pub(crate) bare: bool,
    /// Quota and usage of the container as headers.
    pub(crate) quota: bool,
    /// Sizes of the container's partitions in its body.
    pub(crate) statistics: bool,
    /// How long the tokens of permissions shall live.
    pub(crate) token_seconds: u64,
    /// Items and rows in binary JSON.
    pub(crate) binary: bool,
    /// The results of a batch in HybridRow, as the batch came.
    pub(crate) hybrid_row: bool,
    /// Items of the change feed in an envelope.
    pub(crate) wrapped: bool,
    /// How long to wait at the end of the change feed.
    pub(crate) wait_seconds: u64,
    /// What a query answers beside its rows.
    pub(crate) query: QueryOptions,
}

/// Reads a request.
pub(crate) fn read(
    link: Link,
    incoming: Incoming<'_>,
    access: Access,
    account: Consistency,
) -> Result<Call> {
    let headers = incoming.headers;
    let key_required = headers.key_required()?;
    let mut context = context(incoming.headers, access, account)?;
    if matches!(link, Link::Items(_) | Link::Conflicts(_) | Link::Script(_)) {
        let range = incoming.headers.range()?;
        context.range_container_rid = range.and_then(|range| range.container);
    }
    let mut options = options(&link, &incoming)?;
    options.keyless = key_required == KeyRequired::No;
    options.bare = incoming.headers.flag(&headers::EXCLUDE_SYSTEM_PROPERTIES)?;
    // Only bulks are filled beyond what any other request may have.
    let bytes_max = if options.hybrid_row && !incoming.headers.flag(&headers::BATCH_ATOMIC)? {
        hybrid_row::BULK_BYTES_MAX
    } else {
        limits::REQUEST_BYTES_MAX
    };
    if incoming.body.len() > bytes_max {
        return Err(Error::too_large(REQUEST_TOO_LARGE));
    }
    if options.query.explain && matches!(context.access, Access::Grant(_)) {
        return Err(Error::forbidden(
            "The input authorization token can't serve the request: how a query was executed tells \
             of items under all partition keys. Use one of the account's keys",
        ));
    }
    let op = match link {
        Link::Account if incoming.method == Method::GET => return Ok(Call::Account),
        Link::Account => return Err(not_allowed(incoming.method, "the account", "GET")),
        Link::Databases => metadata::databases(incoming)?,
        Link::Database(database) => metadata::database(database, incoming)?,
        Link::Containers(database) => metadata::containers(database, incoming, key_required)?,
        Link::Container(container) => metadata::container(container, incoming)?,
        Link::Ranges(container) => metadata::ranges(container, incoming)?,
        Link::Offers => metadata::offers(incoming)?,
        Link::Offer(rid) => metadata::offer(rid, incoming)?,
        Link::EncryptionKeys(database) => encryption_keys::keys(database, incoming)?,
        Link::EncryptionKey(key) => encryption_keys::key(key, incoming)?,
        Link::Users(database) => users::users(database, incoming)?,
        Link::User(user) => users::user(user, incoming)?,
        Link::Permissions(user) => users::permissions(user, incoming)?,
        Link::Permission(permission) => users::permission(permission, incoming)?,
        Link::Items(container) => items::items(container, incoming, key_required)?,
        Link::Item { container, id } => items::item(container, id, incoming, key_required)?,
        Link::Conflicts(container) => conflicts::conflicts(container, incoming)?,
        Link::Conflict { container, id } => conflicts::conflict(container, id, incoming)?,
        Link::PartitionKeyDelete(container) => {
            items::partition_key_delete(container, incoming, key_required)?
        }
        Link::Scripts(container, kind) => scripts::scripts(container, kind, incoming)?,
        Link::Script(script) => scripts::script(script, incoming, key_required)?,
        Link::Admin(link) => admin::read(link, incoming.method, &incoming.body)?,
        Link::Later(feature) => return Err(feature.refusal()),
        Link::Unknown => return Err(Error::not_found("There is no resource with this path.")),
    };
    options.bare = options.bare && tells_items(&op);
    if Profile::of(&op).if_left == IfLeft::Cancel {
        context.query_millis_max = headers.query_millis_max()?;
    }
    Ok(Call::Database(Box::new(DatabaseCall { op, context, options })))
}

/// Has what it answers with system properties that could be left out? In rows that a query makes,
/// what has the name of one is there because the query says so.
fn tells_items(op: &Op) -> bool {
    match op {
        Op::Query { query, .. } => query::selects_items(&query.text, &query.parameters),
        Op::ReadChanges { request, .. } => {
            let query = request.query.as_ref();
            query.is_none_or(|query| query::selects_items(&query.text, &query.parameters))
        }
        _ => true,
    }
}

/// Refuses a body in which an object has two members of the same name, however it is encoded. What
/// else is wrong with it is refused by those who read it.
pub(crate) fn check_names(body: &[u8]) -> Result<()> {
    if hybrid_row::is_hybrid_row(body) {
        let rows = hybrid_row::read(body).unwrap_or_default();
        return rows.iter().filter_map(|row| row.body).try_for_each(check_names);
    }
    match binary_json::is_binary(body).then(|| binary_json::to_text(body)) {
        None => Ok(json::check_names(body)?),
        Some(Ok(text)) => Ok(json::check_names(text.as_bytes())?),
        Some(Err(_)) => Ok(()),
    }
}

/// What the client wants of the answer, as far as it can want anything of this resource.
fn options(link: &Link, incoming: &Incoming<'_>) -> Result<ResponseOptions> {
    let headers = incoming.headers;
    // An encoding that nobody knows is refused everywhere; items and rows alone have two.
    let binary = headers.wants_binary()?;
    let mut options = ResponseOptions::default();
    match link {
        Link::Items(_) if incoming.method == Method::GET || is_filtered_feed(incoming)? => {
            options.binary = binary;
            options.wrapped = headers.text(&headers::CHANGE_FEED_FORMAT)?.is_some();
            options.wait_seconds = headers.wait_seconds()?;
        }
        Link::Items(_) if is_query(incoming)? => {
            return Ok(ResponseOptions { binary, ..query::options(headers)? });
        }
        Link::Items(_) | Link::Item { .. } if incoming.method != Method::GET => {
            options.minimal = headers.minimal()?;
            options.binary = binary;
            options.hybrid_row = hybrid_row::is_hybrid_row(&incoming.body)
                && matches!(link, Link::Items(_))
                && headers.flag(&headers::IS_BATCH)?;
        }
        Link::Item { .. } => options.binary = binary,
        Link::Container(_) => {
            options.quota = headers.flag(&headers::POPULATE_QUOTA)?;
            options.statistics = headers.flag(&headers::POPULATE_STATISTICS)?;
        }
        Link::Permissions(_) | Link::Permission(_) => {
            options.token_seconds = users::token_seconds(headers)?;
        }
        _ => {}
    }
    Ok(options)
}

/// Is this a query, or a request for its plan?
fn is_query(incoming: &Incoming<'_>) -> Result<bool> {
    let headers = incoming.headers;
    Ok(incoming.method == Method::POST
        && (headers.flag(&headers::IS_QUERY_PLAN)? || headers.is_query()?))
}

/// Is this a query that filters the change feed?
fn is_filtered_feed(incoming: &Incoming<'_>) -> Result<bool> {
    let headers = incoming.headers;
    Ok(headers.text(&headers::A_IM)?.is_some()
        && is_query(incoming)?
        && !headers.flag(&headers::IS_QUERY_PLAN)?)
}

fn context(headers: Headers<'_>, access: Access, account: Consistency) -> Result<Context> {
    let owned = |name| Ok::<_, Error>(headers.text(name)?.map(str::to_owned));
    Ok(Context {
        access,
        consistency: headers.consistency(account)?,
        session: owned(&headers::SESSION_TOKEN)?,
        intended_container_rid: owned(&headers::INTENDED_CONTAINER_RID)?,
        range_container_rid: None,
        demand: headers.demand()?,
        ..Context::default()
    })
}

fn not_allowed(method: &Method, what: &str, accepted: &str) -> Error {
    Error::method_not_allowed(format!(
        "The method {method} is not allowed on {what}: use {accepted}."
    ))
}

/// The same where the path says nothing of a resource.
pub(crate) fn not_allowed_here(method: &Method, accepted: &str) -> Error {
    Error::method_not_allowed(format!("The method {method} is not allowed here: use {accepted}."))
}

/// `If-Match`: the condition of a change.
fn if_match(headers: Headers<'_>) -> Result<Option<Condition>> {
    Ok(headers.etag(&http::header::IF_MATCH)?.map(Condition::Match))
}

/// The condition of a read: `If-None-Match` spares the transfer, `If-Match` insists on a version.
fn read_condition(headers: Headers<'_>) -> Result<Option<Condition>> {
    match headers.etag(&http::header::IF_NONE_MATCH)? {
        Some(pattern) => Ok(Some(Condition::NoneMatch(pattern))),
        None => if_match(headers),
    }
}

/// What becomes of a request that could not be read yet, if its client leaves before it is
/// answered. A feed has no more in its path than its kind.
pub(crate) fn if_left_unread(request: &Request) -> IfLeft {
    if Headers::new(&request.head).is_query().unwrap_or(false) {
        return IfLeft::Cancel;
    }
    if request.method != Method::GET {
        return IfLeft::Finish;
    }
    let segments = request.head.path().split('/').filter(|segment| !segment.is_empty()).count();
    if segments % 2 == 1 { IfLeft::Cancel } else { IfLeft::Answer }
}

/// What a value of a body must be, for its error.
fn wrong_type(name: &str, expected: &str) -> Error {
    Error::bad_request(format!("The property '{name}' of the request body must be {expected}."))
}

/// The partition key that the request names. Only old clients may leave it out: the database then
/// takes it from the item, or knows the container to be one without.
fn partition_key(
    required: KeyRequired,
    headers: Headers<'_>,
) -> Result<Option<PartitionKeyHeader>> {
    match (headers.partition_key()?, required) {
        (None, KeyRequired::Yes) => {
            Err(Error::bad_request("PartitionKey value must be supplied for this operation."))
        }
        (key, _) => Ok(key),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Instant;

    use http::HeaderMap;
    use partita_gateway::{Head, Scheme};

    use super::*;

    #[allow(clippy::disallowed_methods, reason = "the gateway's requests carry their time")]
    fn unread(method: Method, path: &str, headers: &[(&'static str, &'static str)]) -> IfLeft {
        let headers = headers.iter().map(|(name, value)| {
            (http::HeaderName::from_static(name), http::HeaderValue::from_static(value))
        });
        let address = SocketAddr::from(([127, 0, 0, 1], 8081));
        if_left_unread(&Request {
            method,
            head: Head::new(&path.parse().unwrap(), &headers.collect::<HeaderMap>()),
            body: Bytes::new(),
            scheme: Scheme::Http,
            received: Instant::now(),
            local: address,
            peer: address,
        })
    }

    #[test]
    fn a_request_that_is_not_read_yet_is_told_by_its_path() {
        let docs = "/dbs/d/colls/c/docs";
        assert_eq!(unread(Method::GET, docs, &[]), IfLeft::Cancel);
        assert_eq!(unread(Method::GET, &format!("{docs}/x"), &[]), IfLeft::Answer);
        assert_eq!(unread(Method::POST, docs, &[]), IfLeft::Finish);
        let query = [("x-ms-documentdb-isquery", "True")];
        assert_eq!(unread(Method::POST, docs, &query), IfLeft::Cancel);
    }
}

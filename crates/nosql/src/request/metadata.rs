//! Requests on databases, containers, partition key ranges and offers.

use http::Method;
use partita_engine::{ContainerPath, DatabasePath, KeyRequired, Migrate, OfferChange, Op};
use partita_model::{
    Error, OfferRid, Result, Throughput, ThroughputBucket, Value, check_resource_name,
};

use super::query::{is_list, list};
use super::{Incoming, if_match, not_allowed, read_condition, wrong_type};
use crate::headers::{self, Headers, bad_value};

pub(super) fn databases(incoming: Incoming<'_>) -> Result<Op> {
    if is_list(&incoming)? {
        return list(&incoming, |filter, page| Op::ListDatabases { filter, page });
    }
    match *incoming.method {
        Method::POST => {
            let name = required_id(&Value::parse(&incoming.body)?)?.to_owned();
            check_resource_name("database", &name)?;
            Ok(Op::CreateDatabase { name, throughput: throughput(incoming.headers)? })
        }
        _ => Err(not_allowed(incoming.method, "the databases", "GET or POST")),
    }
}

pub(super) fn database(database: DatabasePath, incoming: Incoming<'_>) -> Result<Op> {
    let headers = incoming.headers;
    match *incoming.method {
        Method::GET => Ok(Op::ReadDatabase { database, condition: read_condition(headers)? }),
        Method::DELETE => Ok(Op::DeleteDatabase { database, condition: if_match(headers)? }),
        _ => Err(not_allowed(incoming.method, "a database", "GET or DELETE")),
    }
}

pub(super) fn containers(
    database: DatabasePath,
    incoming: Incoming<'_>,
    key_required: KeyRequired,
) -> Result<Op> {
    if is_list(&incoming)? {
        let list_of = |filter, page| Op::ListContainers { database, filter, page, key_required };
        return list(&incoming, list_of);
    }
    match *incoming.method {
        Method::POST => {
            let body = resource_body(&incoming)?;
            let throughput = throughput(incoming.headers)?;
            Ok(Op::CreateContainer { database, body, throughput, key_required })
        }
        _ => Err(not_allowed(incoming.method, "the containers", "GET or POST")),
    }
}

pub(super) fn container(container: ContainerPath, incoming: Incoming<'_>) -> Result<Op> {
    let headers = incoming.headers;
    match *incoming.method {
        Method::GET => Ok(Op::ReadContainer { container, condition: read_condition(headers)? }),
        Method::PUT => {
            let body = resource_body(&incoming)?;
            Ok(Op::ReplaceContainer { container, body, condition: if_match(headers)? })
        }
        Method::DELETE => Ok(Op::DeleteContainer { container, condition: if_match(headers)? }),
        _ => Err(not_allowed(incoming.method, "a container", "GET, PUT or DELETE")),
    }
}

pub(super) fn ranges(container: ContainerPath, incoming: Incoming<'_>) -> Result<Op> {
    match *incoming.method {
        Method::GET => {
            // There are never so many ranges that they need a second page, but a bad page size is
            // still a bad request.
            incoming.headers.page()?;
            let known = incoming.headers.etag(&http::header::IF_NONE_MATCH)?;
            let incremental = incoming.headers.text(&headers::A_IM)?.is_some();
            Ok(Op::ListPartitions { container, known, incremental })
        }
        _ => Err(not_allowed(incoming.method, "the partition key ranges", "GET")),
    }
}

pub(super) fn offers(incoming: Incoming<'_>) -> Result<Op> {
    if is_list(&incoming)? {
        return list(&incoming, |filter, page| Op::ListOffers { filter, page });
    }
    match *incoming.method {
        Method::POST => Err(Error::bad_request(
            "An offer is made with its database or container: only a query may be posted here.",
        )),
        _ => Err(not_allowed(incoming.method, "the offers", "GET or POST")),
    }
}

pub(super) fn offer(rid: String, incoming: Incoming<'_>) -> Result<Op> {
    if OfferRid::parse(&rid).is_none() {
        return Err(Error::bad_request(format!("'{rid}' is not the resource id of an offer.")));
    }
    let headers = incoming.headers;
    match *incoming.method {
        Method::GET => Ok(Op::ReadOffer { rid }),
        Method::PUT => {
            let body = Value::parse(&incoming.body)?;
            check_offer_identity(&body, &rid)?;
            let migrate = migrate(headers)?;
            let change = offered(&body, migrate)?;
            Ok(Op::ReplaceOffer { rid, change, condition: if_match(headers)? })
        }
        _ => Err(not_allowed(incoming.method, "an offer", "GET or PUT")),
    }
}

/// The body of a request that makes or replaces a resource.
pub(super) fn resource_body(incoming: &Incoming<'_>) -> Result<Value> {
    let body = Value::parse(&incoming.body)?;
    required_id(&body)?;
    Ok(body)
}

/// The `id` that every resource has.
pub(super) fn required_id(body: &Value) -> Result<&str> {
    if body.as_object().is_none() {
        return Err(Error::bad_request(format!(
            "The request body must be a JSON object, not {}.",
            body.kind_name()
        )));
    }
    match body.get("id") {
        None => Err(Error::bad_request(
            "The input content is invalid because the required properties - 'id; ' - are missing",
        )),
        Some(id) => id.as_str().ok_or_else(|| wrong_type("id", "a string")),
    }
}

/// The throughput that a database or container is created with.
fn throughput(headers: Headers<'_>) -> Result<Option<Throughput>> {
    let manual = headers.text(&headers::OFFER_THROUGHPUT)?;
    let autoscale = headers.text(&headers::OFFER_AUTOPILOT)?;
    match (manual, autoscale) {
        (None, None) => Ok(None),
        (Some(text), None) => {
            let ru = text
                .trim()
                .parse()
                .map_err(|_| bad_value(&headers::OFFER_THROUGHPUT, text, "must be an integer"))?;
            Throughput::manual(ru).map(Some)
        }
        (None, Some(text)) => {
            let settings = Value::parse(text.as_bytes()).map_err(|error| {
                bad_value(&headers::OFFER_AUTOPILOT, text, &format!("must be JSON: {error}"))
            })?;
            Throughput::autoscale(&settings).map(Some)
        }
        (Some(_), Some(_)) => Err(Error::bad_request(format!(
            "The headers {} and {} exclude each other: throughput is either manual or autoscale.",
            headers::OFFER_THROUGHPUT,
            headers::OFFER_AUTOPILOT
        ))),
    }
}

fn check_offer_identity(body: &Value, rid: &str) -> Result<()> {
    for name in ["id", "_rid"] {
        let value = body.get(name).and_then(Value::as_str);
        if value != Some(rid) {
            return Err(Error::bad_request(format!(
                "The property '{name}' of the offer must be '{rid}', as in the path."
            )));
        }
    }
    Ok(())
}

fn migrate(headers: Headers<'_>) -> Result<Migrate> {
    let to_autoscale = headers.flag(&headers::MIGRATE_TO_AUTOSCALE)?;
    match (to_autoscale, headers.flag(&headers::MIGRATE_TO_MANUAL)?) {
        (false, false) => Ok(Migrate::No),
        (true, false) => Ok(Migrate::ToAutoscale),
        (false, true) => Ok(Migrate::ToManual),
        (true, true) => Err(Error::bad_request(format!(
            "The headers {} and {} exclude each other.",
            headers::MIGRATE_TO_AUTOSCALE,
            headers::MIGRATE_TO_MANUAL
        ))),
    }
}

/// What an offer's content asks for. The content of an autoscale offer also tells its current
/// throughput, so the autoscale settings decide unless the client asks for manual throughput.
fn offered(body: &Value, migrate: Migrate) -> Result<OfferChange> {
    let content = body.get("content").filter(|content| content.as_object().is_some());
    let content = content.ok_or_else(|| wrong_type("content", "an object"))?;
    let settings = content.get("offerAutopilotSettings").filter(|settings| !settings.is_null());
    let throughput = match settings {
        Some(settings) if migrate != Migrate::ToManual => Throughput::autoscale(settings)?,
        _ => {
            let ru = content.get("offerThroughput").and_then(Value::as_i64);
            let ru = ru.ok_or_else(|| wrong_type("content.offerThroughput", "an integer"))?;
            Throughput::manual(ru)?
        }
    };
    let buckets = content.get("throughputBuckets").filter(|buckets| !buckets.is_null());
    let buckets = buckets.map(ThroughputBucket::parse_all).transpose()?;
    Ok(OfferChange { throughput, migrate, buckets })
}

//! Requests on items.

use bytes::Bytes;
use http::Method;
use partita_engine::{Condition, ContainerPath, ItemPath, KeyRequired, NewItem, Op, Scope};
use partita_model::{Epk, EpkRange, Error, Patch, Result, binary_json};
use partita_query::Filter;

use super::batch::batch;
use super::changes::changes;
use super::scripts::triggered;
use super::{Incoming, if_match, not_allowed, partition_key, query, read_condition};
use crate::headers::{self, Headers, bad_value};

/// The text of the service for a range of EPKs that is not fully given.
const EPK_INPUT_INVALID: &str = "One of the input values is invalid";

/// The feed of a container: everything that is sent to `docs`.
pub(super) fn items(
    container: ContainerPath,
    incoming: Incoming<'_>,
    key_required: KeyRequired,
) -> Result<Op> {
    let headers = incoming.headers;
    match *incoming.method {
        Method::GET if headers.text(&headers::A_IM)?.is_some() => changes(container, headers, None),
        Method::GET => {
            Ok(Op::ListItems { container, scope: scope(headers)?, page: headers.page()? })
        }
        Method::POST => {
            // A request for a plan may say that it is a query, too: the plan is asked for first.
            if headers.flag(&headers::IS_QUERY_PLAN)? {
                return query::plan(container, &incoming);
            }
            if headers.is_query()? {
                return match headers.text(&headers::A_IM)? {
                    Some(_) => changes(container, headers, Some(query::of_changes(&incoming)?)),
                    None => query::query(container, &incoming),
                };
            }
            if headers.flag(&headers::IS_BATCH)? {
                return batch(container, incoming, key_required);
            }
            let item = new_item(incoming, key_required)?;
            let write = if headers.flag(&headers::IS_UPSERT)? {
                let condition = upsert_condition(headers)?;
                Op::UpsertItem { container, item, condition }
            } else {
                Op::CreateItem { container, item }
            };
            triggered(headers, write)
        }
        _ => Err(not_allowed(incoming.method, "the items of a container", "GET or POST")),
    }
}

/// One item.
pub(super) fn item(
    container: ContainerPath,
    id: String,
    incoming: Incoming<'_>,
    key_required: KeyRequired,
) -> Result<Op> {
    let headers = incoming.headers;
    if id.as_bytes().contains(&b'/') || id.as_bytes().contains(&b'\\') {
        // The service stores such an item, but has no path to it by name. Queries find it, its
        // resource id and batches lead to it.
        return Err(Error::not_found(format!(
            "Resource Not Found. Entity with the specified id does not exist in the system. No \
             path leads to '{id}' by name: address the item by its resource id"
        )));
    }
    let path = || -> Result<ItemPath> {
        Ok(ItemPath { container, id, partition_key: partition_key(key_required, headers)? })
    };
    match *incoming.method {
        Method::GET => Ok(Op::ReadItem { path: path()?, condition: read_condition(headers)? }),
        Method::PUT => {
            let (path, condition) = (path()?, if_match(headers)?);
            let item = new_item(incoming, key_required)?;
            triggered(headers, Op::ReplaceItem { path, item, condition })
        }
        Method::PATCH => {
            let patch = Patch::parse(&incoming.body)?;
            let filter = patch.condition.as_deref().map(Filter::parse_condition).transpose()?;
            let condition = if_match(headers)?;
            triggered(headers, Op::PatchItem { path: path()?, patch, filter, condition })
        }
        Method::DELETE => {
            let condition = if_match(headers)?;
            triggered(headers, Op::DeleteItem { path: path()?, condition })
        }
        _ => Err(not_allowed(incoming.method, "an item", "GET, PUT, PATCH or DELETE")),
    }
}

/// Everything under one partition key.
pub(super) fn partition_key_delete(
    container: ContainerPath,
    incoming: Incoming<'_>,
    key_required: KeyRequired,
) -> Result<Op> {
    if incoming.method != Method::POST {
        return Err(not_allowed(incoming.method, "the deletion of a partition key", "POST"));
    }
    let partition_key = partition_key(key_required, incoming.headers)?;
    Ok(Op::DeletePartitionKey { container, partition_key })
}

fn new_item(incoming: Incoming<'_>, key_required: KeyRequired) -> Result<NewItem> {
    Ok(NewItem {
        partition_key: partition_key(key_required, incoming.headers)?,
        indexing: incoming.headers.indexing()?,
        body: item_text(incoming.body)?,
    })
}

/// The item as JSON text. Clients may send binary JSON as well; the database never sees it.
fn item_text(body: Bytes) -> Result<Vec<u8>> {
    if binary_json::is_binary(&body) {
        Ok(binary_json::to_text(&body)?.into_bytes())
    } else {
        Ok(Vec::from(body))
    }
}

/// An upsert that finds an item may ask which version it replaces, or to replace none.
fn upsert_condition(headers: Headers<'_>) -> Result<Option<Condition>> {
    match if_match(headers)? {
        Some(condition) => Ok(Some(condition)),
        None => Ok(headers.etag(&http::header::IF_NONE_MATCH)?.map(Condition::NoneMatch)),
    }
}

/// Which part of the container a feed or a query covers.
pub(super) fn scope(headers: Headers<'_>) -> Result<Scope> {
    if let Some(key) = headers.partition_key()? {
        return Ok(Scope::PartitionKey(key));
    }
    let within = epk_range(headers)?;
    match (headers.range()?, within) {
        (Some(range), within) => Ok(Scope::Range { id: range.id.to_owned(), within }),
        (None, Some(epks)) => Ok(Scope::Epks(epks)),
        (None, None) => Ok(Scope::All),
    }
}

/// The three headers of an EPK range: both ends and their kind, or no ends.
fn epk_range(headers: Headers<'_>) -> Result<Option<EpkRange>> {
    let start = headers.text(&headers::START_EPK)?;
    let end = headers.text(&headers::END_EPK)?;
    let kinds = [("EffectivePartitionKeyRange", true), ("ResourceId", false)];
    let rule = "must be EffectivePartitionKeyRange or ResourceId";
    let by_epk = headers.choice(&headers::READ_KEY_TYPE, kinds, rule)?.unwrap_or(false);
    match (start, end, by_epk) {
        // Some clients say that they mean EPKs, and then want the whole range.
        (None, None, _) => Ok(None),
        // The least EPK is the empty text, and an empty header counts as absent.
        (start, Some(end), true) => {
            let min = epk(&headers::START_EPK, start.unwrap_or_default())?;
            Ok(Some(EpkRange { min, max: epk(&headers::END_EPK, end)? }))
        }
        _ => Err(Error::bad_request(format!(
            "{EPK_INPUT_INVALID}: {}, {} and {}: EffectivePartitionKeyRange come together.",
            headers::START_EPK,
            headers::END_EPK,
            headers::READ_KEY_TYPE
        ))),
    }
}

fn epk(name: &http::HeaderName, text: &str) -> Result<Epk> {
    Epk::parse_hex(text).ok_or_else(|| bad_value(name, text, "must be a hexadecimal EPK"))
}

//! What a write of one item wants, and what comes of it given what is there.
//!
//! An intent is checked as far as that is possible without the stored item. Its decision is a pure
//! function of the stored version, so it can be taken again on a newer one, and the same intents
//! serve single writes and the operations of a batch.

use std::borrow::Cow;

use partita_model::{Document, Error, Patch, Result, limits, unstamp};
use partita_query::Filter;

use super::draft::{Draft, too_large};
use super::{ItemPlace, check_match, failed_condition, not_found};
use crate::catalog::Container;
use crate::op::{Condition, EtagPattern};
use crate::record::ItemRecord;

/// What a write wants.
#[derive(Debug)]
pub(super) enum Intent {
    Create(Draft),
    Upsert(Draft, Option<Condition>),
    Replace(Draft, Option<Condition>),
    /// A replace by what cannot take the item's place, which is why it is refused if there is one:
    /// that there is nothing to replace comes first.
    Misfit(Error),
    Patch(Patched, Option<Condition>),
    Remove(Option<Condition>),
}

/// A patch with its filter, understood.
#[derive(Debug)]
pub(super) struct Patched {
    patch: Patch,
    filter: Option<Filter>,
    /// How long the item shall live, if not as its property says.
    pub(super) ttl: Option<i32>,
}

/// What becomes of an item.
pub(super) enum Next<'d> {
    Put(Cow<'d, Draft>),
    Remove,
}

impl Patched {
    pub(super) fn of(
        container: &Container,
        patch: Patch,
        filter: Option<Filter>,
    ) -> Result<Patched> {
        patch.check_targets(&container.definition.partition_key)?;
        Ok(Patched { patch, filter, ttl: None })
    }

    pub(super) fn apply(&self, place: &ItemPlace, record: &ItemRecord) -> Result<Draft> {
        let text = record.text()?;
        if let Some(filter) = &self.filter
            && !filter.matches(&Document::new(text).to_value())?
        {
            return Err(failed_condition("the patch's condition is not true for the item"));
        }
        let patched = self.patch.apply(&unstamp(text))?;
        if patched.len() > limits::ITEM_BYTES_MAX {
            return Err(too_large(patched.len()));
        }
        let mut draft = Draft::of_text(&place.container, patched, None, record.asked)?;
        draft.ttl = self.ttl.unwrap_or(draft.ttl);
        if draft.id != place.id || draft.key != place.key {
            return Err(Error::bad_request("a patch cannot change an item's id or partition key"));
        }
        Ok(draft)
    }
}

impl Intent {
    /// What becomes of the item at this place, given its living version.
    pub(super) fn decide(
        &self,
        place: &ItemPlace,
        current: Option<&ItemRecord>,
    ) -> Result<Next<'_>> {
        let there = || current.ok_or_else(|| not_found(&place.id));
        match self {
            Intent::Create(draft) => match current {
                None => Ok(Next::Put(Cow::Borrowed(draft))),
                Some(_) => Err(exists(&draft.id)),
            },
            Intent::Upsert(draft, condition) => {
                check_upsert(condition.as_ref(), current)?;
                Ok(Next::Put(Cow::Borrowed(draft)))
            }
            Intent::Replace(draft, condition) => {
                check_match(condition.as_ref(), there()?)?;
                Ok(Next::Put(Cow::Borrowed(draft)))
            }
            Intent::Misfit(error) => {
                there()?;
                Err(error.clone())
            }
            Intent::Patch(patched, condition) => {
                let record = there()?;
                check_match(condition.as_ref(), record)?;
                Ok(Next::Put(Cow::Owned(patched.apply(place, record)?)))
            }
            Intent::Remove(condition) => {
                check_match(condition.as_ref(), there()?)?;
                Ok(Next::Remove)
            }
        }
    }
}

fn check_upsert(condition: Option<&Condition>, current: Option<&ItemRecord>) -> Result<()> {
    match (current, condition) {
        (Some(_), Some(Condition::NoneMatch(EtagPattern::Any))) => {
            Err(failed_condition("the item exists"))
        }
        (None, Some(Condition::Match(EtagPattern::Any))) => {
            Err(failed_condition("the item does not exist"))
        }
        (Some(record), condition) => check_match(condition, record),
        (None, _) => Ok(()),
    }
}

pub(super) fn exists(id: &str) -> Error {
    Error::conflict(format!(
        "Entity with the specified id already exists in the system. It is '{id}'"
    ))
}

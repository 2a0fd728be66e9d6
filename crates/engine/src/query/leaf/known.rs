//! Rows of places without their items.
//!
//! A place has the sort keys and the resource id; the key of an item has its id and its partition
//! key. A query that looks at nothing else, such as `SELECT c.id FROM c ORDER BY c.at`, is
//! evaluated on a small document made of these. Where they do not tell a value as the item has it
//! (an integer beyond what doubles can tell apart, a string with half a character) the item is
//! loaded after all.
//!
//! Not if items expire: only the item says when.

use std::borrow::Cow;

use partita_model::{IndexStep, KeyPart, Result, Scalar};
use partita_query::Reads;

use super::Leaf;
use super::indexed::paths_of;
use super::small_document::{Template, put_text};
use crate::catalog::Container;
use crate::index::EntryValue;
use crate::keys::{self, ItemKey};
use crate::query::position::SortPosition;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Rid,
    Id,
    /// A component of the partition key.
    KeyPart(usize),
    /// A column of the order.
    Column(usize),
}

/// How to make small documents for a query.
pub(super) struct Known<'l> {
    container: &'l Container,
    template: Template,
    sources: Vec<Source>,
}

impl<'l> Known<'l> {
    /// None if the query looks at something else.
    pub(super) fn of(leaf: &Leaf<'l>) -> Option<Known<'l>> {
        let facts = leaf.query.facts();
        let Reads::Paths(paths) = &facts.reads else { return None };
        let container = leaf.container;
        if container.definition.default_ttl.is_some() {
            return None;
        }
        let columns = paths_of(&facts.order)?;
        let source = |path: &Vec<IndexStep>| {
            let column = columns.iter().position(|column| column == path).map(Source::Column);
            column.or_else(|| source_of(container, path))
        };
        let sources = paths.iter().map(source).collect::<Option<Vec<Source>>>()?;
        Some(Known { container, template: Template::new(paths), sources })
    }

    /// Does the key of an item tell something that its place does not?
    pub(super) fn needs_item_key(&self) -> bool {
        self.sources.iter().any(|source| matches!(source, Source::Id | Source::KeyPart(_)))
    }

    /// Writes the document of a place. False if the item has to be loaded.
    pub(super) fn write(
        &self,
        out: &mut String,
        place: &SortPosition,
        item_key: Option<&[u8]>,
    ) -> Result<bool> {
        let components = self.container.definition.partition_key.paths.len();
        let item_key = item_key.and_then(|key| keys::parse_item(key, components));
        let mut texts = Vec::with_capacity(self.sources.len());
        for source in &self.sources {
            match self.value(*source, place, item_key.as_ref()) {
                Told::Value(value) => {
                    let mut text = String::new();
                    if !put_text(&mut text, &value) {
                        return Ok(false);
                    }
                    texts.push(Some(text));
                }
                Told::Undefined => texts.push(None),
                Told::Nothing => return Ok(false),
            }
        }
        self.template.write(out, &mut |number| texts.get(number)?.as_deref());
        Ok(true)
    }

    fn value<'v>(
        &self,
        source: Source,
        place: &'v SortPosition,
        item_key: Option<&'v ItemKey>,
    ) -> Told<'v> {
        match source {
            Source::Rid => {
                let rid = self.container.item_rid(place.rid).to_string();
                Told::Value(Scalar::String(Cow::Owned(rid)))
            }
            Source::Id => item_key.map_or(Told::Nothing, |key| text(&key.id)),
            Source::KeyPart(at) => match item_key.and_then(|key| key.key.0.get(at)) {
                Some(KeyPart::String(key)) => text(key),
                Some(KeyPart::Number(double)) => Told::Value(Scalar::Number(*double)),
                Some(KeyPart::Bool(value)) => Told::Value(Scalar::Bool(*value)),
                Some(KeyPart::Null) => Told::Value(Scalar::Null),
                // What is no scalar is undefined as a key.
                Some(KeyPart::Undefined) | None => Told::Nothing,
            },
            Source::Column(at) => match place.keys.get(at).map(Vec::as_slice) {
                Some([0]) => Told::Undefined,
                Some(key) => match EntryValue::new(key).scalar() {
                    Some(Scalar::String(text)) if is_doubtful(&text) => Told::Nothing,
                    Some(value) => Told::Value(value),
                    None => Told::Nothing,
                },
                None => Told::Nothing,
            },
        }
    }
}

/// What is known of a value.
enum Told<'v> {
    Value(Scalar<'v>),
    Undefined,
    Nothing,
}

fn source_of(container: &Container, path: &[IndexStep]) -> Option<Source> {
    match path {
        [IndexStep::Member(name)] if name == "id" => return Some(Source::Id),
        [IndexStep::Member(name)] if name == "_rid" => return Some(Source::Rid),
        _ => {}
    }
    let keys = &container.definition.partition_key.paths;
    let names = path.iter().map(|step| match step {
        IndexStep::Member(name) => Some(name),
        IndexStep::Element => None,
    });
    let names = names.collect::<Option<Vec<&String>>>()?;
    keys.iter().position(|key| key.segments().iter().eq(names.clone())).map(Source::KeyPart)
}

fn text(text: &str) -> Told<'_> {
    if is_doubtful(text) { Told::Nothing } else { Told::Value(Scalar::String(Cow::Borrowed(text))) }
}

/// Half a character of an item is the replacement character in keys.
fn is_doubtful(text: &str) -> bool {
    text.contains(char::REPLACEMENT_CHARACTER)
}

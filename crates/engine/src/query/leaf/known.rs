//! Rows of places without their items.
//!
//! A place has the sort keys and the resource id; the key of an item has its id and its partition
//! key. A query that looks at nothing else, such as `SELECT c.id FROM c ORDER BY c.at`, is
//! evaluated on a small document made of these, or written at once if its rows are nothing but such
//! values. Where they do not tell a value as the item has it (an integer beyond what doubles can
//! tell apart, a string with half a character) the item is loaded after all.
//!
//! Not if items expire: only the item says when.

use std::borrow::Cow;
use std::ops::Range;

use partita_model::{IndexStep, KeyPart, Scalar};
use partita_query::access::Access;
use partita_query::{PlainRow, Reads};

use super::Leaf;
use super::indexed::paths_of;
use super::small_document::{Template, is_doubtful, put_text, quoted};
use crate::catalog::Container;
use crate::index::EntryValue;
use crate::keys;
use crate::query::place_list::PlaceAt;

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
    /// The values of a place as JSON, one after another, and which piece is whose.
    texts: String,
    pieces: Vec<Range<usize>>,
}

impl<'l> Known<'l> {
    /// None if the query looks at something else.
    pub(super) fn of(leaf: &Leaf<'l>) -> Option<Known<'l>> {
        let facts = leaf.query.facts();
        Known::told(leaf.container, &facts.reads, &paths_of(&facts.order)?)
    }

    /// The same for items of which it is known that the filter lets them through.
    pub(super) fn of_keys(leaf: &Leaf<'l>) -> Option<Known<'l>> {
        Known::told(leaf.container, &leaf.query.facts().selects, &[])
    }

    fn told(
        container: &'l Container,
        reads: &Reads,
        columns: &[&[IndexStep]],
    ) -> Option<Known<'l>> {
        let Reads::Paths(paths) = reads else { return None };
        if container.definition.default_ttl.is_some() {
            return None;
        }
        let source = |path: &Vec<IndexStep>| source_at(container, columns, path);
        let sources = paths.iter().map(source).collect::<Option<Vec<Source>>>()?;
        let template = Template::new(paths);
        Some(Known { container, template, sources, texts: String::new(), pieces: Vec::new() })
    }

    /// Does the key of an item tell something that its place does not?
    pub(super) fn needs_item_key(&self) -> bool {
        needs_item_key(&self.sources)
    }

    /// Writes the document of a place. False if the item has to be loaded.
    pub(super) fn write(
        &mut self,
        out: &mut String,
        place: PlaceAt<'_>,
        item_key: Option<&[u8]>,
    ) -> bool {
        let item_key = item_key.and_then(|key| read(self.container, &self.sources, key));
        self.texts.clear();
        self.pieces.clear();
        for source in &self.sources {
            let start = self.texts.len();
            let is_told = match value(self.container, *source, place, item_key.as_ref()) {
                Told::Value(value) => put_text(&mut self.texts, &value),
                Told::Undefined => true,
                Told::Nothing => false,
            };
            if !is_told {
                return false;
            }
            self.pieces.push(start..self.texts.len());
        }
        let (texts, pieces) = (&self.texts, &self.pieces);
        let text = |number: usize| texts.get(pieces.get(number)?.clone());
        // No JSON is empty: what is empty is undefined.
        self.template.write(out, &mut |number| text(number).filter(|text| !text.is_empty()));
        true
    }
}

/// Rows that are values of keys and nothing else, written without a document in between.
pub(super) struct PlainRows<'l> {
    container: &'l Container,
    /// Names as JSON strings.
    names: Vec<String>,
    sources: Vec<Source>,
    /// The only value is the row.
    is_value: bool,
}

impl<'l> PlainRows<'l> {
    /// None if rows are something else.
    pub(super) fn of(leaf: &Leaf<'l>) -> Option<PlainRows<'l>> {
        let facts = leaf.query.facts();
        let plain = plain_row(leaf)?;
        if leaf.container.definition.default_ttl.is_some() {
            return None;
        }
        let columns = paths_of(&facts.order)?;
        let source = |path: &Vec<IndexStep>| source_at(leaf.container, &columns, path);
        let (names, sources, is_value) = match plain {
            PlainRow::Item => return None,
            PlainRow::Value(path) => (Vec::new(), vec![source(path)?], true),
            PlainRow::Members(members) => {
                let sources =
                    members.iter().map(|(_, path)| source(path)).collect::<Option<_>>()?;
                (members.iter().map(|(name, _)| quoted(name)).collect(), sources, false)
            }
        };
        Some(PlainRows { container: leaf.container, names, sources, is_value })
    }

    /// Does the key of an item tell something that its place does not?
    pub(super) fn needs_item_key(&self) -> bool {
        needs_item_key(&self.sources)
    }

    /// The row of a place, or that it has none. None if the item has to be loaded.
    pub(super) fn write(
        &self,
        place: PlaceAt<'_>,
        item_key: Option<&[u8]>,
    ) -> Option<Option<String>> {
        let item_key = item_key.and_then(|key| read(self.container, &self.sources, key));
        let mut out = String::with_capacity(ROW_BYTES);
        if !self.is_value {
            out.push('{');
        }
        for (number, source) in self.sources.iter().enumerate() {
            let told = match value(self.container, *source, place, item_key.as_ref()) {
                Told::Value(value) => value,
                Told::Undefined if self.is_value => return Some(None),
                Told::Undefined => continue,
                Told::Nothing => return None,
            };
            if let Some(name) = self.names.get(number) {
                if out.len() > 1 {
                    out.push(',');
                }
                out.push_str(name);
                out.push(':');
            }
            if !put_text(&mut out, &told) {
                return None;
            }
        }
        if !self.is_value {
            out.push('}');
        }
        Some(Some(out))
    }
}

/// What the rows at places are made of, if nothing but the row is left to be found out: where an
/// index tells places, its condition is the filter, or there is none.
pub(super) fn plain_row<'l>(leaf: &Leaf<'l>) -> Option<&'l PlainRow> {
    let facts = leaf.query.facts();
    let passes = !facts.has_filter || matches!(leaf.query.access(), Access::Condition(_));
    facts.plain.as_ref().filter(|_| passes && !facts.distinct)
}

/// Room for the usual row.
const ROW_BYTES: usize = 48;

fn needs_item_key(sources: &[Source]) -> bool {
    sources.iter().any(|source| matches!(source, Source::Id | Source::KeyPart(_)))
}

/// What of an item's key is looked at.
struct Named<'k> {
    id: Cow<'k, str>,
    /// Nothing if nobody looks at it.
    key: Vec<KeyPart>,
}

/// Reads the key of an item, as far as it is looked at.
fn read<'k>(container: &Container, sources: &[Source], item_key: &'k [u8]) -> Option<Named<'k>> {
    let components = container.definition.partition_key.paths.len();
    if sources.iter().any(|source| matches!(source, Source::KeyPart(_))) {
        let whole = keys::parse_item(item_key, components)?;
        return Some(Named { id: Cow::Owned(whole.id), key: whole.key.0 });
    }
    Some(Named { id: keys::id_of_item(item_key, components)?, key: Vec::new() })
}

fn value<'v>(
    container: &Container,
    source: Source,
    place: PlaceAt<'v>,
    item_key: Option<&'v Named<'_>>,
) -> Told<'v> {
    match source {
        Source::Rid => {
            let rid = container.item_rid(place.rid()).to_string();
            Told::Value(Scalar::String(Cow::Owned(rid)))
        }
        Source::Id => item_key.map_or(Told::Nothing, |key| text(&key.id)),
        Source::KeyPart(at) => match item_key.and_then(|key| key.key.get(at)) {
            Some(KeyPart::String(key)) => text(key),
            Some(KeyPart::Number(double)) => Told::Value(Scalar::Number(*double)),
            Some(KeyPart::Bool(value)) => Told::Value(Scalar::Bool(*value)),
            Some(KeyPart::Null) => Told::Value(Scalar::Null),
            // What is no scalar is undefined as a key.
            Some(KeyPart::Undefined) | None => Told::Nothing,
        },
        Source::Column(at) => match place.key(at) {
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

/// What is known of a value.
enum Told<'v> {
    Value(Scalar<'v>),
    Undefined,
    Nothing,
}

fn source_at(
    container: &Container,
    columns: &[&[IndexStep]],
    path: &Vec<IndexStep>,
) -> Option<Source> {
    let column = columns.iter().position(|column| column == path).map(Source::Column);
    column.or_else(|| source_of(container, path))
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

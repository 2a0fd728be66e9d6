//! Rows without their items: made of what keys and columns tell.
//!
//! A place in an order has the sort keys and the resource id; the key of an item has its id and its
//! partition key; columns of the index have the values at their paths. A query that looks at
//! nothing else is evaluated on a small document made of these ([`Template`]), or its rows are
//! written at once if they are nothing but such values. Where they do not tell a value as the item
//! has it (an integer beyond what doubles can tell apart, a string with half a character) the item
//! is loaded after all.
//!
//! Not if items expire: only the item says when.

use std::borrow::Cow;
use std::ops::ControlFlow;

use partita_model::{Document, IndexStep, KeyPart, Result, Scalar, Value, write_string};
use partita_query::{PlainRow, Reads, Row, Run};

use super::Leaf;
use super::choose::paths_of;
use crate::catalog::Container;
use crate::index::EntryValue;
use crate::keys;
use crate::query::places::PlaceAt;

/// From here on a double may stand for several integers.
const EXACT_NUMBER_MAX: f64 = 9_007_199_254_740_992.0;
/// Room for the usual row.
const ROW_BYTES: usize = 48;

/// What is known of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// It was written.
    Written,
    Undefined,
    /// Only the item tells.
    Nothing,
}

/// Appends a value as JSON. Nothing is appended if the item may have said it otherwise.
pub(super) fn put_text(out: &mut String, value: &Scalar<'_>) -> Told {
    match value {
        Scalar::Null => out.push_str("null"),
        Scalar::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Scalar::Number(double) if double.abs() < EXACT_NUMBER_MAX => {
            if double.fract() == 0.0 {
                out.push_str(&(*double as i64).to_string());
            } else {
                out.push_str(&Value::from(*double).to_string());
            }
        }
        Scalar::String(text) if !is_doubtful(text) => write_string(out, text),
        Scalar::Number(_) | Scalar::String(_) => return Told::Nothing,
    }
    Told::Written
}

/// Does a sort key belong to one value? Some numbers share one, and so do texts with half a
/// character.
pub(in crate::query) fn is_of_one_value(sort_key: &[u8]) -> bool {
    match EntryValue::new(sort_key).scalar() {
        Some(Scalar::Number(double)) => double.abs() < EXACT_NUMBER_MAX,
        Some(Scalar::String(text)) => !is_doubtful(&text),
        Some(Scalar::Null | Scalar::Bool(_)) | None => true,
    }
}

/// Half a character of an item is the replacement character in keys.
pub(super) fn is_doubtful(text: &str) -> bool {
    !text.is_ascii() && text.contains(char::REPLACEMENT_CHARACTER)
}

/// Writes the value with a number.
pub(super) type Put<'p> = dyn FnMut(usize, &mut String) -> Told + 'p;

/// A small document: where in it the values go.
#[derive(Default)]
pub(super) struct Template {
    value: Option<usize>,
    /// Members as JSON strings.
    members: Vec<(String, Template)>,
}

impl Template {
    /// The document that has these values at these paths, and nothing else.
    pub(super) fn new(paths: &[Vec<IndexStep>]) -> Template {
        let mut root = Template::default();
        for (number, path) in paths.iter().enumerate() {
            let mut node = &mut root;
            for step in path {
                let IndexStep::Member(name) = step else { continue };
                node = node.member(name);
            }
            node.value = Some(number);
        }
        root
    }

    /// A list of these members.
    fn of_members<'n>(names: impl Iterator<Item = &'n String>) -> Template {
        let member = |(number, name): (usize, &String)| {
            (quoted(name), Template { value: Some(number), members: Vec::new() })
        };
        Template { value: None, members: names.enumerate().map(member).collect() }
    }

    fn member(&mut self, name: &str) -> &mut Template {
        let quoted = quoted(name);
        let at = match self.members.iter().position(|(known, _)| *known == quoted) {
            Some(at) => at,
            None => {
                self.members.push((quoted, Template::default()));
                self.members.len() - 1
            }
        };
        &mut self.members[at].1
    }

    /// Writes the document; a member without a value is left out. What has no value has nothing
    /// below it, and neither has a scalar. False if a value is not told.
    pub(super) fn write(&self, out: &mut String, put: &mut Put<'_>) -> bool {
        out.push('{');
        let start = out.len();
        for (name, member) in &self.members {
            let before = out.len();
            if before > start {
                out.push(',');
            }
            out.push_str(name);
            out.push(':');
            match member.value.map(|number| put(number, out)) {
                Some(Told::Written) => {}
                Some(Told::Undefined) => out.truncate(before),
                Some(Told::Nothing) => return false,
                None if member.write(out, put) => {}
                None => return false,
            }
        }
        out.push('}');
        true
    }
}

/// A name as a JSON string.
fn quoted(name: &str) -> String {
    let mut quoted = String::with_capacity(name.len() + 2);
    write_string(&mut quoted, name);
    quoted
}

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

/// What values are put into.
enum Form {
    /// The only value is the row.
    Value,
    /// The row.
    Row(Template),
    /// What the query is evaluated on, WHERE included.
    Document(Template),
    /// The same for items that WHERE is known to let through.
    Passing(Template),
}

/// Makes the rows of a query of keys.
pub(super) struct KeyRows<'l> {
    container: &'l Container,
    sources: Vec<Source>,
    form: Form,
}

impl<'l> KeyRows<'l> {
    /// For places in the query's order. `passes`: WHERE lets all of them through. None if the query
    /// looks at something else.
    pub(super) fn of_places(leaf: &Leaf<'l>, passes: bool) -> Option<KeyRows<'l>> {
        let facts = leaf.query.facts();
        let columns = paths_of(&facts.order)?;
        if let Some(plain) = KeyRows::plain(leaf, &columns).filter(|_| passes) {
            return Some(plain);
        }
        KeyRows::evaluated(leaf.container, &facts.reads, &columns, Form::Document)
    }

    /// For items of which only the resource id is known, and that WHERE lets them through.
    pub(super) fn of_passing(leaf: &Leaf<'l>) -> Option<KeyRows<'l>> {
        KeyRows::plain(leaf, &[]).or_else(|| {
            let selects = &leaf.query.facts().selects;
            KeyRows::evaluated(leaf.container, selects, &[], Form::Passing)
        })
    }

    /// Rows that are nothing but values of keys.
    fn plain(leaf: &Leaf<'l>, columns: &[&[IndexStep]]) -> Option<KeyRows<'l>> {
        let facts = leaf.query.facts();
        if facts.distinct {
            return None;
        }
        let (paths, form): (Vec<&Vec<IndexStep>>, Form) = match facts.plain.as_ref()? {
            PlainRow::Item => return None,
            PlainRow::Value(path) => (vec![path], Form::Value),
            PlainRow::Members(members) => {
                let names = members.iter().map(|(name, _)| name);
                let paths = members.iter().map(|(_, path)| path).collect();
                (paths, Form::Row(Template::of_members(names)))
            }
        };
        KeyRows::told(leaf.container, paths.into_iter(), columns, form)
    }

    fn evaluated(
        container: &'l Container,
        reads: &Reads,
        columns: &[&[IndexStep]],
        form: fn(Template) -> Form,
    ) -> Option<KeyRows<'l>> {
        let Reads::Paths(paths) = reads else { return None };
        KeyRows::told(container, paths.iter(), columns, form(Template::new(paths)))
    }

    fn told<'p>(
        container: &'l Container,
        paths: impl Iterator<Item = &'p Vec<IndexStep>>,
        columns: &[&[IndexStep]],
        form: Form,
    ) -> Option<KeyRows<'l>> {
        if container.definition.default_ttl.is_some() {
            return None;
        }
        let source = |path: &'p Vec<IndexStep>| {
            let column = columns.iter().position(|column| column == path).map(Source::Column);
            column.or_else(|| source_of(container, path))
        };
        let sources = paths.map(source).collect::<Option<Vec<Source>>>()?;
        Some(KeyRows { container, sources, form })
    }

    /// Does the key of an item tell something that its place does not?
    pub(super) fn needs_item_key(&self) -> bool {
        self.sources.iter().any(|source| matches!(source, Source::Id | Source::KeyPart(_)))
    }

    /// The row of a place, or that it has none. None if the item has to be loaded.
    pub(super) fn row(
        &self,
        run: &mut Run<'_>,
        place: PlaceAt<'_>,
        item_key: Option<&[u8]>,
    ) -> Result<Option<Option<Row>>> {
        let item_key = item_key.and_then(|key| self.read(key));
        let mut put = |number: usize, out: &mut String| match self.sources.get(number) {
            Some(source) => self.put(*source, place, item_key.as_ref(), out),
            None => Told::Nothing,
        };
        let mut text = String::with_capacity(ROW_BYTES);
        let is_told = match &self.form {
            Form::Value => match put(0, &mut text) {
                Told::Written => true,
                Told::Undefined => return Ok(Some(None)),
                Told::Nothing => false,
            },
            Form::Row(template) | Form::Document(template) | Form::Passing(template) => {
                template.write(&mut text, &mut put)
            }
        };
        if !is_told {
            return Ok(None);
        }
        let mut row = None;
        match &self.form {
            Form::Value | Form::Row(_) => {
                row = Some(Row { text, keys: Vec::new(), hash: 0, ordinal: 0 });
            }
            Form::Document(_) => row = run.first_row(Document::new(&text))?,
            Form::Passing(_) => run.rows_known(Document::new(&text), &mut |found| {
                row = Some(found);
                ControlFlow::Break(())
            })?,
        }
        Ok(Some(row))
    }

    /// Reads the key of an item, as far as it is looked at.
    fn read<'k>(&self, item_key: &'k [u8]) -> Option<Named<'k>> {
        let components = self.container.definition.partition_key.paths.len();
        if self.sources.iter().any(|source| matches!(source, Source::KeyPart(_))) {
            let whole = keys::parse_item(item_key, components)?;
            return Some(Named { id: Cow::Owned(whole.id), key: whole.key.0 });
        }
        Some(Named { id: keys::id_of_item(item_key, components)?, key: Vec::new() })
    }

    fn put(
        &self,
        source: Source,
        place: PlaceAt<'_>,
        item_key: Option<&Named<'_>>,
        out: &mut String,
    ) -> Told {
        let value = match source {
            Source::Rid => {
                Scalar::String(Cow::Owned(self.container.item_rid(place.rid()).to_string()))
            }
            Source::Id => match item_key {
                Some(key) => Scalar::String(Cow::Borrowed(&key.id)),
                None => return Told::Nothing,
            },
            Source::KeyPart(at) => match item_key.and_then(|key| key.key.get(at)) {
                Some(KeyPart::String(key)) => Scalar::String(Cow::Borrowed(key)),
                Some(KeyPart::Number(double)) => Scalar::Number(*double),
                Some(KeyPart::Bool(value)) => Scalar::Bool(*value),
                Some(KeyPart::Null) => Scalar::Null,
                // What is no scalar is undefined as a key.
                Some(KeyPart::Undefined) | None => return Told::Nothing,
            },
            Source::Column(at) => match place.key(at) {
                Some([0]) => return Told::Undefined,
                key => match key.and_then(|key| EntryValue::new(key).scalar()) {
                    Some(value) => value,
                    None => return Told::Nothing,
                },
            },
        };
        put_text(out, &value)
    }
}

/// What of an item's key is looked at.
struct Named<'k> {
    id: Cow<'k, str>,
    /// Nothing if nobody looks at it.
    key: Vec<KeyPart>,
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

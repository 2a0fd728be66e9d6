//! Computed properties in the index.
//!
//! A policy that names a computed property, in an included path or in a composite index, indexes
//! its values: `/*` alone does not. The entries of an item are then those of the item with the
//! property in it, in place of a stored one of that name, which queries cannot see either.
//!
//! What an item's entries were made with belongs to the version of the policy that its record
//! names: a property that gets another meaning gets another version, and all items their entries
//! anew, as after any change of the policy.

use std::borrow::Cow;
use std::sync::Arc;

use partita_model::{
    ComputedProperty, ContainerDefinition, Document, IndexStep, IndexingPolicy, Result, Value,
};
use partita_query::Computed;

/// The computed properties that a version of a container's policy indexes.
#[derive(Clone, Debug, Default)]
pub(crate) struct IndexedComputed {
    properties: Vec<ComputedProperty>,
    read: Arc<[Computed]>,
}

impl PartialEq for IndexedComputed {
    fn eq(&self, other: &IndexedComputed) -> bool {
        self.properties == other.properties
    }
}

impl IndexedComputed {
    /// Those of a definition. An error if any of its computed properties is not allowed.
    pub(crate) fn of(definition: &ContainerDefinition) -> Result<IndexedComputed> {
        let all = &definition.computed_properties;
        for property in all {
            Computed::parse(property, all)?;
        }
        let is_indexed = |property: &&ComputedProperty| names(&definition.indexing, &property.name);
        IndexedComputed::new(all.iter().filter(is_indexed).cloned().collect())
    }

    /// Those that were indexed when their definition was in force.
    pub(crate) fn new(properties: Vec<ComputedProperty>) -> Result<IndexedComputed> {
        let read = properties.iter().map(|property| Computed::parse(property, &[]));
        Ok(IndexedComputed { read: read.collect::<Result<_>>()?, properties })
    }

    pub(crate) fn properties(&self) -> &[ComputedProperty] {
        &self.properties
    }

    /// An item as its index entries show it.
    pub(crate) fn within<'t>(&self, text: &'t str) -> Result<Cow<'t, str>> {
        if self.read.is_empty() {
            return Ok(Cow::Borrowed(text));
        }
        let mut item = match Value::parse(text.as_bytes())? {
            Value::Object(item) => item,
            _ => return Ok(Cow::Borrowed(text)),
        };
        for property in self.read.iter() {
            match property.of(Document::new(text)) {
                Some(value) => {
                    item.insert(property.name(), Value::parse(value.as_bytes())?);
                }
                None => {
                    item.remove(property.name());
                }
            }
        }
        Ok(Cow::Owned(Value::Object(item).to_json()))
    }
}

/// Does a policy speak of a property at the top of items by its name?
fn names(policy: &IndexingPolicy, name: &str) -> bool {
    let begins = |steps: &[IndexStep]| match steps.first() {
        Some(IndexStep::Member(first)) => first == name,
        Some(IndexStep::Element) | None => false,
    };
    let composite = policy.composite().iter().flat_map(|index| &index.paths);
    policy.included().iter().any(|path| begins(path.steps()))
        || composite.map(|column| column.path.steps()).any(begins)
}

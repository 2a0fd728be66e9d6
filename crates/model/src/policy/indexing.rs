//! Indexing policies: what of an item is indexed, and how.
//!
//! A policy lists included and excluded paths; the most precise one that covers a value decides.
//! One of the lists has to name the root, so that every value is spoken for. A partial policy is
//! completed as the service does it: everything is included, `_etag` excluded. `id` and `_ts` are
//! always indexed and need no path.
//!
//! The legacy `indexes` lists of included paths (hash or range, precision) mean nothing: there is
//! one kind of index. They are shown again, but for that of the whole item. So is a lazy index a
//! consistent one, and every new index automatic, as the service has it by now.
//! Tuple paths (`/a/[]/{b, c}/?`) are refused.

use std::collections::HashSet;

use crate::document::Step;
use crate::error::{Error, Result};
use crate::limits;
use crate::path::{IndexEnd, IndexPath, IndexStep, PropertyPath};
use crate::policy::composite::CompositeIndex;
use crate::policy::coverage::Coverage;
use crate::policy::full_text;
use crate::policy::shape;
use crate::policy::spatial::SpatialIndex;
use crate::policy::vector::VectorIndex;
use crate::value::{Object, Value};

/// When values are indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexingMode {
    /// With the write.
    Consistent,
    /// Never: items are found by key only.
    None,
}

const MODES: &[(&str, IndexingMode)] = &[
    ("consistent", IndexingMode::Consistent),
    ("lazy", IndexingMode::Consistent),
    ("none", IndexingMode::None),
];

/// What of a container's items is indexed.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexingPolicy {
    mode: IndexingMode,
    automatic: bool,
    included: Vec<IndexPath>,
    /// The legacy `indexes` of included paths, by the path's text.
    legacy: Vec<(String, Value)>,
    excluded: Vec<IndexPath>,
    composite: Vec<CompositeIndex>,
    spatial: Vec<SpatialIndex>,
    vector: Vec<VectorIndex>,
    full_text: Vec<PropertyPath>,
    /// The two lists of paths, laid out for lookup.
    coverage: Coverage,
}

/// Everything is indexed but `_etag`.
impl Default for IndexingPolicy {
    fn default() -> IndexingPolicy {
        IndexingPolicy::parse(&Value::from(Object::new())).expect("the empty policy is completed")
    }
}

impl IndexingPolicy {
    /// Reads the member `indexingPolicy` of a container and completes it.
    pub fn parse(value: &Value) -> Result<IndexingPolicy> {
        let policy = shape::object(value, "indexingPolicy")?;
        let mode = parse_mode(policy)?;
        let automatic = shape::present(policy, "automatic")
            .map_or(Ok(true), |value| shape::boolean(value, "indexingPolicy.automatic"))?;
        let mut included = parse_paths(policy, "includedPaths")?;
        let mut excluded = parse_paths(policy, "excludedPaths")?;
        check_distinct(&included, &excluded)?;
        if mode != IndexingMode::None {
            complete(&mut included, &mut excluded)?;
        }
        Ok(IndexingPolicy {
            mode,
            automatic: automatic && mode != IndexingMode::None,
            coverage: Coverage::new(&included, &excluded),
            included,
            legacy: parse_legacy(policy)?,
            excluded,
            composite: CompositeIndex::parse_all(policy)?,
            spatial: SpatialIndex::parse_all(policy)?,
            vector: VectorIndex::parse_all(policy)?,
            full_text: full_text::parse_indexes(policy)?,
        })
    }

    /// The policy as clients see it.
    pub fn to_value(&self) -> Value {
        let entry = |path: &IndexPath| Object::new().with("path", path.text());
        let with_legacy = |path: &IndexPath| {
            let legacy = self.legacy.iter().find(|(text, _)| text == path.text());
            match legacy {
                Some((_, indexes)) => entry(path).with("indexes", indexes.clone()),
                None => entry(path),
            }
        };
        let included = self.included.iter().map(|path| Value::from(with_legacy(path)));
        let excluded = self.excluded.iter().map(|path| Value::from(entry(path)));
        let mode = match self.mode {
            IndexingMode::Consistent => "consistent",
            IndexingMode::None => "none",
        };
        let mut object = Object::new()
            .with("indexingMode", mode)
            .with("automatic", self.automatic())
            .with("includedPaths", included.collect::<Vec<Value>>())
            .with("excludedPaths", excluded.collect::<Vec<Value>>());
        let mut list = |name: &str, entries: Vec<Value>| {
            if !entries.is_empty() {
                object.insert(name, entries);
            }
        };
        list("compositeIndexes", self.composite.iter().map(CompositeIndex::to_value).collect());
        list("spatialIndexes", self.spatial.iter().map(SpatialIndex::to_value).collect());
        list("vectorIndexes", self.vector.iter().map(VectorIndex::to_value).collect());
        list("fullTextIndexes", full_text::indexes_to_values(&self.full_text));
        Value::from(object)
    }

    /// Is the leaf at this place of an item indexed?
    pub fn indexes(&self, place: &[Step<'_>]) -> bool {
        if self.mode == IndexingMode::None {
            return false;
        }
        match place {
            [Step::Member(name)] if name == "id" || name == "_ts" => true,
            _ => self.coverage.covers(place),
        }
    }

    /// When values are indexed.
    pub fn mode(&self) -> IndexingMode {
        self.mode
    }

    /// Are items indexed unless the write says otherwise? If not, only when the write says so:
    /// containers of older stores may have that.
    pub fn automatic(&self) -> bool {
        self.automatic
    }

    /// The same policy, but automatic if it indexes anything.
    pub(super) fn made_automatic(self) -> IndexingPolicy {
        IndexingPolicy { automatic: self.mode != IndexingMode::None, ..self }
    }

    /// The included paths.
    pub fn included(&self) -> &[IndexPath] {
        &self.included
    }

    /// The excluded paths.
    pub fn excluded(&self) -> &[IndexPath] {
        &self.excluded
    }

    /// The composite indexes.
    pub fn composite(&self) -> &[CompositeIndex] {
        &self.composite
    }

    /// The spatial indexes.
    pub fn spatial(&self) -> &[SpatialIndex] {
        &self.spatial
    }

    /// The vector indexes.
    pub fn vector(&self) -> &[VectorIndex] {
        &self.vector
    }

    /// The paths with a full-text index.
    pub fn full_text(&self) -> &[PropertyPath] {
        &self.full_text
    }
}

fn parse_mode(policy: &Object) -> Result<IndexingMode> {
    let Some(value) = shape::present(policy, "indexingMode") else {
        return Ok(IndexingMode::Consistent);
    };
    let text = shape::string(value, "indexingMode")?;
    shape::one_of(text, MODES).ok_or_else(|| {
        Error::bad_request(format!(
            "'indexingMode' is '{text}'; it must be consistent, lazy or none"
        ))
    })
}

fn parse_paths(policy: &Object, name: &str) -> Result<Vec<IndexPath>> {
    let entries = shape::array_or_empty(policy, name)?;
    if entries.len() > limits::INDEX_PATHS_MAX {
        return Err(Error::bad_request(format!(
            "'{name}' has {} paths; the limit is {}",
            entries.len(),
            limits::INDEX_PATHS_MAX
        )));
    }
    let mut paths = Vec::new();
    for entry in entries {
        let entry = shape::object(entry, name)?;
        let of = format!("An entry of '{name}'");
        let text = shape::string(shape::required(entry, "path", &of)?, "path")?;
        if text.contains("/{") {
            return Err(Error::unsupported(format!(
                "The tuple index path {text} is not supported; list its properties one by one"
            )));
        }
        paths.push(IndexPath::parse(if text == "/" { ROOT } else { text })?);
    }
    Ok(paths)
}

/// The legacy `indexes` that included paths are shown with.
fn parse_legacy(policy: &Object) -> Result<Vec<(String, Value)>> {
    let mut legacy = Vec::new();
    for entry in shape::array_or_empty(policy, "includedPaths")? {
        let entry = shape::object(entry, "includedPaths")?;
        let Some(indexes) = shape::present(entry, "indexes") else { continue };
        let is_empty = shape::array(indexes, "includedPaths.indexes")?.is_empty();
        let path = shape::required(entry, "path", "An entry of 'includedPaths'")?;
        let path = shape::string(path, "path")?;
        if !is_empty && path != ROOT && path != "/" {
            legacy.push((path.to_owned(), indexes.clone()));
        }
    }
    Ok(legacy)
}

/// No path twice: neither in a list nor in both.
fn check_distinct(included: &[IndexPath], excluded: &[IndexPath]) -> Result<()> {
    let mut seen: HashSet<(&[IndexStep], IndexEnd)> = HashSet::new();
    for path in included.iter().chain(excluded) {
        if !seen.insert((path.steps(), path.end())) {
            return Err(Error::bad_request(format!(
                "The indexing policy names the path {} twice; name it once, in 'includedPaths' or \
                 in 'excludedPaths'",
                path.text()
            )));
        }
    }
    Ok(())
}

/// Adds what a policy leaves to the service.
fn complete(included: &mut Vec<IndexPath>, excluded: &mut Vec<IndexPath>) -> Result<()> {
    let has_root = |paths: &[IndexPath]| paths.iter().any(|path| path.steps().is_empty());
    if !has_root(included) && !has_root(excluded) {
        if !included.is_empty() {
            return Err(Error::bad_request(
                "The special mandatory indexing path \"/*\" is not provided in any of the path \
                 type sets. Please provide such path in one of the sets.",
            ));
        }
        included.push(IndexPath::parse(ROOT)?);
    }
    let etag = IndexPath::parse(ETAG)?;
    if !included.iter().chain(excluded.iter()).any(|path| path.steps() == etag.steps()) {
        excluded.push(etag);
    }
    Ok(())
}

/// The whole item.
const ROOT: &str = "/*";
/// As the service writes it.
const ETAG: &str = "/\"_etag\"/?";

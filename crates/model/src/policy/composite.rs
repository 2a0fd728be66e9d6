//! Composite indexes: several properties in one order, for sorting and filtering by all of them.

use crate::error::{Error, Result};
use crate::limits;
use crate::path::{IndexPath, IndexStep};
use crate::policy::shape;
use crate::value::{Object, Value};

/// One composite index.
#[derive(Clone, Debug, PartialEq)]
pub struct CompositeIndex {
    /// Its columns, the first one sorting first.
    pub paths: Vec<CompositePath>,
}

/// One column of a composite index.
#[derive(Clone, Debug, PartialEq)]
pub struct CompositePath {
    /// The path as it was written: without an end, `/a/b`.
    pub text: String,
    /// The same as an index path: `/a/b/?`.
    pub path: IndexPath,
    /// Sorted from high to low?
    pub descending: bool,
}

impl CompositeIndex {
    /// Reads the member `compositeIndexes` of an indexing policy.
    pub(super) fn parse_all(policy: &Object) -> Result<Vec<CompositeIndex>> {
        let indexes = shape::array_or_empty(policy, "compositeIndexes")?;
        if indexes.len() > limits::COMPOSITE_INDEXES_MAX {
            return Err(Error::bad_request(format!(
                "'compositeIndexes' has {} entries; the limit is {}",
                indexes.len(),
                limits::COMPOSITE_INDEXES_MAX
            )));
        }
        let mut parsed = Vec::new();
        for index in indexes {
            let index = CompositeIndex::parse(index)?;
            if parsed.contains(&index) {
                return Err(Error::bad_request(format!(
                    "'compositeIndexes' has the same composite index twice: {}",
                    index.to_value()
                )));
            }
            parsed.push(index);
        }
        Ok(parsed)
    }

    fn parse(value: &Value) -> Result<CompositeIndex> {
        let columns = shape::array(value, "compositeIndexes")?;
        let (min, max) = (limits::COMPOSITE_INDEX_PATHS_MIN, limits::COMPOSITE_INDEX_PATHS_MAX);
        if !(min..=max).contains(&columns.len()) {
            return Err(Error::bad_request(format!(
                "A composite index has {} paths; it needs {min} to {max}",
                columns.len()
            )));
        }
        let mut paths: Vec<CompositePath> = Vec::new();
        for column in columns {
            let column = CompositePath::parse(column)?;
            if paths.iter().any(|other| other.path.steps() == column.path.steps()) {
                return Err(Error::bad_request(format!(
                    "A composite index names the path {} twice",
                    column.text
                )));
            }
            paths.push(column);
        }
        Ok(CompositeIndex { paths })
    }

    /// The index as clients see it.
    pub(super) fn to_value(&self) -> Value {
        Value::from(self.paths.iter().map(CompositePath::to_value).collect::<Vec<Value>>())
    }
}

impl CompositePath {
    fn parse(value: &Value) -> Result<CompositePath> {
        let column = shape::object(value, "compositeIndexes")?;
        let text = shape::string(
            shape::required(column, "path", "A path of a composite index")?,
            "compositeIndexes.path",
        )?;
        if text.ends_with("/*") {
            return Err(Error::bad_request(format!(
                "The composite index path {text} must not end with '/*': a composite index holds \
                 single values"
            )));
        }
        let path = match text.ends_with("/?") {
            true => IndexPath::parse(text)?,
            false => IndexPath::parse(&format!("{text}/?"))?,
        };
        if path.steps().contains(&IndexStep::Element) {
            return Err(Error::unsupported(format!(
                "The composite index path {text} goes through an array ('[]'), which is not \
                 supported; a composite index holds one value per item and path"
            )));
        }
        let order = shape::present(column, "order")
            .map_or(Ok("ascending"), |value| shape::string(value, "compositeIndexes.order"))?;
        let descending = shape::one_of(order, &[("ascending", false), ("descending", true)])
            .ok_or_else(|| {
                Error::bad_request(format!(
                    "The order of the composite index path {text} is '{order}'; it must be \
                     ascending or descending"
                ))
            })?;
        Ok(CompositePath { text: text.to_owned(), path, descending })
    }

    fn to_value(&self) -> Value {
        let order = if self.descending { "descending" } else { "ascending" };
        Value::from(Object::new().with("path", self.text.as_str()).with("order", order))
    }
}

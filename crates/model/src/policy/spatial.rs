//! Spatial indexes: which paths hold GeoJSON, and which of its shapes.

use crate::error::{Error, Result};
use crate::path::IndexPath;
use crate::policy::geospatial::Geospatial;
use crate::policy::shape;
use crate::value::{Object, Value};

/// One spatial index.
#[derive(Clone, Debug, PartialEq)]
pub struct SpatialIndex {
    /// Where the shapes stand.
    pub path: IndexPath,
    /// The indexed shapes, in the service's order.
    pub types: Vec<SpatialType>,
    /// The part of the plane that is indexed; for Geometry only.
    pub bounds: Option<BoundingBox>,
}

/// A GeoJSON shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum SpatialType {
    Point,
    LineString,
    Polygon,
    MultiPolygon,
}

/// A part of the plane.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct BoundingBox {
    pub x_min: f64,
    pub y_min: f64,
    pub x_max: f64,
    pub y_max: f64,
}

/// In the order the service shows them.
const TYPES: &[(&str, SpatialType)] = &[
    ("Point", SpatialType::Point),
    ("LineString", SpatialType::LineString),
    ("Polygon", SpatialType::Polygon),
    ("MultiPolygon", SpatialType::MultiPolygon),
];

impl SpatialIndex {
    /// Reads the member `spatialIndexes` of an indexing policy.
    pub(super) fn parse_all(policy: &Object) -> Result<Vec<SpatialIndex>> {
        let mut indexes: Vec<SpatialIndex> = Vec::new();
        for entry in shape::array_or_empty(policy, "spatialIndexes")? {
            let index = SpatialIndex::parse(entry)?;
            if indexes.iter().any(|other| other.path == index.path) {
                return Err(Error::bad_request(format!(
                    "'spatialIndexes' names the path {} twice",
                    index.path.text()
                )));
            }
            indexes.push(index);
        }
        Ok(indexes)
    }

    fn parse(value: &Value) -> Result<SpatialIndex> {
        let entry = shape::object(value, "spatialIndexes")?;
        let text = shape::string(
            shape::required(entry, "path", "A spatial index")?,
            "spatialIndexes.path",
        )?;
        let path = IndexPath::parse(text)?;
        if let Some(value) = shape::present(entry, "types") {
            check_types(value, text)?;
        }
        // The service completes the list, whatever it names.
        let types = TYPES.iter().map(|(_, kind)| *kind).collect();
        let bounds = shape::present(entry, "boundingBox").map(BoundingBox::parse).transpose()?;
        Ok(SpatialIndex { path, types, bounds })
    }

    /// The index as clients see it.
    pub(super) fn to_value(&self) -> Value {
        let types: Vec<Value> = TYPES
            .iter()
            .filter(|(_, kind)| self.types.contains(kind))
            .map(|(word, _)| Value::from(*word))
            .collect();
        let object = Object::new().with("path", self.path.text()).with("types", types);
        Value::from(match &self.bounds {
            Some(bounds) => object.with("boundingBox", bounds.to_value()),
            None => object,
        })
    }
}

impl BoundingBox {
    fn parse(value: &Value) -> Result<BoundingBox> {
        let entry = shape::object(value, "boundingBox")?;
        let side = |name: &str| -> Result<f64> {
            shape::number(shape::required(entry, name, "'boundingBox'")?, name)
        };
        let bounds = BoundingBox {
            x_min: side("xmin")?,
            y_min: side("ymin")?,
            x_max: side("xmax")?,
            y_max: side("ymax")?,
        };
        if bounds.x_min < bounds.x_max && bounds.y_min < bounds.y_max {
            return Ok(bounds);
        }
        Err(Error::bad_request(
            "'boundingBox' is empty: xmin must be less than xmax and ymin less than ymax",
        ))
    }

    fn to_value(self) -> Value {
        Value::from(
            Object::new()
                .with("xmin", self.x_min)
                .with("ymin", self.y_min)
                .with("xmax", self.x_max)
                .with("ymax", self.y_max),
        )
    }
}

/// A plane has to be bounded, the globe is.
pub(super) fn check_bounds(indexes: &[SpatialIndex], geospatial: Geospatial) -> Result<()> {
    for index in indexes {
        let path = index.path.text();
        match (geospatial, index.bounds) {
            (Geospatial::Geography, None) | (Geospatial::Geometry, Some(_)) => {}
            (Geospatial::Geometry, None) => {
                return Err(Error::bad_request(format!(
                    "The spatial index {path} needs a boundingBox: the container's \
                     geospatialConfig is Geometry"
                )));
            }
            (Geospatial::Geography, Some(_)) => {
                return Err(Error::bad_request(format!(
                    "The spatial index {path} must not have a boundingBox: the container's \
                     geospatialConfig is Geography"
                )));
            }
        }
    }
    Ok(())
}

/// A list of types has at least one, and only those that there are.
fn check_types(value: &Value, path: &str) -> Result<()> {
    let words = shape::array(value, "spatialIndexes.types")?;
    if words.is_empty() {
        return Err(Error::bad_request(format!(
            "The spatial data types array cannot be empty. Assign at least one spatial type for \
             the 'types' array for the path '{path}': Point, LineString, Polygon or MultiPolygon"
        )));
    }
    for word in words {
        let word = shape::string(word, "spatialIndexes.types")?;
        shape::one_of(word, TYPES).ok_or_else(|| {
            Error::bad_request(format!(
                "'spatialIndexes.types' has '{word}'; it must be Point, LineString, Polygon or \
                 MultiPolygon"
            ))
        })?;
    }
    Ok(())
}

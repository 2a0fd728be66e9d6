//! Whether coordinates of a container lie on the globe or in a plane.

use crate::error::{Error, Result};
use crate::policy::shape;
use crate::value::{Object, Value};

/// The meaning of coordinates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Geospatial {
    /// Longitude and latitude on the WGS-84 ellipsoid; distances in metres.
    #[default]
    Geography,
    /// Positions in a plane, inside a bounding box that each spatial index states.
    Geometry,
}

impl Geospatial {
    /// Reads the member `geospatialConfig`.
    pub(super) fn parse(value: &Value) -> Result<Geospatial> {
        let config = shape::object(value, "geospatialConfig")?;
        let Some(value) = shape::present(config, "type") else { return Ok(Geospatial::default()) };
        let text = shape::string(value, "geospatialConfig.type")?;
        let words = [("Geography", Geospatial::Geography), ("Geometry", Geospatial::Geometry)];
        shape::one_of(text, &words).ok_or_else(|| {
            Error::bad_request(format!(
                "'geospatialConfig.type' is '{text}'; it must be Geography or Geometry"
            ))
        })
    }

    /// The configuration as clients see it.
    pub(super) fn to_value(self) -> Value {
        let text = match self {
            Geospatial::Geography => "Geography",
            Geospatial::Geometry => "Geometry",
        };
        Value::from(Object::new().with("type", text))
    }
}

//! Spatial functions of constants, as far as a query plan needs them.
//!
//! The service computes `ST_DISTANCE` and its kin while planning if both shapes are constants, and
//! plans nothing to do where the condition can never hold. The same is done here only where the
//! answer is beyond doubt: on the globe a shape that passes close by another is left undecided,
//! because the earth is no sphere. What is undecided is planned for everything.

mod globe;
mod plane;

use partita_model::{Geospatial, Value};

/// A position: longitude and latitude, or a place in a plane.
pub(super) type Position = (f64, f64);

/// A GeoJSON shape taken apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Shape {
    points: Vec<Position>,
    /// Runs of connected positions.
    lines: Vec<Vec<Position>>,
    /// Outer ring, then holes; each ends where it began.
    polygons: Vec<Vec<Vec<Position>>>,
}

/// Is it a function that may be computed here?
pub(super) fn is_known(name: &str) -> bool {
    let names = ["ST_DISTANCE", "ST_WITHIN", "ST_INTERSECTS", "ST_ISVALID"];
    names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// The result of a function, if it is beyond doubt.
pub(super) fn compute(name: &str, arguments: &[&Value], space: Geospatial) -> Option<Value> {
    let name = name.to_ascii_uppercase();
    if name == "ST_ISVALID" {
        let shape = Shape::parse(arguments.first()?)?;
        let on_globe = space == Geospatial::Geography;
        return (on_globe && !shape.is_on_globe()).then_some(Value::Bool(false));
    }
    let (a, b) = (Shape::parse(arguments.first()?)?, Shape::parse(arguments.get(1)?)?);
    match (name.as_str(), space) {
        ("ST_DISTANCE", Geospatial::Geometry) => Some(Value::from(plane::distance(&a, &b))),
        ("ST_INTERSECTS", Geospatial::Geometry) => Some(Value::from(plane::intersects(&a, &b))),
        ("ST_WITHIN", Geospatial::Geometry) => plane::within(&a, &b).map(Value::from),
        ("ST_INTERSECTS", Geospatial::Geography) if a.is_on_globe() && b.is_on_globe() => {
            globe::intersects(&a, &b).map(Value::from)
        }
        _ => None,
    }
}

impl Shape {
    fn parse(value: &Value) -> Option<Shape> {
        let object = value.as_object()?;
        let coordinates = object.get("coordinates")?;
        match object.get("type")?.as_str()? {
            "Point" => Some(Shape { points: vec![position(coordinates)?], ..Shape::default() }),
            "LineString" => Some(Shape { lines: vec![line(coordinates)?], ..Shape::default() }),
            "Polygon" => Some(Shape { polygons: vec![rings(coordinates)?], ..Shape::default() }),
            "MultiPolygon" => {
                let polygons = coordinates.as_array()?.iter().map(rings).collect::<Option<_>>()?;
                Some(Shape { polygons, ..Shape::default() })
            }
            _ => None,
        }
    }

    /// All positions, in any order.
    fn positions(&self) -> impl Iterator<Item = Position> {
        let lines = self.lines.iter().chain(self.polygons.iter().flatten()).flatten();
        self.points.iter().chain(lines).copied()
    }

    /// All connections between two positions.
    fn segments(&self) -> impl Iterator<Item = (Position, Position)> {
        let lines = self.lines.iter().chain(self.polygons.iter().flatten());
        lines.flat_map(|line| line.iter().copied().zip(line.iter().copied().skip(1)))
    }

    fn is_on_globe(&self) -> bool {
        self.positions().all(|(longitude, latitude)| {
            (-180.0..=180.0).contains(&longitude) && (-90.0..=90.0).contains(&latitude)
        })
    }
}

fn position(value: &Value) -> Option<Position> {
    match value.as_array()? {
        [x, y, ..] => Some((x.as_f64()?, y.as_f64()?)),
        _ => None,
    }
}

fn line(value: &Value) -> Option<Vec<Position>> {
    let positions: Vec<Position> = value.as_array()?.iter().map(position).collect::<Option<_>>()?;
    (positions.len() >= 2).then_some(positions)
}

fn rings(value: &Value) -> Option<Vec<Vec<Position>>> {
    let ring =
        |value: &Value| line(value).filter(|ring| ring.len() >= 4 && ring.first() == ring.last());
    let rings: Vec<Vec<Position>> = value.as_array()?.iter().map(ring).collect::<Option<_>>()?;
    (!rings.is_empty()).then_some(rings)
}

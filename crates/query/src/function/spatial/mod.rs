//! Spatial functions of constants, as far as a query plan needs them.
//!
//! The service computes `ST_DISTANCE` and its kin while planning if both shapes are constants, and
//! plans nothing to do where the condition can never hold. The same is done here only where the
//! answer is beyond doubt: on the globe a shape that passes close by another is left undecided,
//! because the earth is no sphere. What is undecided is planned for everything.

mod globe;
mod plane;

use super::Function;
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

/// The result of a function, if it is beyond doubt.
pub(crate) fn compute(function: Function, of: &[&Value], space: Geospatial) -> Option<Value> {
    let shapes: Vec<Shape> = of.iter().map(|value| Shape::parse(value)).collect::<Option<_>>()?;
    match (function, shapes.as_slice(), space) {
        (Function::StIsValid, [shape], Geospatial::Geography) => {
            (!shape.is_on_globe()).then_some(Value::Bool(false))
        }
        (Function::StDistance, [a, b], Geospatial::Geometry) => {
            Some(Value::from(plane::distance(a, b)))
        }
        (Function::StIntersects, [a, b], Geospatial::Geometry) => {
            Some(Value::from(plane::intersects(a, b)))
        }
        (Function::StWithin, [a, b], Geospatial::Geometry) => plane::within(a, b).map(Value::from),
        (Function::StIntersects, [a, b], Geospatial::Geography)
            if a.is_on_globe() && b.is_on_globe() =>
        {
            globe::intersects(a, b).map(Value::from)
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

//! Shapes on the globe, taken for a sphere: lines are arcs of great circles.
//!
//! The earth differs from a sphere by up to a fifth of a degree, so shapes that come closer than
//! [`DOUBT`] to each other are not decided.

use std::f64::consts::PI;

use super::{Position, Shape};

/// Half a degree.
const DOUBT: f64 = PI / 360.0;

type Vector = [f64; 3];

/// Do the shapes have a place in common?
pub(super) fn intersects(a: &Shape, b: &Shape) -> Option<bool> {
    if !(is_plain(a) && is_plain(b)) {
        return None;
    }
    let near = |a: &Shape, b: &Shape| {
        a.positions().any(|position| {
            let place = vector(position);
            let near_line = b.segments().any(|arc| to_arc(place, arc) < DOUBT);
            near_line || b.points.iter().any(|point| angle(place, vector(*point)) < DOUBT)
        })
    };
    if near(a, b) || near(b, a) {
        return None;
    }
    let cross = a.segments().any(|one| b.segments().any(|other| crosses(one, other)));
    let inside = |a: &Shape, b: &Shape| a.positions().any(|position| contains(b, position));
    Some(cross || inside(a, b) || inside(b, a))
}

/// Is every outer ring counter-clockwise and small? Others mean the rest of the globe.
fn is_plain(shape: &Shape) -> bool {
    let turn = |ring: &Vec<Position>| {
        let pairs = ring.iter().zip(ring.iter().skip(1));
        pairs.map(|((x1, y1), (x2, y2))| x1 * y2 - x2 * y1).sum::<f64>()
    };
    let width = |ring: &Vec<Position>| {
        let longitudes = || ring.iter().map(|(longitude, _)| *longitude);
        longitudes().fold(f64::MIN, f64::max) - longitudes().fold(f64::MAX, f64::min)
    };
    let outer = shape.polygons.iter().filter_map(|rings| rings.first());
    outer.into_iter().all(|ring| turn(ring) > 0.0 && width(ring) < 180.0)
}

/// Is the position inside? Seen from there, the ring goes once around.
fn contains(shape: &Shape, position: Position) -> bool {
    let place = vector(position);
    let turned = |ring: &Vec<Position>| {
        let pairs = ring.iter().zip(ring.iter().skip(1));
        let turns = pairs.map(|(from, to)| seen_angle(place, vector(*from), vector(*to)));
        turns.sum::<f64>().abs() > PI
    };
    shape.polygons.iter().any(|rings| rings.iter().filter(|ring| turned(ring)).count() % 2 == 1)
}

/// The signed angle between two places as seen from a third.
fn seen_angle(from: Vector, a: Vector, b: Vector) -> f64 {
    let (a, b) = (cross(from, a), cross(from, b));
    dot(from, cross(a, b)).atan2(dot(a, b))
}

fn crosses((a, b): (Position, Position), (c, d): (Position, Position)) -> bool {
    let (a, b, c, d) = (vector(a), vector(b), vector(c), vector(d));
    let (one, other) = (cross(a, b), cross(c, d));
    let sides = [-dot(one, c), dot(one, d), dot(other, a), -dot(other, b)];
    sides.iter().all(|side| *side > 0.0) || sides.iter().all(|side| *side < 0.0)
}

/// The angle from a place to the nearest place of an arc.
fn to_arc(place: Vector, (from, to): (Position, Position)) -> f64 {
    let (from, to) = (vector(from), vector(to));
    let pole = cross(from, to);
    let ends = angle(place, from).min(angle(place, to));
    let between = dot(cross(pole, from), place) > 0.0 && dot(cross(to, pole), place) > 0.0;
    if between && norm(pole) > 0.0 {
        (dot(pole, place) / norm(pole)).clamp(-1.0, 1.0).asin().abs()
    } else {
        ends
    }
}

fn vector((longitude, latitude): Position) -> Vector {
    let (longitude, latitude) = (longitude.to_radians(), latitude.to_radians());
    [latitude.cos() * longitude.cos(), latitude.cos() * longitude.sin(), latitude.sin()]
}

fn angle(a: Vector, b: Vector) -> f64 {
    norm(cross(a, b)).atan2(dot(a, b))
}

fn cross(a: Vector, b: Vector) -> Vector {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn norm(a: Vector) -> f64 {
    dot(a, a).sqrt()
}

//! Shapes in a plane: straight lines, Euclidean distances.

use super::{Position, Shape};

pub(super) fn intersects(a: &Shape, b: &Shape) -> bool {
    distance(a, b) == 0.0
}

/// Are all points of `a` inside `b`? Only points are decided, and not those on an edge.
pub(super) fn within(a: &Shape, b: &Shape) -> Option<bool> {
    let only_points = a.lines.is_empty() && a.polygons.is_empty();
    let clear = |point: &Position| b.segments().all(|edge| to_segment(*point, edge) > 0.0);
    (only_points && a.points.iter().all(clear))
        .then(|| a.points.iter().all(|point| contains(b, *point)))
}

/// The length of the shortest way from one shape to the other.
pub(super) fn distance(a: &Shape, b: &Shape) -> f64 {
    let inside = |a: &Shape, b: &Shape| a.positions().any(|position| contains(b, position));
    let cross = a.segments().any(|one| b.segments().any(|other| crosses(one, other)));
    if cross || inside(a, b) || inside(b, a) {
        return 0.0;
    }
    // Lines that do not cross are nearest at an end of one of them.
    let nearest = |a: &Shape, b: &Shape| {
        let to_points = a
            .positions()
            .flat_map(|from| b.points.iter().map(move |to| (from.0 - to.0).hypot(from.1 - to.1)));
        let to_lines =
            a.positions().flat_map(|from| b.segments().map(move |edge| to_segment(from, edge)));
        to_points.chain(to_lines).fold(f64::INFINITY, f64::min)
    };
    nearest(a, b).min(nearest(b, a))
}

/// Is the position inside a polygon, and in none of its holes? A ray to the right crosses an odd
/// number of edges.
fn contains(shape: &Shape, (x, y): Position) -> bool {
    let crossed = |((x1, y1), (x2, y2)): (Position, Position)| {
        (y1 > y) != (y2 > y) && x < (x2 - x1) * (y - y1) / (y2 - y1) + x1
    };
    shape.polygons.iter().any(|rings| {
        let edges =
            rings.iter().flat_map(|ring| ring.iter().copied().zip(ring.iter().copied().skip(1)));
        edges.filter(|edge| crossed(*edge)).count() % 2 == 1
    })
}

fn to_segment((x, y): Position, ((x1, y1), (x2, y2)): (Position, Position)) -> f64 {
    let (along_x, along_y) = (x2 - x1, y2 - y1);
    let length = along_x * along_x + along_y * along_y;
    let part = ((x - x1) * along_x + (y - y1) * along_y) / length;
    // Both ends may be one position; then the part is no number and the end is meant.
    let part = if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 };
    (x - x1 - part * along_x).hypot(y - y1 - part * along_y)
}

/// Do they have a position in common that is inside both?
fn crosses((a, b): (Position, Position), (c, d): (Position, Position)) -> bool {
    let side = |(x1, y1): Position, (x2, y2): Position, (x, y): Position| {
        (x2 - x1) * (y - y1) - (y2 - y1) * (x - x1)
    };
    let apart = |one: f64, other: f64| (one > 0.0 && other < 0.0) || (one < 0.0 && other > 0.0);
    apart(side(a, b, c), side(a, b, d)) && apart(side(c, d, a), side(c, d, b))
}

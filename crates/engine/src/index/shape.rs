//! Shapes: which paths an item has.
//!
//! A *shape* is a set of paths, each with the kind of the value at it: scalar, array or object. It
//! holds the indexed paths from member to member, up to [`DEPTH_MAX`] members deep; nothing inside
//! arrays. Items of one sort have one shape or a few, so whether a path exists is decided once for
//! each shape and then holds for all its items.
//!
//! ```text
//! 04 · shape · rid → ()
//! 05 · shape       → (path · kind)*, sorted by path
//! ```
//!
//! A shape's number is a hash of the set. The dictionary (05) has a record for each shape in use;
//! the record is written with the first item of a shape and stays, also when its last item goes:
//! shapes come back. An item with more paths than a record should hold has the shape
//! [`UNKNOWN_SHAPE`]: whoever wants to know has to look at it.

use partita_model::{Document, IndexingPolicy, Leaf, Node, Step, murmur3_128};

use super::{Terms, indexes, of_step, path_len, put_path};

/// The shape of items that have too many paths. It has no record in the dictionary.
pub(crate) const UNKNOWN_SHAPE: u64 = 0;

/// Shapes tell of paths of up to so many members.
pub(crate) const DEPTH_MAX: usize = 4;

/// A shape of more paths, or of more bytes of paths, is not worth remembering.
const PATHS_MAX: usize = 256;
const BYTES_MAX: usize = 16 << 10;

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Scalar = 1,
    Array = 2,
    Object = 3,
}

impl Kind {
    fn of(node: &Node<'_>) -> Kind {
        match node {
            Node::Leaf(Leaf::Scalar(_)) => Kind::Scalar,
            Node::Leaf(Leaf::EmptyArray) | Node::Array => Kind::Array,
            Node::Leaf(Leaf::EmptyObject) | Node::Object => Kind::Object,
        }
    }

    fn parse(byte: u8) -> Option<Kind> {
        [Kind::Scalar, Kind::Array, Kind::Object].into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// Does a shape tell of this place?
fn counts(place: &[Step<'_>]) -> bool {
    place.len() <= DEPTH_MAX && place.iter().all(|step| of_step(step).is_some())
}

/// Computes the number of a shape from its paths, in any order.
#[derive(Debug, Default)]
pub(super) struct Gather {
    sum: u64,
    paths: usize,
    bytes: usize,
}

impl Gather {
    /// Adds an indexed place; its encoded path comes back unchanged.
    pub(super) fn meet(&mut self, place: &[Step<'_>], path: &mut Vec<u8>, node: &Node<'_>) {
        if !counts(place) {
            return;
        }
        path.push(Kind::of(node) as u8);
        // Sums do not depend on the order of members; the paths of a document are distinct.
        self.sum = self.sum.wrapping_add(murmur3_128(path) as u64);
        self.paths += 1;
        self.bytes += path.len();
        path.pop();
    }

    pub(super) fn id(&self) -> u64 {
        if self.paths > PATHS_MAX || self.bytes > BYTES_MAX {
            return UNKNOWN_SHAPE;
        }
        let mut set = self.sum.to_be_bytes().to_vec();
        set.extend_from_slice(&(self.paths as u64).to_be_bytes());
        murmur3_128(&set) as u64
    }
}

/// The dictionary's record of a document's shape.
pub(crate) fn dictionary(text: &str, policy: &IndexingPolicy, terms: Terms) -> Vec<u8> {
    let mut paths: Vec<Vec<u8>> = Vec::new();
    Document::new(text).visit(&mut |place, node| {
        if !place.is_empty() && counts(place) && indexes(policy, place) {
            let mut path = Vec::new();
            put_path(&mut path, place.iter().map(of_step), terms);
            path.push(Kind::of(&node) as u8);
            paths.push(path);
        }
    });
    paths.sort_unstable();
    paths.concat()
}

/// A shape, as the dictionary has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Encoded paths with their ends, sorted.
    paths: Vec<(Vec<u8>, Kind)>,
}

impl Shape {
    pub(crate) fn parse(record: &[u8]) -> Option<Shape> {
        let mut paths = Vec::new();
        let mut rest = record;
        while !rest.is_empty() {
            let (path, after) = rest.split_at_checked(path_len(rest)?)?;
            let (kind, after) = after.split_first()?;
            paths.push((path.to_vec(), Kind::parse(*kind)?));
            rest = after;
        }
        paths.is_sorted_by(|a, b| a.0 < b.0).then_some(Shape { paths })
    }

    /// What is at a path (`index::path_prefix`) of up to [`DEPTH_MAX`] members; None: nothing.
    pub(crate) fn kind(&self, path: &[u8]) -> Option<Kind> {
        let at = self.paths.binary_search_by(|(other, _)| other.as_slice().cmp(path)).ok()?;
        self.paths.get(at).map(|(_, kind)| *kind)
    }
}

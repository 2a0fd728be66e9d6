//! The values that items have at one path, item by item.
//!
//! The terms of a path go from values to items; a column is the same turned around. Each value gets
//! a number, and each item the number of its value. A column is read from its index once, and is
//! good for as long as the partition is not written to (`cache.rs`).

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use partita_model::{IndexStep, Result, Scalar};
use partita_query::Seen;
use partita_query::access::Kinds;
use partita_storage::Direction;

use super::Leaf;
use super::lookup::{Shapes, may_be_cut, scalars};
use super::reader::{IndexReader, rid_of};
use super::rid_set::RidSet;
use super::small_document::{is_doubtful, put_text};
use crate::index;
use crate::keys;
use crate::query::cache::{Cached, Known};

/// The item has no value.
pub(super) const UNDEFINED: u32 = 0;
/// The item has to be loaded.
pub(super) const LOAD: u32 = u32::MAX;
/// Items of one piece of a column.
const PIECE: u64 = 1 << 12;

/// The values at one path, item by item.
#[derive(Debug, Default)]
pub(in crate::query) struct Column {
    /// For each item the number of its value, in pieces of neighbouring rids.
    cells: BTreeMap<u64, Box<[u32]>>,
    /// The values as JSON, one after another, and where each ends.
    texts: String,
    ends: Vec<u32>,
    /// Those that are numbers; NaN for others.
    numbers: Vec<f64>,
    /// The items that have something here.
    pub(super) rids: RidSet,
    /// How many entries of the index were looked at for it.
    pub(in crate::query) entries: u64,
}

impl Cached for Column {
    fn bytes(&self) -> usize {
        let cells = self.cells.len() * PIECE as usize * size_of::<u32>();
        let values = self.ends.len() * (size_of::<u32>() + size_of::<f64>());
        cells + self.texts.len() + values + self.rids.bytes()
    }
}

impl Column {
    /// Without values.
    pub(super) fn new() -> Column {
        Column { ends: vec![0], numbers: vec![f64::NAN], ..Column::default() }
    }

    /// None if the index cannot tell which items have no scalar at the path.
    pub(super) fn read(
        reader: &mut IndexReader<'_>,
        steps: &[IndexStep],
        only: Option<&RidSet>,
    ) -> Result<Option<Column>> {
        let before = reader.scanned;
        let path = index::path_prefix(steps, reader.terms);
        let Some(shapes) = Shapes::read(reader, steps, &path)? else { return Ok(None) };
        let mut column = Column::new();
        let mut last: Vec<u8> = Vec::new();
        let mut cell = UNDEFINED;
        reader.walk(&scalars(&path), Direction::Forward, |key, _| {
            let rid = rid_of(key)?;
            if only.is_none_or(|only| only.contains(rid)) {
                let Some(value) = keys::term_value(key, &path) else {
                    return Ok(ControlFlow::Continue(()));
                };
                if last != value.bytes() {
                    last.clear();
                    last.extend_from_slice(value.bytes());
                    cell = match may_be_cut(key, &path) {
                        true => LOAD,
                        false => column.add_value(value.scalar()),
                    };
                }
                column.set(rid, cell);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let trees = Kinds { array: true, object: true, ..Kinds::NONE };
        for shape in shapes.with(trees).chain([index::UNKNOWN_SHAPE]) {
            reader.walk_rids(&keys::shape_range(shape), Direction::Forward, |rid, _| {
                column.set(rid, LOAD);
                ControlFlow::Continue(())
            })?;
        }
        column.entries = reader.scanned - before;
        column.rids = column.those_with_something();
        Ok(Some(column))
    }

    fn those_with_something(&self) -> RidSet {
        let mut rids = RidSet::default();
        for (piece, cells) in &self.cells {
            for (rid, cell) in (piece * PIECE..).zip(cells.iter()) {
                if *cell != UNDEFINED {
                    rids.insert(rid);
                }
            }
        }
        rids
    }

    /// The number of a new value.
    pub(super) fn add_value(&mut self, value: Option<Scalar<'_>>) -> u32 {
        let Some(value) = value else { return LOAD };
        let is_doubtful = matches!(&value, Scalar::String(text) if is_doubtful(text));
        let number = match value {
            Scalar::Number(double) => double,
            _ => f64::NAN,
        };
        if is_doubtful || !put_text(&mut self.texts, &value) {
            return LOAD;
        }
        let Ok(end) = u32::try_from(self.texts.len()) else { return LOAD };
        self.ends.push(end);
        self.numbers.push(number);
        u32::try_from(self.ends.len() - 1).unwrap_or(LOAD)
    }

    fn set(&mut self, rid: u64, cell: u32) {
        let piece = self.cells.entry(rid / PIECE);
        let piece = piece.or_insert_with(|| vec![UNDEFINED; PIECE as usize].into_boxed_slice());
        if let Some(place) = piece.get_mut((rid % PIECE) as usize) {
            *place = cell;
        }
    }

    /// Looks up the cells of one item after the other.
    pub(super) fn reader(&self) -> ColumnReader<'_> {
        ColumnReader { column: self, at: u64::MAX, piece: &[] }
    }

    /// How many values there are, undefined among them.
    pub(super) fn values(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn text(&self, cell: u32) -> Option<&str> {
        let at = cell as usize;
        let start = *self.ends.get(at.checked_sub(1)?)? as usize;
        self.texts.get(start..*self.ends.get(at)? as usize)
    }

    /// What an item with this number has.
    pub(super) fn seen(&self, cell: u32) -> Seen<'_> {
        match self.numbers.get(cell as usize) {
            Some(number) if !number.is_nan() => Seen::Number(*number),
            _ => self.text(cell).map_or(Seen::Undefined, Seen::Text),
        }
    }
}

/// A column that is read in the order of rids.
pub(super) struct ColumnReader<'c> {
    column: &'c Column,
    /// The piece that was read last.
    at: u64,
    piece: &'c [u32],
}

impl ColumnReader<'_> {
    pub(super) fn cell(&mut self, rid: u64) -> u32 {
        if self.at != rid / PIECE {
            self.at = rid / PIECE;
            self.piece = self.column.cells.get(&self.at).map_or(&[], |piece| piece);
        }
        self.piece.get((rid % PIECE) as usize).copied().unwrap_or(UNDEFINED)
    }
}

/// The column of a path, as it is remembered or as the index has it. What is remembered counts as
/// if it were read: a query costs the same whoever asked before.
pub(super) fn column(
    leaf: &Leaf<'_>,
    reader: &mut IndexReader<'_>,
    path: &[IndexStep],
    only: Option<&RidSet>,
) -> Result<Option<Arc<Column>>> {
    let settings = leaf.budget.settings;
    let at = (leaf.partition.id, leaf.view.lsn());
    let range = scalars(&index::path_prefix(path, reader.terms));
    if let Some(column) = leaf.cache.get::<Column>(at, &range) {
        reader.scanned += column.entries;
        return Ok(Some(column));
    }
    let Some(column) = Column::read(reader, path, only)?.map(Arc::new) else { return Ok(None) };
    if only.is_none() && column.entries >= settings.cache_entries_min {
        leaf.cache.put(at, &range, Arc::clone(&column));
    }
    Ok(Some(column))
}

/// Every item that queries see; remembered as columns are.
pub(super) fn all_rids(leaf: &Leaf<'_>, reader: &mut IndexReader<'_>) -> Result<Arc<Known>> {
    let settings = leaf.budget.settings;
    let at = (leaf.partition.id, leaf.view.lsn());
    let range = keys::all_shape_entries();
    if let Some(known) = leaf.cache.get::<Known>(at, &range) {
        reader.scanned += known.entries;
        return Ok(known);
    }
    let mut known = Known { rids: RidSet::default(), entries: 0, sure: true };
    reader.walk_rids(&range, Direction::Forward, |rid, _| {
        known.rids.insert(rid);
        known.entries += 1;
        ControlFlow::Continue(())
    })?;
    let known = Arc::new(known);
    if known.entries >= settings.cache_entries_min {
        leaf.cache.put(at, &range, Arc::clone(&known));
    }
    Ok(known)
}

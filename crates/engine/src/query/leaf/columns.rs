//! Columns: the values that items have at some paths, item by item, and what is decided on them.
//!
//! The terms of a path go from values to items; a column is the same turned around. Each value gets
//! a number, and each item the number of its value. A column is read from its index once, and is
//! good for as long as the partition is not written to (`cache.rs`).
//!
//! A [`ColumnScan`] goes through items along the columns of some paths, in the order of resource
//! ids. Two things are made of it:
//!
//! - Filters ([`rows`]). `c.amount * 3 + c.level = 7` names no range of an index, but the indexes
//!   of its paths have all the values it looks at. So the filter is decided on these, and only
//!   items that pass are loaded, or not even those where keys tell enough (`key_rows.rs`). The
//!   verdict on a combination of values is remembered while it is of use.
//! - Groups (`groups.rs`).
//!
//! An item of which a column does not tell the value, or of which values do not decide the filter,
//! is loaded and looked at.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use partita_model::{IndexStep, Reservation, Result, Scalar};
use partita_query::{Judge, Run, Seen};
use partita_storage::Direction;

use super::items::{self, BATCH_FIRST, BATCH_MAX, Loaded};
use super::key_rows::{KeyRows, Told, put_text};
use super::plan::{ItemSet, path_text};
use super::reader::{IndexReader, TREES, may_be_cut, rid_of, scalars};
use super::{Emit, End, Leaf};
use crate::index::{self, RidSet};
use crate::keys;
use crate::memory;
use crate::query::cache::{Cached, Known};
use crate::query::places::{ALL_ROWS, LeafRow, PlaceList, Position};

/// After so many items the time is looked at.
const LOOKS_MAX: u64 = 4_096;
/// The item has no value.
pub(super) const UNDEFINED: u32 = 0;
/// The item has to be loaded.
pub(super) const LOAD: u32 = u32::MAX;
/// Items of one piece of a column.
const PIECE: u64 = 1 << 12;
const PIECE_BYTES: usize = PIECE as usize * size_of::<u32>();
/// What a value takes beside its bytes: its number and where it ends, in lists that grow, and what
/// is made of it to filter or group by: a count, a place or a verdict.
const VALUE_BYTES: usize = 96;

/// The values at one path, item by item.
#[derive(Debug, Default)]
pub(super) struct Column {
    /// For each item the number of its value, in pieces of neighbouring rids.
    cells: BTreeMap<u64, Box<[u32]>>,
    /// The values as JSON, one after another, and where each ends.
    texts: String,
    ends: Vec<u32>,
    /// Those that are numbers; NaN for others.
    numbers: Vec<f64>,
    /// The items that have something here.
    rids: RidSet,
    /// How many entries of the index were looked at for it.
    entries: u64,
}

impl Cached for Column {
    fn bytes(&self) -> usize {
        let cells = self.cells.len() * PIECE as usize * size_of::<u32>();
        let values = self.ends.len() * (size_of::<u32>() + size_of::<f64>());
        cells + self.texts.len() + values + self.rids.bytes()
    }

    fn entries(&self) -> u64 {
        self.entries
    }
}

impl Column {
    /// Without values.
    pub(super) fn new() -> Column {
        Column { ends: vec![0], numbers: vec![f64::NAN], ..Column::default() }
    }

    /// None if the index cannot tell which items have no scalar at the path, or if there is no
    /// memory for a column: other ways need less.
    fn read(
        reader: &mut IndexReader<'_>,
        steps: &[IndexStep],
        only: Option<&RidSet>,
        memory: &mut Reservation,
    ) -> Result<Option<Column>> {
        let before = reader.scanned;
        let path = index::path_prefix(steps, reader.terms);
        let Some(shapes) = reader.shapes(steps)? else { return Ok(None) };
        let mut column = Column::new();
        let mut last: Vec<u8> = Vec::new();
        let mut cell = UNDEFINED;
        let mut is_short = false;
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
                    is_short |= !memory.try_grow(value.bytes().len() + VALUE_BYTES);
                }
                is_short |= column.set(rid, cell) && !memory.try_grow(PIECE_BYTES);
                if is_short {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        for shape in shapes.that_may_have(TREES) {
            reader.walk_rids(&keys::shape_range(shape), Direction::Forward, |rid, _| {
                is_short |= column.set(rid, LOAD) && !memory.try_grow(PIECE_BYTES);
                if is_short { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
        }
        if is_short {
            return Ok(None);
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
        let number = match value {
            Scalar::Number(double) => double,
            _ => f64::NAN,
        };
        if put_text(&mut self.texts, &value) != Told::Written {
            return LOAD;
        }
        let Ok(end) = u32::try_from(self.texts.len()) else { return LOAD };
        self.ends.push(end);
        self.numbers.push(number);
        u32::try_from(self.ends.len() - 1).unwrap_or(LOAD)
    }

    /// True if that took another piece.
    fn set(&mut self, rid: u64, cell: u32) -> bool {
        let before = self.cells.len();
        let piece = self.cells.entry(rid / PIECE);
        let piece = piece.or_insert_with(|| vec![UNDEFINED; PIECE as usize].into_boxed_slice());
        if let Some(place) = piece.get_mut((rid % PIECE) as usize) {
            *place = cell;
        }
        self.cells.len() > before
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

/// Some items, and the values that they have at some paths.
pub(super) struct ColumnScan {
    pub(super) paths: Vec<Vec<IndexStep>>,
    pub(super) columns: Vec<Arc<Column>>,
    /// The items, if they are not all that there are.
    pub(super) set: Option<ItemSet>,
    everyone: Option<Arc<Known>>,
    /// Of the columns that were not remembered.
    _memory: Reservation,
    /// How many entries of the index were looked at for them.
    pub(super) entries: u64,
}

impl ColumnScan {
    /// The columns of all items, or of some. None if the index does not have them, or if they are
    /// too large.
    pub(super) fn read(
        leaf: &Leaf<'_>,
        paths: &[Vec<IndexStep>],
        only: Option<&RidSet>,
    ) -> Result<Option<ColumnScan>> {
        let in_partition = leaf.items_in_partition()?;
        let mut reader = IndexReader::of(leaf);
        let mut columns = Vec::with_capacity(paths.len());
        let mut memory = leaf.memory.reservation(memory::FOUND);
        for path in paths {
            match column(&mut reader, path, only, &mut memory)? {
                Some(column) => columns.push(column),
                None => return Ok(None),
            }
        }
        // A column that has something of each item says as well who is there.
        let is_whole = |column: &Arc<Column>| column.rids.len() == in_partition;
        let everyone = match only.is_some() || columns.iter().any(is_whole) {
            true => None,
            false => Some(all_rids(&mut reader)?),
        };
        let (paths, entries) = (paths.to_vec(), reader.tell());
        Ok(Some(ColumnScan { paths, columns, set: None, everyone, _memory: memory, entries }))
    }

    /// Its items.
    pub(super) fn rids(&self) -> &RidSet {
        static NONE: RidSet = RidSet::new();
        let known = self.everyone.as_ref().map(|known| &known.rids);
        let whole = || self.columns.iter().map(|c| &c.rids).max_by_key(|rids| rids.len());
        self.set.as_ref().map(|set| &set.rids).or(known).or_else(whole).unwrap_or(&NONE)
    }

    /// Looks up the cells of one item after the other.
    pub(super) fn readers(&self) -> Vec<ColumnReader<'_>> {
        self.columns.iter().map(|column| column.reader()).collect()
    }
}

impl fmt::Display for ColumnScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} items", self.rids().len())?;
        let paths: Vec<String> = self.paths.iter().map(|path| path_text(path)).collect();
        if paths.is_empty() {
            return Ok(());
        }
        write!(f, " on columns of the index: {}", paths.join(", "))
    }
}

/// The column of a path, as it is remembered or as the index has it.
fn column(
    reader: &mut IndexReader<'_>,
    path: &[IndexStep],
    only: Option<&RidSet>,
    memory: &mut Reservation,
) -> Result<Option<Arc<Column>>> {
    let range = scalars(&index::path_prefix(path, reader.terms));
    match only {
        None => reader.found(&range, |reader| Column::read(reader, path, None, memory)),
        Some(_) => match reader.remembered::<Column>(&range) {
            Some(column) => {
                reader.scanned += column.entries;
                Ok(Some(column))
            }
            None => Ok(Column::read(reader, path, only, memory)?.map(Arc::new)),
        },
    }
}

/// Every item that queries see.
pub(super) fn all_rids(reader: &mut IndexReader<'_>) -> Result<Arc<Known>> {
    let range = keys::all_shape_entries();
    let found = reader.found(&range, |reader| {
        let mut known = Known { rids: RidSet::default(), entries: 0, sure: true };
        reader.walk_rids(&range, Direction::Forward, |rid, _| {
            known.rids.insert(rid);
            known.entries += 1;
            ControlFlow::Continue(())
        })?;
        Ok(Some(known))
    })?;
    Ok(found.unwrap_or_default())
}

/// What is known of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Passes,
    Fails,
    /// It has to be looked at.
    Unsure,
}

/// Decides about items.
struct Sieve<'s> {
    judge: &'s Judge,
    scan: &'s ColumnScan,
    readers: Vec<ColumnReader<'s>>,
    cells: Vec<u32>,
    seen: Vec<Seen<'s>>,
    /// By combination of values, if these are fewer than the items; else empty.
    known: Vec<Option<Verdict>>,
}

impl<'s> Sieve<'s> {
    fn new(judge: &'s Judge, scan: &'s ColumnScan) -> Sieve<'s> {
        let lengths = scan.columns.iter().map(|column| column.values() as u64);
        let combinations = lengths.fold(1, u64::saturating_mul);
        let known = if combinations <= scan.rids().len() { combinations } else { 0 };
        Sieve {
            judge,
            scan,
            readers: scan.readers(),
            cells: vec![UNDEFINED; scan.columns.len()],
            seen: vec![Seen::Undefined; scan.columns.len()],
            known: vec![None; usize::try_from(known).unwrap_or(0)],
        }
    }

    fn verdict(&mut self, run: &Run<'_>, rid: u64) -> Result<Verdict> {
        let mut place = 0;
        let columns = self.scan.columns.iter().zip(&mut self.readers);
        for ((column, reader), cell) in columns.zip(&mut self.cells) {
            *cell = reader.cell(rid);
            if *cell == LOAD {
                return Ok(Verdict::Unsure);
            }
            place = place * column.values() + *cell as usize;
        }
        if let Some(Some(known)) = self.known.get(place) {
            return Ok(*known);
        }
        for ((column, cell), seen) in self.scan.columns.iter().zip(&self.cells).zip(&mut self.seen)
        {
            *seen = column.seen(*cell);
        }
        let verdict = match self.judge.passes(run, &self.seen)? {
            Some(true) => Verdict::Passes,
            Some(false) => Verdict::Fails,
            None => Verdict::Unsure,
        };
        if let Some(known) = self.known.get_mut(place) {
            *known = Some(verdict);
        }
        Ok(verdict)
    }
}

/// Gives the rows of items that pass a filter, oldest first. `resumed`: the item to go on with, and
/// how many of its rows are done.
pub(super) fn rows(
    leaf: &mut Leaf<'_>,
    (judge, scan, made_of_keys): (&Judge, &ColumnScan, bool),
    resumed: Option<(u64, u32)>,
    emit: &mut Emit<'_>,
) -> Result<End> {
    let first = resumed.map_or(0, |(rid, rows)| if rows == 0 { rid } else { rid + 1 });
    let mut sieve = Sieve::new(judge, scan);
    let maker = if made_of_keys { KeyRows::of_passing(leaf) } else { None };
    let mut left = scan.rids().iter_from(first).peekable();
    let mut size = BATCH_FIRST;
    while left.peek().is_some() {
        let (mut batch, mut looks, mut last) = (Vec::with_capacity(size), 0, 0);
        for rid in left.by_ref() {
            (looks, last) = (looks + 1, rid);
            match sieve.verdict(&leaf.run, rid)? {
                Verdict::Fails => {}
                verdict => batch.push((rid, verdict)),
            }
            if batch.len() >= size || looks >= LOOKS_MAX {
                break;
            }
        }
        leaf.report.entries_scanned += looks * scan.columns.len() as u64;
        leaf.report.rows_evaluated += looks;
        let is_last = left.peek().is_none();
        let flow = match &maker {
            Some(maker) => make(leaf, maker, &batch, emit)?,
            None => load(leaf, &batch, emit)?,
        };
        if let ControlFlow::Break(is_done) = flow {
            return Ok(if is_last && is_done { End::Exhausted } else { End::Stopped });
        }
        if !is_last && leaf.page_is_over()? {
            return Ok(End::OutOfBudget(Position::Rid { rid: last, row: ALL_ROWS }));
        }
        size = (size * 2).min(BATCH_MAX);
    }
    Ok(End::Exhausted)
}

/// Whether to go on; if not, whether the last row was that of the last item.
type Flow = ControlFlow<bool>;

/// Loads items and gives their rows.
fn load(leaf: &mut Leaf<'_>, batch: &[(u64, Verdict)], emit: &mut Emit<'_>) -> Result<Flow> {
    let rids: Vec<u64> = batch.iter().map(|(rid, _)| *rid).collect();
    let mut left = rids.as_slice();
    while !left.is_empty() {
        let Loaded { items, done, memory: _held } = items::fetch(leaf, left)?;
        left = left.get(done..).unwrap_or_default();
        for (at, item) in items.iter().enumerate() {
            if items::rows_of(leaf, item, 0, emit)?.is_break() {
                return Ok(ControlFlow::Break(left.is_empty() && at + 1 == items.len()));
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Gives the rows of items without loading those that their keys tell enough of.
fn make(
    leaf: &mut Leaf<'_>,
    maker: &KeyRows<'_>,
    batch: &[(u64, Verdict)],
    emit: &mut Emit<'_>,
) -> Result<Flow> {
    // Without an order a place is a resource id.
    let mut places = PlaceList::new(0);
    batch.iter().for_each(|(rid, _)| places.push([], *rid));
    let item_keys = items::keys_if(leaf, maker.needs_item_key(), &places)?;
    for (at, ((rid, verdict), place)) in batch.iter().zip(places.iter()).enumerate() {
        let made = match verdict {
            Verdict::Passes => maker.row(&mut leaf.run, place, item_keys.get(at))?,
            Verdict::Fails | Verdict::Unsure => None,
        };
        let flow = match made {
            Some(Some(row)) => {
                leaf.report.rows_out += 1;
                emit(LeafRow { row, position: Position::Rid { rid: *rid, row: 1 } })
            }
            Some(None) => ControlFlow::Continue(()),
            None => load(leaf, &[(*rid, *verdict)], emit)?.map_break(|_| ()),
        };
        if flow.is_break() {
            return Ok(ControlFlow::Break(at + 1 == batch.len()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

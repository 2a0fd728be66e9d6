//! Groups in the making.
//!
//! A group is found by the bytes of its keys: undefined is a key of its own, and equal values are
//! one key. Groups come in the order in which they were first met. Whoever gathers rows in another
//! order than they count in says which is earlier ([`Table::turn_to`]). What a table holds is
//! limited, in number as at the service and by the working memory of the query: it lives until the
//! last row is in.

use std::collections::HashMap;
use std::sync::Arc;

use partita_model::{Error, MemoryShare, MemoryUse, Reservation, Result, Value};

use crate::aggregate::{Accumulator, Growth};
use crate::cell::Cell;
use crate::eval::{self, Frame};
use crate::ir::Grouping;
use crate::sortkey;

/// Keys and aggregates of all groups: the limit of the service.
const CELLS_MAX: usize = 500_000;
const GROUPS: MemoryUse =
    MemoryUse { name: "GROUP BY and aggregates", advice: "Group by fewer values, or filter more" };
/// What a group takes beside its keys and aggregates: its place among the groups and the way to it.
/// Both are at least half empty after they have grown.
const GROUP_BYTES: usize = 2 * (size_of::<Group>() + size_of::<(Arc<[u8]>, usize)>() + 8);

/// The groups of a grouped query.
#[derive(Debug)]
pub(crate) struct Table {
    places: HashMap<Arc<[u8]>, usize>,
    groups: Vec<Group>,
    cells: usize,
    bytes: usize,
    memory: Reservation,
    /// The rank of the row that is being gathered.
    rank: u64,
}

/// One group.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// The bytes of its keys.
    name: Arc<[u8]>,
    keys: Vec<Option<Value>>,
    accumulators: Vec<Accumulator>,
    /// The least rank of its rows.
    first: u64,
}

impl Table {
    /// No group, and no grouping that could make one.
    pub(crate) fn empty(memory: &MemoryShare) -> Table {
        let memory = memory.reservation(GROUPS);
        let (places, groups) = (HashMap::new(), Vec::new());
        Table { places, groups, cells: 0, bytes: 0, memory, rank: 0 }
    }

    pub(crate) fn new(grouping: &Grouping, memory: &MemoryShare) -> Table {
        let mut table = Table::empty(memory);
        if grouping.keys.is_empty() {
            // The group that is there also when no row is.
            table.insert(Group::new(grouping, Arc::default(), Vec::new()));
        }
        table
    }

    /// The rows from here on have this rank. Of two groups the one with the row of the least rank
    /// was met first; of equals, the one that was gathered first.
    pub(crate) fn turn_to(&mut self, rank: u64) {
        self.rank = rank;
    }

    /// Adds the row in the frame to its group, as many times.
    pub(crate) fn gather<'a>(
        &mut self,
        grouping: &'a Grouping,
        frame: &mut Frame<'a>,
        times: u64,
    ) -> Result<()> {
        let at = self.place(grouping, frame)?;
        for (number, (_, operand)) in grouping.aggregates.iter().enumerate() {
            if let Some(cell) = eval::eval(operand, frame)? {
                self.add(at, number, cell, times)?;
            }
        }
        self.check()
    }

    /// Adds a value to an aggregate of a group, as many times. Whoever has added all of a row asks
    /// for the limits ([`Table::check`]); only what many equal rows add is reserved before.
    pub(crate) fn add(
        &mut self,
        at: usize,
        aggregate: usize,
        cell: Cell<'_>,
        times: u64,
    ) -> Result<()> {
        let group = self.groups.get_mut(at);
        let accumulator = group.and_then(|group| group.accumulators.get_mut(aggregate));
        let Some(accumulator) = accumulator else { return Ok(()) };
        if times > 1 {
            self.memory.set(self.bytes + accumulator.bytes_of_adding(&cell, times))?;
        }
        let Growth { cells, bytes } = accumulator.add_times(cell, times);
        self.cells += cells;
        self.bytes = self.bytes.saturating_add_signed(bytes);
        Ok(())
    }

    /// The place of the row's group, made if there is none.
    fn place<'a>(&mut self, grouping: &'a Grouping, frame: &mut Frame<'a>) -> Result<usize> {
        let keys = grouping.keys.iter().map(|key| eval::eval(key, frame));
        let keys = keys.collect::<Result<_>>()?;
        Ok(self.place_of(grouping, keys))
    }

    /// The place of the group with these keys, made if there is none.
    pub(crate) fn place_of(&mut self, grouping: &Grouping, keys: Vec<Option<Cell<'_>>>) -> usize {
        let mut name = Vec::new();
        for cell in &keys {
            sortkey::put(&mut name, cell.as_ref());
        }
        if let Some(at) = self.places.get(name.as_slice()).copied() {
            if let Some(group) = self.groups.get_mut(at) {
                group.first = group.first.min(self.rank);
            }
            return at;
        }
        let keys = keys.into_iter().map(|cell| cell.map(Cell::into_value)).collect();
        self.insert(Group { first: self.rank, ..Group::new(grouping, name.into(), keys) })
    }

    fn insert(&mut self, group: Group) -> usize {
        let at = self.groups.len();
        self.cells += group.cells();
        self.bytes += group.bytes();
        self.places.insert(Arc::clone(&group.name), at);
        self.groups.push(group);
        at
    }

    /// Takes in the groups of another part of the rows. Where ranks are equal it comes behind this
    /// one. `may_go_on` is asked at each of them.
    pub(crate) fn merge(
        &mut self,
        other: Table,
        may_go_on: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        // What the other has is moved, not copied; what both have is one in the end.
        self.memory.absorb(other.memory);
        self.bytes += other.bytes;
        for (at, group) in other.groups.into_iter().enumerate() {
            may_go_on(at)?;
            let place = self.places.get(&group.name).copied();
            match place.and_then(|at| self.groups.get_mut(at)) {
                Some(mine) => {
                    self.bytes = self.bytes.saturating_sub(group.bytes());
                    mine.first = mine.first.min(group.first);
                    let before = mine.cells();
                    for (mine, more) in mine.accumulators.iter_mut().zip(group.accumulators) {
                        mine.merge(more);
                    }
                    self.cells += mine.cells() - before;
                }
                None => {
                    self.bytes = self.bytes.saturating_sub(group.bytes());
                    self.insert(group);
                }
            }
            self.check()?;
        }
        Ok(())
    }

    pub(crate) fn check(&mut self) -> Result<()> {
        self.memory.set(self.bytes)?;
        if self.cells <= CELLS_MAX {
            return Ok(());
        }
        Err(Error::bad_request(format!(
            "The query's groups are too large: they may have {CELLS_MAX} keys and aggregates. Group \
             by fewer values, or filter more."
        )))
    }

    /// In the order in which they were first met: that of ranks over all parts. So it stays the
    /// same when rows come in other parts than before, and pages may count on it.
    ///
    /// They are reserved until the second value is dropped.
    pub(crate) fn into_groups(mut self) -> (impl Iterator<Item = Group>, Reservation) {
        self.groups.sort_by_key(|group| group.first);
        (self.groups.into_iter(), self.memory)
    }
}

impl Group {
    fn new(grouping: &Grouping, name: Arc<[u8]>, keys: Vec<Option<Value>>) -> Group {
        let aggregates = grouping.aggregates.iter();
        let accumulators = aggregates.map(|(aggregate, _)| Accumulator::new(*aggregate)).collect();
        Group { name, keys, accumulators, first: 0 }
    }

    fn cells(&self) -> usize {
        self.keys.len() + self.accumulators.iter().map(Accumulator::held).sum::<usize>()
    }

    /// The memory that it takes, about, without what its aggregates have gathered.
    fn bytes(&self) -> usize {
        let keys = self.keys.iter().flatten().map(|key| Cell::from_ref(key).footprint());
        let accumulators = self.accumulators.len() * size_of::<Accumulator>();
        let places = self.keys.len() * size_of::<Option<Value>>();
        GROUP_BYTES + self.name.len() + keys.sum::<usize>() + accumulators + places
    }

    /// Puts the keys and the finished aggregates into their slots.
    pub(crate) fn bind(self, grouping: &Grouping, frame: &mut Frame<'_>) {
        let aggregates = self.accumulators.into_iter().map(Accumulator::finish);
        for (slot, value) in (grouping.first_slot..).zip(self.keys.into_iter().chain(aggregates)) {
            frame.bind(slot, value.map(Cell::from_value));
        }
    }
}

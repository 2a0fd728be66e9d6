//! Where a query stands: places in the orders in which a partition gives its rows.
//!
//! A partition gives rows in one of three orders. Without ORDER BY the items come by their resource
//! id, the oldest first, or by their key if the partition is too large for that; with ORDER BY rows
//! come by their sort keys, equal ones by resource id in the direction of the first column. A
//! [`Position`] is a place in one of these orders. It names no partition and no plan, so whoever
//! holds the items after it can go on from it: another plan, a restarted server, a half of the
//! partition.

use std::cmp::Ordering;

use partita_query::{Facts, Row};

use crate::op::TieOrder;

/// All rows of an item: what a position says of an item that is done.
pub(super) const ALL_ROWS: u32 = u32::MAX;

/// A place in the rows of a partition: behind so many rows of one item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// In the order of item keys. The rid names the same item in fewer bytes.
    Key { item_key: Vec<u8>, rid: u64, row: u32 },
    /// In the order of resource ids.
    Rid { rid: u64, row: u32 },
    /// In the order of ORDER BY.
    Sorted(SortPosition),
}

impl Position {
    /// A place among sorted rows that have no sort keys is one in the order of age.
    pub(super) fn without_keys(self) -> Position {
        match self {
            Position::Sorted(SortPosition { keys, rid, row }) if keys.is_empty() => {
                Position::Rid { rid, row }
            }
            position => position,
        }
    }

    /// The item that it is behind.
    pub(super) fn rid(&self) -> Option<u64> {
        match self {
            Position::Key { rid, .. } | Position::Rid { rid, .. } => Some(*rid),
            Position::Sorted(at) => Some(at.rid),
        }
    }
}

/// A place in the order of ORDER BY.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SortPosition {
    /// One for each column, as `partita_query` encodes them.
    pub(super) keys: Vec<Vec<u8>>,
    pub(super) rid: u64,
    /// Rows of this item with these keys that are done: the ordinal of the last one, plus one. Rows
    /// are counted as FROM makes them, whatever the filter leaves of them.
    pub(super) row: u32,
}

/// A row, and the place behind it.
#[derive(Debug)]
pub(super) struct LeafRow {
    pub(super) row: Row,
    pub(super) position: Position,
}

impl LeafRow {
    /// The sort keys move from the row into its position. A row without any is in the order of age.
    pub(super) fn sorted(mut row: Row, rid: u64) -> LeafRow {
        let keys = std::mem::take(&mut row.keys);
        let position = SortPosition { keys, rid, row: row.ordinal.saturating_add(1) };
        LeafRow { row, position: Position::Sorted(position) }
    }
}

/// The order of an ordered query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Order {
    descending: Vec<bool>,
}

impl Order {
    pub(super) fn of(facts: &Facts) -> Order {
        Order { descending: facts.order.iter().map(|column| column.descending).collect() }
    }

    /// The oldest item first: an order without columns.
    pub(super) fn by_age() -> Order {
        Order { descending: Vec::new() }
    }

    /// A place in the order of age.
    pub(super) fn at(&self, rid: u64, row: u32) -> SortPosition {
        SortPosition { keys: Vec::new(), rid, row }
    }

    /// Which of two places comes first?
    pub(super) fn compare(&self, a: &SortPosition, b: &SortPosition) -> Ordering {
        let keys = a.keys.iter().map(Vec::as_slice).zip(b.keys.iter().map(Vec::as_slice));
        let by_rid = self.compare_keys(keys).then_with(|| self.compare_rids(a.rid, b.rid));
        by_rid.then(a.row.cmp(&b.row))
    }

    /// The same by sort keys alone, column by column.
    pub(super) fn compare_keys<'k>(
        &self,
        columns: impl Iterator<Item = (&'k [u8], &'k [u8])>,
    ) -> Ordering {
        for ((a, b), descending) in columns.zip(&self.descending) {
            let by_column = if *descending { b.cmp(a) } else { a.cmp(b) };
            if by_column.is_ne() {
                return by_column;
            }
        }
        Ordering::Equal
    }

    /// The same of items with equal sort keys.
    pub(super) fn compare_rids(&self, a: u64, b: u64) -> Ordering {
        if self.rids_descend() { b.cmp(&a) } else { a.cmp(&b) }
    }

    /// Rows with equal keys come by resource id, in the direction of the first column.
    pub(super) fn rids_descend(&self) -> bool {
        self.descending.first().copied().unwrap_or(false)
    }

    pub(super) fn tie_order(&self) -> TieOrder {
        if self.rids_descend() { TieOrder::RidDescending } else { TieOrder::RidAscending }
    }

    /// The place before all rows that have these keys.
    pub(super) fn before(&self, keys: Vec<Vec<u8>>) -> SortPosition {
        let rid = if self.rids_descend() { u64::MAX } else { 0 };
        SortPosition { keys, rid, row: 0 }
    }

    /// The place behind all rows that have these keys.
    pub(super) fn behind(&self, keys: Vec<Vec<u8>>) -> SortPosition {
        let rid = if self.rids_descend() { 0 } else { u64::MAX };
        SortPosition { keys, rid, row: ALL_ROWS }
    }

    /// The place before all rows whose keys begin with these, the last of them possibly cut short.
    pub(super) fn before_prefix(&self, mut keys: Vec<Vec<u8>>) -> SortPosition {
        /// Behind every key: no key has so many of these bytes in a row, and none begins with one.
        const HIGH: [u8; 32] = [0xFF; 32];
        let at = keys.len();
        if let (Some(last), Some(true)) = (keys.last_mut(), self.descending.get(at - 1)) {
            last.extend_from_slice(&HIGH);
        }
        for descending in self.descending.iter().skip(at) {
            keys.push(if *descending { HIGH.to_vec() } else { Vec::new() });
        }
        self.before(keys)
    }
}

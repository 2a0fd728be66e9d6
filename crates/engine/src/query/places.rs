//! Where a query stands: places in the orders in which a partition gives its rows.
//!
//! A partition gives rows in one of three orders. Without ORDER BY the items come by their resource
//! id, the oldest first, or by their key if the partition is too large for that; with ORDER BY rows
//! come by their sort keys, equal ones by resource id in the direction of the first column. A
//! [`Position`] is a place in one of these orders. It names no partition and no plan, so whoever
//! holds the items after it can go on from it: another plan, a restarted server, a half of the
//! partition.
//!
//! Of a thousand places a query uses each once, to see whose turn it is. So a [`PlaceList`] keeps
//! the keys of all places one behind the other, and a place becomes a [`SortPosition`] only where
//! somebody wants to go on from there. [`merge`] merges lists; [`TopRows`] keeps the first rows of
//! an order while others pass by.

use std::cmp::Ordering;

use partita_model::{Reservation, Result};
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

    /// If it is one in the order of ORDER BY.
    pub(super) fn sorted(&self) -> Option<&SortPosition> {
        match self {
            Position::Sorted(at) => Some(at),
            Position::Key { .. } | Position::Rid { .. } => None,
        }
    }

    /// If it is one in the order of resource ids: the item, and how many of its rows are done.
    pub(super) fn row_of_item(&self) -> Option<(u64, u32)> {
        match self {
            Position::Rid { rid, row } => Some((*rid, *row)),
            Position::Key { .. } | Position::Sorted(_) => None,
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

/// Places in order. All have equally many sort keys.
#[derive(Clone, Debug, Default)]
pub(super) struct PlaceList {
    columns: usize,
    /// The sort keys, one after another.
    bytes: Vec<u8>,
    /// Where each of them ends.
    ends: Vec<usize>,
    rids: Vec<u64>,
    /// The beginnings of first sort keys, as numbers: most often they tell two places apart.
    heads: Vec<u64>,
}

/// One place of a list.
#[derive(Clone, Copy)]
pub(super) struct PlaceAt<'l> {
    list: &'l PlaceList,
    at: usize,
}

impl PlaceList {
    pub(super) fn new(columns: usize) -> PlaceList {
        PlaceList { columns, ..PlaceList::default() }
    }

    /// Adds a place behind all others.
    pub(super) fn push<'k>(&mut self, keys: impl IntoIterator<Item = &'k [u8]>, rid: u64) {
        let first = self.bytes.len();
        for key in keys {
            self.bytes.extend_from_slice(key);
            self.ends.push(self.bytes.len());
        }
        let end = self.ends.get(self.rids.len() * self.columns).copied().unwrap_or(first);
        self.heads.push(head_of(self.bytes.get(first..end).unwrap_or_default()));
        self.rids.push(rid);
        debug_assert_eq!(self.ends.len(), self.rids.len() * self.columns, "a key for each column");
    }

    /// Adds places that come behind all others.
    pub(super) fn append(&mut self, more: PlaceList) {
        if self.is_empty() {
            *self = more;
        } else {
            more.iter().for_each(|place| self.push(place.keys(), place.rid()));
        }
    }

    /// Forgets the place that came last.
    pub(super) fn pop(&mut self) {
        self.truncate(self.len().saturating_sub(1));
    }

    /// Keeps the first places.
    pub(super) fn truncate(&mut self, len: usize) {
        self.rids.truncate(len);
        self.heads.truncate(len);
        self.ends.truncate(len * self.columns);
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
    }

    /// About how much memory it takes.
    pub(super) fn bytes(&self) -> usize {
        let numbers = self.ends.len() + self.rids.len() + self.heads.len();
        self.bytes.len() + numbers * size_of::<u64>()
    }

    pub(super) fn len(&self) -> usize {
        self.rids.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rids.is_empty()
    }

    pub(super) fn rids(&self) -> &[u64] {
        &self.rids
    }

    pub(super) fn get(&self, at: usize) -> Option<PlaceAt<'_>> {
        (at < self.len()).then_some(PlaceAt { list: self, at })
    }

    pub(super) fn last(&self) -> Option<PlaceAt<'_>> {
        self.get(self.len().checked_sub(1)?)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = PlaceAt<'_>> {
        (0..self.len()).map(|at| PlaceAt { list: self, at })
    }
}

impl<'l> PlaceAt<'l> {
    pub(super) fn rid(&self) -> u64 {
        self.list.rids.get(self.at).copied().unwrap_or_default()
    }

    /// The sort key of a column.
    pub(super) fn key(&self, column: usize) -> Option<&'l [u8]> {
        let number = self.at * self.list.columns + column;
        let start = match number.checked_sub(1) {
            Some(before) => *self.list.ends.get(before)?,
            None => 0,
        };
        self.list.bytes.get(start..*self.list.ends.get(number)?)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &'l [u8]> {
        let place = *self;
        (0..self.list.columns).filter_map(move |column| place.key(column))
    }

    /// The place behind the first and only row of its item.
    pub(super) fn position(&self) -> SortPosition {
        let keys = self.keys().map(<[u8]>::to_vec).collect();
        SortPosition { keys, rid: self.rid(), row: 1 }
    }

    /// Which of two places comes first?
    pub(super) fn compare(&self, other: &PlaceAt<'_>, order: &Order) -> Ordering {
        let keys = self.keys().zip(other.keys());
        order.compare_keys(keys).then_with(|| order.compare_rids(self.rid(), other.rid()))
    }

    /// The same for a place that is not of a list.
    pub(super) fn compare_position(&self, other: &SortPosition, order: &Order) -> Ordering {
        let keys = self.keys().zip(other.keys.iter().map(Vec::as_slice));
        let by_rid =
            order.compare_keys(keys).then_with(|| order.compare_rids(self.rid(), other.rid));
        by_rid.then(1.cmp(&other.row))
    }
}

/// The beginning of a sort key as a number. Of two keys the one with the lesser number is the
/// lesser; equal numbers tell nothing.
fn head_of(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(head) => u64::from_be_bytes(*head),
        None => {
            let mut head = [0; size_of::<u64>()];
            head.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
            u64::from_be_bytes(head)
        }
    }
}

/// A list that is being merged, from its next place on.
struct Rest<'l> {
    /// Which of the lists it is.
    number: usize,
    list: &'l PlaceList,
    at: usize,
    /// Less where the next place comes sooner.
    rank: u64,
    /// Behind its last place there may be more.
    is_open: bool,
}

impl Rest<'_> {
    /// Goes to a place. False if the list ends before it.
    fn go_to(&mut self, at: usize, order: &Order) -> bool {
        self.at = at;
        let head = self.list.heads.get(at);
        self.rank = head.map_or(0, |head| if order.rids_descend() { !head } else { *head });
        head.is_some()
    }

    fn is_before(&self, other: &Rest<'_>, order: &Order) -> bool {
        if self.rank != other.rank {
            return self.rank < other.rank;
        }
        let places = self.list.get(self.at).zip(other.list.get(other.at));
        places.is_some_and(|(a, b)| a.compare(&b, order).is_lt())
    }
}

/// Merges lists, each with whether there may be more places behind its last. Answers of which list
/// each of the first `want` places is. Ends before that where an open list is at its end: nobody
/// knows whose turn it is then.
pub(super) fn merge(lists: &[(&PlaceList, bool)], order: &Order, want: usize) -> Vec<usize> {
    let mut rests: Vec<Rest<'_>> = Vec::with_capacity(lists.len());
    for (number, (list, is_open)) in lists.iter().enumerate() {
        let mut rest = Rest { number, list, at: 0, rank: 0, is_open: *is_open };
        match rest.go_to(0, order) {
            true => rests.push(rest),
            false if *is_open => return Vec::new(),
            false => {}
        }
    }
    let mut merged = Vec::with_capacity(want.min(lists.iter().map(|(list, _)| list.len()).sum()));
    while merged.len() < want {
        let Some(first) = first_of(&rests, order) else { break };
        let Some(rest) = rests.get_mut(first) else { break };
        merged.push(rest.number);
        if rest.go_to(rest.at + 1, order) {
            continue;
        }
        if rest.is_open {
            break;
        }
        rests.swap_remove(first);
    }
    merged
}

/// There are few lists: to look at all of them takes less than to keep them in order.
fn first_of(rests: &[Rest<'_>], order: &Order) -> Option<usize> {
    let mut all = rests.iter().enumerate();
    let (mut first, mut soonest) = all.next()?;
    for (at, rest) in all {
        if rest.is_before(soonest, order) {
            (first, soonest) = (at, rest);
        }
    }
    Some(first)
}

/// Rows are put in order and cut when this many more than wanted have come together.
const SLACK: usize = 64;
/// If there is no memory, a sort makes do with half of the rows, and finds the others in another
/// round; but not with less than this, or it would take too many rounds.
const SORTED_BYTES_MIN: usize = 1 << 20;

/// How many rows of an order are kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct TopLimits {
    /// No more are wanted.
    pub(super) want: usize,
    /// Together no longer than this.
    pub(super) bytes_max: usize,
    /// Nor taking more memory than this, if there is so much.
    pub(super) memory_max: usize,
}

/// The first rows of an order, kept while others pass by.
///
/// Holds no more rows than are wanted, and no more bytes than allowed or than there is memory for
/// (one row always). Once a row had to go, nothing that comes behind it is taken any more, so what
/// is left is always the beginning of the order without a gap.
pub(super) struct TopRows<'a> {
    order: &'a Order,
    after: Option<&'a SortPosition>,
    limits: TopLimits,
    rows: Vec<LeafRow>,
    bytes: usize,
    /// The first row that had to go.
    cutoff: Option<SortPosition>,
    memory: Reservation,
    /// There is too little memory even for a few rows.
    refused: Result<()>,
}

impl<'a> TopRows<'a> {
    pub(super) fn new(
        order: &'a Order,
        after: Option<&'a SortPosition>,
        limits: TopLimits,
        memory: Reservation,
    ) -> TopRows<'a> {
        let (rows, bytes, cutoff, refused) = (Vec::new(), 0, None, Ok(()));
        TopRows { order, after, limits, rows, bytes, cutoff, memory, refused }
    }

    pub(super) fn offer(&mut self, row: LeafRow) {
        let Some(at) = row.position.sorted() else { return };
        if self.after.is_some_and(|after| self.order.compare(at, after).is_le()) {
            return;
        }
        if self.is_cut_off(at) || self.refused.is_err() {
            return;
        }
        if !self.takes(row.bytes()) && !self.make_room(row.bytes(), at) {
            return;
        }
        self.bytes += size(&row);
        self.rows.push(row);
        let TopLimits { want, bytes_max, .. } = self.limits;
        let many = self.rows.len() >= want.saturating_mul(2).saturating_add(SLACK);
        if many || self.bytes > bytes_max.saturating_mul(2) {
            self.cut();
        }
    }

    /// Is there memory for a row? One row is always within the limit.
    fn takes(&mut self, bytes: usize) -> bool {
        let held = self.memory.bytes() + bytes;
        (self.rows.is_empty() || held <= self.limits.memory_max) && self.memory.try_grow(bytes)
    }

    fn is_cut_off(&self, at: &SortPosition) -> bool {
        self.cutoff.as_ref().is_some_and(|cutoff| self.order.compare(at, cutoff).is_gt())
    }

    /// Lets go of rows until there is memory for one that comes at this place. False if that one is
    /// none of the first any more.
    #[cold]
    fn make_room(&mut self, bytes: usize, at: &SortPosition) -> bool {
        loop {
            if self.takes(bytes) {
                return true;
            }
            let least = SORTED_BYTES_MIN.min(self.limits.memory_max);
            let is_little = self.rows.len() > 1 && self.memory.bytes() + bytes < least;
            if self.rows.is_empty() || is_little {
                self.refused = self.memory.grow(bytes);
                return self.refused.is_ok();
            }
            let last = self.rows.first().and_then(|row| row.position.sorted());
            if self.rows.len() == 1 && last.is_some_and(|last| self.order.compare(at, last).is_gt())
            {
                self.cutoff = Some(at.clone());
                return false;
            }
            self.cut_to(self.rows.len() / 2);
            if self.is_cut_off(at) {
                return false;
            }
        }
    }

    /// In the order of age: does an item come too late for its rows to be among the first?
    pub(super) fn is_beyond(&self, rid: u64) -> bool {
        self.cutoff.as_ref().is_some_and(|cutoff| rid > cutoff.rid)
    }

    /// The rows in order, and whether they are all that there are.
    pub(super) fn finish(mut self) -> Result<(Vec<LeafRow>, bool)> {
        std::mem::replace(&mut self.refused, Ok(()))?;
        self.cut();
        Ok((self.rows, self.cutoff.is_none()))
    }

    /// Keeps the rows that are wanted and allowed.
    fn cut(&mut self) {
        self.sort();
        let (mut bytes, mut keep) = (0, 0);
        for row in self.rows.iter().take(self.limits.want) {
            bytes += size(row);
            if keep > 0 && bytes > self.limits.bytes_max {
                break;
            }
            keep += 1;
        }
        self.keep(keep);
    }

    /// Keeps so many rows.
    fn cut_to(&mut self, keep: usize) {
        self.sort();
        self.keep(keep);
    }

    fn sort(&mut self) {
        let order = self.order;
        self.rows.sort_unstable_by(|a, b| match (a.position.sorted(), b.position.sorted()) {
            (Some(a), Some(b)) => order.compare(a, b),
            _ => Ordering::Equal,
        });
    }

    fn keep(&mut self, rows: usize) {
        if let Some(gone) = self.rows.get(rows).and_then(|row| row.position.sorted()) {
            self.cutoff = Some(gone.clone());
        }
        let gone: usize = self.rows.iter().skip(rows).map(LeafRow::bytes).sum();
        self.memory.shrink(gone);
        self.rows.truncate(rows);
        self.bytes = self.rows.iter().map(size).sum();
    }
}

fn size(row: &LeafRow) -> usize {
    let keys = row.position.sorted().map_or(0, |at| at.keys.iter().map(Vec::len).sum());
    row.row.text.len() + keys + size_of::<LeafRow>()
}

impl LeafRow {
    /// The memory that it takes, about, in a list that grows.
    pub(super) fn bytes(&self) -> usize {
        let position = match &self.position {
            Position::Sorted(at) => {
                at.keys.iter().map(|key| key.capacity() + size_of::<Vec<u8>>()).sum()
            }
            Position::Key { item_key, .. } => item_key.capacity(),
            Position::Rid { .. } => 0,
        };
        self.row.bytes() + position + 2 * (size_of::<LeafRow>() - size_of::<Row>())
    }
}

#[cfg(test)]
mod tests {
    use partita_model::{ErrorKind, MemoryBudget};
    use partita_query::Query;
    use proptest::prelude::*;

    use super::*;
    use crate::memory::SORTED;

    fn limits(want: usize, bytes_max: usize) -> TopLimits {
        TopLimits { want, bytes_max, memory_max: usize::MAX }
    }

    fn unlimited() -> Reservation {
        MemoryBudget::default().share().reservation(SORTED)
    }

    fn order(text: &str) -> Order {
        Order::of(Query::parse(text, &[], &[]).unwrap().facts())
    }

    /// Two sort keys and a rid.
    type Triple = (Vec<u8>, u8, u64);

    fn triples() -> impl Strategy<Value = Vec<Triple>> {
        let key = prop::collection::vec(0..3_u8, 0..12);
        prop::collection::vec((key, 0..2_u8, any::<u64>()), 0..6)
    }

    fn list(order: &Order, mut places: Vec<Triple>) -> PlaceList {
        let position = |(a, b, rid): &Triple| SortPosition {
            keys: vec![a.clone(), vec![*b]],
            rid: *rid,
            row: 1,
        };
        places.sort_by(|a, b| order.compare(&position(a), &position(b)));
        let mut list = PlaceList::new(2);
        places.iter().for_each(|(a, b, rid)| list.push([&a[..], &[*b]], *rid));
        list
    }

    proptest! {
        #[test]
        fn merged_places_are_sorted_ones_as_far_as_they_are_certain(
            lists in prop::collection::vec((triples(), any::<bool>()), 0..5),
            want in 0..30_usize,
            descending in any::<bool>(),
        ) {
            let order = order(match descending {
                false => "SELECT * FROM c ORDER BY c.a, c.b DESC",
                true => "SELECT * FROM c ORDER BY c.a DESC, c.b",
            });
            let made = lists.into_iter().map(|(places, open)| (list(&order, places), open));
            let lists: Vec<(PlaceList, bool)> = made.collect();
            let all = lists.iter().flat_map(|(list, _)| list.iter());
            let mut expected: Vec<SortPosition> = all.map(|place| place.position()).collect();
            expected.sort_by(|a, b| order.compare(a, b));
            for (list, _) in lists.iter().filter(|(_, is_open)| *is_open) {
                match list.last() {
                    None => expected.clear(),
                    Some(last) => expected
                        .retain(|place| last.compare_position(place, &order).is_ge()),
                }
            }
            expected.truncate(want);
            let borrowed: Vec<(&PlaceList, bool)> = lists.iter().map(|(l, o)| (l, *o)).collect();
            let mut next = vec![0; lists.len()];
            let merged: Vec<SortPosition> = merge(&borrowed, &order, want)
                .into_iter()
                .map(|number| {
                    next[number] += 1;
                    lists[number].0.get(next[number] - 1).unwrap().position()
                })
                .collect();
            prop_assert_eq!(merged, expected);
        }
    }

    #[test]
    fn the_first_places_of_a_list_stay_what_they_are() {
        let mut list = PlaceList::new(2);
        list.push([&b"a"[..], b""], 1);
        list.push([&b"bc"[..], b"d"], 2);
        list.push([&b"e"[..], b"f"], 3);
        list.pop();
        let last = list.last().unwrap().position();
        assert_eq!(
            last,
            SortPosition { keys: vec![b"bc".to_vec(), b"d".to_vec()], rid: 2, row: 1 }
        );
        list.truncate(1);
        list.push([&b"x"[..], b"yz"], 4);
        let keys: Vec<Vec<&[u8]>> = list.iter().map(|place| place.keys().collect()).collect();
        assert_eq!(keys, [[&b"a"[..], b""], [b"x", b"yz"]]);
        assert_eq!(list.rids(), [1, 4]);
    }

    fn row(key: u8, rid: u64, text_bytes: usize) -> LeafRow {
        let row = Row { text: "x".repeat(text_bytes), keys: vec![vec![key]], hash: 0, ordinal: 0 };
        LeafRow::sorted(row, rid)
    }

    fn keys_and_rids(rows: &[LeafRow]) -> Vec<(u8, u64)> {
        rows.iter()
            .filter_map(|row| row.position.sorted())
            .map(|at| (at.keys[0][0], at.rid))
            .collect()
    }

    #[test]
    fn the_first_rows_are_kept_whatever_the_order_of_their_coming() {
        let up = order("SELECT * FROM c ORDER BY c.a");
        let down = order("SELECT * FROM c ORDER BY c.a DESC");
        for order in [&up, &down] {
            let mut all: Vec<(u8, u64)> = (0..1_000).map(|n| ((n * 7 % 10) as u8, n)).collect();
            let mut top = TopRows::new(order, None, limits(5, usize::MAX), unlimited());
            all.iter().for_each(|(key, rid)| top.offer(row(*key, *rid, 1)));
            let (rows, complete) = top.finish().unwrap();
            all.sort();
            if order.rids_descend() {
                all.reverse();
            }
            assert_eq!(keys_and_rids(&rows), all[..5]);
            assert!(!complete);
        }
    }

    #[test]
    fn rows_that_are_too_large_together_leave_no_gap() {
        let order = order("SELECT * FROM c ORDER BY c.a");
        for seed in 0..50u64 {
            let mut top = TopRows::new(&order, None, limits(100, 4_000), unlimited());
            let mut all = Vec::new();
            for n in 0..300u64 {
                let mixed = (n * 2_654_435_761 + seed * 97) % 251;
                all.push((mixed as u8, n));
                top.offer(row(mixed as u8, n, (mixed * 13 % 700) as usize));
            }
            let (rows, complete) = top.finish().unwrap();
            all.sort();
            assert!(!rows.is_empty() && !complete);
            assert_eq!(keys_and_rids(&rows), all[..rows.len()], "{seed}");
        }
    }

    #[test]
    fn no_more_memory_is_taken_than_is_one_s_part() {
        let order = order("SELECT * FROM c ORDER BY c.a");
        let budget = MemoryBudget::new(400_000);
        let limits = TopLimits { memory_max: 20_000, ..limits(1_000, usize::MAX) };
        let mut top = TopRows::new(&order, None, limits, budget.share().reservation(SORTED));
        (0..1_000).for_each(|n| top.offer(row((n % 200) as u8, n, 100)));
        let (rows, is_complete) = top.finish().unwrap();
        assert!(!is_complete && rows.len() > 10, "{}", rows.len());
        let held: usize = rows.iter().map(LeafRow::bytes).sum();
        assert!(held <= 20_000, "{held}");
        let expected: Vec<u8> = (0..200).flat_map(|key| [key; 5]).take(rows.len()).collect();
        assert_eq!(keys_and_rids(&rows).iter().map(|(key, _)| *key).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn one_row_is_kept_however_large() {
        let order = order("SELECT * FROM c ORDER BY c.a");
        let mut top = TopRows::new(&order, None, limits(10, 10), unlimited());
        top.offer(row(2, 1, 1_000));
        top.offer(row(1, 2, 1_000));
        assert_eq!(keys_and_rids(&top.finish().unwrap().0), [(1, 2)]);
    }

    #[test]
    fn with_little_memory_fewer_rows_are_kept_without_a_gap() {
        let order = order("SELECT * FROM c ORDER BY c.a");
        for (row_bytes, mb, most) in [(100_000, 2, 20), (1_500_000, 2, 1), (1_500_000, 4, 2)] {
            let budget = MemoryBudget::new((4 * mb) << 20);
            for seed in 0..20_u64 {
                let memory = budget.share().reservation(SORTED);
                let mut top = TopRows::new(&order, None, limits(100, usize::MAX), memory);
                let mut all = Vec::new();
                for n in 0..100 {
                    let mixed = (n * 2_654_435_761 + seed * 97) % 251;
                    all.push((mixed as u8, n));
                    top.offer(row(mixed as u8, n, row_bytes));
                }
                let (rows, complete) = top.finish().unwrap();
                all.sort();
                assert!((1..=most).contains(&rows.len()) && !complete, "{}", rows.len());
                assert_eq!(keys_and_rids(&rows), all[..rows.len()], "{seed}");
            }
            assert_eq!(budget.figures().used, 0);
        }
    }

    #[test]
    fn a_sort_that_has_no_memory_for_a_few_rows_is_refused() {
        let order = order("SELECT * FROM c ORDER BY c.a");
        for (row_bytes, budget_bytes) in [(100, 4 * 10_000), (2_000_000, 4 << 20)] {
            let budget = MemoryBudget::new(budget_bytes);
            let memory = budget.share().reservation(SORTED);
            let mut top = TopRows::new(&order, None, limits(1_000, usize::MAX), memory);
            (0..1_000).for_each(|n| top.offer(row((n % 200) as u8, n, row_bytes)));
            let error = top.finish().unwrap_err();
            assert_eq!(error.kind, ErrorKind::BadRequest);
            assert!(error.message.contains("the rows that it sorts"), "{}", error.message);
            assert_eq!(budget.figures().used, 0);
        }
    }
}

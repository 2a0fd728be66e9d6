//! Places in the order of a query, as a partition's index tells them: sort keys and resource ids,
//! without rows.
//!
//! Of a thousand places a query uses each once, to see whose turn it is. So a list keeps the keys
//! of all places one behind the other, and a place becomes a [`SortPosition`] only where somebody
//! wants to go on from there.

use std::cmp::Ordering;

use super::position::{Order, SortPosition};

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

#[cfg(test)]
mod tests {
    use partita_query::Query;
    use proptest::prelude::*;

    use super::*;

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
}

//! A sorted run: changes of the index space that are durable and not in the engine's index yet.
//!
//! A run is immutable. Its keys and values lie one behind the other in one buffer, so that it is
//! made, merged and freed as one piece, and a key in it is found by binary search. A change is the
//! stored value of a key, or none if the record is gone: then it hides what is below.

use std::cmp::Ordering;
use std::ops::{Bound, Range};

use crate::contract::{Direction, KeyRange};

/// One change: a stored key and its stored value, none if the record is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Entry<'a> {
    pub(in crate::embedded) key: &'a [u8],
    pub(in crate::embedded) stored: Option<&'a [u8]>,
}

/// Changes in the order of their keys, one for each key.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::embedded) struct Run {
    bytes: Vec<u8>,
    places: Vec<Place>,
}

/// Where a change lies. Its value reaches from the key's end to the next place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    start: usize,
    key_bytes: u32,
    is_gone: bool,
}

impl Run {
    pub(super) fn with_capacity(entries: usize, bytes: usize) -> Run {
        Run { bytes: Vec::with_capacity(bytes), places: Vec::with_capacity(entries) }
    }

    /// Adds a change behind all others: its key is greater than theirs.
    pub(super) fn push(&mut self, entry: Entry<'_>) {
        debug_assert!(self.last().is_none_or(|last| last.key < entry.key), "runs are sorted");
        // Keys are limited far below this; see `prepared.rs`.
        let key_bytes = u32::try_from(entry.key.len()).unwrap_or(u32::MAX);
        let is_gone = entry.stored.is_none();
        self.places.push(Place { start: self.bytes.len(), key_bytes, is_gone });
        self.bytes.extend_from_slice(entry.key);
        self.bytes.extend_from_slice(entry.stored.unwrap_or_default());
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// The memory that the run takes.
    pub(in crate::embedded) fn size_bytes(&self) -> usize {
        self.bytes.len() + self.places.len() * size_of::<Place>()
    }

    pub(super) fn last(&self) -> Option<Entry<'_>> {
        self.places.len().checked_sub(1).and_then(|last| self.entry(last))
    }

    pub(super) fn entries(&self) -> impl ExactSizeIterator<Item = Entry<'_>> {
        // Every place has an entry.
        let nothing = Entry { key: &[], stored: None };
        (0..self.len()).map(move |at| self.entry(at).unwrap_or(nothing))
    }

    fn entry(&self, at: usize) -> Option<Entry<'_>> {
        let place = self.places.get(at)?;
        let end = self.places.get(at + 1).map_or(self.bytes.len(), |next| next.start);
        let both = self.bytes.get(place.start..end)?;
        let (key, stored) = both.split_at_checked(place.key_bytes as usize)?;
        Some(Entry { key, stored: (!place.is_gone).then_some(stored) })
    }

    fn key_of(&self, place: &Place) -> &[u8] {
        let end = place.start + place.key_bytes as usize;
        self.bytes.get(place.start..end).unwrap_or_default()
    }

    /// The change of this key, if there is one.
    pub(in crate::embedded) fn find(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        let at = self.places.binary_search_by(|place| self.key_of(place).cmp(key)).ok()?;
        self.entry(at).map(|entry| entry.stored)
    }

    /// Where the changes of a range lie.
    fn places_in(&self, range: &KeyRange) -> Range<usize> {
        let start = self.places.partition_point(|place| match &range.start {
            Bound::Included(start) => self.key_of(place) < &start[..],
            Bound::Excluded(start) => self.key_of(place) <= &start[..],
            Bound::Unbounded => false,
        });
        let is_inside = |place: &Place| match &range.end {
            Bound::Included(end) => self.key_of(place) <= &end[..],
            Bound::Excluded(end) => self.key_of(place) < &end[..],
            Bound::Unbounded => true,
        };
        // The end is near where there are few, and often there is none: steps that double.
        let (mut inside, mut step) = (start, 1);
        while self.places.get(inside + step - 1).is_some_and(is_inside) {
            inside += step;
            step *= 2;
        }
        let rest = self.places.get(inside..self.places.len().min(inside + step));
        start..inside + rest.unwrap_or_default().partition_point(is_inside)
    }
}

/// What several runs say together, in order: of each key the newest change.
pub(in crate::embedded) struct Merge<'a> {
    /// Those that are not at their end. The last one is at the next change.
    cursors: Vec<Cursor<'a>>,
    direction: Direction,
}

/// A place in a run, with the change that is there.
struct Cursor<'a> {
    head: Entry<'a>,
    /// The places behind the head.
    rest: Range<usize>,
    run: &'a Run,
    /// How many runs are newer.
    age: usize,
}

impl<'a> Merge<'a> {
    /// The changes of a range. Runs come with the newest first.
    pub(in crate::embedded) fn new(
        newest_first: impl Iterator<Item = &'a Run>,
        range: &KeyRange,
        direction: Direction,
    ) -> Merge<'a> {
        let mut merge = Merge { cursors: Vec::new(), direction };
        for (age, run) in newest_first.enumerate() {
            let rest = run.places_in(range);
            merge.go_on(run, rest, age);
        }
        merge
    }

    /// Puts a run, of which these places are left, among the others.
    fn go_on(&mut self, run: &'a Run, mut rest: Range<usize>, age: usize) {
        let at = match self.direction {
            Direction::Forward => rest.next(),
            Direction::Backward => rest.next_back(),
        };
        let Some(head) = at.and_then(|at| run.entry(at)) else { return };
        let cursor = Cursor { head, rest, run, age };
        let mut place = self.cursors.len();
        // Most often a run that was ahead stays so, or nearly: there are few, and long ones lead.
        while let Some(before) = place.checked_sub(1).and_then(|at| self.cursors.get(at))
            && self.is_behind(&cursor, before)
        {
            place -= 1;
        }
        self.cursors.insert(place, cursor);
    }

    fn is_behind(&self, cursor: &Cursor<'_>, other: &Cursor<'_>) -> bool {
        let order = cursor.head.key.cmp(other.head.key);
        let order = match self.direction {
            Direction::Forward => order,
            Direction::Backward => order.reverse(),
        };
        order.then(cursor.age.cmp(&other.age)) == Ordering::Greater
    }

    fn step(&mut self) -> Option<Entry<'a>> {
        let Cursor { head, rest, run, age } = self.cursors.pop()?;
        self.go_on(run, rest, age);
        Some(head)
    }
}

impl<'a> Iterator for Merge<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let newest = self.step()?;
        while self.cursors.last().is_some_and(|cursor| cursor.head.key == newest.key) {
            self.step();
        }
        Some(newest)
    }
}

/// Makes one run of several, the newest first.
pub(super) fn merged(newest_first: &[&Run]) -> Run {
    let entries = newest_first.iter().map(|run| run.len()).sum();
    let bytes = newest_first.iter().map(|run| run.bytes.len()).sum();
    let mut merged = Run::with_capacity(entries, bytes);
    let runs = newest_first.iter().copied();
    Merge::new(runs, &KeyRange::all(), Direction::Forward).for_each(|entry| merged.push(entry));
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(entries: &[(&str, Option<&str>)]) -> Run {
        let mut run = Run::default();
        for (key, stored) in entries {
            run.push(Entry { key: key.as_bytes(), stored: stored.map(str::as_bytes) });
        }
        run
    }

    fn text<'a>(entry: Entry<'a>) -> (&'a str, Option<&'a str>) {
        let text = |bytes: &'a [u8]| str::from_utf8(bytes).unwrap();
        (text(entry.key), entry.stored.map(text))
    }

    #[test]
    fn of_each_key_the_newest_change_counts() {
        let newer = run(&[("a", None), ("c", Some("new"))]);
        let older = run(&[("a", Some("x")), ("b", Some("")), ("c", None), ("d", Some("y"))]);
        let expected = run(&[("a", None), ("b", Some("")), ("c", Some("new")), ("d", Some("y"))]);
        assert_eq!(merged(&[&newer, &older]), expected);
    }

    #[test]
    fn ranges_are_shown_in_both_directions() {
        let newer = run(&[("b", Some("1")), ("d", None)]);
        let older = run(&[("a", Some("2")), ("b", Some("2")), ("c", Some("2")), ("e", None)]);
        let range =
            KeyRange { start: Bound::Excluded(b"a".to_vec()), end: Bound::Included(b"d".to_vec()) };
        let mut expected = vec![("b", Some("1")), ("c", Some("2")), ("d", None)];
        for direction in [Direction::Forward, Direction::Backward] {
            let shown = Merge::new([&newer, &older].into_iter(), &range, direction).map(text);
            assert_eq!(shown.collect::<Vec<_>>(), expected);
            expected.reverse();
        }
    }

    #[test]
    fn a_key_is_found_or_known_to_be_gone_or_not_mentioned() {
        let run = run(&[("a", Some("x")), ("b", None), ("c", Some(""))]);
        assert_eq!(run.find(b"a"), Some(Some(&b"x"[..])));
        assert_eq!(run.find(b"b"), Some(None));
        assert_eq!(run.find(b"c"), Some(Some(&b""[..])));
        assert_eq!(run.find(b"bb"), None);
    }
}

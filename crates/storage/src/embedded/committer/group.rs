//! The batches that are written together, as far as they are decided.
//!
//! A group is decided batch by batch, each against the view and what the ones before it change
//! ([`Group`]). What they change is gathered by spaces ([`Changes`]). The changes of one batch are
//! in the order of their keys, so those of a group are some dozen sorted pieces, and bringing them
//! into one order is merging. Keys begin alike, so what counts is how many are compared.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use partita_model::Lsn;

use crate::contract::StorageError;
use crate::contract::{Commit, PartitionId, Record, Result, Space, TicketSetter};
use crate::embedded::committer::counters::Counters;
use crate::embedded::view::{Member, View};
use crate::prepared::{Change, Prepared, record};

/// Batches on their way.
pub(in crate::embedded) struct Group {
    view: Arc<View>,
    pub(in crate::embedded) changes: Changes,
    /// Where the last change of a key is, for keys of items and meta. Those of the other spaces are
    /// many and hardly anybody asks for one.
    found: [HashMap<Bytes, usize>; Space::ALL.len()],
    /// The LSNs reached, by slot.
    pub(in crate::embedded) lsns: HashMap<usize, (PartitionId, Lsn)>,
    pub(in crate::embedded) answers: Vec<(TicketSetter, Result<Commit>)>,
}

impl Group {
    pub(in crate::embedded) fn new(view: Arc<View>) -> Group {
        Group {
            view,
            changes: Changes::default(),
            found: Default::default(),
            lsns: HashMap::new(),
            answers: Vec::new(),
        }
    }

    pub(in crate::embedded) fn decide(
        &mut self,
        members: &HashMap<PartitionId, Member>,
        counters: &mut Counters,
        (partition, prepared): (PartitionId, Prepared),
    ) -> Result<Commit> {
        let member = members.get(&partition).ok_or(StorageError::PartitionGone(partition))?;
        if member.sealed {
            return Err(StorageError::Sealed(partition));
        }
        let slot = member.slot;
        let last = self.lsns.get(&slot).map_or_else(|| self.view.lsns.get(slot), |(_, lsn)| *lsn);
        let lsn = prepared.lsn_after(last);
        let changes = prepared.decide(lsn, |space, key| self.current(space, key, counters))?;
        self.take(changes);
        self.lsns.insert(slot, (partition, lsn));
        Ok(Commit { lsn })
    }

    /// Adds the changes of a batch, which are in order.
    fn take(&mut self, changes: Vec<Change>) {
        for change in changes {
            let pieces = self.changes.of_mut(change.space);
            if has_places(change.space) {
                self.found[change.space as usize].insert(change.key.clone(), pieces.len());
            }
            pieces.push(change);
        }
        self.changes.end_piece();
    }

    /// The record that is there after all batches decided so far.
    fn current(&self, space: Space, key: &[u8], counters: &mut Counters) -> Result<Option<Record>> {
        let pieces = self.changes.of(space);
        let changed = match has_places(space) {
            true => self.found[space as usize].get(key).and_then(|at| pieces.changes.get(*at)),
            false => pieces.find(key),
        };
        match (changed, space) {
            (Some(change), _) => {
                change.stored.clone().map(|stored| record(space, stored)).transpose()
            }
            (None, Space::Meta) => counters.get(key, &self.view),
            (None, _) => self.view.get(space, key),
        }
    }
}

/// Whether it is noted where the changes of a space are.
fn has_places(space: Space) -> bool {
    matches!(space, Space::Items | Space::Meta)
}

/// What batches change, by spaces.
#[derive(Debug, Default)]
pub(in crate::embedded) struct Changes([Pieces; Space::ALL.len()]);

impl Changes {
    /// Records of the store itself.
    pub(in crate::embedded) fn of_store(
        records: impl Iterator<Item = (Vec<u8>, Vec<u8>)>,
    ) -> Changes {
        let mut changes = Changes::default();
        changes.add_own(records);
        changes
    }

    /// Adds records of the store itself, whose keys are distinct.
    pub(in crate::embedded) fn add_own(
        &mut self,
        records: impl Iterator<Item = (Vec<u8>, Vec<u8>)>,
    ) {
        let space = Space::Meta;
        let own = |(key, value): (Vec<u8>, Vec<u8>)| Change {
            space,
            key: key.into(),
            stored: Some(value.into()),
        };
        let mut own: Vec<Change> = records.map(own).collect();
        own.sort_by(|a, b| a.key.cmp(&b.key));
        let pieces = self.of_mut(space);
        own.into_iter().for_each(|change| pieces.push(change));
        pieces.end_piece();
    }

    pub(in crate::embedded) fn of(&self, space: Space) -> &Pieces {
        &self.0[space as usize]
    }

    pub(in crate::embedded) fn of_mut(&mut self, space: Space) -> &mut Pieces {
        &mut self.0[space as usize]
    }

    /// What was added since the last one is a piece.
    fn end_piece(&mut self) {
        self.0.iter_mut().for_each(Pieces::end_piece);
    }

    pub(in crate::embedded) fn size_bytes(&self) -> usize {
        self.0.iter().map(Pieces::size_bytes).sum()
    }
}

/// Changes of one space: pieces that are in order, each with a key once.
#[derive(Debug, Default)]
pub(in crate::embedded) struct Pieces {
    changes: Vec<Change>,
    /// Where the pieces end.
    ends: Vec<usize>,
}

impl Pieces {
    pub(in crate::embedded) fn len(&self) -> usize {
        self.changes.len()
    }

    pub(in crate::embedded) fn size_bytes(&self) -> usize {
        self.changes.iter().map(Change::size_bytes).sum()
    }

    fn push(&mut self, change: Change) {
        self.changes.push(change);
    }

    fn end_piece(&mut self) {
        if self.ends.last().copied().unwrap_or(0) < self.len() {
            self.ends.push(self.len());
        }
    }

    /// The last change of a key.
    fn find(&self, key: &[u8]) -> Option<&Change> {
        let starts = self.ends.iter().rev().skip(1).copied().chain([0]);
        self.ends.iter().rev().zip(starts).find_map(|(end, start)| {
            let piece = self.changes.get(start..*end)?;
            piece
                .binary_search_by(|change| change.key[..].cmp(key))
                .ok()
                .and_then(|at| piece.get(at))
        })
    }

    /// The last change of each key, in the order of keys: the engine finds the place of a key near
    /// that of the one before without a look at memory it has not just seen.
    ///
    /// A key that several batches of a group change is there once, because the engine would file
    /// both changes under one sequence number.
    pub(in crate::embedded) fn in_order(&self) -> impl ExactSizeIterator<Item = &Change> {
        self.order().into_iter().map(|at| &self.changes[at])
    }

    /// The same for who keeps them.
    pub(in crate::embedded) fn take_in_order(&mut self) -> impl ExactSizeIterator<Item = Change> {
        let nothing = || Change { space: Space::Meta, key: Bytes::new(), stored: None };
        let order = self.order();
        order.into_iter().map(move |at| std::mem::replace(&mut self.changes[at], nothing()))
    }

    /// Places of changes in the order of their keys.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.len()).collect();
        let mut ends = self.ends.clone();
        let mut merged = Vec::with_capacity(order.len());
        while ends.len() > 1 {
            merged.clear();
            let mut start = 0;
            let mut merged_ends = Vec::with_capacity(ends.len().div_ceil(2));
            for pair in ends.chunks(2) {
                match *pair {
                    [middle, end] => {
                        self.merge(&order[start..middle], &order[middle..end], &mut merged);
                        start = end;
                    }
                    [end] => merged.extend_from_slice(&order[start..end]),
                    _ => {}
                }
                merged_ends.push(merged.len());
            }
            std::mem::swap(&mut order, &mut merged);
            ends = merged_ends;
        }
        order
    }

    /// Merges two pieces; of a key that is in both, the later change remains.
    fn merge(&self, mut earlier: &[usize], mut later: &[usize], out: &mut Vec<usize>) {
        // So it is with what is written under a growing number.
        if let (Some(last), Some(first)) = (earlier.last(), later.first())
            && self.compare(*last, *first) == Ordering::Less
        {
            out.extend_from_slice(earlier);
            out.extend_from_slice(later);
            return;
        }
        while let ([a, more_earlier @ ..], [b, more_later @ ..]) = (earlier, later) {
            let order = self.compare(*a, *b);
            if order.is_le() {
                earlier = more_earlier;
            }
            if order.is_ge() {
                later = more_later;
            }
            out.push(if order.is_lt() { *a } else { *b });
        }
        out.extend_from_slice(earlier);
        out.extend_from_slice(later);
    }

    fn compare(&self, a: usize, b: usize) -> Ordering {
        self.changes[a].key.cmp(&self.changes[b].key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(key: &str, value: usize) -> Change {
        let stored = Some(Bytes::from(value.to_string()));
        Change { space: Space::Items, key: Bytes::from(key.to_owned()), stored }
    }

    #[test]
    fn pieces_become_one_order_and_the_last_change_of_a_key_remains() {
        let batches = ["bdf", "ace", "", "b", "xyz", "azb"];
        for count in 0..=batches.len() {
            let mut pieces = Pieces::default();
            let mut expected = std::collections::BTreeMap::new();
            for (number, batch) in batches.iter().take(count).enumerate() {
                let mut keys: Vec<String> = batch.chars().map(String::from).collect();
                keys.sort();
                for key in keys {
                    pieces.push(change(&key, number));
                    expected.insert(key.clone(), change(&key, number));
                }
                pieces.end_piece();
            }
            assert!(pieces.in_order().eq(expected.values()), "{count}");
            for (key, change) in &expected {
                assert_eq!(pieces.find(key.as_bytes()), Some(change));
            }
            assert_eq!(pieces.find(b"q"), None);
            assert!(pieces.take_in_order().eq(expected.into_values()), "{count}");
        }
    }
}

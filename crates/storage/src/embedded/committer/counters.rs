//! Counters that a lane's committer has met lately.
//!
//! Every write of an item adds to the counters of its partition and of its logical partition, so
//! the committer needs their values for nearly every batch. It is the only one who writes them:
//! what it has read once it knows from then on, if it follows its own writes.
//!
//! Records that are not there are not noted: the next write of a new logical partition's counter
//! finds it, if there is one.

use std::collections::HashMap;

use bytes::Bytes;

use crate::contract::{Record, Result, Space};
use crate::embedded::view::View;
use crate::prepared::{Change, record};

/// So many are known at once. Partitions have three, and of logical partitions only those are worth
/// it that are written to again soon.
const COUNTERS_MAX: usize = 1_024;

/// Records of the meta space, as they are stored now.
#[derive(Debug, Default)]
pub(in crate::embedded) struct Counters(HashMap<Bytes, Bytes>);

impl Counters {
    /// The record that is there, known or in the view, which shows all that is written.
    pub(in crate::embedded) fn get(&mut self, key: &[u8], view: &View) -> Result<Option<Record>> {
        if let Some(known) = self.0.get(key) {
            return record(Space::Meta, known.clone()).map(Some);
        }
        let Some(stored) = view.find(Space::Meta, key)? else { return Ok(None) };
        self.note(key, &stored);
        record(Space::Meta, stored).map(Some)
    }

    fn note(&mut self, key: &[u8], stored: &[u8]) {
        if self.0.len() >= COUNTERS_MAX {
            self.0.clear();
        }
        // Copies here and below: what is stored is a part of something larger.
        self.0.insert(Bytes::copy_from_slice(key), Bytes::copy_from_slice(stored));
    }

    /// Follows a change that is about to be written.
    pub(in crate::embedded) fn change(&mut self, change: &Change) {
        let Some(known) = self.0.get_mut(&change.key) else { return };
        match &change.stored {
            Some(stored) => *known = Bytes::copy_from_slice(stored),
            None => drop(self.0.remove(&change.key)),
        }
    }

    pub(in crate::embedded) fn clear(&mut self) {
        self.0.clear();
    }
}

//! Removing from the feed what nobody can ask for any more.
//!
//! Readers of latest versions need the record of every item's last change and no other. Where all
//! versions are kept for a while, every record that is younger than that stays as it is; of an
//! older one that is an item's last the versions go. A walk over a partition's feed drops the rest,
//! in bounded steps. It begins when so much was committed since the last walk that half of the feed
//! may be superfluous, so that a write pays for it a bounded number of times.
//!
//! The partition remembers how far records may be missing ([`FeedMark`]): who reads all versions
//! cannot begin before it. Partitions of a container with moves are left alone: a move learns from
//! the feed what was deleted.

use std::collections::HashSet;

use partita_model::{Lsn, Result};
use partita_storage::{Batch, Entry, ScanLimit, Snapshot, Space};

use super::Maintainer;
use crate::catalog::{Container, Partition};
use crate::changes::{commits_after, lsn_of};
use crate::feed::FeedMark;
use crate::feed::{Change, Kind};
use crate::keys;
use crate::record::ItemRecord;
use crate::step::MaintenanceBudget;

/// A walk over the feed of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trim {
    /// All of it, or only what is no longer kept in all versions.
    whole: bool,
    reached: Lsn,
    end: Lsn,
    kept: u64,
}

/// What becomes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stays,
    /// It stays without its versions.
    Shrinks,
    Goes,
}

impl Maintainer {
    /// A walk over a partition's feed, if it is time for one.
    pub(super) fn due_trim(
        &self,
        container: &Container,
        partition: &Partition,
    ) -> Result<Option<Trim>> {
        let view = self.core.store.snapshot(partition.id)?;
        let mark = FeedMark::read(&*view)?;
        let since = view.lsn().0.saturating_sub(mark.walked.0);
        let enough = self.core.settings.change_feed.trim_commits_min.max(mark.kept / 2);
        let end = view.lsn();
        if since >= enough {
            return Ok(Some(Trim { whole: true, reached: Lsn(0), end, kept: 0 }));
        }
        // Versions age also when nothing is written.
        let cutoff = self.retained_since(container);
        let (first, _) = commits_after(&*view, mark.aged(), ONE)?;
        let aged = cutoff.is_some() && !first.is_empty() && !has_young(&first, cutoff)?;
        Ok(aged.then_some(Trim { whole: false, reached: mark.aged(), end, kept: mark.kept }))
    }

    /// Takes a step of a walk; true when it is through.
    pub(super) async fn trim_some(
        &self,
        container: &Container,
        partition: &Partition,
        trim: &mut Trim,
        budget: &MaintenanceBudget,
    ) -> Result<bool> {
        let view = self.core.store.snapshot(partition.id)?;
        let mut mark = FeedMark::read(&*view)?;
        let limit = ScanLimit { entries_max: budget.items_max, bytes_max: budget.bytes_max };
        let (entries, more) = commits_after(&*view, trim.reached, limit)?;
        let cutoff = self.retained_since(container);
        let mut batch = Batch::new();
        let mut through = !more;
        for commit in entries.chunk_by(|a, b| keys::feed_lsn(&a.key) == keys::feed_lsn(&b.key)) {
            let lsn = lsn_of(commit)?;
            if lsn > trim.end || has_young(commit, cutoff)? {
                through = true;
                break;
            }
            trim.reached = lsn;
            if trim_commit(&*view, commit, lsn, trim, &mut batch)? {
                mark.miss(lsn, item_keys_of(commit)?.into_iter());
            }
        }
        if cutoff.is_some() {
            mark.age(trim.reached);
        }
        if through {
            mark.kept = trim.kept;
            mark.walked = if trim.whole { trim.end } else { mark.walked };
        }
        if through || !batch.writes.is_empty() || cutoff.is_some() {
            mark.put(&mut batch);
            self.core.store.submit(partition.id, batch).await?;
        }
        Ok(through)
    }

    /// Since when all versions are kept, in Unix seconds; None: they are not.
    fn retained_since(&self, container: &Container) -> Option<u64> {
        let minutes = u64::from(self.core.retention_minutes(container));
        (minutes > 0).then(|| self.core.now_seconds().saturating_sub(minutes * 60))
    }
}

const ONE: ScanLimit = ScanLimit { entries_max: 1, bytes_max: 1 };

/// Is there a record that all versions are kept of?
fn has_young(commit: &[Entry], cutoff: Option<u64>) -> Result<bool> {
    let Some(cutoff) = cutoff else { return Ok(false) };
    for entry in commit {
        let change = Change::decode(&entry.record.value)?;
        if change.versions.is_some() && change.ts.is_some_and(|ts| u64::from(ts) >= cutoff) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whose changes a commit has.
fn item_keys_of(commit: &[Entry]) -> Result<Vec<&[u8]>> {
    commit.iter().map(|entry| Ok(Change::decode(&entry.record.value)?.item_key)).collect()
}

/// Does what is to be done about the records of a commit; whether anything was.
fn trim_commit(
    view: &dyn Snapshot,
    commit: &[Entry],
    lsn: Lsn,
    trim: &mut Trim,
    batch: &mut Batch,
) -> Result<bool> {
    let mut seen = HashSet::new();
    let mut changed = false;
    for entry in commit.iter().rev() {
        let change = Change::decode(&entry.record.value)?;
        let is_last = seen.insert(change.item_key);
        match fate(view, &change, lsn, is_last)? {
            Fate::Stays => {}
            Fate::Shrinks => {
                let small = Change { versions: None, ..change };
                batch.put(Space::Feed, entry.key.to_vec(), small.encode());
                changed = true;
            }
            Fate::Goes => {
                batch.delete(Space::Feed, entry.key.to_vec());
                changed = true;
                continue;
            }
        }
        trim.kept += 1;
    }
    Ok(changed)
}

fn fate(view: &dyn Snapshot, change: &Change<'_>, lsn: Lsn, is_last: bool) -> Result<Fate> {
    if !is_last || change.kind == Kind::Delete {
        return Ok(Fate::Goes);
    }
    let Some(stored) = view.get(Space::Items, change.item_key)? else { return Ok(Fate::Goes) };
    let record = ItemRecord::decode(&stored.value)?;
    Ok(match (record.changed_at(stored.lsn) == lsn, change.versions) {
        (false, _) => Fate::Goes,
        (true, Some(_)) => Fate::Shrinks,
        (true, None) => Fate::Stays,
    })
}

//! Copying and following: how a target gets what a source holds.
//!
//! A *stream* leads from one source to one target; it carries the items and changes of the EPKs
//! that both have. It first walks over the source's items, each chunk on a fresh view, and then
//! over the source's feed, from its beginning to its end and on as it grows. The feed's records are
//! copied as they are, under the LSNs that they have. Where one is later than the first view of the
//! walk over the items, its item is brought to what the source holds now: put, replaced or removed.
//! That may be newer than the record; then a later record brings it again, to the same end.
//!
//! So when the feed is at its end, the target holds what the source held at that moment. Nobody
//! else writes the target, hence no expectations. Where a stream is, is a record in the target, in
//! the batch of what was brought.
//!
//! Re-indexing changes records without a record in the feed, so it leaves containers with moves
//! alone.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use partita_model::{EpkRange, Error, Lsn, Result};
use partita_storage::{Batch, Direction, KeyRange, Record, ScanLimit, Snapshot, Space};

use super::{Moves, lock};
use crate::catalog::{Container, Move, Partition};
use crate::changeset::Arrivals;
use crate::feed;
use crate::feed::FeedMark;
use crate::keys;
use crate::record::ItemRecord;
use crate::step::MaintenanceBudget;

/// Records of the feed are small: more of them make a chunk.
const FEED_RECORDS_PER_ITEM: usize = 8;

/// So many of them are looked at together for what became of their items.
const FEED_SLICE: usize = 32;

/// From one source to one target.
pub(super) struct Stream<'a> {
    pub(super) source: &'a Partition,
    pub(super) target: &'a Partition,
    epks: EpkRange,
    /// Several sources may have used the same LSN.
    marks_records: bool,
}

/// How far a step has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    Middle,
    /// Changes come as fast as they are followed: waiting longer brings the end no nearer.
    NoNearer,
    /// All that the source held when the step began is in the target.
    End,
}

/// How following a feed that grows gets on, in rounds: each goes to where the feed ended when it
/// began. In memory: after a restart it is found out anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FollowRound {
    goal: Lsn,
    /// How far it was.
    distance: u64,
}

impl FollowRound {
    /// The round after a step that came to `at`; None if it has no sense to begin another one.
    fn after(known: Option<FollowRound>, at: Lsn, end: Lsn) -> Option<FollowRound> {
        let next = FollowRound { goal: end, distance: end.0.saturating_sub(at.0) };
        match known {
            None => Some(next),
            Some(round) if at < round.goal => Some(round),
            Some(round) => (next.distance < round.distance / 10 * 9).then_some(next),
        }
    }
}

/// The streams of a move.
pub(super) fn streams<'a>(
    container: &'a Container,
    under_way: &'a Move,
) -> Result<Vec<Stream<'a>>> {
    let mut streams = Vec::new();
    for id in &under_way.sources {
        let source = container
            .partition(*id)
            .ok_or_else(|| Error::corrupt(format!("a move's source {id} does not exist")))?;
        for target in &under_way.targets {
            if let Some(epks) = source.epks.intersect(&target.epks) {
                let marks_records = under_way.is_merge();
                streams.push(Stream { source, target, epks, marks_records });
            }
        }
    }
    Ok(streams)
}

/// Where a stream is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cursor {
    phase: Phase,
    /// The LSN of the first view of the items.
    base: Lsn,
    /// The last key that is done; none at the beginning.
    after: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Items = 1,
    Feed = 2,
}

impl Cursor {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![self.phase as u8];
        out.extend_from_slice(&self.base.0.to_be_bytes());
        out.extend_from_slice(&self.after);
        out
    }

    fn decode(bytes: &[u8]) -> Result<Cursor> {
        let damaged = || Error::corrupt("the cursor of a move is damaged");
        let (phase, rest) = bytes.split_first().ok_or_else(damaged)?;
        let phase = match phase {
            1 => Phase::Items,
            2 => Phase::Feed,
            _ => return Err(damaged()),
        };
        let (base, after) = rest.split_first_chunk().ok_or_else(damaged)?;
        Ok(Cursor { phase, base: Lsn(u64::from_be_bytes(*base)), after: after.to_vec() })
    }

    /// What of a range is still to be done.
    fn rest_of(&self, range: KeyRange) -> KeyRange {
        if self.after.is_empty() {
            range
        } else {
            KeyRange { start: Bound::Excluded(self.after.clone()), end: range.end }
        }
    }
}

/// The two ends of a stream at one moment.
struct Views {
    source: Box<dyn Snapshot>,
    target: Box<dyn Snapshot>,
}

impl Moves {
    /// Brings the next chunk over.
    pub(super) async fn copy_some(
        &self,
        known: &Container,
        stream: &Stream<'_>,
        budget: &MaintenanceBudget,
    ) -> Result<Reached> {
        let source = self.core.store.snapshot(stream.source.id)?;
        let target = self.core.store.snapshot(stream.target.id)?;
        // Taken after the view, so that it knows every policy that an item in it was written under.
        let container = self.core.container_by_rid(known.rid);
        let container = container.ok_or_else(|| Error::retry_with("the container was deleted"))?;
        let key = keys::move_cursor(stream.source.range_id);
        let mut cursor = match target.get(Space::Meta, &key)? {
            Some(record) => Cursor::decode(&record.value)?,
            None => Cursor { phase: Phase::Items, base: source.lsn(), after: Vec::new() },
        };
        let before = cursor.clone();
        let views = Views { source, target };
        let mut arrivals =
            Arrivals::new(&container, known.live_of(stream.target), &*views.source, &*views.target);
        let reached = match cursor.phase {
            Phase::Items => copy_items(stream, &views, &mut cursor, budget, &mut arrivals)?,
            Phase::Feed => copy_feed(stream, &views, &mut cursor, budget, &mut arrivals)?,
        };
        let reached = match (reached, keys::feed_lsn(&cursor.after)) {
            (Reached::Middle, Some(at)) if cursor.phase == Phase::Feed => {
                self.follow(stream, at, views.source.lsn())
            }
            (reached, _) => reached,
        };
        let mut batch = arrivals.into_batch();
        drop(views);
        if cursor.phase != before.phase {
            let child = stream.target.range_id;
            tracing::debug!(child, "items are copied, following begins");
        }
        if cursor != before || !batch.writes.is_empty() {
            batch.put(Space::Meta, key, cursor.encode());
            self.core.store.submit(stream.target.id, batch).await?;
        }
        Ok(reached)
    }

    /// Is it worth to follow on, or does the source change as fast as it is followed?
    fn follow(&self, stream: &Stream<'_>, at: Lsn, end: Lsn) -> Reached {
        let mut rounds = lock(&self.rounds);
        let key = (stream.source.id, stream.target.id);
        match FollowRound::after(rounds.get(&key).copied(), at, end) {
            Some(round) => {
                rounds.insert(key, round);
                Reached::Middle
            }
            None => {
                // What is done about it may help: it is found out anew.
                rounds.remove(&key);
                Reached::NoNearer
            }
        }
    }

    /// Lifts a target above the LSNs of its sources, and notes how complete their feeds were.
    pub(super) async fn lift(
        &self,
        target: &Partition,
        above: Lsn,
        feeds: &FeedMark,
    ) -> Result<()> {
        let mut batch = Batch { lsn_min: Some(above.next()), ..Batch::new() };
        feeds.put(&mut batch);
        self.core.store.submit(target.id, batch).await?;
        Ok(())
    }

    /// Forgets how far the streams were. What is left of it after a crash disturbs nobody.
    pub(super) async fn forget_cursors(&self, streams: &[Stream<'_>]) {
        for stream in streams {
            lock(&self.rounds).remove(&(stream.source.id, stream.target.id));
            let mut batch = Batch::new();
            batch.delete(Space::Meta, keys::move_cursor(stream.source.range_id));
            if let Err(error) = self.core.store.submit(stream.target.id, batch).await {
                tracing::warn!(%error, "the cursor of a move is left over");
            }
        }
    }
}

fn copy_items(
    stream: &Stream<'_>,
    views: &Views,
    cursor: &mut Cursor,
    budget: &MaintenanceBudget,
    arrivals: &mut Arrivals<'_>,
) -> Result<Reached> {
    let range = cursor.rest_of(keys::items_in(&stream.epks));
    let limit = ScanLimit { entries_max: budget.items_max, bytes_max: budget.bytes_max };
    let page = views.source.scan(Space::Items, &range, Direction::Forward, limit)?;
    for entry in &page.entries {
        arrivals.put(&entry.key, &moved(&entry.record)?)?;
    }
    match page.entries.last().filter(|_| page.more) {
        Some(last) => cursor.after = last.key.to_vec(),
        None => {
            cursor.phase = Phase::Feed;
            cursor.after = Vec::new();
        }
    }
    Ok(Reached::Middle)
}

fn copy_feed(
    stream: &Stream<'_>,
    views: &Views,
    cursor: &mut Cursor,
    budget: &MaintenanceBudget,
    arrivals: &mut Arrivals<'_>,
) -> Result<Reached> {
    let range = cursor.rest_of(KeyRange::all());
    let entries_max = budget.items_max.saturating_mul(FEED_RECORDS_PER_ITEM);
    let limit = ScanLimit { entries_max, bytes_max: budget.bytes_max };
    let page = views.source.scan(Space::Feed, &range, Direction::Forward, limit)?;
    let mut brought = Brought::default();
    for slice in page.entries.chunks(FEED_SLICE) {
        if brought.bytes >= budget.bytes_max {
            brought.arrive(views, arrivals)?;
            return Ok(Reached::Middle);
        }
        let mut changed = BTreeSet::new();
        for entry in slice {
            let item_key = feed::Change::decode(&entry.record.value)?.item_key;
            if !keys::epk_of_item(item_key).is_some_and(|epk| stream.epks.contains(&epk)) {
                continue;
            }
            if keys::feed_lsn(&entry.key).is_none_or(|lsn| lsn > cursor.base) {
                changed.insert(item_key.to_vec());
            }
            let mut key = entry.key.to_vec();
            if stream.marks_records {
                key.extend_from_slice(&stream.source.range_id.to_be_bytes());
            }
            arrivals.put_feed(key, entry.record.value.to_vec());
        }
        brought.take(views, changed)?;
        cursor.after = slice.last().map_or_else(Vec::new, |last| last.key.to_vec());
    }
    brought.arrive(views, arrivals)?;
    Ok(if page.more { Reached::Middle } else { Reached::End })
}

/// Items that changed, as the source holds them.
#[derive(Default)]
struct Brought {
    items: BTreeMap<Vec<u8>, Option<Record>>,
    bytes: usize,
}

impl Brought {
    fn take(&mut self, views: &Views, mut changed: BTreeSet<Vec<u8>>) -> Result<()> {
        changed.retain(|item_key| !self.items.contains_key(item_key));
        let changed: Vec<Vec<u8>> = changed.into_iter().collect();
        let here = views.source.get_many(Space::Items, &changed)?;
        for (item_key, stored) in changed.into_iter().zip(here) {
            self.bytes += item_key.len() + stored.as_ref().map_or(0, |stored| stored.value.len());
            self.items.insert(item_key, stored);
        }
        Ok(())
    }

    /// Brings the target's items to what these are. What goes, goes first: an item that got another
    /// id kept its resource id, and what is filed under that belongs to the one that is there now.
    fn arrive(self, views: &Views, arrivals: &mut Arrivals<'_>) -> Result<()> {
        let (item_keys, here): (Vec<_>, Vec<_>) = self.items.into_iter().unzip();
        let there = views.target.get_many(Space::Items, &item_keys)?;
        for (item_key, stored) in item_keys.iter().zip(there) {
            if let Some(stored) = stored {
                arrivals.remove(item_key, &ItemRecord::decode(&stored.value)?)?;
            }
        }
        for (item_key, stored) in item_keys.iter().zip(here) {
            if let Some(stored) = stored {
                arrivals.put(item_key, &moved(&stored)?)?;
            }
        }
        Ok(())
    }
}

/// A record for its new home: it remembers when its item changed.
fn moved(stored: &Record) -> Result<ItemRecord> {
    let record = ItemRecord::decode(&stored.value)?;
    let changed = Some(record.changed_at(stored.lsn));
    Ok(ItemRecord { changed, ..record })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn following_gives_up_when_it_comes_no_nearer() {
        let first = FollowRound::after(None, Lsn(0), Lsn(1_000)).unwrap();
        assert_eq!(FollowRound::after(Some(first), Lsn(900), Lsn(1_500)), Some(first), "under way");
        let second = FollowRound::after(Some(first), Lsn(1_000), Lsn(1_600)).unwrap();
        assert_eq!(second, FollowRound { goal: Lsn(1_600), distance: 600 });
        assert_eq!(FollowRound::after(Some(second), Lsn(1_600), Lsn(2_190)), None);
    }

    #[test]
    fn a_cursor_comes_back_as_it_went() {
        for phase in [Phase::Items, Phase::Feed] {
            for after in [Vec::new(), vec![0], vec![7; 300]] {
                let cursor = Cursor { phase, base: Lsn(1 << 40), after };
                assert_eq!(Cursor::decode(&cursor.encode()).unwrap(), cursor);
            }
        }
        for damaged in [&b""[..], &[1, 2, 3], &[9; 20]] {
            assert!(Cursor::decode(damaged).is_err());
        }
    }
}

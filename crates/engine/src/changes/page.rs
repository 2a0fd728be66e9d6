//! A page of the change feed under construction.
//!
//! Walks the records of a partition's feed after an LSN, all records of one LSN at a time, and ends
//! between two LSNs: when it has enough items or bytes or half of its memory, when there is no
//! memory for the next commit, when it has looked at enough records or long enough, or at the end
//! of the feed.

use std::collections::HashSet;

use partita_model::{Clock, Error, KeyPart, Lsn, MemoryShare, Reservation, Result};
use partita_storage::{Direction, Entry, KeyRange, ScanLimit, Snapshot, Space};

use super::beyond_retention;
use super::position::Piece;
use super::sieve::{Passed, Sieve};
use crate::catalog::Container;
use crate::context::Supervision;
use crate::core::Core;
use crate::feed::{self, Change, Kind};
use crate::keys::{self, ItemKey};
use crate::memory;
use crate::op::{ChangedItem, ChangesMode, ChangesRequest, ItemBody, VersionChange};
use crate::record::ItemRecord;
use crate::settings::ChangeFeedSettings;

/// One read of the feed.
const CHUNK: ScanLimit = ScanLimit { entries_max: 256, bytes_max: 1 << 20 };
/// The records of one commit, which come together whatever they are.
const COMMIT: ScanLimit = ScanLimit { entries_max: usize::MAX, bytes_max: usize::MAX };

/// So many items are read at a time.
const LOAD_MAX: usize = 4;

pub(super) struct Page<'a> {
    clock: &'a dyn Clock,
    mode: ChangesMode,
    settings: &'a ChangeFeedSettings,
    items_max: usize,
    /// Nothing that changed until then, in Unix seconds.
    since: Option<u64>,
    sieve: Option<&'a Sieve>,
    supervision: &'a Supervision,
    now_seconds: u64,
    started_nanos: u64,
    looked_at: u64,
    pub(super) changes: Vec<ChangedItem>,
    /// Bytes of what is told.
    bytes: usize,
    /// Bytes of what was looked at for it.
    pub(super) loaded_bytes: u64,
    /// It ended before the end.
    pub(super) more: bool,
    pub(super) memory: Reservation,
    /// A page that has so much of it is full.
    memory_max: usize,
    /// How many changes there were before the commit that is looked at.
    commit_begins: usize,
}

/// Is there memory for what is to be told?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Enough,
    None,
}

/// The part of a partition that is asked for.
pub(super) struct FeedPart<'a> {
    container: &'a Container,
    /// The keys of the items in each of its pieces, and up to which LSN the reader has seen it.
    pieces: Vec<(KeyRange, Lsn)>,
    /// What their partition keys begin with: two keys may have one EPK.
    only: &'a [KeyPart],
}

impl<'a> FeedPart<'a> {
    pub(super) fn new(
        container: &'a Container,
        pieces: &[Piece],
        only: &'a [KeyPart],
    ) -> FeedPart<'a> {
        let piece = |piece: &Piece| (keys::items_in(&piece.epks), piece.after);
        FeedPart { container, pieces: pieces.iter().map(piece).collect(), only }
    }

    /// Up to where the reader has seen everything, whatever piece it is in.
    fn after(&self) -> Lsn {
        self.pieces.iter().map(|(_, after)| *after).min().unwrap_or(Lsn(0))
    }

    /// Up to where the reader has seen what happened to an item; None if it is not in this part.
    fn after_of(&self, item_key: &[u8]) -> Result<Option<Lsn>> {
        let piece = self.pieces.iter().find(|(keys, _)| keys.contains(item_key));
        let Some((_, after)) = piece else { return Ok(None) };
        if !self.only.is_empty() && !self.key_of(item_key)?.key.0.starts_with(self.only) {
            return Ok(None);
        }
        Ok(Some(*after))
    }

    fn key_of(&self, item_key: &[u8]) -> Result<ItemKey> {
        let components = self.container.definition.partition_key.paths.len();
        keys::parse_item(item_key, components)
            .ok_or_else(|| Error::corrupt("the key of a changed item is damaged"))
    }
}

impl<'a> Page<'a> {
    pub(super) fn new(
        core: &'a Core,
        request: &ChangesRequest,
        (sieve, supervision): (Option<&'a Sieve>, &'a Supervision),
        memory: &MemoryShare,
    ) -> Page<'a> {
        let settings = &core.settings.change_feed;
        Page {
            clock: &*core.clock,
            mode: request.mode,
            settings,
            items_max: request.items_max.unwrap_or(settings.page_items_default).max(1),
            since: request.since,
            sieve,
            supervision,
            now_seconds: core.now_seconds(),
            started_nanos: core.clock.monotonic_nanos(),
            looked_at: 0,
            changes: Vec::new(),
            bytes: 0,
            loaded_bytes: 0,
            more: false,
            memory: memory.reservation(memory::CHANGES),
            memory_max: memory.bytes_max() / 2,
            commit_begins: 0,
        }
    }

    /// Adds what changed in a part since its reader was there; the LSN up to which everything was
    /// looked at.
    pub(super) fn walk(&mut self, part: &FeedPart<'_>, view: &dyn Snapshot) -> Result<Lsn> {
        let mut reached = part.after();
        while reached < view.lsn() {
            let (entries, more) = commits_after(view, reached, CHUNK)?;
            for commit in entries.chunk_by(|a, b| keys::feed_lsn(&a.key) == keys::feed_lsn(&b.key))
            {
                self.supervision.go_on()?;
                if self.is_full() {
                    self.more = true;
                    return Ok(reached);
                }
                let lsn = lsn_of(commit)?;
                self.looked_at += commit.len() as u64;
                let before = (self.changes.len(), self.bytes, self.memory.bytes());
                self.commit_begins = before.0;
                let room = match self.mode {
                    ChangesMode::LatestVersion => self.add_latest(part, view, commit, lsn)?,
                    ChangesMode::AllVersions => self.add_all(part, commit, lsn)?,
                };
                if room == Room::None {
                    self.changes.truncate(before.0);
                    self.bytes = before.1;
                    self.memory.shrink(self.memory.bytes() - before.2);
                    self.more = true;
                    return Ok(reached);
                }
                reached = lsn;
            }
            if !more {
                break;
            }
        }
        Ok(reached.max(view.lsn()))
    }

    fn is_full(&self) -> bool {
        let nanos = self.clock.monotonic_nanos().saturating_sub(self.started_nanos);
        self.changes.len() >= self.items_max
            || self.bytes >= self.settings.page_bytes_max
            || self.memory.bytes() >= self.memory_max
            || self.looked_at >= self.settings.page_entries_max
            || nanos / 1_000_000 >= self.settings.page_millis_max
    }

    /// Takes memory for a change. What does not fit behind other commits begins the next page.
    fn reserve(&mut self, bytes: usize) -> Result<Room> {
        if self.memory.try_grow(bytes) {
            return Ok(Room::Enough);
        }
        if self.commit_begins > 0 {
            return Ok(Room::None);
        }
        self.memory.grow(bytes)?;
        Ok(Room::Enough)
    }

    /// Did this happen too early to be told? Readers begin after a second. Some send it along with
    /// the ETag later, too: then what happened in that second after their first page is new.
    fn is_early(&self, ts: u32, after: Lsn) -> bool {
        let Some(since) = self.since else { return false };
        if after > Lsn(0) { u64::from(ts) < since } else { u64::from(ts) <= since }
    }

    /// Adds the items of a commit that have not changed since.
    fn add_latest(
        &mut self,
        part: &FeedPart<'_>,
        view: &dyn Snapshot,
        commit: &[Entry],
        lsn: Lsn,
    ) -> Result<Room> {
        let (mut item_keys, mut afters) = (Vec::new(), Vec::new());
        for change in last_changes(commit)? {
            let Some(after) = part.after_of(change.item_key)? else { continue };
            let old = after >= lsn || change.ts.is_some_and(|ts| self.is_early(ts, after));
            if change.kind != Kind::Delete && !old {
                item_keys.push(change.item_key.to_vec());
                afters.push(after);
            }
        }
        // Few at a time, as each may be large.
        for (few, afters) in item_keys.chunks(LOAD_MAX).zip(afters.chunks(LOAD_MAX)) {
            for (stored, after) in view.get_many(Space::Items, few)?.into_iter().zip(afters) {
                let Some(stored) = stored else { continue };
                let record = ItemRecord::decode(&stored.value)?;
                let default_ttl = part.container.definition.default_ttl;
                if record.changed_at(stored.lsn) == lsn
                    && !self.is_early(record.ts, *after)
                    && !record.expired(default_ttl, self.now_seconds)
                    && self.add_item(record, lsn)? == Room::None
                {
                    return Ok(Room::None);
                }
            }
        }
        Ok(Room::Enough)
    }

    fn add_item(&mut self, record: ItemRecord, lsn: Lsn) -> Result<Room> {
        let text = record.text()?;
        self.loaded_bytes += text.len() as u64;
        let queried = self.sieve.is_some();
        let current = match self.sieve {
            None => ItemBody(record.body),
            Some(sieve) => match sieve.latest(text, lsn)? {
                None => return Ok(Room::Enough),
                Some(row) => row,
            },
        };
        if self.reserve(current.0.len() + 2 * size_of::<ChangedItem>())? == Room::None {
            return Ok(Room::None);
        }
        self.bytes += current.0.len();
        let (ts, current) = (record.ts, Some(current));
        self.changes.push(ChangedItem { lsn, ts, current, version: None, queried });
        Ok(Room::Enough)
    }

    /// Adds everything that a commit did.
    fn add_all(&mut self, part: &FeedPart<'_>, commit: &[Entry], lsn: Lsn) -> Result<Room> {
        for entry in commit {
            let change = Change::decode(&entry.record.value)?;
            let ts = change.ts.unwrap_or(0);
            let after = part.after_of(change.item_key)?;
            if after.is_none_or(|after| after >= lsn || self.is_early(ts, after)) {
                continue;
            }
            // The container did not keep versions when this was written, or no longer.
            let versions = change.versions.ok_or_else(beyond_retention)?;
            let key = part.key_of(change.item_key)?;
            let body = |text: &[u8]| ItemBody(entry.record.value.slice_ref(text));
            self.loaded_bytes += entry.record.value.len() as u64;
            // Records of former releases have it of replaced and expired items, too.
            let deleted = change.kind == Kind::Delete && !change.expired;
            let previous = versions.previous.filter(|_| deleted).map(body);
            let told = Passed { current: versions.current.map(body), previous };
            let told = match self.sieve {
                None => Some(told),
                Some(sieve) => sieve.versions(told.current.as_ref(), told.previous.as_ref())?,
            };
            let Some(Passed { current, previous }) = told else { continue };
            let size = |body: &Option<ItemBody>| body.as_ref().map_or(0, |body| body.0.len());
            let bytes = size(&current) + size(&previous);
            let places = 2 * (size_of::<ChangedItem>() + size_of::<VersionChange>());
            if self.reserve(bytes + places + change.item_key.len())? == Room::None {
                return Ok(Room::None);
            }
            self.bytes += bytes;
            let version = Some(Box::new(VersionChange {
                kind: change.kind,
                expired: change.expired,
                previous_lsn: versions.previous_lsn.map(|named| feed::version_lsn(named, lsn)),
                previous,
                id: key.id,
                partition_key: key.key,
            }));
            let queried = self.sieve.is_some();
            self.changes.push(ChangedItem { lsn, ts, current, version, queried });
        }
        Ok(Room::Enough)
    }
}

/// Of the changes of a commit the last of each item, in their order.
fn last_changes(commit: &[Entry]) -> Result<Vec<Change<'_>>> {
    let changes = commit.iter().map(|entry| Change::decode(&entry.record.value));
    let mut changes = changes.collect::<Result<Vec<_>>>()?;
    let mut seen = HashSet::new();
    changes.reverse();
    changes.retain(|change| seen.insert(change.item_key));
    changes.reverse();
    Ok(changes)
}

/// Some records of the feed after an LSN, complete commits only; and whether there may be more.
pub(crate) fn commits_after(
    view: &dyn Snapshot,
    lsn: Lsn,
    limit: ScanLimit,
) -> Result<(Vec<Entry>, bool)> {
    let page = view.scan(Space::Feed, &keys::feed_after(lsn), Direction::Forward, limit)?;
    let mut entries = page.entries;
    if let Some(last) = entries.last().filter(|_| page.more) {
        let rest = keys::rest_of_commit(&last.key)?;
        let rest = view.scan(Space::Feed, &rest, Direction::Forward, COMMIT)?;
        entries.extend(rest.entries);
    }
    Ok((entries, page.more))
}

/// The LSN of the commit that these records belong to.
pub(crate) fn lsn_of(commit: &[Entry]) -> Result<Lsn> {
    let lsn = commit.first().and_then(|entry| keys::feed_lsn(&entry.key));
    lsn.ok_or_else(|| Error::corrupt("the key of a record of the feed is damaged"))
}

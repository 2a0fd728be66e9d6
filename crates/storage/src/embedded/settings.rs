//! What can be set of an embedded store, and what is frozen when it is made.
//!
//! Some choices are built into the files: the number of lanes decides where a partition lies, and
//! the engine keeps a keyspace's options from its creation and quietly ignores other ones later. So
//! the frozen choices are written into the data directory when the store is made
//! ([`Frozen`]), and opening it with other ones is an error that says which.

use std::fmt::Write as _;
use std::path::Path;

use std::sync::Arc;

use fjall::CompressionType;
use fjall::KeyspaceCreateOptions;
use fjall::compaction::Leveled;
use fjall::config::{
    BlockSizePolicy, CompressionPolicy, HashRatioPolicy, PartitioningPolicy, PinningPolicy,
    RestartIntervalPolicy,
};

use crate::contract::StorageError;
use crate::contract::{Result, Space};
use crate::embedded::compactor;
use crate::embedded::disk::DiskSettings;
use crate::prepared::Entries;

/// The version of everything this adapter writes around the engine's files. A store keeps the one
/// that it was made with. In the second, entries of the index have no LSN ([`Entries`]). In the
/// third, changes of the index are sorted in later (`index_memtable/`). In the fourth, tables are
/// merged by threads of ours (`compactor/`).
const FORMAT: u64 = 4;

/// More lanes than this share their cores with each other only.
const LANES_MAX: usize = 8;

/// A new store gets no more lanes than have so much memory for changes.
const LANE_WRITE_BYTES: u64 = 32 * 1024 * 1024;

/// Changes of the index are sorted in when they have this part of a lane's memory for changes. As
/// much again may gather meanwhile, and as much is copied when runs of them become one.
const SORT_PART: u64 = 8;

/// The rest of a lane's memory for changes, for the engine's write buffers.
pub(super) fn buffer_bytes(write_bytes_max: u64) -> u64 {
    write_bytes_max / SORT_PART * (SORT_PART - 3)
}

/// Freeing a retired memtable stops readers and writers for a moment that grows with its size. In
/// the soak on two busy cores the worst commit took 0.2 s with 8 MB, 0.46 s with 16 MB, and with
/// 4 MB, where compactions begin to count, 0.34 s; the rate of commits was the same.
const MEMTABLE_BYTES: u64 = 8 * 1024 * 1024;

/// Feed and meta get a quarter: the one is written once and read in order, the other is small.
const SMALL_MEMTABLE_SHARE: u64 = 4;

/// That of the index is larger. An item has many entries, and each counts for about twice the bytes
/// that it has in a table: with equal sizes the index would be flushed more often than the items,
/// into small tables of which each merge with the first level rewrites all of that. Twice the size
/// is freed in the time of [`MEMTABLE_BYTES`] above, since keys and values of a batch lie in one
/// piece ([`crate::prepared`]).
const INDEX_MEMTABLE_TIMES: u64 = 2;

/// That of pending changes of the index, which are sorted in long before they fill it.
const PENDING_MEMTABLE_BYTES: u64 = 64 * 1024 * 1024;

/// The size of tables. The first sorted level holds four of them, and new tables, which lie all
/// over the keys, are merged with all of it: as long as that takes, further ones pile up, and the
/// engine halts the writers when there are 30. With its default of 64 MB, made for memtables of
/// that size, merges took ten seconds and more on two busy cores, and a split ran into that wall.
const TABLE_BYTES: u64 = 16 * 1024 * 1024;

/// A merge of items holds what it has read for the table that it writes: of each block the engine
/// keeps the last key until then, which is a piece of the whole block ([`item_options`]), unpacked:
/// some times as many bytes as the table has on disk. So where there is little memory for write
/// buffers, tables have this part of that; smaller ones than these would only be many.
const MERGED_TABLE_PART: u64 = 5;
const MERGED_TABLE_BYTES_MIN: u64 = 1024 * 1024;

/// The size of the blocks that tables of items are read in. A scan pays for each block (finding it
/// in the cache, searching it for its bounds) and an item takes about 1 KB, so the engine's default
/// of 4 KB made the way through a table half of a scan's work. A read of one item that is not in
/// the cache reads and unpacks a whole block: with 16 KB that took an eighth longer than with 8,
/// where a scan takes a twentieth longer and tables a hundredth more.
const ITEM_BLOCK_BYTES: u32 = 8 * 1024;

/// Blocks have a small hash table, a byte for each place, which leads to a key without a search.
/// So many places there are for each item, and for each entry of an index, most of which nobody
/// asks for by key: those from resource ids to items are the ones that queries do.
const ITEM_HASH_RATIO: f32 = 1.3;
const ENTRY_HASH_RATIO: f32 = 0.75;

/// What stores have that were made before this was chosen: the engine's default.
const TABLE_BYTES_BEFORE: u64 = 64 * 1024 * 1024;

/// The name of the keyspace of pending changes.
pub(super) const PENDING: &str = "pending";

/// When a ticket resolves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// After the batch is on stable storage: nothing acknowledged is lost when the power fails.
    #[default]
    Sync,
    /// After the operating system has the batch: it survives the end of the process, not that of
    /// the machine. For test runs.
    Relaxed,
}

impl Durability {
    pub(super) fn name(self) -> &'static str {
        match self {
            Durability::Sync => "sync",
            Durability::Relaxed => "relaxed",
        }
    }
}

/// How to open an embedded store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddedSettings {
    pub durability: Durability,
    /// For blocks of all lanes together; filled by use, so an idle store does not take it.
    pub cache_bytes: u64,
    /// How much memory changes may take, in all lanes together, until they are in tables: the
    /// engine's write buffers and changes of the index that are not sorted in. Beyond half of it
    /// buffers are written into tables, beyond all of it writers wait. None: as much as the engine
    /// takes for buffers of the size that was chosen, which is some 128 MB for each lane.
    pub write_bytes_max: Option<u64>,
    /// How many lanes a new store gets; none: one per core, up to eight, as far as there is memory
    /// for their changes. An existing store keeps its number, and asking it for another one is an
    /// error.
    pub lanes: Option<usize>,
    /// How large a write buffer of items may grow, and one of index entries to some times that;
    /// frozen as `lanes` is.
    pub memtable_bytes: Option<u64>,
    /// How large a table of items and of index entries may grow; frozen as `lanes` is.
    pub table_bytes: Option<u64>,
    /// How the disk is watched; none: it is not, and the store fails when it is full.
    pub disk: Option<DiskSettings>,
    /// What a new store is called, so that its files are not taken for those of another one: a
    /// random number.
    pub new_id: u64,
}

impl Default for EmbeddedSettings {
    fn default() -> EmbeddedSettings {
        EmbeddedSettings {
            durability: Durability::Sync,
            cache_bytes: 256 * 1024 * 1024,
            write_bytes_max: None,
            lanes: None,
            memtable_bytes: None,
            table_bytes: None,
            disk: None,
            new_id: 0,
        }
    }
}

/// The choices that are built into the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frozen {
    format: u64,
    pub(super) lanes: usize,
    pub(super) memtable_bytes: u64,
    /// How many times that of the index.
    pub(super) index_memtable_times: u64,
    pub(super) table_bytes: u64,
}

impl Frozen {
    /// For a store that is being made.
    pub(super) fn choose(settings: &EmbeddedSettings) -> Result<Frozen> {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let by_memory = settings.write_bytes_max.map_or(u64::MAX, |bytes| bytes / LANE_WRITE_BYTES);
        let by_memory = usize::try_from(by_memory).unwrap_or(usize::MAX).max(1);
        let lanes = settings.lanes.unwrap_or_else(|| cores().min(LANES_MAX).min(by_memory));
        if !(1..=LANES_MAX).contains(&lanes) {
            return Err(StorageError::Settings(format!(
                "{lanes} lanes; between 1 and {LANES_MAX} are possible"
            )));
        }
        let memtable_bytes = settings.memtable_bytes.unwrap_or(MEMTABLE_BYTES);
        let table_bytes = settings.table_bytes.unwrap_or(TABLE_BYTES);
        let index_memtable_times = INDEX_MEMTABLE_TIMES;
        let format = FORMAT;
        Ok(Frozen { format, lanes, memtable_bytes, index_memtable_times, table_bytes })
    }

    /// The keyspaces of a lane, in the order in which they are made.
    pub(super) fn keyspace_names(&self) -> Vec<&'static str> {
        let spaces = Space::ALL.into_iter().map(keyspace_name);
        spaces.chain(self.has_pending().then_some(PENDING)).collect()
    }

    /// How much of the index is sorted in at once: as much as its write buffer would hold, or what
    /// there is memory for.
    pub(super) fn sort_bytes(&self, write_bytes_max: Option<u64>) -> usize {
        let bytes = self.memtable_bytes.saturating_mul(self.index_memtable_times);
        let bytes = write_bytes_max.map_or(bytes, |most| bytes.min((most / SORT_PART).max(1)));
        usize::try_from(bytes).unwrap_or(usize::MAX / 4)
    }

    /// Whether changes of the index are sorted in later.
    pub(super) fn has_pending(&self) -> bool {
        self.format >= 3
    }

    /// Whether the engine leaves it to us to merge tables.
    pub(super) fn has_compactor(&self) -> bool {
        self.format >= 4
    }

    /// How large tables of a space may grow.
    pub(super) fn table_bytes_of(&self, space: Space) -> u64 {
        self.table_bytes / share(space)
    }

    /// How large a merge makes tables of a space, with so much memory for write buffers.
    pub(super) fn merged_table_bytes(&self, space: Space, buffer_bytes_max: Option<u64>) -> u64 {
        let bytes = self.table_bytes_of(space);
        match (space, buffer_bytes_max) {
            (Space::Items, Some(buffers)) => {
                bytes.min((buffers / MERGED_TABLE_PART).max(MERGED_TABLE_BYTES_MIN))
            }
            _ => bytes,
        }
    }

    /// How large the write buffer of a space may grow.
    pub(super) fn buffer_bytes_of(&self, space: Space) -> u64 {
        let times = if space == Space::Index { self.index_memtable_times } else { 1 };
        self.memtable_bytes / share(space) * times
    }

    pub(super) fn entries(&self) -> Entries {
        if self.format == 1 { Entries::Stamped } else { Entries::Bare }
    }

    /// Compares with what the caller wants; what is not said is not compared.
    pub(super) fn check(&self, settings: &EmbeddedSettings, path: &Path) -> Result<()> {
        let refuse = |what: &str, made: u64, wanted: u64| {
            let path = path.display();
            Err(StorageError::Settings(format!(
                "the store in {path} was made with {what} = {made} and cannot be opened with \
                 {wanted}: leave the setting out, or copy the data into a new store"
            )))
        };
        match settings.lanes {
            Some(lanes) if lanes != self.lanes => {
                return refuse("lanes", self.lanes as u64, lanes as u64);
            }
            _ => {}
        }
        match settings.memtable_bytes {
            Some(bytes) if bytes != self.memtable_bytes => {
                return refuse("memtable-bytes", self.memtable_bytes, bytes);
            }
            _ => {}
        }
        match settings.table_bytes {
            Some(bytes) if bytes != self.table_bytes => {
                refuse("table-bytes", self.table_bytes, bytes)
            }
            _ => Ok(()),
        }
    }

    /// The options of one keyspace. What is not named here is the engine's default of the pinned
    /// version. An existing keyspace keeps those that it was made with.
    ///
    /// Tables of the index and the feed are read by ranges, which ask no filter, and where a key is
    /// asked for it is there: the last level, which has most of the keys, does without filters.
    pub(super) fn keyspace_options(&self, space: Space) -> KeyspaceCreateOptions {
        let options = match space {
            Space::Items => item_options(),
            Space::Index | Space::Feed => in_pieces()
                .expect_point_read_hits(true)
                .data_block_hash_ratio_policy(HashRatioPolicy::all(ENTRY_HASH_RATIO)),
            Space::Meta => in_pieces(),
        };
        options
            .data_block_compression_policy(self.compression())
            .max_memtable_size(self.buffer_bytes_of(space))
            .compaction_strategy(Arc::new(match self.has_compactor() {
                true => compactor::never(),
                false => Leveled::default().with_table_target_size(self.table_bytes_of(space)),
            }))
            .manual_journal_persist(true)
    }

    /// New tables are merged soon, and those of the first level again and again. Where we merge,
    /// a lane at rest has what is not very large in the last one (`compactor/idle.rs`).
    fn compression(&self) -> CompressionPolicy {
        use CompressionType::{Lz4, None};
        if self.has_compactor() {
            CompressionPolicy::new([None, None, Lz4])
        } else {
            CompressionPolicy::new([None, Lz4])
        }
    }

    /// The options of the keyspace of pending changes. Its records are deleted before they fill a
    /// buffer, so that few reach a table.
    pub(super) fn pending_options(&self) -> KeyspaceCreateOptions {
        KeyspaceCreateOptions::default()
            .max_memtable_size(PENDING_MEMTABLE_BYTES)
            .compaction_strategy(Arc::new(match self.has_compactor() {
                true => compactor::never(),
                false => Leveled::default(),
            }))
            .manual_journal_persist(true)
    }

    pub(super) fn to_text(&self) -> String {
        let mut text = String::new();
        for (name, value) in self.lines() {
            writeln!(text, "{name} = {value}").expect("a string takes all text");
        }
        text
    }

    fn lines(&self) -> [(&'static str, u64); 6] {
        [
            ("format", self.format),
            ("lanes", self.lanes as u64),
            ("memtable-bytes", self.memtable_bytes),
            ("small-memtable-share", SMALL_MEMTABLE_SHARE),
            ("index-memtable-times", self.index_memtable_times),
            ("table-bytes", self.table_bytes),
        ]
    }

    /// The inverse of [`Frozen::to_text`]. A store of another format is refused by name.
    pub(super) fn parse(text: &str, path: &Path) -> Result<Frozen> {
        let damaged = |why: &str| {
            StorageError::Corrupt(format!("{} does not describe a store: {why}", path.display()))
        };
        let text_of = |name: &str| {
            let mut pairs = text.lines().filter_map(|line| line.split_once(" = "));
            pairs.find(|(key, _)| *key == name).map(|(_, value)| value.trim())
        };
        let number = |name: &str| -> Result<u64> {
            text_of(name).and_then(|value| value.parse().ok()).ok_or_else(|| damaged(name))
        };
        let format = number("format")?;
        if !(1..=FORMAT).contains(&format) {
            return Err(StorageError::Settings(format!(
                "the store described in {} has format {format}; this version reads formats up to \
                 {FORMAT}",
                path.display()
            )));
        }
        if number("small-memtable-share")? != SMALL_MEMTABLE_SHARE {
            return Err(damaged("small-memtable-share"));
        }
        let lanes = usize::try_from(number("lanes")?).map_err(|_| damaged("lanes"))?;
        if !(1..=LANES_MAX).contains(&lanes) {
            return Err(damaged("lanes"));
        }
        let table_bytes = match text_of("table-bytes") {
            Some(_) => number("table-bytes")?,
            None => TABLE_BYTES_BEFORE,
        };
        let index_memtable_times = match text_of("index-memtable-times") {
            Some(_) => number("index-memtable-times")?,
            // Stores from before this was chosen.
            None => 1,
        };
        let memtable_bytes = number("memtable-bytes")?;
        Ok(Frozen { format, lanes, memtable_bytes, index_memtable_times, table_bytes })
    }
}

/// The name of a space's keyspace.
pub(super) fn keyspace_name(space: Space) -> &'static str {
    match space {
        Space::Items => "items",
        Space::Index => "index",
        Space::Feed => "feed",
        Space::Meta => "meta",
    }
}

/// What write buffers and tables of a space are divided by.
fn share(space: Space) -> u64 {
    if matches!(space, Space::Feed | Space::Meta) { SMALL_MEMTABLE_SHARE } else { 1 }
}

/// Filters and block indexes are cut into pieces of a few KB in all but the newest tables: whole
/// ones have megabytes, and where the cache cannot keep them each read of a key took 0.5 ms to read
/// and verify them again.
fn in_pieces() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .filter_block_partitioning_policy(PartitioningPolicy::new([false, true]))
        .index_block_partitioning_policy(PartitioningPolicy::new([false, true]))
}

/// Items are large and read most: their filters, a thousandth of their size, stay in memory whole,
/// and so do their block indexes, which have 40 bytes for each block. Every key is stored whole,
/// too: it is handed out as a piece of its block, while one that shares its beginning with the key
/// before would have to be put together for each reader.
fn item_options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .data_block_size_policy(BlockSizePolicy::all(ITEM_BLOCK_BYTES))
        .data_block_restart_interval_policy(RestartIntervalPolicy::all(1))
        .data_block_hash_ratio_policy(HashRatioPolicy::all(ITEM_HASH_RATIO))
        .filter_block_partitioning_policy(PartitioningPolicy::all(false))
        .filter_block_pinning_policy(PinningPolicy::all(true))
        .index_block_partitioning_policy(PartitioningPolicy::all(false))
        .index_block_pinning_policy(PinningPolicy::all(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frozen() -> Frozen {
        Frozen {
            format: FORMAT,
            lanes: 3,
            memtable_bytes: 1 << 20,
            index_memtable_times: 2,
            table_bytes: 1 << 22,
        }
    }

    #[test]
    fn the_text_is_read_back() {
        let path = Path::new("store");
        assert_eq!(Frozen::parse(&frozen().to_text(), path), Ok(frozen()));
    }

    #[test]
    fn merges_make_smaller_tables_of_items_where_there_is_little_memory() {
        let frozen = Frozen { table_bytes: TABLE_BYTES, ..frozen() };
        let of = |space, mb: Option<u64>| frozen.merged_table_bytes(space, mb.map(|mb| mb << 20));
        let items = [None, Some(1_000), Some(10), Some(1)].map(|mb| of(Space::Items, mb) >> 20);
        assert_eq!(items, [16, 16, 2, 1]);
        assert_eq!(of(Space::Index, Some(10)), TABLE_BYTES, "its keys are put together");
    }

    #[test]
    fn a_store_from_before_the_size_of_tables_was_chosen_has_the_former_one() {
        let path = Path::new("store");
        let text = frozen().to_text().replace("table-bytes = 4194304\n", "");
        let former = Frozen { table_bytes: TABLE_BYTES_BEFORE, ..frozen() };
        assert_eq!(Frozen::parse(&text, path), Ok(former));
    }

    #[test]
    fn a_store_from_before_the_index_had_larger_buffers_has_equal_ones() {
        let text = frozen().to_text().replace("index-memtable-times = 2\n", "");
        let former = Frozen { index_memtable_times: 1, ..frozen() };
        assert_eq!(Frozen::parse(&text, Path::new("store")), Ok(former));
    }

    #[test]
    fn a_store_of_a_later_format_is_refused_by_name() {
        let text = frozen().to_text().replace("format = 4", "format = 5");
        let error = Frozen::parse(&text, Path::new("store")).unwrap_err();
        assert!(error.to_string().contains("has format 5; this version reads formats up to 4"));
    }

    #[test]
    fn a_store_of_an_earlier_format_keeps_it() {
        for (format, entries) in [(1, Entries::Stamped), (2, Entries::Bare)] {
            let text = frozen().to_text().replace("format = 4", &format!("format = {format}"));
            let former = Frozen::parse(&text, Path::new("store")).unwrap();
            assert_eq!((former.to_text(), former.entries()), (text, entries));
            assert!(!former.has_pending());
        }
        let text = frozen().to_text().replace("format = 4", "format = 3");
        let former = Frozen::parse(&text, Path::new("store")).unwrap();
        assert_eq!((former.has_pending(), former.has_compactor()), (true, false));
        assert_eq!((frozen().entries(), frozen().has_pending()), (Entries::Bare, true));
        assert!(frozen().has_compactor());
    }

    #[test]
    fn a_cut_or_foreign_file_is_damage() {
        for text in ["", "something else", "format = 1\nlanes = 2"] {
            let parsed = Frozen::parse(text, Path::new("store"));
            assert!(matches!(parsed, Err(StorageError::Corrupt(_))), "{text:?}");
        }
    }

    #[test]
    fn only_what_the_caller_says_is_compared() {
        let path = Path::new("store");
        let mut settings = EmbeddedSettings::default();
        assert_eq!(frozen().check(&settings, path), Ok(()));
        settings.lanes = Some(3);
        assert_eq!(frozen().check(&settings, path), Ok(()));
        settings.lanes = Some(4);
        assert!(frozen().check(&settings, path).is_err());
    }

    #[test]
    fn write_buffers_are_small_and_smaller_for_feed_and_meta() {
        // Each retired buffer stops the store for a time that grows with its size.
        let frozen = Frozen::choose(&EmbeddedSettings::default()).unwrap();
        assert_eq!(frozen.memtable_bytes, 8 * 1024 * 1024);
        assert_eq!(frozen.memtable_bytes / SMALL_MEMTABLE_SHARE, 2 * 1024 * 1024);
        assert_eq!(frozen.memtable_bytes * frozen.index_memtable_times, 16 * 1024 * 1024);
    }
}

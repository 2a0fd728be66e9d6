//! Items that were read or written lately, each in one piece.
//!
//! The engine finds an item by way of filters, block indexes, its cache of blocks and a block. With
//! a million items nearly all of these places are memory that the processor has not seen lately,
//! and the way takes three microseconds. So a lane keeps items by their keys, too, in a part of the
//! memory for caches: few places, and a kilobyte for each item instead of the block around it.
//!
//! **Whether a view shows it.** What is kept of a key is always the newest: the committer replaces
//! it, after a group is written and before the view is published. A kept item says since which
//! group it is known to be what it is, and only views that are not older get it; others ask the
//! engine. Who has read an item from a view keeps it only if the committer has not changed it in
//! the meantime: that is told by [`Changes`], for some thousand classes of keys, and nobody changes
//! or keeps a key of a class while another one does.
//!
//! Keys are compared as they are: the hash under which an item is kept only leads to it.

use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};

use crate::prepared::Change;

/// What an item takes in memory beside its bytes, about.
const OVERHEAD_BYTES: u64 = 128;

/// Larger items stay where they are: next to them the way does not count.
const ITEM_BYTES_MAX: usize = 64 * 1024;

/// A group whose items have more bytes than this is large. Those of 64 writes by as many clients
/// have about half of it.
const GROUP_BYTES_MAX: usize = 128 * 1024;

/// Classes of keys. With more of them a reader is less often wrong to think that its item changed.
const CLASSES: usize = 4 * 1024;

/// The items that a lane keeps.
pub(super) struct RowCache {
    items: Cache<u64, Item, Weights, BuildHasherDefault<Hashed>>,
    hashes: RandomState,
    changes: Changes,
}

#[derive(Clone)]
struct Item {
    /// Since this group, at least, it is what it is.
    since: u64,
    /// The key and, behind it, what is stored.
    bytes: Bytes,
    key_bytes: usize,
    /// Whether anything is stored. Who creates an item looks whether it is there, and the
    /// committer looks again.
    is_there: bool,
}

impl RowCache {
    pub(super) fn new(bytes_max: u64) -> RowCache {
        let options = OptionsBuilder::new()
            .weight_capacity(bytes_max)
            .estimated_items_capacity(1_000)
            .build()
            .expect("both numbers are given");
        let (weights, lifecycle) = (Weights, DefaultLifecycle::default());
        let items = Cache::with_options(options, weights, BuildHasherDefault::default(), lifecycle);
        RowCache { items, hashes: RandomState::new(), changes: Changes::default() }
    }

    /// What is stored under a key as of a group, or that nothing is, if that is known.
    pub(super) fn get(&self, key: &[u8], group: u64) -> Option<Option<Bytes>> {
        let hash = self.hashes.hash_one(key);
        let item = self.items.get(&hash)?;
        let is_it = item.bytes.get(..item.key_bytes) == Some(key);
        let stored = || item.is_there.then(|| item.bytes.slice(item.key_bytes..));
        (is_it && item.since <= group).then(stored)
    }

    /// Keeps what was found under a key as of a group.
    pub(super) fn keep(&self, key: &[u8], stored: Option<&[u8]>, group: u64) {
        let hash = self.hashes.hash_one(key);
        let item = Item::new(key, stored, group);
        let last_changed = self.changes.lock(hash);
        if *last_changed <= group {
            self.put(hash, item);
        }
    }

    /// The changes of a group, which is not to be seen yet. Of a large one nothing is kept: that is
    /// data being loaded, which would take the place of what is read, and the committer's time.
    pub(super) fn change_all(&self, changes: &[Change], group: u64) {
        let is_large = changes.iter().map(Change::size_bytes).sum::<usize>() > GROUP_BYTES_MAX;
        for Change { key, stored, .. } in changes {
            let item = if is_large { None } else { Item::new(key, stored.as_deref(), group) };
            let hash = self.hashes.hash_one(&key[..]);
            let mut last_changed = self.changes.lock(hash);
            *last_changed = group;
            self.put(hash, item);
        }
    }

    /// Puts an item in the place of what was there.
    fn put(&self, hash: u64, item: Option<Item>) {
        match item {
            Some(item) => self.items.insert(hash, item),
            None => drop(self.items.remove(&hash)),
        }
    }
}

impl Item {
    /// None if it is too large to be kept.
    fn new(key: &[u8], stored: Option<&[u8]>, since: u64) -> Option<Item> {
        let (is_there, key_bytes) = (stored.is_some(), key.len());
        let stored = stored.unwrap_or_default();
        if key.len() + stored.len() > ITEM_BYTES_MAX {
            return None;
        }
        // A copy: what is stored is a part of something larger.
        let bytes = Bytes::from([key, stored].concat());
        Some(Item { since, bytes, key_bytes, is_there })
    }
}

/// The last group that changed a key, by classes of hashes.
struct Changes(Box<[Mutex<u64>]>);

impl Default for Changes {
    fn default() -> Changes {
        Changes((0..CLASSES).map(|_| Mutex::default()).collect())
    }
}

impl Changes {
    fn lock(&self, hash: u64) -> MutexGuard<'_, u64> {
        // The remainder is below the number of classes.
        let class = &self.0[(hash % CLASSES as u64) as usize];
        class.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone)]
struct Weights;

impl Weighter<u64, Item> for Weights {
    fn weight(&self, _: &u64, item: &Item) -> u64 {
        item.bytes.len() as u64 + OVERHEAD_BYTES
    }
}

/// Numbers that are hashes already.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only numbers are hashed")
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Space;

    const KEY: &[u8] = b"key";
    const ONE: Option<&[u8]> = Some(b"one");
    const TWO: Option<&[u8]> = Some(b"two");

    fn change(cache: &RowCache, stored: Option<&[u8]>, group: u64) {
        let stored = stored.map(Bytes::copy_from_slice);
        let change = Change { space: Space::Items, key: Bytes::from_static(KEY), stored };
        cache.change_all(&[change], group);
    }

    fn is(cache: &RowCache, group: u64, stored: Option<&[u8]>) -> bool {
        cache.get(KEY, group).is_some_and(|found| found.as_deref() == stored)
    }

    #[test]
    fn an_item_is_handed_out_to_views_since_its_last_change_only() {
        let cache = RowCache::new(1 << 20);
        cache.keep(KEY, ONE, 5);
        assert!(is(&cache, 5, ONE) && is(&cache, 9, ONE));
        assert_eq!(cache.get(KEY, 4), None, "nobody has looked");
        change(&cache, TWO, 10);
        assert_eq!(cache.get(KEY, 9), None, "a view from before the change");
        assert!(is(&cache, 10, TWO));
        change(&cache, None, 11);
        assert_eq!(cache.get(KEY, 10), None);
        assert!(is(&cache, 11, None));
    }

    #[test]
    fn what_was_read_before_a_change_is_not_kept_after_it() {
        let cache = RowCache::new(1 << 20);
        change(&cache, TWO, 10);
        cache.keep(KEY, ONE, 9);
        assert!(is(&cache, 10, TWO));
    }

    #[test]
    fn of_a_large_group_nothing_is_kept_nor_of_what_was_there_before() {
        let cache = RowCache::new(1 << 20);
        let change = |key: &'static [u8], bytes| Change {
            space: Space::Items,
            key: Bytes::from_static(key),
            stored: Some(Bytes::from(vec![0; bytes])),
        };
        cache.change_all(&[change(KEY, 1), change(b"other", 10_000)], 1);
        assert!(is(&cache, 1, Some(&[0])));
        cache.change_all(&[change(KEY, 2), change(b"other", GROUP_BYTES_MAX)], 2);
        assert_eq!(cache.get(KEY, 2), None);
        cache.keep(KEY, Some(&[0]), 1);
        assert_eq!(cache.get(KEY, 2), None, "read before the change");
    }

    #[test]
    fn a_large_item_takes_the_place_of_a_small_one() {
        // The second is too large for what there is.
        for (bytes_max, bytes) in [(1 << 20, ITEM_BYTES_MAX), (4_096, 4_096)] {
            let cache = RowCache::new(bytes_max);
            cache.keep(KEY, ONE, 1);
            assert!(is(&cache, 1, ONE));
            change(&cache, Some(&vec![0; bytes]), 2);
            assert_eq!(cache.get(KEY, 2), None, "and is not kept itself");
        }
    }

    #[test]
    fn another_key_with_the_same_hash_is_not_found() {
        let cache = RowCache::new(1 << 20);
        let hash = cache.hashes.hash_one(KEY);
        for other in [&b"ke"[..], b"keys", b"kex"] {
            cache.put(hash, Item::new(other, Some(b"y and more"), 1));
            assert_eq!(cache.get(KEY, 1), None);
        }
        cache.put(hash, Item::new(KEY, ONE, 1));
        assert!(is(&cache, 1, ONE));
    }

    #[test]
    fn memory_is_bounded_and_may_be_none() {
        let cache = RowCache::new(100_000);
        for number in 0..10_000_u64 {
            cache.keep(&number.to_be_bytes(), Some(&[0; 100]), 1);
        }
        assert!(cache.items.weight() <= 100_000 && cache.items.len() > 100);
        let none = RowCache::new(0);
        none.keep(KEY, ONE, 1);
        assert_eq!(none.get(KEY, 1), None);
    }
}

//! The logical partitions that cost most, in little memory and next to no time.
//!
//! A *space-saving* list: a fixed number of keys with what was counted for them. A key that is not
//! in a full list takes the place of the one with the least, and its count: so a key that really
//! costs much is surely in the list, and a count is too high by at most the least one. Counts are
//! halved every minute, so that the list tells of the last minutes and not of last week.
//!
//! Only one request in so many request units is looked at, and nobody waits for the lock: what is
//! lost is a sample.

use partita_model::{Epk, PartitionKey};

/// Keys that are kept.
const KEYS_MAX: usize = 32;

/// Counts are halved after this time.
const HALF_LIFE_NANOS: u64 = 60_000_000_000;

/// A logical partition and what it cost lately.
#[derive(Clone, Debug, PartialEq)]
pub struct HotKey {
    /// The hash that places it.
    pub epk: Epk,
    /// The partition key as a JSON array.
    pub key: String,
    /// Request units of the last minutes, older ones counted less.
    pub ru: f64,
}

#[derive(Debug, Default)]
pub(super) struct HotKeys {
    keys: Vec<HotKey>,
    halved_at: u64,
}

impl HotKeys {
    /// Counts request units of a logical partition.
    pub(super) fn add(&mut self, now: u64, epk: &Epk, key: &PartitionKey, ru: f64) {
        self.fade(now);
        // Two keys may have one hash; the text decides.
        let same = |known: &&mut HotKey| known.epk == *epk && known.key == key.to_string();
        if let Some(known) = self.keys.iter_mut().find(same) {
            known.ru += ru;
            return;
        }
        let entry = |before| HotKey { epk: epk.clone(), key: key.to_string(), ru: before + ru };
        if self.keys.len() < KEYS_MAX {
            self.keys.push(entry(0.0));
        } else if let Some(least) = self.keys.iter_mut().min_by(|a, b| a.ru.total_cmp(&b.ru)) {
            *least = entry(least.ru);
        }
    }

    /// The keys that cost most, the most expensive first.
    pub(super) fn top(&mut self, now: u64, count: usize) -> Vec<HotKey> {
        self.fade(now);
        let mut keys = self.keys.clone();
        keys.sort_by(|a, b| b.ru.total_cmp(&a.ru).then_with(|| a.epk.cmp(&b.epk)));
        keys.truncate(count);
        keys
    }

    fn fade(&mut self, now: u64) {
        let halvings = now.saturating_sub(self.halved_at) / HALF_LIFE_NANOS;
        if halvings == 0 {
            return;
        }
        self.halved_at += halvings * HALF_LIFE_NANOS;
        let factor = 0.5_f64.powi(i32::try_from(halvings).unwrap_or(i32::MAX));
        for key in &mut self.keys {
            key.ru *= factor;
        }
        // What has faded to nothing makes room.
        self.keys.retain(|key| key.ru >= 1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use partita_model::KeyPart;

    fn key(n: u32) -> (Epk, PartitionKey) {
        let part = KeyPart::String(format!("k{n}"));
        (Epk::from_bytes(n.to_be_bytes().to_vec()), PartitionKey(vec![part]))
    }

    #[test]
    fn expensive_keys_are_found_among_many_cheap_ones() {
        let mut hot = HotKeys::default();
        for n in 0..10_000_u32 {
            let (epk, cheap) = key(1_000 + n);
            hot.add(0, &epk, &cheap, 1.0);
            for expensive in (0..3).filter(|expensive| n % (10 << expensive) == 0) {
                let (epk, expensive) = key(expensive);
                hot.add(0, &epk, &expensive, 10.0);
            }
        }
        let top = hot.top(0, 3);
        let names: Vec<&str> = top.iter().map(|hot| hot.key.as_str()).collect();
        assert_eq!(names, [r#"["k0"]"#, r#"["k1"]"#, r#"["k2"]"#]);
        assert!(hot.top(0, 100).len() <= KEYS_MAX);
    }

    #[test]
    fn what_was_hot_cools_down() {
        let mut hot = HotKeys::default();
        let (epk, pk) = key(7);
        hot.add(0, &epk, &pk, 100.0);
        assert_eq!(hot.top(HALF_LIFE_NANOS, 1)[0].ru, 50.0);
        assert_eq!(hot.top(3 * HALF_LIFE_NANOS, 1)[0].ru, 12.5);
        assert_eq!(hot.top(100 * HALF_LIFE_NANOS, 1), []);
    }
}

//! A bounded sample of a stream of items.
//!
//! Reservoir sampling: every item of the stream is kept with the same probability, however long the
//! stream is. The random numbers come from a fixed seed, so the same stream gives the same sample.

use partita_model::{Entropy, Error, Result, SeededEntropy, json};

/// Items as they came, at most a number of them.
#[derive(Debug)]
pub struct Sample {
    items_max: usize,
    entropy: SeededEntropy,
    /// The place in the stream, and the compact text.
    kept: Vec<(u64, String)>,
    seen: u64,
    bytes: u64,
}

impl Sample {
    /// A sample of at most so many items.
    pub fn new(items_max: usize) -> Sample {
        let items_max = items_max.max(1);
        Sample { items_max, entropy: SeededEntropy::new(1), kept: Vec::new(), seen: 0, bytes: 0 }
    }

    /// Looks at the next item of the stream, a JSON object.
    pub fn offer(&mut self, item: &[u8]) -> Result<()> {
        let place = self.seen;
        self.seen += 1;
        self.bytes += item.len() as u64;
        if self.kept.len() < self.items_max {
            self.kept.push((place, compact(item)?));
            return Ok(());
        }
        let slot = self.entropy.next_u64() % self.seen;
        if let Some(kept) = usize::try_from(slot).ok().and_then(|slot| self.kept.get_mut(slot)) {
            *kept = (place, compact(item)?);
        }
        Ok(())
    }

    /// Items of the whole stream.
    pub fn items_seen(&self) -> u64 {
        self.seen
    }

    /// Bytes of the whole stream.
    pub fn bytes_seen(&self) -> u64 {
        self.bytes
    }

    /// The sample in the order of the stream.
    pub(crate) fn items(&self) -> Vec<&str> {
        let mut items: Vec<&(u64, String)> = self.kept.iter().collect();
        items.sort_by_key(|(place, _)| *place);
        items.into_iter().map(|(_, text)| text.as_str()).collect()
    }
}

/// The item as documents are read.
fn compact(item: &[u8]) -> Result<String> {
    json::compact_object(item).map_err(|error| Error::bad_request(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_bounded_spread_and_the_same_each_time() {
        let draw = || {
            let mut sample = Sample::new(100);
            for number in 0..10_000 {
                sample.offer(format!("{{\"n\": {number}}}").as_bytes()).unwrap();
            }
            assert_eq!(sample.items_seen(), 10_000);
            sample.items().into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        let first = draw();
        assert_eq!(first.len(), 100);
        assert_eq!(first, draw());
        let number = |text: &String| text[5..text.len() - 1].parse::<u32>().unwrap();
        let numbers: Vec<u32> = first.iter().map(number).collect();
        assert!(numbers.is_sorted());
        let early = numbers.iter().filter(|number| **number < 5_000).count();
        assert!((30..70).contains(&early), "{early} of 100 are from the first half");
    }

    #[test]
    fn what_is_no_object_is_refused() {
        assert!(Sample::new(1).offer(b"[1]").is_err());
        assert!(Sample::new(1).offer(b"{\"a\":").is_err());
    }
}

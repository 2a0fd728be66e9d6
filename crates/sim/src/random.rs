//! Random numbers that everybody can repeat: splitmix64.

use partita_model::{Entropy, SeededEntropy};

/// A sequence of numbers that belongs to its seed.
#[derive(Debug)]
pub struct Random(SeededEntropy);

impl Random {
    /// The sequence that belongs to this seed.
    pub fn new(seed: u64) -> Random {
        Random(SeededEntropy::new(seed))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `limit`; 0 if there is none.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.bits() % (limit.max(1) as u64)) as usize
    }

    /// A small number below `limit`.
    pub fn small(&mut self, limit: u8) -> u8 {
        self.below(usize::from(limit)) as u8
    }

    /// True once in so many times.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// Which of these, each as likely as its weight says.
    pub fn weighted(&mut self, weights: &[u32]) -> usize {
        let sum: u32 = weights.iter().sum();
        let mut left = self.below(sum as usize) as u32;
        for (at, weight) in weights.iter().enumerate() {
            if left < *weight {
                return at;
            }
            left -= weight;
        }
        0
    }
}

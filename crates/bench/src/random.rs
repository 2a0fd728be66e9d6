//! Numbers that look random and are the same in every run, and the skewed choice that YCSB makes.

/// Turns a number into one that has nothing in common with its neighbours' (SplitMix64's finish).
pub(crate) fn scatter(seed: u64) -> u64 {
    let x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// A sequence that follows from its seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(scatter(seed))
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        scatter(self.0)
    }

    /// A number below this one.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.number() % end.max(1)
    }

    /// From 0 up to, but without, 1.
    fn unit(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// How skewed the choice is; the constant of YCSB.
const THETA: f64 = 0.99;

/// Ranks that follow Zipf's law: rank 0 is the most frequent, and a few ranks make up most of it.
///
/// The method is that of Gray and others, "Quickly Generating Billion-Record Synthetic Databases":
/// one sum over all ranks beforehand, one power for each number.
pub(crate) struct Zipf {
    items: u64,
    total: f64,
    two: f64,
    eta: f64,
}

impl Zipf {
    pub(crate) fn new(items: u64) -> Zipf {
        let items = items.max(1);
        let weight = |rank: u64| (rank as f64).powf(-THETA);
        let total: f64 = (1..=items).map(weight).sum();
        let two = 1.0 + weight(2);
        let eta =
            (1.0 - (2.0 / items as f64).powf(1.0 - THETA)) / (1.0 - two / total.max(two + 1e-9));
        Zipf { items, total, two, eta }
    }

    pub(crate) fn rank(&self, random: &mut Random) -> u64 {
        let unit = random.unit();
        let share = unit * self.total;
        if share < 1.0 {
            return 0;
        }
        if share < self.two {
            return 1.min(self.items - 1);
        }
        let at = (self.eta * unit - self.eta + 1.0).powf(1.0 / (1.0 - THETA));
        ((self.items as f64 * at) as u64).min(self.items - 1)
    }

    /// The same with the frequent ones spread over all items, as popular items are.
    pub(crate) fn scattered(&self, random: &mut Random) -> u64 {
        scatter(self.rank(random)) % self.items
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_sequence() {
        let take = |seed| {
            let mut random = Random::new(seed);
            (0..4).map(|_| random.below(1_000)).collect::<Vec<_>>()
        };
        assert_eq!(take(7), take(7));
        assert_ne!(take(7), take(8));
    }

    #[test]
    fn ranks_follow_zipfs_law() {
        const DRAWS: usize = 200_000;
        let zipf = Zipf::new(1_000);
        let mut random = Random::new(1);
        let mut counts = vec![0_usize; 1_000];
        for _ in 0..DRAWS {
            counts[zipf.rank(&mut random) as usize] += 1;
        }
        for (rank, count) in counts.iter().enumerate().take(2) {
            let expected = DRAWS as f64 * ((rank + 1) as f64).powf(-THETA) / zipf.total;
            let share = *count as f64 / expected;
            assert!((0.9..1.1).contains(&share), "rank {rank}: {count}, not about {expected:.0}");
        }
        // Of the law itself, 0.67 of the draws go to the first hundredth and nine more of them.
        let first: usize = counts.iter().take(100).sum();
        assert!((0.62..0.72).contains(&(first as f64 / DRAWS as f64)), "{first}");
        assert!(counts.iter().skip(900).any(|count| *count > 0), "the rare ones are never chosen");
    }

    #[test]
    fn popular_items_are_spread_and_the_same_in_every_run() {
        let zipf = Zipf::new(10_000);
        let draw = || {
            let mut random = Random::new(3);
            (0..1_000).map(|_| zipf.scattered(&mut random)).collect::<Vec<_>>()
        };
        let drawn = draw();
        assert_eq!(drawn, draw());
        assert!(drawn.iter().all(|item| *item < 10_000));
        assert!(drawn.iter().filter(|item| **item < 100).count() < 500, "they crowd at the front");
    }

    #[test]
    fn a_single_item_is_always_chosen() {
        let mut random = Random::new(5);
        let zipf = Zipf::new(1);
        assert!((0..100).all(|_| zipf.rank(&mut random) == 0));
    }
}

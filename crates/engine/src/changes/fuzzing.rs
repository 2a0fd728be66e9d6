//! Any bytes as ETags of the change feed, and as the history of a container that is read, split and
//! merged.

use partita_model::{Epk, EpkRange, Lsn};
use partita_storage::PartitionId;

use super::position::{Asked, Piece, Position};
use crate::catalog::{FormerRanges, Partition};

/// What is an ETag comes back as it went, and every byte of EPKs has one position. Then a reader
/// that starts at the beginning is told every change of a history, and each of them once.
pub fn feed_position(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if let Ok(position) = Position::parse(&text) {
        assert_eq!(Position::parse(&position.to_string()), Ok(position));
    }
    let mut history = History::new();
    for pair in input.chunks_exact(2) {
        if let [what, which] = *pair {
            history.step(what, usize::from(which));
        }
    }
    history.read(usize::MAX);
    assert_eq!(history.told, history.written);
}

/// A partition, and what is in its feed: the LSN and the key, which is its EPK, of every change.
struct Filled {
    partition: Partition,
    lsn: Lsn,
    feed: Vec<(Lsn, u8)>,
}

struct History {
    partitions: Vec<Filled>,
    former: FormerRanges,
    last_id: u32,
    etag: Option<String>,
    /// How often each key was written, and told to the reader.
    written: [usize; KEYS],
    told: [usize; KEYS],
    /// The LSN of what was told last of each key.
    lsns: [Lsn; KEYS],
}

const KEYS: usize = 32;
const PARTITIONS_MAX: usize = 8;

fn bound(key: u8) -> Epk {
    Epk::from(vec![key])
}

fn key_of(epk: &Epk) -> u8 {
    epk.as_bytes().first().copied().unwrap_or_default()
}

impl History {
    fn new() -> History {
        let all = EpkRange::new(bound(0), bound(KEYS as u8));
        let partition = Partition::new(0, PartitionId(1), all, Vec::new());
        History {
            partitions: vec![Filled { partition, lsn: Lsn(0), feed: Vec::new() }],
            former: FormerRanges::default(),
            last_id: 0,
            etag: None,
            written: [0; KEYS],
            told: [0; KEYS],
            lsns: [Lsn(0); KEYS],
        }
    }

    fn step(&mut self, what: u8, which: usize) {
        match what % 8 {
            0..4 => self.write(which % KEYS, usize::from(what >> 3)),
            4 => self.split(which),
            5 => self.merge(which),
            _ => self.read(which % 5),
        }
    }

    /// Writes a key so many times.
    fn write(&mut self, key: usize, times: usize) {
        let epk = bound(key as u8);
        let there = |filled: &&mut Filled| filled.partition.epks.contains(&epk);
        let filled = self.partitions.iter_mut().find(there).expect("they cover everything");
        for _ in 0..times {
            filled.lsn = filled.lsn.next();
            filled.feed.push((filled.lsn, key as u8));
            self.written[key] += 1;
        }
    }

    fn split(&mut self, which: usize) {
        let at = which % self.partitions.len();
        let EpkRange { min, max } = self.partitions[at].partition.epks.clone();
        let (low, high) = (key_of(&min), key_of(&max));
        if high - low < 2 || self.partitions.len() >= PARTITIONS_MAX {
            return;
        }
        let middle = bound(low + 1 + (which / PARTITIONS_MAX) as u8 % (high - low - 1));
        let source = self.partitions.remove(at);
        for (more, epks) in
            [EpkRange::new(min, middle.clone()), EpkRange::new(middle, max)].into_iter().enumerate()
        {
            let target = self.target(&[&source], epks);
            self.partitions.insert(at + more, target);
        }
        self.former.add([source.partition]);
    }

    fn merge(&mut self, which: usize) {
        if self.partitions.len() < 2 {
            return;
        }
        let at = which % (self.partitions.len() - 1);
        let (left, right) = (self.partitions.remove(at), self.partitions.remove(at));
        let epks = EpkRange::new(left.partition.epks.min.clone(), right.partition.epks.max.clone());
        let target = self.target(&[&left, &right], epks);
        self.partitions.insert(at, target);
        self.former.add([left.partition, right.partition]);
    }

    /// A partition with what the sources have of these EPKs, and above their LSNs.
    fn target(&mut self, sources: &[&Filled], epks: EpkRange) -> Filled {
        self.last_id += 1;
        let ids = |source: &&Filled| {
            let Partition { parents, range_id, .. } = &source.partition;
            parents.iter().copied().chain([*range_id]).collect::<Vec<u32>>()
        };
        let mut parents: Vec<u32> = sources.iter().flat_map(ids).collect();
        parents.sort_unstable();
        parents.dedup();
        let mut feed: Vec<(Lsn, u8)> =
            sources.iter().flat_map(|source| source.feed.iter().copied()).collect();
        feed.retain(|(_, key)| epks.contains(&bound(*key)));
        feed.sort_by_key(|(lsn, _)| *lsn);
        let lsn = sources.iter().map(|source| source.lsn).max().unwrap_or_default().next();
        let partition = Partition::new(self.last_id, PartitionId(1), epks, parents);
        Filled { partition, lsn, feed }
    }

    /// Reads a page of the whole container as `changes/mod.rs` does.
    fn read(&mut self, changes_max: usize) {
        let position = self.etag.as_deref().map(|etag| Position::parse(etag).expect("it is ours"));
        let mut asked = Vec::new();
        let mut count = 0;
        for Filled { partition, lsn: end, feed } in &self.partitions {
            let epks = partition.epks.clone();
            let pieces = match &position {
                Some(position) => position.pieces(partition, &epks, &self.former).expect("ours"),
                None => vec![Piece { epks: epks.clone(), after: Lsn(0) }],
            };
            assert_eq!(pieces.first().map(|piece| &piece.epks.min), Some(&epks.min));
            assert_eq!(pieces.last().map(|piece| &piece.epks.max), Some(&epks.max));
            assert!(pieces.windows(2).all(|two| two[0].epks.max == two[1].epks.min));
            let mut reached = pieces.iter().map(|piece| piece.after).min().expect("there is one");
            let news = feed.iter().filter(|(lsn, _)| *lsn > reached).collect::<Vec<_>>();
            let mut whole = true;
            for commit in news.chunk_by(|one, other| one.0 == other.0) {
                if count >= changes_max {
                    whole = false;
                    break;
                }
                for (lsn, key) in commit {
                    reached = *lsn;
                    let here = |piece: &&Piece| piece.epks.contains(&bound(*key));
                    let piece = pieces.iter().find(here).expect("they cover everything");
                    if *lsn > piece.after {
                        count += 1;
                        let at = usize::from(*key);
                        assert!(*lsn > self.lsns[at], "{key} is told in order, and once");
                        self.lsns[at] = *lsn;
                        self.told[at] += 1;
                    }
                }
            }
            let reached = if whole { reached.max(*end) } else { reached };
            asked.push(Asked { partition, epks, end: *end, reached });
        }
        let etag = Position::after_page(position.as_ref(), &asked, &self.former);
        self.etag = Some(etag.to_string());
    }
}

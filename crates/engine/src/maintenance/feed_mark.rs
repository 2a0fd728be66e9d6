//! What a partition remembers of the walks over its feed.
//!
//! The *horizon* is the LSN up to which records may be missing, or lack their versions: who reads
//! all versions cannot begin before it. Two partitions that are merged each have a line of LSNs,
//! and so a horizon, of their own: what is missing of one says nothing of the other. The merged
//! partition has the lower one of both everywhere, and notes the range of EPKs where it is higher,
//! until a walk of its own is beyond that.
//!
//! ```text
//! everywhere · walked · kept, 8 bytes each
//! · for each range with a higher horizon: LSN, 8 bytes · length of the first EPK, 2 bytes · first
//!   EPK · length of the EPK behind the last, 2 bytes · that EPK
//! ```

use partita_model::{Epk, EpkRange, Error, Lsn, Result};
use partita_storage::{Batch, Snapshot, Space};

use crate::keys;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FeedMark {
    /// The horizon where it is lowest.
    pub(super) everywhere: Lsn,
    /// Where the last walk ended.
    pub(super) walked: Lsn,
    /// The records that it left.
    pub(super) kept: u64,
    /// Ranges with a higher horizon.
    higher: Vec<(EpkRange, Lsn)>,
}

impl FeedMark {
    /// The mark of a partition; nothing is missing where there is none.
    pub(crate) fn read(view: &dyn Snapshot) -> Result<FeedMark> {
        match view.get(Space::Meta, &keys::feed_mark())? {
            None => Ok(FeedMark::default()),
            Some(record) => FeedMark::decode(&record.value)
                .ok_or_else(|| Error::corrupt("the mark of a feed is damaged")),
        }
    }

    pub(crate) fn put(&self, batch: &mut Batch) {
        batch.put(Space::Meta, keys::feed_mark(), self.encode());
    }

    /// Up to where something may be missing of these EPKs.
    pub(crate) fn horizon(&self, epks: &EpkRange) -> Lsn {
        let here = self.higher.iter().filter(|(higher, _)| higher.overlaps(epks));
        here.map(|(_, horizon)| *horizon).fold(self.everywhere, Lsn::max)
    }

    /// Something is missing up to this LSN, at any EPK.
    pub(super) fn raise(&mut self, horizon: Lsn) {
        self.everywhere = self.everywhere.max(horizon);
        self.higher.retain(|(_, higher)| *higher > self.everywhere);
    }

    /// The mark of a partition that takes over from these, each with the EPKs that it had.
    pub(crate) fn joined(sources: Vec<(EpkRange, FeedMark)>) -> FeedMark {
        let everywhere = sources.iter().map(|(_, mark)| mark.everywhere).min();
        let mut joined =
            FeedMark { everywhere: everywhere.unwrap_or_default(), ..FeedMark::default() };
        for (epks, mark) in sources {
            joined.walked = joined.walked.max(mark.walked);
            joined.kept += mark.kept;
            joined.higher.push((epks, mark.everywhere));
            joined.higher.extend(mark.higher);
        }
        joined.raise(joined.everywhere);
        joined
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = [self.everywhere.0, self.walked.0, self.kept].map(u64::to_be_bytes).concat();
        for (epks, horizon) in &self.higher {
            out.extend_from_slice(&horizon.0.to_be_bytes());
            put_epk(&mut out, &epks.min);
            put_epk(&mut out, &epks.max);
        }
        out
    }

    fn decode(mut bytes: &[u8]) -> Option<FeedMark> {
        let (everywhere, walked) = (take_lsn(&mut bytes)?, take_lsn(&mut bytes)?);
        let kept = take_lsn(&mut bytes)?.0;
        let mut higher = Vec::new();
        while !bytes.is_empty() {
            let horizon = take_lsn(&mut bytes)?;
            let (min, max) = (take_epk(&mut bytes)?, take_epk(&mut bytes)?);
            higher.push((EpkRange::new(min, max), horizon));
        }
        Some(FeedMark { everywhere, walked, kept, higher })
    }
}

/// An EPK is shorter than 64 KB: it is a hash, or a partition key, which has 2 KB at most.
fn put_epk(out: &mut Vec<u8>, epk: &Epk) {
    let bytes = epk.as_bytes();
    let length = u16::try_from(bytes.len()).expect("an EPK is shorter than 64 KB");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
}

fn take_lsn(bytes: &mut &[u8]) -> Option<Lsn> {
    let (lsn, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(Lsn(u64::from_be_bytes(*lsn)))
}

fn take_epk(bytes: &mut &[u8]) -> Option<Epk> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (epk, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    *bytes = rest;
    Some(Epk::from_bytes(epk.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epks(min: u8, max: u8) -> EpkRange {
        EpkRange::new(Epk::from(vec![min]), Epk::from(vec![max]))
    }

    fn at(horizon: u64) -> FeedMark {
        FeedMark { everywhere: Lsn(horizon), walked: Lsn(horizon + 5), kept: 3, higher: vec![] }
    }

    #[test]
    fn what_is_missing_of_one_source_is_not_missing_of_the_other() {
        let mut mark = FeedMark::joined(vec![(epks(0, 40), at(50)), (epks(40, 80), at(1_500))]);
        let horizons = |mark: &FeedMark| {
            [epks(0, 40), epks(40, 80), epks(30, 50)].map(|epks| mark.horizon(&epks).0)
        };
        assert_eq!(horizons(&mark), [50, 1_500, 1_500]);
        assert_eq!((mark.walked, mark.kept), (Lsn(1_505), 6));
        mark.raise(Lsn(70));
        assert_eq!(horizons(&mark), [70, 1_500, 1_500]);
        let again = FeedMark::joined(vec![(epks(0, 80), mark.clone()), (epks(80, 90), at(60))]);
        assert_eq!(horizons(&again), [70, 1_500, 1_500]);
        assert_eq!(again.horizon(&epks(80, 90)), Lsn(60));
        assert_eq!(FeedMark::joined(vec![(epks(0, 80), mark.clone())]), mark, "a split");
        mark.raise(Lsn(1_500));
        assert_eq!(mark.higher, []);
    }

    #[test]
    fn a_mark_comes_back_as_it_went() {
        let joined = FeedMark::joined(vec![
            (EpkRange::new(Epk::min(), Epk::from(vec![7; 16])), at(50)),
            (EpkRange::new(Epk::from(vec![7; 16]), Epk::max()), at(1_500)),
        ]);
        for mark in [FeedMark::default(), at(9), joined] {
            let bytes = mark.encode();
            assert_eq!(FeedMark::decode(&bytes), Some(mark));
            assert_eq!(FeedMark::decode(&bytes[..bytes.len() - 1]), None);
        }
    }
}

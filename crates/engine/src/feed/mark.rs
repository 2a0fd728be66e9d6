//! What a partition remembers of the walks over its feed.
//!
//! The *horizon* is the LSN up to which records may be missing, or lack their versions: who reads
//! all versions cannot begin before it. Two partitions that are merged each have a line of LSNs,
//! and so a horizon, of their own: what is missing of one says nothing of the other. So the merged
//! partition notes the horizon of each of the ranges that it is made of, and a walk raises that of
//! the range whose records it removes, until it is beyond the LSNs that were there at the merge.
//!
//! ```text
//! everywhere · walked · kept, 8 bytes each
//! · of a merged partition: its last LSN at the merge · how far records were old enough, 8 bytes
//!   each · for each range: LSN, 8 bytes · length of the first EPK, 2 bytes · first EPK · length of
//!   the EPK behind the last, 2 bytes · that EPK
//! ```

use partita_model::{Epk, EpkRange, Error, Lsn, Result};
use partita_storage::{Batch, Snapshot, Space};

use crate::keys;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FeedMark {
    /// The horizon where it is lowest.
    pub(crate) everywhere: Lsn,
    /// Where the last walk ended.
    pub(crate) walked: Lsn,
    /// The records that it left.
    pub(crate) kept: u64,
    /// Of a partition that was merged, until a walk is beyond that.
    lines: Option<Lines>,
}

/// Several lines of LSNs in one feed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Lines {
    /// The last LSN of any of them.
    end: Lsn,
    /// Up to where a walk found all records old enough.
    aged: Lsn,
    /// The horizon of each.
    horizons: Vec<(EpkRange, Lsn)>,
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
        let lines = self.lines.iter().flat_map(|lines| &lines.horizons);
        let here = lines.filter(|(line, _)| line.overlaps(epks));
        here.map(|(_, horizon)| *horizon).fold(self.everywhere, Lsn::max)
    }

    /// Where a walk over what is old enough begins.
    pub(crate) fn aged(&self) -> Lsn {
        self.lines.as_ref().map_or(self.everywhere, |lines| lines.aged)
    }

    /// Something of a commit is missing from now on, of items with these keys.
    pub(crate) fn miss<'k>(&mut self, lsn: Lsn, item_keys: impl Iterator<Item = &'k [u8]>) {
        self.leave_lines(lsn);
        let Some(lines) = &mut self.lines else {
            self.everywhere = self.everywhere.max(lsn);
            return;
        };
        for item_key in item_keys {
            let is_here =
                |(epks, _): &&mut (EpkRange, Lsn)| keys::items_in(epks).contains(item_key);
            for (_, horizon) in lines.horizons.iter_mut().filter(is_here) {
                *horizon = (*horizon).max(lsn);
            }
        }
    }

    /// All records up to this one are so old that nobody may ask for their versions.
    pub(crate) fn age(&mut self, lsn: Lsn) {
        self.leave_lines(lsn);
        match &mut self.lines {
            Some(lines) => lines.aged = lines.aged.max(lsn),
            None => self.everywhere = self.everywhere.max(lsn),
        }
    }

    /// Behind the LSNs of the merge there is one line.
    fn leave_lines(&mut self, lsn: Lsn) {
        if self.lines.as_ref().is_some_and(|lines| lsn > lines.end) {
            self.lines = None;
        }
    }

    /// The mark of a partition that takes over from these, each with the EPKs that it had, whose
    /// last LSN is this.
    pub(crate) fn joined(sources: Vec<(EpkRange, FeedMark)>, end: Lsn) -> FeedMark {
        if let [(_, mark)] = &sources[..] {
            return mark.clone();
        }
        let everywhere = sources.iter().map(|(_, mark)| mark.everywhere).min().unwrap_or_default();
        let aged = sources.iter().map(|(_, mark)| mark.aged()).min().unwrap_or_default();
        let mut joined = FeedMark { everywhere, ..FeedMark::default() };
        let mut lines = Lines { end, aged, horizons: Vec::new() };
        for (epks, mark) in sources {
            joined.walked = joined.walked.max(mark.walked);
            joined.kept += mark.kept;
            match mark.lines {
                // Of the lines of a merge, a partition that was split off goes on with its part.
                Some(of_source) => {
                    let part_of = |(line, horizon): (EpkRange, Lsn)| {
                        line.intersect(&epks).map(|part| (part, horizon))
                    };
                    lines.horizons.extend(of_source.horizons.into_iter().filter_map(part_of));
                }
                None => lines.horizons.push((epks, mark.everywhere)),
            }
        }
        joined.lines = Some(lines);
        joined
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = [self.everywhere.0, self.walked.0, self.kept].map(u64::to_be_bytes).concat();
        let Some(lines) = &self.lines else { return out };
        out.extend([lines.end.0, lines.aged.0].map(u64::to_be_bytes).as_flattened());
        for (epks, horizon) in &lines.horizons {
            out.extend_from_slice(&horizon.0.to_be_bytes());
            put_epk(&mut out, &epks.min);
            put_epk(&mut out, &epks.max);
        }
        out
    }

    fn decode(mut bytes: &[u8]) -> Option<FeedMark> {
        let (everywhere, walked) = (take_lsn(&mut bytes)?, take_lsn(&mut bytes)?);
        let kept = take_lsn(&mut bytes)?.0;
        let mut mark = FeedMark { everywhere, walked, kept, lines: None };
        if bytes.is_empty() {
            return Some(mark);
        }
        let (end, aged) = (take_lsn(&mut bytes)?, take_lsn(&mut bytes)?);
        let mut horizons = Vec::new();
        while !bytes.is_empty() {
            let horizon = take_lsn(&mut bytes)?;
            let (min, max) = (take_epk(&mut bytes)?, take_epk(&mut bytes)?);
            horizons.push((EpkRange::new(min, max), horizon));
        }
        mark.lines = Some(Lines { end, aged, horizons });
        Some(mark)
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
    use std::ops::Bound;

    use super::*;

    fn epks(min: u8, max: u8) -> EpkRange {
        EpkRange::new(Epk::from(vec![min]), Epk::from(vec![max]))
    }

    fn at(horizon: u64) -> FeedMark {
        let (everywhere, walked) = (Lsn(horizon), Lsn(horizon + 5));
        FeedMark { everywhere, walked, kept: 3, lines: None }
    }

    fn item(epk: u8) -> Vec<u8> {
        match keys::items_in(&epks(epk, epk + 1)).start {
            Bound::Included(key) => key,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_missing_of_one_line_is_not_missing_of_another() {
        let sources = vec![(epks(0, 40), at(50)), (epks(40, 80), at(1_500))];
        let mut mark = FeedMark::joined(sources, Lsn(2_000));
        let horizons = |mark: &FeedMark| {
            [epks(0, 40), epks(40, 80), epks(30, 50)].map(|epks| mark.horizon(&epks).0)
        };
        assert_eq!(horizons(&mark), [50, 1_500, 1_500]);
        assert_eq!((mark.walked, mark.kept, mark.aged()), (Lsn(1_505), 6, Lsn(50)));
        mark.miss(Lsn(1_600), [&item(50)[..]].into_iter());
        mark.age(Lsn(1_700));
        assert_eq!(horizons(&mark), [50, 1_600, 1_600], "nothing was removed of the other");
        assert_eq!(mark.aged(), Lsn(1_700));
        assert_eq!(
            FeedMark::joined(vec![(epks(0, 80), mark.clone())], Lsn(2_000)),
            mark,
            "a split"
        );
        let others = vec![(epks(0, 80), mark.clone()), (epks(80, 90), at(60))];
        let again = FeedMark::joined(others, Lsn(2_500));
        assert_eq!(horizons(&again), [50, 1_600, 1_600]);
        assert_eq!(again.horizon(&epks(80, 90)), Lsn(60));
        mark.miss(Lsn(2_001), [&item(10)[..]].into_iter());
        assert_eq!((horizons(&mark), mark.lines), ([2_001; 3], None), "behind the merge");
    }

    #[test]
    fn what_is_split_off_has_a_line_of_its_own_when_it_is_merged_again() {
        let sources = vec![(epks(0, 40), at(50)), (epks(40, 80), at(1_500))];
        let mark = FeedMark::joined(sources, Lsn(2_000));
        let mut busy = mark.clone();
        busy.miss(Lsn(2_900), [&item(70)[..]].into_iter());
        let mut again =
            FeedMark::joined(vec![(epks(0, 60), mark), (epks(60, 80), busy)], Lsn(3_000));
        let horizons = |mark: &FeedMark| {
            [epks(0, 40), epks(40, 60), epks(60, 80)].map(|epks| mark.horizon(&epks).0)
        };
        assert_eq!(horizons(&again), [50, 1_500, 2_900]);
        again.miss(Lsn(2_950), [&item(65)[..]].into_iter());
        assert_eq!(horizons(&again), [50, 1_500, 2_950], "the two do not share what was one line");
    }

    #[test]
    fn a_mark_comes_back_as_it_went() {
        let sources = vec![
            (EpkRange::new(Epk::min(), Epk::from(vec![7; 16])), at(50)),
            (EpkRange::new(Epk::from(vec![7; 16]), Epk::max()), at(1_500)),
        ];
        let joined = FeedMark::joined(sources, Lsn(1_600));
        for mark in [FeedMark::default(), at(9), joined] {
            let bytes = mark.encode();
            assert_eq!(FeedMark::decode(&bytes), Some(mark));
            assert_eq!(FeedMark::decode(&bytes[..bytes.len() - 1]), None);
        }
    }
}

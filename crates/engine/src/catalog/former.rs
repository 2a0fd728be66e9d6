//! What the partitions of a container covered that were split or merged.
//!
//! A reader of the change feed who got so far in a partition got so far for the EPKs that it had,
//! in whatever partition they are now. The parents of a partition say which ones came before it,
//! this says which EPKs each of them had.
//!
//! Stores that are older than this record lack the ranges that went before it was kept.

use partita_model::EpkRange;

use super::Partition;

/// In the order of their range ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FormerRanges(Vec<(u32, EpkRange)>);

impl FormerRanges {
    /// The EPKs of a partition that is no more, where they are known.
    pub(crate) fn epks(&self, range_id: u32) -> Option<&EpkRange> {
        let at = self.0.binary_search_by_key(&range_id, |(id, _)| *id).ok()?;
        self.0.get(at).map(|(_, epks)| epks)
    }

    /// Takes up partitions that are no more.
    pub(crate) fn add(&mut self, partitions: impl IntoIterator<Item = Partition>) {
        self.extend(partitions.into_iter().map(|partition| (partition.range_id, partition.epks)));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(u32, EpkRange)> {
        self.0.iter()
    }
}

impl Extend<(u32, EpkRange)> for FormerRanges {
    fn extend<I: IntoIterator<Item = (u32, EpkRange)>>(&mut self, ranges: I) {
        self.0.extend(ranges);
        self.0.sort_unstable_by_key(|(id, _)| *id);
    }
}

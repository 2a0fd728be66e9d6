//! The resources of the catalog.

use std::borrow::Cow;
use std::sync::Arc;

use partita_model::{
    ContainerDefinition, ContainerRid, DatabaseRid, Epk, EpkRange, Epoch, Etag, IndexingPolicy,
    ItemRid, Lsn, OfferRid, Result, Throughput, ThroughputBucket,
};
use partita_storage::PartitionId;

use super::FormerRanges;
use crate::index::{IndexedComputed, ServedPolicy, Terms};
use crate::live::LivePartition;
use crate::throughput::Meter;

/// A database: a name for a set of containers.
#[derive(Clone, Debug, PartialEq)]
pub struct Database {
    pub rid: DatabaseRid,
    pub name: String,
    pub etag: Etag,
    /// Unix seconds of the last write.
    pub ts: u64,
    /// The LSN of its record: what a change of it expects.
    pub lsn: Lsn,
}

impl Database {
    /// The link by resource ids, `dbs/…/`.
    pub fn self_link(&self) -> String {
        format!("dbs/{}/", self.rid)
    }
}

/// A container: its definition and its partitions.
#[derive(Clone, Debug)]
pub struct Container {
    pub database: Arc<Database>,
    pub rid: ContainerRid,
    pub definition: ContainerDefinition,
    pub etag: Etag,
    /// Unix seconds of the last write.
    pub ts: u64,
    /// In EPK order, covering everything without gap or overlap.
    pub partitions: Vec<Partition>,
    /// Grows with every change of the partitions.
    pub epoch: Epoch,
    /// Splits and merges under way, in the order in which they were asked for.
    pub moves: Vec<Move>,
    /// What the partitions covered that were split or merged.
    pub(crate) former_ranges: FormerRanges,
    /// The indexing policies that items were written under.
    pub policies: Policies,
    /// How its index is written.
    pub(crate) terms: Terms,
    pub(crate) lsn: Lsn,
    /// What is kept in memory of its partitions, in the order of [`Container::known_partitions`].
    /// Of a container that is not in the catalog's copy, as one that is about to be written, it is
    /// of no consequence.
    pub(crate) live: Vec<Arc<LivePartition>>,
}

/// The indexing policies of a container over time. An item's record says under which version its
/// index entries were made; removing them needs that policy, not the current one.
#[derive(Clone, Debug, PartialEq)]
pub struct Policies {
    pub(crate) current: u32,
    /// Policies before the current one, with their versions.
    pub(crate) former: Vec<(u32, IndexingPolicy)>,
    /// The computed properties that versions index; a version without any may not be there.
    pub(crate) computed: Vec<(u32, IndexedComputed)>,
}

impl Policies {
    /// Those of a container that had none before.
    pub(crate) fn first(computed: IndexedComputed) -> Policies {
        Policies { current: 1, former: Vec::new(), computed: vec![(1, computed)] }
    }

    /// After all items were brought to the current one.
    pub(crate) fn without_former(&self) -> Policies {
        let current = self.current;
        let computed = self.computed.iter().filter(|(version, _)| *version == current).cloned();
        Policies { current, former: Vec::new(), computed: computed.collect() }
    }

    fn computed(&self, version: u32) -> Option<&IndexedComputed> {
        self.computed.iter().find(|(v, _)| *v == version).map(|(_, computed)| computed)
    }

    pub(crate) fn current_computed(&self) -> IndexedComputed {
        self.computed(self.current).cloned().unwrap_or_default()
    }
}

/// A split or merge under way: `targets` are being filled with what `sources` hold, and will stand
/// in their place. Until then nobody but the move knows them.
#[derive(Clone, Debug)]
pub struct Move {
    /// Range ids: one for a split, neighbours for a merge.
    pub sources: Vec<u32>,
    /// In EPK order, covering exactly what the sources cover.
    pub targets: Vec<Partition>,
}

impl Move {
    /// Several sources become one, rather than one source several.
    pub fn is_merge(&self) -> bool {
        self.sources.len() > 1
    }
}

/// One physical partition, as its container's record describes it: a half-open range of EPKs.
#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    /// The id that clients see; never reused within the container.
    pub range_id: u32,
    /// Where the store keeps it.
    pub id: PartitionId,
    pub epks: EpkRange,
    /// All ancestors, by split and by merge, in the order of their ids: oldest first.
    pub parents: Vec<u32>,
    /// The first epoch that it serves in.
    pub since: Epoch,
}

impl Partition {
    pub(crate) fn new(
        range_id: u32,
        id: PartitionId,
        epks: EpkRange,
        parents: Vec<u32>,
    ) -> Partition {
        Partition { range_id, id, epks, parents, since: Epoch::default() }
    }
}

impl Container {
    /// The container with what is kept in memory of its partitions: what is known of those that it
    /// had before, and nothing yet of the others.
    pub(super) fn with_live(mut self, old: Option<&Container>) -> Container {
        let known: Vec<&Arc<LivePartition>> = old.into_iter().flat_map(|old| &old.live).collect();
        let live = self.known_partitions().map(|partition| {
            let same = known.iter().find(|live| live.id == partition.id);
            let fresh = || Arc::new(LivePartition::new(partition.range_id, partition.id));
            same.map_or_else(fresh, |same| Arc::clone(same))
        });
        self.live = live.collect();
        self
    }

    /// What is kept in memory of its partitions, in their order.
    pub(crate) fn serving(&self) -> impl Iterator<Item = &Arc<LivePartition>> {
        self.live.iter().take(self.partitions.len())
    }

    /// Its partitions with what is kept in memory of them.
    pub(crate) fn served(&self) -> impl Iterator<Item = (&Partition, &Arc<LivePartition>)> {
        self.partitions.iter().zip(&self.live)
    }

    /// The partition at an index, with what is kept in memory of it.
    pub(crate) fn served_at(&self, at: usize) -> Option<(&Partition, &Arc<LivePartition>)> {
        Some((self.partitions.get(at)?, self.live.get(at)?))
    }

    /// What is kept in memory of the partition at an index.
    pub(crate) fn live(&self, at: usize) -> &Arc<LivePartition> {
        &self.live[at]
    }

    /// What is kept in memory of the partition that clients know under this id.
    pub(crate) fn live_range(&self, range_id: u32) -> Option<&Arc<LivePartition>> {
        self.serving().find(|live| live.range_id == range_id)
    }

    /// What is kept in memory of one of its partitions, or of one that a move is filling.
    pub(crate) fn live_of(&self, partition: &Partition) -> &Arc<LivePartition> {
        let live = self.live.iter().find(|live| live.id == partition.id);
        live.expect("a container in the catalog knows all of its partitions")
    }

    /// What its partitions have used, and how much they may, in their order.
    pub fn meters(&self) -> impl Iterator<Item = &Meter> {
        self.serving().map(|live| &live.meter)
    }

    /// The link by resource ids, `dbs/…/colls/…/`.
    pub fn self_link(&self) -> String {
        format!("dbs/{}/colls/{}/", self.database.rid, self.rid)
    }

    /// The link by names, as they are (not percent-encoded).
    pub fn alt_link(&self) -> String {
        format!("dbs/{}/colls/{}", self.database.name, self.definition.name)
    }

    /// The resource id of one of its items.
    pub fn item_rid(&self, item: u64) -> ItemRid {
        ItemRid { container: self.rid, item }
    }

    /// The index of the partition that an EPK belongs to.
    pub(crate) fn partition_index(&self, epk: &Epk) -> usize {
        // The first range begins at the least EPK, so at least one begins at or before this one.
        self.partitions.partition_point(|partition| partition.epks.min <= *epk).saturating_sub(1)
    }

    /// Everything that the store keeps for it: its partitions, and those that moves are filling.
    pub(crate) fn partition_ids(&self) -> impl Iterator<Item = PartitionId> {
        self.known_partitions().map(|partition| partition.id)
    }

    pub(crate) fn known_partitions(&self) -> impl Iterator<Item = &Partition> {
        let filling = self.moves.iter().flat_map(|under_way| &under_way.targets);
        self.partitions.iter().chain(filling)
    }

    /// The largest range id that was given so far: every partition that ever served is there or is
    /// an ancestor.
    pub(crate) fn last_range_id(&self) -> u32 {
        let known = self.known_partitions();
        let ids = known.flat_map(|partition| partition.parents.iter().chain([&partition.range_id]));
        ids.max().copied().unwrap_or(0)
    }

    /// The partition that clients know under this id.
    pub fn partition(&self, range_id: u32) -> Option<&Partition> {
        self.partitions.iter().find(|partition| partition.range_id == range_id)
    }

    /// What may be asked of the index: what all policies in use have in common.
    pub fn served_policy(&self) -> ServedPolicy<'_> {
        let former = self.policies.former.iter().map(|(_, policy)| policy);
        ServedPolicy::new(&self.definition.indexing, former)
    }

    /// The policy of a version, for index entries made under it.
    pub(crate) fn policy(&self, version: u32) -> Option<&IndexingPolicy> {
        if version == self.policies.current {
            return Some(&self.definition.indexing);
        }
        self.policies.former.iter().find(|(v, _)| *v == version).map(|(_, policy)| policy)
    }

    /// An item's text as its index entries show it that were made under a version of the policy.
    pub(crate) fn indexed_text<'t>(&self, version: u32, text: &'t str) -> Result<Cow<'t, str>> {
        let computed = self.policies.computed(version);
        computed.map_or(Ok(Cow::Borrowed(text)), |computed| computed.within(text))
    }

    /// The computed properties of which the index has the values of all items.
    pub(crate) fn indexed_computed(&self) -> Vec<String> {
        let in_use = self.policies.former.iter().map(|(version, _)| *version);
        let mut in_all = self.policies.current_computed().properties().to_vec();
        for version in in_use {
            let had = self.policies.computed(version).map_or(&[][..], IndexedComputed::properties);
            in_all.retain(|property| had.contains(property));
        }
        let defined = &self.definition.computed_properties;
        in_all.retain(|property| defined.contains(property));
        in_all.into_iter().map(|property| property.name).collect()
    }
}

/// An offer: the throughput of a database or container.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    pub rid: OfferRid,
    /// The owner's self link.
    pub owner_link: String,
    /// The owner's resource id.
    pub owner_rid: String,
    pub throughput: Throughput,
    /// Parts of the throughput that some requests may use at most.
    pub buckets: Vec<ThroughputBucket>,
    /// The most that was ever provisioned: it bounds how far one may go down.
    pub highest_ever: u32,
    /// The most that was stored when the offer was replaced: it bounds the same.
    pub(crate) storage_kb_ever: u64,
    /// What is so at the moment; not stored.
    pub observed: Observed,
    /// Unix seconds of the last replacement.
    pub replaced_at: u64,
    pub etag: Etag,
    /// Unix seconds of the last write.
    pub ts: u64,
    /// Somebody asked for this throughput. An offer that nobody asked for is not stored.
    pub(crate) asked_for: bool,
    pub(crate) lsn: Lsn,
}

/// What an offer's owner does at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The request units per second of the busiest second of the last minute, as if all partitions
    /// were as busy as the busiest.
    pub(crate) used_ru: u32,
    /// What is stored.
    pub(crate) storage_kb: u64,
    /// The least throughput that the offer may be replaced with.
    pub minimum_ru: u32,
    /// Partitions are being split for it.
    pub replace_pending: bool,
}

impl Offer {
    /// What the offer shows as its throughput: what is provisioned, or for autoscale what that is
    /// at the moment, between a tenth of the maximum and the maximum.
    pub fn current_ru(&self) -> u32 {
        let (least, most) = (self.throughput.current(), self.throughput.provisioned());
        self.observed.used_ru.clamp(least, most)
    }

    /// The most that was ever stored, as far as it is known.
    pub(crate) fn highest_storage_kb(&self) -> u64 {
        self.storage_kb_ever.max(self.observed.storage_kb)
    }
}

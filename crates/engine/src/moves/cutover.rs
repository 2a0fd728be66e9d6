//! The end of a move: the sources rest, what came last is brought over, the catalog changes.
//!
//! From the moment of sealing writers wait, so there is little left to do by then: following has
//! just reached the end of the feeds. If it takes long all the same, because the disk is slow just
//! then, or if anything fails before the catalog's commit, the sources are unsealed and the move
//! follows on. Once that commit was submitted, its failure is not known to be one; then the catalog
//! is read again, and a source is unsealed only if it is still in it. If it cannot be read, the
//! sources stay sealed and writers are told to retry, until the next step knows more.

use partita_model::{Epoch, Error, Lsn, Result};
use partita_storage::{PartitionId, StorageError};

use super::Retired;
use super::copy::{Reached, Stream};
use super::fence::Fence;
use super::{Moves, lock};
use crate::catalog::{Changes, Container, Move, Partition};
use crate::feed::FeedMark;
use crate::step::MaintenanceBudget;

/// How often the catalog's change is prepared: others change the container rarely.
const ATTEMPTS_MAX: usize = 20;

/// How often the catalog is read to learn what became of a commit.
const READS_MAX: usize = 3;

/// Chunks of what came last: nobody else writes, so they may be large.
pub(super) const LAST: MaintenanceBudget = MaintenanceBudget { items_max: 512, bytes_max: 4 << 20 };

/// How long the sources may rest while what came last is brought over; longer after each retreat,
/// so that there is an end on the slowest of disks.
const REST_NANOS_MAX: u64 = 1_000_000_000;
const REST_DOUBLINGS_MAX: u32 = 5;

impl Moves {
    /// Cuts over to the targets of a move whose streams have reached their ends.
    pub(super) async fn finish_move(
        &self,
        container: &Container,
        under_way: &Move,
        streams: &[Stream<'_>],
    ) -> Result<()> {
        let is_source = |partition: &&Partition| under_way.sources.contains(&partition.range_id);
        let sources: Vec<&Partition> = container.partitions.iter().filter(is_source).collect();
        let ids: Vec<PartitionId> = sources.iter().map(|partition| partition.id).collect();
        let begun = self.core.clock.monotonic_nanos();
        let mut fence = Fence::new(&*self.core.store, &self.fences, ids.clone());
        let mut last = Lsn(0);
        for id in &ids {
            last = last.max(self.core.store.seal(*id)?);
        }
        let Some(chunks) = self.bring_last(container, under_way, streams).await? else {
            return Ok(());
        };
        let mut feeds = Vec::with_capacity(sources.len());
        for source in sources {
            let mark = FeedMark::read(&*self.core.store.snapshot(source.id)?)?;
            feeds.push((source.epks.clone(), mark));
        }
        let feeds = FeedMark::joined(feeds, last);
        for target in &under_way.targets {
            self.lift(target, last, &feeds).await?;
        }
        let epoch = self.cut_over(container, under_way, &mut fence).await?;
        drop(fence);
        let sealed_ms = self.core.clock.monotonic_nanos().saturating_sub(begun) / 1_000_000;
        lock(&self.retired).push(Retired { container: container.rid, epoch, ids });
        self.forget_cursors(streams).await;
        lock(&self.efforts).retain(|id, _| under_way.targets.iter().all(|to| to.id != *id));
        self.ask_for_a_look();
        let children: Vec<u32> = under_way.targets.iter().map(|target| target.range_id).collect();
        tracing::info!(
            container = container.alt_link(),
            parents = ?under_way.sources,
            ?children,
            sealed_ms,
            chunks,
            "a move is done"
        );
        Ok(())
    }

    /// Brings over what came last; in how many chunks. None if it takes too long.
    async fn bring_last(
        &self,
        container: &Container,
        under_way: &Move,
        streams: &[Stream<'_>],
    ) -> Result<Option<u64>> {
        let begun = self.core.clock.monotonic_nanos();
        let retreats = self.effort(under_way).retreats;
        let nanos_max = REST_NANOS_MAX << retreats.min(REST_DOUBLINGS_MAX);
        let mut chunks = 0;
        for stream in streams {
            while self.copy_some(container, stream, &LAST).await? != Reached::End {
                chunks += 1;
                if self.core.clock.monotonic_nanos().saturating_sub(begun) > nanos_max {
                    let container = container.alt_link();
                    tracing::warn!(container, chunks, "a move retreats: its end takes too long");
                    self.try_harder(under_way, |effort| effort.retreats += 1);
                    return Ok(None);
                }
            }
            chunks += 1;
        }
        Ok(Some(chunks))
    }

    /// The commit that changes sources for targets; the new epoch.
    async fn cut_over(
        &self,
        known: &Container,
        under_way: &Move,
        fence: &mut Fence<'_>,
    ) -> Result<Epoch> {
        for _ in 0..ATTEMPTS_MAX {
            let current = self.core.container_by_rid(known.rid);
            let changed = current.as_ref().and_then(|current| with_targets(current, under_way));
            let (Some(current), Some(changed)) = (current, changed) else {
                // Whoever ended it: the sources are nobody's any more.
                fence.stays_sealed = true;
                return Err(Error::retry_with("the move was ended, or its container deleted"));
            };
            let mut changes = Changes::default();
            changes.replace_container(&changed);
            fence.stays_sealed = true;
            match self.core.catalog.commit(changes).await {
                Ok(()) => return Ok(changed.epoch),
                Err(StorageError::Conflict { .. }) => fence.stays_sealed = false,
                Err(error) => {
                    let mut reads = (0..READS_MAX).map(|_| self.core.catalog.read_again(&current));
                    if !reads.any(|read| read.is_ok()) {
                        return Err(error.into());
                    }
                    let now = self.core.container_by_rid(known.rid);
                    return match now {
                        Some(now) if now.epoch == changed.epoch => Ok(changed.epoch),
                        _ => {
                            fence.stays_sealed = false;
                            Err(error.into())
                        }
                    };
                }
            }
        }
        Err(Error::retry_with("the container is being changed by many at once"))
    }
}

/// A container after a move; None if the move is not one of its own any more.
fn with_targets(container: &Container, under_way: &Move) -> Option<Container> {
    let first = under_way.targets.first()?.id;
    let is_this = |other: &Move| other.targets.iter().any(|target| target.id == first);
    let at = container.moves.iter().position(is_this)?;
    let mut changed = container.clone();
    let done = changed.moves.remove(at);
    let is_source = |partition: &Partition| done.sources.contains(&partition.range_id);
    let (sources, others): (Vec<_>, _) = changed.partitions.into_iter().partition(is_source);
    changed.partitions = others;
    changed.former_ranges.add(sources);
    changed.epoch = Epoch(container.epoch.0 + 1);
    let since = changed.epoch;
    changed.partitions.extend(done.targets.into_iter().map(|target| Partition { since, ..target }));
    changed.partitions.sort_by(|a, b| a.epks.min.cmp(&b.epks.min));
    Some(changed)
}

//! Beginning a move: what is asked for is checked, the targets are made, the container's record
//! takes the move up. From that commit on it is the background's to finish.

use std::sync::Arc;

use partita_model::{Epk, EpkRange, Error, Lsn, Result};
use partita_storage::PartitionId;

use super::Moves;
use super::choose;
use super::triggers::partitions_needed;
use crate::catalog::{Changes, Container, Move, Partition};
use crate::context::Work;
use crate::keys::{Total, stored_total};
use crate::op::{ContainerPath, Outcome, SplitAt};

impl Moves {
    pub(crate) async fn split_partition(
        &self,
        work: &mut Work<'_>,
        path: &ContainerPath,
        range_id: &str,
        at: &SplitAt,
    ) -> Result<Outcome> {
        work.usage.metadata_writes = 1;
        let container = self.core.item_container(work, path)?.container;
        let partition = idle_partition(&container, range_id)?;
        let view = self.core.store.snapshot(partition.id)?;
        let boundary = choose::boundary(&container, partition, &*view, at)?;
        drop(view);
        self.plan(&container, &[partition], halves(partition, boundary)).await
    }

    pub(crate) async fn merge_partitions(
        &self,
        work: &mut Work<'_>,
        path: &ContainerPath,
        range_ids: &[String],
    ) -> Result<Outcome> {
        work.usage.metadata_writes = 1;
        let container = self.core.item_container(work, path)?.container;
        let [one, other] = range_ids else {
            return Err(Error::bad_request("A merge needs exactly two partition key ranges"));
        };
        let (one, other) = (idle_partition(&container, one)?, idle_partition(&container, other)?);
        let (left, right) =
            if one.epks.min <= other.epks.min { (one, other) } else { (other, one) };
        if left.epks.max != right.epks.min {
            return Err(Error::bad_request(format!(
                "The partition key ranges '{}' and '{}' are not neighbours: {} and {}",
                left.range_id, right.range_id, left.epks, right.epks
            )));
        }
        self.check_merged(&container, left, right)?;
        let epks = EpkRange::new(left.epks.min.clone(), right.epks.max.clone());
        self.plan(&container, &[left, right], vec![epks]).await
    }

    /// A merged partition must not be one that is split at once again.
    fn check_merged(
        &self,
        container: &Container,
        left: &Partition,
        right: &Partition,
    ) -> Result<()> {
        let needed = partitions_needed(&self.core, container);
        if container.partitions.len() <= needed {
            return Err(Error::bad_request(format!(
                "The container's throughput needs {needed} partitions: lower it before merging"
            )));
        }
        let stored = |partition: &Partition| {
            stored_total(&*self.core.store.snapshot(partition.id)?, Total::Bytes)
        };
        let (bytes, bytes_max) =
            (stored(left)? + stored(right)?, self.core.settings.partitions.bytes_max);
        if bytes > bytes_max {
            return Err(Error::bad_request(format!(
                "The partitions hold {bytes} bytes together; one holds {bytes_max} at most"
            )));
        }
        Ok(())
    }

    /// Makes partitions for these ranges, which cover what the sources cover, and commits the move.
    pub(super) async fn plan(
        &self,
        container: &Arc<Container>,
        sources: &[&Partition],
        ranges: Vec<EpkRange>,
    ) -> Result<Outcome> {
        let start = self.latest(sources)?;
        let ids = self.core.catalog.take_partition_ids(ranges.len()).await?;
        self.core.store.create_partitions(&ids, start)?;
        let planned = self
            .core
            .change(|| {
                let current = self.core.container_by_rid(container.rid);
                let current = current.ok_or_else(|| {
                    Error::owner_not_found("Resource Not Found: the container was deleted")
                })?;
                for source in sources {
                    idle_partition(&current, &source.range_id.to_string())?;
                }
                let under_way = new_move(&current, sources, &ranges, &ids);
                let children: Vec<u32> = under_way.targets.iter().map(|t| t.range_id).collect();
                let mut moves = current.moves.clone();
                moves.push(under_way);
                let mut changes = Changes::default();
                changes.replace_container(&Container { moves, ..(*current).clone() });
                Ok((changes, children))
            })
            .await;
        let children = match planned {
            Ok(children) => children,
            Err(error) => {
                self.core.let_go_after(&error, &ids);
                return Err(error);
            }
        };
        self.core.doorbell.ring();
        let parents: Vec<u32> = sources.iter().map(|source| source.range_id).collect();
        tracing::info!(container = container.alt_link(), ?parents, ?children, "a move begins");
        Ok(Outcome::MovePlanned { parents, children })
    }

    fn latest(&self, sources: &[&Partition]) -> Result<Lsn> {
        let mut latest = Lsn(0);
        for source in sources {
            latest = latest.max(self.core.store.snapshot(source.id)?.lsn());
        }
        Ok(latest)
    }
}

/// What lies on the two sides of a boundary.
fn halves(partition: &Partition, boundary: Epk) -> Vec<EpkRange> {
    let EpkRange { min, max } = partition.epks.clone();
    vec![EpkRange::new(min, boundary.clone()), EpkRange::new(boundary, max)]
}

/// The partition with this id, which must not be in a move.
fn idle_partition<'c>(container: &'c Container, range_id: &str) -> Result<&'c Partition> {
    let mut partitions = container.partitions.iter();
    let partition = partitions.find(|partition| partition.range_id.to_string() == range_id);
    let partition = partition.ok_or_else(|| {
        Error::not_found(format!(
            "Resource Not Found: the container has no partition key range '{range_id}'"
        ))
    })?;
    if container.moves.iter().any(|other| other.sources.contains(&partition.range_id)) {
        return Err(Error::conflict(format!(
            "The partition key range '{range_id}' is being split or merged already"
        )));
    }
    Ok(partition)
}

fn new_move(
    container: &Container,
    sources: &[&Partition],
    ranges: &[EpkRange],
    ids: &[PartitionId],
) -> Move {
    let mut parents: Vec<u32> = Vec::new();
    for source in sources {
        parents.extend(source.parents.iter().chain([&source.range_id]));
    }
    // Range ids grow, so their order is that of age.
    parents.sort_unstable();
    parents.dedup();
    let next = container.last_range_id() + 1;
    let targets =
        ranges.iter().zip(ids).zip(next..).map(|((epks, id), range_id)| {
            Partition::new(range_id, *id, epks.clone(), parents.clone())
        });
    let sources = sources.iter().map(|source| source.range_id).collect();
    Move { sources, targets: targets.collect() }
}

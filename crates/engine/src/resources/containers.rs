//! Containers and their partitions.

use std::sync::Arc;

use partita_model::{
    ContainerDefinition, ContainerRid, Epoch, Error, Lsn, Result, Throughput, Value,
};
use partita_query::Filter;
use partita_storage::PartitionId;

use super::Resources;
use super::offers::check_fixed_throughput;
use super::{check_unchanged, not_modified, page};
use crate::catalog::{Changes, Container, FormerRanges, Partition, Policies};
use crate::context::Work;
use crate::index::{IndexedComputed, Terms};
use crate::keys::{Total, stored_total};
use crate::op::{
    Change, Condition, ContainerPath, DatabasePath, EtagPattern, KeyRequired, Outcome, PageRequest,
    PartitionStatistics, RangesSeen,
};

/// New partitions have a first commit behind them, as it were: LSN 0 in a session token would mean
/// "nothing seen".
pub const FIRST_LSN: Lsn = Lsn(1);

impl Resources {
    pub(crate) async fn create_container(
        &self,
        work: &mut Work<'_>,
        path: &DatabasePath,
        body: &Value,
        throughput: Option<Throughput>,
        key_required: KeyRequired,
    ) -> Result<Outcome> {
        work.usage.metadata_writes = 1;
        let definition = ContainerDefinition::create(body, key_required == KeyRequired::Yes)?;
        if let Some(throughput) = &throughput {
            check_fixed_throughput(&definition, throughput)?;
        }
        self.check_free(path, &definition)?;
        // A container that shares its database's throughput or was given none begins with one
        // partition. One without a key never has more.
        let count = match &throughput {
            Some(throughput) if !definition.partition_key.is_keyless() => {
                throughput.initial_partitions()
            }
            Some(_) | None => 1,
        };
        let computed = IndexedComputed::of(&definition)?;
        let partitions = self.make_partitions(&definition, count).await?;
        let ids: Vec<PartitionId> = partitions.iter().map(|partition| partition.id).collect();
        let created = self
            .core
            .change(|| {
                self.check_free(path, &definition)?;
                let (etag, ts) = self.core.fresh_stamp();
                let catalog = self.core.catalog.current();
                let database = catalog.parent_database(path)?;
                let make = |n| ContainerRid { database: database.rid, container: n >> 1 };
                let taken =
                    |rid: &ContainerRid| catalog.containers(database.rid).any(|c| c.rid == *rid);
                let rid = self.core.fresh_rid(make, taken);
                let container = Container {
                    database,
                    rid,
                    definition: definition.clone(),
                    etag,
                    ts,
                    partitions: partitions.clone(),
                    epoch: Epoch(1),
                    moves: Vec::new(),
                    former_ranges: FormerRanges::default(),
                    policies: Policies::first(computed.clone()),
                    terms: Terms::Short,
                    lsn: Lsn(0),
                    live: Vec::new(),
                };
                let mut changes = Changes::default();
                changes.create_container(&container);
                if let Some(throughput) = &throughput {
                    let link = container.self_link();
                    changes.create_offer(&self.new_offer(
                        link,
                        rid.to_string(),
                        throughput.clone(),
                    ));
                }
                Ok((changes, rid))
            })
            .await;
        let rid = created.inspect_err(|error| self.core.let_go_after(error, &ids))?;
        let container = self.find_written(rid)?;
        work.container = Some(Arc::clone(&container));
        Ok(self.container_reply(&container, Change::Created))
    }

    pub(crate) fn read_container(
        &self,
        work: &mut Work<'_>,
        path: &ContainerPath,
        condition: Option<&Condition>,
    ) -> Result<Outcome> {
        work.usage.metadata_reads = 1;
        let container = self.known_container(work, path)?;
        if not_modified(condition, &container.etag)? {
            return Ok(Outcome::NotModified { etag: container.etag.to_string() });
        }
        Ok(self.container_reply(&container, Change::None))
    }

    pub(crate) async fn replace_container(
        &self,
        work: &mut Work<'_>,
        path: &ContainerPath,
        body: &Value,
        condition: Option<Condition>,
    ) -> Result<Outcome> {
        work.usage.metadata_writes = 1;
        self.known_container(work, path)?;
        let rid = self
            .core
            .change(|| {
                let old = self.core.catalog.current().container(path)?.container;
                check_unchanged(condition.as_ref(), &old.etag)?;
                let definition = old.definition.replace(body)?;
                let (etag, ts) = self.core.fresh_stamp();
                let policies = policies_after(&old, &definition)?;
                let container = Container { definition, etag, ts, policies, ..(*old).clone() };
                let mut changes = Changes::default();
                changes.replace_container(&container);
                Ok((changes, old.rid))
            })
            .await?;
        let container = self.find_written(rid)?;
        work.container = Some(Arc::clone(&container));
        // The items that are there follow the new policy later.
        self.core.doorbell.ring();
        Ok(self.container_reply(&container, Change::Replaced))
    }

    pub(crate) async fn delete_container(
        &self,
        work: &mut Work<'_>,
        path: &ContainerPath,
        condition: Option<Condition>,
    ) -> Result<Outcome> {
        work.usage.metadata_writes = 1;
        self.known_container(work, path)?;
        let ids = self
            .core
            .change(|| {
                let catalog = self.core.catalog.current();
                let container = catalog.container(path)?.container;
                check_unchanged(condition.as_ref(), &container.etag)?;
                let mut changes = Changes::default();
                changes.delete_container(&container);
                self.delete_scripts_of(&catalog, &mut changes, container.rid)?;
                if let Some(offer) = catalog.offer_of(&container.rid.to_string()) {
                    changes.delete_offer(offer);
                }
                let ids: Vec<PartitionId> = container.partition_ids().collect();
                Ok((changes, ids))
            })
            .await?;
        self.core.let_go(&ids);
        Ok(Outcome::Deleted)
    }

    pub(crate) fn list_containers(
        &self,
        work: &mut Work<'_>,
        path: &DatabasePath,
        wanted: (Option<&Filter>, &PageRequest),
        key_required: KeyRequired,
    ) -> Result<Outcome> {
        work.usage.metadata_reads = 1;
        let catalog = self.core.catalog.current();
        let database = catalog.parent_database(path)?;
        let all = catalog.containers(database.rid).map(Arc::clone);
        let shown = |container: &Arc<Container>| container.shown_to(key_required);
        let (containers, continuation) = page(all, |c| c.rid, ContainerRid::parse, shown, wanted)?;
        Ok(Outcome::Containers { database, containers, continuation })
    }

    pub(crate) fn container_statistics(
        &self,
        work: &mut Work<'_>,
        path: &ContainerPath,
    ) -> Result<Outcome> {
        work.usage.metadata_reads = 1;
        let container = self.known_container(work, path)?;
        let mut partitions = Vec::with_capacity(container.partitions.len());
        for partition in &container.partitions {
            let view = self.core.store.snapshot(partition.id)?;
            let (items, bytes) =
                (stored_total(&*view, Total::Items)?, stored_total(&*view, Total::Bytes)?);
            partitions.push(PartitionStatistics { range_id: partition.range_id, items, bytes });
        }
        Ok(Outcome::Statistics { partitions })
    }

    pub(crate) fn list_partitions(
        &self,
        work: &mut Work<'_>,
        path: &ContainerPath,
        known: Option<&EtagPattern>,
        incremental: bool,
    ) -> Result<Outcome> {
        work.usage.metadata_reads = 1;
        let container = self.core.item_container(work, path)?.container;
        let announcing = self.core.settings.partitions.announced_seconds > 0;
        let announced = announcing.then(|| container.last_range_id());
        let etag = ranges_etag(&container, RangesSeen { epoch: container.epoch, announced });
        let unchanged = match known {
            Some(EtagPattern::Exact(known)) => *known == etag,
            Some(EtagPattern::Any) => true,
            None => false,
        };
        let since = match known {
            Some(EtagPattern::Exact(known)) if incremental => ranges_seen(&container, known),
            Some(_) | None => None,
        };
        Ok(Outcome::Partitions { etag, unchanged, since })
    }

    fn known_container(&self, work: &mut Work<'_>, path: &ContainerPath) -> Result<Arc<Container>> {
        let container = self.core.catalog.current().container(path)?.container;
        work.container = Some(Arc::clone(&container));
        self.core.check_intended(work, &container)?;
        Ok(container)
    }

    /// Can the database have a container like this one?
    fn check_free(&self, path: &DatabasePath, definition: &ContainerDefinition) -> Result<()> {
        let catalog = self.core.catalog.current();
        let database = catalog.parent_database(path)?;
        let name = &definition.name;
        if catalog.containers(database.rid).any(|container| container.definition.name == *name) {
            return Err(Error::conflict(format!(
                "Resource with specified id or name already exists: container '{name}'"
            )));
        }
        // Keys go with their database only, so this stays true.
        catalog.check_encryption(database.rid, definition)
    }

    async fn make_partitions(
        &self,
        definition: &ContainerDefinition,
        count: usize,
    ) -> Result<Vec<Partition>> {
        let ranges = definition.partition_key.initial_ranges(count);
        let ids = self.core.catalog.take_partition_ids(ranges.len()).await?;
        self.core.store.create_partitions(&ids, FIRST_LSN)?;
        let partitions = ranges.into_iter().zip(ids).zip(0_u32..);
        let partition = |((epks, id), range_id)| Partition::new(range_id, id, epks, Vec::new());
        Ok(partitions.map(partition).collect())
    }

    fn container_reply(&self, container: &Container, change: Change) -> Outcome {
        let catalog = self.core.catalog.current();
        let offered = |owner: String| catalog.offer_of(&owner).is_some();
        let shares_throughput =
            !offered(container.rid.to_string()) && offered(container.rid.database.to_string());
        let index_progress = self.maintainer.index_progress(container);
        Outcome::Container { change, index_progress, shares_throughput }
    }

    /// The container just written, unless somebody was quick to delete it again.
    fn find_written(&self, rid: ContainerRid) -> Result<Arc<Container>> {
        self.core.container_by_rid(rid).ok_or_else(|| {
            Error::not_found("Resource Not Found: the container was deleted meanwhile")
        })
    }
}

/// Keeps the indexing policy that existing items were written under when it changes, or what the
/// computed properties that it names mean.
fn policies_after(old: &Container, definition: &ContainerDefinition) -> Result<Policies> {
    let mut policies = old.policies.clone();
    let computed = IndexedComputed::of(definition)?;
    let is_same = computed == policies.current_computed();
    if old.definition.indexing != definition.indexing || !is_same {
        policies.former.push((policies.current, old.definition.indexing.clone()));
        policies.current += 1;
        policies.computed.push((policies.current, computed));
    }
    Ok(policies)
}

/// The ETag of the ranges of an epoch. Another container of the same name has others.
fn ranges_etag(container: &Container, seen: RangesSeen) -> String {
    let etag = format!("{}-{}", container.rid.container, seen.epoch.0);
    match seen.announced {
        Some(range_id) => format!("{etag}-{range_id}"),
        None => etag,
    }
}

/// What a client with this ETag of the container's ranges has seen.
fn ranges_seen(container: &Container, etag: &str) -> Option<RangesSeen> {
    let mut parts = etag.split('-').skip(1);
    let epoch = Epoch(parts.next()?.parse().ok()?);
    let announced = parts.next().map(str::parse).transpose().ok()?;
    let seen = RangesSeen { epoch, announced };
    (epoch <= container.epoch && etag == ranges_etag(container, seen)).then_some(seen)
}

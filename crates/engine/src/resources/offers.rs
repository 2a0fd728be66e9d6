//! Offers: the throughput of databases and containers.
//!
//! What may be provisioned depends on what was: [`Rules`] says how far one may go down, and what
//! becomes of an offer that changes between manual and autoscale. What an offer tells of the moment
//! (the throughput that autoscale is at, what is stored) is put together when it is read.

use std::sync::Arc;

use partita_model::{
    ContainerDefinition, ContainerRid, DatabaseRid, Error, Lsn, OfferRid, Result, Throughput,
    limits,
};
use partita_query::Filter;

use super::Resources;
use super::{check_unchanged, page};
use crate::catalog::{ASKED_FOR_BITS, Changes, Container, Observed, Offer, slot_count};
use crate::context::Work;
use crate::keys::{Total, stored_total};
use crate::live::LivePartition;
use crate::op::{Change, Condition, Migrate, OfferChange, Outcome, PageRequest};

impl Resources {
    /// A new offer for a resource.
    pub(super) fn new_offer(
        &self,
        owner_link: String,
        owner_rid: String,
        throughput: Throughput,
    ) -> Offer {
        let (etag, ts) = self.core.fresh_stamp();
        let catalog = self.core.catalog.current();
        let make = |n: u32| OfferRid(n >> (u32::BITS - ASKED_FOR_BITS));
        Offer {
            rid: self.core.fresh_rid(make, |rid| catalog.offer(*rid).is_some()),
            owner_link,
            owner_rid,
            highest_ever: throughput.provisioned(),
            storage_kb_ever: 0,
            observed: Observed::default(),
            buckets: Vec::new(),
            throughput,
            replaced_at: ts,
            etag,
            ts,
            asked_for: true,
            lsn: Lsn(0),
        }
    }

    pub(crate) fn read_offer(&self, work: &mut Work<'_>, rid: &str) -> Result<Outcome> {
        work.usage.metadata_reads = 1;
        let offer = self.observed(&*self.offer(rid)?)?;
        Ok(Outcome::Offer { offer, change: Change::None })
    }

    pub(crate) async fn replace_offer(
        &self,
        work: &mut Work<'_>,
        rid: &str,
        wanted: OfferChange,
        condition: Option<Condition>,
    ) -> Result<Outcome> {
        work.usage.metadata_writes = 1;
        self.core
            .change(|| {
                let old = self.offer(rid)?;
                check_unchanged(condition.as_ref(), &old.etag)?;
                let seen = self.observed(&old)?;
                let throughput = Rules::of(&seen, self.sharing(&old)).changed(&wanted)?;
                self.check_fixed(&old, &throughput)?;
                let (etag, ts) = self.core.fresh_stamp();
                let offer = Offer {
                    highest_ever: old.highest_ever.max(throughput.provisioned()),
                    throughput,
                    buckets: wanted.buckets.clone().unwrap_or_else(|| old.buckets.clone()),
                    storage_kb_ever: seen.highest_storage_kb(),
                    replaced_at: ts,
                    etag,
                    ts,
                    asked_for: true,
                    ..(*old).clone()
                };
                let mut changes = Changes::default();
                match self.owner_of(&old) {
                    Some(owner) if !old.asked_for => changes.take_up_offer(&offer, &owner),
                    Some(_) | None => changes.replace_offer(&offer),
                }
                Ok((changes, ()))
            })
            .await?;
        // More throughput may need more partitions.
        self.moves.ask_for_a_look();
        self.core.doorbell.ring();
        let offer = self.observed(&*self.offer(rid)?)?;
        Ok(Outcome::Offer { offer, change: Change::Replaced })
    }

    pub(crate) fn list_offers(
        &self,
        work: &mut Work<'_>,
        filter: Option<&Filter>,
        request: &PageRequest,
    ) -> Result<Outcome> {
        work.usage.metadata_reads = 1;
        let catalog = self.core.catalog.current();
        let all = catalog.offers().map(Arc::clone);
        let (offers, continuation) =
            page(all, |o| o.rid, OfferRid::parse, |o| o.to_value(), (filter, request))?;
        let offers = offers.iter().map(|offer| self.observed(offer)).collect::<Result<_>>()?;
        Ok(Outcome::Offers { offers, continuation })
    }

    fn offer(&self, rid: &str) -> Result<Arc<Offer>> {
        let parsed = OfferRid::parse(rid).ok_or_else(|| {
            Error::bad_request(format!("'{rid}' is not the resource id of an offer"))
        })?;
        let catalog = self.core.catalog.current();
        let offer = catalog.offer(parsed).map(Arc::clone);
        offer.ok_or_else(|| {
            Error::not_found(format!("Resource Not Found: there is no offer '{rid}'"))
        })
    }

    /// The offer with what its owner does at the moment.
    fn observed(&self, offer: &Offer) -> Result<Arc<Offer>> {
        let now = self.core.clock.monotonic_nanos();
        let containers = self.limited_containers(offer);
        let mut used = vec![0.0; self.budgets_of(offer, &containers)];
        let mut bytes = 0;
        for container in &containers {
            let budgets = (0..used.len()).cycle();
            for (partition, at) in container.serving().zip(budgets) {
                bytes += self.partition_bytes(partition)?;
                if let Some(used) = used.get_mut(at) {
                    *used += partition.meter.ru_peak(now);
                }
            }
        }
        let busiest = used.iter().copied().fold(0.0, f64::max);
        let mut seen = Offer { observed: Observed::default(), ..offer.clone() };
        // As if all were as busy as the busiest: the throughput is divided evenly.
        seen.observed.used_ru = (busiest * used.len() as f64).ceil() as u32;
        seen.observed.storage_kb = bytes / 1_024;
        seen.observed.minimum_ru = Rules::of(&seen, self.sharing(offer)).minimum(&offer.throughput);
        seen.observed.replace_pending =
            self.owner_of(offer).is_some_and(|container| self.moves.awaits_partitions(&container));
        Ok(Arc::new(seen))
    }

    /// The container that has the offer for itself.
    fn owner_of(&self, offer: &Offer) -> Option<Arc<Container>> {
        self.core.container_by_rid(ContainerRid::parse(&offer.owner_rid)?)
    }

    /// Over how many budgets an offer is divided.
    fn budgets_of(&self, offer: &Offer, containers: &[Arc<Container>]) -> usize {
        match containers.first() {
            Some(owner) if owner.rid.to_string() == offer.owner_rid => owner.partitions.len(),
            Some(_) | None => slot_count(&offer.throughput, self.core.settings.partitions.ru_max),
        }
    }

    /// The containers that use an offer.
    fn limited_containers(&self, offer: &Offer) -> Vec<Arc<Container>> {
        let catalog = self.core.catalog.current();
        let uses = |container: &&Arc<Container>| {
            let used = catalog.offer_for(container);
            used.is_some_and(|used| used.rid == offer.rid)
        };
        let database = DatabaseRid::parse(&offer.owner_rid)
            .or_else(|| Some(ContainerRid::parse(&offer.owner_rid)?.database));
        let containers = database.into_iter().flat_map(|rid| catalog.containers(rid));
        containers.filter(uses).map(Arc::clone).collect()
    }

    /// How many containers share a database's offer; None: it is a container's.
    fn sharing(&self, offer: &Offer) -> Option<usize> {
        DatabaseRid::parse(&offer.owner_rid)?;
        Some(self.limited_containers(offer).len())
    }

    /// A container without a partition key cannot use more than one partition gives.
    fn check_fixed(&self, offer: &Offer, throughput: &Throughput) -> Result<()> {
        let owner = |container: &Arc<Container>| container.rid.to_string() == offer.owner_rid;
        match self.limited_containers(offer).into_iter().find(owner) {
            Some(container) => check_fixed_throughput(&container.definition, throughput),
            None => Ok(()),
        }
    }

    fn partition_bytes(&self, partition: &LivePartition) -> Result<u64> {
        if let Some(bytes) = partition.meter.bytes() {
            return Ok(bytes);
        }
        stored_total(&*self.core.store.snapshot(partition.id)?, Total::Bytes)
    }
}

/// Refuses throughput that a container without a partition key cannot use.
pub(super) fn check_fixed_throughput(
    definition: &ContainerDefinition,
    throughput: &Throughput,
) -> Result<()> {
    let ru_max = limits::FIXED_CONTAINER_RU_MAX;
    if definition.partition_key.is_keyless() && throughput.provisioned() > ru_max {
        return Err(Error::bad_request(format!(
            "A container without a partition key can have {ru_max} RU/s at most, not {}: its items \
             cannot be divided",
            throughput.provisioned()
        )));
    }
    Ok(())
}

/// How an offer may change.
struct Rules<'a> {
    offer: &'a Offer,
    /// Containers that share it, if it is a database's.
    sharing: Option<usize>,
}

impl<'a> Rules<'a> {
    fn of(offer: &'a Offer, sharing: Option<usize>) -> Rules<'a> {
        Rules { offer, sharing }
    }

    /// The throughput after a replacement. Manual and autoscale do not turn into each other unless
    /// the client says so; then the service chooses the new value from the old one.
    fn changed(&self, wanted: &OfferChange) -> Result<Throughput> {
        let now = &self.offer.throughput;
        match (now, wanted.migrate) {
            (Throughput::Manual(ru), Migrate::ToAutoscale) => {
                let scaled = Throughput::Autoscale { max: 0, increment_percent: None };
                let max = self.minimum(&scaled).max(ru.div_ceil(1_000) * 1_000);
                Ok(Throughput::Autoscale { max, increment_percent: None })
            }
            (Throughput::Autoscale { max, .. }, Migrate::ToManual) => Ok(Throughput::Manual(*max)),
            (Throughput::Manual(_), Migrate::No | Migrate::ToManual)
            | (Throughput::Autoscale { .. }, Migrate::No | Migrate::ToAutoscale) => {
                let wanted = &wanted.throughput;
                if std::mem::discriminant(now) != std::mem::discriminant(wanted) {
                    return Err(Error::bad_request(
                        "An offer cannot change between manual and autoscale throughput in a plain \
                         replace: set x-ms-cosmos-migrate-offer-to-autopilot or \
                         x-ms-cosmos-migrate-offer-to-manual-throughput",
                    ));
                }
                self.check_minimum(wanted)?;
                Ok(wanted.clone())
            }
        }
    }

    /// The least throughput of the kind that is asked for: a hundredth (autoscale: a tenth) of the
    /// most there ever was, and so much for what is stored and for each container that shares it.
    fn minimum(&self, kind: &Throughput) -> u32 {
        let (floor, part, per_gb, per_container) = match kind {
            Throughput::Manual(_) => (limits::THROUGHPUT_MANUAL_RU_MIN, 100, 1, 100),
            Throughput::Autoscale { .. } => (limits::THROUGHPUT_AUTOSCALE_RU_MIN, 10, 10, 1_000),
        };
        let step = match kind {
            Throughput::Manual(_) => limits::THROUGHPUT_RU_STEP,
            Throughput::Autoscale { .. } => limits::THROUGHPUT_AUTOSCALE_RU_MIN,
        };
        let stored_gb = self.offer.highest_storage_kb().div_ceil(1 << 20);
        let stored = u32::try_from(stored_gb).unwrap_or(u32::MAX).saturating_mul(per_gb);
        let more = self.sharing.unwrap_or(0).saturating_sub(limits::SHARED_CONTAINERS_INCLUDED);
        let more = u32::try_from(more).unwrap_or(u32::MAX).saturating_mul(per_container);
        let least = floor.saturating_add(more).max(self.offer.highest_ever / part).max(stored);
        least.div_ceil(step).saturating_mul(step).min(limits::THROUGHPUT_RU_MAX)
    }

    fn check_minimum(&self, wanted: &Throughput) -> Result<()> {
        let minimum = self.minimum(wanted);
        if wanted.provisioned() >= minimum {
            return Ok(());
        }
        Err(Error::bad_request(format!(
            "Requested throughput {} is less than required minimum throughput {minimum}: up to {} \
             RU/s were provisioned and up to {} KB stored",
            wanted.provisioned(),
            self.offer.highest_ever,
            self.offer.highest_storage_kb()
        )))
    }
}

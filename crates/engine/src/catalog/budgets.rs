//! Which budget a partition uses.
//!
//! A container with throughput of its own has one budget for each of its partitions, an equal share
//! each. The throughput of a database that containers share is cut into *slots*, as few as a
//! partition's limit allows, and the partition at place i of every such container uses slot i
//! modulo their number. A container that nobody gave either has no budget, unless
//! [`DefaultThroughput`](crate::DefaultThroughput) says that it has.
//!
//! Budgets are assigned when the catalog's copy in memory is made and each time it changes, so a
//! new throughput, or a new number of partitions, takes effect with the commit that made it. What
//! was used and saved stays with the partition, or with the slot.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use partita_model::{OfferRid, Throughput};

use super::{Catalog, Container, Offer};
use crate::throughput::Budget;

/// The budgets that containers share.
#[derive(Debug, Default)]
pub(crate) struct Budgets {
    pools: Mutex<HashMap<OfferRid, Vec<Arc<Budget>>>>,
    /// Request units per second that a partition can give.
    ru_max: u32,
}

impl Budgets {
    pub(crate) fn new(ru_max: u32) -> Budgets {
        Budgets { pools: Mutex::default(), ru_max: ru_max.max(1) }
    }

    /// Gives these containers' partitions the budgets that the catalog says they have.
    pub(crate) fn assign<'c>(
        &self,
        now: u64,
        catalog: &Catalog,
        containers: impl IntoIterator<Item = &'c Arc<Container>>,
    ) {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|rid, _| catalog.offer(*rid).is_some());
        for container in containers {
            match catalog.throughput_of(container) {
                None => container.serving().for_each(|live| live.meter.set_budget(None)),
                Some(offer) if offer.owner_rid == container.rid.to_string() => {
                    assign_own(now, container, offer);
                }
                Some(offer) => {
                    let slots = pools.entry(offer.rid).or_default();
                    set_slots(now, slots, offer, self.ru_max);
                    for (live, slot) in container.serving().zip(slots.iter().cycle()) {
                        live.meter.set_budget(Some(Arc::clone(slot)));
                    }
                }
            }
        }
    }
}

fn assign_own(now: u64, container: &Container, offer: &Offer) {
    let partitions = container.partitions.len().max(1) as f64;
    let share = f64::from(offer.throughput.provisioned()) / partitions;
    for live in container.serving() {
        match live.meter.budget() {
            Some(budget) => budget.set(now, share, &offer.buckets),
            None => {
                let budget = Budget::new(now, share, &offer.buckets);
                live.meter.set_budget(Some(Arc::new(budget)));
            }
        }
    }
}

/// Into how many slots a shared throughput is cut.
pub(crate) fn slot_count(throughput: &Throughput, ru_max: u32) -> usize {
    throughput.provisioned().div_ceil(ru_max.max(1)).max(1) as usize
}

/// Makes the slots of a shared throughput as many and as large as they have to be.
fn set_slots(now: u64, slots: &mut Vec<Arc<Budget>>, offer: &Offer, ru_max: u32) {
    let count = slot_count(&offer.throughput, ru_max);
    let share = f64::from(offer.throughput.provisioned()) / count as f64;
    slots.truncate(count);
    for slot in slots.iter() {
        slot.set(now, share, &offer.buckets);
    }
    slots.resize_with(count, || Arc::new(Budget::new(now, share, &offer.buckets)));
}

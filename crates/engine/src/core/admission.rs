//! Admitting requests to partitions, and charging these what the requests cost.
//!
//! A request is *admitted* to the partitions that it is about to ask, or refused with the time
//! after which it would be admitted; when it is done, each partition is *charged* what the request
//! cost there. The charges of all partitions add up to the charge of the reply, to the hundredth. A
//! query may run for long: what it costs for sure is *owed* by its partitions while it runs, so
//! that those who come meanwhile are admitted by that.

use partita_model::{
    Charge, Clock, Consistency, Epk, Error, ErrorKind, PartitionKey, Result, Usage,
};

use super::Core;
use crate::context::Work;
use crate::live::LivePartition;
use crate::op::Outcome;
use crate::pricing;
use crate::throughput::{CENTS_PER_RU, Demand, Refused, ThroughputMode};

/// How a query's partitions are charged while it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Debit {
    demand: Demand,
    consistency: Consistency,
}

impl Debit {
    /// The price of this, in hundredths.
    pub(crate) fn cents(self, usage: &Usage) -> u64 {
        cents(pricing::charge(usage, self.consistency).0)
    }

    /// Has a partition's limit know of it. Told, and counted, is all of it when the query is done.
    pub(crate) fn charge(self, partition: &LivePartition, clock: &dyn Clock, cents: u64) {
        partition.meter.owe(clock.monotonic_nanos(), cents, self.demand);
    }
}

/// What one partition did for a request.
pub(crate) struct Share<'a> {
    pub(crate) partition: &'a LivePartition,
    /// The price of it: how the request's charge is divided.
    pub(crate) weight: f64,
}

impl Core {
    /// Lets a request go ahead in a partition, or says when it may come again.
    pub(crate) fn admit(&self, work: &Work<'_>, partition: &LivePartition) -> Result<()> {
        if self.settings.throughput == ThroughputMode::Off {
            return Ok(());
        }
        let now = self.clock.monotonic_nanos();
        partition.meter.admit(now, work.context.demand).map_err(|refused| {
            let Refused { retry_after_ms, bucket } = refused;
            Error::new(ErrorKind::Throttled { retry_after_ms, bucket }, text(bucket))
        })
    }

    /// The same for a request that may ask a partition several times: it is admitted once.
    pub(crate) fn admit_once(&self, work: &mut Work<'_>, partition: &LivePartition) -> Result<()> {
        if work.admitted.contains(&partition.id) {
            return Ok(());
        }
        self.admit(work, partition)?;
        work.admitted.push(partition.id);
        Ok(())
    }

    /// How partitions are charged while a request runs, if they are limited.
    pub(crate) fn debit(&self, work: &Work<'_>) -> Option<Debit> {
        let (demand, consistency) = (work.context.demand, self.consistency(work.context));
        let enforced = self.settings.throughput == ThroughputMode::Enforced;
        enforced.then_some(Debit { demand, consistency })
    }

    /// Charges a partition what a request cost.
    pub(crate) fn charge(
        &self,
        work: &Work<'_>,
        partition: &LivePartition,
        charge: Charge,
        key: Option<(&Epk, &PartitionKey)>,
    ) {
        self.charge_cents(work, partition, cents(charge.0), key);
    }

    /// Charges several partitions what a request cost, by what each did for it.
    pub(crate) fn charge_shares(
        &self,
        work: &Work<'_>,
        charge: Charge,
        shares: &[Share<'_>],
        key: Option<(&Epk, &PartitionKey)>,
    ) {
        let all: f64 = shares.iter().map(|share| share.weight).sum();
        let (mut left, mut weight_left) = (cents(charge.0), all);
        for share in shares {
            // Each takes its part of what is left, so the last one takes all of it.
            let part = if weight_left > 0.0 { share.weight / weight_left } else { 1.0 };
            let taken = ((left as f64 * part).round() as u64).min(left);
            weight_left -= share.weight;
            left -= taken;
            self.charge_cents(work, share.partition, taken, key);
        }
    }

    /// A write of an item that is refused for what is there costs more than the look that found it,
    /// for which the partition was charged already.
    pub(crate) fn charge_if_refused(&self, work: &mut Work<'_>, written: &Result<Outcome>) {
        if !written.as_ref().is_err_and(|error| is_for_what_is_there(&error.kind)) {
            return;
        }
        let (Some(container), Some(served)) = (work.container.clone(), &work.served) else {
            return;
        };
        let Some(partition) = container.live_range(served.range_id) else { return };
        let consistency = self.consistency(work.context);
        let charged = pricing::charge(&work.usage, consistency);
        work.usage.refused_writes = 1;
        let whole = pricing::charge(&work.usage, consistency);
        self.charge(work, partition, Charge(whole.0 - charged.0), None);
    }

    fn charge_cents(
        &self,
        work: &Work<'_>,
        partition: &LivePartition,
        cents: u64,
        key: Option<(&Epk, &PartitionKey)>,
    ) {
        let enforced = self.settings.throughput == ThroughputMode::Enforced;
        let owed = || work.tally.as_ref().map_or(0, |t| t.take_owed_cents(partition.range_id));
        let limited = enforced.then(|| (work.context.demand, cents.saturating_sub(owed())));
        partition.meter.charge(self.clock.monotonic_nanos(), cents, limited, key);
    }
}

/// Is a write refused for what is stored already?
pub(crate) fn is_for_what_is_there(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::Conflict | ErrorKind::PreconditionFailed)
}

fn cents(ru: f64) -> u64 {
    (ru * CENTS_PER_RU).round() as u64
}

/// The service's text: tools look for its beginning.
fn text(bucket: Option<u8>) -> String {
    const LATER: &str = "so no changes were made. Please retry this request later.";
    match bucket {
        None => format!("Request rate is large. More Request Units may be needed, {LATER}"),
        Some(id) => format!(
            "Request rate is large. The throughput bucket {id} has used up its share of the \
             container's throughput, {LATER}"
        ),
    }
}

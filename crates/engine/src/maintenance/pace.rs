//! How the background leaves room for clients.
//!
//! A step is short, but one after the other would take as much of the machine as all clients
//! together. So while there are clients whoever takes steps rests after each, in proportion to what
//! it took: whatever the machine can do, the background has no more than its share of the time.
//! When nobody asks for anything it rests not at all. And when the store has much to catch up with,
//! so that writers would soon have to wait, the rests get longer, with clients or without; they end
//! in any case, for a store that is always busy must get through with its jobs too.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Maintainer;
use crate::step::Maintenance;

/// Rest for each part of work while there are clients: five eighths of the time are work.
const REST_PER_WORK: f64 = 0.6;

/// From this pressure on the store is spared.
const PRESSURE_FROM: f64 = 0.4;
/// Rest for each part of work, at full pressure.
const REST_AT_FULL_PRESSURE: f64 = 20.0;

/// Longer rests would only make whoever waits for the end impatient.
const REST_NANOS_MAX: f64 = 1e9;

/// Shorter ones are not worth going to sleep for.
const REST_NANOS_MIN: f64 = 1e5;

/// What clients had asked for when a step was last taken.
#[derive(Debug, Default)]
pub(super) struct Pace {
    requests: AtomicU64,
}

impl Maintainer {
    /// What a step came to that something was done in.
    pub(super) fn busy_since(&self, begun_nanos: u64) -> Maintenance {
        let took = self.core.clock.monotonic_nanos().saturating_sub(begun_nanos);
        let requests = self.requests_served();
        let are_clients = self.jobs.pace.requests.swap(requests, Ordering::Relaxed) != requests;
        let rest = took as f64 * rest_per_work(are_clients, self.core.store.pressure());
        if rest < REST_NANOS_MIN {
            return Maintenance::Busy;
        }
        Maintenance::Resting(Duration::from_nanos(rest.min(REST_NANOS_MAX) as u64))
    }

    fn requests_served(&self) -> u64 {
        let catalog = self.core.catalog.current();
        let partitions = catalog.all_containers().flat_map(|container| container.serving());
        partitions.map(|live| live.meter.requests()).sum()
    }
}

fn rest_per_work(are_clients: bool, pressure: f64) -> f64 {
    let for_clients = if are_clients { REST_PER_WORK } else { 0.0 };
    let over = (pressure - PRESSURE_FROM).max(0.0) / (1.0 - PRESSURE_FROM);
    for_clients + over * REST_AT_FULL_PRESSURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_have_their_share_of_the_time_and_a_store_under_pressure_nearly_all() {
        assert_eq!(rest_per_work(false, 0.0), 0.0);
        assert_eq!(rest_per_work(false, PRESSURE_FROM), 0.0);
        let share = |rest: f64| 1.0 / (1.0 + rest);
        assert_eq!(share(rest_per_work(true, 0.2)), 0.625);
        assert!(share(rest_per_work(true, 0.7)) < 0.1);
        assert!(share(rest_per_work(true, 1.0)) > 0.04, "it gets on in any case");
    }
}

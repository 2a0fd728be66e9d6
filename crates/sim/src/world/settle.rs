//! Quiet points: everything under way comes to its end, and all is compared.

use std::collections::BTreeSet;

use partita_engine::Maintenance;

use super::{Checked, World};
use crate::kind::{IDS, KEYS};
use crate::random::Random;

/// So many times everybody may go on before somebody is said to wait for nothing.
const TURNS_MAX: u64 = 200_000;

/// After so many rests in a row each further one is twice as long.
const RESTS: u64 = 16;

impl World {
    /// Lets everything come to its end, and checks all.
    pub(super) fn settle(&mut self) -> Checked {
        self.disk.calm();
        // After a failed write another process opens the store, or the same one goes on.
        let restarts = self.disk.is_poisoned() && self.disk.trace().is_multiple_of(2);
        if self.disk.is_down() || restarts {
            self.restart(self.disk.trace())?;
        }
        let mut random = Random::new(self.disk.trace());
        let mut rests = 0;
        for _ in 0..TURNS_MAX {
            let waits = self.clients.iter().any(|client| client.running.is_some());
            if self.go(random.bits())? {
                continue;
            }
            if self.maintenance.is_none() {
                let is_through = !waits && self.rested == Some(Maintenance::Idle);
                if is_through {
                    self.rested = None;
                    return self.check_all();
                }
                match self.rested {
                    Some(Maintenance::Busy) => rests = 0,
                    // Chores rest, and what is blocked may not be in a moment. It may be long when
                    // the step before seemed to take long, since time passed in its midst.
                    _ => {
                        rests += 1;
                        self.clock.advance_millis(1 << (rests / RESTS).min(10));
                    }
                }
                self.rested = None;
                self.maintain()?;
            }
        }
        let waiting = self.clients.iter().filter(|client| client.running.is_some()).count();
        Err(format!("{waiting} operations wait for ever, maintenance is at {:?}", self.rested))
    }

    fn check_all(&mut self) -> Checked {
        self.check_contents("at a quiet point")?;
        self.follow_to_the_end()?;
        self.count_moved()?;
        self.history.check()
    }

    /// Looks which ranges are new: a move that ends brings one or two.
    pub(super) fn count_moved(&mut self) -> Checked {
        for container in 0..self.containers.len() {
            let ranges = self.ranges(container)?.unwrap_or_default();
            let ranges: BTreeSet<u32> = ranges.into_iter().map(|(id, _)| id).collect();
            let known = std::mem::replace(&mut self.containers[container].ranges, ranges);
            let has_new = self.containers[container].ranges.iter().any(|id| !known.contains(id));
            self.report.moved += u64::from(has_new && !known.is_empty());
        }
        Ok(())
    }

    /// Everything that is stored is what the model has, and whole.
    pub(super) fn check_contents(&mut self, when: &str) -> Checked {
        let report = self.database.check().map_err(|error| format!("a check fails: {error}"))?;
        if let Some(finding) = report.findings.first() {
            return Err(format!("{when}: {finding:?}"));
        }
        for container in 0..self.containers.len() {
            let check = |world: &mut World| -> Checked {
                world.query_all(container, None, 3)?;
                for key in 0..KEYS {
                    for id in 0..IDS {
                        world.look_at(container, key, id)?;
                    }
                }
                Ok(())
            };
            check(self).map_err(|what| format!("{when}: {what}"))?;
        }
        Ok(())
    }
}

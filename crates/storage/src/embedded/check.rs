//! Reads a whole store and says what is wrong with it. Repairs nothing.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;

use partita_model::Lsn;

use super::directory::Directory;
use super::dropped::Dropped;
use super::keys::{SYSTEM, partition_of};
use super::lane::{LanePlan, OpenLane};
use super::settings::{EmbeddedSettings, Frozen};
use super::{Partitions, in_parallel, lane_of, open_lanes};
use crate::contract::{PartitionId, Result, Space};
use crate::error::StorageError;
use crate::prepared::record;

/// Damage of one kind tends to come in numbers; this many are told.
const PROBLEMS_MAX: usize = 100;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub lanes: usize,
    pub partitions: usize,
    pub records: u64,
    /// Records of dropped partitions that still take space.
    pub dropped_records: u64,
    /// What is wrong, one sentence each; empty if nothing is.
    pub problems: Vec<String>,
}

/// Checks the store in this directory: that every lane reaches what it acknowledged, that every
/// record can be read, belongs to a partition of its lane, and is not from the future.
///
/// The journals are looked at first, and if they are damaged the engine is not opened at all: its
/// recovery would cut off what cannot be read. An error means that the check itself was impossible.
pub fn check(path: &Path) -> Result<Report> {
    let directory = Directory::lock(path)?;
    let settings = EmbeddedSettings::default();
    let Some(frozen) = directory.read_frozen(&settings)? else {
        let path = path.display();
        return Err(StorageError::Settings(format!("there is no store in {path}")));
    };
    let mut report = Report { lanes: frozen.lanes, ..Report::default() };
    let dropped = Dropped::default();
    report.check_journals(&directory, &frozen, &dropped)?;
    if !report.problems.is_empty() {
        return Ok(report);
    }
    match open_lanes(&directory, &settings, &dropped) {
        Ok((_, lanes)) => report.check_lanes(&lanes)?,
        Err(StorageError::Corrupt(problem)) => report.problem(problem),
        Err(error) => return Err(error),
    }
    Ok(report)
}

impl Report {
    fn problem(&mut self, problem: String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        }
    }

    fn check_journals(
        &mut self,
        directory: &Directory,
        frozen: &Frozen,
        dropped: &Dropped,
    ) -> Result<()> {
        for index in 0..frozen.lanes {
            let plan = LanePlan { directory, index, frozen, cache_bytes: 0, dropped };
            match plan.inspect() {
                Ok(_) => {}
                Err(StorageError::Corrupt(problem)) => self.problem(problem),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn check_lanes(&mut self, lanes: &[OpenLane]) -> Result<()> {
        let partitions = Partitions::read(lanes)?;
        self.partitions = partitions.living.len();
        let mut expected: HashMap<PartitionId, Option<Lsn>> =
            partitions.living.into_iter().map(|(id, lsn)| (id, Some(lsn))).collect();
        expected.extend(partitions.dropped.into_iter().map(|id| (id, None)));
        let reports = in_parallel(lanes.len(), |index| {
            let mut report = Report::default();
            for space in Space::ALL {
                report.check_space(&lanes[index], lanes.len(), space, &expected);
            }
            Ok(report)
        })?;
        for report in reports {
            self.records += report.records;
            self.dropped_records += report.dropped_records;
            report.problems.into_iter().for_each(|problem| self.problem(problem));
        }
        Ok(())
    }

    fn check_space(
        &mut self,
        lane: &OpenLane,
        lanes: usize,
        space: Space,
        expected: &HashMap<PartitionId, Option<Lsn>>,
    ) {
        let place = || format!("lane {}, {space:?}", lane.index);
        let walked = lane.each(space, &mut |key, stored| {
            let partition = partition_of(key.as_bytes());
            if partition == Some(SYSTEM) {
                return Ok(ControlFlow::Continue(()));
            }
            let known = partition.filter(|id| lane_of(*id, lanes) == lane.index);
            match (known.and_then(|id| expected.get(&id)), record(space, stored.into_bytes())) {
                (_, Err(error)) => self.problem(format!("{}: {error}", place())),
                (None, _) => self.problem(format!(
                    "{}: a record belongs to partition {partition:?}, which is not there",
                    place()
                )),
                (Some(None), _) => self.dropped_records += 1,
                (Some(Some(lsn)), Ok(record)) if record.lsn > *lsn => self.problem(format!(
                    "{}: a record of {partition:?} has LSN {}, but the partition is at {lsn}",
                    place(),
                    record.lsn
                )),
                (Some(Some(_)), Ok(_)) => self.records += 1,
            }
            Ok(ControlFlow::Continue(()))
        });
        if let Err(error) = walked {
            // The engine cannot continue after a table that it cannot read.
            self.problem(format!("{}: {error}", place()));
        }
    }
}

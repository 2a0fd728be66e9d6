//! Reads a whole store and says what is wrong with it. Repairs nothing.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;

use partita_model::Lsn;

use crate::contract::StorageError;
use crate::contract::{PartitionId, Result, Space};
use crate::embedded::dropped::Dropped;
use crate::embedded::files::copy::Scratch;
use crate::embedded::files::directory::Directory;
use crate::embedded::files::inventory::{self, Depth};
use crate::embedded::files::manifest::Manifest;
use crate::embedded::keys::{SYSTEM, partition_of};
use crate::embedded::lane::{LanePlan, OpenLane};
use crate::embedded::settings::EmbeddedSettings;
use crate::embedded::{Partitions, Use, in_parallel, lane_of, open_lanes};
use crate::prepared::record;

/// Damage of one kind tends to come in numbers; this many are told.
const PROBLEMS_MAX: usize = 100;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub lanes: usize,
    /// The engine's files of records; all their bytes were compared with their checksums.
    pub tables: usize,
    pub partitions: usize,
    pub records: u64,
    /// Records of dropped partitions that still take space.
    pub dropped_records: u64,
    /// What is wrong, one sentence each; empty if nothing is.
    pub problems: Vec<String>,
}

/// Checks the store in this directory: that all files are there and are what they were when they
/// were written, that every lane reaches what it acknowledged, that every record can be read,
/// belongs to a partition of its lane, and is not from the future.
///
/// Nothing in the directory is changed: the engine, which cannot open a database without writing to
/// it, gets a copy (`copy.rs`), and only if the files are whole. A file that the system cannot read
/// is a problem like any other. An error means that the check itself was impossible.
pub fn check(path: &Path) -> Result<Report> {
    let directory = Directory::lock_for_reading(path)?;
    let settings = EmbeddedSettings::default();
    let manifest = match directory.expect_manifest(&settings) {
        Ok(manifest) => manifest,
        Err(StorageError::Corrupt(problem)) => {
            return Ok(Report { problems: vec![problem], ..Report::default() });
        }
        Err(error) => return Err(error),
    };
    let mut report = Report { lanes: manifest.frozen.lanes, ..Report::default() };
    let inventory = inventory::take(&directory, &manifest, Depth::Whole)?;
    report.tables = inventory.tables_read;
    inventory.problems.into_iter().for_each(|problem| report.problem(problem));
    report.check_journals(&directory, &manifest)?;
    if !report.problems.is_empty() {
        return Ok(report);
    }
    let scratch = Scratch::of(&directory, &manifest)?;
    let copy = Directory::lock(scratch.path())?;
    match open_lanes(&copy, &settings, &Dropped::default(), Use::Read) {
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

    fn check_journals(&mut self, directory: &Directory, manifest: &Manifest) -> Result<()> {
        let dropped = Dropped::default();
        // Those that are missing have been told.
        for index in (0..manifest.frozen.lanes).filter(|index| directory.lane(*index).is_dir()) {
            match LanePlan::to_read(directory, manifest, index, &dropped).inspect() {
                Ok(_) => {}
                Err(StorageError::Corrupt(problem) | StorageError::Io(problem)) => {
                    self.problem(problem);
                }
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

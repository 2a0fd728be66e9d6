//! `partita check`: is everything in a data directory whole?
//!
//! Two looks, both of all data: the store's (every acknowledged commit is there, every record can
//! be read) and the database's (every item has its index entries, every index entry has its item,
//! the counters add up). It repairs nothing and changes nothing: both looks are at a copy of what
//! is small and at the tables themselves. The server must not be running on the directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use partita_engine::{Database, EngineSettings};
use partita_model::{Clock, Entropy};
use partita_storage::EmbeddedStore;

use crate::args::CheckArgs;
use crate::failure::{Failure, Kind};
use crate::output::print;

/// Findings of one kind tend to come in numbers; this many are shown.
const FINDINGS_SHOWN_MAX: usize = 20;

pub(crate) fn run(
    args: &CheckArgs,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
) -> Result<(), Failure> {
    let default = PathBuf::from("./partita-data");
    let directory = args.data_dir.as_ref().unwrap_or(&default);
    check_store(directory)?;
    check_database(directory, clock, entropy)
}

fn check_store(directory: &Path) -> Result<(), Failure> {
    let report = partita_storage::check(directory)?;
    print(&format!(
        "store: {} partitions, {} records in {} lanes and {} tables, {} records of dropped \
         partitions\n",
        report.partitions, report.records, report.lanes, report.tables, report.dropped_records
    ));
    conclude("store", &report.problems)
}

fn check_database(
    directory: &Path,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
) -> Result<(), Failure> {
    let store = Arc::new(EmbeddedStore::open_copy(directory)?);
    let settings = EngineSettings::default();
    let database = Database::open(store, clock, entropy, settings)?;
    let checked = database.check();
    database.close()?;
    let report = checked?;
    print(&format!(
        "database: {} items, {} entries that lead to them, in {} partitions\n",
        report.items, report.entries, report.partitions
    ));
    let findings: Vec<String> = report
        .findings
        .iter()
        .map(|finding| {
            format!("{}, range {}: {}", finding.container, finding.range_id, finding.what)
        })
        .collect();
    conclude("database", &findings)
}

fn conclude(what: &str, problems: &[String]) -> Result<(), Failure> {
    if problems.is_empty() {
        print(&format!("{what}: whole\n"));
        return Ok(());
    }
    for problem in problems.iter().take(FINDINGS_SHOWN_MAX) {
        print(&format!("  {problem}\n"));
    }
    Err(Failure::new(
        Kind::Damaged,
        format!(
            "{} problems in the {what}: restore a backup, or export what is readable",
            problems.len()
        ),
    ))
}

//! The same at ten thousand documents, ten times as many, and so on: what does an operation cost?
//!
//! Every size has a space of its own, and rounds go through all sizes in turn, so that what the
//! machine does meanwhile falls on all of them. Questions are asked where most documents are.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use super::measure::{self, Plan};
use super::peers::{BEFORE, Peer};
use super::results::{Better, PARTITA, Results, Row, Sample};
use super::table::number;
use super::workload::{self, Workload};
use super::{CompareOptions, DISK_BYTES, JOURNALS, note};
use crate::system::{Session, System};

const SMALLEST: u64 = 10_000;
pub(crate) const SIZES_TEXT: &str = "10 000 documents to the largest size";

/// What is done at every size.
pub(crate) const OPERATIONS: [&str; 3] =
    [workload::POINT_READ, "query: range, ORDER BY, TOP 100", workload::CREATE_MANY];

/// How often, and between what times, it is looked whether a directory still changes, and how often
/// it must have been the same.
const SETTLING_MAX: usize = 80;
const SETTLING: Duration = Duration::from_millis(500);
const UNCHANGED: usize = 12;

const BETWEEN: &str = ", at ";

/// The name of a row about this many documents.
pub(crate) fn row_name(name: &str, documents: u64) -> String {
    format!("{name}{BETWEEN}{} documents", number(documents as f64))
}

pub(crate) fn is_row_of(row: &str, name: &str) -> bool {
    row.strip_prefix(name).is_some_and(|rest| rest.starts_with(BETWEEN))
}

/// The largest size at which this peer was measured.
pub(crate) fn largest(results: &Results, peer: &str) -> Option<u64> {
    let rows = results.rows.iter().filter(|row| row.value(peer).is_some());
    rows.filter_map(|row| size_of(&row.name)).max()
}

/// How many documents a row is about.
pub(crate) fn size_of(row: &str) -> Option<u64> {
    row.rsplit_once(BETWEEN)?.1.strip_suffix(" documents")?.replace(' ', "").parse().ok()
}

fn sizes(largest: u64) -> Vec<u64> {
    let sizes = std::iter::successors(Some(SMALLEST), |size| size.checked_mul(10));
    sizes.take_while(|size| *size <= largest).collect()
}

/// A system with a space for every size up to its largest, and clients.
struct Grown {
    system: System,
    largest: u64,
    sessions: Vec<Session>,
}

pub(crate) async fn run(
    options: &CompareOptions,
    peers: &[Peer],
    scratch: &Path,
    results: &mut Results,
) -> Result<()> {
    let sizes = sizes(options.growth_max());
    let mut grown = Vec::new();
    for peer in peers.iter().filter(|peer| peer.takes_batches()) {
        let system = peer.start(&scratch.join("growth")).await?;
        let largest = match peer.name {
            PARTITA => options.growth_max(),
            _ => options.growth_max().min(options.growth_peers_max),
        };
        system.make_database().await?;
        for size in sizes.iter().filter(|size| **size <= largest) {
            load(&system, *size, scratch, results).await?;
        }
        let journals = system.journal_bytes(&scratch.join("growth").join(system.name)).await?;
        add(results, JOURNALS, "MB", system.name, journals / 1e6);
        grown.push(Grown { system, largest, sessions: Vec::new() });
    }
    // Only now: to load the others takes longer than a server keeps a connection without requests.
    for Grown { system, sessions, .. } in &mut grown {
        *sessions = system.sessions(64).await?;
    }
    let all = workload::all();
    let named = |name: &str| all.iter().find(|workload| workload.name == name);
    let (writes, reads): (Vec<&str>, Vec<&str>) =
        OPERATIONS.into_iter().partition(|name| *name == workload::CREATE_MANY);
    let rest = all.iter().filter(|w| w.question().is_some() && !OPERATIONS.contains(&w.name));
    let shared = sizes.iter().filter(|size| grown.iter().all(|grown| **size <= grown.largest));
    let most = shared.max().copied().unwrap_or(SMALLEST);
    for workload in rest {
        at_sizes(options, workload, &[most], &mut grown, results).await?;
    }
    for workload in reads.into_iter().filter_map(named) {
        at_sizes(options, workload, &sizes, &mut grown, results).await?;
    }
    for workload in writes.into_iter().filter_map(named) {
        at_sizes(options, workload, &sizes, &mut grown, results).await?;
    }
    Ok(())
}

async fn load(system: &System, size: u64, scratch: &Path, results: &mut Results) -> Result<()> {
    note(&format!("loading {size} documents into {}", system.name));
    let space = space(size);
    let directory = scratch.join("growth").join(system.name);
    let before = match system.name {
        PARTITA | BEFORE => system.bytes(&space, &directory).await?,
        _ => 0.0,
    };
    system.make_space(&space).await?;
    system.fill(&space, size, true).await?;
    system.index(&space).await?;
    let bytes = settled(system, &space, &directory).await? - before;
    add(results, &row_name(DISK_BYTES, size), "bytes", system.name, bytes / size as f64);
    Ok(())
}

/// Notes something of which less is better.
fn add(results: &mut Results, name: &str, unit: &'static str, system: &'static str, value: f64) {
    if results.row(name).is_none() {
        results.rows.push(Row::new(name, unit, Better::Lower));
    }
    if let Some(row) = results.rows.iter_mut().find(|row| row.name == name) {
        row.add(system, Sample::of(value));
    }
}

/// The bytes on disk once they no longer change: what was written is sorted in after a while.
async fn settled(system: &System, space: &str, directory: &Path) -> Result<f64> {
    let mut bytes = system.bytes(space, directory).await?;
    let mut unchanged = 0;
    for _ in 0..SETTLING_MAX {
        tokio::time::sleep(SETTLING).await;
        let now = system.bytes(space, directory).await?;
        unchanged = if now == bytes { unchanged + 1 } else { 0 };
        bytes = now;
        if unchanged == UNCHANGED {
            break;
        }
    }
    Ok(bytes)
}

fn space(size: u64) -> String {
    format!("g{size}")
}

/// One workload on all systems at these sizes, in turns.
async fn at_sizes(
    options: &CompareOptions,
    workload: &Workload,
    sizes: &[u64],
    grown: &mut [Grown],
    results: &mut Results,
) -> Result<()> {
    let row =
        |size: &u64| Row::new(row_name(workload.name, *size), workload.unit(), Better::Higher);
    let mut rows: Vec<Row> = sizes.iter().map(row).collect();
    note(&format!("{}, growing", workload.name));
    // The first round is for warming up.
    for round in 0..=options.rounds() {
        for (row, size) in rows.iter_mut().zip(sizes) {
            let large_enough = grown.iter_mut().filter(|grown| *size <= grown.largest);
            for Grown { system, sessions, .. } in large_enough {
                let steps = workload.steps(*size, round);
                let plan = Arc::new(Plan::new(system, &space(*size), steps).await?);
                let spare = sessions.split_off(workload.clients.min(sessions.len()));
                let length = options.length();
                let done =
                    measure::round(system, &plan, sessions, length, workload.documents).await;
                sessions.extend(spare);
                match done {
                    Ok(sample) if round > 0 => row.add(system.name, sample),
                    Ok(_) => (),
                    Err(error) => row.refuse(system.name, format!("{error:#}")),
                }
            }
        }
    }
    results.rows.extend(rows);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_grow_tenfold_up_to_the_largest() {
        assert_eq!(sizes(1_000_000), [10_000, 100_000, 1_000_000]);
        assert_eq!(sizes(99_999), [10_000]);
        assert!(sizes(0).is_empty());
    }

    #[test]
    fn a_row_tells_its_operation_and_size() {
        let name = row_name("point read", 100_000);
        assert_eq!(name, "point read, at 100 000 documents");
        assert_eq!(size_of(&name), Some(100_000));
        assert!(is_row_of(&name, "point read") && !is_row_of(&name, "point"));
        assert_eq!(size_of("point read"), None);
    }
}

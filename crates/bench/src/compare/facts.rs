//! What a system costs when nothing happens: how long it takes to start, what it holds in memory,
//! and what it does when nobody asks.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::peers::Peer;
use super::results::{Better, Results, Row, Sample};
use super::{CompareOptions, START_UP, note};
use crate::process;
use crate::system::System;

/// How long a system is left alone to see what it does.
const ALONE: Duration = Duration::from_secs(3);

/// From the start of the program until it answers, on an empty directory that it has seen before.
pub(crate) async fn start_up(
    options: &CompareOptions,
    peers: &[Peer],
    scratch: &Path,
    results: &mut Results,
) -> Result<()> {
    note("start-up");
    let mut row = Row::new(START_UP, "ms", Better::Lower);
    let directory = scratch.join("start");
    for round in 0..=options.rounds() {
        for peer in peers {
            let begun = Instant::now();
            match peer.start(&directory).await {
                Ok(system) => {
                    let took = begun.elapsed().as_secs_f64() * 1e3;
                    // The first time it makes its directory.
                    if round > 0 {
                        row.add(peer.name, Sample::of(took));
                    }
                    system.end()?;
                }
                Err(error) => row.refuse(peer.name, format!("{error:#}")),
            }
        }
    }
    results.rows.push(row);
    Ok(())
}

/// Memory with the documents loaded, and processor time of doing nothing.
pub(crate) async fn at_rest(systems: &[System], results: &mut Results) -> Result<()> {
    note("at rest");
    let mut memory = Row::new("memory with documents", "MB", Better::Lower);
    let mut idle = Row::new("processor while idle", "ms/s", Better::Lower);
    for system in systems {
        tokio::time::sleep(ALONE / 3).await;
        let before = system.cpu_seconds()?;
        tokio::time::sleep(ALONE).await;
        let used = (system.cpu_seconds()? - before) / ALONE.as_secs_f64();
        idle.add(system.name, Sample::of(used * 1e3));
        memory.add(system.name, Sample::of(process::memory_mb(system.pid()?)?));
    }
    results.rows.extend([memory, idle]);
    Ok(())
}

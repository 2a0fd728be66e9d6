//! Load while a partition is split: what do clients notice?
//!
//! One partition holds all documents. Clients read and write single documents all the time; in the
//! middle of it the partition is split in two.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::measure::{PATIENCE, Plan};
use super::peers::Peer;
use super::results::{Better, PARTITA, Results, Row, Sample};
use super::workload::Step;
use super::{CompareOptions, note};
use crate::client::{make_named, percentiles};
use crate::partitions::{split, wait_for_partitions};
use crate::random::Random;
use crate::seen::Seen;
use crate::system::{Action, Host};
use crate::{data, system};

const SPACE: &str = "s";
/// Throughput of a container with one partition.
const ONE_PARTITION: u32 = 400;
const CLIENTS: usize = 16;
const STEPS: usize = 4_096;
const PHASES: [&str; 3] = ["before", "during", "after"];
/// Documents for which a split takes long enough to be watched.
const DOCUMENTS_MIN: u64 = 10_000;

/// What clients and the one who splits share.
struct Run {
    phase: AtomicUsize,
    stop: AtomicBool,
    /// When an operation ended, in which phase, and how long it took.
    ended: Mutex<Vec<(Instant, usize, Duration)>>,
}

pub(super) async fn run(
    options: &CompareOptions,
    partita: &Peer,
    scratch: &Path,
    results: &mut Results,
) -> Result<()> {
    note("mixed load during a split");
    let system = partita.start(&scratch.join("split")).await?;
    let Host::Rest(server) = &system.host else { bail!("Partita speaks HTTP") };
    let documents = options.documents().max(DOCUMENTS_MIN);
    system.make_database().await?;
    make_named(server.address, SPACE, ONE_PARTITION).await?;
    system.fill(SPACE, documents, true).await?;
    let plan = Arc::new(Plan::new(&system, SPACE, steps(documents)).await?);
    let run = Arc::new(Run {
        phase: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
        ended: Mutex::default(),
    });
    let mut clients = Vec::new();
    for (client, session) in system.sessions(CLIENTS).await?.into_iter().enumerate() {
        clients.push(tokio::spawn(work(client, session, Arc::clone(&plan), Arc::clone(&run))));
    }
    let mut times = vec![Instant::now()];
    tokio::time::sleep(options.length() * 2).await;
    times.push(Instant::now());
    run.phase.store(1, Ordering::Relaxed);
    split(server, SPACE, 0, "storage").await?;
    wait_for_partitions(server, SPACE, 2).await?;
    run.phase.store(2, Ordering::Relaxed);
    times.push(Instant::now());
    tokio::time::sleep(options.length() * 2).await;
    run.stop.store(true, Ordering::Relaxed);
    times.push(Instant::now());
    for client in clients {
        tokio::time::timeout(PATIENCE, client).await???;
    }
    let ended = std::mem::take(&mut *run.ended.lock().unwrap_or_else(PoisonError::into_inner));
    results.rows.extend(rows(&times, &ended));
    Ok(())
}

/// Half reads, half writes.
fn steps(documents: u64) -> Vec<Step> {
    let mut random = Random::new(1);
    let step = |at: usize| {
        let document = data::document(random.below(documents));
        let action =
            if at.is_multiple_of(2) { Action::read(document) } else { Action::Upsert(document) };
        Step::Do(vec![action])
    };
    (0..STEPS).map(step).collect()
}

async fn work(
    client: usize,
    mut session: system::Session,
    plan: Arc<Plan>,
    run: Arc<Run>,
) -> Result<()> {
    let mut n = client * 7_919;
    while !run.stop.load(Ordering::Relaxed) {
        let phase = run.phase.load(Ordering::Relaxed);
        let mut seen = Seen::default();
        plan.step(&mut session, n, &mut seen).await;
        if let Some(error) = seen.first_error {
            bail!(error);
        }
        let took = seen.latencies_ms.iter().sum::<f64>() / 1e3;
        let mut ended = run.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.push((Instant::now(), phase, Duration::from_secs_f64(took)));
        n += 1;
    }
    Ok(())
}

fn rows(times: &[Instant], ended: &[(Instant, usize, Duration)]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (phase, name) in PHASES.iter().enumerate() {
        let mine = ended.iter().filter(|(_, in_phase, _)| *in_phase == phase);
        let mut latencies: Vec<f64> = mine.map(|(_, _, took)| took.as_secs_f64() * 1e3).collect();
        let seconds = match times.get(phase..phase + 2) {
            Some([begun, ended]) => (*ended - *begun).as_secs_f64(),
            _ => 0.0,
        };
        let mut row = Row::new(format!("split: {name}"), "1/s", Better::Higher);
        row.add(
            PARTITA,
            Sample {
                operations: latencies.len() as u64,
                latencies_ms: percentiles(&mut latencies),
                ..Sample::of(latencies.len() as f64 / seconds.max(1e-9))
            },
        );
        rows.push(row);
    }
    let mut pause = Row::new("split: longest time without an answer", "ms", Better::Lower);
    pause.add(PARTITA, Sample::of(longest_pause(ended).as_secs_f64() * 1e3));
    rows.push(pause);
    rows
}

fn longest_pause(ended: &[(Instant, usize, Duration)]) -> Duration {
    let mut moments: Vec<Instant> = ended.iter().map(|(moment, _, _)| *moment).collect();
    moments.sort();
    let pauses = moments.windows(2).filter_map(|pair| match pair {
        [one, next] => Some(*next - *one),
        _ => None,
    });
    pauses.max().unwrap_or_default()
}

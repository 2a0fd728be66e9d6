//! `compare`: how Partita stands against what a user would pick instead, and against what the
//! machine itself can do.
//!
//! One run starts Partita and every peer that is there ([`peers`]), fills them with the same
//! documents ([`crate::data`]), and takes them through the same workloads ([`workload`]) in turns:
//! a round on one, a round on the next, and again, so that what the machine does besides falls on
//! all. The median of the rounds counts. What comes out ([`results`]) is printed as tables of
//! ratios ([`table`]), checked against what was promised ([`targets`]), and written as JSON
//! ([`json`]) with plots beside it ([`plot`]).
//!
//! Nothing is guessed: a peer that is not there is absent, an operation that a peer does not have
//! is refused, an answer that differs from the others' is wrong; each with its reason.

mod check;
mod facts;
mod feed;
mod growth;
mod json;
mod limits;
mod machine;
mod measure;
mod partitions;
mod peers;
mod plot;
mod results;
mod split;
mod table;
mod targets;
mod workload;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};

use self::measure::Plan;
use self::peers::Peer;
use self::results::{Better, Contender, PARTITA, Results, Row, Sample};
use self::workload::{LOADED, WRITTEN, Workload};
use crate::raw;
use crate::read::scratch;
use crate::system::{Session, System};

const BARE: &str = "bare hyper";
const RAW: &str = "raw engine";
const DISK: &str = "disk";
const START_UP: &str = "start-up";
const DISK_BYTES: &str = "disk per document";
const JOURNALS: &str = "journals, whatever the documents";
const FDATASYNC: &str = "fdatasync of 4 KB";
const WRONG: &str = "wrong answer";

#[derive(clap::Args, Clone)]
pub(crate) struct CompareOptions {
    /// The server's binary.
    #[arg(long, default_value = "target/release/partita")]
    binary: PathBuf,
    /// Another build of the server, to be measured in turns with the first.
    #[arg(long)]
    before: Option<PathBuf>,
    /// Where the systems put their data; about 8 GB for a million documents.
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// The file for programs; plots are put beside it.
    #[arg(long, default_value = "partita-compare.json")]
    json: PathBuf,
    /// Rounds of each workload on each system that count.
    #[arg(long)]
    rounds: Option<u64>,
    /// Seconds of a round.
    #[arg(long)]
    seconds: Option<f64>,
    /// Documents of about 1 KB that every system is filled with.
    #[arg(long)]
    documents: Option<u64>,
    /// The largest number of documents at which costs are compared; 0 leaves that out.
    #[arg(long)]
    growth_max: Option<u64>,
    /// The largest number of documents that the others are compared at.
    #[arg(long, default_value_t = 1_000_000)]
    growth_peers_max: u64,
    /// Only workloads with one of these words in their names.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only these systems, and Partita.
    #[arg(long, value_delimiter = ',')]
    systems: Vec<String>,
    /// Few and short rounds on little data: shows that everything works, in less than 3 minutes.
    #[arg(long)]
    quick: bool,
}

impl CompareOptions {
    fn rounds(&self) -> u64 {
        self.rounds.unwrap_or(if self.quick { 2 } else { 5 })
    }

    fn length(&self) -> Duration {
        Duration::from_secs_f64(self.seconds.unwrap_or(if self.quick { 0.2 } else { 1.0 }))
    }

    fn documents(&self) -> u64 {
        self.documents.unwrap_or(if self.quick { 1_000 } else { 10_000 }).max(1)
    }

    fn growth_max(&self) -> u64 {
        self.growth_max.unwrap_or(if self.quick { 10_000 } else { 1_000_000 })
    }

    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|word| name.contains(word.as_str()))
    }

    fn wants_system(&self, name: &str) -> bool {
        if name == peers::BEFORE {
            return self.before.is_some();
        }
        name == PARTITA || self.systems.is_empty() || self.systems.iter().any(|one| one == name)
    }
}

pub(crate) async fn run(options: &CompareOptions) -> Result<()> {
    let scratch = scratch(options.data_dir.as_deref(), "compare")?;
    let results = measure_all(options, &scratch).await;
    std::fs::remove_dir_all(&scratch)?;
    report(options, &results?)
}

async fn measure_all(options: &CompareOptions, scratch: &Path) -> Result<Results> {
    let mut results = Results { facts: machine::facts(options), ..Results::default() };
    let peers = install(options, &mut results)?;
    if options.wants(START_UP) {
        facts::start_up(options, &peers, scratch, &mut results).await?;
    }
    side_by_side(options, &peers, scratch, &mut results).await?;
    let partita = peers.iter().find(|peer| peer.name == PARTITA).context("Partita itself")?;
    if options.wants("change feed") {
        feed::run(options, partita, scratch, &mut results).await?;
    }
    if options.wants("split") {
        split::run(options, partita, scratch, &mut results).await?;
    }
    if options.wants("growth") && options.growth_max() > 0 {
        growth::run(options, &peers, scratch, &mut results).await?;
    }
    if options.wants("partitions") {
        partitions::run(options, &mut results).await?;
    }
    Ok(results)
}

/// Who takes part.
fn install(options: &CompareOptions, results: &mut Results) -> Result<Vec<Peer>> {
    let mut installed = Vec::new();
    for name in peers::ALL.into_iter().filter(|name| options.wants_system(name)) {
        note(&format!("installing {name}"));
        let binary = match &options.before {
            Some(before) if name == peers::BEFORE => before,
            _ => &options.binary,
        };
        let peer = peers::install(name, binary);
        let description = peer.as_ref().map(|peer| peer.description.clone());
        results.contenders.push(Contender {
            name: name.to_owned(),
            description: description.map_err(|error| format!("{error:#}")),
        });
        match peer {
            Ok(peer) => installed.push(peer),
            Err(error) if matches!(name, PARTITA | peers::BEFORE) => return Err(error),
            Err(_) => (),
        }
    }
    Ok(installed)
}

/// All systems at once, each workload in turns.
async fn side_by_side(
    options: &CompareOptions,
    peers: &[Peer],
    scratch: &Path,
    results: &mut Results,
) -> Result<()> {
    let workloads: Vec<Workload> =
        workload::all().into_iter().filter(|workload| options.wants(workload.name)).collect();
    let wants_rest = ["memory", "processor"].iter().any(|name| options.wants(name));
    if workloads.is_empty() && !wants_rest {
        return Ok(());
    }
    let mut systems = Vec::new();
    for peer in peers {
        note(&format!("loading {} documents into {}", options.documents(), peer.name));
        match load(options, peer, &scratch.join("data")).await {
            Ok(system) => systems.push(system),
            Err(error) if peer.name == PARTITA => return Err(error),
            Err(error) => absent(results, peer.name, format!("{error:#}")),
        }
    }
    if wants_rest {
        facts::at_rest(&systems, results).await?;
    }
    add_limits(options, &mut systems, scratch, results).await?;
    let mut all = Vec::new();
    for system in systems {
        let sessions = system.sessions(64).await?;
        all.push((system, sessions));
    }
    for workload in &workloads {
        let row = in_turns(options, workload, &mut all, scratch).await?;
        results.rows.push(row);
    }
    Ok(())
}

fn absent(results: &mut Results, name: &str, why: String) {
    if let Some(found) = results.contenders.iter_mut().find(|found| found.name == name) {
        found.description = Err(why);
    }
}

async fn load(options: &CompareOptions, peer: &Peer, directory: &Path) -> Result<System> {
    let system = peer.start(directory).await?;
    system.make_database().await?;
    system.make_space(LOADED).await?;
    system.fill(LOADED, options.documents(), peer.takes_batches()).await?;
    system.index(LOADED).await?;
    system.make_space(WRITTEN).await?;
    system.index_properties(WRITTEN).await?;
    // A system without procedures shows that when one is called.
    let _ = system.make_procedure(WRITTEN).await;
    Ok(system)
}

/// The machine's own limits: a server that only answers, an engine without a server, the disk.
async fn add_limits(
    options: &CompareOptions,
    systems: &mut Vec<System>,
    scratch: &Path,
    results: &mut Results,
) -> Result<()> {
    let limit = |name: &str, description: &str| Contender {
        name: name.to_owned(),
        description: Ok(description.to_owned()),
    };
    let partita = systems.iter().find(|system| system.name == PARTITA);
    if let Some(partita) = partita.filter(|_| options.wants_system(BARE)) {
        let bare = limits::bare(BARE, partita, LOADED, scratch).await?;
        systems.push(bare);
        results.contenders.push(limit(BARE, "a limit: a server that only answers"));
    }
    if options.wants_system(RAW) {
        results.contenders.push(limit(RAW, "a limit: the store alone, durable, no server"));
    }
    if options.wants_system(DISK) && options.wants(FDATASYNC) {
        results.contenders.push(limit(DISK, "a limit: durable writes of the disk"));
        let mut row = Row::new(FDATASYNC, "1/s", Better::Higher);
        for _ in 0..options.rounds() {
            row.add(DISK, Sample::of(limits::fdatasync(scratch, options.length())?));
        }
        results.rows.push(row);
    }
    Ok(())
}

/// One workload: a round on each system, and again.
async fn in_turns(
    options: &CompareOptions,
    workload: &Workload,
    systems: &mut [(System, Vec<Session>)],
    scratch: &Path,
) -> Result<Row> {
    note(workload.name);
    let mut row = Row::new(workload.name, workload.unit(), Better::Higher);
    check::answers(options, workload, systems, &mut row).await?;
    // The first round is for warming up, and shorter.
    for round in 0..=options.rounds() {
        let length = if round == 0 { options.length() / 4 } else { options.length() };
        for (system, sessions) in systems.iter_mut() {
            if row.refused(system.name) || !check::takes_part(system, workload) {
                continue;
            }
            let steps = workload.steps(options.documents(), round);
            let plan = Arc::new(Plan::new(system, workload.space, steps).await?);
            let spare = sessions.split_off(workload.clients.min(sessions.len()));
            let done = measure::round(system, &plan, sessions, length, workload.documents).await;
            sessions.extend(spare);
            match done {
                Ok(sample) if round > 0 => row.add(system.name, sample),
                Ok(_) => (),
                Err(error) => row.refuse(system.name, format!("{error:#}")),
            }
        }
        if matches!(workload.name, workload::CREATE_ONE | workload::CREATE_MANY)
            && options.wants_system(RAW)
        {
            let directory = scratch.join(format!("raw-{}-{round}", workload.clients));
            let rate = raw::run(&directory, workload.clients, length)?;
            std::fs::remove_dir_all(&directory)?;
            if round > 0 {
                row.add(RAW, Sample::of(rate));
            }
        }
    }
    Ok(row)
}

fn report(options: &CompareOptions, results: &Results) -> Result<()> {
    let targets = targets::check(results);
    println!("{}", table::contenders(results));
    println!("Ratios: above 1 Partita is ahead.\n\n{}", table::ratios(results));
    println!("{}", table::details(results));
    println!("Targets\n\n{}", targets::render(&targets));
    std::fs::write(&options.json, json::render(results, &targets) + "\n")?;
    println!("{}", options.json.display());
    for (name, picture) in plot::all(results) {
        let path = options.json.with_extension(format!("{name}.svg"));
        std::fs::write(&path, picture)?;
        println!("{}", path.display());
    }
    Ok(())
}

/// Tells whoever waits what is being done.
fn note(what: &str) {
    eprintln!("{what}");
}

/// Compares with a file in `tests/data`, or writes it anew with `UPDATE_GOLDENFILES=1`.
#[cfg(test)]
fn golden(name: &str, actual: &str) {
    let file = format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        std::fs::write(&file, actual).unwrap();
    }
    assert_eq!(actual, std::fs::read_to_string(&file).unwrap(), "{name} is now:\n{actual}");
}

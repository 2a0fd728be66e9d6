//! Queries over a million documents, against PostgreSQL with the same documents.
//!
//! Both sides hold the same rows: Partita in a container of eight partitions with its default
//! indexing policy, PostgreSQL in a table of `jsonb` with a GIN index (`jsonb_path_ops`) and an
//! expression index for each value that a query compares or sorts by. One client asks one question
//! after another, each side in turn; the answers must agree. A ratio above 1 means that Partita
//! answered in less time. What counts is the time until the answer is there. To look into it is the
//! client's work, so for that the question is asked a second time.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::postgres::Postgres;
use crate::questions::{QUESTIONS, Question};
use crate::read::scratch;
use crate::server::Server;
use crate::system::{Action, Host, Session, Space, System};
use crate::{QueryOptions, median};

/// A question is asked for so long, or so often.
const LONG: Duration = Duration::from_secs(10);
const ROUNDS_MAX: u64 = 1_000;

/// A client, and what it asks.
struct Side {
    session: Session,
    space: Space,
}

pub(crate) async fn run(options: &QueryOptions) -> Result<()> {
    let scratch = match &options.data_dir {
        Some(parent) if options.keep => parent.join("partita-bench-queries"),
        parent => scratch(parent.as_deref(), "queries")?,
    };
    let loaded = scratch.join("loaded");
    let is_loaded = loaded.exists();
    // As much memory as the other side's shared buffers.
    let cache = ["--cache-mb", "4096", "--throughput", "off"];
    let partita = Server::partita_with(&options.binary, &scratch.join("partita"), &cache)?;
    let postgres = Postgres::start(&scratch.join("postgres"))?;
    let ours = System::new("partita", Host::Rest(partita));
    let theirs = System::new("postgres", Host::Postgres(postgres));
    if !is_loaded {
        load(&ours, options.documents).await?;
        load(&theirs, options.documents).await?;
        std::fs::write(loaded, options.documents.to_string())?;
    }
    sizes(&ours, &theirs, &scratch, options.documents).await?;
    let (mut mine, mut yours) = (side(&ours).await?, side(&theirs).await?);
    for question in &QUESTIONS {
        compare(&mut mine, &mut yours, question, options).await?;
    }
    drop((ours, theirs));
    if !options.keep {
        std::fs::remove_dir_all(&scratch)?;
    }
    Ok(())
}

async fn side(system: &System) -> Result<Side> {
    Ok(Side { session: system.session().await?, space: system.space("c").await? })
}

async fn load(system: &System, documents: u64) -> Result<()> {
    let started = Instant::now();
    system.make_database().await?;
    system.make_space("c").await?;
    system.fill("c", documents, true).await?;
    system.index("c").await?;
    let seconds = started.elapsed().as_secs_f64();
    let name = system.name;
    println!(r#"{{"bench":"queries","what":"load","side":"{name}","seconds":{seconds:.1}}}"#);
    Ok(())
}

async fn compare(
    ours: &mut Side,
    theirs: &mut Side,
    question: &Question,
    options: &QueryOptions,
) -> Result<()> {
    let (mut mine, mut yours) = (Vec::new(), Vec::new());
    let begun = Instant::now();
    // The first half warms both sides up. A quick question is asked more often: it touches little,
    // so it takes longer until what it touches is in memory.
    let enough = |round: u64| {
        round >= 2 * options.rounds as u64 && (begun.elapsed() >= LONG || round >= ROUNDS_MAX)
    };
    for round in (0..).take_while(|round| !enough(*round)) {
        let first = ask(ours, question, round, &mut mine).await?;
        let second = ask(theirs, question, round, &mut yours).await?;
        let (many, few) = (first.len(), second.len());
        ensure!(first == second, "{}: {many} rows here, {few} rows there", question.name);
    }
    let half = mine.len() / 2;
    let (ours, theirs) = (median(mine.split_off(half)), median(yours.split_off(half)));
    println!(
        r#"{{"bench":"queries","query":"{}","partita_ms":{:.2},"postgres_ms":{:.2},"ratio":{:.2}}}"#,
        question.name,
        ours * 1e3,
        theirs * 1e3,
        theirs / ours
    );
    Ok(())
}

async fn ask(
    side: &mut Side,
    question: &Question,
    round: u64,
    seconds: &mut Vec<f64>,
) -> Result<Vec<String>> {
    let prepared = side.space.prepare(&Action::Ask(question.asked(round)))?;
    let started = Instant::now();
    side.session.perform(&prepared).await?;
    seconds.push(started.elapsed().as_secs_f64());
    side.session.rows(&prepared).await
}

/// Bytes on disk per document.
async fn sizes(ours: &System, theirs: &System, scratch: &Path, documents: u64) -> Result<()> {
    for (system, directory) in [(ours, "partita"), (theirs, "postgres")] {
        let bytes = system.bytes("c", &scratch.join(directory)).await?;
        println!(
            r#"{{"bench":"queries","what":"bytes per document","side":"{}","total":{:.0},"memory_mb":{:.0}}}"#,
            system.name,
            bytes / documents as f64,
            crate::process::memory_mb(system.pid()?)?
        );
    }
    Ok(())
}

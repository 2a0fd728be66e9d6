//! A split under load, in one process and without a wire: how long do writers ever wait, and when?
//!
//! Loads items of about 1 KB into one partition, lets threads write, read, ask and follow the
//! change feed, splits the partition, and goes on for a while. It prints latencies before, during
//! and after the split, and the longest times in which no write was acknowledged at all, with the
//! moment at which each ended. What the moves and the store tell in their traces stands between
//! them, so a pause can be put down to what happened then.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, anyhow, ensure};
use partita_engine::{
    BatchAction, BatchMode, BatchOperation, ChangesFrom, ChangesMode, ChangesRequest,
    ContainerPath, Context, Database, DatabasePath, EngineSettings, Indexing, ItemPath,
    KeyRequired, Maintenance, MaintenanceBudget, NewItem, Op, Outcome, QueryRequest, Returns,
    Scope, SplitAt, ThroughputMode, TriggerNames, block_on,
};
use partita_model::{Clock, PartitionKeyHeader, SeededEntropy, Throughput, Value};
use partita_storage::{EmbeddedSettings, EmbeddedStore};

use crate::SplitOptions;
use crate::read::scratch;

const ITEMS_PER_KEY: usize = 100;
const LOADERS: usize = 8;
/// A pause worth telling.
const LONG: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Write,
    Read,
    Query,
    Feed,
}

const KINDS: [(Kind, usize); 4] =
    [(Kind::Write, 12), (Kind::Read, 14), (Kind::Query, 4), (Kind::Feed, 2)];
const PHASES: [&str; 3] = ["before", "during", "after"];

struct SystemClock(Instant);

impl Clock for SystemClock {
    fn unix_millis(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn monotonic_nanos(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// What all threads share.
struct Run {
    database: Arc<Database>,
    items: usize,
    pause: Duration,
    started: Instant,
    phase: AtomicUsize,
    stop: AtomicBool,
    created: AtomicU64,
    /// When the last write was acknowledged.
    acknowledged_nanos: AtomicU64,
    /// How long none had been before one was, and when that was.
    pauses: Mutex<Vec<(Duration, Duration)>>,
    taken: Mutex<Vec<(Kind, usize, Duration)>>,
    errors: Mutex<Vec<String>>,
}

pub(crate) fn run(options: &SplitOptions) -> Result<()> {
    let scratch = scratch(options.data_dir.as_deref(), "split")?;
    let data = options.loaded.clone().unwrap_or_else(|| scratch.join("data"));
    let database = open(&data)?;
    let is_new = database.status().databases == 0;
    let run = Arc::new(Run {
        database,
        items: options.items,
        pause: Duration::from_millis(options.pause_ms),
        started: Instant::now(),
        phase: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
        created: AtomicU64::new(0),
        acknowledged_nanos: AtomicU64::new(0),
        pauses: Mutex::default(),
        taken: Mutex::default(),
        errors: Mutex::default(),
    });
    if is_new {
        load(&run)?;
    }
    if !options.only_load {
        measure(&run, options)?;
    }
    run.database.close().map_err(|error| anyhow!("{error}"))?;
    std::fs::remove_dir_all(&scratch)?;
    Ok(())
}

fn open(data: &Path) -> Result<Arc<Database>> {
    let store = EmbeddedStore::open(data, EmbeddedSettings::default())?;
    let settings = EngineSettings { throughput: ThroughputMode::Off, ..EngineSettings::default() };
    let clock = Arc::new(SystemClock(Instant::now()));
    let seed = clock.unix_millis();
    Database::open(Arc::new(store), clock, Arc::new(SeededEntropy::new(seed)), settings)
        .map_err(|error| anyhow!("{error}"))
}

fn measure(run: &Arc<Run>, options: &SplitOptions) -> Result<()> {
    let length = Duration::from_secs(options.seconds);
    thread::scope(|scope| -> Result<()> {
        scope.spawn(|| maintain(&run.database));
        for (kind, count) in KINDS {
            for number in 0..count {
                scope.spawn(move || work(run, kind, number));
            }
        }
        thread::sleep(length);
        let begun = Instant::now();
        run.phase.store(1, Ordering::Relaxed);
        println!("{:.1} s: splitting", run.started.elapsed().as_secs_f64());
        let split = split(run);
        while split.is_ok() && partitions(run)? < 2 {
            thread::sleep(Duration::from_millis(50));
        }
        let now = run.started.elapsed().as_secs_f64();
        println!("{now:.1} s: split after {:.1} s", begun.elapsed().as_secs_f64());
        run.phase.store(2, Ordering::Relaxed);
        thread::sleep(length);
        run.stop.store(true, Ordering::Relaxed);
        run.database.stop_maintenance();
        split
    })?;
    report(run);
    let errors = run.errors.lock().unwrap_or_else(PoisonError::into_inner);
    ensure!(errors.is_empty(), "{} errors, the first: {}", errors.len(), errors[0]);
    Ok(())
}

/// As the server's thread does.
fn maintain(database: &Database) {
    let budget = MaintenanceBudget::default();
    loop {
        let pause = match database.maintain(&budget) {
            Ok(Maintenance::Busy) => Duration::ZERO,
            Ok(Maintenance::Resting(rest)) => rest,
            Ok(Maintenance::Blocked) => Duration::from_millis(20),
            Ok(Maintenance::Idle) | Err(_) => Duration::from_secs(5),
        };
        if !database.await_maintenance(Some(pause)) {
            return;
        }
    }
}

fn path() -> ContainerPath {
    ContainerPath { database: "bench".to_owned(), container: "c".to_owned() }
}

fn ask(run: &Run, op: Op) -> Result<Outcome> {
    let reply = block_on(run.database.execute(op, &Context::default()));
    reply.result.map_err(|error| anyhow!("{error}"))
}

fn load(run: &Arc<Run>) -> Result<()> {
    ask(run, Op::CreateDatabase { name: "bench".to_owned(), throughput: None })?;
    let body = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
    let body = Value::parse(body.as_bytes()).map_err(|error| anyhow!("{error:?}"))?;
    let throughput = Some(Throughput::Manual(6_000));
    let database = DatabasePath("bench".to_owned());
    ask(run, Op::CreateContainer { database, body, throughput, key_required: KeyRequired::Yes })?;
    let next = AtomicUsize::new(0);
    let keys = run.items.div_ceil(ITEMS_PER_KEY);
    thread::scope(|scope| {
        let load = || -> Result<()> {
            loop {
                let key = next.fetch_add(1, Ordering::Relaxed);
                if key >= keys {
                    return Ok(());
                }
                ask(run, batch(key)?)?;
            }
        };
        let loaders: Vec<_> = (0..LOADERS).map(|_| scope.spawn(load)).collect();
        let join = |loader: thread::ScopedJoinHandle<'_, Result<()>>| {
            loader.join().unwrap_or_else(|_| Err(anyhow!("a loader panicked")))
        };
        loaders.into_iter().try_for_each(join)
    })?;
    println!("{} items loaded in {:.1} s", run.items, run.started.elapsed().as_secs_f64());
    Ok(())
}

fn batch(key: usize) -> Result<Op> {
    let create = |n: usize| BatchOperation {
        action: BatchAction::Create {
            body: body(&format!("{key}-{n}"), &format!("key-{key}"), 0),
            indexing: Indexing::ByPolicy,
        },
        partition_key: None,
        condition: None,
        ttl_seconds: None,
        triggers: TriggerNames::default(),
        returns: Returns::Etag,
    };
    let mode = BatchMode::Atomic { partition_key: Some(header(&format!("key-{key}"))?) };
    Ok(Op::Batch { container: path(), operations: (0..ITEMS_PER_KEY).map(create).collect(), mode })
}

fn header(key: &str) -> Result<PartitionKeyHeader> {
    PartitionKeyHeader::parse(&format!(r#"["{key}"]"#)).map_err(|error| anyhow!("{error:?}"))
}

fn body(id: &str, key: &str, version: u64) -> Vec<u8> {
    let hash = id.bytes().fold(version + 7, |hash, byte| hash * 31 % 1_000_003 + u64::from(byte));
    let (score, team, city, zip) = (hash % 10_000, hash % 97, hash % 500, hash % 99_999);
    let (active, tag, text) = (hash % 2 == 0, hash % 7, "x".repeat(600));
    format!(
        r#"{{"id":"{id}","pk":"{key}","version":{version},"score":{score},"team":{team},
        "name":"name {hash}","active":{active},"tags":["a","b",{tag}],
        "address":{{"city":"city {city}","zip":{zip}}},"text":"{text}"}}"#
    )
    .into_bytes()
}

fn split(run: &Run) -> Result<()> {
    let range_id = "0".to_owned();
    ask(run, Op::SplitPartition { container: path(), range_id, at: SplitAt::Storage })?;
    Ok(())
}

fn partitions(run: &Run) -> Result<usize> {
    match ask(run, Op::ContainerStatistics { container: path() })? {
        Outcome::Statistics { partitions } => Ok(partitions.len()),
        other => Err(anyhow!("no statistics: {other:?}")),
    }
}

/// One client, until the end.
fn work(run: &Run, kind: Kind, number: usize) {
    let mut step = (kind as u64 + 1) * 1_000 + number as u64;
    let mut from = ChangesFrom::Now;
    while !run.stop.load(Ordering::Relaxed) {
        step = step.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let phase = run.phase.load(Ordering::Relaxed);
        let begun = Instant::now();
        let done = match kind {
            Kind::Write => write(run, number, step >> 20),
            Kind::Read => read(run, step >> 20),
            Kind::Query => query(run, step >> 20),
            Kind::Feed => follow(run, &mut from),
        };
        let took = begun.elapsed();
        let poisoned = PoisonError::into_inner;
        run.taken.lock().unwrap_or_else(poisoned).push((kind, phase, took));
        if let Err(error) = done {
            run.errors.lock().unwrap_or_else(PoisonError::into_inner).push(error.to_string());
        }
        thread::sleep(run.pause);
    }
}

fn write(run: &Run, number: usize, random: u64) -> Result<()> {
    let (id, key) = match random % 3 {
        0 => {
            let count = run.created.fetch_add(1, Ordering::Relaxed);
            (format!("new-{count}"), format!("new-{number}-{}", count % 1_000))
        }
        _ => (format!("{number}-{}", random as usize / 3 % ITEMS_PER_KEY), format!("key-{number}")),
    };
    let item = NewItem {
        body: body(&id, &key, random % 1_000),
        partition_key: Some(header(&key)?),
        indexing: Indexing::ByPolicy,
    };
    ask(run, Op::UpsertItem { container: path(), item, condition: None })?;
    acknowledged(run);
    Ok(())
}

fn acknowledged(run: &Run) {
    let now = run.started.elapsed();
    let nanos = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
    let before = run.acknowledged_nanos.fetch_max(nanos, Ordering::Relaxed);
    let pause = now.saturating_sub(Duration::from_nanos(before));
    if before > 0 && pause > LONG {
        let phase = PHASES[run.phase.load(Ordering::Relaxed)];
        println!("{:.1} s: {phase}: no write for {:.2} s", now.as_secs_f64(), pause.as_secs_f64());
    }
    if before > 0 {
        run.pauses.lock().unwrap_or_else(PoisonError::into_inner).push((pause, now));
    }
}

fn read(run: &Run, random: u64) -> Result<()> {
    let keys = run.items / ITEMS_PER_KEY;
    let (key, n) = (random as usize % keys, random as usize / keys % ITEMS_PER_KEY);
    let partition_key = Some(header(&format!("key-{key}"))?);
    let path = ItemPath { container: path(), id: format!("{key}-{n}"), partition_key };
    ask(run, Op::ReadItem { path, condition: None })?;
    Ok(())
}

fn query(run: &Run, random: u64) -> Result<()> {
    let team = random % 97;
    let text = format!("SELECT TOP 20 c.id, c.score FROM c WHERE c.team = {team} ORDER BY c.score");
    let query = Box::new(QueryRequest::new(text));
    match ask(run, Op::Query { container: path(), query })? {
        Outcome::Query { rows, .. } if rows.len() == 20 => Ok(()),
        other => Err(anyhow!("not 20 rows: {other:?}")),
    }
}

/// Follows the change feed to its end.
fn follow(run: &Run, from: &mut ChangesFrom) -> Result<()> {
    loop {
        let request = ChangesRequest {
            scope: Scope::All,
            mode: ChangesMode::LatestVersion,
            from: from.clone(),
            since: None,
            query: None,
            items_max: None,
            listen: false,
        };
        let op = Op::ReadChanges { container: path(), request: Box::new(request) };
        match ask(run, op)? {
            Outcome::Changes { changes, etag, .. } => {
                *from = ChangesFrom::Etag(etag);
                if changes.is_empty() {
                    return Ok(());
                }
            }
            other => return Err(anyhow!("no changes: {other:?}")),
        }
    }
}

fn report(run: &Run) {
    let taken = run.taken.lock().unwrap_or_else(PoisonError::into_inner);
    println!("client   phase       count    p50 ms    p99 ms    max ms");
    for (kind, _) in KINDS {
        for (phase, name) in PHASES.iter().enumerate() {
            let mine = taken.iter().filter(|(k, p, _)| *k == kind && *p == phase);
            let mut mine: Vec<Duration> = mine.map(|(_, _, took)| *took).collect();
            mine.sort();
            let at = |share: f64| {
                let index = (mine.len() as f64 * share) as usize;
                let found = mine.get(index.min(mine.len().saturating_sub(1)));
                found.map_or(0.0, |time| time.as_secs_f64() * 1e3)
            };
            let (kind, count) = (format!("{kind:?}"), mine.len());
            let (half, most, all) = (at(0.5), at(0.99), at(1.0));
            println!("{kind:8} {name:8} {count:>8} {half:>9.2} {most:>9.2} {all:>9.2}");
        }
    }
    let mut pauses = run.pauses.lock().unwrap_or_else(PoisonError::into_inner);
    pauses.sort();
    for (pause, at) in pauses.iter().rev().take(5) {
        let (pause, at) = (pause.as_secs_f64() * 1e3, at.as_secs_f64());
        println!("no write for {pause:.0} ms until {at:.1} s");
    }
}

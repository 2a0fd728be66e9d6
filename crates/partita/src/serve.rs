//! `partita serve`: open, listen, serve, drain, close.
//!
//! ```text
//!   store ─► database ─► executor ─► NoSQL door ─► gateway ─► ready
//!                                                     │ SIGTERM or Ctrl-C
//!   close the database ◄── drained ◄──────────────────┘ (a second signal ends the process at once)
//! ```
//!
//! Each step's failure names what to do and has its own exit code. Whatever was opened is closed
//! again, also when a later step fails.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use partita_alerts::{Counts, Watcher, WatcherSettings};
use partita_cli::{EXIT_INTERRUPTED, Failure};
use partita_declaration as declaration;
use partita_engine::{Database, ThroughputMode};
use partita_executor::{Controls, Credentials, Executor, ExecutorSettings};
use partita_gateway::{
    Certificate, Courtesy, Pool, Reloads, Server, ServiceStatus, Services, Shutdown, Signals,
    Telemetry, start_logging,
};
use partita_model::{Clock, Entropy, MemoryFigures, Object, ShiftedClock, Value};
use partita_nosql::{NoSqlDoor, NoSqlSettings};
use partita_script::Workers;
use partita_storage::{EmbeddedSettings, EmbeddedStore, MemoryStore, Store};
use tokio::runtime::{Builder, Runtime};

use crate::config::{Config, StoreConfig};
use crate::descriptors;
use crate::disk::{self, DiskWatcher};
use crate::governor::{Governed, GovernorThread, Seen};
use crate::maintainer::Maintainer;
use crate::memory::MemoryPlan;
use crate::reports::banner::Banner;
use crate::reports::{compat, metrics};
use crate::script_worker;
use crate::standing;
use crate::system::{SystemClock, SystemEntropy};
use crate::trust::{PrimaryKey, TrustSource, renewal};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Jobs that may wait for each thread of the pool; one client alone has a third of them. More than
/// that would wait for seconds.
const JOBS_PER_THREAD: usize = 768;

/// Runs the server until it is told to stop.
pub(crate) fn run(mut config: Config, clock: SystemClock) -> Result<(), Failure> {
    start_logging(&config.log_level, config.log_format)
        .map_err(|error| Failure::usage(format!("--log-level: {error}")))?;
    warn_about_known_key(&config);
    tracing::info!("{}", config.memory);
    config.memory.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    descriptors::fit(&mut config.server);

    let entropy = SystemEntropy::start()
        .map_err(|error| Failure::other(format!("the system has no random numbers: {error}")))?;
    let entropy: Arc<dyn Entropy> = Arc::new(entropy);
    let (handed, controls) = controls(&config, clock);
    let workers = script_worker::runtime(clock, config.memory.scripts)?;
    config.engine.scripts.runtime = Some(Arc::clone(&workers) as _);
    let database = Database::open(
        open_store(&config.store, &*entropy)?,
        Arc::clone(&handed),
        Arc::clone(&entropy),
        config.engine.clone(),
    )?;
    if let Some(file) = &config.init
        && let Err(why) = declaration::apply(&database, file)
    {
        database.close()?;
        return Err(Failure::usage(format!("--init {}: {why}", file.display())));
    }
    let served = Maintainer::start(&database).and_then(|maintainer| {
        let handed = Handed { clock: handed, entropy, controls, workers };
        let served = DiskWatcher::start(&database).and_then(|disk| {
            let served = watch_and_serve(config, clock, &database, handed);
            disk.stop();
            served
        });
        maintainer.stop();
        served
    });
    let closed = database.close().map_err(Failure::from);
    served?;
    closed?;
    tracing::info!("stopped");
    Ok(())
}

/// What the database and its door are handed.
struct Handed {
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    controls: Option<Arc<Controls>>,
    workers: Arc<Workers>,
}

/// The clock that everybody is handed: the real one, or with controls for tests one that can be put
/// forward.
fn controls(config: &Config, clock: SystemClock) -> (Arc<dyn Clock>, Option<Arc<Controls>>) {
    if !config.test_controls {
        return (Arc::new(clock), None);
    }
    tracing::warn!("controls for tests are on: anybody on this machine can order faults");
    let shifted = Arc::new(ShiftedClock::new(Arc::new(clock)));
    (Arc::clone(&shifted) as _, Some(Arc::new(Controls::new(shifted))))
}

/// Serves, with somebody who looks for what is worth an alert.
fn watch_and_serve(
    mut config: Config,
    clock: SystemClock,
    database: &Arc<Database>,
    handed: Handed,
) -> Result<(), Failure> {
    let counts = Arc::new(Counts::default());
    let settings =
        WatcherSettings { interval: config.alert_interval, webhook: config.alert_webhook.take() };
    let watcher =
        Watcher::start(Arc::clone(database), settings, Arc::clone(&counts), Arc::new(clock))
            .map_err(Failure::other)?;
    let served = serve(config, clock, Arc::clone(database), handed, &counts);
    watcher.stop();
    served
}

/// Everything between an open database and one that may be closed.
fn serve(
    mut config: Config,
    clock: SystemClock,
    database: Arc<Database>,
    handed: Handed,
    alerts: &Arc<Counts>,
) -> Result<(), Failure> {
    let memory_seen = Arc::new(Seen::default());
    let telemetry = Arc::new(telemetry(&config, &database, alerts, &memory_seen));
    let now = clock.unix_millis() / 1000;
    let certificate = Certificate::open(&config.certificate, &config.certificate_names, now)?;
    let pool = pool(&config)?;
    let begun = pool.begun_limit();
    let governed = Governed { database: Arc::clone(&database), workers: handed.workers, begun };
    let governor = govern(&config, governed, &memory_seen)?;
    let credentials = Arc::new(Credentials::new(std::mem::take(&mut config.trust)));
    let shutdown = Shutdown::new();
    let time = Arc::clone(&handed.clock);
    let executor = Executor::new(ExecutorSettings {
        database: Arc::clone(&database),
        pool,
        telemetry: Arc::clone(&telemetry),
        clock: handed.clock,
        entropy: handed.entropy,
        credentials: Arc::clone(&credentials),
        clock_skew_seconds: config.clock_skew_seconds,
        controls: handed.controls,
        shutdown: shutdown.clone(),
    });
    let door = door(&config, executor);
    let banner_certificate = certificate.path().map(|path| path.display().to_string());
    let durability = database.status().store.durability;
    let services = Services {
        door: Arc::new(door),
        telemetry,
        certificate,
        status: Arc::new(move || status(&database, &config.memory, &memory_seen)),
        version: VERSION,
        compat: compat::document(VERSION).into(),
    };
    let runtime = runtime(config.threads)?;
    let drained = runtime.block_on(async {
        let no_signals = |error| Failure::other(format!("cannot listen for signals: {error}"));
        let signals = Signals::install().map_err(no_signals)?;
        let reloads = Reloads::install().map_err(no_signals)?;
        let server = Server::bind(config.server, services, shutdown.clone())?;
        tokio::spawn(stop_on_signals(signals, shutdown));
        tokio::spawn(renewal::run(Arc::clone(&credentials), Arc::clone(&time)));
        tokio::spawn(reload_on_signals(reloads, config.trusted, credentials, time));
        let banner = Banner {
            version: VERSION,
            addresses: server.addresses(),
            key: &config.primary_key,
            data_dir: config.store.directory().map(|path| path.display().to_string()),
            durability,
            certificate: banner_certificate,
            startup_ms: clock.monotonic_nanos() / 1_000_000,
        };
        banner.print(config.log_format);
        Ok::<_, Failure>(server.serve().await)
    });
    // What was cut may still run; the database is closed all the same, and tells it so.
    runtime.shutdown_timeout(Duration::from_secs(1));
    governor.into_iter().for_each(GovernorThread::stop);
    let drained = drained?;
    if drained.cut > 0 {
        tracing::warn!("{} connections did not finish in time and were cut", drained.cut);
    }
    Ok(())
}

fn door(config: &Config, executor: Executor) -> NoSqlDoor {
    let settings = NoSqlSettings {
        default_consistency: config.engine.default_consistency,
        public_endpoint: config.public_endpoint.clone(),
        strict_json: config.strict_json,
    };
    NoSqlDoor::new(Arc::new(executor), settings)
}

/// Sees to it that what the server takes is what it was told. Items in memory are no part of that.
fn govern(
    config: &Config,
    governed: Governed,
    seen: &Arc<Seen>,
) -> Result<Option<GovernorThread>, Failure> {
    match config.store {
        StoreConfig::Memory => Ok(None),
        StoreConfig::Embedded { .. } => {
            GovernorThread::start(&config.memory, governed, config.threads, seen)
        }
    }
}

fn pool(config: &Config) -> Result<Pool, Failure> {
    let threads = config.threads;
    let courtesy = Courtesy { processor_nanos: standing::thread_nanos, stand_back: standing::back };
    let pool = Pool::with_courtesy(threads, threads * JOBS_PER_THREAD, courtesy)
        .map_err(|error| Failure::other(format!("cannot start worker threads: {error}")))?;
    pool.begun_limit().set(config.memory.begun_jobs(threads));
    Ok(pool)
}

/// The gateway's own metrics, and those of partitions and alerts.
fn telemetry(
    config: &Config,
    database: &Arc<Database>,
    alerts: &Arc<Counts>,
    memory_seen: &Arc<Seen>,
) -> Telemetry {
    let mut telemetry = Telemetry::new(VERSION);
    if config.partition_metrics {
        let watched = Arc::clone(database);
        telemetry.add_naming_source(Box::new(move || metrics::of_partitions(&watched)));
    }
    let watched = Arc::clone(database);
    telemetry.add_source(Box::new(move || disk::series(&watched)));
    let (seen, total_bytes) = (Arc::clone(memory_seen), config.memory.total);
    telemetry.add_source(Box::new(move || seen.series(total_bytes)));
    let counted = Arc::clone(alerts);
    telemetry.add_source(Box::new(move || counted.series()));
    telemetry
}

fn open_store(config: &StoreConfig, entropy: &dyn Entropy) -> Result<Arc<dyn Store>, Failure> {
    match config {
        StoreConfig::Memory => Ok(Arc::new(MemoryStore::new())),
        StoreConfig::Embedded { directory, settings } => {
            let settings = EmbeddedSettings { new_id: entropy.next_u64(), ..settings.clone() };
            Ok(Arc::new(EmbeddedStore::open(directory, settings)?))
        }
    }
}

/// One worker per core: a request runs on the worker that read it.
fn runtime(threads: usize) -> Result<Runtime, Failure> {
    let runtime: io::Result<Runtime> = Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("partita-io")
        .enable_io()
        .enable_time()
        .build();
    runtime.map_err(|error| Failure::other(format!("cannot start threads: {error}")))
}

async fn stop_on_signals(mut signals: Signals, shutdown: Shutdown) {
    let name = signals.next().await;
    tracing::info!("{name}: finishing running requests; once more to end at once");
    shutdown.drain();
    let name = signals.next().await;
    tracing::warn!("{name} again: ending at once; what was acknowledged is on disk");
    std::process::exit(EXIT_INTERRUPTED);
}

/// Reads keys and roles again when told so. What cannot be read changes nothing.
async fn reload_on_signals(
    mut reloads: Reloads,
    trusted: TrustSource,
    credentials: Arc<Credentials>,
    clock: Arc<dyn Clock>,
) {
    loop {
        reloads.next().await;
        let trusted = trusted.clone();
        match tokio::task::spawn_blocking(move || trusted.read()).await {
            Ok(Ok((trust, _))) => {
                renewal::replace(&credentials, trust, &*clock).await;
                tracing::info!("SIGHUP: keys and roles were read again");
            }
            Ok(Err(failure)) => {
                tracing::error!("SIGHUP: keys and roles stay as they were: {failure}");
            }
            Err(error) => tracing::error!("SIGHUP: keys and roles stay as they were: {error}"),
        }
    }
}

/// What `/ready` and `/status` tell of the database.
fn status(database: &Database, memory: &MemoryPlan, seen: &Seen) -> ServiceStatus {
    let status = database.status();
    let store = &status.store;
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let throughput = match status.throughput {
        ThroughputMode::Off => "off",
        ThroughputMode::Enforced => "enforced",
    };
    let trouble = disk::trouble(store);
    let mut details = Object::new()
        .with("databases", count(status.databases))
        .with("containers", count(status.containers))
        .with("partitions", count(status.partitions))
        .with("throughput", throughput)
        .with("store", store.kind)
        .with("durability", store.durability)
        .with("healthy", store.healthy)
        .with("lanes", number(store.lanes))
        .with("disk_bytes", number(store.disk_bytes))
        .with("commits", number(store.commits))
        .with("groups", number(store.groups))
        .with("reopenings", number(store.reopenings))
        .with("memory", seen.add_to(memory_status(memory, database.memory())));
    if let Some(trouble) = trouble {
        details = details.with("trouble", trouble);
    }
    if let Some(disk) = &store.disk {
        details = details.with("disk", disk::details(disk));
    }
    ServiceStatus { ready: store.healthy, trouble, details: Value::from(details).to_json() }
}

/// How the memory is divided, and what operations have of theirs.
fn memory_status(plan: &MemoryPlan, figures: MemoryFigures) -> Object {
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    plan.to_object()
        .with("operations_bytes", count(figures.used))
        .with("operations_bytes_peak", count(figures.peak))
        .with("refused_too_much", number(figures.too_much))
        .with("refused_short", number(figures.short))
}

fn warn_about_known_key(config: &Config) {
    let public = config.server.listen.iter().any(|listen| !listen.is_loopback());
    let known = partita_gateway::auth::Key::parse(partita_gateway::auth::WELL_KNOWN_KEY).ok();
    let same = match (&config.trust.keys.primary, &known) {
        (Some(key), Some(known)) => key.sign(b"") == known.sign(b""),
        _ => false,
    };
    if public && same && config.primary_key != PrimaryKey::WellKnown {
        tracing::warn!(
            "the primary key is the emulator's well-known one, and other machines can reach this \
             server: everybody who can connect can read and change all data"
        );
    }
}

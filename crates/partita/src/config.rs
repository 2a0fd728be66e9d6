//! What was typed, understood: addresses and files, checked before anything starts.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use partita_cli::Failure;
use partita_engine::{
    ChangeFeedSettings, DefaultThroughput, EngineSettings, PartitionSettings, QuerySettings,
    ScriptSettings, ThroughputMode,
};
use partita_executor::Trust;
use partita_gateway::{CertificateSource, Listen, LogFormat, ServerSettings};
use partita_http_client::{Authorities, OneShotRequest, Url};
use partita_model::MemoryBudget;
use partita_storage::{DiskSettings, Durability, EmbeddedSettings};

use crate::args::{
    DefaultThroughputKind, DurabilityKind, LogKind, ServeArgs, StoreKind, Switch, ThroughputKind,
    TlsArgs,
};
use crate::memory::{Asked, MemoryPlan};
use crate::memory_limit::MemoryLimit;
use crate::script_worker;
use crate::system::SystemThreads;
use crate::trust::{PrimaryKey, TrustSource};

const DEFAULT_DATA_DIR: &str = "./partita-data";

/// A server as it was asked for.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) server: ServerSettings,
    pub(crate) store: StoreConfig,
    /// Whose requests are served.
    pub(crate) trust: Trust,
    /// Where that was read, for reading it again.
    pub(crate) trusted: TrustSource,
    pub(crate) primary_key: PrimaryKey,
    pub(crate) certificate: CertificateSource,
    pub(crate) certificate_names: Vec<String>,
    pub(crate) engine: EngineSettings,
    /// Who gets how much memory.
    pub(crate) memory: MemoryPlan,
    pub(crate) clock_skew_seconds: u64,
    /// Are duplicate names in JSON refused?
    pub(crate) strict_json: bool,
    /// What shall exist when it is ready.
    pub(crate) init: Option<PathBuf>,
    /// Faults on order, and a clock that can be put forward?
    pub(crate) test_controls: bool,
    pub(crate) threads: usize,
    /// Where clients are told to find the account.
    pub(crate) public_endpoint: Option<String>,
    /// Where alerts are posted.
    pub(crate) alert_webhook: Option<OneShotRequest>,
    /// How often to look for alerts.
    pub(crate) alert_interval: Duration,
    /// Series for each partition?
    pub(crate) partition_metrics: bool,
    pub(crate) log_level: String,
    pub(crate) log_format: LogFormat,
}

/// Where items live.
#[derive(Debug)]
pub(crate) enum StoreConfig {
    Memory,
    Embedded { directory: PathBuf, settings: EmbeddedSettings },
}

impl StoreConfig {
    /// The directory with the data, if they are in one.
    pub(crate) fn directory(&self) -> Option<&PathBuf> {
        match self {
            StoreConfig::Memory => None,
            StoreConfig::Embedded { directory, .. } => Some(directory),
        }
    }
}

impl Config {
    pub(crate) fn from_args(args: ServeArgs) -> Result<Config, Failure> {
        let listen = listen(&args.listen)?;
        let trusted =
            TrustSource { keys: args.keys.clone(), listen: listen.clone(), metrics: args.metrics };
        let (trust, primary_key) = trusted.read()?;
        if args.test_controls && listen.iter().any(|listen| !listen.is_loopback()) {
            return Err(Failure::usage(
                "--test-controls is for servers that only this machine can reach: take it away, or \
                 listen on localhost",
            ));
        }
        let data_dir = data_dir(&args)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if args.threads == Some(0) {
            return Err(Failure::usage("--threads 0: at least one thread is needed"));
        }
        if args.connections_max == 0 {
            return Err(Failure::usage("--connections-max 0: nobody could connect"));
        }
        let memory = memory(&args)?;
        Ok(Config {
            certificate: certificate(&args.tls, data_dir.as_ref()),
            certificate_names: args.tls.tls_san.clone(),
            store: store(&args, &memory, data_dir),
            server: ServerSettings {
                listen,
                connections_max: args.connections_max,
                bodies_bytes_max: memory.bodies,
                drain: Duration::from_secs(args.drain_seconds),
                ..ServerSettings::default()
            },
            trust,
            trusted,
            primary_key,
            alert_webhook: alert_webhook(&args)?,
            engine: engine(&args, &memory),
            memory,
            clock_skew_seconds: args.clock_skew_minutes.saturating_mul(60),
            strict_json: args.strict_json,
            init: args.init,
            test_controls: args.test_controls,
            threads: args.threads.unwrap_or(cores),
            public_endpoint: public_endpoint(args.public_endpoint)?,
            alert_interval: Duration::from_secs(args.alert_seconds),
            partition_metrics: args.partition_metrics == Switch::On,
            log_level: args.log_level,
            log_format: match args.log_format {
                LogKind::Text => LogFormat::Text,
                LogKind::Json => LogFormat::Json,
            },
        })
    }
}

/// Partitions that a query looks at at once: as many as there are cores, within reason. More would
/// only take turns.
fn parallelism() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8)
}

fn memory(args: &ServeArgs) -> Result<MemoryPlan, Failure> {
    let asked = Asked {
        memory_mb: args.memory_mb,
        cache_mb: args.cache_mb,
        script_workers: script_worker::workers_wanted(),
    };
    MemoryPlan::new(asked, MemoryLimit::of_this_process().as_ref())
}

fn engine(args: &ServeArgs, memory: &MemoryPlan) -> EngineSettings {
    EngineSettings {
        default_consistency: args.consistency,
        throughput: match args.throughput {
            ThroughputKind::Off => ThroughputMode::Off,
            ThroughputKind::Enforced => ThroughputMode::Enforced,
        },
        default_throughput: match args.default_throughput {
            DefaultThroughputKind::Enforced => DefaultThroughput::Enforced,
            DefaultThroughputKind::Shown => DefaultThroughput::Shown,
            DefaultThroughputKind::None => DefaultThroughput::None,
        },
        partitions: PartitionSettings {
            bytes_max: args.partition_bytes_max,
            logical_bytes_max: args.logical_partition_bytes_max,
            announced_seconds: args.split_seconds_min,
            ..PartitionSettings::default()
        },
        query: query(args, memory),
        memory: MemoryBudget::new(in_memory(memory.operations)),
        change_feed: ChangeFeedSettings {
            retention_minutes: args.all_versions_retention,
            ..ChangeFeedSettings::default()
        },
        scripts: ScriptSettings {
            blocks: args.script_blocking == Switch::On,
            ..ScriptSettings::default()
        },
        threads: Arc::new(SystemThreads),
    }
}

fn query(args: &ServeArgs, memory: &MemoryPlan) -> QuerySettings {
    let millis_max = args.query_seconds_max.saturating_mul(1_000);
    let settings = QuerySettings {
        parallelism: parallelism(),
        cache_bytes_max: in_memory(memory.found),
        whole_millis_max: millis_max,
        ..QuerySettings::default()
    };
    settings.limited(millis_max)
}

/// No more than there are addresses for.
fn in_memory(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// A URL without a path, with a slash at its end as SDKs want it.
fn public_endpoint(url: Option<String>) -> Result<Option<String>, Failure> {
    let Some(url) = url else { return Ok(None) };
    let host = url.strip_prefix("https://").or(url.strip_prefix("http://")).unwrap_or_default();
    let host = host.strip_suffix('/').unwrap_or(host);
    if host.is_empty() || !host.chars().all(|c| c.is_ascii_graphic() && !"/?#\"".contains(c)) {
        return Err(Failure::usage(format!(
            "--public-endpoint {url:?}: write https://HOST:PORT/ or http://HOST:PORT/"
        )));
    }
    Ok(Some(format!("{}/", url.trim_end_matches('/'))))
}

/// A webhook's URL is often a secret, so messages do not repeat it.
fn alert_webhook(args: &ServeArgs) -> Result<Option<OneShotRequest>, Failure> {
    let Some(url) = &args.alert_webhook else { return Ok(None) };
    let url = Url::parse(url).map_err(|why| Failure::usage(format!("--alert-webhook: {why}")))?;
    let file = args.alert_webhook_ca_file.as_deref();
    let authorities = Authorities::read("--alert-webhook-ca-file", file).map_err(Failure::usage)?;
    Ok(Some(partita_alerts::webhook(url, authorities)))
}

fn listen(texts: &[String]) -> Result<Vec<Listen>, Failure> {
    let parse = |text: &String| {
        Listen::parse(text.trim()).map_err(|why| Failure::usage(format!("--listen {why}")))
    };
    texts.iter().map(parse).collect()
}

/// The directory for data and certificate. A memory store has none unless one is named.
fn data_dir(args: &ServeArgs) -> Result<Option<PathBuf>, Failure> {
    let directory = match (&args.data_dir, args.store) {
        (Some(directory), _) => directory.clone(),
        (None, StoreKind::Embedded) => PathBuf::from(DEFAULT_DATA_DIR),
        (None, StoreKind::Memory) => return Ok(None),
    };
    let absolute = std::path::absolute(&directory);
    let absolute = absolute
        .map_err(|error| Failure::usage(format!("--data-dir {}: {error}", directory.display())))?;
    Ok(Some(absolute))
}

fn store(args: &ServeArgs, memory: &MemoryPlan, data_dir: Option<PathBuf>) -> StoreConfig {
    let directory = match (args.store, data_dir) {
        (StoreKind::Embedded, Some(directory)) => directory,
        (StoreKind::Embedded | StoreKind::Memory, _) => return StoreConfig::Memory,
    };
    let settings = EmbeddedSettings {
        durability: match args.durability {
            DurabilityKind::Sync => Durability::Sync,
            DurabilityKind::Relaxed => Durability::Relaxed,
        },
        disk: Some(DiskSettings {
            reserve_bytes: args.disk_reserve_mb.map(|megabytes| megabytes << 20),
            ..DiskSettings::default()
        }),
        cache_bytes: memory.cache,
        write_bytes_max: Some(memory.changes),
        ..EmbeddedSettings::default()
    };
    StoreConfig::Embedded { directory, settings }
}

fn certificate(args: &TlsArgs, data_dir: Option<&PathBuf>) -> CertificateSource {
    match (&args.tls_cert, &args.tls_key, data_dir) {
        (Some(certificate), Some(key), _) => {
            CertificateSource::Files { certificate: certificate.clone(), key: key.clone() }
        }
        (_, _, Some(directory)) => CertificateSource::Kept { directory: directory.join("tls") },
        (_, _, None) => match user_cache(|name| std::env::var_os(name)) {
            Some(cache) => CertificateSource::Shared { directory: cache.join("partita/tls") },
            None => CertificateSource::Memory,
        },
    }
}

/// Where this system's users keep what programs can make again.
fn user_cache(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    match std::env::consts::OS {
        "windows" => path("LOCALAPPDATA"),
        "macos" => path("HOME").map(|home| home.join("Library/Caches")),
        _ => path("XDG_CACHE_HOME").or_else(|| path("HOME").map(|home| home.join(".cache"))),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;

    fn config(flags: &[&str]) -> Result<Config, Failure> {
        let typed = ["partita"].into_iter().chain(flags.iter().copied());
        Config::from_args(Cli::try_parse_from(typed).unwrap().serve)
    }

    fn message(flags: &[&str]) -> String {
        config(flags).unwrap_err().to_string()
    }

    const KEY: &str = "AAECAwQFBgcICQoLDA0ODw==";

    #[test]
    fn memory_is_divided_among_those_who_take_it() {
        let config =
            config(&["--memory-mb", "225", "--cache-mb", "64", "--data-dir", "/x"]).unwrap();
        let memory = &config.memory;
        let StoreConfig::Embedded { settings, .. } = &config.store else { panic!("no store") };
        assert_eq!(settings.cache_bytes, 64 << 20);
        assert_eq!(settings.write_bytes_max, Some(memory.changes));
        assert_eq!(config.server.bodies_bytes_max, memory.bodies);
        assert_eq!(config.engine.query.cache_bytes_max as u64, memory.found);
        assert_eq!(config.engine.memory.figures().bytes_max as u64, memory.operations);
    }

    #[test]
    fn scripts_are_blocked_unless_that_is_switched_off() {
        let blocks = |flags: &[&str]| config(flags).unwrap().engine.scripts.blocks;
        assert!(blocks(&[]));
        assert!(blocks(&["--script-blocking", "on"]));
        assert!(!blocks(&["--script-blocking", "off"]));
    }

    #[test]
    fn loopback_addresses_get_the_well_known_key() {
        for flags in [&[][..], &["--listen", "127.0.0.1:1,[::1]:2"], &["--listen", "127.9.9.9"]] {
            assert_eq!(config(flags).unwrap().primary_key, PrimaryKey::WellKnown, "{flags:?}");
        }
    }

    #[test]
    fn a_public_address_needs_a_key() {
        for listen in ["0.0.0.0", "[::]:8081", "8081,10.0.0.1:1"] {
            let text = message(&["--listen", listen]);
            assert!(text.contains("openssl rand -base64 64"), "{text}");
            assert!(config(&["--listen", listen, "--key", KEY]).is_ok(), "{listen}");
            // A key that may only read does not make the well-known one safe.
            assert!(config(&["--listen", listen, "--readonly-key", KEY]).is_err(), "{listen}");
        }
    }

    #[test]
    fn a_bad_key_is_named_by_its_flag() {
        assert!(message(&["--key", "x"]).starts_with("--key: the key is not base64"));
        assert!(
            message(&["--readonly-key", "c2hvcnQ="]).starts_with("--readonly-key: the key has")
        );
        let absent = message(&["--key-file", "/nowhere/key"]);
        assert!(absent.starts_with("--key-file /nowhere/key: "), "{absent}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_users_cache_is_where_the_system_says() {
        let of = |pairs: &[(&str, &str)]| {
            let find = |name: &str| pairs.iter().find(|(known, _)| *known == name);
            user_cache(|name| find(name).map(|(_, value)| OsString::from(value)))
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("HOME", "/h")]), Some("/h/.cache".into()));
        assert_eq!(of(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/c")]), Some("/c".into()));
        assert_eq!(of(&[("HOME", "/h"), ("XDG_CACHE_HOME", "c")]), Some("/h/.cache".into()));
    }

    #[test]
    fn a_memory_store_keeps_nothing_unless_told_where() {
        let memory = config(&["--store", "memory"]).unwrap();
        let kept_with_data = matches!(memory.certificate, CertificateSource::Kept { .. });
        assert!(!kept_with_data, "{:?}", memory.certificate);
        assert!(memory.store.directory().is_none());
        let kept = config(&["--store", "memory", "--data-dir", "/x"]).unwrap();
        assert_eq!(kept.certificate, CertificateSource::Kept { directory: "/x/tls".into() });
        assert!(kept.store.directory().is_none());
        let embedded = config(&["--data-dir", "/x"]).unwrap();
        assert_eq!(embedded.store.directory(), Some(&PathBuf::from("/x")));
    }

    #[test]
    fn a_certificate_needs_its_key_and_excludes_further_names() {
        let parse = |flags: &[&str]| Cli::try_parse_from([&["partita"], flags].concat());
        assert!(parse(&["--tls-cert", "c"]).is_err());
        assert!(parse(&["--tls-key", "k"]).is_err());
        assert!(parse(&["--tls-cert", "c", "--tls-key", "k", "--tls-san", "n"]).is_err());
        assert!(parse(&["--tls-cert", "c", "--tls-key", "k"]).is_ok());
    }

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
        let typed = Cli::try_parse_from(["partita", "serve", "--listen", "1,2"]).unwrap();
        let Some(crate::args::Command::Serve(args)) = typed.command else { panic!("{typed:?}") };
        assert_eq!(args.listen, ["1", "2"]);
        assert!(Cli::try_parse_from(["partita", "--consistency", "Weak"]).is_err());
    }
}

//! What can be typed. What it means is in `config.rs`.
//!
//! Every flag has a twin in the environment, so that a container needs no command line; the flag
//! wins. `partita` alone is `partita serve`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use partita_gateway::limits;
use partita_model::Consistency;

use crate::script_worker;

/// A partitioned document database that speaks the Azure Cosmos DB protocol.
///
/// Without arguments it serves on https://localhost:8081/ and http://localhost:8081/ with the
/// emulator's well-known key and keeps its data in ./partita-data.
#[derive(Debug, Parser)]
#[command(
    name = "partita",
    version,
    args_conflicts_with_subcommands = true,
    max_term_width = 100,
    after_long_help = EXIT_CODES
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  stopped as asked
  1  other trouble; the message says which
  2  a flag is wrong
  3  an address cannot be listened on (for example: the port is in use)
  4  the data directory is in use, not writable, or made with other settings
  5  stored data are damaged
  130  a second signal ended the server before it had drained";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server (the default).
    #[command(after_long_help = EXIT_CODES)]
    Serve(Box<ServeArgs>),
    #[command(flatten)]
    Tool(partita_cli::Command),
    /// Run scripts for the server that started this process.
    #[command(name = script_worker::COMMAND, hide = true)]
    ScriptWorker(ScriptWorkerArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ScriptWorkerArgs {
    /// Bytes of a script's heap
    #[arg(long, value_name = "BYTES")]
    pub(crate) heap_bytes: usize,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Where to listen: PORT (localhost, IPv4 and IPv6), IP:PORT or IP. Repeat it or separate by
    /// commas. Port 0 takes a free one. An address that other machines can reach needs --key.
    #[arg(
        long,
        env = "PARTITA_LISTEN",
        value_name = "ADDRESS",
        value_delimiter = ',',
        default_value = "8081"
    )]
    pub(crate) listen: Vec<String>,

    /// The URL at which clients are told to find the account, https://HOST:PORT/ [default: the one
    /// at which they asked]
    #[arg(long, env = "PARTITA_PUBLIC_ENDPOINT", value_name = "URL")]
    pub(crate) public_endpoint: Option<String>,

    /// Where data and the TLS certificate are kept [default: ./partita-data; with --store memory
    /// none, and the certificate is in the user's cache directory]
    #[arg(long, env = "PARTITA_DATA_DIR", value_name = "DIRECTORY")]
    pub(crate) data_dir: Option<PathBuf>,

    /// Where items live: on disk, or in memory and gone with the process
    #[arg(long, env = "PARTITA_STORE", value_enum, default_value_t = StoreKind::Embedded)]
    pub(crate) store: StoreKind,

    /// When a write is acknowledged: after it is on stable storage, or already when the operating
    /// system has it (faster; the last moments are lost if the machine fails)
    #[arg(long, env = "PARTITA_DURABILITY", value_enum, default_value_t = DurabilityKind::Sync)]
    pub(crate) durability: DurabilityKind,

    /// Memory for the server and its processes, in MB, the cache included: what queries, scripts,
    /// writes and bodies may take is divided from it [default: three quarters of what the cgroup or
    /// the machine has]
    #[arg(long, env = "PARTITA_MEMORY_MB", value_name = "MB")]
    pub(crate) memory_mb: Option<u64>,

    /// Memory for the store's cache, in MB, part of --memory-mb [default: 256, or less on a small
    /// machine], half of it for items and half for blocks; queries remember what they found in up
    /// to three eighths of it more
    #[arg(long, env = "PARTITA_CACHE_MB", value_name = "MB")]
    pub(crate) cache_mb: Option<u64>,

    /// What must be left on the disk of the data directory for new writes to be accepted, in MB:
    /// for deletes, merges and recovery; half of it is held in a file [default: a twentieth of the
    /// file system, 256 to 1024 MB, an eighth of a small one]
    #[arg(
        long,
        env = "PARTITA_DISK_RESERVE_MB",
        value_name = "MB",
        value_parser = clap::value_parser!(u64).range(1..=1_048_576)
    )]
    pub(crate) disk_reserve_mb: Option<u64>,

    /// The account's default consistency
    #[arg(
        long,
        env = "PARTITA_CONSISTENCY",
        value_name = "LEVEL",
        default_value = "Session",
        value_parser = parse_consistency,
        help = "The account's default consistency: Strong, BoundedStaleness, Session, \
                ConsistentPrefix or Eventual"
    )]
    pub(crate) consistency: Consistency,

    /// Whether requests over the provisioned throughput are refused (429), as at the service, or
    /// only counted
    #[arg(long, env = "PARTITA_THROUGHPUT", value_enum, default_value_t = ThroughputKind::Enforced)]
    pub(crate) throughput: ThroughputKind,

    /// What containers get that are created without throughput, in a database without: an offer of
    /// 400 RU/s that limits them, one that is only shown until somebody sets it, or none
    #[arg(
        long,
        env = "PARTITA_DEFAULT_THROUGHPUT",
        value_enum,
        default_value_t = DefaultThroughputKind::Shown
    )]
    pub(crate) default_throughput: DefaultThroughputKind,

    /// Bytes of items that one partition key may have; a suffix of KB, MB or GB is understood. At
    /// least 1 MB
    #[arg(
        long,
        env = "PARTITA_LOGICAL_PARTITION_BYTES_MAX",
        value_name = "BYTES",
        default_value = "20GB",
        value_parser = parse_bytes_max
    )]
    pub(crate) logical_partition_bytes_max: u64,

    /// Bytes of items at which a partition is split; the same suffixes are understood
    #[arg(
        long,
        env = "PARTITA_PARTITION_BYTES_MAX",
        value_name = "BYTES",
        default_value = "50GB",
        value_parser = parse_bytes_max
    )]
    pub(crate) partition_bytes_max: u64,

    /// How long a split or merge takes at least, in seconds: for so long its partitions are shown
    /// as splitting before it begins, and clients learn of that. For tests of applications; a
    /// small split is over before anybody looks otherwise
    #[arg(
        long,
        env = "PARTITA_SPLIT_SECONDS_MIN",
        value_name = "SECONDS",
        default_value_t = 0,
        value_parser = clap::value_parser!(u64).range(..=3_600)
    )]
    pub(crate) split_seconds_min: u64,

    /// How long a query may take at most, in seconds. One that is not done by then ends with 408,
    /// and is charged for what it did. A request may set a lower limit for itself with the header
    /// x-partita-query-seconds-max
    #[arg(
        long,
        env = "PARTITA_QUERY_SECONDS_MAX",
        value_name = "SECONDS",
        default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(1..=86_400)
    )]
    pub(crate) query_seconds_max: u64,

    /// For how many minutes the change feed keeps all versions and deletes of containers whose
    /// changeFeedPolicy does not say it; 0: not at all
    #[arg(
        long,
        env = "PARTITA_ALL_VERSIONS_RETENTION",
        value_name = "MINUTES",
        default_value_t = 0
    )]
    pub(crate) all_versions_retention: u32,

    /// Whether a script that exceeds its limits three times in ten minutes is refused (403) for the
    /// next five, as at the service
    #[arg(long, env = "PARTITA_SCRIPT_BLOCKING", value_enum, default_value_t = Switch::On)]
    pub(crate) script_blocking: Switch,

    /// How far a request's date may be from the server's clock, in minutes
    #[arg(long, env = "PARTITA_CLOCK_SKEW_MINUTES", value_name = "MINUTES", default_value_t = 15)]
    pub(crate) clock_skew_minutes: u64,

    /// Refuse JSON in which an object has two members of the same name. Without it the last one
    /// wins, as in the cloud service
    #[arg(long, env = "PARTITA_STRICT_JSON")]
    pub(crate) strict_json: bool,

    /// Create the databases, containers and items that this file declares (JSON or TOML, in the
    /// words of the Terraform provider) unless they exist
    #[arg(long, env = "PARTITA_INIT", value_name = "FILE")]
    pub(crate) init: Option<PathBuf>,

    /// Let programs on this machine order faults and put the clock forward, to test themselves
    /// (docs/testing.md)
    #[arg(long, env = "PARTITA_TEST_CONTROLS")]
    pub(crate) test_controls: bool,

    /// Open connections at most; more are closed at once
    #[arg(
        long,
        env = "PARTITA_CONNECTIONS_MAX",
        value_name = "COUNT",
        default_value_t = limits::CONNECTIONS_MAX
    )]
    pub(crate) connections_max: usize,

    /// Threads that serve connections, and as many again for long work [default: one per core]
    #[arg(long, env = "PARTITA_THREADS", value_name = "COUNT")]
    pub(crate) threads: Option<usize>,

    /// How long running requests may take to finish after SIGTERM or Ctrl-C, in seconds
    #[arg(
        long,
        env = "PARTITA_DRAIN_SECONDS",
        value_name = "SECONDS",
        default_value_t = limits::DRAIN_SECONDS
    )]
    pub(crate) drain_seconds: u64,

    /// Whether /metrics has series for each partition of each container. They are as many as there
    /// are partitions: switch them off if those are tens of thousands
    #[arg(long, env = "PARTITA_PARTITION_METRICS", value_enum, default_value_t = Switch::On)]
    pub(crate) partition_metrics: Switch,

    /// Who sees the metrics that name databases and containers: who signs with a key of the account
    /// or shows the token of --metrics-token-file, or everybody who can connect. Those of the
    /// process are for everybody
    #[arg(long, env = "PARTITA_METRICS", value_enum, default_value_t = MetricsKind::Restricted)]
    pub(crate) metrics: MetricsKind,

    /// Where alerts are posted as JSON: a logical partition passed 80 % of its limit, or a
    /// partition refuses more than 1 % of its requests. They are logged in any case
    #[arg(long, env = "PARTITA_ALERT_WEBHOOK", value_name = "URL", hide_env_values = true)]
    pub(crate) alert_webhook: Option<String>,

    /// For a webhook over https: trust the certificates in this file (PEM) instead of the system's
    #[arg(
        long,
        env = "PARTITA_ALERT_WEBHOOK_CA_FILE",
        value_name = "FILE",
        requires = "alert_webhook"
    )]
    pub(crate) alert_webhook_ca_file: Option<PathBuf>,

    /// How often to look for alerts, in seconds
    #[arg(
        long,
        env = "PARTITA_ALERT_SECONDS",
        value_name = "SECONDS",
        default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub(crate) alert_seconds: u64,

    /// What is logged to standard error: error, warn, info, debug, trace, or filters such as
    /// warn,partita_gateway=debug
    #[arg(long, env = "PARTITA_LOG_LEVEL", value_name = "LEVEL", default_value = "info")]
    pub(crate) log_level: String,

    /// How it is logged. With json, standard output carries one line when the server is ready:
    /// {"event":"ready","endpoint":…}
    #[arg(long, env = "PARTITA_LOG_FORMAT", value_enum, default_value_t = LogKind::Text)]
    pub(crate) log_format: LogKind,

    // These come last: their headings hold for all flags after them.
    #[command(flatten)]
    pub(crate) keys: KeyArgs,

    #[command(flatten)]
    pub(crate) tls: TlsArgs,
}

/// The account's keys: base64 of at least 16 bytes, for example from
/// `openssl rand -base64 64 | tr -d '\n'`.
#[derive(Clone, Debug, Args)]
#[command(
    next_help_heading = "Keys (base64; make one with: openssl rand -base64 64 | tr -d '\\n')"
)]
pub(crate) struct KeyArgs {
    /// The primary key. Without one the emulator's well-known key is used, on loopback addresses
    /// only
    #[arg(long, env = "PARTITA_KEY", value_name = "KEY", hide_env_values = true)]
    pub(crate) key: Option<String>,

    /// A file that holds the primary key, instead of --key
    #[arg(long, env = "PARTITA_KEY_FILE", value_name = "FILE", conflicts_with = "key")]
    pub(crate) key_file: Option<PathBuf>,

    /// A second key that may do everything, for changing keys without a pause
    #[arg(long, env = "PARTITA_SECONDARY_KEY", value_name = "KEY", hide_env_values = true)]
    pub(crate) secondary_key: Option<String>,

    /// A file that holds the secondary key, instead of --secondary-key
    #[arg(
        long,
        env = "PARTITA_SECONDARY_KEY_FILE",
        value_name = "FILE",
        conflicts_with = "secondary_key"
    )]
    pub(crate) secondary_key_file: Option<PathBuf>,

    /// A key that may only read
    #[arg(long, env = "PARTITA_READONLY_KEY", value_name = "KEY", hide_env_values = true)]
    pub(crate) readonly_key: Option<String>,

    /// A second key that may only read
    #[arg(
        long,
        env = "PARTITA_SECONDARY_READONLY_KEY",
        value_name = "KEY",
        hide_env_values = true
    )]
    pub(crate) secondary_readonly_key: Option<String>,

    /// A file with a token for scraping all of /metrics, shown as `authorization: Bearer TOKEN`; at
    /// least 16 characters, for example from `openssl rand -hex 32`. Read again on SIGHUP
    #[arg(long, env = "PARTITA_METRICS_TOKEN_FILE", value_name = "FILE")]
    pub(crate) metrics_token_file: Option<PathBuf>,

    /// Identity providers and the roles of their principals (docs/access.md); read again, like the
    /// files with keys, on SIGHUP
    #[arg(long, env = "PARTITA_ACCESS_FILE", value_name = "FILE")]
    pub(crate) access_file: Option<PathBuf>,
}

/// The certificate. Without these a self-signed one is made and kept in the data directory, or in
/// the user's cache directory if there is none.
#[derive(Debug, Args)]
#[command(next_help_heading = "TLS")]
pub(crate) struct TlsArgs {
    /// Your own certificate chain (PEM) [default: a self-signed one, kept in the data directory or
    /// the user's cache directory; `partita trust` says how to trust it]
    #[arg(long, env = "PARTITA_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The private key of --tls-cert (PEM)
    #[arg(long, env = "PARTITA_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// A further host name or IP address for the self-signed certificate. Repeat it or separate by
    /// commas
    #[arg(
        long,
        env = "PARTITA_TLS_SAN",
        value_name = "NAME",
        value_delimiter = ',',
        conflicts_with = "tls_cert"
    )]
    pub(crate) tls_san: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreKind {
    Embedded,
    Memory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityKind {
    Sync,
    Relaxed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ThroughputKind {
    Off,
    Enforced,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DefaultThroughputKind {
    Enforced,
    Shown,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MetricsKind {
    Restricted,
    Open,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogKind {
    Text,
    Json,
}

fn parse_consistency(text: &str) -> Result<Consistency, String> {
    Consistency::parse(text).map_err(|error| error.message)
}

/// The least that a limit on stored bytes can be: an item may have twice as much, but tests want to
/// see the limit at work.
const BYTES_MAX_MIN: u64 = 1 << 20;

/// A number of bytes, `1048576` or `1MB`, that is large enough for a limit.
pub(crate) fn parse_bytes_max(text: &str) -> Result<u64, String> {
    let units = [("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)];
    let upper = text.trim().to_ascii_uppercase();
    let (number, unit) = units
        .iter()
        .find_map(|(suffix, unit)| Some((upper.strip_suffix(suffix)?, *unit)))
        .unwrap_or((&upper, 1));
    let number: u64 = number.trim().parse().map_err(|_| {
        format!("{text:?} is no number of bytes: use for example 1048576, 512MB or 20GB")
    })?;
    let bytes = number.checked_mul(unit).ok_or_else(|| format!("{text:?} is too large"))?;
    if bytes < BYTES_MAX_MIN {
        return Err(format!("{text:?} is too small: 1 MB is the least"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_with_and_without_a_unit() {
        assert_eq!(parse_bytes_max("1048576"), Ok(1 << 20));
        assert_eq!(parse_bytes_max(" 3 mb"), Ok(3 << 20));
        assert_eq!(parse_bytes_max("20GB"), Ok(20 << 30));
        for bad in ["", "MB", "1023KB", "1000000", "-1", "1.5GB", "99999999999999GB"] {
            parse_bytes_max(bad).expect_err(bad);
        }
    }
}

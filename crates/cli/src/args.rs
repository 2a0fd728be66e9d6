//! What can be typed after the name of a command.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::bench::BenchArgs;
use crate::container_name::ContainerName;

/// Every command but those that run the server and its workers.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Ask a running server whether it is ready: exit code 0 if it is, 1 if not.
    Healthcheck(HealthcheckArgs),
    /// Read everything in a data directory and say whether it is whole; the server must not be
    /// running on it. Exit code 0 if it is, 5 if not.
    Check(CheckArgs),
    /// Show the physical partitions of a container: what they hold and do, and their largest and
    /// hottest logical partitions.
    Partitions(PartitionsArgs),
    /// Show the effective partition key (EPK) of a partition key and the partition it lives in.
    ExplainKey(ExplainKeyArgs),
    /// Say which partition key would serve a container best, and why: by the items that it has and
    /// the queries that it was asked lately.
    Advise(AdviseArgs),
    /// Split and merge physical partitions.
    Admin(AdminArgs),
    /// Measure an account, a Partita server or the service: operations and request units per
    /// second, latencies, refusals.
    Bench(BenchArgs),
    /// Say how to trust the server's certificate: on Linux, Windows and macOS, in Java, Node,
    /// Python and .NET.
    Trust(TrustArgs),
    /// Change the account's keys.
    Keys(KeysArgs),
    /// Print a token for trying roles (--access-file) without an identity provider; the first time,
    /// make the access file.
    DevToken(DevTokenArgs),
}

#[derive(Debug, Args)]
pub struct HealthcheckArgs {
    /// The server [default: http://localhost with the port of PARTITA_LISTEN, or 8081]
    #[arg(long, env = "PARTITA_URL", value_name = "URL")]
    pub url: Option<String>,

    /// For https: trust the certificates in this file (PEM) instead of the system's
    #[arg(long, env = "PARTITA_CA_FILE", value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct TrustArgs {
    /// The server whose certificate it is
    #[arg(
        long,
        env = "PARTITA_URL",
        value_name = "URL",
        default_value = "https://localhost:8081/"
    )]
    pub url: String,
}

#[derive(Debug, Args)]
pub struct KeysArgs {
    #[command(subcommand)]
    pub command: KeysCommand,
}

#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Make a new primary key; the old one becomes the secondary key. A server that was started
    /// with these files takes them over on SIGHUP.
    Rotate(RotateArgs),
}

#[derive(Debug, Args)]
pub struct RotateArgs {
    /// The file with the primary key
    #[arg(long, env = "PARTITA_KEY_FILE", value_name = "FILE")]
    pub key_file: PathBuf,

    /// The file with the secondary key
    #[arg(long, env = "PARTITA_SECONDARY_KEY_FILE", value_name = "FILE")]
    pub secondary_key_file: PathBuf,
}

#[derive(Debug, Args)]
pub struct DevTokenArgs {
    /// The access file, for `partita serve --access-file FILE`
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Whom the token is for
    #[arg(long, value_name = "NAME", default_value = "developer")]
    pub principal: String,

    /// How long the token is valid
    #[arg(long, value_name = "HOURS", default_value_t = 24)]
    pub hours: u64,
}

#[derive(Debug, Args)]
pub struct AdminArgs {
    #[command(subcommand)]
    pub command: AdminCommand,
}

#[derive(Debug, Subcommand)]
pub enum AdminCommand {
    /// Split a physical partition in two, while it serves.
    Split(SplitArgs),
    /// Merge neighbouring physical partitions into one, while they serve.
    Merge(MergeArgs),
}

#[derive(Debug, Args)]
pub struct SplitArgs {
    /// The container
    #[arg(value_name = "DATABASE/CONTAINER", value_parser = ContainerName::parse)]
    pub container: ContainerName,

    /// The id of the partition, as `partita partitions` shows it
    #[arg(value_name = "ID")]
    pub id: String,

    /// Split at this EPK instead of where half of the bytes lie on each side
    #[arg(long, value_name = "EPK", conflicts_with = "midpoint")]
    pub at: Option<String>,

    /// Split in the middle of the hash range
    #[arg(long)]
    pub midpoint: bool,

    #[command(flatten)]
    pub doing: MoveArgs,
}

#[derive(Debug, Args)]
pub struct MergeArgs {
    /// The container
    #[arg(value_name = "DATABASE/CONTAINER", value_parser = ContainerName::parse)]
    pub container: ContainerName,

    /// The ids of the partitions, as `partita partitions` shows them
    #[arg(value_name = "ID", num_args = 2.., required = true)]
    pub ids: Vec<String>,

    #[command(flatten)]
    pub doing: MoveArgs,
}

#[derive(Debug, Args)]
pub struct MoveArgs {
    /// Wait until it is done
    #[arg(long)]
    pub wait: bool,

    /// Print the server's answer as JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub connect: ConnectArgs,
}

#[derive(Debug, Args)]
pub struct AdviseArgs {
    /// The container
    #[arg(value_name = "DATABASE/CONTAINER", value_parser = ContainerName::parse)]
    pub container: Option<ContainerName>,

    /// Items from a file, a JSON object per line, instead of a container's
    #[arg(long, value_name = "FILE", conflicts_with = "container")]
    pub file: Option<PathBuf>,

    /// Queries from a file, one per line, instead of those that the server remembers
    #[arg(long, value_name = "FILE")]
    pub queries: Option<PathBuf>,

    /// How many items are looked at closely: a random sample of all
    #[arg(long, value_name = "COUNT", default_value_t = 20_000)]
    pub sample: usize,

    /// How many items of a container are read at most
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000)]
    pub items_max: u64,

    /// How many candidates to show
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    pub top: usize,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Which server, and who asks.
#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
pub struct ConnectArgs {
    /// The server: http://HOST:PORT or https://HOST:PORT. Only it is asked, whatever other regions
    /// its account names
    #[arg(
        long,
        env = "PARTITA_ENDPOINT",
        value_name = "URL",
        default_value = "http://localhost:8081"
    )]
    pub endpoint: String,

    /// A key of its account [default, on this machine only: the emulator's well-known key]
    #[arg(long, env = "PARTITA_KEY", value_name = "KEY", hide_env_values = true)]
    pub key: Option<String>,

    /// For https: trust the certificates in this file (PEM) instead of the system's
    #[arg(long, env = "PARTITA_CA_FILE", value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct PartitionsArgs {
    /// The container
    #[arg(value_name = "DATABASE/CONTAINER", value_parser = ContainerName::parse)]
    pub container: ContainerName,

    /// How many of the largest logical partitions to show; 0 does not look for them
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    pub top: usize,

    /// Print the server's answer as JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub connect: ConnectArgs,
}

#[derive(Debug, Args)]
pub struct ExplainKeyArgs {
    /// The container and the key, a JSON array with one value per path: shop/orders '["acme"]'.
    /// With --paths the key alone
    #[arg(value_name = "DATABASE/CONTAINER KEY", num_args = 1..=2, required = true)]
    pub what: Vec<String>,

    /// The paths of a partition key, instead of a container's: no server is asked
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    pub paths: Vec<String>,

    /// With --paths: Hash, MultiHash or Range [default: Hash for one path, MultiHash for more]
    #[arg(long, value_name = "KIND", requires = "paths")]
    pub kind: Option<String>,

    /// With --paths: the version of the hash, 1 or 2
    #[arg(long = "version", value_name = "VERSION", default_value_t = 2)]
    pub key_version: u8,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub connect: ConnectArgs,
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The data directory [default: ./partita-data]
    #[arg(long, env = "PARTITA_DATA_DIR", value_name = "DIRECTORY")]
    pub data_dir: Option<PathBuf>,
}

//! Measures Partita against limits on the same machine in the same run.
//!
//! ```text
//! partita-bench compare      everything : PostgreSQL, two emulators, the machine's own limits
//! partita-bench read         point reads over HTTP : a bare hyper server, same bytes
//! partita-bench create       durable creates over HTTP : the raw engine, same batches and groups
//! partita-bench queries      queries over a million documents : PostgreSQL with the same ones
//! partita-bench partitions   reads and writes in one partition : the same in many
//! partita-bench throughput   point reads with throughput enforced : the same without
//! partita-bench split        a split under load: how long do writers ever wait, and when
//! partita-bench transactions procedures of 10 creates, batches of 100 : single creates
//! partita-bench hostile      point reads beside hostile scripts : the same without
//! partita-bench count        operations in one process, for tools that count instructions
//! partita-bench disk         what documents take on disk, by space, and how much processor time
//! partita-bench containers   1 000 containers of 4 partitions, a restart, an idle server
//! ```
//!
//! Both sides of a ratio are measured in turns, several times, and the medians are divided: what
//! the machine does besides falls on both. Each result is one line of JSON. The servers are
//! separate processes; the load comes from this one, over kept-alive connections with requests that
//! are signed once, so that the client's own work is the same on both sides.

#![allow(clippy::print_stdout, reason = "the results are this program's output")]
#![allow(clippy::disallowed_methods, reason = "measuring needs the clock")]

mod answer;
mod bare;
mod client;
mod compare;
mod containers;
mod count;
mod create;
mod data;
mod disk;
mod hostile;
mod partitions;
mod postgres;
mod process;
mod queries;
mod questions;
mod random;
mod raw;
mod read;
mod seen;
mod server;
mod split;
mod system;
mod throughput;
mod transactions;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// As the server has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(about = "Measures Partita against limits on the same machine in the same run")]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Everything below and more, against PostgreSQL, two emulators and the machine's own limits.
    Compare(compare::CompareOptions),
    /// Point reads of a 1 KB item, against a bare hyper server that returns the same bytes.
    Read(Options),
    /// Durable creates with 15 indexed properties, against the raw engine.
    Create(Options),
    /// Queries over many documents in 8 partitions, against PostgreSQL 15.
    Queries(QueryOptions),
    /// The same data in 1 to 256 partitions: reads and writes.
    Partitions(Options),
    /// Point reads with throughput enforced, against the same without.
    Throughput(Options),
    /// Durable documents per second: procedures and batches against single creates.
    Transactions(Options),
    /// Point reads beside scripts that mean harm, against the same without.
    Hostile(Options),
    /// 1 000 containers of 4 partitions: creating them, a restart, and an idle server's appetite.
    Containers(Options),
    /// A partition is split under load: latencies, and the longest times without a write.
    Split(SplitOptions),
    /// Operations in this process, one after the other, for tools that count instructions.
    Count {
        what: count::Counted,
        #[arg(long, default_value_t = 1_000)]
        operations: u64,
    },
    /// Documents are created in this process: what they take on disk, by space, and to write.
    Disk {
        #[arg(long, default_value_t = 100_000)]
        documents: u64,
        /// A new directory, which stays.
        data_dir: PathBuf,
    },
    /// The bare server: answers every request with the response in a file.
    #[command(hide = true)]
    Bare { response: PathBuf },
}

#[derive(clap::Args, Clone)]
struct Options {
    /// The server's binary.
    #[arg(long, default_value = "target/release/partita")]
    binary: PathBuf,
    /// Where the servers put their data; the default is a new directory under the system's one for
    /// temporary files.
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// Connections, or writers.
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Measurements of each side.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

#[derive(clap::Args, Clone)]
struct QueryOptions {
    /// The server's binary.
    #[arg(long, default_value = "target/release/partita")]
    binary: PathBuf,
    /// Where both sides put their data; about 6 GB for a million documents.
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// Keep the data: the next run with the same directory begins with the questions.
    #[arg(long, requires = "data_dir")]
    keep: bool,
    /// Documents of about 1 KB.
    #[arg(long, default_value_t = 1_000_000)]
    documents: u64,
    /// Askings of each question that count, at least.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

#[derive(clap::Args, Clone)]
struct SplitOptions {
    /// Where the data goes; about 3 GB for a million items.
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// A directory that was filled with --only-load, or is to be filled; it stays.
    #[arg(long)]
    loaded: Option<PathBuf>,
    /// Fill the directory and end.
    #[arg(long, requires = "loaded")]
    only_load: bool,
    /// Items of about 1 KB.
    #[arg(long, default_value_t = 1_000_000)]
    items: usize,
    /// Seconds of load before and after the split.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Between two requests of a client.
    #[arg(long, default_value_t = 20)]
    pause_ms: u64,
}

impl Options {
    fn length(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}

fn main() -> Result<()> {
    let told = std::env::var("PARTITA_LOG_LEVEL").unwrap_or_else(|_| "warn".to_owned());
    partita_gateway::start_logging(&told, partita_gateway::LogFormat::Text)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match Arguments::parse().what {
        What::Compare(options) => runtime.block_on(compare::run(&options)),
        What::Read(options) => runtime.block_on(read::run(&options)),
        What::Create(options) => runtime.block_on(create::run(&options)),
        What::Queries(options) => runtime.block_on(queries::run(&options)),
        What::Partitions(options) => runtime.block_on(partitions::run(&options)),
        What::Throughput(options) => runtime.block_on(throughput::run(&options)),
        What::Transactions(options) => runtime.block_on(transactions::run(&options)),
        What::Hostile(options) => runtime.block_on(hostile::run(&options)),
        What::Containers(options) => runtime.block_on(containers::run(&options)),
        What::Count { what, operations } => count::run(what, operations),
        What::Disk { documents, data_dir } => disk::run(&data_dir, documents),
        What::Split(options) => split::run(&options),
        What::Bare { response } => runtime.block_on(bare::serve(&response)),
    }
}

/// The middle one of an odd number of measurements.
fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(0.0)
}

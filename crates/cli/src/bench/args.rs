//! What can be typed after `partita bench`, and what it means.

use clap::{Args, ValueEnum};
use partita_load::{Limit, Settings, Workload};

use crate::args::ConnectArgs;
use crate::failure::Failure;

/// Bytes that an item has at least: its id, its key and the names of its properties.
const ITEM_BYTES_MIN: usize = 256;

/// Bytes that an item may have at most, a little below what the service accepts.
const ITEM_BYTES_MAX: usize = 2_000_000;

/// What the service sells at least, and in which steps.
const THROUGHPUT_MIN: u32 = 400;
const THROUGHPUT_STEP: u32 = 100;

/// How long it runs unless told otherwise.
const SECONDS: u64 = 10;

#[derive(Debug, Args)]
pub struct BenchArgs {
    /// The database; created, and deleted afterwards, unless it exists already
    #[arg(long, value_name = "NAME", default_value = "bench", value_parser = parse_name)]
    pub(crate) database: String,

    /// The container; must not exist yet. It is deleted afterwards
    #[arg(long, value_name = "NAME", default_value = "items", value_parser = parse_name)]
    pub(crate) container: String,

    /// RU/s of the container [default: what the account gives by itself]
    #[arg(long, value_name = "RU/S", value_parser = parse_throughput)]
    pub(crate) throughput: Option<u32>,

    /// What is measured. mixed: 70 % reads, 20 % writes, 10 % queries
    #[arg(long, value_enum, default_value_t = WorkloadKind::Mixed)]
    pub(crate) workload: WorkloadKind,

    /// Connections, each with one request at a time
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 16,
        value_parser = clap::value_parser!(u16).range(1..=4096)
    )]
    pub(crate) clients: u16,

    /// How long to measure [default: 10]
    #[arg(
        long,
        value_name = "SECONDS",
        conflicts_with = "operations",
        value_parser = clap::value_parser!(u64).range(1..=86_400)
    )]
    pub(crate) seconds: Option<u64>,

    /// How many operations to measure, instead of how long
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) operations: Option<u64>,

    /// Bytes of an item
    #[arg(long, value_name = "BYTES", default_value_t = 1024, value_parser = parse_item_bytes)]
    pub(crate) item_size: usize,

    /// Partition keys that items are spread over. Before reads and queries are measured each gets
    /// ten items
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 100,
        value_parser = clap::value_parser!(u64).range(1..=10_000_000)
    )]
    pub(crate) keys: u64,

    /// Leave the database and the container behind
    #[arg(long)]
    pub(crate) keep: bool,

    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// What is asked of the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WorkloadKind {
    /// Creates items.
    Write,
    /// Reads items by id and partition key.
    Read,
    /// Asks for some items of a partition key.
    Query,
    /// All three.
    Mixed,
}

impl From<WorkloadKind> for Workload {
    fn from(kind: WorkloadKind) -> Workload {
        match kind {
            WorkloadKind::Write => Workload::Write,
            WorkloadKind::Read => Workload::Read,
            WorkloadKind::Query => Workload::Query,
            WorkloadKind::Mixed => Workload::Mixed,
        }
    }
}

impl BenchArgs {
    pub(crate) fn settings(&self) -> Result<Settings, Failure> {
        let limit = match self.operations {
            Some(operations) if operations < self.keys => {
                return Err(Failure::usage(format!(
                    "--keys {} is more than --operations {operations}: most keys would never be \
                     asked for, and the numbers would be those of fewer. Lower --keys or raise \
                     --operations",
                    self.keys
                )));
            }
            Some(operations) => Limit::Operations(operations),
            None => Limit::Seconds(self.seconds.unwrap_or(SECONDS)),
        };
        Ok(Settings {
            database: self.database.clone(),
            container: self.container.clone(),
            throughput: self.throughput,
            workload: self.workload.into(),
            clients: self.clients,
            limit,
            item_bytes: self.item_size,
            keys: self.keys,
        })
    }
}

fn parse_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains(['/', '\\', '?', '#']) || text.ends_with(' ') {
        return Err(r"a name is not empty, has none of / \ ? # and no space at its end".to_owned());
    }
    Ok(text.to_owned())
}

fn parse_throughput(text: &str) -> Result<u32, String> {
    let wrong = || {
        format!(
            "{text:?} cannot be had: throughput is a multiple of {THROUGHPUT_STEP} RU/s, and \
             {THROUGHPUT_MIN} at least. Without --throughput the account decides"
        )
    };
    let throughput: u32 = text.parse().map_err(|_| wrong())?;
    if throughput < THROUGHPUT_MIN || !throughput.is_multiple_of(THROUGHPUT_STEP) {
        return Err(wrong());
    }
    Ok(throughput)
}

fn parse_item_bytes(text: &str) -> Result<usize, String> {
    let bytes = text.parse().ok().filter(|n| (ITEM_BYTES_MIN..=ITEM_BYTES_MAX).contains(n));
    bytes.ok_or_else(|| {
        format!("{text:?}: an item has {ITEM_BYTES_MIN} to {ITEM_BYTES_MAX} bytes here")
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Typed {
        #[command(flatten)]
        bench: BenchArgs,
    }

    /// What these arguments mean.
    fn settings(arguments: &[&str]) -> Result<Settings, String> {
        let typed = Typed::try_parse_from([&["bench"], arguments].concat());
        let typed = typed.map_err(|error| error.to_string())?;
        typed.bench.settings().map_err(|failure| failure.to_string())
    }

    #[test]
    fn it_measures_for_ten_seconds_unless_told_otherwise() {
        assert_eq!(settings(&[]).unwrap().limit, Limit::Seconds(10));
        assert_eq!(settings(&["--operations", "500"]).unwrap().limit, Limit::Operations(500));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_would() {
        let refused = |arguments: &[&str]| settings(arguments).unwrap_err();
        let keys = refused(&["--operations", "10", "--keys", "11"]);
        assert!(keys.contains("Lower --keys or raise --operations"), "{keys}");
        for throughput in ["0", "399", "450", "-1", "many"] {
            let why = refused(&[&format!("--throughput={throughput}")]);
            assert!(why.contains("400 at least"), "{why}");
        }
        assert!(refused(&["--item-size", "10"]).contains("256 to 2000000 bytes"));
        assert!(refused(&["--database", "a/b"]).contains("a name is not empty"));
        assert!(refused(&["--seconds", "1", "--operations", "1"]).contains("cannot be used with"));
        assert!(refused(&["--clients", "0"]).contains("--clients"));
    }
}

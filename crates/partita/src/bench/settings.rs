//! What can be typed after `partita bench`, and what it means.

use clap::{Args, ValueEnum};

use crate::args::ConnectArgs;
use crate::cli::connect::Connect;
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
pub(crate) struct BenchArgs {
    /// The database; made, and deleted afterwards, unless it is there already
    #[arg(long, value_name = "NAME", default_value = "bench", value_parser = parse_name)]
    pub(crate) database: String,

    /// The container; must not be there yet. It is deleted afterwards
    #[arg(long, value_name = "NAME", default_value = "items", value_parser = parse_name)]
    pub(crate) container: String,

    /// RU/s of the container [default: what the account gives without being asked]
    #[arg(long, value_name = "RU/S", value_parser = parse_throughput)]
    pub(crate) throughput: Option<u32>,

    /// What is measured. mixed: 70 % reads, 20 % writes, 10 % queries
    #[arg(long, value_enum, default_value_t = Workload::Mixed)]
    pub(crate) workload: Workload,

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
pub(crate) enum Workload {
    /// Creates items.
    Write,
    /// Reads items by id and partition key.
    Read,
    /// Asks for some items of a partition key.
    Query,
    /// All three.
    Mixed,
}

impl Workload {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Workload::Write => "write",
            Workload::Read => "read",
            Workload::Query => "query",
            Workload::Mixed => "mixed",
        }
    }

    /// Does it need items that are there before?
    pub(crate) fn needs_items(self) -> bool {
        self != Workload::Write
    }
}

/// When it has been enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    Seconds(u64),
    Operations(u64),
}

/// What it all means.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) connect: Connect,
    pub(crate) database: String,
    pub(crate) container: String,
    pub(crate) throughput: Option<u32>,
    pub(crate) workload: Workload,
    pub(crate) clients: u16,
    pub(crate) limit: Limit,
    pub(crate) item_bytes: usize,
    pub(crate) keys: u64,
    pub(crate) keep: bool,
}

impl Settings {
    pub(crate) fn of(args: &BenchArgs) -> Result<Settings, Failure> {
        let limit = match args.operations {
            Some(operations) => Limit::Operations(operations),
            None => Limit::Seconds(args.seconds.unwrap_or(SECONDS)),
        };
        if let Limit::Operations(operations) = limit
            && operations < args.keys
        {
            return Err(Failure::usage(format!(
                "--keys {} is more than --operations {operations}: most keys would never be asked \
                 for, and the numbers would be those of fewer. Lower --keys or raise --operations",
                args.keys
            )));
        }
        Ok(Settings {
            connect: Connect::of(&args.connect)?,
            database: args.database.clone(),
            container: args.container.clone(),
            throughput: args.throughput,
            workload: args.workload,
            clients: args.clients,
            limit,
            item_bytes: args.item_size,
            keys: args.keys,
            keep: args.keep,
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
pub(super) mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Typed {
        #[command(flatten)]
        bench: BenchArgs,
    }

    /// What these arguments mean.
    pub(crate) fn settings(arguments: &[&str]) -> Result<Settings, String> {
        let typed = Typed::try_parse_from([&["bench"], arguments].concat());
        let typed = typed.map_err(|error| error.to_string())?;
        Settings::of(&typed.bench).map_err(|failure| failure.to_string())
    }

    #[test]
    fn this_machine_needs_no_key_and_others_do() {
        let here = settings(&["--endpoint", "http://127.0.0.1:1"]).unwrap();
        assert_eq!(here.limit, Limit::Seconds(10));
        let there = settings(&["--endpoint", "https://account.example"]).unwrap_err();
        assert!(there.contains("--key") && there.contains("account.example"), "{there}");
        let wrong = settings(&["--endpoint", "http://localhost", "--key", "short"]).unwrap_err();
        assert!(wrong.contains("--key: the key is not base64"), "{wrong}");
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_would() {
        let here = ["--endpoint", "http://localhost:1"];
        let refused = |more: &[&str]| settings(&[&here, more].concat()).unwrap_err();
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
        assert!(refused(&["--ca-file", "/nowhere/at/all"]).contains("--ca-file"));
    }
}

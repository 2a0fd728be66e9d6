//! Hours of a database's life in minutes: mixed load on the real settings, kills, full
//! verification.
//!
//! `soak --minutes N --dir D --documents N [--kills K] [--memtable-mb M]`
//!
//! The load runs in a child process (`load.rs`): 32 writers that insert, update and delete items of
//! 1 KB with 15 index entries, a feed record and a counter each, and readers that get and scan. The
//! parent kills it with -9 a few times in between, opens the store, verifies every record
//! (`verify.rs`), and lets the next child go on. It prints a line per interval and a JSON at the
//! end, and fails if anything acknowledged is missing or anything is half done.
#![allow(clippy::print_stdout, reason = "a report")]
#![allow(clippy::disallowed_methods, reason = "measures time")]

mod histogram;
mod load;
mod verify;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use partita_storage::{EmbeddedSettings, EmbeddedStore, Store};

use histogram::{Interval, Total};

/// What was asked for on the command line.
pub(crate) struct Options {
    pub(crate) minutes: f64,
    pub(crate) dir: PathBuf,
    pub(crate) documents: u64,
    pub(crate) kills: Option<u64>,
    pub(crate) memtable_mb: Option<u64>,
    pub(crate) is_child: bool,
}

impl Options {
    /// Opens the store with its real settings, but for what was asked otherwise.
    pub(crate) fn open_store(&self) -> EmbeddedStore {
        let memtable_bytes = self.memtable_mb.map(|mb| mb << 20);
        let settings = EmbeddedSettings { memtable_bytes, ..EmbeddedSettings::default() };
        EmbeddedStore::open(&self.dir.join("store"), settings).expect("the store opens")
    }
}

fn options() -> Options {
    let mut options = Options {
        minutes: 1.0,
        dir: std::env::temp_dir().join("partita-soak"),
        documents: 1_000_000,
        kills: None,
        memtable_mb: None,
        is_child: false,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        if name == "--child" {
            options.is_child = true;
            continue;
        }
        let value = arguments.next().expect("every option has a value");
        match name.as_str() {
            "--minutes" => options.minutes = value.parse().expect("a number"),
            "--dir" => options.dir = value.into(),
            "--documents" => options.documents = value.parse().expect("a number"),
            "--memtable-mb" => options.memtable_mb = Some(value.parse().expect("a number")),
            "--kills" => options.kills = Some(value.parse().expect("a number")),
            name => panic!("unknown option {name}"),
        }
    }
    options
}

fn main() {
    let options = options();
    if options.is_child {
        load::run(&options);
    } else {
        supervise(&options);
    }
}

/// Runs children one after the other, kills all but the last, and verifies after each.
fn supervise(options: &Options) {
    std::fs::remove_dir_all(&options.dir).ok();
    std::fs::create_dir_all(&options.dir).expect("the directory");
    let kills = options.kills.unwrap_or(2.max((options.minutes / 6.0) as u64));
    let slice = Duration::from_secs_f64(options.minutes * 60.0 / (kills + 1) as f64);
    let mut total = Total::default();
    let mut verified = Vec::new();
    for round in 0..=kills {
        let killed = run_child(options, slice, round < kills, &mut total);
        let result = verify_store(options, round);
        println!("round {round}: {} {result}", if killed { "killed," } else { "ended," });
        verified.push(result);
    }
    let last = verified.last().expect("at least one round");
    println!(
        "{{\"minutes\":{},\"documents\":{},\"kills\":{kills},{},\"opens_ms\":{:?},{}}}",
        options.minutes,
        options.documents,
        total.json(),
        verified.iter().map(|result| result.open_ms).collect::<Vec<_>>(),
        last.json(),
    );
}

/// One child for about this long. True if it was killed.
fn run_child(options: &Options, slice: Duration, kill: bool, total: &mut Total) -> bool {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    if let Some(mb) = options.memtable_mb {
        command.args(["--memtable-mb", &mb.to_string()]);
    }
    let mut child = command
        .arg("--child")
        .args(["--dir".as_ref(), options.dir.as_os_str()])
        .args(["--documents", &options.documents.to_string()])
        .args(["--minutes", &(slice.as_secs_f64() / 60.0).to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let output = BufReader::new(child.stdout.take().expect("its output"));
    let start = Instant::now();
    for line in output.lines() {
        let line = line.expect("a line");
        let Some(interval) = Interval::parse(&line) else { panic!("the child says: {line}") };
        println!("{}", interval.describe());
        total.add(&interval);
        // The last moments of a slice are for the kill: a child reports every few seconds.
        if kill && start.elapsed() + load::INTERVAL > slice {
            // Not at the moment of a report, which is always the same one.
            std::thread::sleep(Duration::from_millis(137 * (slice.as_millis() as u64 % 13 + 1)));
            child.kill().expect("a kill");
            break;
        }
    }
    let status = child.wait().expect("its end");
    assert!(kill || status.success(), "the child failed: {status}");
    !status.success()
}

fn verify_store(options: &Options, round: u64) -> verify::Verified {
    let start = Instant::now();
    let store = options.open_store();
    let open_ms = start.elapsed().as_millis() as u64;
    let mut verified = verify::run(&store, &options.dir);
    verified.open_ms = open_ms;
    // Leave it as a clean end and as a sudden one, in turn.
    if round.is_multiple_of(2) {
        store.close().expect("closing");
    }
    verified
}

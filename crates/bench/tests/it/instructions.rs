//! The guard of speed: how many instructions an operation takes, compared with what it took.
//!
//! Counted with valgrind, which shows programs the same processor everywhere, of the program as the
//! tests build it. An operation that takes a sixth more than `tests/data/instructions.txt` says
//! fails; if that was meant, or if it takes much less now, write the file anew with
//!
//! ```text
//! UPDATE_GOLDENFILES=1 cargo test -p partita-bench --test it instructions
//! ```
//!
//! Where there is no valgrind nothing is counted, and the test says so.

use std::fmt::Write;
use std::process::{Command, Stdio};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/instructions.txt");
const OPERATIONS: [&str; 3] = ["read", "create", "query"];
/// What compilers and libraries may change without being asked about it.
const TOLERANCE: f64 = 0.15;

/// The difference between the two is what the operations between them took: what the start took
/// falls out.
const FEW: u64 = 10;
const MANY: u64 = 60;

#[test]
fn an_operation_takes_no_more_instructions_than_it_did() {
    if !has_valgrind() {
        println!("not counted: valgrind is not installed");
        return;
    }
    let counted: Vec<(&str, f64)> =
        OPERATIONS.iter().map(|what| (*what, per_operation(what))).collect();
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        let mut text = String::new();
        for (what, count) in &counted {
            writeln!(text, "{what} {count:.0}").unwrap();
        }
        std::fs::write(FILE, text).unwrap();
    }
    let stored = std::fs::read_to_string(FILE).unwrap();
    let before = |what: &str| {
        let line = stored.lines().find_map(|line| line.strip_prefix(what)).unwrap();
        line.trim().parse::<f64>().unwrap()
    };
    for (what, count) in &counted {
        println!("{what}: {count:.0} instructions, {:.3} of what is stored", count / before(what));
    }
    for (what, count) in &counted {
        let (limit, stored) = (before(what) * (1.0 + TOLERANCE), before(what));
        assert!(*count <= limit, "{what}: {count:.0} instructions, stored are {stored:.0}");
    }
}

fn has_valgrind() -> bool {
    let mut valgrind = Command::new("valgrind");
    valgrind.arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn per_operation(what: &str) -> f64 {
    (instructions(what, MANY) - instructions(what, FEW)) / (MANY - FEW) as f64
}

/// All instructions of a run.
fn instructions(what: &str, operations: u64) -> f64 {
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .arg(env!("CARGO_BIN_EXE_partita-bench"))
        .args(["count", what, "--operations", &operations.to_string()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let line = said.lines().find_map(|line| line.split_once("I   refs:")).unwrap().1;
    line.trim().replace(',', "").parse().unwrap()
}

//! `partita check` on what a server left behind.

use std::fs;
use std::path::{Path, PathBuf};

use crate::process::{Directory, Process, run};

fn files(under: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(under).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found
}

#[test]
fn what_a_stopped_or_killed_server_leaves_is_whole() {
    for signal in ["TERM", "KILL"] {
        let directory = Directory::new(&format!("check_{signal}"));
        let process = Process::start(&directory, &[]);
        process.signal(signal);
        process.end();
        let output = run(&directory, &["check"]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert!(text.contains("store: whole") && text.contains("database: whole"), "{text}");
    }
}

#[test]
fn a_directory_in_use_or_without_data_is_refused() {
    let directory = Directory::new("check_refused");
    assert_eq!(run(&directory, &["check"]).status.code(), Some(4));
    let process = Process::start(&directory, &[]);
    let output = run(&directory, &["check"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(!output.stderr.is_empty());
    drop(process);
}

#[test]
fn damage_is_reported() {
    let directory = Directory::new("check_damaged");
    let process = Process::start(&directory, &[]);
    process.signal("KILL");
    process.end();
    let journals: Vec<PathBuf> = files(&directory.0.join("partita-data"))
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "jnl"))
        .collect();
    assert!(!journals.is_empty());
    for path in journals {
        let mut bytes = fs::read(&path).unwrap();
        let written = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
        bytes[written / 2] ^= 0xFF;
        fs::write(&path, bytes).unwrap();
    }
    let output = run(&directory, &["check"]);
    assert_eq!(output.status.code(), Some(5), "{}", String::from_utf8_lossy(&output.stdout));
    let refused = run(&directory, &["serve", "--listen", "0"]);
    assert_eq!(refused.status.code(), Some(5), "{}", String::from_utf8_lossy(&refused.stderr));
}

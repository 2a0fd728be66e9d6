//! `partita check` on what a server left behind.

use std::fs;
use std::path::{Path, PathBuf};

use crate::process::{Directory, Process, run};

fn files(under: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(under).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

fn contents(directory: &Directory) -> Vec<(PathBuf, Vec<u8>)> {
    let files = files(&directory.0.join("partita-data")).into_iter();
    files.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

#[test]
fn what_a_stopped_or_killed_server_leaves_is_whole() {
    for signal in ["TERM", "KILL"] {
        let directory = Directory::new(&format!("check_{signal}"));
        let process = Process::start(&directory, &[]);
        process.signal(signal);
        process.end();
        let left = contents(&directory);
        let output = run(&directory, &["check"]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert_eq!(contents(&directory), left, "a check changes nothing");
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

#[test]
fn a_lost_keyspace_is_damage_and_not_made_anew() {
    let directory = Directory::new("check_lost");
    let process = Process::start(&directory, &[]);
    process.signal("TERM");
    process.end();
    let lost = directory.0.join("partita-data/lane-0/keyspaces/1/current");
    fs::remove_file(&lost).unwrap();
    let left = contents(&directory);
    for command in [&["serve", "--listen", "0"][..], &["check"]] {
        let refused = run(&directory, command);
        let text = [refused.stdout, refused.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert_eq!(refused.status.code(), Some(5), "{text}");
        assert!(text.contains("keyspaces/1/current is missing"), "{text}");
        assert_eq!(contents(&directory), left);
    }
}

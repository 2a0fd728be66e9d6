//! Readers of the change feed who wait for the next change.

use std::thread;

use crate::process::{Directory, Process};
use crate::requests::Account;

const LONG: (&str, &str) = ("prefer", "wait=60");

fn served(name: &str) -> (Directory, Process, Account) {
    let directory = Directory::new(name);
    let process = Process::start(&directory, &[]);
    let account = Account::of(&process);
    account.create_database("db");
    account.create_container("db", "c", r#"["/pk"]"#, 30_000);
    account.create_item("db", "c", r#"{"id":"old","pk":"k"}"#, r#"["k"]"#);
    (directory, process, account)
}

fn at_the_end(account: &Account) -> String {
    let (status, etag, _) = account.changes("db", "c", &[("if-none-match", "*")]);
    assert_eq!(status, 304);
    etag
}

/// What was asked of the partitions so far.
fn reads(process: &Process) -> Vec<String> {
    let (_, metrics) = Account::of(process).metrics();
    let lines = metrics.lines().filter(|line| line.contains("partition_requests_total"));
    lines.map(str::to_owned).collect()
}

#[test]
fn a_reader_who_waits_gets_the_next_change_and_nothing_old() {
    let (_directory, _process, account) = served("waiting_change");
    let etag = at_the_end(&account);
    let (status, etag, body) = thread::scope(|scope| {
        let waiting =
            scope.spawn(|| account.changes("db", "c", &[("if-none-match", etag.as_str()), LONG]));
        account.create_item("db", "c", r#"{"id":"new","pk":"k"}"#, r#"["k"]"#);
        waiting.join().unwrap()
    });
    assert_eq!(status, 200);
    assert!(body.contains(r#""id":"new""#) && !body.contains("old"), "{body}");
    let short = [("if-none-match", etag.as_str()), ("prefer", "wait=1")];
    let (status, again, _) = account.changes("db", "c", &short);
    assert_eq!((status, again), (304, etag), "nobody wrote");
}

#[test]
fn who_waits_does_not_hold_up_the_end_of_the_server() {
    let (_directory, process, account) = served("waiting_stop");
    let etag = at_the_end(&account);
    let before = reads(&process);
    let (status, same) = thread::scope(|scope| {
        let waiting =
            scope.spawn(|| account.changes("db", "c", &[("if-none-match", etag.as_str()), LONG]));
        // Only a request that has arrived can be told of the end.
        while !waiting.is_finished() && reads(&process) == before {
            thread::yield_now();
        }
        process.signal("TERM");
        let (status, same, _) = waiting.join().unwrap();
        (status, same)
    });
    assert_eq!((status, same), (304, etag));
    assert_eq!(process.end().0, Some(0));
}

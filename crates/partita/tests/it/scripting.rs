//! Scripts in a server: run by processes of its own, which end when a script does not.

use std::thread;
use std::time::Duration;

use crate::process::{Directory, Process};
use crate::requests::Account;

const KEY: [(&str, &str); 1] = [("x-ms-documentdb-partitionkey", r#"["a"]"#)];

#[test]
fn a_script_that_cannot_be_stopped_ends_alone() {
    let directory = Directory::new("scripting");
    let server = Process::start(&directory, &["--store", "memory"]);
    let account = Account::of(&server);
    account.create_database("shop");
    account.create_container("shop", "orders", r#"["/customer"]"#, 12_000);
    let create = "function (id) { __.createDocument(__.getSelfLink(), { id: id, customer: 'a' }, \
                  (error, item) => { if (error) throw error; __.response.setBody(item.id); }); }";
    // QuickJS never asks in between whether it must stop.
    let stuck = "function (id) { __.createDocument(__.getSelfLink(), { id: id, customer: 'a' }, \
                 () => [].reverse.call({ length: 2 ** 53 - 1 })); }";
    account.create_procedure("shop", "orders", "create", create);
    account.create_procedure("shop", "orders", "stuck", stuck);

    let run =
        |name, id: &str| account.execute("shop", "orders", name, &format!("[\"{id}\"]"), &KEY);
    assert_eq!(run("create", "1"), (200, "\"1\"".to_owned()));
    let (status, text) = run("stuck", "2");
    assert_eq!(status, 408, "{text}");
    assert!(text.contains("'stuck'"), "{text}");
    // What it wrote is not there, and the next one runs.
    assert_eq!(run("create", "2"), (200, "\"2\"".to_owned()));
    server.signal("TERM");
    server.end();
}

/// What Linux says of a process in `/proc/…/stat` after its name: its parent and its policy.
#[cfg(target_os = "linux")]
fn workers_of(server: u32) -> Vec<(String, u32)> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().into_string().ok());
    ids.filter_map(|id| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let is_worker = fields.get(1)?.parse() == Ok(server) && *fields.first()? != "Z";
        is_worker.then(|| Some((id, fields.get(38)?.parse().ok()?))).flatten()
    })
    .collect()
}

#[test]
#[cfg(target_os = "linux")]
fn a_script_that_computes_for_long_stands_back_and_its_worker_is_replaced() {
    const NORMAL: u32 = 0;
    const IDLE: u32 = 5;
    let directory = Directory::new("standing-back");
    let server = Process::start(&directory, &["--store", "memory"]);
    let account = Account::of(&server);
    account.create_database("shop");
    account.create_container("shop", "orders", r#"["/customer"]"#, 12_000);
    account.create_procedure("shop", "orders", "short", "function () {}");
    account.create_procedure("shop", "orders", "long", "function () { while (true) {} }");
    let run = |name| account.execute("shop", "orders", name, "[]", &KEY).0;

    // Short ones have the server's priority, and share a worker.
    assert_eq!((run("short"), run("short")), (200, 200));
    let first = workers_of(server.id());
    assert!(matches!(first.as_slice(), [(_, NORMAL)]), "{first:?}");

    thread::scope(|scope| {
        let long = scope.spawn(|| run("long"));
        let seen_back = || workers_of(server.id()).iter().any(|(_, policy)| *policy == IDLE);
        while !seen_back() && !long.is_finished() {
            thread::sleep(Duration::from_millis(5));
        }
        assert!(!long.is_finished(), "it never stood back");
        assert_eq!(long.join().unwrap(), 408);
    });
    assert_eq!(run("short"), 200);
    let second = workers_of(server.id());
    assert!(matches!(second.as_slice(), [(_, NORMAL)]), "{second:?}");
    assert_ne!(first, second);
    server.signal("TERM");
    server.end();
}

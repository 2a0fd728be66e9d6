//! Clients that leave before they have their answer, over real connections.

#![allow(clippy::disallowed_methods, reason = "how long somebody waits is real time")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::process::{Directory, Process};
use crate::requests::Account;

const KEY: (&str, &str) = ("x-ms-documentdb-partitionkey", r#"["a"]"#);
const DOCS: &str = "dbs/d/colls/c";

/// Runs for minutes, also in a release build.
const BOMB: &str =
    r#"{"query":"SELECT COUNT(1) FROM c JOIN x IN c.t JOIN y IN c.t JOIN z IN c.t"}"#;

const QUERY: [(&str, &str); 4] = [
    ("content-type", "application/query+json"),
    ("x-ms-documentdb-isquery", "True"),
    ("x-ms-documentdb-query-enablecrosspartition", "True"),
    ("x-partita-query-serving", "global"),
];

fn serving(name: &str, flags: &[&str]) -> (Directory, Process, Account) {
    let directory = Directory::new(name);
    let server = Process::start(
        &directory,
        &[&["--store", "memory", "--throughput", "off"], flags].concat(),
    );
    let account = Account::of(&server);
    account.create_database("d");
    account.create_container("d", "c", r#"["/pk"]"#, 12_000);
    let elements = (0..210).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    for n in 0..200 {
        let body = format!(r#"{{"id":"{n}","pk":"a","t":[{elements}]}}"#);
        account.create_item("d", "c", &body, KEY.1);
    }
    (directory, server, account)
}

fn send(server: &Process, request: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(request).unwrap();
    stream
}

/// What a client hears that has said that it will say no more.
fn heard(mut stream: TcpStream) -> String {
    stream.shutdown(Shutdown::Write).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Longer than anything takes that works.
const PATIENCE: Duration = Duration::from_secs(60);

#[track_caller]
fn until_queries_run(server: &Process, count: u32) {
    let running = format!("partita_queries_running {count}");
    let (begun, mut told) = (Instant::now(), String::new());
    while begun.elapsed() < PATIENCE {
        told = server.get("/metrics").1;
        let has = |line: &str| told.lines().any(|found| found == line);
        if has(&running) && has("partita_queries_queued 0") {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
    let queries = told.lines().filter(|line| line.starts_with("partita_queries"));
    panic!("not {count} queries run: {:?}", queries.collect::<Vec<_>>());
}

#[test]
fn queries_end_with_their_clients() {
    let (_directory, server, account) = serving("leaving-queries", &[]);
    let bomb = account.raw("POST", "docs", DOCS, &format!("{DOCS}/docs"), &QUERY, BOMB);
    // Closed, and half closed: of either only the end is seen.
    for half in [false, true] {
        let clients: Vec<TcpStream> = (0..3).map(|_| send(&server, &bomb)).collect();
        until_queries_run(&server, 3);
        if half {
            assert!(clients.into_iter().all(|client| heard(client).is_empty()));
        } else {
            drop(clients);
        }
        until_queries_run(&server, 0);
    }
    server.signal("TERM");
    server.end();
}

#[test]
fn after_a_half_close_writes_reads_and_procedures_are_answered() {
    let (_directory, server, account) = serving("leaving-writes", &[]);
    let create = "function (id) { __.createDocument(__.getSelfLink(), { id: id, pk: 'a' }, \
                  (error, item) => { if (error) throw error; __.response.setBody(item.id); }); }";
    account.create_procedure("d", "c", "create", create);
    let docs = format!("{DOCS}/docs");
    let written = r#"{"id":"written","pk":"a"}"#;
    let write = account.raw("POST", "docs", DOCS, &docs, &[KEY], written);
    let answer = heard(send(&server, &write));
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    let link = format!("{DOCS}/sprocs/create");
    let run = account.raw("POST", "sprocs", &link, &link, &[KEY], r#"["by-a-procedure"]"#);
    let answer = heard(send(&server, &run));
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    for id in ["written", "by-a-procedure"] {
        let link = format!("{docs}/{id}");
        let read = account.raw("GET", "docs", &link, &link, &[KEY], "");
        let answer = heard(send(&server, &read));
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains(id), "{answer}");
    }
    server.signal("TERM");
    server.end();
}

#[test]
fn who_waits_for_changes_and_leaves_is_not_waited_with() {
    let (_directory, server, account) = serving("leaving-changes", &[]);
    let docs = format!("{DOCS}/docs");
    let waiting = [("A-IM", "Incremental feed"), ("If-None-Match", "*"), ("Prefer", "wait=60")];
    let begun = Instant::now();
    for _ in 0..3 {
        let read = account.raw("GET", "docs", DOCS, &docs, &waiting, "");
        let answer = heard(send(&server, &read));
        assert!(answer.is_empty(), "{answer}");
    }
    assert!(begun.elapsed() < PATIENCE, "it waited on");
    server.signal("TERM");
    server.end();
}

#[test]
fn a_query_ends_at_the_servers_limit() {
    let (_directory, server, account) = serving("leaving-limit", &["--query-seconds-max", "1"]);
    let (status, text) = account.post_item("d", "c", BOMB, &QUERY);
    assert_eq!(status, 408, "{text}");
    assert!(text.contains("limit of 1000 ms") && text.contains("--query-seconds-max"), "{text}");
    server.signal("TERM");
    server.end();
}

//! Who sees which metrics, and what the log says of clients for whom there was no place.

use std::fs;
use std::io::Read;
use std::net::TcpStream;

use crate::process::{Directory, Process, eventually, run};
use crate::requests::Account;

const READONLY: &str = "cmVhZG9ubHktcmVhZG9ubHktcmVhZG9ubHktcmVhZG8=";
const OTHER: &str = "b3RoZXItb3RoZXItb3RoZXItb3RoZXItb3RoZXItb3Q=";

/// A server with a container `secret/plans`.
fn with_names(directory: &Directory, flags: &[&str]) -> Process {
    let server = Process::start(directory, &[&["--store", "memory"], flags].concat());
    let account = Account::of(&server);
    account.create_database("secret");
    account.create_container("secret", "plans", r#"["/pk"]"#, 400);
    server
}

/// The metrics as who shows this sees them.
fn scrape(server: &Process, authorization: &str) -> (u16, String) {
    let url = format!("http://{}/metrics", server.address());
    let agent: ureq::Agent =
        ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let mut response = agent.get(&url).header("authorization", authorization).call().unwrap();
    (response.status().as_u16(), response.body_mut().read_to_string().unwrap())
}

fn has_names(text: &str) -> bool {
    let series = r#"partita_partition_items{database="secret",container="plans",range="0"} 0.0"#;
    let there = text.contains(series);
    assert!(there || !text.contains("secret") && !text.contains("plans"), "{text}");
    assert!(text.contains("partita_connections_total"), "{text}");
    there
}

#[test]
fn metrics_name_nothing_to_those_without_credentials() {
    let directory = Directory::new("metrics-restricted");
    let server = with_names(&directory, &["--readonly-key", READONLY]);
    let (status, text) = server.get("/metrics");
    assert_eq!(status, 200);
    assert!(!has_names(&text));
    for account in [Account::of(&server), Account::with_key(&server, READONLY)] {
        let (status, text) = account.metrics();
        assert_eq!(status, 200, "{text}");
        assert!(has_names(&text), "{text}");
    }
    let (status, text) = Account::with_key(&server, OTHER).metrics();
    assert_eq!(status, 401);
    assert!(!text.contains("partita_"), "{text}");
    for (wrong, message) in [
        ("Bearer 0123456789abcdef", "--metrics-token-file"),
        ("Basic YTpi", "authorization"),
        ("type=master&ver=1.0&sig=x", "authorization"),
    ] {
        let (status, text) = scrape(&server, wrong);
        assert_eq!(status, 401, "{wrong}: {text}");
        assert!(text.contains(message), "{wrong}: {text}");
    }
}

#[test]
fn a_scraper_has_a_token_of_its_own_which_can_be_changed() {
    let directory = Directory::new("metrics-token");
    let (first, second) = ("first-0123456789abcdef", "second-0123456789abcdef");
    let file = directory.0.join("scrape.token");
    fs::write(&file, format!("{first}\n")).unwrap();
    let server = with_names(&directory, &["--metrics-token-file", "scrape.token"]);
    let status = |token: &str| scrape(&server, &format!("Bearer {token}")).0;
    assert!(has_names(&scrape(&server, &format!("Bearer {first}")).1));
    assert!(!has_names(&server.get("/metrics").1));
    assert_eq!(status(second), 401);
    fs::write(&file, second).unwrap();
    server.signal("HUP");
    eventually(200, || status(second));
    assert_eq!(status(first), 401);
    // It opens nothing else.
    let url = format!("http://{}/dbs", server.address());
    let agent: ureq::Agent =
        ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let asked = agent.get(&url).header("authorization", format!("Bearer {second}"));
    assert_eq!(asked.call().unwrap().status().as_u16(), 401);
    server.signal("TERM");
    let log = server.end().2;
    assert!(!log.contains(first) && !log.contains(second), "{log}");
}

#[test]
fn metrics_may_be_open_to_all() {
    let directory = Directory::new("metrics-open");
    let server = with_names(&directory, &["--metrics", "open"]);
    assert!(has_names(&server.get("/metrics").1));
    fs::write(directory.0.join("short.token"), "short").unwrap();
    fs::write(directory.0.join("good.token"), "0123456789abcdef").unwrap();
    for (flags, message) in [
        (&["--metrics-token-file", "short.token"][..], "at least 16 are needed"),
        (&["--metrics-token-file", "no.token"][..], "no.token"),
        (&["--metrics", "open", "--metrics-token-file", "good.token"][..], "take it or"),
    ] {
        let refused = run(&directory, &[&["--store", "memory", "--listen", "0"], flags].concat());
        let error = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{error}");
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn connections_without_a_place_are_logged_with_what_to_do() {
    let directory = Directory::new("no-place");
    let server = Process::start(&directory, &["--store", "memory", "--connections-max", "2"]);
    let connect = || TcpStream::connect(server.address()).unwrap();
    let (_first, _second) = (connect(), connect());
    for _ in 0..3 {
        // The end, or a reset: no answer.
        assert_eq!(connect().read(&mut [0]).unwrap_or(0), 0);
    }
    server.signal("TERM");
    let log = server.end().2;
    let told: Vec<&str> = log.lines().filter(|line| line.contains("unanswered")).collect();
    assert_eq!(told.len(), 1, "{log}");
    for words in ["closed 1 new connections", "2 are open", "--connections-max"] {
        assert!(told[0].contains(words), "{}", told[0]);
    }
}

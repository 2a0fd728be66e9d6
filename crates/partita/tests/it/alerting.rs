//! Alerts reach the log, the metrics and a webhook.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use serde_json::Value;

use crate::https::Https;
use crate::process::{Directory, Process, eventually, run};
use crate::requests::Account;

/// Takes one POST and answers it: the body.
fn one_post(listener: &TcpListener) -> Value {
    let (stream, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(&stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    (&stream).write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").unwrap();
    serde_json::from_slice(&body).unwrap()
}

#[test]
fn a_logical_partition_that_is_nearly_full_reaches_the_webhook() {
    let directory = Directory::new("alert-webhook");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let webhook = format!("http://{}/hook", listener.local_addr().unwrap());
    let arguments = ["--store", "memory", "--logical-partition-bytes-max", "1MB"];
    let alerts = ["--alert-seconds", "1", "--alert-webhook", &webhook];
    let server = Process::start(&directory, &[&arguments[..], &alerts].concat());
    let account = Account::of(&server);
    account.create_database("d");
    account.create_container("d", "c", r#"["/pk"]"#, 60_000);
    let filler = "x".repeat(90_000);
    for id in 0..10 {
        let item = format!(r#"{{"id":"{id}","pk":"big","filler":"{filler}"}}"#);
        account.create_item("d", "c", &item, r#"["big"]"#);
    }
    let alert = one_post(&listener);
    assert_eq!(alert["alert"], "logical_partition_size", "{alert}");
    assert_eq!(alert["database"], "d");
    assert_eq!(alert["container"], "c");
    assert_eq!(alert["key"], serde_json::json!(["big"]));
    assert!(alert["share"].as_f64().unwrap() >= 0.8, "{alert}");
    let counted = r#"partita_alerts_total{kind="logical_partition_size"} 1"#;
    let (_, metrics) = server.get("/metrics");
    assert!(metrics.contains(counted), "{metrics}");
    server.signal("TERM");
    let (code, _, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("logical_partition_size") && log.contains("writes to it"), "{log}");
}

/// What a webhook's URL has, and no log.
const SECRET: &str = "T0KEN-0F-A-WEBH00K";

/// A server that raises an alert at once, for this webhook.
fn alarmed(directory: &Directory, webhook: &[&str]) -> Process {
    let arguments = ["--store", "memory", "--logical-partition-bytes-max", "1MB"];
    let alerts = ["--alert-seconds", "1", "--alert-webhook"];
    let server = Process::start(directory, &[&arguments[..], &alerts, webhook].concat());
    let account = Account::of(&server);
    account.create_database("d");
    account.create_container("d", "c", r#"["/pk"]"#, 60_000);
    let item = format!(r#"{{"id":"1","pk":"big","filler":"{}"}}"#, "x".repeat(900_000));
    account.create_item("d", "c", &item, r#"["big"]"#);
    server
}

fn log(server: Process) -> String {
    server.signal("TERM");
    let log = server.end().2;
    assert!(!log.contains(SECRET), "{log}");
    log
}

#[test]
fn a_webhook_over_https_is_trusted_by_its_authority() {
    let directory = Directory::new("alert-https");
    let webhook = Https::start();
    webhook.answer("204 No Content", "");
    std::fs::write(directory.0.join("ca.pem"), &webhook.authority).unwrap();
    let url = format!("https://localhost:{}/{SECRET}", webhook.port);
    let server = alarmed(&directory, &[&url, "--alert-webhook-ca-file", "ca.pem"]);
    eventually(1, || webhook.asked().len().min(1) as u16);
    let alert: Value = serde_json::from_str(&webhook.asked()[0]).unwrap();
    assert_eq!(alert["alert"], "logical_partition_size", "{alert}");
    log(server);
}

#[test]
fn a_webhook_that_is_not_trusted_is_told_in_the_log_without_its_secret() {
    let directory = Directory::new("alert-stranger");
    let webhook = Https::start();
    let url = format!("https://localhost:{}/{SECRET}", webhook.port);
    let server = alarmed(&directory, &[&url]);
    let lost = |text: &str| text.contains("partita_alerts_undelivered_total{} 1");
    eventually(1, || u16::from(lost(&server.get("/metrics").1)));
    assert!(webhook.asked().is_empty());
    let log = log(server);
    let told = format!("the webhook at https://localhost:{} did not take", webhook.port);
    assert!(log.contains(&told) && log.contains("--alert-webhook-ca-file"), "{log}");
}

#[test]
fn a_webhook_that_is_no_url_is_refused_at_the_start_and_not_repeated() {
    let directory = Directory::new("alert-wrong");
    for wrong in [format!("ftp://x/{SECRET}"), format!("https://me:{SECRET}@x/"), SECRET.into()] {
        let output = run(&directory, &["--store", "memory", "--alert-webhook", &wrong]);
        assert_eq!(output.status.code(), Some(2));
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains("--alert-webhook") && !text.contains(SECRET), "{text}");
    }
}

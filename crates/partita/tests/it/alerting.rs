//! Alerts reach the log, the metrics and a webhook.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use serde_json::Value;

use crate::process::{Directory, Process, run};
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

#[test]
fn a_webhook_over_https_is_refused_at_the_start() {
    let directory = Directory::new("alert-https");
    let output = run(&directory, &["--store", "memory", "--alert-webhook", "https://x/"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("plain HTTP"));
}

//! Looking at partitions with the program's own commands, over a real server.

use serde_json::Value;

use crate::process::{Directory, Process, partita, run};
use crate::requests::Account;

/// The commands' standard output.
fn ask(directory: &Directory, server: &Process, arguments: &[&str]) -> String {
    let endpoint = format!("http://{}", server.address());
    let output = partita(directory, arguments).args(["--endpoint", &endpoint]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// A server with a container `my shop/orders` of five partitions, and three items.
fn shop(directory: &Directory) -> Process {
    let server = Process::start(directory, &["--store", "memory"]);
    let account = Account::of(&server);
    account.create_database("my shop");
    account.create_container("my shop", "orders", r#"["/tenant"]"#, 30_000);
    for (id, tenant) in [("1", "acme"), ("2", "acme"), ("1", "zeta")] {
        let item = format!(r#"{{"id":"{id}","tenant":"{tenant}"}}"#);
        account.create_item("my shop", "orders", &item, &format!(r#"["{tenant}"]"#));
    }
    server
}

#[test]
fn partitions_are_shown_as_a_table_and_as_json() {
    let directory = Directory::new("partitions");
    let server = shop(&directory);
    let table = ask(&directory, &server, &["partitions", "my shop/orders"]);
    assert!(table.contains("partition key /tenant, 5 physical partitions, 3 items"), "{table}");
    assert!(table.contains(r#"["acme"]"#), "{table}");
    let json = ask(&directory, &server, &["partitions", "my shop/orders", "--json"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["partitions"].as_array().unwrap().len(), 5);
    assert_eq!(report["largest"][0]["items"], 2);
}

#[test]
fn a_key_is_explained_with_and_without_a_server() {
    let directory = Directory::new("explain-key");
    let server = shop(&directory);
    let there =
        ask(&directory, &server, &["explain-key", "my shop/orders", r#"["acme"]"#, "--json"]);
    let there: Value = serde_json::from_str(&there).unwrap();
    assert_eq!(there["items"], 2);
    assert_eq!(there["partitions"].as_array().unwrap().len(), 1);
    let alone = run(&directory, &["explain-key", "--paths", "/tenant", r#"["acme"]"#, "--json"]);
    let alone: Value = serde_json::from_slice(&alone.stdout).unwrap();
    assert_eq!(alone["epk"], there["epk"]);
    let text = ask(&directory, &server, &["explain-key", "my shop/orders", r#"["acme"]"#]);
    assert!(text.contains("Holds  2 items"), "{text}");
}

#[test]
fn what_is_not_there_is_told() {
    let directory = Directory::new("partitions-wrong");
    let server = shop(&directory);
    let endpoint = format!("http://{}", server.address());
    let failed = |arguments: &[&str]| {
        let output = partita(&directory, arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let missing = failed(&["partitions", "my shop/nothing", "--endpoint", &endpoint]);
    assert!(missing.contains("404") && missing.contains("nothing"), "{missing}");
    let key = "cmVhZG9ubHktcmVhZG9ubHktcmVhZG9ubHktcmVhZG8=";
    let wrong = failed(&["partitions", "my shop/orders", "--endpoint", &endpoint, "--key", key]);
    assert!(wrong.contains("401"), "{wrong}");
    let nobody = failed(&["partitions", "a/b", "--endpoint", "http://127.0.0.1:1"]);
    assert!(nobody.contains("Is a server running there?"), "{nobody}");
}

#[test]
fn metrics_have_the_partitions_unless_they_are_switched_off() {
    let directory = Directory::new("partition-metrics");
    let server = shop(&directory);
    let (_, metrics) = Account::of(&server).metrics();
    let items = |text: &str| -> f64 {
        let lines = text.lines().filter(|line| line.starts_with("partita_partition_items{"));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    };
    assert!((items(&metrics) - 3.0).abs() < 1e-9, "{metrics}");
    let label =
        r#"partita_partition_storage_bytes{database="my shop",container="orders",range="4"}"#;
    assert!(metrics.contains(label), "{metrics}");
    let arguments = ["--store", "memory", "--partition-metrics", "off"];
    let quiet = Process::start(&directory, &arguments);
    Account::of(&quiet).create_database("d");
    Account::of(&quiet).create_container("d", "c", r#"["/pk"]"#, 400);
    assert!(!Account::of(&quiet).metrics().1.contains("partita_partition_"));
}

#[test]
fn advice_comes_from_a_container_and_its_queries_or_from_files() {
    let directory = Directory::new("advise");
    let server = shop(&directory);
    let account = Account::of(&server);
    let mut lines = String::new();
    for number in 0..400 {
        let (tenant, user) = (number % 4, number % 100);
        let item =
            format!(r#"{{"id":"i{number}","tenant":"acme{tenant}","user":"u{user}","same":true}}"#);
        account.create_item("my shop", "orders", &item, &format!(r#"["acme{tenant}"]"#));
        lines.push_str(&item);
        lines.push('\n');
    }
    let query = r#"{"query":"SELECT * FROM c WHERE c.user = @u","parameters":[{"name":"@u","value":"u1"}]}"#;
    let headers = [
        ("x-ms-documentdb-isquery", "true"),
        ("content-type", "application/query+json"),
        ("x-ms-documentdb-query-enablecrosspartition", "true"),
    ];
    assert_eq!(account.post_item("my shop", "orders", query, &headers).0, 200);
    let asked = ask(&directory, &server, &["advise", "my shop/orders", "--json"]);
    let advice: Value = serde_json::from_str(&asked).unwrap();
    assert_eq!(advice["items"], 403.0);
    assert_eq!(advice["candidates"][0]["paths"], serde_json::json!(["/user"]), "{asked}");
    assert_eq!(advice["candidates"][0]["queries"]["single"], 1.0);
    let candidates = advice["candidates"].as_array().unwrap();
    let present: Vec<&Value> = candidates.iter().filter(|c| c["present"] == true).collect();
    assert_eq!(present.len(), 1);
    assert_eq!(present[0]["paths"], serde_json::json!(["/tenant"]));
    let text = ask(&directory, &server, &["advise", "my shop/orders"]);
    assert!(text.contains("/tenant *") && text.contains("1. /user"), "{text}");

    let (items, queries) = (directory.0.join("items.jsonl"), directory.0.join("queries.txt"));
    std::fs::write(&items, lines).unwrap();
    std::fs::write(&queries, "-- what we ask\nSELECT * FROM c WHERE c.tenant = @t\n").unwrap();
    let arguments = ["advise", "--file", "items.jsonl", "--queries", "queries.txt", "--json"];
    let output = run(&directory, &arguments);
    let advice: Value = serde_json::from_slice(&output.stdout).unwrap();
    let best = &advice["candidates"][0];
    assert_eq!(best["paths"][0], "/tenant", "{best}");
    assert_eq!(best["queries"]["all"], 0.0, "{best}");
    std::fs::write(&items, "{\"a\":1}\nnonsense\n").unwrap();
    let wrong = run(&directory, &["advise", "--file", "items.jsonl"]);
    let message = String::from_utf8(wrong.stderr).unwrap();
    assert!(message.contains("items.jsonl, line 2"), "{message}");
}

#[test]
fn partitions_are_split_and_merged_on_request() {
    let directory = Directory::new("admin-split");
    let server = shop(&directory);
    let ids = || -> Vec<String> {
        let json = ask(&directory, &server, &["partitions", "my shop/orders", "--json"]);
        let report: Value = serde_json::from_str(&json).unwrap();
        let partitions = report["partitions"].as_array().unwrap().iter();
        partitions.map(|partition| partition["id"].as_str().unwrap().to_owned()).collect()
    };
    let split = ["admin", "split", "my shop/orders", "1", "--midpoint", "--wait"];
    assert_eq!(ask(&directory, &server, &split), "1 became 5, 6\n");
    assert_eq!(ids(), ["0", "5", "6", "2", "3", "4"]);
    let merge = ["admin", "merge", "my shop/orders", "6", "2", "--wait"];
    assert_eq!(ask(&directory, &server, &merge), "6, 2 became 7\n");
    assert_eq!(ids(), ["0", "5", "7", "3", "4"]);
    let table = ask(&directory, &server, &["partitions", "my shop/orders"]);
    assert!(table.contains("1 › ") && table.contains("3 items"), "{table}");
}

//! `--init`, `--test-controls` and `/_compat`.

use std::fs;

use serde_json::Value;

use crate::process::{Directory, Process, run};
use crate::requests::Account;

const SHOP: &str = r#"
[[database]]
name = "shop"

[[database.container]]
name = "orders"
partition_key_paths = ["/customer"]
throughput = 12000
items = [{ id = "1", customer = "a" }, { id = "2", customer = "b" }]
items_file = "more.jsonl"
"#;

fn status(server: &Process) -> Value {
    serde_json::from_str(&server.get("/status").1).unwrap()
}

#[test]
fn what_a_file_declares_is_there_after_every_start() {
    let directory = Directory::new("init");
    let folder = directory.0.as_path();
    fs::write(folder.join("shop.toml"), SHOP).unwrap();
    fs::write(folder.join("more.jsonl"), "{\"id\":\"3\",\"customer\":\"c\"}\n\n").unwrap();
    let file = folder.join("shop.toml").display().to_string();
    for _ in 0..2 {
        let server = Process::start(&directory, &["--init", &file]);
        let database = &status(&server)["database"];
        assert_eq!((&database["databases"], &database["partitions"]), (&1.into(), &2.into()));
        let key = [("x-ms-documentdb-partitionkey", r#"["c"]"#)];
        let third = r#"{"id":"3","customer":"c"}"#;
        let again = Account::of(&server).post_item("shop", "orders", third, &key);
        assert_eq!(again.0, 409, "it is there already: {}", again.1);
        server.signal("TERM");
        server.end();
    }
    fs::write(folder.join("shop.toml"), SHOP.replace("/customer", "/other")).unwrap();
    let refused = run(&directory, &["serve", "--init", &file]);
    assert_eq!(refused.status.code(), Some(2));
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(message.contains("a key cannot be changed"), "{message}");
}

#[test]
fn a_file_that_is_wrong_stops_the_start() {
    let directory = Directory::new("init-wrong");
    let folder = directory.0.as_path();
    for (name, text, reason) in [
        ("a.toml", "[[database]]\nnmae = 'x'", "has no 'nmae'"),
        ("b.json", "{", "b.json"),
        ("c.yaml", "", ".json or .toml"),
        ("d.toml", "[[database]]\nname = 'a/b'", "a/b"),
    ] {
        fs::write(folder.join(name), text).unwrap();
        let file = folder.join(name).display().to_string();
        let refused = run(&directory, &["serve", "--store", "memory", "--init", &file]);
        assert_eq!(refused.status.code(), Some(2), "{name}");
        let message = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(message.contains(reason), "{name}: {message}");
    }
    let refused = run(&directory, &["serve", "--store", "memory", "--init", "/nowhere.json"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn controls_for_tests_are_there_if_asked_for_and_never_for_other_machines() {
    let directory = Directory::new("controls");
    let server = Process::start(&directory, &["--store", "memory", "--test-controls"]);
    assert_eq!(server.get("/_partita/faults"), (200, r#"{"faults":[]}"#.to_owned()));
    let without = Process::start(&directory, &["--store", "memory"]);
    assert_eq!(without.get("/_partita/faults").0, 403);
    let key = "AAECAwQFBgcICQoLDA0ODw==";
    let public =
        ["serve", "--store", "memory", "--listen", "0.0.0.0:0", "--key", key, "--test-controls"];
    let refused = run(&directory, &public);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn programs_can_ask_what_is_supported() {
    let directory = Directory::new("compat");
    let server = Process::start(&directory, &["--store", "memory"]);
    let (status, body) = server.get("/_compat");
    assert_eq!(status, 200);
    let answer: Value = serde_json::from_str(&body).unwrap();
    let features = answer["features"].as_array().unwrap();
    let find = |name: &str| {
        let found = features.iter().find(|row| row["feature"].as_str().unwrap().contains(name));
        found.unwrap()["support"].as_str().unwrap()
    };
    assert_eq!(find("Unique keys"), "yes");
    assert_eq!(find("Attachments"), "no");
}

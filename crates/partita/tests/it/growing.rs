//! Containers that outgrow a partition while the server runs, in each of the ways to write.

use std::fs;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::process::{Directory, Process, partita};
use crate::requests::Account;

const BYTES_MAX: u64 = 1 << 20;
/// 400 items of 10 KB, ten under each key.
const KEYS: usize = 40;
const ITEMS_PER_KEY: usize = 10;
const TEXT_BYTES: usize = 10_000;

/// How often it is looked whether a container is divided, and how long that may take in all: far
/// longer than it does, for machines that are busy with something else.
const LOOK: Duration = Duration::from_millis(100);
const LOOKS_MAX: usize = 1_200;

fn start(directory: &Directory, arguments: &[&str]) -> Process {
    let limits = ["--partition-bytes-max", "1MB", "--throughput", "off"];
    Process::start(directory, &[&limits, arguments].concat())
}

fn item(key: usize, n: usize) -> Value {
    json!({ "id": n.to_string(), "pk": key.to_string(), "v": "x".repeat(TEXT_BYTES) })
}

fn header(key: usize) -> String {
    json!([key.to_string()]).to_string()
}

/// What the program's own command says of a container or of a key in it.
fn ask(directory: &Directory, server: &Process, arguments: &[&str]) -> Value {
    let endpoint = format!("http://{}", server.address());
    let mut command = partita(directory, arguments);
    let output = command.args(["--json", "--endpoint", &endpoint]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Waits until no partition of a container holds more than it may, or nearly so, and none is being
/// split.
#[track_caller]
fn assert_divided(directory: &Directory, server: &Process, container: &str) {
    let mut sizes = Vec::new();
    for _ in 0..LOOKS_MAX {
        let report = ask(directory, server, &["partitions", container, "--top", "0"]);
        let partitions = report["partitions"].as_array().unwrap();
        let size = |partition: &Value| partition["storageBytes"].as_u64().unwrap();
        sizes = partitions.iter().map(size).collect();
        let is_online = partitions.iter().all(|partition| partition["status"] == "online");
        if is_online && sizes.iter().all(|bytes| *bytes <= BYTES_MAX / 4 * 5) {
            let total: u64 = sizes.iter().sum();
            assert!(total > 3 * BYTES_MAX, "there is too little to divide: {sizes:?}");
            return;
        }
        thread::sleep(LOOK);
    }
    panic!("{container} is not divided: {sizes:?}");
}

fn write_batch(account: &Account, name: &str, operations: &[Value], headers: &[(&str, &str)]) {
    let batch = [("x-ms-cosmos-is-batch-request", "true")];
    let body = Value::from(operations).to_string();
    let (status, text) = account.post_item("db", name, &body, &[&batch, headers].concat());
    assert_eq!(status, 200, "{text}");
    let created = text.matches(r#""statusCode":201"#).count();
    assert_eq!(created, operations.len(), "{text}");
}

#[test]
fn a_container_made_while_the_server_runs_is_split_for_its_size() {
    let directory = Directory::new("growing");
    let server = start(&directory, &[]);
    let account = Account::of(&server);
    account.create_database("db");
    for name in ["single", "upsert", "batch", "bulk", "script"] {
        account.create_container("db", name, r#"["/pk"]"#, 400);
    }
    let fill = "function (key, count, bytes) { for (let n = 0; n < count; n++) { \
                __.createDocument(__.getSelfLink(), { id: '' + n, pk: key, v: 'x'.repeat(bytes) }, \
                (error) => { if (error) throw error; }); } }";
    account.create_procedure("db", "script", "fill", fill);
    for key in 0..KEYS {
        let keyed = header(key);
        let keyed = [("x-ms-documentdb-partitionkey", keyed.as_str())];
        for n in 0..ITEMS_PER_KEY {
            let item = item(key, n).to_string();
            assert_eq!(account.post_item("db", "single", &item, &keyed).0, 201);
            let upsert = [keyed[0], ("x-ms-documentdb-is-upsert", "true")];
            assert_eq!(account.post_item("db", "upsert", &item, &upsert).0, 201);
        }
        let create = |n| json!({ "operationType": "Create", "resourceBody": item(key, n) });
        let creates: Vec<Value> = (0..ITEMS_PER_KEY).map(create).collect();
        write_batch(&account, "batch", &creates, &[keyed[0], ("x-ms-cosmos-batch-atomic", "true")]);
        write_bulk(&directory, &server, &account, key);
        let arguments = json!([key.to_string(), ITEMS_PER_KEY, TEXT_BYTES]).to_string();
        let ran = account.execute("db", "script", "fill", &arguments, &keyed);
        assert_eq!(ran.0, 200, "{}", ran.1);
    }
    for name in ["single", "upsert", "batch", "bulk", "script"] {
        assert_divided(&directory, &server, &format!("db/{name}"));
    }
}

/// Sends the items of a key to the range that has it; again if that was split meanwhile.
fn write_bulk(directory: &Directory, server: &Process, account: &Account, key: usize) {
    let upsert = |n| {
        let (body, key) = (item(key, n), header(key));
        json!({ "operationType": "Upsert", "resourceBody": body, "partitionKey": key })
    };
    let body = Value::from_iter((0..ITEMS_PER_KEY).map(upsert)).to_string();
    loop {
        let home = ask(directory, server, &["explain-key", "db/bulk", &header(key)]);
        let range = home["partitions"][0]["id"].as_str().unwrap_or_else(|| panic!("{home}"));
        let headers = [
            ("x-ms-cosmos-is-batch-request", "true"),
            ("x-ms-cosmos-batch-atomic", "false"),
            ("x-ms-documentdb-partitionkeyrangeid", range),
        ];
        match account.post_item("db", "bulk", &body, &headers) {
            (410, _) => {}
            (status, text) => return assert!([200, 207].contains(&status), "{status}: {text}"),
        }
    }
}

#[test]
fn what_a_file_declares_is_split_for_its_size() {
    let directory = Directory::new("growing-init");
    let folder = directory.0.as_path();
    let items = (0..KEYS * ITEMS_PER_KEY).map(|n| item(n % KEYS, n / KEYS).to_string() + "\n");
    fs::write(folder.join("items.jsonl"), items.collect::<String>()).unwrap();
    let declared = r#"{"database":[{"name":"db","container":[
        {"name":"c","partition_key_paths":["/pk"],"items_file":"items.jsonl"}]}]}"#;
    fs::write(folder.join("init.json"), declared).unwrap();
    let file = folder.join("init.json").display().to_string();
    let server = start(&directory, &["--init", &file]);
    assert_divided(&directory, &server, "db/c");
}

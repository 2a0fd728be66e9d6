//! `partita bench` against a real server: what it measures, what it leaves behind, what it says
//! when something is wrong.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::process::{Directory, Process, partita, run};
use crate::requests::Account;

/// Runs a benchmark of the server.
fn bench(directory: &Directory, server: &Process, arguments: &[&str]) -> Output {
    let endpoint = format!("http://{}", server.address());
    partita(directory, &["bench", "--endpoint", &endpoint]).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn measured(output: &Output) -> Value {
    assert!(output.status.success(), "{}", said(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A benchmark that would take minutes, and has begun to write.
fn begin(directory: &Directory, server: &Process) -> Child {
    let endpoint = format!("http://{}", server.address());
    let arguments =
        ["bench", "--endpoint", &endpoint, "--workload", "write", "--seconds", "600", "--json"];
    let mut command = partita(directory, &arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_items(server);
    child
}

/// Until somebody has made an item.
fn wait_for_items(server: &Process) {
    let made = |line: &str| line.contains("CreateItem") && !line.ends_with(" 0");
    while !server.get("/metrics").1.lines().any(made) {
        std::thread::yield_now();
    }
}

/// Makes the database that benchmarks use by default: 409 if one was left behind.
fn make_database(server: &Process) -> u16 {
    Account::of(server).try_database("bench")
}

#[test]
fn a_benchmark_measures_every_workload_and_leaves_nothing_behind() {
    let directory = Directory::new("bench");
    let server = Process::start(&directory, &["--store", "memory"]);
    let kinds = [("write", 1), ("read", 1), ("query", 1), ("mixed", 3)];
    for (workload, expected) in kinds {
        let arguments = ["--workload", workload, "--operations", "300", "--keys", "20", "--json"];
        let report = measured(&bench(&directory, &server, &arguments));
        assert_eq!(report["operations"], 300.0, "{report}");
        assert_eq!(report["errors"], serde_json::json!([]), "{report}");
        assert_eq!(report["kinds"].as_array().unwrap().len(), expected, "{report}");
        assert!(report["requestUnits"].as_f64().unwrap() >= 300.0, "{report}");
        let latency = |name: &str| report["latencyMs"][name].as_f64().unwrap();
        let latencies = ["p50", "p90", "p99", "p99.9", "max"].map(latency);
        assert!(latencies[0] > 0.0 && latencies.is_sorted(), "{report}");
    }
    assert_eq!(make_database(&server), 201, "the database was removed");
}

#[test]
fn the_table_is_for_people() {
    let directory = Directory::new("bench-table");
    let server = Process::start(&directory, &["--store", "memory"]);
    let output =
        bench(&directory, &server, &["--operations", "200", "--keys", "5", "--clients", "3"]);
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("3 clients, items of 1024 bytes under 5 keys"), "{text}");
    let starts = ["  OPERATION ", "  read ", "  write ", "  query ", "  all "];
    let lines: Vec<&str> = text.lines().skip(2).take(5).collect();
    assert!(lines.iter().zip(starts).all(|(line, start)| line.starts_with(start)), "{text}");
    assert!(text.contains("0 throttled (429)") && text.contains("0 errors"), "{text}");
}

#[test]
fn throttling_is_waited_for_and_counted() {
    let directory = Directory::new("bench-throttled");
    let server = Process::start(&directory, &["--store", "memory"]);
    let arguments = ["--workload", "write", "--seconds", "1", "--throughput", "400", "--json"];
    let report = measured(&bench(&directory, &server, &arguments));
    assert!(report["throttled"].as_f64().unwrap() > 0.0, "{report}");
    assert!(report["throttledWaitSeconds"].as_f64().unwrap() > 0.0, "{report}");
    assert_eq!(report["errors"], serde_json::json!([]), "{report}");
}

#[test]
fn https_is_spoken_with_a_certificate_that_is_trusted_and_no_other() {
    let directory = Directory::new("bench-tls");
    let server = Process::start(&directory, &["--store", "memory"]);
    let (_, certificate) = server.get("/_explorer/emulator.pem");
    std::fs::write(directory.0.join("cert.pem"), certificate).unwrap();
    let port = server.address().rsplit(':').next().unwrap();
    let endpoint = format!("https://localhost:{port}/");
    let arguments = ["bench", "--endpoint", &endpoint, "--operations", "100", "--json"];
    let trusting = [&arguments[..], &["--ca-file", "cert.pem"]].concat();
    assert_eq!(measured(&run(&directory, &trusting))["operations"], 100.0);
    // So do the commands that look at a server.
    let account = Account::of(&server);
    account.create_database("d");
    account.create_container("d", "c", r#"["/pk"]"#, 400);
    let looking = ["partitions", "d/c", "--endpoint", &endpoint];
    let seen = run(&directory, &[&looking[..], &["--ca-file", "cert.pem"]].concat());
    assert!(seen.status.success(), "{}", said(&seen));
    assert!(said(&run(&directory, &looking)).contains("--ca-file"));
    let doubting = run(&directory, &arguments);
    assert_eq!(doubting.status.code(), Some(1));
    assert!(said(&doubting).contains("--ca-file"), "{}", said(&doubting));
}

#[test]
fn what_is_wrong_is_told_with_what_to_do_and_nothing_is_left() {
    let directory = Directory::new("bench-wrong");
    let server = Process::start(&directory, &["--store", "memory"]);
    let refused = |arguments: &[&str], code: i32, parts: &[&str]| {
        let output = bench(&directory, &server, arguments);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(parts.iter().all(|part| text.contains(part)), "{arguments:?}: {text}");
    };
    let other = "cmVhZG9ubHktcmVhZG9ubHktcmVhZG9ubHktcmVhZG8=";
    refused(&["--key", other], 1, &["401", "Is --key a key of this account"]);
    refused(&["--key", "no key"], 2, &["--key", "base64"]);
    refused(&["--throughput", "100"], 2, &["400 at least"]);
    refused(&["--operations", "10", "--keys", "100"], 2, &["Lower --keys"]);
    // An answer of the server about something that only it can know.
    refused(
        &["--throughput", "2000000000"],
        1,
        &["the container cannot be created", "--throughput"],
    );
    assert_eq!(make_database(&server), 201, "the database was removed");
    let nobody = run(&directory, &["bench", "--endpoint", "http://127.0.0.1:1"]);
    assert!(said(&nobody).contains("Is a server running there?"), "{}", said(&nobody));
    let keyless = run(&directory, &["bench", "--endpoint", "https://account.example:443"]);
    assert_eq!(keyless.status.code(), Some(2));
    assert!(said(&keyless).contains("pass --key"), "{}", said(&keyless));
}

#[test]
fn what_was_there_before_stays() {
    let directory = Directory::new("bench-kept");
    let server = Process::start(&directory, &["--store", "memory"]);
    let account = Account::of(&server);
    account.create_database("mine");
    account.create_container("mine", "items", r#"["/pk"]"#, 400);
    let taken = bench(&directory, &server, &["--database", "mine"]);
    assert!(said(&taken).contains("mine/items exists already"), "{}", said(&taken));
    let arguments = ["--database", "mine", "--container", "x", "--operations", "100", "--json"];
    measured(&bench(&directory, &server, &arguments));
    let listed = |container: &str| {
        let name = format!("mine/{container}");
        let endpoint = format!("http://{}", server.address());
        run(&directory, &["partitions", &name, "--endpoint", &endpoint]).status.success()
    };
    assert!(listed("items") && !listed("x"));
    let keeping = [&arguments[..], &["--keep"]].concat();
    measured(&bench(&directory, &server, &keeping));
    assert!(listed("x"));
}

#[test]
fn an_interrupted_benchmark_tells_what_it_measured_and_cleans_up() {
    let directory = Directory::new("bench-interrupted");
    let server = Process::start(&directory, &["--store", "memory"]);
    let child = begin(&directory, &server);
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-s", "INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let report = measured(&output);
    assert_eq!(report["interrupted"], true);
    assert_eq!(make_database(&server), 201, "the database was removed");
}

#[test]
fn a_server_that_goes_away_ends_the_benchmark() {
    let directory = Directory::new("bench-deserted");
    let server = Process::start(&directory, &["--store", "memory"]);
    let child = begin(&directory, &server);
    drop(server);
    let output = child.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["operations"].as_f64().unwrap() > 0.0, "{report}");
    assert_eq!(report["errors"][0]["error"], "no connection", "{report}");
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("dbs/bench was created for this run"), "{}", said(&output));
}

#[test]
fn an_endpoint_that_is_something_else_is_told_apart() {
    let directory = Directory::new("bench-elsewhere");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let other = std::thread::Builder::new().spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = BufReader::new(stream.try_clone().unwrap()).lines();
        while !request.next().unwrap().unwrap().is_empty() {}
        let answer = "HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nno";
        stream.write_all(answer.as_bytes()).unwrap();
    });
    let output = run(&directory, &["bench", "--endpoint", &endpoint]);
    other.unwrap().join().unwrap();
    let text = said(&output);
    assert!(text.contains("404") && text.contains("an account of the NoSQL API"), "{text}");
}

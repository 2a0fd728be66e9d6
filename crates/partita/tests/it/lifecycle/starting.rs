//! Starting: what is printed, what is refused, and with which exit code.

use std::fs;
use std::thread;

use serde_json::Value;

use crate::process::{Directory, Process, partita, run};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_ready_line_tells_where_and_the_server_answers_there() {
    let directory = Directory::new("ready");
    let process = Process::start(&directory, &[]);
    let ready = &process.ready;
    let port = process.address().rsplit(':').next().unwrap().to_string();
    assert_eq!(ready["event"], "ready");
    assert_eq!(ready["endpoint"], format!("https://localhost:{port}/"));
    assert_eq!(ready["data_dir"], directory.0.join("partita-data").to_str().unwrap());
    assert!(ready["pid"].is_u64() && ready["startup_ms"].is_u64(), "{ready}");

    assert_eq!(process.get("/alive"), (200, "alive\n".to_string()));
    assert_eq!(process.get("/ready"), (200, "ready\n".to_string()));
    let (status, body) = process.get("/status");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &body["database"]["durability"]), (200, &Value::from("sync")));
    let certificate = fs::read_to_string(directory.0.join("partita-data/tls/cert.pem")).unwrap();
    assert_eq!(process.get("/_explorer/emulator.pem"), (200, certificate));
    assert_eq!(process.get("/dbs").0, 401);
    assert_eq!(process.get("/").0, 401);
}

#[test]
fn a_memory_store_leaves_no_files() {
    let directory = Directory::new("memory");
    let process = Process::start(&directory, &["--store", "memory"]);
    assert_eq!(process.ready["data_dir"], Value::Null);
    assert_eq!(process.get("/ready").0, 200);
    process.signal("TERM");
    assert_eq!(process.end().0, Some(0));
    assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 0);
}

#[test]
fn servers_in_memory_share_a_certificate_that_outlives_them() {
    let directory = Directory::new("memory-certificate");
    let cache = directory.0.join("cache");
    let start = || {
        let mut command = partita(&directory, &["--store", "memory", "--listen", "0"]);
        command.env("XDG_CACHE_HOME", &cache);
        Process::of(command.args(["--log-format", "json"]))
    };
    let pem = |process: &Process| process.get("/_explorer/emulator.pem").1;
    // Several at once, where there is none yet.
    let servers: Vec<Process> = thread::scope(|scope| {
        let starts: Vec<_> = (0..3).map(|_| scope.spawn(start)).collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    let first = pem(&servers[0]);
    assert!(servers.iter().all(|server| pem(server) == first));
    drop(servers);
    let kept = cache.join("partita/tls");
    assert_eq!(fs::read_to_string(kept.join("cert.pem")).unwrap(), first);
    let names = fs::read_dir(cache.join("partita")).unwrap().count();
    assert_eq!(names, 1, "nothing is left beside it");
    let again = start();
    assert_eq!(pem(&again), first);
    // One with a name of its own has a certificate of its own.
    let mut named = partita(&directory, &["--store", "memory", "--listen", "0"]);
    named.env("XDG_CACHE_HOME", &cache).args(["--tls-san", "db.example"]);
    let named = Process::of(named.args(["--log-format", "json"]));
    assert_ne!(pem(&named), first);
    assert_eq!(fs::read_to_string(kept.join("cert.pem")).unwrap(), first);
    drop(named);
    assert_eq!(again.ready["certificate"], kept.join("cert.pem").to_str().unwrap());
    drop(again);
    // One that is damaged is made anew.
    fs::write(kept.join("cert.pem"), "no certificate").unwrap();
    let renewed = start();
    assert_ne!(pem(&renewed), first);
    assert_eq!(fs::read_to_string(kept.join("cert.pem")).unwrap(), pem(&renewed));
    drop(renewed);
    // Where nothing can be kept, it serves all the same.
    fs::remove_dir_all(&cache).unwrap();
    fs::write(&cache, "a file").unwrap();
    let homeless = start();
    assert_eq!(homeless.ready["certificate"], Value::Null);
    assert!(pem(&homeless).contains("BEGIN CERTIFICATE"));
}

#[test]
fn the_way_to_trust_the_certificate_is_told_for_every_platform() {
    let directory = Directory::new("trust");
    let told = run(&directory, &["trust", "--url", "http://db.example:9"]);
    assert_eq!(told.status.code(), Some(0));
    let told = text(&told.stdout);
    for part in [
        "https://db.example:9/_explorer/emulator.pem",
        "update-ca-certificates",
        "certutil",
        "security add-trusted-cert",
        "keytool",
        "NODE_EXTRA_CA_CERTS",
        "connection_verify",
        ".NET",
    ] {
        assert!(told.contains(part), "'{part}' is not in: {told}");
    }
    assert_eq!(run(&directory, &["trust", "--url", "nowhere"]).status.code(), Some(2));
}

#[test]
fn the_status_tells_whether_throughput_is_enforced() {
    let directory = Directory::new("throughput");
    for (flags, shown) in [(&[][..], "enforced"), (&["--throughput", "off"][..], "off")] {
        let flags: Vec<&str> = [&["--store", "memory"], flags].concat();
        let process = Process::start(&directory, &flags);
        let (status, body) = process.get("/status");
        assert_eq!(status, 200);
        assert!(body.contains(&format!(r#""throughput":"{shown}""#)), "{body}");
    }
    let small = ["--store", "memory", "--logical-partition-bytes-max", "1000"];
    let refused = run(&directory, &small);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("1 MB is the least"), "{}", text(&refused.stderr));
}

#[test]
fn a_public_endpoint_is_a_url_without_a_path() {
    let directory = Directory::new("public-endpoint");
    for wrong in ["localhost:8081", "https://", "https://host/path", "ftp://host/", "http://a b/"] {
        let refused = run(&directory, &["--store", "memory", "--public-endpoint", wrong]);
        assert_eq!(refused.status.code(), Some(2), "{wrong}");
        assert!(text(&refused.stderr).contains("--public-endpoint"), "{}", text(&refused.stderr));
    }
}

#[test]
fn the_environment_is_as_good_as_flags() {
    let directory = Directory::new("environment");
    let mut healthcheck = partita(&directory, &["healthcheck"]);
    healthcheck.env("PARTITA_LISTEN", "1");
    assert_eq!(healthcheck.status().unwrap().code(), Some(1));
    let mut refused = partita(&directory, &["serve"]);
    refused.env("PARTITA_LISTEN", "0.0.0.0:0").env("PARTITA_STORE", "memory");
    let output = refused.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("PARTITA_KEY"), "{}", text(&output.stderr));
}

#[test]
fn a_health_check_tells_by_its_exit_code() {
    let directory = Directory::new("healthcheck");
    let process = Process::start(&directory, &["--store", "memory"]);
    let url = format!("http://{}", process.address());
    assert_eq!(run(&directory, &["healthcheck", "--url", &url]).status.code(), Some(0));
    let secure = url.replace("http://", "https://");
    let check = ["healthcheck", "--url", &secure];
    let doubting = run(&directory, &check);
    assert_eq!(doubting.status.code(), Some(1));
    assert!(text(&doubting.stderr).contains("--ca-file"), "{}", text(&doubting.stderr));
    let (_, certificate) = process.get("/_explorer/emulator.pem");
    fs::write(directory.0.join("cert.pem"), certificate).unwrap();
    let trusting = run(&directory, &[&check[..], &["--ca-file", "cert.pem"]].concat());
    assert_eq!(trusting.status.code(), Some(0), "{}", text(&trusting.stderr));
    process.signal("TERM");
    process.end();
    assert_eq!(run(&directory, &["healthcheck", "--url", &url]).status.code(), Some(1));
}

#[test]
fn a_port_in_use_is_exit_code_3() {
    let directory = Directory::new("port");
    let process = Process::start(&directory, &["--store", "memory"]);
    let output = run(&directory, &["--store", "memory", "--listen", process.address()]);
    assert_eq!(output.status.code(), Some(3));
    let message = text(&output.stderr);
    let expected = format!("partita: {} is in use by another process", process.address());
    assert!(message.contains(&expected), "{message}");
}

#[test]
fn a_data_directory_in_use_or_unusable_is_exit_code_4() {
    let directory = Directory::new("locked");
    let process = Process::start(&directory, &[]);
    let output = run(&directory, &["--listen", "0"]);
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("in use by another process"));
    drop(process);

    fs::write(directory.0.join("file"), "no directory").unwrap();
    let output = run(&directory, &["--listen", "0", "--data-dir", "file"]);
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
}

#[test]
fn wrong_flags_are_exit_code_2() {
    let directory = Directory::new("flags");
    for flags in [
        &["--no-such-flag"][..],
        &["--listen", "nowhere"],
        &["--listen", "0.0.0.0:0"],
        &["--key", "not base64!"],
        &["--threads", "0"],
        &["--connections-max", "0"],
        &["--consistency", "Weak"],
        &["--store", "memory", "--log-level", "a=b=c"],
        &["--store", "memory", "--tls-san", "no host"],
        &["healthcheck", "--url", "ftp://localhost"],
    ] {
        let output = run(&directory, flags);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {}", text(&output.stderr));
        assert!(!output.stderr.is_empty());
    }
}

#[test]
fn help_and_version_are_printed() {
    let directory = Directory::new("help");
    let version = run(&directory, &["--version"]);
    assert_eq!(text(&version.stdout), format!("partita {}\n", env!("CARGO_PKG_VERSION")));
    let help = text(&run(&directory, &["--help"]).stdout);
    for flag in ["--listen", "PARTITA_DATA_DIR", "--secondary-readonly-key", "Exit codes:"] {
        assert!(help.contains(flag), "{flag} is not in {help}");
    }
}

//! Flags that change what the server answers, through the program.

use serde_json::Value;

use crate::process::{Directory, Process, run};
use crate::requests::Account;

const KEY: (&str, &str) = ("x-ms-documentdb-partitionkey", r#"["a"]"#);

/// A server in memory with these flags, and its account with the database `d`.
fn serving(name: &str, flags: &[&str]) -> (Directory, Process, Account) {
    let directory = Directory::new(name);
    let flags = [&["--store", "memory"], flags].concat();
    let server = Process::start(&directory, &flags);
    let account = Account::of(&server);
    account.create_database("d");
    (directory, server, account)
}

#[test]
fn strict_json_refuses_duplicate_names() {
    let twice = r#"{"id":"no","pk":"a","id":"1"}"#;
    let (_directory, _server, strict) = serving("strict", &["--strict-json"]);
    strict.create_container("d", "c", r#"["/pk"]"#, 400);
    let (status, text) = strict.post_item("d", "c", twice, &[KEY]);
    assert_eq!(status, 400, "{text}");
    assert!(text.contains("duplicate name 'id'"), "{text}");
    strict.create_item("d", "c", r#"{"id":"1","pk":"a"}"#, r#"["a"]"#);

    let (_directory, _server, lenient) = serving("lenient", &[]);
    lenient.create_container("d", "c", r#"["/pk"]"#, 400);
    let (status, text) = lenient.post_item("d", "c", twice, &[KEY]);
    assert_eq!(status, 201, "{text}");
    assert!(text.starts_with(r#"{"pk":"a","id":"1","#), "{text}");
}

#[test]
fn all_versions_are_kept_for_containers_that_do_not_say_so() {
    let all = [("a-im", "Full-Fidelity Feed"), ("if-none-match", "*"), KEY];
    let flags = ["--all-versions-retention", "60"];
    let (_directory, _server, kept) = serving("all-versions", &flags);
    kept.create_container("d", "c", r#"["/pk"]"#, 400);
    let (status, etag, text) = kept.changes("d", "c", &all);
    assert_eq!(status, 304, "{text}");
    kept.create_item("d", "c", r#"{"id":"1","pk":"a"}"#, r#"["a"]"#);
    let next = [all[0], ("if-none-match", etag.as_str()), KEY];
    let (status, _, text) = kept.changes("d", "c", &next);
    assert_eq!(status, 200, "{text}");
    let page: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(page["Documents"][0]["metadata"]["operationType"], "create", "{page}");

    let (_directory, _server, unkept) = serving("no-versions", &[]);
    unkept.create_container("d", "c", r#"["/pk"]"#, 400);
    let (status, _, text) = unkept.changes("d", "c", &all);
    assert_eq!(status, 400, "{text}");
    assert!(text.contains("must be enabled"), "{text}");
}

#[test]
fn throughput_that_nobody_asked_for_is_enforced_shown_or_none() {
    for (flags, offers, limits) in [
        (&["--default-throughput", "enforced"][..], 1, true),
        (&["--default-throughput", "shown"], 1, false),
        (&[], 1, false),
        (&["--default-throughput", "none"], 0, false),
    ] {
        let (_directory, _server, account) = serving("default-throughput", flags);
        account.create_container_without_throughput("d", "c", r#"["/pk"]"#);
        let told = account.offers();
        assert_eq!(told.len(), offers, "{flags:?}");
        assert!(told.iter().all(|offer| offer["content"]["offerThroughput"] == 400), "{told:?}");
        // Each costs more than the 400 RU of a second: a few use up all that was saved as well.
        let text = "x".repeat(1_000_000);
        let refused = (0..80).any(|n| {
            let item = format!(r#"{{"id":"{n}","pk":"a","text":"{text}"}}"#);
            account.post_item("d", "c", &item, &[KEY]).0 == 429
        });
        assert_eq!(refused, limits, "{flags:?}");
    }
}

/// Elsewhere in tests time stands still, and so do the times that are measured.
#[test]
fn what_takes_time_is_measured() {
    let (_directory, _server, account) = serving("measured", &[]);
    account.create_container("d", "c", r#"["/pk"]"#, 400);
    account.create_item("d", "c", r#"{"id":"1","pk":"a"}"#, KEY.1);
    // The second time it is compiled already.
    for _ in 0..2 {
        let metrics = account.query_metrics("d", "c", "SELECT * FROM c WHERE c.id > '0'", KEY.1);
        for name in ["totalExecutionTimeInMs", "queryCompileTimeInMs", "documentLoadTimeInMs"] {
            let (_, value) = metrics.iter().find(|(given, _)| given == name).unwrap();
            assert!(*value > 0.0, "{name} of {metrics:?}");
        }
    }
}

#[test]
fn what_a_flag_does_not_take_is_refused_by_name() {
    let directory = Directory::new("bad-settings");
    for (flag, value) in
        [("--default-throughput", "sometimes"), ("--all-versions-retention", "for ever")]
    {
        let output = run(&directory, &["--store", "memory", flag, value]);
        assert_eq!(output.status.code(), Some(2));
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.contains(flag) && told.contains(value), "{told}");
    }
}

/// What the allocator of a server was told.
#[cfg(target_os = "linux")]
fn allocator(name: &str, flags: &[&str]) -> Option<String> {
    let (_directory, server, account) = serving(name, flags);
    account.create_container("d", "c", r#"["/pk"]"#, 400);
    let environment = std::fs::read(format!("/proc/{}/environ", server.id())).unwrap();
    let texts = environment.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let mut told =
        texts.filter_map(|text| text.strip_prefix("MIMALLOC_PURGE_DELAY=").map(str::to_owned));
    told.next()
}

#[test]
#[cfg(target_os = "linux")]
fn a_server_with_little_memory_gives_back_what_is_freed() {
    assert_eq!(allocator("thrifty", &["--memory-mb", "180"]).as_deref(), Some("0"));
    assert_eq!(allocator("roomy", &["--memory-mb", "4096"]), None);
}

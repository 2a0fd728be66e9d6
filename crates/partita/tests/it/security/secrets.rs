//! Keys, signatures and tokens are in no log, no metric and no answer, whoever asks whatever in
//! whichever wrong way, with the log as talkative as it gets.

use std::collections::HashSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use partita_gateway::auth::{Key, Signed, string_to_sign};
use serde_json::Value;

use crate::process::{Directory, Process, run};

/// So many characters of a secret in a row are too many.
const TELLTALE: usize = 20;

const CONTAINER: &str = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash"}}"#;
const PERMISSION: &str = r#"{"id":"p","permissionMode":"All","resource":"dbs/d/colls/c"}"#;
const SCRIPT: &str = r#"{"id":"s","body":"function (a) { console.log(a); throw new Error(a); }"}"#;
const SELECT: &str = r#"{"query":"SELECT * FROM c WHERE c.x = @x","parameters":[{"name":"@x"}]}"#;
const BATCH: &str = r#"[{"operationType":"Create","resourceBody":{"id":"9","pk":"a"}}]"#;
const FAULT: &str = r#"{"status":503,"operation":"ReadItem","count":2}"#;

/// What is asked of the server: method, path, headers, body.
const REQUESTS: [(&str, &str, &str, &str); 26] = [
    ("GET", "/", "", ""),
    ("GET", "/dbs", "", ""),
    ("GET", "/dbs/d", "", ""),
    ("GET", "/dbs/d/colls/c", "x-ms-documentdb-populatequotainfo: true\r\n", ""),
    ("GET", "/dbs/d/colls/c/pkranges", "", ""),
    ("GET", "/dbs/d/colls/c/docs", "", ""),
    ("GET", "/dbs/d/colls/c/docs", "a-im: Incremental feed\r\n", ""),
    ("GET", "/dbs/d/colls/c/docs/1", "x-ms-documentdb-partitionkey: [\"a\"]\r\n", ""),
    ("POST", "/dbs/d/colls/c/docs", "x-ms-documentdb-partitionkey: [\"a\"]\r\n", "{\"id\":1"),
    ("POST", "/dbs/d/colls/c/docs", "content-type: application/query+json\r\n", SELECT),
    (
        "POST",
        "/dbs/d/colls/c/docs",
        "x-ms-cosmos-is-batch-request: true\r\nx-ms-cosmos-batch-atomic: true\r\n\
         x-ms-documentdb-partitionkey: [\"a\"]\r\n",
        BATCH,
    ),
    (
        "POST",
        "/dbs/d/colls/c/sprocs/s",
        "x-ms-documentdb-partitionkey: [\"a\"]\r\nx-ms-documentdb-script-enable-logging: true\r\n",
        "[\"x\"]",
    ),
    ("GET", "/dbs/d/colls/c/sprocs/s", "", ""),
    ("PUT", "/dbs/d/colls/c", "", CONTAINER),
    ("POST", "/dbs", "", "{\"id\":\"e\"}"),
    ("GET", "/dbs/d/users/u", "", ""),
    ("GET", "/dbs/d/users/u/permissions/p", "", ""),
    ("PUT", "/dbs/d/users/u/permissions/p", "", PERMISSION),
    ("GET", "/offers", "", ""),
    ("GET", "/_partita/databases/d/containers/c/partitions", "", ""),
    ("GET", "/_partita/databases/d/containers/c/queries", "", ""),
    ("POST", "/_partita/faults", "content-type: application/json\r\n", FAULT),
    ("GET", "/_partita/faults", "", ""),
    ("GET", "/_compat", "", ""),
    ("DELETE", "/dbs/nowhere", "", ""),
    ("GET", "/dbs/%zz", "", ""),
];

/// What must not be seen.
#[derive(Default)]
struct Secrets(Vec<String>);

impl Secrets {
    /// Keeps a secret, and how it looks in a URL.
    fn keep(&mut self, secret: &str) {
        assert!(secret.len() >= TELLTALE, "{secret:?} cannot be told from other text");
        self.0.push(secret.to_owned());
        self.0.push(escaped(secret));
    }

    /// A part of a secret that is in a text.
    fn found_in(&self, text: &str) -> Option<String> {
        let secrets = self.0.iter().flat_map(|secret| secret.as_bytes().windows(TELLTALE));
        let secrets: HashSet<&[u8]> = secrets.collect();
        let found = text.as_bytes().windows(TELLTALE).find(|part| secrets.contains(part));
        found.map(|part| String::from_utf8_lossy(part).into_owned())
    }
}

fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(escape).collect()
}

fn new_key(seed: u8) -> String {
    STANDARD.encode((0..64).map(|n: u8| n.wrapping_mul(97) ^ seed).collect::<Vec<u8>>())
}

/// An authorization that is right, and what is secret about it.
fn signed(key: &str, method: &str, path: &str, secrets: &mut Secrets) -> (String, String) {
    #[allow(clippy::disallowed_methods, reason = "the server compares it with its own clock")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let date = httpdate::fmt_http_date(UNIX_EPOCH + now);
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let (kind, link) = match parts.as_slice() {
        [""] => ("", String::new()),
        ["_partita", ..] => ("_partita", parts.join("/")),
        all if all.len() % 2 == 1 => (all[all.len() - 1], all[..all.len() - 1].join("/")),
        all => (all[all.len() - 2], all.join("/")),
    };
    let signed =
        Signed { verb: method, resource_type: kind, links: &[], date: &date, http_date: "" };
    let signature = Key::parse(key).unwrap().sign(string_to_sign(&signed, &link).as_bytes());
    secrets.keep(&signature);
    let header = format!("type=master&ver=1.0&sig={signature}");
    (header, format!("x-ms-date: {date}\r\n"))
}

/// Sends bytes and reads all that comes back.
fn exchange(server: &Process, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    String::from_utf8_lossy(&answer).into_owned()
}

fn ask(
    server: &Process,
    (method, path, headers, body): (&str, &str, &str, &str),
    authorization: &str,
    date: &str,
) -> String {
    let authorization = match authorization {
        "" => String::new(),
        some => format!("authorization: {some}\r\n"),
    };
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: t\r\nconnection: close\r\nx-ms-version: 2018-12-31\r\n\
         {date}{headers}{authorization}content-length: {length}\r\n\r\n{body}"
    );
    exchange(server, request.as_bytes())
}

/// Does something with the first key that must succeed.
fn make(server: &Process, key: &str, (path, body): (&str, &str), secrets: &mut Secrets) -> String {
    let (authorization, date) = signed(key, "POST", path, secrets);
    let partition_key = "x-ms-documentdb-partitionkey: [\"a\"]\r\n";
    let headers = if path.ends_with("/docs") { partition_key } else { "" };
    let answer = ask(server, ("POST", path, headers, body), &authorization, &date);
    assert!(answer.starts_with("HTTP/1.1 201"), "{path}: {answer}");
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// A resource token, and what is secret about it.
fn resource_token(server: &Process, key: &str, secrets: &mut Secrets) -> String {
    for (path, body) in [
        ("/dbs", r#"{"id":"d"}"#),
        ("/dbs/d/colls", CONTAINER),
        ("/dbs/d/colls/c/docs", r#"{"id":"1","pk":"a"}"#),
        ("/dbs/d/colls/c/sprocs", SCRIPT),
        ("/dbs/d/users", r#"{"id":"u"}"#),
    ] {
        make(server, key, (path, body), secrets);
    }
    let made = make(server, key, ("/dbs/d/users/u/permissions", PERMISSION), secrets);
    let made: Value = serde_json::from_str(&made).unwrap();
    made["_token"].as_str().unwrap().to_owned()
}

/// Notes a resource token's parts.
fn keep_token(token: &str, secrets: &mut Secrets) {
    let parts = token.strip_prefix("type=resource&ver=1&sig=").unwrap();
    for part in parts.split(';').filter(|part| !part.is_empty()) {
        secrets.keep(part);
    }
}

/// A token as programs make it for an emulator: its signature is the key itself.
fn emulator_token(key: &str, secrets: &mut Secrets) -> String {
    let header = r#"{"typ":"JWT","alg":"RS256","kid":"CosmosEmulatorPrimaryMaster"}"#;
    let claims = r#"{"oid":"o","nbf":0,"exp":4000000000}"#;
    let [header, claims, signature] = [header, claims, key].map(|p| URL_SAFE_NO_PAD.encode(p));
    secrets.keep(&signature);
    format!("type=aad&ver=1.0&sig={header}.{claims}.{signature}")
}

/// Credentials that are what they should be, or nearly so, or in a place where none belongs.
fn authorizations(keys: &[String], token: &str, bearer: &str) -> Vec<String> {
    let mut all = vec![String::new(), token.to_owned(), escaped(token), bearer.to_owned()];
    for whole in [token, bearer] {
        all.push(whole[..whole.len() - 6].to_owned());
        all.push(format!("{whole}AAAA"));
        all.push(whole.replacen("ver=1", "ver=9", 1));
    }
    for key in keys {
        all.extend([
            key.clone(),
            format!("Bearer {key}"),
            format!("SharedKey account:{key}"),
            format!("type={key}"),
            format!("type=master&ver={key}&sig=x"),
            format!("type=master&ver=1.0&sig={key}"),
            format!("type=resource&ver=1&sig={key};{key};"),
            format!("type=aad&ver=1.0&sig={key}.{key}.{key}"),
            format!("{key}={key}"),
        ]);
    }
    all
}

#[test]
fn no_key_signature_or_token_is_in_a_log_a_metric_or_an_answer() {
    let directory = Directory::new("secrets");
    let made = run(&directory, &["dev-token", "access.toml", "--principal", "alice"]);
    let jwt = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let keys = [1, 2, 3, 4].map(new_key);
    fs::write(directory.0.join("primary.key"), &keys[0]).unwrap();
    let arguments = [
        ["--store", "memory", "--log-level", "trace", "--access-file", "access.toml"].as_slice(),
        &["--test-controls", "--key-file", "primary.key", "--secondary-key", &keys[1]],
        &["--readonly-key", &keys[2], "--secondary-readonly-key", &keys[3]],
    ];
    let server = Process::start(&directory, &arguments.concat());
    let mut secrets = Secrets::default();
    keys.iter().for_each(|key| secrets.keep(key));
    jwt.split('.').skip(1).for_each(|part| secrets.keep(part));
    let token = resource_token(&server, &keys[0], &mut secrets);

    let mut told = server.ready.to_string();
    for request in REQUESTS {
        for key in &keys {
            let (authorization, date) = signed(key, request.0, request.1, &mut secrets);
            told += &hidden_tokens(&ask(&server, request, &authorization, &date));
            // The same signature with another date, and for another path.
            let late = "x-ms-date: Thu, 27 Apr 2017 00:51:12 GMT\r\n";
            told += &ask(&server, request, &authorization, late);
            told += &ask(&server, ("GET", "/dbs/other", "", ""), &escaped(&authorization), &date);
        }
        let bearer = format!("type=aad&ver=1.0&sig={jwt}");
        let emulators: Vec<String> =
            keys.iter().map(|key| emulator_token(key, &mut secrets)).collect();
        for authorization in authorizations(&keys, &token, &bearer).iter().chain(&emulators) {
            told += &hidden_tokens(&ask(&server, request, authorization, ""));
        }
    }
    for path in ["/metrics", "/status", "/alive", "/ready", "/_explorer/emulator.pem"] {
        told += &server.get(path).1;
    }
    // What is no HTTP at all.
    told += &exchange(&server, format!("{}\r\n\r\n", keys[0]).as_bytes());
    told += &exchange(&server, &[&[0x16, 3, 1, 0, 88][..], keys[0].as_bytes()].concat());
    fs::write(directory.0.join("primary.key"), format!("{}!", keys[0])).unwrap();
    server.signal("HUP");
    let (authorization, date) = signed(&keys[0], "GET", "/dbs", &mut secrets);
    told += &ask(&server, ("GET", "/dbs", "", ""), &authorization, &date);
    server.signal("TERM");
    let (_, output, log) = server.end();
    keep_token(&token, &mut secrets);
    assert!(log.contains(r#""target":"audit""#) && log.contains(r#""status":401"#), "{log}");
    assert!(log.contains("stay as they were"), "the broken key file was read");
    for (place, text) in [("an answer", &told), ("standard output", &output), ("the log", &log)] {
        assert_eq!(secrets.found_in(text), None, "in {place}");
    }
}

/// An answer without the tokens that it hands out on purpose, to those who may have them.
fn hidden_tokens(answer: &str) -> String {
    match answer.split_once(r#""_token":""#) {
        Some((before, rest)) => before.to_owned() + rest.split_once('"').unwrap().1,
        None => answer.to_owned(),
    }
}

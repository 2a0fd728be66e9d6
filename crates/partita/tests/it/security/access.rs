//! Keys that change without a pause, tokens for trying roles, and what the audit log says.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use crate::process::{Directory, Process, eventually, run};
use crate::requests::Account;

#[test]
fn keys_are_rotated_while_the_server_runs() {
    let directory = Directory::new("rotate");
    let files = ["--key-file", "primary.key", "--secondary-key-file", "secondary.key"];
    let rotate = || {
        let done = run(&directory, &[&["keys", "rotate"], &files[..]].concat());
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        fs::read_to_string(directory.0.join("primary.key")).unwrap()
    };
    let first = rotate();
    let first_alone = fs::read_to_string(directory.0.join("secondary.key"));
    assert!(first_alone.is_err(), "there was nothing to keep");
    fs::write(directory.0.join("secondary.key"), &first).unwrap();
    let server = Process::start(&directory, &[&["--store", "memory"], &files[..]].concat());
    assert_eq!(Account::with_key(&server, &first).try_database("a"), 201);
    let second = rotate();
    assert_ne!(first, second);
    assert_eq!(Account::with_key(&server, &second).try_database("b"), 401, "not told yet");
    server.signal("HUP");
    eventually(201, || Account::with_key(&server, &second).try_database("b"));
    assert_eq!(Account::with_key(&server, &first).try_database("b"), 409, "it is secondary now");
    let third = rotate();
    server.signal("HUP");
    eventually(409, || Account::with_key(&server, &third).try_database("b"));
    assert_eq!(Account::with_key(&server, &first).try_database("b"), 401, "it ended");
    fs::write(directory.0.join("primary.key"), "nonsense").unwrap();
    server.signal("HUP");
    sleep(Duration::from_millis(100));
    assert_eq!(Account::with_key(&server, &third).try_database("b"), 409, "it stays as it was");
    server.signal("TERM");
    let log = server.end().2;
    assert!(log.contains("stay as they were"), "{log}");
    let audit: Vec<&str> =
        log.lines().filter(|line| line.contains(r#""target":"audit""#)).collect();
    assert!(audit.iter().any(|line| line.contains("CreateDatabase")), "{log}");
    assert!(audit.iter().any(|line| line.contains(r#""status":401"#)), "{log}");
    for secret in [&first, &second, &third] {
        assert!(!log.contains(secret.as_str()), "a key is in the log");
    }
    assert!(!log.contains("sig="), "a signature is in the log");
}

#[test]
fn roles_can_be_tried_with_two_commands() {
    let directory = Directory::new("dev-token");
    let token = |principal: &str| {
        let made = run(&directory, &["dev-token", "access.toml", "--principal", principal]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        String::from_utf8(made.stdout).unwrap().trim().to_owned()
    };
    let alice = token("alice");
    let server = Process::start(&directory, &["--store", "memory", "--access-file", "access.toml"]);
    let get = |path: &str, token: &str| {
        let url = format!("http://{}{path}", server.address());
        let agent: ureq::Agent =
            ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let asked = agent.get(&url).header("x-ms-version", "2020-07-15");
        let asked =
            asked.header("authorization", format!("type%3Daad%26ver%3D1.0%26sig%3D{token}"));
        asked.call().unwrap().status().as_u16()
    };
    assert_eq!((get("/", &alice), get("/dbs", &alice)), (200, 200));
    assert_eq!(get("/offers", &alice), 403);
    assert_eq!(get("/dbs", &token("bob")), 403, "bob has no role");
    let changed = alice.replace('.', ".A");
    assert_eq!(get("/dbs", &changed), 401);
    let access = directory.0.join("access.toml");
    let text = fs::read_to_string(&access).unwrap().replace("\"alice\"", "\"bob\"");
    fs::write(&access, text).unwrap();
    server.signal("HUP");
    eventually(200, || get("/dbs", &token("bob")));
    assert_eq!(get("/dbs", &alice), 403);
}

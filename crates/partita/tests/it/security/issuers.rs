//! Keys of identity providers that are fetched: over TLS, from whom the file trusts, and again when
//! they change.

use std::fs;

use partita_gateway::auth::{OwnIssuer, TokenClaims};

use crate::https::Https;
use crate::process::{Directory, Process, eventually};

/// What the URL of the keys has, and no log.
const SECRET: &str = "an-api-key-in-a-url";

struct Provider {
    https: Https,
    signs: OwnIssuer,
}

impl Provider {
    fn start() -> Provider {
        let provider = Provider { https: Https::start(), signs: new_issuer() };
        provider.publish();
        provider
    }

    fn publish(&self) {
        self.https.answer("200 OK", &self.signs.jwks());
    }

    /// An access file that trusts it and gives alice a role.
    fn trusted(&self, directory: &Directory, host: &str, more: &str) {
        fs::write(directory.0.join("ca.pem"), &self.https.authority).unwrap();
        let url = format!("https://{host}:{}/keys?code={SECRET}", self.https.port);
        let text = format!(
            "[[issuer]]\nissuer = 'own'\naudience = ['here']\njwks_url = '{url}'\n{more}\n\
             [[role_assignment]]\nprincipal_id = 'alice'\n\
             role_definition = 'Cosmos DB Built-in Data Reader'\n"
        );
        fs::write(directory.0.join("access.toml"), text).unwrap();
    }

    fn token(&self) -> String {
        let token = self.signs.token(&TokenClaims {
            issuer: "own",
            audience: "here",
            principal: "alice",
            issued_unix_seconds: 0,
            ends_unix_seconds: 4_000_000_000,
        });
        token.unwrap()
    }
}

fn new_issuer() -> OwnIssuer {
    OwnIssuer::of_pkcs8(&OwnIssuer::generate().unwrap()).unwrap()
}

fn start(directory: &Directory) -> Process {
    let arguments = ["--store", "memory", "--access-file", "access.toml", "--test-controls"];
    Process::start(directory, &arguments)
}

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder().http_status_as_error(false).build().into()
}

/// Status and text of a request with a token.
fn ask(server: &Process, token: &str) -> (u16, String) {
    let url = format!("http://{}/dbs", server.address());
    let asked = agent().get(&url).header("x-ms-version", "2020-07-15");
    let asked = asked.header("authorization", format!("type%3Daad%26ver%3D1.0%26sig%3D{token}"));
    let mut answer = asked.call().unwrap();
    (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
}

/// Longer than the server leaves an issuer alone.
fn let_time_pass(server: &Process) {
    let url = format!("http://{}/_partita/clock", server.address());
    let asked = agent().post(&url).header("content-type", "application/json");
    assert_eq!(asked.send(r#"{"advance_seconds":60}"#).unwrap().status().as_u16(), 200);
}

fn log(server: Process) -> String {
    server.signal("TERM");
    let log = server.end().2;
    assert!(!log.contains(SECRET), "the whole URL is in the log: {log}");
    log
}

#[test]
fn keys_are_fetched_over_https_and_again_when_a_new_one_signs() {
    let directory = Directory::new("issuer-https");
    let mut provider = Provider::start();
    provider.trusted(&directory, "localhost", "jwks_ca_file = 'ca.pem'");
    let server = start(&directory);
    let first = provider.token();
    assert_eq!(ask(&server, &first).0, 200);
    assert_eq!(provider.https.asked().len(), 1, "the start and the request share one fetch");
    provider.signs = new_issuer();
    let second = provider.token();
    let_time_pass(&server);
    assert_eq!(ask(&server, &second).0, 401, "it signs before it publishes");
    assert_eq!(ask(&server, &first).0, 200);
    provider.publish();
    let_time_pass(&server);
    assert_eq!(ask(&server, &second).0, 200, "asked for again without being told to");
    assert_eq!(ask(&server, &first).0, 401, "that key was taken back");
    // An issuer that is down takes nothing away.
    provider.https.answer("503 Service Unavailable", "");
    let_time_pass(&server);
    provider.signs = new_issuer();
    assert_eq!(ask(&server, &provider.token()).0, 401);
    assert_eq!(ask(&server, &second).0, 200);
    server.signal("HUP");
    assert_eq!(ask(&server, &second).0, 200);
    let log = log(server);
    let warning = "the keys of the issuer 'own' cannot be fetched: https://localhost:";
    assert!(log.contains(warning) && log.contains("it answers 503"), "{log}");
}

#[test]
fn who_is_not_trusted_is_not_believed_and_the_log_says_what_to_do() {
    let directory = Directory::new("issuer-stranger");
    let provider = Provider::start();
    provider.trusted(&directory, "localhost", "");
    let server = start(&directory);
    let (status, text) = ask(&server, &provider.token());
    assert_eq!(status, 401, "{text}");
    assert!(text.contains("keys are not here yet"), "{text}");
    assert!(provider.https.asked().is_empty(), "nothing was sent to a stranger");
    // A certificate for somebody else.
    provider.trusted(&directory, "127.0.0.1", "jwks_ca_file = 'ca.pem'");
    server.signal("HUP");
    let_time_pass(&server);
    assert_eq!(ask(&server, &provider.token()).0, 401);
    provider.trusted(&directory, "localhost", "jwks_ca_file = 'ca.pem'");
    server.signal("HUP");
    eventually(200, || ask(&server, &provider.token()).0);
    let log = log(server);
    assert!(log.contains("signed by an authority that is not trusted here"), "{log}");
    assert!(log.contains("with jwks_ca_file"), "{log}");
}

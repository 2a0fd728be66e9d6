//! A fixed number of operations in this process, for tools that count what they take.
//!
//! Seconds depend on the machine and on who else uses it; instructions hardly do. `count` makes a
//! door over a store in memory, fills it, and lets signed requests in, one after the other on one
//! thread, without a socket. Run under `valgrind --tool=cachegrind` with two numbers of operations,
//! the difference is what the operations took: see `tests/it/instructions.rs`, which guards them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use partita_engine::{Database, EngineSettings, ThroughputMode, block_on};
use partita_executor::{Credentials, Executor, ExecutorSettings, Trust};
use partita_gateway::auth::{Key, Keys};
use partita_gateway::{Door, Head, Pool, Request, Scheme, Shutdown, Telemetry};
use partita_model::{Clock, Consistency, Entropy, FixedClock, SeededEntropy};
use partita_nosql::{NoSqlDoor, NoSqlSettings};
use partita_storage::{MemoryStore, Store};

use crate::client::{JSON, KEY, Template};
use crate::data;
use crate::questions::QUESTIONS;
use crate::random::Random;
use crate::system::rest::QUERY;

/// What is counted.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Counted {
    /// Point reads.
    Read,
    /// Creates with all properties indexed.
    Create,
    /// An indexed question with one document as its answer.
    Query,
}

const DOCUMENTS: u64 = 100;
/// Throughput that gives the container five partitions.
const THROUGHPUT: &str = "x-ms-offer-throughput: 30000\r\n";
const CONTAINER: &str = "dbs/bench/colls/c";

pub(crate) fn run(what: Counted, operations: u64) -> Result<()> {
    let door = door(Arc::new(MemoryStore::new()))?;
    make_container(&door)?;
    (0..DOCUMENTS).try_for_each(|n| create(&door, &data::document(n)))?;
    let mut random = Random::new(1);
    for n in 0..operations {
        match what {
            Counted::Read => {
                let document = data::document(random.below(DOCUMENTS));
                let link = format!("{CONTAINER}/docs/{}", document.id);
                let read = Template::new("GET", &format!("/{link}"), "docs", &link, "")?;
                send(&door, &read.bytes_for_key(&document.key, ""))?;
            }
            Counted::Create => create(&door, &data::fresh(n))?,
            Counted::Query => query(&door, n)?,
        }
    }
    Ok(())
}

/// A door as the server has it, but for time, which stands still.
pub(crate) fn door(store: Arc<dyn Store>) -> Result<NoSqlDoor> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    let clock: Arc<dyn Clock> = Arc::new(FixedClock::new(u64::try_from(now)?));
    let entropy: Arc<dyn Entropy> = Arc::new(SeededEntropy::new(7));
    let settings = EngineSettings { throughput: ThroughputMode::Off, ..EngineSettings::default() };
    let database = Database::open(store, Arc::clone(&clock), Arc::clone(&entropy), settings)
        .map_err(anyhow::Error::msg)?;
    let key = Key::parse(KEY).map_err(anyhow::Error::msg)?;
    let trust = Trust::of_keys(Keys { primary: Some(key), ..Keys::default() });
    let executor = Executor::new(ExecutorSettings {
        database,
        pool: Pool::new(1, 16)?,
        telemetry: Arc::new(Telemetry::new("count")),
        clock,
        entropy,
        credentials: Arc::new(Credentials::new(trust)),
        clock_skew_seconds: 900,
        controls: None,
        shutdown: Shutdown::new(),
    });
    let default_consistency = Consistency::Session;
    let settings = NoSqlSettings { default_consistency, strict_json: false, public_endpoint: None };
    Ok(NoSqlDoor::new(Arc::new(executor), settings))
}

/// A database with a container of five partitions.
pub(crate) fn make_container(door: &NoSqlDoor) -> Result<()> {
    let database = Template::new("POST", "/dbs", "dbs", "", JSON)?;
    send(door, &database.bytes(r#"{"id":"bench"}"#))?;
    let headers = format!("{JSON}{THROUGHPUT}");
    let container = Template::new("POST", "/dbs/bench/colls", "colls", "dbs/bench", &headers)?;
    let body = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
    send(door, &container.bytes(body))
}

pub(crate) fn create(door: &NoSqlDoor, document: &data::Document) -> Result<()> {
    let path = format!("/{CONTAINER}/docs");
    let create = Template::new("POST", &path, "docs", CONTAINER, JSON)?;
    send(door, &create.bytes_for_key(&document.key, &document.text))
}

fn query(door: &NoSqlDoor, n: u64) -> Result<()> {
    let [_, _, equality, ..] = &QUESTIONS;
    let path = format!("/{CONTAINER}/docs");
    let ask = Template::new("POST", &path, "docs", CONTAINER, QUERY)?;
    let text = equality.asked(n).ours.replace('"', "\\\"");
    send(door, &ask.bytes(&format!(r#"{{"query":"{text}"}}"#)))
}

/// Hands the bytes of a request to the door as the gateway does, and wants a success.
fn send(door: &NoSqlDoor, bytes: &[u8]) -> Result<()> {
    let text = std::str::from_utf8(bytes)?;
    let (head, body) = text.split_once("\r\n\r\n").context("no end of the headers")?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next().context("no request line")?.split(' ');
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(": ").context("a header without a colon")?;
        headers.append(HeaderName::try_from(name)?, HeaderValue::try_from(value)?);
    }
    let address = SocketAddr::from(([127, 0, 0, 1], 8081));
    let request = Request {
        method: Method::try_from(words.next().context("no verb")?)?,
        head: Head::new(&words.next().context("no path")?.parse()?, &headers),
        body: Bytes::copy_from_slice(body.as_bytes()),
        scheme: Scheme::Http,
        received: Instant::now(),
        local: address,
        peer: address,
    };
    let response = block_on(door.handle(request).response());
    let status = response.status;
    ensure!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&response.body));
    Ok(())
}

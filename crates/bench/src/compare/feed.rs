//! The change feed's tail: how long after a write begins does somebody who follows see it?
//!
//! One client creates documents, one after the other; another asks for changes again and again.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use partita_model::Value;

use super::peers::Peer;
use super::results::{Better, PARTITA, Results, Row, Sample};
use super::workload::WRITTEN;
use super::{CompareOptions, note};
use crate::client::{Connection, Template, percentiles};
use crate::data;
use crate::system::{Action, Host};

/// When the writing of a document began, by its id.
type Begun = Arc<Mutex<HashMap<String, Instant>>>;

pub(super) async fn run(
    options: &CompareOptions,
    partita: &Peer,
    scratch: &Path,
    results: &mut Results,
) -> Result<()> {
    note("change feed tail");
    let system = partita.start(&scratch.join("feed")).await?;
    let Host::Rest(server) = &system.host else { bail!("Partita speaks HTTP") };
    system.make_database().await?;
    system.make_space(WRITTEN).await?;
    let (space, mut session) = (system.space(WRITTEN).await?, system.session().await?);
    let mut row = Row::new("change feed tail, write to seen", "ms", Better::Lower);
    let mut number = 0;
    for _ in 0..options.rounds() {
        let begun = Begun::default();
        let stop = Arc::new(AtomicBool::new(false));
        let mut reader = Reader::from_now(server.address).await?;
        let follower = {
            let (begun, stop) = (Arc::clone(&begun), Arc::clone(&stop));
            tokio::spawn(async move { reader.follow(&begun, &stop).await })
        };
        let until = Instant::now() + options.length();
        while Instant::now() < until {
            let document = data::fresh(number);
            number += 1;
            let id = document.id.clone();
            let prepared = space.prepare(&Action::Create(document))?;
            begun.lock().unwrap_or_else(PoisonError::into_inner).insert(id, Instant::now());
            session.perform(&prepared).await?;
        }
        stop.store(true, Ordering::Relaxed);
        let mut latencies = follower.await??;
        let missed = begun.lock().unwrap_or_else(PoisonError::into_inner).len();
        ensure!(missed == 0, "{missed} documents were never seen in the change feed");
        let operations = latencies.len() as u64;
        let latencies_ms = percentiles(&mut latencies).context("nothing was written")?;
        row.add(
            PARTITA,
            Sample { operations, latencies_ms: Some(latencies_ms), ..Sample::of(latencies_ms[0]) },
        );
    }
    results.rows.push(row);
    Ok(())
}

/// One who follows the feed of all partitions.
struct Reader {
    connection: Connection,
    template: Template,
    etag: String,
}

impl Reader {
    async fn from_now(address: SocketAddr) -> Result<Reader> {
        let link = format!("dbs/bench/colls/{WRITTEN}");
        let headers = "a-im: Incremental feed\r\nx-ms-max-item-count: -1\r\n";
        let template = Template::new("GET", &format!("/{link}/docs"), "docs", &link, headers)?;
        let connection = Connection::open(address).await?;
        let mut reader = Reader { connection, template, etag: "*".to_owned() };
        reader.changes().await?;
        Ok(reader)
    }

    /// The ids of what has changed since it was asked last.
    async fn changes(&mut self) -> Result<Vec<String>> {
        let request = self.template.with_header("if-none-match", &self.etag).bytes("");
        let answer = self.connection.call(&request).await?;
        if let Some(etag) = answer.header("etag") {
            self.etag = etag.to_owned();
        }
        match answer.status() {
            "304" => Ok(Vec::new()),
            "200" => ids(&answer.body()),
            status => bail!("{status} {}", String::from_utf8_lossy(&answer.body())),
        }
    }

    /// Follows until nothing more is written and all of it was seen.
    async fn follow(&mut self, begun: &Begun, stop: &AtomicBool) -> Result<Vec<f64>> {
        let mut latencies = Vec::new();
        loop {
            let is_last = stop.load(Ordering::Relaxed);
            let changed = self.changes().await?;
            let now = Instant::now();
            let mut begun = begun.lock().unwrap_or_else(PoisonError::into_inner);
            let times = changed.iter().filter_map(|id| begun.remove(id));
            latencies.extend(times.map(|time| (now - time).as_secs_f64() * 1e3));
            if is_last && changed.is_empty() {
                return Ok(latencies);
            }
        }
    }
}

fn ids(body: &[u8]) -> Result<Vec<String>> {
    let value = Value::parse(body).map_err(anyhow::Error::msg)?;
    let documents = value.get("Documents").and_then(|documents| documents.as_array());
    let id = |document: &Value| document.get("id").and_then(|id| id.as_str()).map(str::to_owned);
    documents.and_then(|documents| documents.iter().map(id).collect()).context("no documents")
}

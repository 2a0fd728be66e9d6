//! Point reads of others beside scripts that mean harm: each script ends by itself with an error of
//! its own, and the readers should not notice.
//!
//! Everybody pauses between two requests: what is asked is how long a read takes on a server that
//! has room for it, and what scripts do to that, not how a full machine is shared. Rounds with and
//! without the scripts alternate.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::client::{Connection, JSON, Template, make_container, percentiles};
use crate::read::{ITEMS, fill, read_request, scratch};
use crate::server::Server;
use crate::{Options, median};

const CONTAINER: &str = "dbs/bench/colls/c";
const THROUGHPUT: u32 = 30_000;
const PAUSE: Duration = Duration::from_millis(16);

/// Each runs again and again, on a connection of its own.
const SCRIPTS: [(&str, &str); 7] = [
    ("infinite loop", "function () { while (true) {} }"),
    ("allocation bomb", "function () { var all = []; while (true) all.push(new Array(9999)); }"),
    ("deep recursion", "function () { function down() { return down() + 1; } down(); }"),
    ("regex bomb", "function () { /^(a+)+$/.test('a'.repeat(40) + 'b'); }"),
    (
        "prototype tampering",
        "function () { Object.prototype.id = 'x'; Array.prototype.push = null; \
         JSON.stringify = function () { while (true) {} }; \
         __.response.setBody({ left: [1, 2] }); }",
    ),
    ("huge logs", "function () { while (true) console.log('x'.repeat(10000)); }"),
    (
        "nested queries",
        "function () { function next(left) { \
             if (left === 0) return; \
             __.queryDocuments(__.getSelfLink(), 'SELECT * FROM c', function (error) { \
                 if (error) throw error; \
                 next(left - 1); \
             }); } \
         next(10000); }",
    ),
];

pub(crate) async fn run(options: &Options) -> Result<()> {
    let scratch = scratch(options.data_dir.as_deref(), "hostile")?;
    let server = Server::partita(&options.binary, &scratch.join("data"))?;
    make_container(server.address, THROUGHPUT).await?;
    fill(&server).await?;
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for round in 0..options.rounds {
        alone.push(reads("alone", server.address, options).await?);
        let stop = Arc::new(AtomicBool::new(false));
        let running: Vec<_> = (0..SCRIPTS.len())
            .map(|script| tokio::spawn(harm(server.address, script, round, Arc::clone(&stop))))
            .collect();
        beside.push(reads("beside hostile scripts", server.address, options).await?);
        stop.store(true, Ordering::Relaxed);
        for script in running {
            script.await??;
        }
    }
    println!(
        r#"{{"bench":"hostile","p99_ratio":{:.3},"server_mb":{:.0}}}"#,
        median(beside) / median(alone),
        server.memory_mb()?
    );
    drop(server);
    std::fs::remove_dir_all(&scratch)?;
    Ok(())
}

/// The p99 of point reads, in milliseconds.
async fn reads(side: &str, address: SocketAddr, options: &Options) -> Result<f64> {
    let end = Instant::now() + options.length();
    let readers: Vec<_> = (0..options.connections)
        .map(|number| tokio::spawn(read_until(address, number, end)))
        .collect();
    let mut latencies = Vec::new();
    for reader in readers {
        latencies.extend(reader.await??);
    }
    let count = latencies.len();
    let [p50, _, p99, p999, most] =
        percentiles(&mut latencies).ok_or_else(|| anyhow::anyhow!("nothing was read"))?;
    println!(
        r#"{{"bench":"hostile","side":"{side}","reads":{count},"p50_ms":{p50:.3},"p99_ms":{p99:.3},"p999_ms":{p999:.3},"max_ms":{most:.3}}}"#
    );
    Ok(p99)
}

async fn read_until(address: SocketAddr, number: usize, end: Instant) -> Result<Vec<f64>> {
    let mut connection = Connection::open(address).await?;
    let mut latencies = Vec::new();
    for n in number.. {
        if Instant::now() >= end {
            break;
        }
        let request = read_request(n * 7_919 % ITEMS)?;
        let sent = Instant::now();
        connection.must(&request).await?;
        latencies.push(sent.elapsed().as_secs_f64() * 1e3);
        tokio::time::sleep(PAUSE).await;
    }
    Ok(latencies)
}

/// Runs one of the scripts until told to stop; says how its first run ended.
async fn harm(
    address: SocketAddr,
    script: usize,
    round: usize,
    stop: Arc<AtomicBool>,
) -> Result<()> {
    let (name, text) = SCRIPTS[script];
    let mut connection = Connection::open(address).await?;
    let store = Template::new("POST", &format!("/{CONTAINER}/sprocs"), "sprocs", CONTAINER, JSON)?;
    let id = format!("s{round}-{script}");
    let body = format!(r#"{{"id":"{id}","body":"{text}"}}"#);
    connection.must(&store.bytes(&body)).await?;
    let link = format!("{CONTAINER}/sprocs/{id}");
    let execute = Template::new("POST", &format!("/{link}"), "sprocs", &link, JSON)?
        .with_header("x-ms-documentdb-script-enable-logging", "true");
    let key = format!("item{script:04}");
    let mut first = true;
    while !stop.load(Ordering::Relaxed) {
        let sent = Instant::now();
        let answer = connection.call(&execute.bytes_for_key(&key, "[]")).await?;
        if std::mem::take(&mut first) {
            let told = String::from_utf8_lossy(answer.bytes);
            let status = told.split(' ').nth(1).unwrap_or_default();
            let seconds = sent.elapsed().as_secs_f64();
            println!(
                r#"{{"bench":"hostile","script":"{name}","status":{status},"seconds":{seconds:.3}}}"#
            );
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

//! Many containers, a restart with all of them, and what the server costs when nobody uses it.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::Options;
use crate::client::{Connection, Template};
use crate::read::scratch;
use crate::server::Server;

const CONTAINERS: usize = 1_000;
/// Four partitions each.
const THROUGHPUT: u32 = 24_000;

pub(crate) async fn run(options: &Options) -> Result<()> {
    let scratch = scratch(options.data_dir.as_deref(), "containers")?;
    let data = scratch.join("data");
    let started = Instant::now();
    let empty = Server::partita(&options.binary, &data)?;
    println!(r#"{{"bench":"start","empty_ms":{:.1}}}"#, millis(started));
    idle("empty", &empty, options.length()).await?;
    let started = Instant::now();
    create_all(&empty).await?;
    println!(
        r#"{{"bench":"containers","count":{CONTAINERS},"partitions":{},"seconds":{:.2}}}"#,
        CONTAINERS * 4,
        started.elapsed().as_secs_f64()
    );
    drop(empty);
    let started = Instant::now();
    let full = Server::partita(&options.binary, &data)?;
    println!(r#"{{"bench":"start","full_ms":{:.1}}}"#, millis(started));
    idle("full", &full, options.length()).await?;
    drop(full);
    std::fs::remove_dir_all(&scratch)?;
    Ok(())
}

async fn create_all(server: &Server) -> Result<()> {
    let mut connection = Connection::open(server.address).await?;
    let json = "content-type: application/json\r\n";
    let database = Template::new("POST", "/dbs", "dbs", "", json)?;
    connection.must(&database.bytes(r#"{"id":"many"}"#)).await?;
    let headers = format!("{json}x-ms-offer-throughput: {THROUGHPUT}\r\n");
    let container = Template::new("POST", "/dbs/many/colls", "colls", "dbs/many", &headers)?;
    for n in 0..CONTAINERS {
        let body = format!(
            r#"{{"id":"c{n}","partitionKey":{{"paths":["/pk"],"kind":"Hash","version":2}}}}"#
        );
        connection.must(&container.bytes(&body)).await?;
    }
    Ok(())
}

/// Memory and processor use while nothing happens.
async fn idle(which: &str, server: &Server, length: Duration) -> Result<()> {
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = server.cpu_seconds()?;
    tokio::time::sleep(length).await;
    let percent = (server.cpu_seconds()? - before) / length.as_secs_f64() * 100.0;
    println!(
        r#"{{"bench":"idle","store":"{which}","cpu_percent":{percent:.2},"memory_mb":{:.1}}}"#,
        server.memory_mb()?
    );
    Ok(())
}

fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

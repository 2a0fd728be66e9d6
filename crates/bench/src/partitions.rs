//! The same data in few and in many partitions: reads and writes should not care.
//!
//! Each number of partitions has a server and a container of its own, and all are measured in
//! turns. Throughput is not enforced, as one partition has less of it than many.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use crate::client::{
    Connection, JSON, MakeRequest, Rate, Template, document, load, make_container,
};
use crate::read::{ITEMS, fill, read_request, scratch};
use crate::server::Server;
use crate::{Options, median};

/// How many partitions.
const PARTITIONS: [u32; 5] = [1, 4, 16, 64, 256];

/// Request units per second for which a new container gets one more partition.
const RU_PER_PARTITION: u32 = 6_000;

/// No more partitions come with a container's creation; further ones are made by splitting.
const CREATED_MAX: u32 = 128;

/// How often, and between what times, it is looked whether splitting is done.
const WAITS_MAX: usize = 6_000;
const WAIT: Duration = Duration::from_millis(20);

/// A number of partitions, and what was measured of it: the server's answers per second, and its
/// processor time for each.
pub(crate) struct Side {
    pub(crate) partitions: u32,
    server: Server,
    pub(crate) reads: Vec<Measured>,
    pub(crate) writes: Vec<Measured>,
}

pub(crate) struct Measured {
    pub(crate) rate: Rate,
    pub(crate) cpu_us: f64,
}

pub(crate) async fn run(options: &Options) -> Result<()> {
    let sides = measure_all(options).await?;
    for side in &sides {
        side.reads.iter().for_each(|measured| tell(side, "reads", measured));
        side.writes.iter().for_each(|measured| tell(side, "writes", measured));
    }
    let rates = |part: fn(&Side) -> &Vec<Measured>| -> Vec<f64> {
        let rate = |side: &Side| {
            median(part(side).iter().map(|measured| measured.rate.per_second).collect())
        };
        sides.iter().map(rate).collect()
    };
    for (what, rates) in
        [("reads", rates(|side| &side.reads)), ("writes", rates(|side| &side.writes))]
    {
        let most = rates.iter().copied().fold(0.0, f64::max);
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let flat = least / most;
        println!(r#"{{"bench":"partitions","what":"{what}","least_to_most":{flat:.3}}}"#);
    }
    Ok(())
}

fn tell(side: &Side, what: &str, measured: &Measured) {
    let Measured { rate, cpu_us } = measured;
    println!(
        r#"{{"bench":"partitions","partitions":{},"what":"{what}","per_second":{:.0},"p50_ms":{:.3},"p99_ms":{:.3},"server_cpu_us":{cpu_us:.1}}}"#,
        side.partitions, rate.per_second, rate.p50_ms, rate.p99_ms
    );
}

/// Fills a server for each number of partitions, and measures all in turns.
pub(crate) async fn measure_all(options: &Options) -> Result<Vec<Side>> {
    let scratch = scratch(options.data_dir.as_deref(), "partitions")?;
    let mut sides = Vec::new();
    for partitions in PARTITIONS {
        let data = scratch.join(format!("data{partitions}"));
        let server = Server::partita(&options.binary, &data)?;
        let created = partitions.min(CREATED_MAX);
        make_container(server.address, created * RU_PER_PARTITION).await?;
        if created < partitions {
            split_all(&server, created).await?;
        }
        fill(&server).await?;
        sides.push(Side { partitions, server, reads: Vec::new(), writes: Vec::new() });
    }
    let (reads, writes) = (read_requests()?, write_requests()?);
    for _ in 0..options.rounds {
        for side in &mut sides {
            let read = measure(side, options, &reads).await?;
            side.reads.push(read);
            let write = measure(side, options, &writes).await?;
            side.writes.push(write);
        }
    }
    std::fs::remove_dir_all(&scratch)?;
    Ok(sides)
}

/// Splits every partition in two, and waits until it is done.
async fn split_all(server: &Server, count: u32) -> Result<()> {
    for id in 0..count {
        split(server, "c", id, "midpoint").await?;
    }
    wait_for_partitions(server, "c", count * 2).await
}

/// Tells the server to split a partition.
pub(crate) async fn split(server: &Server, container: &str, id: u32, mode: &str) -> Result<()> {
    let link = format!("_partita/databases/bench/containers/{container}/partitions/{id}/split");
    let split = Template::new("POST", &format!("/{link}"), "_partita", &link, JSON)?;
    let body = format!(r#"{{"mode":"{mode}"}}"#);
    Connection::open(server.address).await?.must(&split.bytes(&body)).await?;
    Ok(())
}

/// Waits until a container has so many.
pub(crate) async fn wait_for_partitions(
    server: &Server,
    container: &str,
    count: u32,
) -> Result<()> {
    let mut connection = Connection::open(server.address).await?;
    let path = format!("dbs/bench/colls/{container}");
    let ranges = Template::new("GET", &format!("/{path}/pkranges"), "pkranges", &path, "")?;
    let all = format!(r#""_count":{count}"#);
    for _ in 0..WAITS_MAX {
        let answer = connection.must(&ranges.bytes("")).await?;
        if String::from_utf8_lossy(&answer).contains(&all) {
            return Ok(());
        }
        tokio::time::sleep(WAIT).await;
    }
    anyhow::bail!("the partitions were not split in time")
}

async fn measure(side: &Side, options: &Options, requests: &MakeRequest) -> Result<Measured> {
    let server = &side.server;
    let before = server.cpu_seconds()?;
    let rate =
        load(server.address, options.connections, options.length(), Arc::clone(requests)).await?;
    let cpu = (server.cpu_seconds()? - before) * 1e6 / rate.answered as f64;
    Ok(Measured { rate, cpu_us: cpu })
}

fn read_requests() -> Result<MakeRequest> {
    let requests: Vec<Vec<u8>> = (0..ITEMS).map(read_request).collect::<Result<_>>()?;
    Ok(Arc::new(move |connection, n| requests[(connection * 7_919 + n as usize) % ITEMS].clone()))
}

/// Every item is written again and again.
fn write_requests() -> Result<MakeRequest> {
    let headers = "content-type: application/json\r\nx-ms-documentdb-is-upsert: true\r\n";
    let path = "dbs/bench/colls/c";
    let upsert = Template::new("POST", &format!("/{path}/docs"), "docs", path, headers)?;
    Ok(Arc::new(move |connection, n| {
        let id = format!("item{:04}", (connection * 7_919 + n as usize) % ITEMS);
        upsert.bytes_for_key(&id, &document(&id))
    }))
}

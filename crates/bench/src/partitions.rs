//! The same data in few and in many partitions: reads and writes should not care.
//!
//! Each number of partitions has a server and a container of its own, and all are measured in
//! turns. Throughput is not enforced, as one partition has less of it than many.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use crate::client::{Connection, MakeRequest, Template, document, load, make_container};
use crate::read::{ITEMS, fill, read_request, scratch};
use crate::server::Server;
use crate::{Options, median};

/// How many partitions.
const PARTITIONS: [u32; 5] = [1, 4, 16, 64, 256];

/// Request units per second for which a new container gets one more partition.
const RU_PER_PARTITION: u32 = 6_000;

/// No more partitions come with a container's creation; further ones are made by splitting.
const CREATED_MAX: u32 = 128;

/// Tenths of a second that splitting may take.
const WAITS_MAX: usize = 1_200;

struct Side {
    partitions: u32,
    server: Server,
    reads: Vec<f64>,
    writes: Vec<f64>,
}

pub(crate) async fn run(options: &Options) -> Result<()> {
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
            let read = measure("reads", side, options, &reads).await?;
            side.reads.push(read);
            let write = measure("writes", side, options, &writes).await?;
            side.writes.push(write);
        }
    }
    let reads: Vec<f64> = sides.iter().map(|side| median(side.reads.clone())).collect();
    let writes: Vec<f64> = sides.iter().map(|side| median(side.writes.clone())).collect();
    for (what, rates) in [("reads", reads), ("writes", writes)] {
        let most = rates.iter().copied().fold(0.0, f64::max);
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let flat = least / most;
        println!(r#"{{"bench":"partitions","what":"{what}","least_to_most":{flat:.3}}}"#);
    }
    drop(sides);
    std::fs::remove_dir_all(&scratch)?;
    Ok(())
}

/// Splits every partition in two, and waits until it is done.
async fn split_all(server: &Server, count: u32) -> Result<()> {
    let mut connection = Connection::open(server.address).await?;
    let json = "content-type: application/json\r\n";
    for id in 0..count {
        let link = format!("_partita/databases/bench/containers/c/partitions/{id}/split");
        let split = Template::new("POST", &format!("/{link}"), "_partita", &link, json)?;
        connection.must(&split.bytes(r#"{"mode":"midpoint"}"#)).await?;
    }
    let path = "dbs/bench/colls/c";
    let ranges = Template::new("GET", &format!("/{path}/pkranges"), "pkranges", path, "")?;
    let all = format!(r#""_count":{}"#, count * 2);
    for _ in 0..WAITS_MAX {
        let answer = connection.must(&ranges.bytes("")).await?;
        if String::from_utf8_lossy(&answer).contains(&all) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    anyhow::bail!("the partitions were not split in time")
}

async fn measure(
    what: &str,
    side: &Side,
    options: &Options,
    requests: &MakeRequest,
) -> Result<f64> {
    let server = &side.server;
    let before = server.cpu_seconds()?;
    let rate =
        load(server.address, options.connections, options.length(), Arc::clone(requests)).await?;
    let cpu = (server.cpu_seconds()? - before) * 1e6 / rate.answered as f64;
    println!(
        r#"{{"bench":"partitions","partitions":{},"what":"{what}","per_second":{:.0},"p50_ms":{:.3},"p99_ms":{:.3},"server_cpu_us":{cpu:.1}}}"#,
        side.partitions, rate.per_second, rate.p50_ms, rate.p99_ms
    );
    Ok(rate.per_second)
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

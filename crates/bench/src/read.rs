//! Point reads over HTTP against a bare server that returns the same bytes.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;

use crate::client::{Connection, MakeRequest, Template, document, load, make_container};
use crate::server::Server;
use crate::{Options, median};

/// Items that the reads are spread over.
pub(crate) const ITEMS: usize = 1_000;

pub(crate) async fn run(options: &Options) -> Result<()> {
    let scratch = scratch(options.data_dir.as_deref(), "read")?;
    let partita = Server::partita(&options.binary, &scratch.join("data"))?;
    make_container(partita.address, 400).await?;
    let sample = fill(&partita).await?;
    let recorded = scratch.join("response");
    std::fs::write(&recorded, &sample)?;
    let bare = Server::bare(&recorded)?;
    let requests: Arc<Vec<Vec<u8>>> =
        Arc::new((0..ITEMS).map(read_request).collect::<Result<_>>()?);
    let request: MakeRequest =
        Arc::new(move |connection, n| requests[(connection * 7_919 + n as usize) % ITEMS].clone());
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        ours.push(measure("read", "partita", &partita, options, &request).await?);
        theirs.push(measure("read", "bare", &bare, options, &request).await?);
    }
    println!(r#"{{"bench":"read","ratio":{:.3}}}"#, median(ours) / median(theirs));
    std::fs::remove_dir_all(&scratch)?;
    Ok(())
}

/// Loads one side and prints how it did; the processor time per request is what noise from the rest
/// of the machine changes least.
pub(crate) async fn measure(
    bench: &str,
    side: &str,
    server: &Server,
    options: &Options,
    request: &MakeRequest,
) -> Result<f64> {
    let before = server.cpu_seconds()?;
    let rate =
        load(server.address, options.connections, options.length(), Arc::clone(request)).await?;
    let cpu = (server.cpu_seconds()? - before) * 1e6 / rate.answered as f64;
    println!(
        r#"{{"bench":"{bench}","side":"{side}","per_second":{:.0},"p50_ms":{:.3},"p99_ms":{:.3},"server_cpu_us":{cpu:.1}}}"#,
        rate.per_second, rate.p50_ms, rate.p99_ms
    );
    Ok(rate.per_second)
}

/// A new directory for one run.
pub(crate) fn scratch(parent: Option<&Path>, name: &str) -> Result<std::path::PathBuf> {
    let parent = parent.map_or_else(std::env::temp_dir, Path::to_path_buf);
    let path = parent.join(format!("partita-bench-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path)?;
    Ok(path)
}

/// Creates the items and returns the response to a read of one.
pub(crate) async fn fill(partita: &Server) -> Result<Vec<u8>> {
    let mut connection = Connection::open(partita.address).await?;
    let json = "content-type: application/json\r\n";
    let path = "dbs/bench/colls/c";
    let create = Template::new("POST", &format!("/{path}/docs"), "docs", path, json)?;
    for n in 0..ITEMS {
        let id = format!("item{n:04}");
        connection.must(&create.bytes_for_key(&id, &document(&id))).await?;
    }
    connection.must(&read_request(0)?).await
}

pub(crate) fn read_request(n: usize) -> Result<Vec<u8>> {
    let id = format!("item{n:04}");
    let link = format!("dbs/bench/colls/c/docs/{id}");
    Ok(Template::new("GET", &format!("/{link}"), "docs", &link, "")?.bytes_for_key(&id, ""))
}

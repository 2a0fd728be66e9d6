//! What enforcing throughput costs: point reads with it and without, of the same data.

use std::sync::Arc;

use anyhow::Result;

use crate::client::{MakeRequest, make_container};
use crate::read::{ITEMS, fill, measure, read_request, scratch};
use crate::server::Server;
use crate::{Options, median};

/// So much that nothing is refused.
const THROUGHPUT: u32 = 1_000_000;

pub(crate) async fn run(options: &Options) -> Result<()> {
    let scratch = scratch(options.data_dir.as_deref(), "throughput")?;
    let mut servers = Vec::new();
    for mode in ["enforced", "off"] {
        let arguments = ["--throughput", mode];
        let server = Server::partita_with(&options.binary, &scratch.join(mode), &arguments)?;
        make_container(server.address, THROUGHPUT).await?;
        fill(&server).await?;
        servers.push((mode, server, Vec::new()));
    }
    let requests: Vec<Vec<u8>> = (0..ITEMS).map(read_request).collect::<Result<_>>()?;
    let request: MakeRequest =
        Arc::new(move |connection, n| requests[(connection * 7_919 + n as usize) % ITEMS].clone());
    for _ in 0..options.rounds {
        for (mode, server, rates) in &mut servers {
            rates.push(measure("throughput", mode, server, options, &request).await?);
        }
    }
    let medians: Vec<f64> = servers.iter().map(|(_, _, rates)| median(rates.clone())).collect();
    if let [enforced, off] = medians.as_slice() {
        println!(r#"{{"bench":"throughput","ratio":{:.3}}}"#, enforced / off);
    }
    drop(servers);
    std::fs::remove_dir_all(&scratch)?;
    Ok(())
}

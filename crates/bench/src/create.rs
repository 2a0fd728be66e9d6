//! Durable creates over HTTP against the engine alone: the same kind of batch, the same group
//! commit.

use std::sync::Arc;

use anyhow::Result;

use crate::client::{MakeRequest, Template, document, load, make_container};
use crate::read::scratch;
use crate::server::Server;
use crate::{Options, median, raw};

/// Enough for several partitions, so that all lanes of the store work.
const THROUGHPUT: u32 = 30_000;

pub(crate) async fn run(options: &Options) -> Result<()> {
    let scratch = scratch(options.data_dir.as_deref(), "create")?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..options.rounds {
        let partita = Server::partita(&options.binary, &scratch.join(format!("data{round}")))?;
        make_container(partita.address, THROUGHPUT).await?;
        let rate =
            load(partita.address, options.connections, options.length(), requests()?).await?;
        println!(
            r#"{{"bench":"create","side":"partita","per_second":{:.0},"p50_ms":{:.3},"p99_ms":{:.3}}}"#,
            rate.per_second, rate.p50_ms, rate.p99_ms
        );
        ours.push(rate.per_second);
        drop(partita);
        let raw =
            raw::run(&scratch.join(format!("raw{round}")), options.connections, options.length())?;
        println!(r#"{{"bench":"create","side":"raw engine","per_second":{raw:.0}}}"#);
        theirs.push(raw);
    }
    println!(r#"{{"bench":"create","ratio":{:.3}}}"#, median(ours) / median(theirs));
    std::fs::remove_dir_all(&scratch)?;
    Ok(())
}

fn requests() -> Result<MakeRequest> {
    let json = "content-type: application/json\r\n";
    let template =
        Template::new("POST", "/dbs/bench/colls/c/docs", "docs", "dbs/bench/colls/c", json)?;
    Ok(Arc::new(move |connection, n| {
        let id = format!("c{connection}-{n}");
        template.bytes_for_key(&id, &document(&id))
    }))
}

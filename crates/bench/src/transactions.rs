//! Durable transactions over HTTP: procedures that create ten documents, and batches of a hundred,
//! against the same documents created one by one, all in the same run.

use std::sync::Arc;

use anyhow::Result;

use crate::client::{
    JSON, MakeRequest, Rate, Template, document, document_for, load, make_container,
};
use crate::read::scratch;
use crate::server::Server;
use crate::system::rest::make_procedure;
use crate::{Options, median};

/// Enough for several partitions, so that all lanes of the store work.
const THROUGHPUT: u32 = 30_000;

const CONTAINER: &str = "dbs/bench/colls/c";

/// Documents of one run of the procedure, and of one batch.
const PROCEDURE_DOCUMENTS: usize = 10;
const BATCH_DOCUMENTS: usize = 100;

/// One of the things that are measured.
struct Side {
    name: &'static str,
    documents: usize,
    requests: fn(usize) -> Result<MakeRequest>,
}

pub(crate) async fn run(options: &Options) -> Result<()> {
    let scratch = scratch(options.data_dir.as_deref(), "transactions")?;
    let sides = [
        Side { name: "single creates", documents: 1, requests: singles },
        Side { name: "procedure", documents: PROCEDURE_DOCUMENTS, requests: procedures },
        Side { name: "batch", documents: BATCH_DOCUMENTS, requests: batches },
    ];
    let mut rates: Vec<Vec<f64>> = sides.iter().map(|_| Vec::new()).collect();
    for round in 0..options.rounds {
        for (side, rates) in sides.iter().zip(&mut rates) {
            let data = scratch.join(format!("{round}-{}", side.name));
            let server = Server::partita(&options.binary, &data)?;
            make_container(server.address, THROUGHPUT).await?;
            make_procedure(server.address, "c").await?;
            let requests = (side.requests)(round)?;
            let rate =
                load(server.address, options.connections, options.length(), requests).await?;
            rates.push(report(side, &rate));
            drop(server);
            std::fs::remove_dir_all(&data)?;
        }
    }
    let medians: Vec<f64> = rates.into_iter().map(median).collect();
    if let [single, others @ ..] = medians.as_slice() {
        for (side, rate) in sides.iter().skip(1).zip(others) {
            println!(
                r#"{{"bench":"transactions","side":"{}","documents_per_second":{rate:.0},"ratio":{:.3}}}"#,
                side.name,
                rate / single
            );
        }
    }
    std::fs::remove_dir_all(&scratch)?;
    Ok(())
}

fn report(side: &Side, rate: &Rate) -> f64 {
    let documents = rate.per_second * side.documents as f64;
    println!(
        r#"{{"bench":"transactions","side":"{}","requests_per_second":{:.0},"documents_per_second":{documents:.0},"p50_ms":{:.3},"p99_ms":{:.3}}}"#,
        side.name, rate.per_second, rate.p50_ms, rate.p99_ms
    );
    documents
}

fn singles(round: usize) -> Result<MakeRequest> {
    let template = Template::new("POST", &format!("/{CONTAINER}/docs"), "docs", CONTAINER, JSON)?;
    Ok(Arc::new(move |connection, n| {
        let id = format!("s{round}-{connection}-{n}");
        template.bytes_for_key(&id, &document(&id))
    }))
}

/// Every request has a partition key of its own, as requests of different users have.
fn procedures(round: usize) -> Result<MakeRequest> {
    let link = format!("{CONTAINER}/sprocs/create");
    let template = Template::new("POST", &format!("/{link}"), "sprocs", &link, JSON)?;
    Ok(Arc::new(move |connection, n| {
        let key = format!("p{round}-{connection}-{n}");
        let documents: Vec<String> =
            (0..PROCEDURE_DOCUMENTS).map(|at| document_for(&at.to_string(), &key)).collect();
        template.bytes_for_key(&key, &format!("[[{}]]", documents.join(",")))
    }))
}

fn batches(round: usize) -> Result<MakeRequest> {
    let headers = format!(
        "{JSON}x-ms-cosmos-is-batch-request: true\r\nx-ms-cosmos-batch-atomic: true\r\n\
         prefer: return=minimal\r\n"
    );
    let path = format!("/{CONTAINER}/docs");
    let template = Template::new("POST", &path, "docs", CONTAINER, &headers)?;
    Ok(Arc::new(move |connection, n| {
        let key = format!("b{round}-{connection}-{n}");
        let operation = |at: usize| {
            let document = document_for(&at.to_string(), &key);
            format!(r#"{{"operationType":"Create","resourceBody":{document}}}"#)
        };
        let operations: Vec<String> = (0..BATCH_DOCUMENTS).map(operation).collect();
        template.bytes_for_key(&key, &format!("[{}]", operations.join(",")))
    }))
}

//! Queries over a million documents, against PostgreSQL with the same documents.
//!
//! Both sides hold the same rows: Partita in a container of eight partitions with its default
//! indexing policy, PostgreSQL in a table of `jsonb` with a GIN index (`jsonb_path_ops`) and an
//! expression index for each value that a query compares or sorts by. One client asks one question
//! after another, each side in turn; the answers must agree. A ratio above 1 means that Partita
//! answered in less time.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio_postgres::Client;

use crate::client::{Connection, Template, make_container};
use crate::postgres::Postgres;
use crate::read::scratch;
use crate::server::Server;
use crate::{QueryOptions, median};

/// Documents of one logical partition, written by one batch.
const BATCH: usize = 100;
/// Throughput that gives a container eight partitions.
const EIGHT_PARTITIONS: u32 = 48_000;

/// A question is asked for so long, or so often.
const LONG: Duration = Duration::from_secs(10);
const ROUNDS_MAX: u64 = 1_000;

/// A question in both languages; `$` stands for a number that differs from one asking to the next.
struct Question {
    name: &'static str,
    ours: &'static str,
    theirs: &'static str,
    /// How many different values the number takes.
    values: u64,
}

/// The full scan comes first: it brings all of it into both sides' memory.
const QUESTIONS: [Question; 7] = [
    Question {
        name: "a filter that no index helps",
        ours: "SELECT VALUE c.id FROM c WHERE c.amount * 3 + c.level = $",
        theirs: "SELECT doc->>'id' FROM docs
                 WHERE (doc->>'amount')::float8 * 3 + (doc->>'level')::float8 = $",
        values: 1_000,
    },
    Question {
        name: "equality, 100 documents",
        ours: r#"SELECT * FROM c WHERE c.device = "device-$""#,
        theirs: r#"SELECT doc::text FROM docs WHERE doc @> '{"device":"device-$"}'"#,
        values: 10_000,
    },
    Question {
        name: "range, ORDER BY, TOP 100",
        ours: "SELECT TOP 100 * FROM c WHERE c.at > $000 ORDER BY c.at",
        theirs: "SELECT doc::text FROM docs WHERE (doc->>'at')::float8 > $000 \
                 ORDER BY (doc->>'at')::float8 LIMIT 100",
        values: 900,
    },
    Question {
        name: "two filters, about 100 documents",
        ours: r#"SELECT * FROM c WHERE c.category = "category-7" AND c.city = "city-$""#,
        theirs: r#"SELECT doc::text FROM docs
                   WHERE doc @> '{"category":"category-7","city":"city-$"}'"#,
        values: 200,
    },
    Question {
        name: "COUNT with a filter, 20 000 match",
        ours: r#"SELECT VALUE COUNT(1) FROM c WHERE c.category = "category-$""#,
        theirs: r#"SELECT count(*)::text FROM docs WHERE doc->>'category' = 'category-$'"#,
        values: 50,
    },
    Question {
        name: "COUNT with a range, up to a million",
        ours: "SELECT VALUE COUNT(1) FROM c WHERE c.at >= $000",
        theirs: "SELECT count(*)::text FROM docs WHERE (doc->>'at')::float8 >= $000",
        values: 900,
    },
    Question {
        name: "GROUP BY with SUM",
        ours: "SELECT c.category, SUM(c.amount) AS total FROM c GROUP BY c.category",
        theirs: "SELECT jsonb_build_object('category', doc->>'category',
                 'total', sum((doc->>'amount')::float8))::text FROM docs GROUP BY doc->>'category'",
        values: 1,
    },
];

pub(crate) async fn run(options: &QueryOptions) -> Result<()> {
    let scratch = match &options.data_dir {
        Some(parent) if options.keep => parent.join("partita-bench-queries"),
        parent => scratch(parent.as_deref(), "queries")?,
    };
    let loaded = scratch.join("loaded");
    let is_loaded = loaded.exists();
    // As much memory as the other side's shared buffers.
    let cache = ["--cache-mb", "4096", "--throughput", "off"];
    let partita = Server::partita_with(&options.binary, &scratch.join("partita"), &cache)?;
    let postgres = Postgres::start(&scratch.join("postgres"))?;
    let client = postgres.connect().await?;
    if !is_loaded {
        load(&partita, &client, options.documents).await?;
        std::fs::write(loaded, options.documents.to_string())?;
    }
    sizes(&partita, &client, &scratch, options.documents).await?;
    let mut connection = Connection::open(partita.address).await?;
    for question in &QUESTIONS {
        compare(&mut connection, &client, question, options).await?;
    }
    drop(client);
    drop(postgres);
    drop(partita);
    if !options.keep {
        std::fs::remove_dir_all(&scratch)?;
    }
    Ok(())
}

async fn load(partita: &Server, client: &Client, documents: usize) -> Result<()> {
    make_container(partita.address, EIGHT_PARTITIONS).await?;
    let started = Instant::now();
    fill_partita(partita, documents).await?;
    tell("load", "partita", started.elapsed().as_secs_f64());
    let started = Instant::now();
    fill_postgres(client, documents).await?;
    tell("load", "postgres", started.elapsed().as_secs_f64());
    Ok(())
}

fn tell(what: &str, side: &str, seconds: f64) {
    println!(r#"{{"bench":"queries","what":"{what}","side":"{side}","seconds":{seconds:.1}}}"#);
}

async fn compare(
    connection: &mut Connection,
    client: &Client,
    question: &Question,
    options: &QueryOptions,
) -> Result<()> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let begun = Instant::now();
    // The first half warms both sides up. A quick question is asked more often: it touches little,
    // so it takes longer until what it touches is in memory.
    let enough = |round: u64| {
        round >= 2 * options.rounds as u64 && (begun.elapsed() >= LONG || round >= ROUNDS_MAX)
    };
    for round in (0..).take_while(|round| !enough(*round)) {
        let value = (round * 7_919 % question.values).to_string();
        let started = Instant::now();
        let mut mine = ask_partita(connection, &question.ours.replace('$', &value)).await?;
        let first = started.elapsed().as_secs_f64();
        let started = Instant::now();
        let mut yours = ask_postgres(client, &question.theirs.replace('$', &value)).await?;
        let second = started.elapsed().as_secs_f64();
        mine.sort();
        yours.sort();
        let (many, few) = (mine.len(), yours.len());
        ensure!(mine == yours, "{}: {many} rows here, {few} rows there", question.name);
        ours.push(first);
        theirs.push(second);
    }
    let half = ours.len() / 2;
    let (ours, theirs) = (ours.split_off(half), theirs.split_off(half));
    let (ours, theirs) = (median(ours), median(theirs));
    println!(
        r#"{{"bench":"queries","query":"{}","partita_ms":{:.2},"postgres_ms":{:.2},"ratio":{:.2}}}"#,
        question.name,
        ours * 1e3,
        theirs * 1e3,
        theirs / ours
    );
    Ok(())
}

/// All rows of a query, page after page, as what identifies them.
async fn ask_partita(connection: &mut Connection, query: &str) -> Result<Vec<String>> {
    let path = "dbs/bench/colls/c";
    let mut rows = Vec::new();
    let mut continuation = String::new();
    loop {
        let headers = format!(
            "content-type: application/query+json\r\nx-ms-documentdb-isquery: True\r\n\
             x-ms-documentdb-query-enablecrosspartition: True\r\nx-ms-max-item-count: -1\r\n\
             x-partita-query-serving: global\r\n{continuation}"
        );
        let ask = Template::new("POST", &format!("/{path}/docs"), "docs", path, &headers)?;
        let body = format!(r#"{{"query":"{}"}}"#, query.replace('"', "\\\""));
        let answer = connection.must(&ask.bytes(&body)).await?;
        let answer = std::str::from_utf8(&answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no body")?;
        let value = partita_model::Value::parse(body.as_bytes()).map_err(anyhow::Error::msg)?;
        let documents = value.get("Documents").and_then(|d| d.as_array()).context("no rows")?;
        rows.extend(documents.iter().map(identity));
        let next = head.split("\r\n").find_map(|line| line.strip_prefix("x-ms-continuation: "));
        match next {
            Some(token) => continuation = format!("x-ms-continuation: {token}\r\n"),
            None => return Ok(rows),
        }
    }
}

async fn ask_postgres(client: &Client, query: &str) -> Result<Vec<String>> {
    let statement = client.prepare(query).await?;
    let rows = client.query(&statement, &[]).await?;
    let text = |row: &tokio_postgres::Row| -> Result<String> {
        let text: &str = row.try_get(0)?;
        let value = partita_model::Value::parse(text.as_bytes());
        Ok(value.map_or_else(|_| text.to_owned(), |value| identity(&value)))
    };
    rows.iter().map(text).collect()
}

/// A document's id; of anything else, what it says, with sums rounded as additions may be in any
/// order.
fn identity(row: &partita_model::Value) -> String {
    if let Some(id) = row.get("id").and_then(|id| id.as_str()) {
        return id.to_owned();
    }
    let total = row.get("total").and_then(|total| total.as_f64());
    match (row.get("category").and_then(|name| name.as_str()), total) {
        (Some(category), Some(total)) => format!("{category} {total:.3}"),
        _ => row.as_str().map_or_else(|| row.to_string(), str::to_owned),
    }
}

async fn fill_partita(partita: &Server, documents: usize) -> Result<()> {
    const WRITERS: usize = 16;
    let path = "dbs/bench/colls/c";
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let address = partita.address;
        writers.push(tokio::spawn(async move {
            let headers = "content-type: application/json\r\nx-ms-cosmos-is-batch-request: True\r\n\
                           x-ms-cosmos-batch-atomic: True\r\nprefer: return=minimal\r\n";
            let batch = Template::new("POST", &format!("/{path}/docs"), "docs", path, headers)?;
            let mut connection = Connection::open(address).await?;
            for group in (writer..documents / BATCH).step_by(WRITERS) {
                let create = |n: usize| {
                    format!(r#"{{"operationType":"Create","resourceBody":{}}}"#, document(n))
                };
                let operations: Vec<String> =
                    (group * BATCH..(group + 1) * BATCH).map(create).collect();
                let body = format!("[{}]", operations.join(","));
                connection.must(&batch.bytes_for_key(&format!("pk-{group}"), &body)).await?;
            }
            anyhow::Ok(())
        }));
    }
    for writer in writers {
        writer.await??;
    }
    Ok(())
}

async fn fill_postgres(client: &Client, documents: usize) -> Result<()> {
    client.batch_execute("CREATE TABLE docs (id text PRIMARY KEY, pk text, doc jsonb)").await?;
    for group in 0..documents / 1_000 {
        let row = |n: usize| format!("('doc-{n}','pk-{}','{}')", n / BATCH, document(n));
        let rows: Vec<String> = (group * 1_000..(group + 1) * 1_000).map(row).collect();
        client.batch_execute(&format!("INSERT INTO docs VALUES {}", rows.join(","))).await?;
    }
    client
        .batch_execute(
            "CREATE INDEX docs_gin ON docs USING gin (doc jsonb_path_ops);
             CREATE INDEX docs_at ON docs (((doc->>'at')::float8));
             CREATE INDEX docs_category ON docs ((doc->>'category'));
             CREATE INDEX docs_city ON docs ((doc->>'city'));
             CREATE INDEX docs_device ON docs ((doc->>'device'))",
        )
        .await?;
    Ok(client.batch_execute("VACUUM ANALYZE docs").await?)
}

/// Bytes on disk per document.
async fn sizes(partita: &Server, client: &Client, scratch: &Path, documents: usize) -> Result<()> {
    let table = "SELECT (pg_table_size('docs'))::text, (pg_indexes_size('docs'))::text";
    let row = client.query_one(table, &[]).await?;
    let number = |at: usize| -> Result<f64> { Ok(row.try_get::<_, &str>(at)?.parse()?) };
    let per_document = |bytes: f64| bytes / documents as f64;
    println!(
        r#"{{"bench":"queries","what":"bytes per document","side":"postgres","table":{:.0},"indexes":{:.0}}}"#,
        per_document(number(0)?),
        per_document(number(1)?)
    );
    let total = bytes_under(&scratch.join("partita"))?;
    println!(
        r#"{{"bench":"queries","what":"bytes per document","side":"partita","total":{:.0},"rss_mb":{:.0}}}"#,
        per_document(total as f64),
        partita.rss_mb()?
    );
    Ok(())
}

fn bytes_under(directory: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        bytes += if meta.is_dir() { bytes_under(&entry.path())? } else { meta.len() };
    }
    Ok(bytes)
}

/// A reading of about 1 KB with 15 properties. Everything follows from the number.
fn document(n: usize) -> String {
    let scatter = |salt: u64, below: u64| {
        // SplitMix64's finish: neighbouring numbers have nothing in common afterwards.
        let seed = (n as u64).wrapping_mul(64).wrapping_add(salt);
        let x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (x ^ (x >> 31)) % below
    };
    let filler: String = (0..14).map(|k| format!("{:016x}", scatter(20 + k, u64::MAX))).collect();
    format!(
        r#"{{"id":"doc-{n}","pk":"pk-{}","device":"device-{}","category":"category-{}","city":"city-{}","status":"{}","at":{},"amount":{},"level":{},"active":{},"place":{{"room":{},"floor":{}}},"tags":["t{}","u{}"],"owner":"owner-{}","unit":"celsius","note":"{filler}{filler}{filler}"}}"#,
        n / BATCH,
        scatter(1, 10_000),
        scatter(2, 50),
        scatter(3, 200),
        ["new", "open", "held", "done", "gone"][scatter(4, 5) as usize],
        // Every number once: what is first by it is the same on both sides.
        n * 611_953 % 1_000_000,
        scatter(6, 1_000),
        scatter(7, 100),
        scatter(8, 2) == 1,
        scatter(9, 100),
        scatter(10, 10),
        scatter(11, 50),
        scatter(12, 500),
        scatter(13, 5_000),
    )
}

//! A partition is split while clients of the official Rust SDK read, write, ask and follow the
//! change feed. Nobody may see an error that the SDK does not hide, nothing may be lost or doubled.
//!
//! ```text
//! partita serve --throughput off &
//! cargo run --release --example split_under_load -- [ITEMS [SECONDS]]
//! ```
//!
//! It loads ITEMS items of 1 KB (1 000 000) into one partition, lets 32 clients work for SECONDS
//! (20), asks for more throughput than one partition can give, and lets them work on until some
//! time after the split. Then it compares every item with what the writers know they wrote, and
//! what the change feed delivered with the same. It prints latencies before, during and after.
//!
//! A client pauses between two requests: the machine that splits also runs the clients, and what a
//! split costs cannot be seen when nothing is left to spend.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use azure_core::credentials::Secret;
use azure_data_cosmos::clients::ContainerClient;
use azure_data_cosmos::feed::FeedScope;
use azure_data_cosmos::models::{ContainerProperties, ThroughputProperties, TransactionalBatch};
use azure_data_cosmos::options::{ChangeFeedOptions, ChangeFeedStartFrom, CreateContainerOptions};
use azure_data_cosmos::{AccountEndpoint, AccountReference, CosmosClient, RoutingStrategy};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};

const KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
const ITEMS_PER_KEY: usize = 100;
const PAUSE: Duration = Duration::from_millis(20);

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Read,
    Write,
    Query,
    Feed,
}

const KINDS: [Kind; 4] = [Kind::Read, Kind::Write, Kind::Query, Kind::Feed];
const CLIENTS: [(Kind, usize); 4] =
    [(Kind::Read, 14), (Kind::Write, 12), (Kind::Query, 4), (Kind::Feed, 2)];

/// Before, during and after the split; then the end.
const PHASES: [&str; 3] = ["before", "during", "after"];
const END: usize = PHASES.len();

/// What all clients share.
struct Run {
    container: ContainerClient,
    items: usize,
    phase: AtomicUsize,
    /// Followers that know where they begin: writers wait for them.
    following: AtomicUsize,
    created: AtomicU64,
    /// The version of every item that a writer touched; none if it was deleted.
    written: Mutex<HashMap<String, Option<u64>>>,
    /// The last version of each item in the change feed.
    followed: Mutex<HashMap<String, u64>>,
    latencies: Mutex<HashMap<(Kind, usize), Vec<Duration>>>,
    errors: Mutex<Vec<String>>,
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let mut arguments = std::env::args().skip(1);
    let items = arguments.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let seconds = arguments.next().map_or(Ok(20), |text| text.parse())?;
    let run = Arc::new(prepare(items).await?);
    let clients: Vec<_> = (0..CLIENTS.iter().map(|(_, count)| count).sum())
        .map(|number| tokio::spawn(work(Arc::clone(&run), number)))
        .collect();
    tokio::time::sleep(Duration::from_secs(seconds)).await;

    println!("splitting");
    run.phase.store(1, Ordering::Relaxed);
    let begun = Instant::now();
    let more = ThroughputProperties::manual(20_000);
    run.container.begin_replace_throughput(more, None).await?;
    while run.container.read_feed_ranges(None).await?.len() < 2 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!("split after {:.1} s", begun.elapsed().as_secs_f64());
    run.phase.store(2, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    run.phase.store(END, Ordering::Relaxed);
    for client in clients {
        client.await?;
    }
    report(&run);
    compare(&run).await
}

/// A container of one partition, filled.
async fn prepare(items: usize) -> Result<Run, Failed> {
    let url = std::env::var("PARTITA_ENDPOINT").unwrap_or("http://localhost:8081/".to_owned());
    let endpoint: AccountEndpoint = url.parse()?;
    let account = AccountReference::with_authentication_key(endpoint, Secret::from(KEY));
    let routing = RoutingStrategy::ProximityTo("South Central US".into());
    let client = CosmosClient::builder().build(account, routing).await?;
    let name = format!("split-{}", std::process::id());
    client.create_database(&name, None).await?;
    let database = client.database_client(name.as_str());
    let options =
        CreateContainerOptions::default().with_throughput(ThroughputProperties::manual(6_000));
    let properties = ContainerProperties::new("items", "/pk".into());
    database.create_container(properties, Some(options)).await?;
    let container = database.container_client("items", None).await?;
    let begun = Instant::now();
    stream::iter(0..items.div_ceil(ITEMS_PER_KEY))
        .map(|key| load(&container, key))
        .buffer_unordered(16)
        .try_collect::<Vec<()>>()
        .await?;
    println!("{items} items loaded in {:.1} s", begun.elapsed().as_secs_f64());
    Ok(Run {
        container,
        items,
        phase: AtomicUsize::new(0),
        following: AtomicUsize::new(0),
        created: AtomicU64::new(0),
        written: Mutex::default(),
        followed: Mutex::default(),
        latencies: Mutex::default(),
        errors: Mutex::default(),
    })
}

async fn load(container: &ContainerClient, key: usize) -> Result<(), Failed> {
    let mut batch = TransactionalBatch::new(format!("key-{key}"));
    for n in 0..ITEMS_PER_KEY {
        batch = batch.create_item(body(&format!("{key}-{n}"), &format!("key-{key}"), 0))?;
    }
    container.execute_transactional_batch(batch, None).await?;
    Ok(())
}

fn body(id: &str, key: &str, version: u64) -> Value {
    let hash = id.bytes().fold(version + 7, |hash, byte| hash * 31 % 1_000_003 + u64::from(byte));
    json!({
        "id": id, "pk": key, "version": version, "score": hash % 10_000, "team": hash % 97,
        "name": format!("name {hash}"), "active": hash % 2 == 0, "tags": ["a", "b", hash % 7],
        "address": {"city": format!("city {}", hash % 500), "zip": hash % 99_999},
        "text": "x".repeat(600)
    })
}

/// One client, until the end.
async fn work(run: Arc<Run>, number: usize) {
    let mut before = 0;
    let kind = CLIENTS.iter().find(|(_, count)| {
        before += count;
        number < before
    });
    let Some((kind, _)) = kind else { return };
    let mut feed = Feed::default();
    if *kind == Kind::Feed {
        note(&run, *kind, 0, feed.follow(&run).await);
        run.following.fetch_add(1, Ordering::Relaxed);
    }
    while run.following.load(Ordering::Relaxed) < count_of(Kind::Feed) {
        tokio::time::sleep(PAUSE).await;
    }
    let mut step = number as u64;
    while run.phase.load(Ordering::Relaxed) < END {
        step = step.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let phase = run.phase.load(Ordering::Relaxed);
        let begun = Instant::now();
        let done = match kind {
            Kind::Read => read(&run, step >> 20).await,
            Kind::Write => write(&run, number, step >> 20).await,
            Kind::Query => query(&run, step >> 20).await,
            Kind::Feed => feed.follow(&run).await,
        };
        let took = begun.elapsed();
        run.latencies.lock().unwrap().entry((*kind, phase)).or_default().push(took);
        note(&run, *kind, phase, done);
        tokio::time::sleep(PAUSE).await;
    }
    if *kind == Kind::Feed {
        // Once more, when nobody writes any longer.
        tokio::time::sleep(Duration::from_secs(15)).await;
        note(&run, *kind, 2, feed.follow(&run).await);
    }
}

fn count_of(kind: Kind) -> usize {
    CLIENTS.iter().filter(|(other, _)| *other == kind).map(|(_, count)| count).sum()
}

fn note(run: &Run, kind: Kind, phase: usize, done: Result<(), Failed>) {
    if let Err(error) = done {
        let phase = PHASES.get(phase).unwrap_or(&"at the end");
        run.errors.lock().unwrap().push(format!("{kind:?} {phase}: {error}"));
    }
}

async fn read(run: &Run, random: u64) -> Result<(), Failed> {
    let keys = run.items / ITEMS_PER_KEY;
    // Writers touch the first hundred keys only, and delete none of these items.
    let (key, n) = (random as usize % keys, random as usize / keys % ITEMS_PER_KEY);
    let found = run.container.read_item(format!("key-{key}"), &format!("{key}-{n}"), None).await?;
    let item: Value = found.into_model()?;
    if item["id"] != format!("{key}-{n}") {
        return Err(format!("asked for {key}-{n}, got {}", item["id"]).into());
    }
    Ok(())
}

/// Each writer has keys of its own, so it knows what must be there.
async fn write(run: &Run, writer: usize, random: u64) -> Result<(), Failed> {
    let known = |id: &str| run.written.lock().unwrap().get(id).copied();
    let (id, key) = match random % 3 {
        // A new item, under a key that is new or not.
        0 => {
            let count = run.created.fetch_add(1, Ordering::Relaxed);
            (format!("new-{count}"), format!("new-{writer}-{}", count % 1_000))
        }
        _ => {
            let (key, n) = (writer, random as usize / 3 % ITEMS_PER_KEY);
            (format!("{key}-{n}"), format!("key-{key}"))
        }
    };
    let version = known(&id).flatten().unwrap_or(0) + 1;
    if id.starts_with("new") && random % 10 == 0 {
        run.container.create_item(&key, &id, body(&id, &key, 1), None).await?;
        run.container.delete_item(&key, &id, None).await?;
        run.written.lock().unwrap().insert(id, None);
        return Ok(());
    }
    run.container.upsert_item(&key, &id, body(&id, &key, version), None).await?;
    run.written.lock().unwrap().insert(id, Some(version));
    Ok(())
}

async fn query(run: &Run, random: u64) -> Result<(), Failed> {
    let text = format!(
        "SELECT TOP 20 c.id, c.score FROM c WHERE c.team = {} ORDER BY c.score",
        random % 97
    );
    let found = run
        .container
        .query_items::<Value>(text.as_str(), FeedScope::full_container(), None)
        .await?;
    let rows: Vec<Value> = found.try_collect().await?;
    let scores: Vec<i64> = rows.iter().filter_map(|row| row["score"].as_i64()).collect();
    if scores.len() != 20 || !scores.is_sorted() {
        return Err(format!("found {scores:?}").into());
    }
    Ok(())
}

/// Follows the change feed of the whole container by continuations.
#[derive(Default)]
struct Feed(Option<azure_data_cosmos::feed::ContinuationToken>);

impl Feed {
    async fn follow(&mut self, run: &Run) -> Result<(), Failed> {
        let mut options = ChangeFeedOptions::default();
        if let Some(token) = self.0.take() {
            options = options.with_continuation_token(token);
        }
        let start = ChangeFeedStartFrom::Now;
        let scope = FeedScope::full_container();
        let mut pages =
            run.container.query_change_feed::<Value>(scope, start, Some(options)).await?;
        // A range that has nothing gives an empty page; the other may have more.
        let mut empty = 0;
        while empty < 2
            && let Some(page) = pages.next().await
        {
            let page = page?;
            empty = if page.items().is_empty() { empty + 1 } else { 0 };
            let mut followed = run.followed.lock().unwrap();
            for item in page.items().iter().filter_map(|change| change.current()) {
                let (id, version) = (item["id"].as_str(), item["version"].as_u64());
                let (Some(id), Some(version)) = (id, version) else {
                    return Err("a change without id or version".into());
                };
                let last = followed.entry(id.to_owned()).or_insert(version);
                *last = version.max(*last);
            }
        }
        self.0 = Some(pages.to_continuation_token()?);
        Ok(())
    }
}

fn report(run: &Run) {
    let mut latencies = run.latencies.lock().unwrap();
    println!("client   phase       count    p50 ms    p99 ms    max ms");
    for kind in KINDS {
        for (phase, name) in PHASES.iter().enumerate() {
            let taken = latencies.entry((kind, phase)).or_default();
            taken.sort();
            let at = |share: f64| {
                let last = taken.len().saturating_sub(1);
                let index = (taken.len() as f64 * share) as usize;
                taken.get(index.min(last)).map_or(0.0, |time| time.as_secs_f64() * 1e3)
            };
            let (kind, count) = (format!("{kind:?}"), taken.len());
            let (half, most, all) = (at(0.5), at(0.99), at(1.0));
            println!("{kind:8} {name:8} {count:>8} {half:>9.2} {most:>9.2} {all:>9.2}");
        }
    }
    let errors = run.errors.lock().unwrap();
    println!("errors: {}", errors.len());
    errors.iter().take(10).for_each(|error| println!("  {error}"));
}

/// Every item once, in the version that was written last; every change in the feed.
async fn compare(run: &Run) -> Result<(), Failed> {
    let text = "SELECT VALUE [c.id, c.version] FROM c";
    let found = run.container.query_items::<Value>(text, FeedScope::full_container(), None).await?;
    let rows: Vec<Value> = found.try_collect().await?;
    let mut stored: HashMap<String, u64> = HashMap::with_capacity(rows.len());
    for row in &rows {
        let (Some(id), Some(version)) = (row[0].as_str(), row[1].as_u64()) else {
            return Err(format!("a row {row}").into());
        };
        if stored.insert(id.to_owned(), version).is_some() {
            return Err(format!("{id} is there twice").into());
        }
    }
    let written = run.written.lock().unwrap();
    let followed = run.followed.lock().unwrap();
    let mut wrong = 0;
    for (id, version) in written.iter() {
        if stored.get(id).copied() != *version {
            println!("{id} is {:?}, should be {version:?}", stored.get(id));
            wrong += 1;
        }
        if version.is_some() && followed.get(id).copied() != *version {
            println!("the feed has {id} in {:?}, should be {version:?}", followed.get(id));
            wrong += 1;
        }
    }
    let new = written.iter().filter(|(id, at)| id.starts_with("new") && at.is_some()).count();
    let expected = run.items + new;
    println!("{} items, {expected} expected; {} written meanwhile", stored.len(), written.len());
    if stored.len() != expected || wrong > 0 || !run.errors.lock().unwrap().is_empty() {
        return Err("the split was noticed".into());
    }
    println!("nobody noticed anything");
    Ok(())
}

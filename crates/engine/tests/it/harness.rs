//! A database under test, with words for what tests do to it.

use std::sync::Arc;
use std::thread;

use partita_engine::{
    Change, ChangeFeedSettings, Condition, ContainerPath, Context, Database, DatabasePath,
    EngineSettings, EtagPattern, Indexing, ItemPath, KeyRequired, NewItem, Op, Outcome,
    PageRequest, QuerySettings, Reply, Scope, ThroughputMode, block_on,
};
use partita_model::{
    Clock, ErrorKind, FixedClock, PartitionKeyHeader, Patch, SeededEntropy, Threads, Throughput,
    Value,
};
use partita_query::Filter;
use partita_storage::{
    Batch, Direction, KeyRange, MemoryStore, PartitionId, ScanLimit, Space, Store,
};

/// A throughput that makes one partition, and one that makes five.
pub(crate) const PARTITIONS: [(usize, u32); 2] = [(1, 400), (5, 30_000)];

/// Threads as the server has them, for what several do at once.
#[derive(Debug)]
struct RealThreads;

impl Threads for RealThreads {
    fn start(&self, name: &str, run: Box<dyn FnOnce() + Send>) -> bool {
        thread::Builder::new().name(name.to_owned()).spawn(run).is_ok()
    }
}

/// Time stands still in most tests: nobody would ever be admitted again.
pub(crate) fn unthrottled() -> EngineSettings {
    let threads = Arc::new(RealThreads);
    EngineSettings { throughput: ThroughputMode::Off, threads, ..EngineSettings::default() }
}

pub(crate) struct Bench {
    pub(crate) database: Arc<Database>,
    pub(crate) clock: Arc<FixedClock>,
    store: Arc<dyn Store>,
    settings: EngineSettings,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        Bench::on(Arc::new(MemoryStore::new()), 1)
    }

    pub(crate) fn on(store: Arc<dyn Store>, seed: u64) -> Bench {
        Bench::try_on(store, seed).unwrap()
    }

    /// The same on a store that may refuse.
    pub(crate) fn try_on(store: Arc<dyn Store>, seed: u64) -> Option<Bench> {
        let clock = Arc::new(FixedClock::new(1_700_000_000_000));
        Bench::open(store, clock, seed, unthrottled())
    }

    /// The same with other limits for queries.
    pub(crate) fn with_queries(query: QuerySettings) -> Bench {
        Bench::with_settings(EngineSettings { query, ..unthrottled() })
    }

    /// The same with other limits for the change feed.
    pub(crate) fn with_changes(change_feed: ChangeFeedSettings) -> Bench {
        Bench::with_settings(EngineSettings { change_feed, ..unthrottled() })
    }

    pub(crate) fn with_settings(settings: EngineSettings) -> Bench {
        Bench::with(Arc::new(MemoryStore::new()), settings).unwrap()
    }

    /// The same on a store that may refuse.
    pub(crate) fn with(store: Arc<dyn Store>, settings: EngineSettings) -> Option<Bench> {
        let clock = Arc::new(FixedClock::new(1_700_000_000_000));
        Bench::open(store, clock, 1, settings)
    }

    /// A new database on the same store: what a restart leaves.
    pub(crate) fn reopened(self) -> Bench {
        Bench::open(self.store, self.clock, 99, self.settings).unwrap()
    }

    /// The same after a restart, with containers as they were made before their records said how
    /// much of a string their indexes keep.
    pub(crate) fn with_long_terms(self) -> Bench {
        self.with_catalog(r#","terms":"short""#, "")
    }

    /// The same after a restart, with another text in the records of the catalog: as an older
    /// version would have written them.
    pub(crate) fn with_catalog(self, from: &str, to: &str) -> Bench {
        const CATALOG: PartitionId = PartitionId(0);
        let limit = ScanLimit { entries_max: 1_000, bytes_max: usize::MAX };
        let view = self.store.snapshot(CATALOG).unwrap();
        let page = view.scan(Space::Meta, &KeyRange::all(), Direction::Forward, limit).unwrap();
        let mut batch = Batch::new();
        for entry in page.entries {
            let text = String::from_utf8_lossy(&entry.record.value);
            let former = text.replace(from, to);
            if former != text {
                batch.put(Space::Meta, entry.key, former.into_bytes());
            }
        }
        assert!(!batch.writes.is_empty(), "no record says it");
        self.store.submit(CATALOG, batch).wait().unwrap();
        self.reopened()
    }

    fn open(
        store: Arc<dyn Store>,
        clock: Arc<FixedClock>,
        seed: u64,
        settings: EngineSettings,
    ) -> Option<Bench> {
        let entropy = Arc::new(SeededEntropy::new(seed));
        let handed: Arc<FixedClock> = Arc::clone(&clock);
        let database =
            Database::open(Arc::clone(&store), handed, entropy, settings.clone()).ok()?;
        Some(Bench { database, clock, store, settings })
    }

    pub(crate) fn clock_seconds(&self) -> u64 {
        self.clock.unix_millis() / 1_000
    }

    pub(crate) fn run(&self, op: Op) -> Reply {
        self.run_with(op, &Context::default())
    }

    pub(crate) fn run_with(&self, op: Op, context: &Context) -> Reply {
        block_on(self.database.execute(op, context))
    }

    pub(crate) fn make_database(&self, name: &str) {
        self.run(Op::CreateDatabase { name: name.into(), throughput: None }).result.unwrap();
    }

    /// A container `db/c` with these fields besides its id.
    pub(crate) fn make_container(&self, throughput: u32, fields: &str) -> ContainerPath {
        if self.database.status().databases == 0 {
            self.make_database("db");
        }
        let reply = self.create_container("c", throughput, fields);
        assert!(
            matches!(reply.result, Ok(Outcome::Container { change: Change::Created, .. })),
            "{reply:?}"
        );
        path()
    }

    pub(crate) fn create_container(&self, name: &str, throughput: u32, fields: &str) -> Reply {
        let body = format!(r#"{{"id":"{name}",{fields}}}"#);
        self.run(Op::CreateContainer {
            database: DatabasePath("db".into()),
            body: json(&body),
            throughput: Some(Throughput::Manual(throughput)),
            key_required: KeyRequired::Yes,
        })
    }

    pub(crate) fn create(&self, body: &str) -> Reply {
        self.run(Op::CreateItem { container: path(), item: item(body, None) })
    }

    pub(crate) fn upsert(&self, body: &str, condition: Option<Condition>) -> Reply {
        self.run(Op::UpsertItem { container: path(), item: item(body, None), condition })
    }

    pub(crate) fn replace(
        &self,
        id: &str,
        key: &str,
        body: &str,
        condition: Option<Condition>,
    ) -> Reply {
        let item = item(body, Some(key));
        self.run(Op::ReplaceItem { path: item_path(id, key), item, condition })
    }

    pub(crate) fn patch(&self, id: &str, key: &str, body: &str) -> Reply {
        let patch = Patch::parse(body.as_bytes()).unwrap();
        let filter = patch.condition.as_deref().map(|text| Filter::parse_condition(text).unwrap());
        self.run(Op::PatchItem { path: item_path(id, key), patch, filter, condition: None })
    }

    pub(crate) fn read(&self, id: &str, key: &str) -> Reply {
        self.run(Op::ReadItem { path: item_path(id, key), condition: None })
    }

    pub(crate) fn delete(&self, id: &str, key: &str) -> Reply {
        self.run(Op::DeleteItem { path: item_path(id, key), condition: None })
    }

    /// All items of a scope, read in pages of this many.
    pub(crate) fn list(&self, scope: &Scope, page_items: usize) -> Vec<Value> {
        let mut all = Vec::new();
        let mut continuation = None;
        loop {
            let page = PageRequest { items_max: Some(page_items), continuation };
            let op = Op::ListItems { container: path(), scope: scope.clone(), page };
            let Ok(Outcome::Items { items, continuation: next }) = self.run(op).result else {
                panic!("no page of {scope:?}");
            };
            assert!(items.len() <= page_items);
            all.extend(items.iter().map(|item| Value::parse(&item.0).unwrap()));
            continuation = next;
            if continuation.is_none() {
                return all;
            }
        }
    }

    /// The records in all feeds.
    pub(crate) fn feed_records(&self) -> usize {
        self.stored(Space::Feed)
    }

    /// The items that are stored, whether they are shown or not.
    pub(crate) fn items_stored(&self) -> usize {
        self.stored(Space::Items)
    }

    fn stored(&self, space: Space) -> usize {
        self.keys(space).len()
    }

    /// The keys of all indexes.
    pub(crate) fn index_keys(&self) -> Vec<Vec<u8>> {
        self.keys(Space::Index)
    }

    fn keys(&self, space: Space) -> Vec<Vec<u8>> {
        let limit = ScanLimit { entries_max: usize::MAX, bytes_max: usize::MAX };
        let keys = |partition| {
            let view = self.store.snapshot(partition).unwrap();
            let page = view.scan(space, &KeyRange::all(), Direction::Forward, limit).unwrap();
            page.entries.into_iter().map(|entry| entry.key.to_vec())
        };
        self.store.partitions().unwrap().into_iter().flat_map(keys).collect()
    }

    /// Every derived entry is there and nothing else.
    pub(crate) fn assert_whole(&self) {
        let report = self.database.check().unwrap();
        assert!(report.findings.is_empty(), "{:#?}", report.findings);
    }
}

pub(crate) fn path() -> ContainerPath {
    ContainerPath { database: "db".into(), container: "c".into() }
}

pub(crate) fn item_path(id: &str, key: &str) -> ItemPath {
    let partition_key = Some(PartitionKeyHeader::parse(key).unwrap());
    ItemPath { container: path(), id: id.into(), partition_key }
}

pub(crate) fn item(body: &str, key: Option<&str>) -> NewItem {
    NewItem {
        body: body.as_bytes().to_vec(),
        partition_key: key.map(|key| PartitionKeyHeader::parse(key).unwrap()),
        indexing: Indexing::ByPolicy,
    }
}

pub(crate) fn json(text: &str) -> Value {
    Value::parse(text.as_bytes()).unwrap()
}

pub(crate) fn if_match(etag: &str) -> Option<Condition> {
    Some(Condition::Match(EtagPattern::Exact(etag.trim_matches('"').into())))
}

/// The item in a reply, parsed.
pub(crate) fn body(reply: &Reply) -> Value {
    match &reply.result {
        Ok(Outcome::Item { body, .. }) => Value::parse(&body.0).unwrap(),
        other => panic!("no item: {other:?}"),
    }
}

pub(crate) fn text(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

pub(crate) fn change(reply: &Reply) -> Change {
    match &reply.result {
        Ok(Outcome::Item { change, .. }) => *change,
        other => panic!("no item: {other:?}"),
    }
}

pub(crate) fn error(reply: &Reply) -> ErrorKind {
    match &reply.result {
        Err(error) => error.kind.clone(),
        Ok(outcome) => panic!("no error: {outcome:?}"),
    }
}

pub(crate) const KEY_PK: &str = r#""partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}"#;

//! The database: the one entry to everything below.
//!
//! [`Database::execute`] takes an operation through its stations: may the caller do it
//! (`access.rs`), which resource does it mean (`catalog/`), do it (`item/`, `resources/`), and what
//! does it cost (`pricing.rs`). It is async without a runtime: the only thing an operation ever
//! waits for is a commit's ticket. Operations on the catalog also make and drop partitions, which
//! blocks for a few milliseconds: run them on a thread that may wait (`wait.rs`).

use std::fmt;
use std::sync::Arc;

use partita_model::{
    Charge, Clock, Consistency, ContainerRid, Entropy, Error, ErrorKind, Etag, MemoryBudget,
    MemoryFigures, NoThreads, Result, ScriptKind, Threads, limits,
};
use partita_storage::{Disk, Status, Store};

use crate::access;
use crate::catalog::{CatalogStore, Container, DefaultThroughput};
use crate::context::{Access, Context, Work};
use crate::describe::QueryLog;
use crate::item::{LeftCommits, Overruns, Turns};
use crate::maintenance::Jobs;
use crate::moves::Moves;
use crate::op::{Op, Outcome, Reply};
use crate::pricing;
use crate::query::{PreparedQueries, ResultCache, Scheduler};
use crate::reopen::Reopening;
use crate::resources::fresh_etag;
use crate::script_runtime::ScriptRuntime;
use crate::throughput::{Budgets, ThroughputMode};

/// A database on a store. Cheap to share; all methods take `&self`.
pub struct Database {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) catalog: CatalogStore,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: EngineSettings,
    /// Tells this database from others that are open on the same store.
    pub(crate) process: u64,
    pub(crate) jobs: Jobs,
    pub(crate) reopening: Reopening,
    pub(crate) moves: Moves,
    pub(crate) left: LeftCommits,
    pub(crate) queries: QueryLog,
    pub(crate) scheduler: Scheduler,
    pub(crate) cache: Arc<ResultCache>,
    pub(crate) prepared: PreparedQueries,
    pub(crate) turns: Arc<Turns>,
    /// Which scripts exceeded their limits lately.
    pub(crate) overruns: Arc<Overruns>,
}

/// What can be chosen about a database.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// The consistency of requests that ask for none.
    pub default_consistency: Consistency,
    pub query: QuerySettings,
    pub partitions: PartitionSettings,
    pub change_feed: ChangeFeedSettings,
    pub throughput: ThroughputMode,
    pub default_throughput: DefaultThroughput,
    pub scripts: ScriptSettings,
    /// Where helper threads of queries come from.
    pub threads: Arc<dyn Threads>,
    /// What operations draw their working memory from.
    pub memory: MemoryBudget,
}

/// Who runs scripts, and how long one may take.
#[derive(Clone)]
pub struct ScriptSettings {
    /// None: scripts can be neither stored nor run.
    pub runtime: Option<Arc<dyn ScriptRuntime>>,
    /// The time of one run: the service's limit by default.
    pub run_millis_max: u64,
    /// Are scripts that exceed their limits again and again refused for a while?
    pub blocks: bool,
}

impl Default for ScriptSettings {
    fn default() -> ScriptSettings {
        ScriptSettings { runtime: None, run_millis_max: 5_000, blocks: true }
    }
}

impl fmt::Debug for ScriptSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptSettings")
            .field("runtime", &self.runtime.is_some())
            .field("run_millis_max", &self.run_millis_max)
            .field("blocks", &self.blocks)
            .finish()
    }
}

/// How far a partition may grow. The service's numbers by default; tests make them small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionSettings {
    /// Bytes of items at which a partition is split.
    pub bytes_max: u64,
    /// Request units per second that a partition can give: more need more partitions.
    pub ru_max: u32,
    /// Bytes of items under one partition key.
    pub logical_bytes_max: u64,
    /// How long a split or merge is announced before it begins, in seconds. At the service clients
    /// have minutes to see ranges that are splitting; with 0 they may see none.
    pub announced_seconds: u64,
}

impl Default for PartitionSettings {
    fn default() -> PartitionSettings {
        PartitionSettings {
            bytes_max: limits::PARTITION_BYTES_MAX,
            ru_max: limits::PARTITION_RU_MAX,
            logical_bytes_max: limits::LOGICAL_PARTITION_BYTES_MAX,
            announced_seconds: 0,
        }
    }
}

/// How far a page of a query may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuerySettings {
    /// Rows of a page when the client does not say: as the service does.
    pub page_rows_default: usize,
    /// Bytes of a page's rows; a page has at least one row if there is one.
    pub page_bytes_max: usize,
    /// Entries that one partition may look at for a page. A page that found little by then is
    /// returned as it is, to be continued.
    pub page_entries_max: u64,
    /// The same in time.
    pub page_millis_max: u64,
    /// Entries that one partition may look at for a result that cannot be cut into pages before it
    /// is complete (a sort without an index, GROUP BY, DISTINCT). More is an error.
    pub whole_entries_max: u64,
    /// The time of any query, above all of one with such a result.
    pub whole_millis_max: u64,
    /// Bytes of rows that a sort may hold. It finds fewer rows at a time when they are larger.
    pub sort_bytes_max: usize,
    /// Up to so many items of a partition, or of a partition key, are given oldest first where a
    /// query says no order. More come in the order of their keys: the service's order would take
    /// several times as long there, since items do not lie in the order of their age.
    pub age_order_items_max: u64,
    /// So few items are looked at one by one rather than asking an index about them.
    pub scan_items: u64,
    /// So few items that an index found are loaded and sorted, rather than walking another index
    /// that has their order.
    pub sort_items: u64,
    /// So many items are looked at, at most, to see whether a filter that no index answers is
    /// better decided on columns of the index than in a scan. 0: it is, without a look.
    pub sample_items: u64,
    /// Different rows of a DISTINCT.
    pub distinct_rows_max: usize,
    /// Bytes of the result cache: sets of items, columns and the like that queries found.
    pub cache_bytes_max: usize,
    /// What took fewer entries of an index to find is not cached.
    pub cache_entries_min: u64,
    /// Partitions asked at once.
    pub parallelism: usize,
    /// A query runs on one thread for this long before it calls helper threads. To wake one up
    /// takes longer than most queries do.
    pub helpers_after_micros: u64,
    /// The deadline of an inline attempt: of running a query on the thread of its request before it
    /// is handed to the pool. 0: queries are not attempted inline.
    pub inline_micros: u64,
    /// The same while no other operation is answered in the meantime.
    pub inline_quiet_micros: u64,
    /// Bytes of a continuation when the client does not say.
    pub token_bytes_max: usize,
}

impl QuerySettings {
    /// The same with no more time for a query. Its pages end early enough to be returned by then.
    pub fn limited(&self, millis_max: u64) -> QuerySettings {
        let whole_millis_max = self.whole_millis_max.min(millis_max);
        let page_millis_max = self.page_millis_max.min(whole_millis_max / 2);
        QuerySettings { whole_millis_max, page_millis_max, ..self.clone() }
    }
}

impl Default for QuerySettings {
    fn default() -> QuerySettings {
        QuerySettings {
            page_rows_default: 100,
            page_bytes_max: limits::RESPONSE_BYTES_MAX,
            page_entries_max: 1_000_000,
            page_millis_max: 3_000,
            whole_entries_max: 20_000_000,
            whole_millis_max: 60_000,
            sort_bytes_max: 64 << 20,
            age_order_items_max: 100_000,
            scan_items: 200,
            sort_items: 2_000,
            sample_items: 256,
            distinct_rows_max: 1_000_000,
            cache_bytes_max: 96 << 20,
            cache_entries_min: 16,
            parallelism: 4,
            helpers_after_micros: 150,
            inline_micros: 1_000,
            inline_quiet_micros: 5_000,
            token_bytes_max: 4 << 10,
        }
    }
}

/// How far a page of the change feed may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeFeedSettings {
    /// Items of a page when the client does not say: as the service does.
    pub page_items_default: usize,
    /// Bytes of a page's items; what was committed together stays together all the same.
    pub page_bytes_max: usize,
    /// Records of the feed that a page may look at. One that found nothing by then is returned
    /// empty, to be continued.
    pub page_entries_max: u64,
    /// The same in time.
    pub page_millis_max: u64,
    /// Superfluous records are looked for after so many commits at the earliest.
    pub trim_commits_min: u64,
    /// For how many minutes the feeds of containers whose policy does not say keep all versions;
    /// 0: they do not.
    pub retention_minutes: u32,
}

impl Default for ChangeFeedSettings {
    fn default() -> ChangeFeedSettings {
        ChangeFeedSettings {
            page_items_default: 100,
            page_bytes_max: limits::RESPONSE_BYTES_MAX,
            page_entries_max: 1_000_000,
            page_millis_max: 3_000,
            trim_commits_min: 10_000,
            retention_minutes: 0,
        }
    }
}

impl Default for EngineSettings {
    fn default() -> EngineSettings {
        EngineSettings {
            default_consistency: Consistency::Session,
            query: QuerySettings::default(),
            partitions: PartitionSettings::default(),
            change_feed: ChangeFeedSettings::default(),
            throughput: ThroughputMode::default(),
            default_throughput: DefaultThroughput::default(),
            scripts: ScriptSettings::default(),
            threads: Arc::new(NoThreads),
            memory: MemoryBudget::default(),
        }
    }
}

impl Database {
    /// What operations have reserved of their working memory.
    pub fn memory(&self) -> MemoryFigures {
        self.settings.memory.figures()
    }
}

/// A few numbers about a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseStatus {
    pub databases: usize,
    pub containers: usize,
    pub partitions: usize,
    pub throughput: ThroughputMode,
    pub store: Status,
}

impl Database {
    /// Opens the database that a store holds, or makes a new one in an empty store.
    pub fn open(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        settings: EngineSettings,
    ) -> Result<Arc<Database>> {
        let budgets = Budgets::new(settings.partitions.ru_max);
        let (kept, ticking) = (Arc::clone(&store), Arc::clone(&clock));
        let shown = settings.default_throughput;
        let catalog = CatalogStore::open(kept, ticking, budgets, shown, &*entropy)?;
        let process = entropy.next_u64();
        let moves = Moves::default();
        let scheduler = Scheduler::new(settings.query.parallelism, Arc::clone(&settings.threads));
        let cache = Arc::new(ResultCache::new(settings.query.cache_bytes_max));
        // What is due may have become so before a restart.
        moves.ask_for_a_look();
        Ok(Arc::new(Database {
            store,
            catalog,
            entropy,
            clock,
            settings,
            process,
            jobs: Jobs::default(),
            reopening: Reopening::default(),
            moves,
            left: LeftCommits::default(),
            queries: QueryLog::default(),
            scheduler,
            cache,
            prepared: PreparedQueries::default(),
            turns: Arc::default(),
            overruns: Arc::default(),
        }))
    }

    /// Does an operation.
    pub async fn execute(&self, op: Op, context: &Context) -> Reply {
        if let Some(reply) = self.execute_now(&op, context) {
            return reply;
        }
        let mut work = Work::new(context);
        let writes_an_item = op.writes_an_item();
        let result = match access::check(self, context, &op) {
            Ok(()) => self.dispatch(&mut work, op).await,
            Err(error) => Err(error),
        };
        if writes_an_item {
            self.charge_if_refused(&mut work, &result);
        }
        self.reply(work, result)
    }

    /// A write of an item that is refused for what is there costs more than the look that found it,
    /// for which the partition was charged already.
    pub(crate) fn charge_if_refused(&self, work: &mut Work<'_>, written: &Result<Outcome>) {
        if !written.as_ref().is_err_and(|error| is_for_what_is_there(&error.kind)) {
            return;
        }
        let (Some(container), Some(served)) = (work.container.clone(), &work.served) else {
            return;
        };
        let looked_at = served.range_id;
        let mut partitions = container.partitions.iter();
        let Some(partition) = partitions.find(|partition| partition.range_id == looked_at) else {
            return;
        };
        let consistency = self.consistency(work.context);
        let charged = pricing::charge(&work.usage, consistency);
        work.usage.refused_writes = 1;
        let whole = pricing::charge(&work.usage, consistency);
        self.settle(work, partition, Charge(whole.0 - charged.0), None);
    }

    /// Does an operation that never waits: a point read. None for all others, which are not begun.
    /// A future has room for the state of every operation; the most frequent one goes without.
    pub fn execute_now(&self, op: &Op, context: &Context) -> Option<Reply> {
        let Op::ReadItem { path, condition } = op else { return None };
        let mut work = Work::new(context);
        let result = access::check(self, context, op)
            .and_then(|()| self.read_item(&mut work, path, condition.as_ref()));
        Some(self.reply(work, result))
    }

    /// What an operation answers.
    pub(crate) fn reply(&self, work: Work<'_>, result: Result<Outcome>) -> Reply {
        self.scheduler.note_answer();
        let result = result.map_err(|error| self.explain(&work, error));
        let charge = pricing::charge(&work.usage, self.consistency(work.context)) + work.parts;
        let Work { served, container, log, kept: memory, .. } = work;
        Reply { result, charge, served, container, log, memory }
    }

    /// Refuses credentials that are good for nothing any more, for requests that need no operation.
    pub fn check_access(&self, access: &Access) -> Result<()> {
        access::check_standing(self, access)
    }

    /// A few numbers, read from memory.
    pub fn status(&self) -> DatabaseStatus {
        let catalog = self.catalog.current();
        let partitions = catalog.all_containers().map(|container| container.partitions.len()).sum();
        DatabaseStatus {
            databases: catalog.databases().count(),
            containers: catalog.all_containers().count(),
            partitions,
            throughput: self.settings.throughput,
            store: self.store.status(),
        }
    }

    /// Looks how much room the store's disk has. To be called several times a second; whoever
    /// maintains is woken if there is something to do about it.
    pub fn look_at_disk(&self) {
        self.store.look_at_disk();
        if self.store.is_stopped() || self.store.is_full() {
            self.jobs.ring();
        }
    }

    /// Gives operations so much less of their working memory until another number is told: the
    /// process takes more than it may. Some of them wait or are refused meanwhile.
    pub fn hold_back(&self, bytes: usize) {
        self.settings.memory.hold_back(bytes);
    }

    /// Lets go of what queries have found and remember. It is found again when it is asked for.
    pub fn forget_found(&self) {
        self.cache.forget();
    }

    /// What the last look at the store's disk saw, if it is on one and watched.
    pub fn disk(&self) -> Option<Disk> {
        self.store.disk()
    }

    /// Finishes what is under way and lets go of the store.
    pub fn close(&self) -> Result<()> {
        Ok(self.store.close()?)
    }

    async fn dispatch(&self, work: &mut Work<'_>, op: Op) -> Result<Outcome> {
        if op.writes_items() {
            self.check_session_form(work.context)?;
        }
        match op {
            Op::ReadItem { path, condition } => self.read_item(work, &path, condition.as_ref()),
            Op::CreateItem { container, item } => self.create_item(work, &container, item).await,
            Op::UpsertItem { container, item, condition } => {
                self.upsert_item(work, &container, item, condition).await
            }
            Op::ReplaceItem { path, item, condition } => {
                self.replace_item(work, &path, item, condition).await
            }
            Op::PatchItem { path, patch, filter, condition } => {
                self.patch_item(work, &path, patch, filter, condition).await
            }
            Op::DeleteItem { path, condition } => self.delete_item(work, &path, condition).await,
            Op::ListItems { container, scope, page } => {
                self.list_items(work, &container, &scope, &page)
            }
            Op::ReadChanges { container, request } => self.read_changes(work, &container, &request),
            Op::Query { container, query } => self.query(work, &container, &query, None),
            Op::PlanQuery { container, query } => self.plan_query(work, &container, &query),
            Op::Batch { container, operations, mode } => {
                self.run_batch(work, &container, operations, mode).await
            }
            Op::Import(import) => self.import_items(work, &import).await,
            Op::ExecuteProcedure(call) => self.execute_procedure(work, call).await,
            Op::Triggered { write, triggers } => {
                self.write_with_triggers(work, *write, &triggers).await
            }
            Op::DeletePartitionKey { container, partition_key } => {
                self.delete_partition_key(work, &container, partition_key.as_ref()).await
            }
            op => self.dispatch_resource(work, op).await,
        }
    }

    async fn dispatch_resource(&self, work: &mut Work<'_>, op: Op) -> Result<Outcome> {
        match op {
            Op::CreateDatabase { name, throughput } => {
                self.create_database(work, name, throughput).await
            }
            Op::ReadDatabase { database, condition } => {
                self.read_database(work, &database, condition.as_ref())
            }
            Op::DeleteDatabase { database, condition } => {
                self.delete_database(work, &database, condition).await
            }
            Op::ListDatabases { filter, page } => self.list_databases(work, filter.as_ref(), &page),
            Op::CreateContainer { database, body, throughput, key_required } => {
                self.create_container(work, &database, &body, throughput, key_required).await
            }
            Op::ReadContainer { container, condition } => {
                self.read_container(work, &container, condition.as_ref())
            }
            Op::ReplaceContainer { container, body, condition } => {
                self.replace_container(work, &container, &body, condition).await
            }
            Op::DeleteContainer { container, condition } => {
                self.delete_container(work, &container, condition).await
            }
            Op::ListContainers { database, filter, page, key_required } => {
                self.list_containers(work, &database, (filter.as_ref(), &page), key_required)
            }
            Op::ContainerStatistics { container } => self.container_statistics(work, &container),
            Op::ListPartitions { container, known, incremental } => {
                self.list_partitions(work, &container, known.as_ref(), incremental)
            }
            Op::DescribePartitions { container, top } => {
                self.describe_partitions(work, &container, top)
            }
            Op::RecentQueries { container } => self.recent_queries(work, &container),
            Op::LocateKey { container, key } => self.locate_key(work, &container, key),
            Op::SplitPartition { container, range_id, at } => {
                self.split_partition(work, &container, &range_id, &at).await
            }
            Op::MergePartitions { container, range_ids } => {
                self.merge_partitions(work, &container, &range_ids).await
            }
            Op::ListConflicts { container } => self.list_conflicts(work, &container),
            Op::FindConflict { container, id } => self.find_conflict(work, &container, &id),
            Op::ReadOffer { rid } => self.read_offer(work, &rid),
            Op::ReplaceOffer { rid, change, condition } => {
                self.replace_offer(work, &rid, change, condition).await
            }
            Op::ListOffers { filter, page } => self.list_offers(work, filter.as_ref(), &page),
            Op::QueryResources { list, query, page } => {
                self.query_resources(work, &list, &query, &page)
            }
            op => self.dispatch_child(work, op).await,
        }
    }

    /// What databases and containers have beside items.
    async fn dispatch_child(&self, work: &mut Work<'_>, op: Op) -> Result<Outcome> {
        match op {
            Op::User(op) => self.user_op(work, op).await,
            Op::EncryptionKey(op) => self.encryption_key_op(work, op).await,
            Op::Permission(op) => self.permission_op(work, op).await,
            Op::Script(op) => self.script_op(work, op).await,
            _ => Err(Error::internal("an operation went astray")),
        }
    }

    /// Who runs scripts of this kind.
    pub(crate) fn script_runtime(&self, kind: ScriptKind) -> Result<&dyn ScriptRuntime> {
        self.settings.scripts.runtime.as_deref().ok_or_else(|| {
            Error::unsupported(format!("Not supported by this server yet: {}s.", kind.name()))
        })
    }

    /// The consistency that a request is served with.
    pub(crate) fn consistency(&self, context: &Context) -> Consistency {
        context.consistency.unwrap_or(self.settings.default_consistency)
    }

    pub(crate) fn now_seconds(&self) -> u64 {
        self.clock.unix_millis() / 1_000
    }

    /// What every written resource gets: a new ETag and the time.
    pub(crate) fn fresh_stamp(&self) -> (Etag, u64) {
        let ts = self.now_seconds();
        (fresh_etag(&*self.entropy, ts), ts)
    }

    /// Refuses a request whose client knows the container under another resource id: the name was
    /// given to a new container since, and the client's idea of keys and ranges is outdated.
    pub(crate) fn check_intended(&self, work: &Work<'_>, container: &Container) -> Result<()> {
        access::check_container(&work.context.access, container)?;
        match &work.context.intended_container_rid {
            Some(rid) if ContainerRid::parse(rid) != Some(container.rid) => {
                return Err(Error::container_rid_mismatch(format!(
                    "The container's resource id is {}, not {rid} as the request says: it was \
                     re-created under the same name",
                    container.rid
                )));
            }
            Some(_) | None => {}
        }
        match work.context.range_container_rid {
            Some(rid) if rid != container.rid => Err(Error::new(
                ErrorKind::NameStale,
                format!(
                    "The container's resource id is {}, and the partition key range is named as \
                     one of {rid}: look the container's name up again",
                    container.rid
                ),
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// A container as it is now, if it is still there.
    pub(crate) fn container_by_rid(&self, rid: ContainerRid) -> Option<Arc<Container>> {
        self.catalog.current().container_by_rid(rid).map(Arc::clone)
    }

    /// A partition that vanishes under a request means that its container was deleted.
    pub(crate) fn explain(&self, work: &Work<'_>, error: Error) -> Error {
        let Some(container) = &work.container else { return error };
        if error.kind != ErrorKind::RetryWith {
            return error;
        }
        if self.container_by_rid(container.rid).is_some() {
            return error;
        }
        Error::owner_not_found(format!(
            "Resource Not Found: the container '{}' was deleted",
            container.definition.name
        ))
    }
}

/// Is a write refused for what is stored already?
pub(crate) fn is_for_what_is_there(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::Conflict | ErrorKind::PreconditionFailed)
}

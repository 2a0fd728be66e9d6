//! The database: the one entry to everything below.
//!
//! [`Database::execute`] takes an operation through its stations: may the caller do it (`access/`),
//! do it (one of the services), and what does it cost (`pricing.rs`). The services stand on what
//! all of them share (`core/`), each above those that it uses. It is async without a runtime: the
//! only thing an operation ever waits for is a commit's ticket. Operations on the catalog also make
//! and drop partitions, which blocks for a few milliseconds: run them on a thread that may wait
//! (`wait.rs`).

use std::sync::Arc;
use std::time::Duration;

use partita_model::{Clock, Entropy, Error, MemoryFigures, Result};
use partita_storage::{Disk, Status, Store};

use crate::access::{self, Access};
use crate::changes::Changes;
use crate::check::{self, CheckReport};
use crate::context::{Context, Work};
use crate::core::Core;
use crate::describe::{Alert, PartitionMetrics, Reports, Watch};
use crate::item::{Items, Turn};
use crate::maintenance::Maintainer;
use crate::moves::Moves;
use crate::op::{Effect, Op, Outcome, Reply};
use crate::pricing;
use crate::query::Queries;
use crate::resources::Resources;
use crate::script_runtime::Overruns;
use crate::settings::EngineSettings;
use crate::step::{Maintenance, MaintenanceBudget};
use crate::throughput::ThroughputMode;
use crate::wait::block_on;

/// A database on a store. Cheap to share; all methods take `&self`.
pub struct Database {
    pub(crate) core: Arc<Core>,
    pub(crate) queries: Arc<Queries>,
    pub(crate) items: Arc<Items>,
    moves: Arc<Moves>,
    changes: Changes,
    maintainer: Arc<Maintainer>,
    resources: Resources,
    reports: Reports,
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
        let core = Arc::new(Core::open(store, clock, entropy, settings)?);
        let overruns: Arc<Overruns> = Arc::default();
        let queries = Arc::new(Queries::new(Arc::clone(&core), Arc::clone(&overruns)));
        let moves = Arc::new(Moves::new(Arc::clone(&core)));
        let (below, asks) = (Arc::clone(&core), Arc::clone(&queries));
        let items = Arc::new(Items::new(below, asks, Arc::clone(&moves), overruns));
        let (below, moving) = (Arc::clone(&core), Arc::clone(&moves));
        let maintainer = Arc::new(Maintainer::new(below, moving, Arc::clone(&items)));
        Ok(Arc::new(Database {
            changes: Changes::new(Arc::clone(&core), Arc::clone(&queries)),
            resources: Resources::new(
                Arc::clone(&core),
                Arc::clone(&queries),
                Arc::clone(&moves),
                Arc::clone(&maintainer),
            ),
            reports: Reports::new(Arc::clone(&core)),
            core,
            queries,
            items,
            moves,
            maintainer,
        }))
    }

    /// Does an operation.
    pub async fn execute(&self, op: Op, context: &Context) -> Reply {
        if let Some(reply) = self.execute_now(&op, context) {
            return reply;
        }
        let mut work = Work::new(context);
        let writes_an_item = op.effect() == Effect::WritesItem;
        let result = match self.check_allowed(context, &op) {
            Ok(()) => self.dispatch(&mut work, op).await,
            Err(error) => Err(error),
        };
        if writes_an_item {
            self.core.charge_if_refused(&mut work, &result);
        }
        self.reply(work, result)
    }

    /// Does an operation that never waits: a point read. None for all others, which are not begun.
    /// A future has room for the state of every operation; the most frequent one goes without.
    pub fn execute_now(&self, op: &Op, context: &Context) -> Option<Reply> {
        let Op::ReadItem { path, condition } = op else { return None };
        let mut work = Work::new(context);
        let result = self
            .check_allowed(context, op)
            .and_then(|()| self.items.read_item(&mut work, path, condition.as_ref()));
        Some(self.reply(work, result))
    }

    /// Runs a query here if that takes little time. None: it is no query, or it takes longer, and
    /// is to be executed where nobody waits for the thread.
    pub fn try_inline(&self, op: &Op, context: &Context) -> Option<Reply> {
        let Op::Query { container, query } = op else { return None };
        let mut work = Work::new(context);
        let check = || self.check_allowed(context, op);
        let result = self.queries.attempt(&mut work, container, query, check)?;
        Some(self.reply(work, result))
    }

    /// Waits until it is an operation's turn on its logical partition. An operation that runs no
    /// script has no turn to wait for. One that will be refused does not stand in line either: it
    /// is for those who may see what is going on there.
    pub async fn turn(&self, op: &Op, context: &Context) -> Result<Option<Turn>> {
        match self.items.line_of(op) {
            Some(line) if self.check_allowed(context, op).is_ok() => {
                self.items.wait_in(line).await.map(Some)
            }
            Some(_) | None => Ok(None),
        }
    }

    /// What an operation answers.
    fn reply(&self, work: Work<'_>, result: Result<Outcome>) -> Reply {
        self.queries.note_answer();
        let result = result.map_err(|error| self.core.explain(&work, error));
        let consistency = self.core.consistency(work.context);
        let charge = pricing::charge(&work.usage, consistency) + work.parts;
        let Work { served, container, log, kept: memory, .. } = work;
        Reply { result, charge, served, container, log, memory }
    }

    /// May the caller do this?
    pub(crate) fn check_allowed(&self, context: &Context, op: &Op) -> Result<()> {
        access::check(&self.core.catalog, &context.access, op, &|path| {
            self.items.addressed_item(&mut Work::new(context), path)
        })
    }

    /// Refuses credentials that are good for nothing any more, for requests that need no operation.
    pub fn check_access(&self, access: &Access) -> Result<()> {
        access::check_standing(&self.core.catalog, access)
    }

    /// Takes one step of what there is to do in the background, on a thread that may wait for the
    /// store.
    pub fn maintain(&self, budget: &MaintenanceBudget) -> Result<Maintenance> {
        block_on(self.maintain_step(budget))
    }

    /// The same for whoever polls futures. A step that is dropped in the middle is one that was cut
    /// off: what it had begun is found again.
    pub async fn maintain_step(&self, budget: &MaintenanceBudget) -> Result<Maintenance> {
        self.maintainer.maintain_step(budget).await
    }

    /// Waits until there may be something to maintain, but not longer than told; false once
    /// [`Database::stop_maintenance`] was called.
    pub fn await_maintenance(&self, at_most: Option<Duration>) -> bool {
        self.core.doorbell.wait(at_most)
    }

    /// Sends home whoever waits for maintenance, now and later.
    pub fn stop_maintenance(&self) {
        self.core.doorbell.stop();
    }

    /// Reads everything and compares. Other writers must rest meanwhile.
    pub fn check(&self) -> Result<CheckReport> {
        check::check(&self.core)
    }

    /// Looks at all partitions, from memory as far as possible. Answers what is new since the last
    /// look.
    pub fn watch(&self, watch: &mut Watch) -> Vec<Alert> {
        self.reports.watch(watch)
    }

    /// What every partition holds, as far as it can be read: one that goes away meanwhile, with its
    /// container or by a split, is left out.
    pub fn partition_metrics(&self) -> Vec<PartitionMetrics> {
        self.reports.partition_metrics()
    }

    /// What operations have reserved of their working memory.
    pub fn memory(&self) -> MemoryFigures {
        self.core.settings.memory.figures()
    }

    /// A few numbers, read from memory.
    pub fn status(&self) -> DatabaseStatus {
        let catalog = self.core.catalog.current();
        let partitions = catalog.all_containers().map(|container| container.partitions.len()).sum();
        DatabaseStatus {
            databases: catalog.databases().count(),
            containers: catalog.all_containers().count(),
            partitions,
            throughput: self.core.settings.throughput,
            store: self.core.store.status(),
        }
    }

    /// Looks how much room the store's disk has. To be called several times a second; whoever
    /// maintains is woken if there is something to do about it.
    pub fn look_at_disk(&self) {
        let store = &self.core.store;
        store.look_at_disk();
        if store.is_stopped() || store.is_full() {
            self.core.doorbell.ring();
        }
    }

    /// Gives operations so much less of their working memory until another number is told: the
    /// process takes more than it may. Some of them wait or are refused meanwhile.
    pub fn hold_back(&self, bytes: usize) {
        self.core.settings.memory.hold_back(bytes);
    }

    /// Lets go of what queries have found and remember. It is found again when it is asked for.
    pub fn forget_found(&self) {
        self.queries.forget_found();
    }

    /// What the last look at the store's disk saw, if it is on one and watched.
    pub fn disk(&self) -> Option<Disk> {
        self.core.store.disk()
    }

    /// Finishes what is under way and lets go of the store.
    pub fn close(&self) -> Result<()> {
        Ok(self.core.store.close()?)
    }

    async fn dispatch(&self, work: &mut Work<'_>, op: Op) -> Result<Outcome> {
        if matches!(op.effect(), Effect::WritesItem | Effect::WritesItems) {
            self.core.check_session_form(work.context)?;
        }
        match op {
            Op::ReadItem { path, condition } => {
                self.items.read_item(work, &path, condition.as_ref())
            }
            Op::CreateItem { container, item } => {
                self.items.create_item(work, &container, item).await
            }
            Op::UpsertItem { container, item, condition } => {
                self.items.upsert_item(work, &container, item, condition).await
            }
            Op::ReplaceItem { path, item, condition } => {
                self.items.replace_item(work, &path, item, condition).await
            }
            Op::PatchItem { path, patch, filter, condition } => {
                self.items.patch_item(work, &path, patch, filter, condition).await
            }
            Op::DeleteItem { path, condition } => {
                self.items.delete_item(work, &path, condition).await
            }
            Op::ListItems { container, scope, page } => {
                self.items.list_items(work, &container, &scope, &page)
            }
            Op::ReadChanges { container, request } => {
                self.changes.read_changes(work, &container, &request)
            }
            Op::Query { container, query } => self.queries.query(work, &container, &query, None),
            Op::PlanQuery { container, query } => self.queries.plan_query(work, &container, &query),
            Op::Batch { container, operations, mode } => {
                self.items.run_batch(work, &container, operations, mode).await
            }
            Op::Import(import) => self.items.import_items(work, &import).await,
            Op::ExecuteProcedure(call) => self.items.execute_procedure(work, call).await,
            Op::Triggered { write, triggers } => {
                self.items.write_with_triggers(work, *write, &triggers).await
            }
            Op::DeletePartitionKey { container, partition_key } => {
                self.items.delete_partition_key(work, &container, partition_key.as_ref()).await
            }
            op => self.dispatch_resource(work, op).await,
        }
    }

    async fn dispatch_resource(&self, work: &mut Work<'_>, op: Op) -> Result<Outcome> {
        match op {
            Op::CreateDatabase { name, throughput } => {
                self.resources.create_database(work, name, throughput).await
            }
            Op::ReadDatabase { database, condition } => {
                self.resources.read_database(work, &database, condition.as_ref())
            }
            Op::DeleteDatabase { database, condition } => {
                self.resources.delete_database(work, &database, condition).await
            }
            Op::ListDatabases { filter, page } => {
                self.resources.list_databases(work, filter.as_ref(), &page)
            }
            Op::CreateContainer { database, body, throughput, key_required } => {
                self.resources
                    .create_container(work, &database, &body, throughput, key_required)
                    .await
            }
            Op::ReadContainer { container, condition } => {
                self.resources.read_container(work, &container, condition.as_ref())
            }
            Op::ReplaceContainer { container, body, condition } => {
                self.resources.replace_container(work, &container, &body, condition).await
            }
            Op::DeleteContainer { container, condition } => {
                self.resources.delete_container(work, &container, condition).await
            }
            Op::ListContainers { database, filter, page, key_required } => self
                .resources
                .list_containers(work, &database, (filter.as_ref(), &page), key_required),
            Op::ContainerStatistics { container } => {
                self.resources.container_statistics(work, &container)
            }
            Op::ListPartitions { container, known, incremental } => {
                self.resources.list_partitions(work, &container, known.as_ref(), incremental)
            }
            Op::DescribePartitions { container, top } => {
                self.reports.describe_partitions(work, &container, top)
            }
            Op::RecentQueries { container } => self.queries.recent_queries(work, &container),
            Op::LocateKey { container, key } => self.reports.locate_key(work, &container, key),
            Op::SplitPartition { container, range_id, at } => {
                self.moves.split_partition(work, &container, &range_id, &at).await
            }
            Op::MergePartitions { container, range_ids } => {
                self.moves.merge_partitions(work, &container, &range_ids).await
            }
            Op::ListConflicts { container } => self.resources.list_conflicts(work, &container),
            Op::FindConflict { container, id } => {
                self.resources.find_conflict(work, &container, &id)
            }
            Op::ReadOffer { rid } => self.resources.read_offer(work, &rid),
            Op::ReplaceOffer { rid, change, condition } => {
                self.resources.replace_offer(work, &rid, change, condition).await
            }
            Op::ListOffers { filter, page } => {
                self.resources.list_offers(work, filter.as_ref(), &page)
            }
            Op::QueryResources { list, query, page } => {
                self.resources.query_resources(work, &list, &query, &page)
            }
            op => self.dispatch_child(work, op).await,
        }
    }

    /// What databases and containers have beside items.
    async fn dispatch_child(&self, work: &mut Work<'_>, op: Op) -> Result<Outcome> {
        match op {
            Op::User(op) => self.resources.user_op(work, op).await,
            Op::EncryptionKey(op) => self.resources.encryption_key_op(work, op).await,
            Op::Permission(op) => self.resources.permission_op(work, op).await,
            Op::Script(op) => self.resources.script_op(work, op).await,
            _ => Err(Error::internal("an operation went astray")),
        }
    }
}

//! Queries over the items of a container.
//!
//! **The life of a page.** `mod.rs` resolves the container → `prepared.rs` has the query parsed and
//! lowered (`partita_query`), or does so now → `route.rs` finds the partitions to ask and decides
//! whether the server may answer at all → `token.rs` and `cursor.rs` tell where the page before
//! ended → `stream.rs` brings the rows of all partitions in order, asking several at once
//! (`scheduler/leaves.rs`), each of which finds and evaluates its items (`leaf/`) → `page.rs`
//! applies DISTINCT, OFFSET, LIMIT and TOP and stops in time → `token.rs` writes down where. On
//! which threads all this happens is decided in `scheduler/`.
//!
//! Invariants:
//! - No view outlives the request. Between two pages there is nothing but the token.
//! - A token speaks of EPKs, keys and resource ids, never of partitions.
//! - The number of threads changes nothing but the time.
//! - A query whose result would be wrong or endless is an error, never an approximation.

mod area;
mod cache;
mod cursor;
mod functions;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod leaf;
mod log;
mod page;
mod places;
mod prepared;
mod route;
mod scheduler;
mod stream;
mod token;

pub(crate) use self::area::{Area, area, gone};

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use partita_model::{EpkRange, Error, ErrorKind, KeyPart, MemoryShare, Result};
use partita_query::{
    IndexSpec, Interrupt, PartitionFilter, PlanRequest, Query, ScopeSettings, evaluate,
    index_metrics, plan,
};
use partita_storage::Snapshot;

pub(crate) use self::scheduler::leaves::Inside;

use self::cache::ResultCache;
use self::cursor::{Cursor, Progress};
use self::leaf::Budget;
use self::log::QueryLog;
use self::page::Page;
use self::places::{Order, SortPosition};
use self::prepared::{Prepared, PreparedQueries};
use self::scheduler::{Attempt, Scheduler};
use self::stream::Stream;
use self::token::compact::Doubt;
use self::token::{Binding, Decoded};
use crate::catalog::Container;
use crate::context::{Supervision, Tally, Work};
use crate::core::{Core, Debit};
use crate::op::{
    ContainerPath, IndexUse, LeafReport, Outcome, PageRequest, PlanQueryRequest, QueryReport,
    QueryRequest, Scope,
};
use crate::pricing;
use crate::script_runtime::Overruns;
use crate::settings::QuerySettings;

/// How often a page is begun when the indexing policy changes under it.
const BEGUN_MAX: usize = 5;

/// The query that a feed is.
const ALL_ITEMS: &str = "SELECT * FROM c";

/// The queries of a database, and what is kept in memory for them.
pub(crate) struct Queries {
    core: Arc<Core>,
    scheduler: Scheduler,
    cache: Arc<ResultCache>,
    prepared: PreparedQueries,
    log: QueryLog,
    overruns: Arc<Overruns>,
}

/// A page of items.
pub(crate) struct ItemPage {
    pub(crate) items: Vec<String>,
    pub(crate) continuation: Option<String>,
    pub(crate) reports: Vec<LeafReport>,
}

/// A page of a query under way: what everybody has to know.
struct Job<'a> {
    queries: &'a Queries,
    container: &'a Arc<Container>,
    request: &'a QueryRequest,
    query: &'a Query,
    /// Time and chance, as the query's functions see them.
    scope: ScopeSettings,
    budget: Budget<'a>,
    /// The EPKs that the request names.
    area: EpkRange,
    /// The partition key, or its beginning, that the request names.
    only: Vec<KeyPart>,
    inside: Option<&'a Inside>,
    cache: Arc<ResultCache>,
    /// The working memory of the query, or of the transaction that it is part of.
    memory: MemoryShare,
    /// None: the query has all the time of its page.
    attempt: Option<&'a Attempt>,
    tally: Option<Arc<Tally>>,
    debit: Option<Debit>,
}

impl<'a> Job<'a> {
    fn new(
        queries: &'a Queries,
        container: &'a Arc<Container>,
        request: &'a QueryRequest,
        (query, area): (&'a Query, Area),
        (settings, supervision): (&'a QuerySettings, &'a Arc<Supervision>),
        inside: Option<&'a Inside>,
    ) -> Job<'a> {
        Job {
            queries,
            container,
            request,
            query,
            scope: interrupted(supervision),
            budget: Budget {
                settings,
                clock: &*queries.core.clock,
                started_nanos: queries.core.clock.monotonic_nanos(),
                now_seconds: queries.core.now_seconds(),
                watch: None,
                supervision,
            },
            area: area.range,
            only: area.only,
            inside,
            // What a transaction sees is nobody else's business, and comes on top of what all
            // remember.
            cache: match inside {
                Some(inside) => {
                    let bytes_max = settings.cache_bytes_max.min(inside.memory.bytes_max() / 8);
                    Arc::new(ResultCache::new(bytes_max))
                }
                None => Arc::clone(&queries.cache),
            },
            memory: match inside {
                Some(inside) => inside.memory.clone(),
                None => queries.core.settings.memory.share(),
            },
            attempt: None,
            tally: None,
            debit: None,
        }
    }
}

/// The surroundings of evaluations that may be ended.
fn interrupted(supervision: &Arc<Supervision>) -> ScopeSettings {
    let interrupt: Arc<dyn Interrupt> = Arc::<Supervision>::clone(supervision);
    ScopeSettings { interrupt: Some(interrupt), ..ScopeSettings::default() }
}

impl Job<'_> {
    /// A view of a partition, for the time of a round.
    fn open(&self, work: &mut Work<'_>, partition: usize) -> Result<Box<dyn Snapshot>> {
        if let Some(inside) = self.inside {
            return Ok(Box::new(Arc::clone(&inside.view)));
        }
        let asked = self.container.served_at(partition);
        let (partition, live) =
            asked.ok_or_else(|| Error::internal("a query asks a partition that is not there"))?;
        self.queries.core.admit_once(work, live)?;
        let view = self.queries.core.open_partition(work, partition)?;
        self.queries.core.check_session(work, partition, view.lsn())?;
        if !self.queries.core.catalog.has_policy_of(self.container) {
            // The view may show items that a later policy keeps out of the indexes known here.
            return Err(Error::retry_with("The indexing policy changed meanwhile: retry"));
        }
        Ok(view)
    }

    fn binding(&self) -> Binding<'_> {
        Binding {
            secret: self.queries.core.catalog.secret(),
            container: self.container.rid,
            request: self.request,
            facts: self.query.facts(),
            area: &self.area,
        }
    }
}

impl Queries {
    /// `overruns`: which user-defined functions exceeded their limits lately.
    pub(crate) fn new(core: Arc<Core>, overruns: Arc<Overruns>) -> Queries {
        let settings = &core.settings;
        let scheduler = Scheduler::new(settings.query.parallelism, Arc::clone(&settings.threads));
        let cache = Arc::new(ResultCache::new(settings.query.cache_bytes_max));
        let (prepared, log) = (PreparedQueries::default(), QueryLog::default());
        Queries { core, scheduler, cache, prepared, log, overruns }
    }

    /// Empties the result cache.
    pub(crate) fn forget_found(&self) {
        self.cache.forget();
    }

    pub(crate) fn query(
        &self,
        work: &mut Work<'_>,
        path: &ContainerPath,
        request: &QueryRequest,
        attempt: Option<&Attempt>,
    ) -> Result<Outcome> {
        self.with_policy(work, path, attempt, |work, container| {
            self.query_container(work, container, request, None, attempt)
        })
    }

    /// Runs something that reads a container by its indexes, again if the indexing policy changes
    /// meanwhile. Its failure is charged to the partitions that were asked, unless an attempt was
    /// given up.
    pub(crate) fn with_policy<T>(
        &self,
        work: &mut Work<'_>,
        path: &ContainerPath,
        attempt: Option<&Attempt>,
        mut run: impl FnMut(&mut Work<'_>, &Arc<Container>) -> Result<T>,
    ) -> Result<T> {
        // An attempt leaves nothing behind.
        work.tally = attempt.is_none().then(Arc::default);
        let mut begun = 1;
        let result = loop {
            let container = match self.core.item_container(work, path) {
                Ok(resolved) => resolved.container,
                Err(error) => break Err(error),
            };
            match run(work, &container) {
                Err(error)
                    if error.kind == ErrorKind::RetryWith
                        && !self.core.catalog.has_policy_of(&container)
                        && begun < BEGUN_MAX =>
                {
                    begun += 1;
                }
                result => break result,
            }
        };
        if let Err(error) = &result
            && !attempt.is_some_and(Attempt::is_given_up)
        {
            self.charge_failed(work, error);
        }
        result
    }

    /// A page of a query on a container, possibly inside a transaction or as an inline attempt.
    pub(crate) fn query_container(
        &self,
        work: &mut Work<'_>,
        container: &Arc<Container>,
        request: &QueryRequest,
        inside: Option<&Inside>,
        attempt: Option<&Attempt>,
    ) -> Result<Outcome> {
        let started_nanos = self.core.clock.monotonic_nanos();
        work.usage.queries = 1;
        let prepared = self.prepared.get(container, request)?;
        let Prepared { query, filter } = &*prepared;
        let compiled_nanos = self.core.clock.monotonic_nanos();
        let area = area(container, &request.scope)?;
        route::check(container, request, query, &area, filter)?;
        let by_row = self.by_row(container, request, (query, filter), &area)?;
        let query = by_row.as_ref().unwrap_or(query);
        if let Some(attempt) = attempt
            && !scheduler::may_be_brief(query.facts())
        {
            return Err(attempt.give_up());
        }
        let settings = self.query_settings(work, inside);
        let supervision = self.supervision(work, started_nanos, settings.whole_millis_max);
        let limits = (&*settings, &supervision);
        let mut job = Job::new(self, container, request, (query, area), limits, inside);
        let interrupt = job.scope.interrupt.take();
        let memory = job.memory.clone();
        let scope = self.query_scope(container, query, &supervision)?;
        job.scope = ScopeSettings { interrupt, memory, ..scope };
        job.budget.started_nanos = started_nanos;
        job.attempt = attempt;
        job.tally = work.tally.clone();
        // What is given up, or part of a transaction, is not owed here.
        job.debit = match (inside, attempt) {
            (None, None) => self.core.debit(work),
            _ => None,
        };
        let routed_nanos = self.core.clock.monotonic_nanos();
        let page = job.run(work, filter);
        if let Some(attempt) = attempt
            && attempt.is_given_up()
        {
            return Err(attempt.give_up());
        }
        if inside.is_none() {
            self.log.note(container, request);
        }
        let page = page?;
        job.note_served(work)?;
        let mut report = job.report(work, &page);
        if inside.is_none() {
            job.charge(work, &report);
        }
        report.compile_nanos = compiled_nanos.saturating_sub(started_nanos);
        report.route_nanos = routed_nanos.saturating_sub(compiled_nanos);
        report.total_nanos = self.core.clock.monotonic_nanos().saturating_sub(started_nanos);
        job.name_indexes(&mut report)?;
        let continuation = job.continuation(&page);
        // What a transaction reads is its own.
        if inside.is_none() {
            work.kept.push(page.memory);
        }
        Ok(Outcome::Query { rows: page.rows, continuation, report: Box::new(report) })
    }

    /// The limits of a query; inside a transaction it has no more time than that, and it may have
    /// less than the database's.
    pub(crate) fn query_settings(
        &self,
        work: &Work<'_>,
        inside: Option<&Inside>,
    ) -> Cow<'_, QuerySettings> {
        match (inside, work.context.query_millis_max) {
            (Some(inside), _) => Cow::Owned(inside.limited(&self.core.settings.query)),
            (None, Some(millis)) => Cow::Owned(self.core.settings.query.limited(millis)),
            (None, None) => Cow::Borrowed(&self.core.settings.query),
        }
    }

    /// Who may end an operation that began then.
    pub(crate) fn supervision(
        &self,
        work: &Work<'_>,
        started_nanos: u64,
        millis_max: u64,
    ) -> Arc<Supervision> {
        let supervisor = work.context.supervisor.clone();
        Supervision::new(supervisor, &self.core.clock, started_nanos, millis_max)
    }

    /// A page of all items in a part of a container, possibly inside a transaction: those of a
    /// query without a filter. Nobody is charged.
    pub(crate) fn all_items(
        &self,
        work: &mut Work<'_>,
        container: &Arc<Container>,
        scope: &Scope,
        page: PageRequest,
        inside: Option<&Inside>,
    ) -> Result<ItemPage> {
        static ALL: LazyLock<Result<Query>> = LazyLock::new(|| Query::parse(ALL_ITEMS, &[], &[]));
        let query = ALL.as_ref().map_err(Error::clone)?;
        let scope = scope.clone();
        let request = QueryRequest { scope, page, explain: false, ..QueryRequest::new(ALL_ITEMS) };
        let area = area(container, &request.scope)?;
        let settings = self.query_settings(work, inside);
        let started_nanos = self.core.clock.monotonic_nanos();
        let supervision = self.supervision(work, started_nanos, settings.whole_millis_max);
        let limits = (&*settings, &supervision);
        let mut job = Job::new(self, container, &request, (query, area), limits, inside);
        job.tally = work.tally.clone();
        let page = job.run(work, &PartitionFilter::All)?;
        if inside.is_none() {
            job.note_served(work)?;
        }
        let continuation = job.continuation(&page);
        // What a transaction reads is its own.
        if inside.is_none() {
            work.kept.push(page.memory);
        }
        Ok(ItemPage { items: page.rows, continuation, reports: page.reports })
    }

    /// A DISTINCT of one value, in the order of this value, if the index has it for all items. What
    /// began in that order goes on in it.
    fn by_row(
        &self,
        container: &Container,
        request: &QueryRequest,
        (query, filter): (&Query, &PartitionFilter),
        area: &Area,
    ) -> Result<Option<Query>> {
        let Some(ordered) = query.ordered_by_row() else { return Ok(None) };
        if let Some(token) = &request.page.continuation {
            let (secret, facts) = (self.core.catalog.secret(), query.facts());
            let (container, area) = (container.rid, &area.range);
            let binding = Binding { secret, container, request, facts, area };
            return Ok(token::decode(&binding, token)?.is_sorted().then_some(ordered));
        }
        let is_told = container.definition.default_ttl.is_none()
            && area.only.is_empty()
            && *filter == PartitionFilter::All
            && query.facts().row_path().is_some_and(|path| {
                container.served_policy().indexes(path)
                    && leaf::is_answered_by_walk(query.access(), &[path])
            });
        Ok(is_told.then_some(ordered))
    }

    /// What the functions of a query find: the time, chance, and those that users defined.
    pub(crate) fn query_scope(
        &self,
        container: &Container,
        query: &Query,
        supervision: &Arc<Supervision>,
    ) -> Result<ScopeSettings> {
        let now_ticks = self.core.clock.unix_millis() * TICKS_PER_MILLI;
        Ok(ScopeSettings {
            now_ticks,
            static_now_ticks: now_ticks,
            random_seed: self.core.entropy.next_u64(),
            functions: self.functions(container, &query.facts().udfs, supervision)?,
            ..ScopeSettings::default()
        })
    }

    /// How a client would run a query on the partitions.
    pub(crate) fn plan_query(
        &self,
        work: &mut Work<'_>,
        path: &ContainerPath,
        request: &PlanQueryRequest,
    ) -> Result<Outcome> {
        let container = self.core.item_container(work, path)?.container;
        work.usage.metadata_reads = 1;
        let definition = &container.definition;
        let has_logical_partition_key = match &request.partition_key {
            Some(header) => header.0.len() == definition.partition_key.paths.len(),
            None => false,
        };
        let plan = plan(&PlanRequest {
            text: &request.text,
            parameters: &request.parameters,
            partition_key: &definition.partition_key,
            features: request.features.as_deref(),
            has_logical_partition_key,
            vector: definition.vector_embeddings.as_ref(),
            geospatial: definition.geospatial,
        })?;
        Ok(Outcome::Plan { plan: plan.to_value() })
    }
}

fn index_use(index: IndexSpec) -> IndexUse {
    let (paths, composite) = match index {
        IndexSpec::Single(path) => (vec![path], false),
        IndexSpec::Composite(paths) => (paths, true),
    };
    IndexUse { paths, composite, precise: true }
}

/// The query language counts time in units of 100 ns.
const TICKS_PER_MILLI: u64 = 10_000;

impl Job<'_> {
    fn run(&mut self, work: &mut Work<'_>, filter: &PartitionFilter) -> Result<Page> {
        let (before, doubt) = self.before(work)?;
        let facts = self.query.facts();
        let mut page = Page::new(self, before.as_ref());
        if let Some(before) = &before {
            self.scope.static_now_ticks = before.started_ticks;
        }
        if !facts.has_from {
            let rows = evaluate(self.query, &[], &self.scope);
            work.usage.long_steps += self.budget.supervision.long_steps();
            page.rows = rows?;
            page.bytes = page.rows.iter().map(String::len).sum();
            return Ok(page);
        }
        if let Some(Progress { cursor: Cursor::Counted { area: counted }, .. }) = &before {
            // Counted over a partition that was split since: the first part goes on for all.
            if !self.area.contains(&counted.min) {
                return Ok(page);
            }
            self.area = counted.clone();
        }
        let units = route::units(self.container, &self.area, filter);
        if facts.is_grouped || facts.distinct || facts.ordered {
            // Such a page needs all of them: it must not fail half-way.
            self.admit_all(work, &units)?;
        }
        if facts.is_grouped {
            page.grouped(self, work, &units)?;
            return Ok(page);
        }
        if facts.distinct && !facts.ordered && self.request.resume.is_none() {
            page.distinct(self, work, self.families(units))?;
            return Ok(page);
        }
        let mut stream = self.stream(units, before.map(|before| before.cursor), doubt)?;
        match facts.distinct {
            true if facts.is_ordered_by_row() => page.distinct_in_order(self, work, &mut stream)?,
            true => page.distinct(self, work, vec![vec![stream]])?,
            false => page.plain(self, work, &mut stream)?,
        }
        Ok(page)
    }

    /// One stream after the other; those of partitions that were one before they were split go
    /// together. So the order does not change if that happens between two pages.
    fn families(&self, units: Vec<cursor::Unit>) -> Vec<Vec<Stream>> {
        let root = |unit: &cursor::Unit| {
            let partition = self.container.partitions.get(unit.partition)?;
            Some(partition.parents.first().copied().unwrap_or(partition.range_id))
        };
        let (mut families, mut alone) = (Vec::new(), Vec::new());
        for family in units.chunk_by(|a, b| root(a) == root(b)) {
            if let [unit] = family {
                alone.push(unit.clone());
                continue;
            }
            if !alone.is_empty() {
                families.push(vec![Stream::unordered(std::mem::take(&mut alone))]);
            }
            let one =
                |unit: &cursor::Unit| Stream::unordered(vec![unit.clone()]).one_of(family.len());
            families.push(family.iter().map(one).collect());
        }
        families.extend((!alone.is_empty()).then(|| vec![Stream::unordered(alone)]));
        families
    }

    /// Clients want to know a partition and its LSN, also from a query that had to ask none.
    fn note_served(&self, work: &mut Work<'_>) -> Result<()> {
        if let (None, Some(partition)) = (&work.served, self.first()) {
            self.queries.core.open_partition(work, partition)?;
        }
        Ok(())
    }

    /// How far the pages before have come.
    fn before(&self, work: &mut Work<'_>) -> Result<(Option<Progress>, Option<Doubt>)> {
        let Some(token) = &self.request.page.continuation else { return Ok((None, None)) };
        match token::decode(&self.binding(), token)? {
            Decoded::Whole(progress) => Ok((Some(progress), None)),
            Decoded::Short(short) => {
                let (progress, doubt) = short.complete(self, work)?;
                Ok((Some(progress), doubt))
            }
        }
    }

    fn stream(
        &self,
        units: Vec<cursor::Unit>,
        cursor: Option<Cursor>,
        doubt: Option<Doubt>,
    ) -> Result<Stream> {
        let facts = self.query.facts();
        if !facts.ordered {
            if self.request.resume.is_some() {
                return Err(Error::bad_request(
                    "The query's resumeFilter is invalid: the query has no ORDER BY",
                ));
            }
            let units = match cursor {
                Some(Cursor::Spread { from, stretches }) => {
                    cursor::remaining(units, &from, &stretches)
                }
                Some(Cursor::Sorted(_) | Cursor::Counted { .. }) | None => units,
            };
            return Ok(Stream::unordered(units));
        }
        let order = Order::of(facts);
        let after = match cursor {
            Some(Cursor::Sorted(position)) => Some(position),
            Some(Cursor::Spread { .. } | Cursor::Counted { .. }) | None => None,
        };
        let after = self.resumed(&order, after)?;
        let mut stream = Stream::ordered(units, order, after, doubt);
        if facts.distinct && facts.is_ordered_by_row() {
            stream.begin_with_keys();
        }
        Ok(stream)
    }

    /// The later of two places: where the page before ended, and where the client wants to begin.
    fn resumed(&self, order: &Order, after: Option<SortPosition>) -> Result<Option<SortPosition>> {
        let Some(filter) = &self.request.resume else { return Ok(after) };
        let columns = self.query.facts().order.len();
        let wanted = cursor::resume_place(self.container, order, columns, filter)?;
        Ok(Some(match after {
            Some(after) if order.compare(&after, &wanted).is_ge() => after,
            Some(_) | None => wanted,
        }))
    }

    fn continuation(&self, page: &Page) -> Option<String> {
        let progress = page.progress(self.scope.static_now_ticks)?;
        let settings = self.budget.settings;
        let bytes_max = self.request.token_bytes_max.unwrap_or(settings.token_bytes_max);
        let paths = self.container.definition.partition_key.paths.len();
        Some(token::encode(&self.binding(), paths, &progress, bytes_max))
    }

    /// The indexes that serve the query, and those that would: as far as its text tells.
    fn name_indexes(&self, report: &mut QueryReport) -> Result<()> {
        if !self.request.explain {
            return Ok(());
        }
        let QueryRequest { text, parameters, .. } = self.request;
        let metrics = index_metrics(text, parameters, &self.container.definition.indexing)?;
        // An index that is being made serves nobody yet.
        if self.container.policies.former.is_empty() {
            report.indexes_serving = metrics.utilized.into_iter().map(index_use).collect();
        }
        report.indexes_missing = metrics.potential.into_iter().map(index_use).collect();
        Ok(())
    }

    /// Adds up what the page took.
    fn report(&self, work: &mut Work<'_>, page: &Page) -> QueryReport {
        for leaf in &page.reports {
            work.usage += &leaf.usage();
        }
        let facts = self.query.facts();
        let consistency = self.queries.core.consistency(work.context);
        QueryReport {
            leaves: page.reports.clone(),
            rows: page.rows.len() as u64,
            bytes: page.bytes as u64,
            charge: pricing::charge(&work.usage, consistency),
            tie_order: facts.ordered.then(|| Order::of(facts).tie_order()),
            ..QueryReport::default()
        }
    }
}

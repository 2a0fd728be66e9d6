//! What a page asks of its units of work, and what one answers.
//!
//! A round asks some units the same question. Each is answered from a view of its partition that
//! is taken when the round begins and let go when it ends. Which threads do it is the scheduler's
//! business (`mod.rs`): what they need to know is in [`Asked`], and a [`Task`] is one unit
//! with its view.
//!
//! A query inside a transaction sees the view of that ([`Inside`]).
//!
//! If a page takes the units in turn, those behind the one that fills it need not be asked
//! ([`Common::enough`]). A thread that has begun one of them finishes it in vain.

use std::cell::OnceCell;
use std::ops::ControlFlow;
use std::sync::Arc;

use partita_model::{Clock, Error, KeyPart, MemoryShare, Reservation, Result};
use partita_query::{Groups, Query, Row, ScopeSettings};
use partita_storage::Snapshot;

use super::super::Job;
use super::super::cache::ResultCache;
use super::super::cursor::Unit;
use super::super::leaf::{Budget, End, Leaf};
use super::super::places::{LeafRow, PlaceList, Position};
use super::threads::{Common, Enough, Watch};
use crate::catalog::Container;
use crate::context::{Supervision, Tally, Work};
use crate::core::Debit;
use crate::memory;
use crate::op::{LeafReport, PlanHint};
use crate::settings::QuerySettings;

/// What is asked of every unit.
#[derive(Clone, Copy)]
pub(in crate::query) enum Question {
    /// So many rows, no more bytes, and no more than they may take of each unit in memory. In turn:
    /// of all units together.
    Rows {
        want: usize,
        bytes_max: usize,
        memory_max: usize,
        in_turn: bool,
    },
    /// So many places where rows are, to be asked for later; rows where places cannot be told.
    Places {
        want: usize,
        bytes_max: usize,
        memory_max: usize,
    },
    /// The rows of the places that come with the units: of the first, if all would take more memory
    /// than this.
    RowsAt {
        memory_max: usize,
    },
    Groups,
}

/// What a unit answered.
pub(in crate::query) struct Answer {
    pub(in crate::query) rows: Vec<LeafRow>,
    /// Instead of rows: where they are, if that can be told. With rows: the places of these.
    pub(in crate::query) places: Option<PlaceList>,
    /// The row of each place that was asked for.
    pub(in crate::query) rows_at: Vec<Option<Row>>,
    /// The view that has what is at the places.
    pub(in crate::query) view: Option<Box<dyn Snapshot>>,
    pub(in crate::query) end: End,
    pub(in crate::query) groups: Option<Groups>,
    pub(in crate::query) report: LeafReport,
    /// Of rows and places.
    pub(in crate::query) memory: Reservation,
}

/// A unit with the view that it is answered from.
pub(in crate::query) struct Task {
    unit: Unit,
    after: Option<Position>,
    places: PlaceList,
    view: Box<dyn Snapshot>,
}

/// Asks the units. `after` is where each begins. The answers are those of the first units: of all,
/// unless the question is for rows in turn and fewer had enough.
pub(in crate::query) fn ask(
    job: &Job<'_>,
    work: &mut Work<'_>,
    units: &[(&Unit, Option<&Position>)],
    question: Question,
) -> Result<Vec<Answer>> {
    let mut tasks = Vec::with_capacity(units.len());
    for (unit, after) in units {
        let view = job.open(work, unit.partition)?;
        let (unit, after) = ((*unit).clone(), after.cloned());
        tasks.push(Task { unit, after, places: PlaceList::default(), view });
    }
    super::run(job, Asked::new(job, question), tasks)
}

/// Asks units for the rows of places that they gave, on the views that have them.
pub(in crate::query) fn ask_rows_at(
    job: &Job<'_>,
    places: Vec<(&Unit, Box<dyn Snapshot>, PlaceList)>,
    memory_max: usize,
) -> Result<Vec<Answer>> {
    let task = |(unit, view, places): (&Unit, Box<dyn Snapshot>, PlaceList)| Task {
        unit: unit.clone(),
        after: None,
        places,
        view,
    };
    let asked = Asked::new(job, Question::RowsAt { memory_max });
    super::run(job, asked, places.into_iter().map(task).collect())
}

/// What a round asks of every unit, and all that a thread needs to answer: it may be at work when
/// the query has long been answered.
pub(in crate::query) struct Asked {
    question: Question,
    container: Arc<Container>,
    query: Query,
    scope: ScopeSettings,
    only: Vec<KeyPart>,
    hint: PlanHint,
    explains: bool,
    settings: QuerySettings,
    clock: Arc<dyn Clock>,
    cache: Arc<ResultCache>,
    memory: MemoryShare,
    started_nanos: u64,
    now_seconds: u64,
    supervision: Arc<Supervision>,
    tally: Option<Arc<Tally>>,
    debit: Option<Debit>,
}

impl Asked {
    fn new(job: &Job<'_>, question: Question) -> Asked {
        let Budget { settings, started_nanos, now_seconds, supervision, .. } = job.budget;
        Asked {
            question,
            container: Arc::clone(job.container),
            query: job.query.clone(),
            scope: job.scope.clone(),
            only: job.only.clone(),
            hint: job.request.plan_hint,
            explains: job.request.explain,
            settings: settings.clone(),
            clock: Arc::clone(&job.queries.core.clock),
            cache: Arc::clone(&job.cache),
            memory: job.memory.clone(),
            started_nanos,
            now_seconds,
            supervision: Arc::clone(supervision),
            tally: job.tally.clone(),
            debit: job.debit,
        }
    }
}

impl Common for Asked {
    type Task = Task;
    type Answer = Answer;

    fn answer(&self, mut task: Task, watch: Option<&Watch<'_>>) -> Result<Answer> {
        let (partition, live) = self
            .container
            .served_at(task.unit.partition)
            .ok_or_else(|| Error::internal("a query asks a partition that is not there"))?;
        let report = LeafReport {
            range_id: partition.range_id,
            epks: Some(task.unit.range.clone()),
            ..LeafReport::default()
        };
        // Every partition draws random numbers of its own.
        let random_seed = self.scope.random_seed.wrapping_add(u64::from(partition.range_id) << 32);
        let scope = ScopeSettings { random_seed, ..self.scope.clone() };
        let places = std::mem::take(&mut task.places);
        let mut leaf = Leaf {
            container: &self.container,
            partition,
            live,
            view: &*task.view,
            cache: &self.cache,
            memory: &self.memory,
            query: &self.query,
            run: self.query.start(&scope),
            restrict: task.unit.range.clone(),
            only: &self.only,
            parts: &task.unit.parts,
            asks_all: task.unit.is_whole,
            hint: self.hint,
            explains: self.explains,
            items_in_reach: OnceCell::new(),
            want: usize::MAX,
            budget: Budget {
                settings: &self.settings,
                clock: &*self.clock,
                started_nanos: self.started_nanos,
                now_seconds: self.now_seconds,
                watch,
                supervision: &self.supervision,
            },
            report,
            debit: self.debit,
            owed_cents: 0,
        };
        let answered = reply(&mut leaf, task.after.as_ref(), places, self.question);
        leaf.report.long_steps = leaf.run.long_steps();
        if answered.is_err() {
            leaf.report.entries_scanned += self.supervision.take_lost();
        }
        if let Some(tally) = &self.tally {
            tally.add(leaf.report.range_id, &leaf.report.usage(), leaf.owed_cents);
        }
        let answer = Answer { report: leaf.report, ..answered? };
        let view = answer.places.is_some().then_some(task.view);
        Ok(Answer { view, ..answer })
    }

    /// If units are taken in turn, those behind the one that fills the page are not asked.
    fn enough(&self) -> Enough<Answer> {
        let Question::Rows { want, bytes_max, in_turn: true, .. } = self.question else {
            return Box::new(|_| false);
        };
        let (mut rows, mut bytes) = (0, 0);
        Box::new(move |answer| {
            rows += answer.rows.len();
            bytes += answer.rows.iter().map(|row| row.row.text.len()).sum::<usize>();
            answer.end != End::Exhausted || rows >= want || bytes >= bytes_max
        })
    }

    fn now_nanos(&self) -> u64 {
        self.clock.monotonic_nanos()
    }
}

/// One unit's answer, without the view and the report.
fn reply(
    leaf: &mut Leaf<'_>,
    after: Option<&Position>,
    wanted: PlaceList,
    question: Question,
) -> Result<Answer> {
    leaf.mind_left_out()?;
    let mut memory = leaf.memory.reservation(memory::ROWS);
    let (mut places, mut rows_at, mut groups) = (None, Vec::new(), None);
    let (mut rows, mut end) = (Vec::new(), End::Exhausted);
    match question {
        Question::Groups => groups = Some(leaf.groups()?),
        Question::RowsAt { memory_max } => {
            rows_at = leaf.rows_at(&wanted, &mut memory, memory_max)?;
            places = Some(wanted);
        }
        Question::Places { want, bytes_max, memory_max } => {
            leaf.want = want;
            match leaf.places(after)? {
                Some((found, ended)) => {
                    memory.grow(found.bytes())?;
                    (places, end) = (Some(found), ended);
                }
                None => {
                    let limits = (want, bytes_max, memory_max);
                    (rows, end) = rows_of(leaf, after, limits, &mut memory)?;
                }
            }
        }
        Question::Rows { want, bytes_max, memory_max, .. } => {
            let limits = (want, bytes_max, memory_max);
            (rows, end) = rows_of(leaf, after, limits, &mut memory)?;
        }
    }
    let report = LeafReport::default();
    Ok(Answer { rows, places, rows_at, view: None, end, groups, report, memory })
}

/// A row that finds no memory is the last of its round; the page goes on behind it. Only the first
/// row of a round has to find it.
fn rows_of(
    leaf: &mut Leaf<'_>,
    after: Option<&Position>,
    (want, bytes_max, memory_max): (usize, usize, usize),
    memory: &mut Reservation,
) -> Result<(Vec<LeafRow>, End)> {
    leaf.want = want;
    let (mut rows, mut bytes, mut refused) = (Vec::new(), 0, Ok(()));
    let end = leaf.rows(after, &mut |row: LeafRow| {
        bytes += row.row.text.len();
        let fits = memory.try_grow(row.bytes());
        if !fits && rows.is_empty() {
            refused = memory.grow(row.bytes());
        }
        rows.push(row);
        let is_full = rows.len() >= want || bytes >= bytes_max || memory.bytes() >= memory_max;
        if is_full || !fits { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    refused?;
    Ok((rows, end))
}

/// The transaction that a query is part of: a script's query runs on the view of its transaction,
/// so it sees what the script wrote before. It takes no longer than the script has left, charges
/// nobody (the transaction does), and nothing of it is kept: another query on the same LSN would
/// see something else.
pub(crate) struct Inside {
    pub(crate) view: Arc<dyn Snapshot>,
    /// The working memory of the transaction.
    pub(crate) memory: MemoryShare,
    pub(crate) millis_left: u64,
}

impl Inside {
    /// The limits of a query that has no more time than this.
    pub(in crate::query) fn limited(&self, settings: &QuerySettings) -> QuerySettings {
        QuerySettings {
            page_millis_max: settings.page_millis_max.min(self.millis_left),
            whole_millis_max: settings.whole_millis_max.min(self.millis_left),
            ..settings.clone()
        }
    }
}

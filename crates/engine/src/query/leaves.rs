//! What a page asks of its units of work, and what one answers.
//!
//! A round asks some units the same question. Each is answered from a view of its partition that
//! is taken when the round begins and let go when it ends. Which threads do it is the scheduler's
//! business (`scheduler.rs`): what they need to know is in [`Asked`], and a [`Task`] is one unit
//! with its view.
//!
//! A query inside a transaction sees the view of that ([`Inside`]).
//!
//! If a page takes the units in turn, those behind the one that fills it need not be asked
//! ([`Enough`]). A thread that has begun one of them finishes it in vain.

use std::cell::OnceCell;
use std::ops::ControlFlow;
use std::sync::Arc;

use partita_model::{Clock, Error, KeyPart, Lsn, Result};
use partita_query::{Groups, Query, Row, ScopeSettings};
use partita_storage::{
    Direction, KeyRange, Page, Record, Result as StoreResult, ScanLimit, Snapshot, Space,
};

use super::Job;
use super::cache::ResultCache;
use super::cursor::Unit;
use super::leaf::{Budget, End, Leaf, Watch};
use super::places::{LeafRow, PlaceList, Position};
use super::scheduler;
use crate::catalog::Container;
use crate::context::Work;
use crate::database::QuerySettings;
use crate::op::{LeafReport, PlanHint};

/// What is asked of every unit.
#[derive(Clone, Copy)]
pub(super) enum Question {
    /// So many rows, and no more bytes. In turn: of all units together.
    Rows {
        want: usize,
        bytes_max: usize,
        in_turn: bool,
    },
    /// So many places where rows are, to be asked for later; rows where places cannot be told.
    Places {
        want: usize,
        bytes_max: usize,
    },
    /// The rows of the places that come with the units.
    RowsAt,
    Groups,
}

/// What a unit answered.
pub(super) struct Answer {
    pub(super) rows: Vec<LeafRow>,
    /// Instead of rows: where they are, if that can be told. With rows: the places of these.
    pub(super) places: Option<PlaceList>,
    /// The row of each place that was asked for.
    pub(super) rows_at: Vec<Option<Row>>,
    /// The view that has what is at the places.
    pub(super) view: Option<Box<dyn Snapshot>>,
    pub(super) end: End,
    pub(super) groups: Option<Groups>,
    pub(super) report: LeafReport,
}

/// A unit with the view that it is answered from.
pub(super) struct Task {
    unit: Unit,
    after: Option<Position>,
    places: PlaceList,
    view: Box<dyn Snapshot>,
}

/// Asks the units. `after` is where each begins. The answers are those of the first units: of all,
/// unless the question is for rows in turn and fewer had enough.
pub(super) fn ask(
    job: &Job<'_>,
    work: &mut Work<'_>,
    units: &[(&Unit, Option<&Position>)],
    question: Question,
) -> Result<Vec<Answer>> {
    let mut tasks = Vec::with_capacity(units.len());
    for (unit, after) in units {
        let view = job.open(work, unit.partition)?;
        let after = after.cloned();
        let places = PlaceList::default();
        tasks.push(Task { unit: (*unit).clone(), after, places, view });
    }
    scheduler::run(job, Asked::new(job, question), tasks)
}

/// Asks units for the rows of places that they gave, on the views that have them.
pub(super) fn ask_rows_at(
    job: &Job<'_>,
    places: Vec<(&Unit, Box<dyn Snapshot>, PlaceList)>,
) -> Result<Vec<Answer>> {
    let task = |(unit, view, places): (&Unit, Box<dyn Snapshot>, PlaceList)| Task {
        unit: unit.clone(),
        after: None,
        places,
        view,
    };
    let asked = Asked::new(job, Question::RowsAt);
    scheduler::run(job, asked, places.into_iter().map(task).collect())
}

/// What a round asks of every unit, and all that a thread needs to answer: it may be at work when
/// the query has long been answered.
pub(super) struct Asked {
    question: Question,
    container: Arc<Container>,
    query: Query,
    scope: ScopeSettings,
    only: Vec<KeyPart>,
    hint: PlanHint,
    explains: bool,
    settings: QuerySettings,
    pub(super) clock: Arc<dyn Clock>,
    cache: Arc<ResultCache>,
    started_nanos: u64,
    now_seconds: u64,
}

impl Asked {
    fn new(job: &Job<'_>, question: Question) -> Asked {
        let Budget { settings, started_nanos, now_seconds, .. } = job.budget;
        Asked {
            question,
            container: Arc::clone(job.container),
            query: job.query.clone(),
            scope: job.scope.clone(),
            only: job.only.clone(),
            hint: job.request.plan_hint,
            explains: job.request.explain,
            settings: settings.clone(),
            clock: Arc::clone(&job.database.clock),
            cache: Arc::clone(&job.cache),
            started_nanos,
            now_seconds,
        }
    }

    /// When the answers of the first units are enough.
    pub(super) fn enough(&self) -> Enough {
        let limit = match self.question {
            Question::Rows { want, bytes_max, in_turn: true } => Some((want, bytes_max)),
            Question::Rows { .. }
            | Question::Places { .. }
            | Question::RowsAt
            | Question::Groups => None,
        };
        Enough { limit, rows: 0, bytes: 0 }
    }

    /// Answers one unit.
    pub(super) fn answer(&self, mut task: Task, watch: Option<&Watch<'_>>) -> Result<Answer> {
        let partition = self
            .container
            .partitions
            .get(task.unit.partition)
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
        let leaf = Leaf {
            container: &self.container,
            partition,
            view: &*task.view,
            cache: &self.cache,
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
            },
            report,
        };
        let told = reply(leaf, task.after.as_ref(), places, self.question)?;
        let Told { rows, places, rows_at, end, groups, report } = told;
        let view = places.is_some().then_some(task.view);
        Ok(Answer { rows, places, rows_at, end, groups, report, view })
    }
}

/// Counts the rows of units that are taken in turn.
pub(super) struct Enough {
    /// The rows and bytes that are wanted of all units together. None: every unit is asked.
    limit: Option<(usize, usize)>,
    rows: usize,
    bytes: usize,
}

impl Enough {
    /// With the answer of the next unit: need those behind it not be asked?
    pub(super) fn is_reached_with(&mut self, answer: &Answer) -> bool {
        let Some((want, bytes_max)) = self.limit else { return false };
        self.rows += answer.rows.len();
        self.bytes += answer.rows.iter().map(|row| row.row.text.len()).sum::<usize>();
        answer.end != End::Exhausted || self.rows >= want || self.bytes >= bytes_max
    }
}

/// What a leaf says, without the view that it was said of.
struct Told {
    rows: Vec<LeafRow>,
    places: Option<PlaceList>,
    rows_at: Vec<Option<Row>>,
    end: End,
    groups: Option<Groups>,
    report: LeafReport,
}

/// One unit's answer.
fn reply(
    mut leaf: Leaf<'_>,
    after: Option<&Position>,
    wanted: PlaceList,
    question: Question,
) -> Result<Told> {
    leaf.mind_left_out()?;
    let (mut places, mut rows_at, mut groups) = (None, Vec::new(), None);
    let (rows, end) = match question {
        Question::Groups => {
            groups = Some(leaf.groups()?);
            (Vec::new(), End::Exhausted)
        }
        Question::RowsAt => {
            rows_at = leaf.rows_at(&wanted)?;
            places = Some(wanted);
            (Vec::new(), End::Exhausted)
        }
        Question::Places { want, bytes_max } => {
            leaf.want = want;
            match leaf.places(after)? {
                Some((found, end)) => {
                    places = Some(found);
                    (Vec::new(), end)
                }
                None => rows(&mut leaf, after, want, bytes_max)?,
            }
        }
        Question::Rows { want, bytes_max, .. } => rows(&mut leaf, after, want, bytes_max)?,
    };
    Ok(Told { rows, places, rows_at, end, groups, report: leaf.report })
}

fn rows(
    leaf: &mut Leaf<'_>,
    after: Option<&Position>,
    want: usize,
    bytes_max: usize,
) -> Result<(Vec<LeafRow>, End)> {
    leaf.want = want;
    let (mut rows, mut bytes) = (Vec::new(), 0);
    let end = leaf.rows(after, &mut |row: LeafRow| {
        bytes += row.row.text.len();
        rows.push(row);
        if rows.len() >= want || bytes >= bytes_max {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    Ok((rows, end))
}

/// The transaction that a query is part of: a script's query runs on the view of its transaction,
/// so it sees what the script wrote before. It takes no longer than the script has left, charges
/// nobody (the transaction does), and nothing of it is kept: another query on the same LSN would
/// see something else.
pub(crate) struct Inside {
    pub(crate) view: Arc<dyn Snapshot>,
    pub(crate) millis_left: u64,
}

impl Inside {
    pub(super) fn view(&self) -> Box<dyn Snapshot> {
        Box::new(Shared(Arc::clone(&self.view)))
    }

    /// The limits of a query that has no more time than this.
    pub(super) fn limited(&self, settings: &QuerySettings) -> QuerySettings {
        QuerySettings {
            page_millis_max: settings.page_millis_max.min(self.millis_left),
            whole_millis_max: settings.whole_millis_max.min(self.millis_left),
            ..settings.clone()
        }
    }
}

/// A view that others have as well.
struct Shared(Arc<dyn Snapshot>);

impl Snapshot for Shared {
    fn lsn(&self) -> Lsn {
        self.0.lsn()
    }

    fn get(&self, space: Space, key: &[u8]) -> StoreResult<Option<Record>> {
        self.0.get(space, key)
    }

    fn get_many(&self, space: Space, keys: &[Vec<u8>]) -> StoreResult<Vec<Option<Record>>> {
        self.0.get_many(space, keys)
    }

    fn scan(
        &self,
        space: Space,
        range: &KeyRange,
        direction: Direction,
        limit: ScanLimit,
    ) -> StoreResult<Page> {
        self.0.scan(space, range, direction, limit)
    }
}

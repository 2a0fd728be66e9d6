//! Asking partitions, several at a time.
//!
//! A round asks some units of work the same question. Each is answered from a view of its
//! partition that is taken when the round begins and let go when it ends. Up to
//! `QuerySettings::parallelism` threads share the units (`crew.rs`), in their order; the answers
//! come back in the order of the units, and the first error in that order wins, so the threads
//! change nothing but the time.
//!
//! Most rounds are over before another thread has woken up. So a round begins on the thread of its
//! query, and calls others only when that has taken a while: at a look at the clock, between two
//! units or in the middle of one. Only queries that are known to take longer, or are not even tried
//! on the spot (`spot.rs`), call them at once.
//!
//! If a page takes the units in turn, those behind the one that fills it need not be asked. Who
//! began to ask one of them finishes it in vain.

use std::any::Any;
use std::cell::{Cell, OnceCell};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use partita_model::{Clock, Error, KeyPart, Result};
use partita_query::{Groups, Query, Row, ScopeSettings};
use partita_storage::Snapshot;

use super::Job;
use super::cache::ResultCache;
use super::crew::Shared;
use super::cursor::Unit;
use super::leaf::{Budget, End, Leaf, Vain, Watch};
use super::place_list::PlaceList;
use super::position::{LeafRow, Position};
use crate::catalog::Container;
use crate::context::Work;
use crate::database::QuerySettings;
use crate::op::{LeafReport, PlanHint};

/// How often a query looks whether its hands are done, before it sleeps. If nobody else wants the
/// processor, a look takes half a microsecond.
const LOOKS: usize = 64;

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
struct Task {
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
        tasks.push(Some(Task { unit: (*unit).clone(), after, places, view }));
    }
    run(job, question, tasks)
}

/// Asks units for the rows of places that they gave, on the views that have them.
pub(super) fn ask_rows_at(
    job: &Job<'_>,
    places: Vec<(&Unit, Box<dyn Snapshot>, PlaceList)>,
) -> Result<Vec<Answer>> {
    let task = |(unit, view, places): (&Unit, Box<dyn Snapshot>, PlaceList)| {
        Some(Task { unit: unit.clone(), after: None, places, view })
    };
    run(job, Question::RowsAt, places.into_iter().map(task).collect())
}

fn run(job: &Job<'_>, question: Question, tasks: Vec<Option<Task>>) -> Result<Vec<Answer>> {
    let settings = job.budget.settings;
    let hands = Cell::new(settings.parallelism.min(tasks.len()).saturating_sub(1));
    // What was tried in vain, or not at all, is likely to take long.
    let takes_long = job.spot.shares_at_once || !job.spot.is_try() && settings.spot_micros > 0;
    let alone_micros = if takes_long { 0 } else { settings.alone_micros };
    let alone_until_nanos = job.budget.started_nanos + alone_micros * 1_000;
    let round = Arc::new(Round::new(job, question, tasks));
    let watch = |now_nanos: u64| {
        if job.spot.is_over(now_nanos, &job.database.answered) {
            return true;
        }
        if hands.get() > 0 && now_nanos >= alone_until_nanos {
            let shared: Arc<dyn Shared> = Arc::clone(&round) as Arc<dyn Shared>;
            job.database.crew.call(hands.take(), &shared);
        }
        false
    };
    round.take_part(Some(&watch));
    if !job.spot.is_try() {
        return round.answers();
    }
    // Others wait for this thread: it does not wait for hands that are held up.
    if !round.is_done_within(Duration::from_micros(settings.spot_micros)) {
        job.spot.give_up();
    }
    match job.spot.is_given_up() {
        true => Err(super::given_up()),
        false => round.answers(),
    }
}

/// A round under way, as all of its threads see it. It owns what they need: a hand may look at it
/// when the query has long been answered.
struct Round {
    container: Arc<Container>,
    query: Query,
    scope: ScopeSettings,
    only: Vec<KeyPart>,
    hint: PlanHint,
    explains: bool,
    settings: QuerySettings,
    clock: Arc<dyn Clock>,
    cache: Arc<ResultCache>,
    started_nanos: u64,
    now_seconds: u64,
    question: Question,
    state: Mutex<State>,
    idle: Condvar,
}

struct State {
    /// Those that nobody has begun with are there.
    tasks: Vec<Option<Task>>,
    /// The first that nobody has begun with.
    next: usize,
    running: usize,
    answers: Vec<Option<Result<Answer>>>,
    /// So many units from the first on have answered, with so many rows and bytes.
    complete: usize,
    rows: usize,
    bytes: usize,
    panic: Option<Box<dyn Any + Send>>,
}

impl Round {
    fn new(job: &Job<'_>, question: Question, tasks: Vec<Option<Task>>) -> Round {
        let Budget { settings, started_nanos, now_seconds, .. } = job.budget;
        let answers = tasks.iter().map(|_| None).collect();
        Round {
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
            question,
            state: Mutex::new(State {
                tasks,
                next: 0,
                running: 0,
                answers,
                complete: 0,
                rows: 0,
                bytes: 0,
                panic: None,
            }),
            idle: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Are the hands that have begun done soon? To sleep and to be woken up takes longer than most
    /// units do, so it is looked for a while, giving way to all others.
    fn is_soon_done(&self) -> bool {
        (0..LOOKS).any(|_| {
            let is_done = self.lock().running == 0;
            if !is_done {
                thread::yield_now();
            }
            is_done
        })
    }

    /// Waits for the hands that have begun, but not for long. False if some are not done.
    fn is_done_within(&self, wait: Duration) -> bool {
        if self.is_soon_done() {
            return true;
        }
        let is_running = |state: &mut State| state.running > 0;
        let waited = self.idle.wait_timeout_while(self.lock(), wait, is_running);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Waits for the hands that have begun, and takes what was answered.
    fn answers(&self) -> Result<Vec<Answer>> {
        self.is_soon_done();
        let mut state = self.lock();
        while state.running > 0 {
            state = self.idle.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.tasks.clear();
        if let Some(panic) = state.panic.take() {
            drop(state);
            resume_unwind(panic);
        }
        std::mem::take(&mut state.answers).into_iter().map_while(|answer| answer).collect()
    }

    fn answer(&self, mut task: Task, watch: Option<&Watch<'_>>) -> Result<Answer> {
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
            hint: self.hint,
            explains: self.explains,
            vain: Vain::default(),
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

impl Round {
    /// Answers one unit after the other, until none is left.
    fn take_part(&self, watch: Option<&Watch<'_>>) {
        loop {
            let is_over = watch.is_some_and(|watch| watch(self.clock.monotonic_nanos()));
            let (at, task) = {
                let mut state = self.lock();
                if is_over {
                    state.stop();
                }
                let Some((at, task)) = state.begin() else { return };
                (at, task)
            };
            let answered = catch_unwind(AssertUnwindSafe(|| self.answer(task, watch)));
            let mut state = self.lock();
            match answered {
                Ok(answer) => state.take(at, answer, self.question),
                Err(panic) => {
                    state.panic = Some(panic);
                    state.stop();
                }
            }
            state.running -= 1;
            if state.running == 0 {
                self.idle.notify_all();
            }
            if state.next >= state.tasks.len() {
                return;
            }
        }
    }
}

impl Shared for Round {
    fn work(&self) {
        self.take_part(None);
    }
}

impl State {
    fn begin(&mut self) -> Option<(usize, Task)> {
        let at = self.next;
        let task = self.tasks.get_mut(at)?.take()?;
        self.next += 1;
        self.running += 1;
        Some((at, task))
    }

    /// Nobody begins with another unit.
    fn stop(&mut self) {
        self.next = self.tasks.len();
    }

    fn take(&mut self, at: usize, answer: Result<Answer>, question: Question) {
        if let Some(slot) = self.answers.get_mut(at) {
            *slot = Some(answer);
        }
        while let Some(Some(answer)) = self.answers.get(self.complete) {
            self.complete += 1;
            let is_last = match (answer, question) {
                (Err(_), _) => true,
                (Ok(answer), Question::Rows { want, bytes_max, in_turn: true }) => {
                    self.rows += answer.rows.len();
                    self.bytes += answer.rows.iter().map(|row| row.row.text.len()).sum::<usize>();
                    answer.end != End::Exhausted || self.rows >= want || self.bytes >= bytes_max
                }
                (Ok(_), _) => false,
            };
            if is_last {
                self.stop();
                return;
            }
        }
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
    let end = leaf.stream(after, &mut |row: LeafRow| {
        bytes += row.row.text.len();
        rows.push(row);
        if rows.len() >= want || bytes >= bytes_max {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    Ok((rows, end))
}

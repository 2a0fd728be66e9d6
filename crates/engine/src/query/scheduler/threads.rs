//! Helper threads: tasks of one kind, done by the thread that has them and by those that have time.
//!
//! A [`Round`] is a list of tasks. Whoever has it takes part in it until no task is left; helper
//! threads that were called take some of them off it. Answers come back in the order of the tasks,
//! and the first error in that order wins, so threads change nothing but the time. Helper threads
//! are few and shared by all: one that is busy elsewhere is not waited for. They live as long as
//! their owner, since a thread made for one round costs more than a short round takes: most of that
//! is memory that its allocator touches first. Where they come from is handed in: who hands in none
//! has every round done by the thread that has it.

use std::any::Any;
use std::iter::Enumerate;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;
use std::vec::IntoIter;

use partita_model::{Result, Threads};

/// Calls that may wait for a helper. A round that finds no room works alone.
const CALLS_MAX: usize = 64;
/// How often a thread looks whether all others are done, before it sleeps. If nobody else wants the
/// processor, a look takes half a microsecond.
const LOOKS: usize = 64;

/// Called with the current time, in the clock's nanoseconds; returns true once the deadline has
/// passed.
pub(crate) type Watch<'a> = dyn Fn(u64) -> bool + 'a;

/// Told the answers in the order of their tasks: need those behind this one not be done?
pub(crate) type Enough<A> = Box<dyn FnMut(&A) -> bool + Send>;

/// What the tasks of a round have in common. It owns all that a thread needs: one may be at work
/// when nobody waits for it any more.
pub(crate) trait Common: Send + Sync + 'static {
    type Task: Send;
    type Answer: Send;

    fn answer(&self, task: Self::Task, watch: Option<&Watch<'_>>) -> Result<Self::Answer>;

    fn enough(&self) -> Enough<Self::Answer>;

    fn now_nanos(&self) -> u64;
}

/// Tasks under way, as all threads see them.
pub(crate) struct Round<C: Common> {
    common: C,
    state: Mutex<State<C>>,
    idle: Condvar,
}

struct State<C: Common> {
    /// Those that no thread has begun, with their numbers.
    tasks: Enumerate<IntoIter<C::Task>>,
    running: usize,
    answers: Vec<Option<Result<C::Answer>>>,
    /// How many tasks from the first on have an answer.
    complete: usize,
    enough: Enough<C::Answer>,
    panic: Option<Box<dyn Any + Send>>,
}

impl<C: Common> Round<C> {
    pub(crate) fn new(common: C, tasks: Vec<C::Task>) -> Round<C> {
        let state = State {
            answers: tasks.iter().map(|_| None).collect(),
            tasks: tasks.into_iter().enumerate(),
            running: 0,
            complete: 0,
            enough: common.enough(),
            panic: None,
        };
        Round { common, state: Mutex::new(state), idle: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does one task after the other, until none is left.
    pub(crate) fn take_part(&self, watch: Option<&Watch<'_>>) {
        loop {
            if watch.is_some_and(|watch| watch(self.common.now_nanos())) {
                self.lock().stop();
            }
            let Some((at, task)) = self.lock().begin() else { return };
            let answered = catch_unwind(AssertUnwindSafe(|| self.common.answer(task, watch)));
            let mut state = self.lock();
            match answered {
                Ok(answer) => state.take(at, answer),
                Err(panic) => {
                    state.panic = Some(panic);
                    state.stop();
                }
            }
            state.running -= 1;
            if state.running == 0 {
                self.idle.notify_all();
            }
            if state.tasks.len() == 0 {
                return;
            }
        }
    }

    /// Waits for the helper threads that have begun, up to a time. False if some are not done.
    pub(crate) fn is_done_within(&self, most: Duration) -> bool {
        // To sleep and to be woken up takes longer than most tasks do.
        for _ in 0..LOOKS {
            if self.lock().running == 0 {
                return true;
            }
            thread::yield_now();
        }
        let is_running = |state: &mut State<C>| state.running > 0;
        let waited = self.idle.wait_timeout_while(self.lock(), most, is_running);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Takes the answers, after all threads are done.
    pub(crate) fn answers(&self) -> Result<Vec<C::Answer>> {
        let panic = self.lock().panic.take();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
        std::mem::take(&mut self.lock().answers).into_iter().map_while(|answer| answer).collect()
    }
}

impl<C: Common> State<C> {
    fn begin(&mut self) -> Option<(usize, C::Task)> {
        let next = self.tasks.next()?;
        self.running += 1;
        Some(next)
    }

    /// No thread begins another task.
    fn stop(&mut self) {
        self.tasks = Vec::new().into_iter().enumerate();
    }

    fn take(&mut self, at: usize, answer: Result<C::Answer>) {
        if let Some(slot) = self.answers.get_mut(at) {
            *slot = Some(answer);
        }
        while let Some(Some(answer)) = self.answers.get(self.complete) {
            self.complete += 1;
            if answer.as_ref().map_or(true, |answer| (self.enough)(answer)) {
                return self.stop();
            }
        }
    }
}

/// A round that others may take part in.
trait Shared: Send + Sync {
    fn help(&self);
}

impl<C: Common> Shared for Round<C> {
    fn help(&self) {
        self.take_part(None);
    }
}

/// Helper threads. They start when they are first called, and end with their owner.
pub(crate) struct HelperThreads {
    count: usize,
    threads: Arc<dyn Threads>,
    calls: OnceLock<SyncSender<Arc<dyn Shared>>>,
}

impl HelperThreads {
    pub(crate) fn new(count: usize, threads: Arc<dyn Threads>) -> HelperThreads {
        HelperThreads { count, threads, calls: OnceLock::new() }
    }

    /// Calls up to so many to a round. Returns at once.
    pub(crate) fn call<C: Common>(&self, count: usize, round: &Arc<Round<C>>) {
        let calls = self.calls.get_or_init(|| self.start());
        for _ in 0..count.min(self.count) {
            let round: Arc<dyn Shared> = Arc::clone(round) as Arc<dyn Shared>;
            if calls.try_send(round).is_err() {
                return;
            }
        }
    }

    /// Starts the threads. A system that has none left makes rounds slower, not impossible: if
    /// there is none at all nobody listens, and calls are not even sent.
    fn start(&self) -> SyncSender<Arc<dyn Shared>> {
        let (sender, calls) = sync_channel::<Arc<dyn Shared>>(CALLS_MAX);
        let calls = Arc::new(Mutex::new(calls));
        for at in 0..self.count {
            let calls = Arc::clone(&calls);
            let next = move || calls.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let help = move || std::iter::from_fn(|| next().ok()).for_each(|round| round.help());
            if !self.threads.start(&format!("partita-query-{at}"), Box::new(help)) {
                break;
            }
        }
        sender
    }
}

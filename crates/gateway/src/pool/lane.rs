//! Jobs of one length: their threads, and who of them may run.
//!
//! Every job has a thread of its own while it lasts, but only so many run at a time as the lane has
//! *permits*, one for each processor. A job that takes long stands aside now and then
//! ([`Task::step_aside`]): if others wait it hands its permit on and waits for its next turn
//! (`turns.rs`), with all that it has on its stack. So a short job waits for milliseconds behind
//! any number of long ones. Its thread also stands behind the other threads from then on, as far as
//! the system lets it. It ends with its job: a thread that has stood back cannot come forward
//! again.
//!
//! How many jobs may be begun at a time can be lowered while they run ([`Lane::limit`]): those
//! that are begun go on, and no other begins until there are fewer. Each holds memory that nobody
//! counts.
//!
//! Threads are few as well. A share begins another job only while more threads are free than it and
//! its credential have jobs begun already, each counted: one has a third of them at most, a
//! credential with any number of containers half of them, and there is always room for one who
//! comes new. The same goes for places in the queue.
//!
//! A quarter of the threads is not free for jobs that are expected to take long (`kinds.rs`), and
//! half of that quarter not for those of which nobody knows. So the short jobs of a credential are
//! begun although its long ones have all that such may have. Jobs that nobody knows can become long
//! while they have a thread; they then keep it from others of their share that are unknown, not
//! from those that are known to be short.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::Hash;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::kinds::{Expected, Origin};
use super::turns::{NEW_NANOS, SHORT_NANOS, Share, Turns, Waiting};
use super::{Courtesy, PoolError};

/// Until it may be asked to hand its permit on, a job runs for so long …
const SLICE: Duration = Duration::from_millis(5);
/// … and one that has run for long for so long.
const LONG_SLICE: Duration = Duration::from_millis(2);

/// One thread in so many is not for jobs that are expected to take long …
const NOT_FOR_LONG: usize = 4;
/// … and one in so many not for those of which nobody knows.
const NOT_FOR_UNKNOWN: usize = 8;

/// What a job does. It catches its own panics.
pub(super) type Work = Box<dyn FnOnce(&Arc<Task>) + Send>;

/// How large a lane is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) name: &'static str,
    pub(super) permits: usize,
    pub(super) threads_max: usize,
    pub(super) jobs_max: usize,
    pub(super) courtesy: Courtesy,
}

/// Of so many jobs that may be begun, those that are reserved for shorter ones than this is
/// expected to be.
fn reserved_for_shorter(expected: Expected, begun_max: usize) -> usize {
    match expected {
        Expected::Short => 0,
        Expected::Unknown => begun_max / NOT_FOR_UNKNOWN,
        Expected::Long => begun_max / NOT_FOR_LONG,
    }
}

/// Jobs of one length. See the module's text.
pub(super) struct Lane {
    size: Size,
    state: Mutex<State>,
    /// There is something for a thread without a job.
    work: Condvar,
    /// A thread has ended.
    ended: Condvar,
    /// How many wait for a permit.
    waiting: AtomicUsize,
}

#[derive(Default)]
struct State {
    turns: Turns,
    /// Jobs that were not begun.
    queued: HashMap<u64, Job>,
    queued_by: Counts,
    /// Threads that have stepped aside.
    parked: HashMap<u64, Arc<Parked>>,
    /// Begun, and on their way to a thread.
    ready: VecDeque<Job>,
    running: usize,
    begun: usize,
    begun_by: Counts,
    threads: usize,
    idle: usize,
    /// So many may be begun now; none: as many as there may be threads.
    begun_max: Option<usize>,
    /// The system has no more threads than there are.
    is_exhausted: bool,
    closed: bool,
    next_id: u64,
}

struct Job {
    task: Arc<Task>,
    work: Work,
    /// It is a part of its task that another thread does.
    helps: bool,
}

struct Parked {
    /// Whose thread it is.
    job: u64,
    is_due: AtomicBool,
    turn: Condvar,
}

/// A job as it sees itself.
pub struct Task {
    lane: Arc<Lane>,
    id: u64,
    origin: Origin,
    /// For so long it had a permit, or several.
    used_nanos: AtomicU64,
    /// So much of it on a processor.
    processor_nanos: AtomicU64,
    is_long: AtomicBool,
    /// Nobody knew its kind when it was begun.
    is_unknown: AtomicBool,
    has_ended: AtomicBool,
    cancelled: AtomicBool,
}

/// Since when a thread has a permit.
#[derive(Clone, Copy)]
struct Permitted {
    since: Instant,
    /// The processor time that the thread had had by then.
    processor_nanos: u64,
}

thread_local! {
    static PERMITTED: Cell<Option<Permitted>> = const { Cell::new(None) };
    /// It stands behind others.
    static HAS_STOOD_BACK: Cell<bool> = const { Cell::new(false) };
}

#[allow(clippy::disallowed_methods, reason = "threads share processors by the real clock")]
fn now() -> Instant {
    Instant::now()
}

impl Lane {
    pub(super) fn start(size: Size) -> io::Result<Arc<Lane>> {
        let lane = Arc::new(Lane {
            size,
            state: Mutex::default(),
            work: Condvar::new(),
            ended: Condvar::new(),
            waiting: AtomicUsize::new(0),
        });
        let mut state = lane.lock();
        for _ in 0..size.permits {
            lane.start_thread(&mut state)?;
        }
        drop(state);
        Ok(lane)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code of ours panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a job into the queue.
    pub(super) fn push(
        self: &Arc<Lane>,
        origin: Origin,
        work: Work,
    ) -> Result<Arc<Task>, PoolError> {
        let mut state = self.lock();
        let share = origin.share;
        let room = self.size.jobs_max.saturating_sub(state.queued.len());
        if !state.queued_by.leave_room(share, room) {
            return Err(PoolError::Full { jobs_max: self.size.jobs_max });
        }
        let task = self.task(&mut state, origin);
        let job = Job { task: Arc::clone(&task), work, helps: false };
        state.queued.insert(task.id, job);
        state.queued_by.more(share);
        state.turns.wait(task.id, origin, 0, false);
        self.dispatch(&mut state);
        Ok(task)
    }

    fn task(self: &Arc<Lane>, state: &mut State, origin: Origin) -> Arc<Task> {
        state.next_id += 1;
        state.turns.enter(origin.share);
        Arc::new(Task {
            lane: Arc::clone(self),
            id: state.next_id,
            origin,
            used_nanos: AtomicU64::new(0),
            processor_nanos: AtomicU64::new(0),
            is_long: AtomicBool::new(false),
            is_unknown: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
        })
    }

    /// Begins no more jobs than these at a time, from now on. One for each permit is always begun.
    pub(super) fn limit(self: &Arc<Lane>, begun_max: usize) {
        let mut state = self.lock();
        state.begun_max = Some(begun_max.max(self.size.permits));
        self.dispatch(&mut state);
    }

    /// Jobs that were not begun.
    pub(super) fn queued(&self) -> usize {
        self.lock().queued.len()
    }

    /// No more jobs come. Those that are there are done first.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        self.work.notify_all();
        while state.threads > 0 {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Gives out what permits there are.
    fn dispatch(self: &Arc<Lane>, state: &mut State) {
        while state.running < self.size.permits && state.turns.len() > 0 {
            let has_thread = state.idle > state.ready.len() || self.start_thread(state).is_ok();
            let State { turns, parked, begun_by, begun, begun_max, .. } = &mut *state;
            let size = &self.size;
            let begun_max = begun_max.unwrap_or(usize::MAX).min(size.threads_max);
            let free = begun_max.saturating_sub(*begun);
            // A third of too few is less than may run: who is alone has all of them.
            let is_shared = size.threads_max > size.permits
                && begun_max >= size.threads_max.min(3 * size.permits);
            let may_begin = |waiting: &Waiting| {
                let free = free.saturating_sub(reserved_for_shorter(waiting.expected, begun_max));
                if is_shared { begun_by.leave_room(waiting.origin.share, free) } else { free > 0 }
            };
            let next = turns.next(|waiting| {
                parked.contains_key(&waiting.id) || (has_thread && may_begin(waiting))
            });
            let Some(id) = next else { break };
            state.running += 1;
            if let Some(parked) = state.parked.remove(&id) {
                parked.is_due.store(true, Ordering::Relaxed);
                parked.turn.notify_one();
            } else if let Some(job) = state.queued.remove(&id) {
                state.queued_by.less(job.task.share());
                match state.turns.expected(job.task.origin) {
                    Expected::Short => {}
                    Expected::Unknown => job.task.is_unknown.store(true, Ordering::Relaxed),
                    Expected::Long => job.task.is_long.store(true, Ordering::Relaxed),
                }
                self.begin(state, job);
            }
        }
        self.waiting.store(state.turns.len(), Ordering::Relaxed);
    }

    /// Gives a job, which has a permit, to a thread.
    fn begin(&self, state: &mut State, job: Job) {
        state.begun += 1;
        state.begun_by.more(job.task.share());
        state.ready.push_back(job);
        self.work.notify_one();
    }

    fn permitted(&self) -> Permitted {
        Permitted { since: now(), processor_nanos: (self.size.courtesy.processor_nanos)() }
    }

    /// One more thread, if there may be one.
    fn start_thread(self: &Arc<Lane>, state: &mut State) -> io::Result<()> {
        if state.threads >= self.size.threads_max || state.is_exhausted {
            return Err(io::ErrorKind::Other.into());
        }
        let lane = Arc::clone(self);
        let name = format!("partita-{}-{}", self.size.name, state.threads);
        let started = Builder::new().name(name).spawn(move || lane.work());
        // The thread holds the lane, and the lane is closed before the pool is gone.
        started.map(|_| ()).inspect_err(|_| state.is_exhausted = state.threads > 0)?;
        state.threads += 1;
        state.idle += 1;
        Ok(())
    }

    /// The life of a thread. It counts as one without a job from the moment it was started.
    fn work(self: &Arc<Lane>) {
        let mut state = self.lock();
        loop {
            if let Some(Job { task, work, helps }) = state.ready.pop_front() {
                state.idle -= 1;
                drop(state);
                PERMITTED.set(Some(self.permitted()));
                work(&task);
                state = self.lock();
                self.finish(&mut state, &task, helps);
                if HAS_STOOD_BACK.get() {
                    break;
                }
                state.idle += 1;
                self.dispatch(&mut state);
                continue;
            }
            let is_over = state.closed && state.begun == 0 && state.queued.is_empty();
            // What was needed beyond the usual number is not kept.
            if is_over || state.idle > self.size.permits {
                state.idle -= 1;
                break;
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.threads -= 1;
        state.is_exhausted = false;
        self.dispatch(&mut state);
        self.work.notify_all();
        self.ended.notify_all();
    }

    fn finish(&self, state: &mut State, task: &Task, helps: bool) {
        self.take_permit(state, task);
        if !helps {
            task.has_ended.store(true, Ordering::Relaxed);
            let is_long = task.processor_nanos.load(Ordering::Relaxed) >= SHORT_NANOS;
            // What was cut off while it was short might have become long.
            if is_long || !task.is_cancelled() {
                state.turns.note(task.origin, is_long);
            }
        }
        state.turns.leave(task.share());
        state.begun -= 1;
        state.begun_by.less(task.share());
        if state.closed {
            self.work.notify_all();
        }
    }

    /// Takes this thread's permit back, and notes what it did with it.
    fn take_permit(&self, state: &mut State, task: &Task) {
        let Some(permitted) = PERMITTED.take() else { return };
        let nanos = now().duration_since(permitted.since).as_nanos();
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        task.used_nanos.fetch_add(nanos, Ordering::Relaxed);
        let had = task.processor_nanos_with(&permitted);
        task.processor_nanos.store(had, Ordering::Relaxed);
        state.turns.charge(task.share(), nanos);
        state.running -= 1;
    }

    /// Waits for this thread's turn.
    fn park(self: &Arc<Lane>, mut state: MutexGuard<'_, State>, task: &Task) {
        state.next_id += 1;
        let id = state.next_id;
        let parked =
            Arc::new(Parked { job: task.id, is_due: AtomicBool::new(false), turn: Condvar::new() });
        state.parked.insert(id, Arc::clone(&parked));
        let used_nanos = task.used_nanos.load(Ordering::Relaxed);
        state.turns.wait(id, task.origin, used_nanos, task.is_cancelled());
        self.dispatch(&mut state);
        while !parked.is_due.load(Ordering::Relaxed) {
            state = parked.turn.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        PERMITTED.set(Some(self.permitted()));
    }
}

/// How many jobs each share has, and each credential.
#[derive(Default)]
struct Counts {
    shares: HashMap<Share, usize>,
    credentials: HashMap<u64, usize>,
}

impl Counts {
    /// With so many places free, may a share have one more?
    fn leave_room(&self, share: Share, free: usize) -> bool {
        let of_share = self.shares.get(&share).copied().unwrap_or(0);
        of_share + self.of_credential(share) < free
    }

    fn of_credential(&self, share: Share) -> usize {
        self.credentials.get(&share.credential).copied().unwrap_or(0)
    }

    fn more(&mut self, share: Share) {
        *self.shares.entry(share).or_default() += 1;
        *self.credentials.entry(share.credential).or_default() += 1;
    }

    fn less(&mut self, share: Share) {
        less(&mut self.shares, share);
        less(&mut self.credentials, share.credential);
    }
}

fn less<K: Eq + Hash>(counts: &mut HashMap<K, usize>, of: K) {
    if let Some(count) = counts.get_mut(&of) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&of);
        }
    }
}

impl Task {
    /// Is there nobody any more who wants what the job does?
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Lets others go first, if it is their turn. To be called every millisecond or so.
    pub fn step_aside(&self) {
        let Some(permitted) = PERMITTED.get() else { return };
        let is_long = self.is_long_by_now(&permitted);
        let slice = if is_long { LONG_SLICE } else { SLICE };
        let turn = now().duration_since(permitted.since);
        if turn < slice || self.lane.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut state = self.lane.lock();
        self.lane.take_permit(&mut state, self);
        self.lane.park(state, self);
    }

    fn share(&self) -> Share {
        self.origin.share
    }

    /// Is it long, or has it become so just now? Its thread stands back then, or sooner if nobody
    /// knows its kind: of many new ones all would be in the way of others for as long as they may
    /// be short.
    fn is_long_by_now(&self, permitted: &Permitted) -> bool {
        if self.is_long.load(Ordering::Relaxed) {
            self.stand_back();
            return true;
        }
        let had = self.processor_nanos_with(permitted);
        let is_long = had >= SHORT_NANOS;
        if is_long {
            self.is_long.store(true, Ordering::Relaxed);
            self.lane.lock().turns.note(self.origin, true);
        }
        if is_long || (had >= NEW_NANOS && self.is_unknown.load(Ordering::Relaxed)) {
            self.stand_back();
        }
        is_long
    }

    /// What it has had, with what this thread has had since it was permitted.
    fn processor_nanos_with(&self, permitted: &Permitted) -> u64 {
        let now = (self.lane.size.courtesy.processor_nanos)();
        let turn = now.saturating_sub(permitted.processor_nanos);
        self.processor_nanos.load(Ordering::Relaxed).saturating_add(turn)
    }

    /// Has this thread stand behind others, if it does not yet.
    fn stand_back(&self) {
        if !HAS_STOOD_BACK.replace(true) {
            (self.lane.size.courtesy.stand_back)();
        }
    }

    /// Has another thread take part in the job, if one is to spare. False: none is.
    pub fn help(self: &Arc<Task>, work: Box<dyn FnOnce() + Send>) -> bool {
        let lane = &self.lane;
        let mut state = lane.lock();
        let is_free = state.running < lane.size.permits && state.turns.len() == 0;
        if !is_free || !(state.idle > state.ready.len() || lane.start_thread(&mut state).is_ok()) {
            return false;
        }
        state.turns.enter(self.share());
        state.running += 1;
        let work: Work = Box::new(move |_| work());
        lane.begin(&mut state, Job { task: Arc::clone(self), work, helps: true });
        true
    }

    /// Waits for those that help: others may run meanwhile.
    pub fn wait_for_help(&self, wait: &mut dyn FnMut()) {
        if PERMITTED.get().is_none() {
            return wait();
        }
        let mut state = self.lane.lock();
        self.lane.take_permit(&mut state, self);
        self.lane.dispatch(&mut state);
        drop(state);
        wait();
        self.lane.park(self.lane.lock(), self);
    }

    /// Nobody wants it any more: it is dropped if it was not begun, else told.
    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
        let mut state = self.lane.lock();
        let dropped = state.queued.remove(&self.id);
        if dropped.is_some() {
            state.queued_by.less(self.share());
            state.turns.remove(self.id);
            state.turns.leave(self.share());
        }
        let State { parked, turns, .. } = &mut *state;
        for (id, _) in parked.iter().filter(|(_, parked)| parked.job == self.id) {
            turns.cancel(*id);
        }
        drop(state);
        // What it holds may be much, or need the lock.
        drop(dropped);
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("id", &self.id).field("origin", &self.origin).finish()
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("size", &self.size).finish_non_exhaustive()
    }
}

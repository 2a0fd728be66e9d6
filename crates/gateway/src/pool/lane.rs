//! Jobs of one length: their threads, and who of them may run.
//!
//! Every job has a thread of its own while it lasts, but only so many run at a time as the lane
//! has *permits*, one for each processor. A job that takes long stands aside now and then
//! ([`Task::step_aside`]): if others wait it hands its permit on and waits for its next turn
//! (`turns.rs`), with all that it has on its stack. So a short job waits for milliseconds behind
//! any number of long ones. Its thread also stands behind the other threads from then on, as
//! far as the system lets it, and ends with its job: a thread that has stood back cannot come
//! forward again.
//!
//! How many jobs may be begun at a time can be lowered while they run ([`Lane::limit`]): those
//! that are begun go on, and no other begins until there are fewer. Each holds memory that nobody
//! counts.
//!
//! Threads are few as well. A share begins another job only while more threads are free than it and
//! its credential have jobs begun already, each counted: one has a third of them at most, a
//! credential with any number of containers half of them, and there is always room for one who
//! comes new. The same goes for places in the queue.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::Hash;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::PoolError;
use super::turns::{SHORT_NANOS, Share, Turns};

/// Until it may be asked to hand its permit on, a job runs for so long …
const SLICE: Duration = Duration::from_millis(5);
/// … and one that has run for long for so long.
const LONG_SLICE: Duration = Duration::from_millis(2);

/// What a job does. It catches its own panics.
pub(super) type Work = Box<dyn FnOnce(&Arc<Task>) + Send>;

/// How large a lane is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) name: &'static str,
    pub(super) permits: usize,
    pub(super) threads_max: usize,
    pub(super) jobs_max: usize,
    /// Has the calling thread stand behind others.
    pub(super) stand_back: fn(),
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
    share: Share,
    used_nanos: AtomicU64,
    cancelled: AtomicBool,
}

thread_local! {
    /// Since when this thread has a permit.
    static PERMITTED: Cell<Option<Instant>> = const { Cell::new(None) };
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
    pub(super) fn push(self: &Arc<Lane>, share: Share, work: Work) -> Result<Arc<Task>, PoolError> {
        let mut state = self.lock();
        let room = self.size.jobs_max.saturating_sub(state.queued.len());
        if !state.queued_by.leave_room(share, room) {
            return Err(PoolError::Full { jobs_max: self.size.jobs_max });
        }
        let task = self.task(&mut state, share);
        let job = Job { task: Arc::clone(&task), work };
        state.queued.insert(task.id, job);
        state.queued_by.more(share);
        state.turns.wait(task.id, share, 0, false);
        self.dispatch(&mut state);
        Ok(task)
    }

    fn task(self: &Arc<Lane>, state: &mut State, share: Share) -> Arc<Task> {
        state.next_id += 1;
        state.turns.enter(share);
        Arc::new(Task {
            lane: Arc::clone(self),
            id: state.next_id,
            share,
            used_nanos: AtomicU64::new(0),
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
            let Size { permits, threads_max, .. } = self.size;
            let begun_max = begun_max.unwrap_or(usize::MAX).min(threads_max);
            let free = begun_max.saturating_sub(*begun);
            // A third of too few is less than may run: who is alone has all of them.
            let is_shared = threads_max > permits && begun_max >= threads_max.min(3 * permits);
            let may_begin = |share: Share| {
                has_thread && if is_shared { begun_by.leave_room(share, free) } else { free > 0 }
            };
            let next = turns.next(|id, share| parked.contains_key(&id) || may_begin(share));
            let Some(id) = next else { break };
            state.running += 1;
            if let Some(parked) = state.parked.remove(&id) {
                parked.is_due.store(true, Ordering::Relaxed);
                parked.turn.notify_one();
            } else if let Some(job) = state.queued.remove(&id) {
                state.queued_by.less(job.task.share);
                self.begin(state, job);
            }
        }
        self.waiting.store(state.turns.len(), Ordering::Relaxed);
    }

    /// Gives a job, which has a permit, to a thread.
    fn begin(&self, state: &mut State, job: Job) {
        state.begun += 1;
        state.begun_by.more(job.task.share);
        state.ready.push_back(job);
        self.work.notify_one();
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
            if let Some(Job { task, work }) = state.ready.pop_front() {
                state.idle -= 1;
                drop(state);
                PERMITTED.set(Some(now()));
                work(&task);
                state = self.lock();
                self.finish(&mut state, &task);
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

    fn finish(&self, state: &mut State, task: &Task) {
        self.take_permit(state, task);
        state.turns.leave(task.share);
        state.begun -= 1;
        state.begun_by.less(task.share);
        if state.closed {
            self.work.notify_all();
        }
    }

    /// Takes this thread's permit back, and notes what it did with it.
    fn take_permit(&self, state: &mut State, task: &Task) {
        let nanos = PERMITTED.take().map_or(0, |since| now().duration_since(since).as_nanos());
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        task.used_nanos.fetch_add(nanos, Ordering::Relaxed);
        state.turns.charge(task.share, nanos);
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
        state.turns.wait(id, task.share, used_nanos, task.is_cancelled());
        self.dispatch(&mut state);
        while !parked.is_due.load(Ordering::Relaxed) {
            state = parked.turn.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        PERMITTED.set(Some(now()));
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
        let of_credential = self.credentials.get(&share.credential).copied().unwrap_or(0);
        of_share + of_credential < free
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
        let Some(since) = PERMITTED.get() else { return };
        let turn = now().duration_since(since);
        let used = Duration::from_nanos(self.used_nanos.load(Ordering::Relaxed)) + turn;
        let is_long = used >= Duration::from_nanos(SHORT_NANOS);
        if is_long && !HAS_STOOD_BACK.replace(true) {
            (self.lane.size.stand_back)();
        }
        let slice = if is_long { LONG_SLICE } else { SLICE };
        if turn < slice || self.lane.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut state = self.lane.lock();
        self.lane.take_permit(&mut state, self);
        self.lane.park(state, self);
    }

    /// Has another thread take part in the job, if one is to spare. False: none is.
    pub fn help(self: &Arc<Task>, work: Box<dyn FnOnce() + Send>) -> bool {
        let lane = &self.lane;
        let mut state = lane.lock();
        let is_free = state.running < lane.size.permits && state.turns.len() == 0;
        if !is_free || !(state.idle > state.ready.len() || lane.start_thread(&mut state).is_ok()) {
            return false;
        }
        state.turns.enter(self.share);
        state.running += 1;
        let work: Work = Box::new(move |_| work());
        lane.begin(&mut state, Job { task: Arc::clone(self), work });
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
            state.queued_by.less(self.share);
            state.turns.remove(self.id);
            state.turns.leave(self.share);
        }
        let State { parked, turns, .. } = &mut *state;
        for (id, _) in parked.iter().filter(|(_, parked)| parked.job == self.id) {
            turns.cancel(*id);
        }
        self.lane.waiting.store(state.turns.len(), Ordering::Relaxed);
        drop(state);
        // What it holds may be much, or need the lock.
        drop(dropped);
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("id", &self.id).field("share", &self.share).finish()
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("size", &self.size).finish_non_exhaustive()
    }
}

//! A few threads for work that would hold up a connection's thread.
//!
//! The queue is bounded: when it is full the caller hears so at once ([`PoolError::Full`]) and can
//! tell its client to come back later, which is kinder than a queue that only grows. A panic in a
//! job ends that job, not the thread. Dropping the pool lets queued jobs finish.
//!
//! **What nobody wants ends.** If the future of [`Pool::run`] is dropped, a job that was not
//! begun is thrown away, and one that was is told so ([`Task::is_cancelled`]).
//!
//! **Fair shares.** A job that may take long asks its [`Task`] now and then whether others go
//! first: short ones before long ones, and each [`Share`] in its turn (`turns.rs`, `lane.rs`). Who
//! names the kind of a job ([`Origin`]) has it treated as those of its kind before it (`kinds.rs`).
//! How long it may take in all is its own business.
//!
//! Brief jobs and long ones have threads and queues of their own: a page of a feed takes a
//! millisecond, and has no turn to wait for. Jobs that wait for others most of their time, as those
//! that run scripts in other processes, have threads of their own, too, and more of them.

mod kinds;
mod lane;
mod turns;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::oneshot;

pub use kinds::Origin;
pub use lane::Task;
pub use turns::Share;

use lane::{Lane, Size};

/// Why the pool did not return a result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// As many jobs wait as may wait. Nothing was started: retry later.
    #[error("the worker queue is full ({jobs_max} jobs wait)")]
    Full { jobs_max: usize },
    /// The job panicked; the message is what it said.
    #[error("a worker panicked: {0}")]
    Panicked(String),
}

/// How long a job may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobLength {
    /// Milliseconds, mostly.
    Brief,
    /// Up to minutes.
    Long,
    /// Up to seconds, and the processors are left to others meanwhile.
    Waiting,
}

/// Jobs that run at once where they wait mostly, for each one of the others.
const WAITING_JOBS: usize = 8;

/// Jobs that may be begun at once, for each that runs: the others have stood aside.
const BEGUN_JOBS: usize = 8;
/// … but so many at least.
const BEGUN_JOBS_MIN: usize = 64;
/// The same of brief ones. Each holds the memory of a page, and is soon done: of many at once none
/// would be, for want of memory.
const BEGUN_BRIEF_JOBS: usize = 2;

/// What the pool asks of the system, for the thread that calls.
#[derive(Clone, Copy, Debug)]
pub struct Courtesy {
    /// How long it was on a processor, in nanoseconds.
    pub processor_nanos: fn() -> u64,
    /// Its job has run for long: has the system prefer others, until it ends.
    pub stand_back: fn(),
}

impl Courtesy {
    /// The system is asked for nothing, so no job is known to be long.
    const NONE: Courtesy = Courtesy { processor_nanos: || 0, stand_back: || {} };
}

/// The threads and their queues. See the module's text.
#[derive(Debug)]
pub struct Pool {
    brief: Arc<Lane>,
    long: Arc<Lane>,
    waiting: Arc<Lane>,
}

impl Pool {
    /// Runs `threads` jobs of either length at once, and more of those that wait, with room for
    /// `jobs_max` jobs in each queue.
    pub fn new(threads: usize, jobs_max: usize) -> io::Result<Pool> {
        Pool::with_courtesy(threads, jobs_max, Courtesy::NONE)
    }

    /// The same, with threads whose jobs have run for long behind others.
    pub fn with_courtesy(threads: usize, jobs_max: usize, courtesy: Courtesy) -> io::Result<Pool> {
        let permits = threads.max(1);
        let threads_max = (permits * BEGUN_JOBS).max(BEGUN_JOBS_MIN);
        let size = Size { name: "pool", permits, threads_max, jobs_max, courtesy };
        let waiting = permits * WAITING_JOBS;
        Ok(Pool {
            brief: Lane::start(Size {
                name: "brief",
                threads_max: permits * BEGUN_BRIEF_JOBS,
                ..size
            })?,
            long: Lane::start(size)?,
            waiting: Lane::start(Size {
                name: "wait",
                permits: waiting,
                threads_max: waiting,
                ..size
            })?,
        })
    }

    /// Runs `work` on one of the threads, on behalf of its `origin`. If the returned future is
    /// dropped, work that was not begun is thrown away, and work that was is told.
    pub async fn run<T: Send + 'static>(
        &self,
        length: JobLength,
        origin: impl Into<Origin>,
        work: impl FnOnce(&Arc<Task>) -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let (sender, receiver) = oneshot::channel();
        let job = move |task: &Arc<Task>| {
            let result = catch_unwind(AssertUnwindSafe(|| work(task)));
            let result = result.map_err(|panic| PoolError::Panicked(panic_text(panic.as_ref())));
            // The caller may be gone; then nobody wants the result.
            drop(sender.send(result));
        };
        let mut wanted = Wanted(Some(self.lane(length).push(origin.into(), Box::new(job))?));
        let result = receiver.await;
        wanted.0 = None;
        result.unwrap_or_else(|_| Err(PoolError::Panicked("its job was dropped".into())))
    }

    /// How many long jobs may be begun at a time, for somebody to change.
    pub fn begun_limit(&self) -> BegunLimit {
        BegunLimit(Arc::clone(&self.long))
    }

    /// Jobs of a length that wait for a thread.
    pub fn waiting(&self, length: JobLength) -> usize {
        self.lane(length).queued()
    }

    fn lane(&self, length: JobLength) -> &Arc<Lane> {
        match length {
            JobLength::Brief => &self.brief,
            JobLength::Long => &self.long,
            JobLength::Waiting => &self.waiting,
        }
    }
}

/// See [`Pool::begun_limit`].
#[derive(Clone, Debug)]
pub struct BegunLimit(Arc<Lane>);

impl BegunLimit {
    /// From now on no more than these are begun, beside those that are. One for each that runs at a
    /// time always may be.
    pub fn set(&self, begun_max: usize) {
        self.0.limit(begun_max);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for lane in [&self.brief, &self.long, &self.waiting] {
            lane.close();
        }
    }
}

/// Somebody waits for a job.
struct Wanted(Option<Arc<Task>>);

impl Drop for Wanted {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.cancel();
        }
    }
}

/// What a panic said, if it said it as text.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        return (*text).to_string();
    }
    match panic.downcast_ref::<String>() {
        Some(text) => text.clone(),
        None => "no message".to_string(),
    }
}

#[cfg(test)]
mod tests;

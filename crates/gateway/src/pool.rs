//! A fixed number of threads for work that would hold up a connection's thread.
//!
//! The queue is bounded: when it is full the caller hears so at once ([`PoolError::Full`]) and can
//! tell its client to come back later, which is kinder than a queue that only grows. A panic in a
//! job ends that job, not the thread. Dropping the pool lets queued jobs finish.
//!
//! Jobs are plain closures; whoever needs a deadline puts it into the job.
//!
//! Brief jobs and long ones have threads and queues of their own: a page of a feed takes a
//! millisecond and would wait for seconds behind queries. The system shares the processors among
//! them, which it does better than a queue. Jobs that wait for others most of their time, as those
//! that run scripts in other processes, have threads of their own, too, and more of them.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use tokio::sync::oneshot;

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
    /// Up to seconds.
    Long,
    /// Up to seconds, and the processors are left to others meanwhile.
    Waiting,
}

/// Threads for waiting jobs, for each one of the others.
const WAITING_THREADS: usize = 8;

/// The threads and their queues. See the module's text.
#[derive(Debug)]
pub struct Pool {
    brief: Arc<Queue>,
    long: Arc<Queue>,
    waiting: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

type Job = Box<dyn FnOnce() + Send>;

struct Queue {
    state: Mutex<State>,
    work: Condvar,
    jobs_max: usize,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    closed: bool,
}

impl Pool {
    /// Starts `threads` threads for jobs of either length, and more for those that wait, with room
    /// for `jobs_max` jobs in each queue.
    pub fn new(threads: usize, jobs_max: usize) -> io::Result<Pool> {
        let queue = || {
            Arc::new(Queue { state: Mutex::new(State::default()), work: Condvar::new(), jobs_max })
        };
        let (brief, long, waiting) = (queue(), queue(), queue());
        let start = |n: usize, name: &str, queue: &Arc<Queue>| {
            let queue = Arc::clone(queue);
            Builder::new().name(format!("partita-{name}-{n}")).spawn(move || queue.work())
        };
        let count = threads.max(1);
        let threads = (0..count)
            .flat_map(|n| [start(n, "brief", &brief), start(n, "pool", &long)])
            .chain((0..count * WAITING_THREADS).map(|n| start(n, "wait", &waiting)))
            .collect::<io::Result<Vec<_>>>()?;
        Ok(Pool { brief, long, waiting, threads })
    }

    /// Runs `work` on one of the threads. If the returned future is dropped the work still runs,
    /// and its result is thrown away.
    pub async fn run<T: Send + 'static>(
        &self,
        length: JobLength,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let (sender, receiver) = oneshot::channel();
        let job = Box::new(move || {
            let result = catch_unwind(AssertUnwindSafe(work));
            let result = result.map_err(|panic| PoolError::Panicked(panic_text(panic.as_ref())));
            // The caller may be gone; then nobody wants the result.
            drop(sender.send(result));
        });
        self.queue(length).push(job)?;
        receiver.await.unwrap_or_else(|_| Err(PoolError::Panicked("its job was dropped".into())))
    }

    /// Jobs of a length that wait for a thread.
    pub fn waiting(&self, length: JobLength) -> usize {
        self.queue(length).lock().jobs.len()
    }

    fn queue(&self, length: JobLength) -> &Queue {
        match length {
            JobLength::Brief => &self.brief,
            JobLength::Long => &self.long,
            JobLength::Waiting => &self.waiting,
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for queue in [&self.brief, &self.long, &self.waiting] {
            queue.lock().closed = true;
            queue.work.notify_all();
        }
        for thread in self.threads.drain(..) {
            // A worker catches its jobs' panics, so there is nothing to learn from the join.
            drop(thread.join());
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code of ours panics while it holds the lock; a poisoned queue is still a queue.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, job: Job) -> Result<(), PoolError> {
        let mut state = self.lock();
        if state.jobs.len() >= self.jobs_max {
            return Err(PoolError::Full { jobs_max: self.jobs_max });
        }
        state.jobs.push_back(job);
        drop(state);
        self.work.notify_one();
        Ok(())
    }

    fn work(&self) {
        while let Some(job) = self.next() {
            job();
        }
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("jobs_max", &self.jobs_max).finish_non_exhaustive()
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
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn work_runs_on_a_thread_of_the_pool() {
        let pool = Pool::new(2, 8).unwrap();
        let name = || std::thread::current().name().map(String::from);
        let name = pool.run(JobLength::Long, name).await.unwrap();
        assert!(name.is_some_and(|name| name.starts_with("partita-pool-")));
    }

    #[tokio::test]
    async fn a_full_queue_refuses_at_once_and_works_again_later() {
        let pool = Arc::new(Pool::new(1, 1).unwrap());
        let (started_sender, started) = mpsc::channel();
        let (gate, gated) = mpsc::channel::<()>();
        let running = {
            let pool = Arc::clone(&pool);
            tokio::spawn(async move {
                pool.run(JobLength::Long, move || {
                    started_sender.send(()).unwrap();
                    gated.recv().unwrap();
                })
                .await
            })
        };
        tokio::task::spawn_blocking(move || started.recv().unwrap()).await.unwrap();
        let waiting = {
            let pool = Arc::clone(&pool);
            tokio::spawn(async move { pool.run(JobLength::Long, || 2).await })
        };
        while pool.waiting(JobLength::Long) == 0 {
            tokio::task::yield_now().await;
        }

        for other in [JobLength::Brief, JobLength::Waiting] {
            assert_eq!(pool.run(other, || 5).await, Ok(5), "long jobs are in nobody's way");
        }
        assert_eq!(pool.run(JobLength::Long, || 3).await, Err(PoolError::Full { jobs_max: 1 }));
        gate.send(()).unwrap();
        assert_eq!(running.await.unwrap(), Ok(()));
        assert_eq!(waiting.await.unwrap(), Ok(2));
        assert_eq!(pool.run(JobLength::Long, || 4).await, Ok(4));
    }

    #[tokio::test]
    async fn a_panic_is_reported_and_the_thread_lives_on() {
        let pool = Pool::new(1, 8).unwrap();
        let outcome = pool.run(JobLength::Long, || -> u8 { panic!("the job broke") }).await;
        assert_eq!(outcome, Err(PoolError::Panicked("the job broke".into())));
        assert_eq!(pool.run(JobLength::Long, || 7).await, Ok(7));
    }
}

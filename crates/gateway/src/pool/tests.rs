//! The pool from outside: who runs, who waits, who is dropped. Threads hand over by hand: nothing
//! here depends on how long anything takes.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use super::*;

const SHARE: Share = Share { credential: 0, container: 0 };

/// Polls a future once, as somebody does who then waits for it.
fn begin<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Waits for something that happens on other threads.
#[track_caller]
#[allow(clippy::disallowed_methods, reason = "what never happens is told by the real clock")]
fn until(what: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !what() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it did not happen");
        thread::sleep(Duration::from_millis(1));
    }
}

#[tokio::test]
async fn work_runs_on_a_thread_of_the_pool() {
    let pool = Pool::new(2, 8).unwrap();
    let name = |_: &Arc<Task>| thread::current().name().map(String::from);
    let name = pool.run(JobLength::Long, SHARE, name).await.unwrap();
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
            pool.run(JobLength::Long, SHARE, move |_| {
                started_sender.send(()).unwrap();
                gated.recv().unwrap();
            })
            .await
        })
    };
    tokio::task::spawn_blocking(move || started.recv().unwrap()).await.unwrap();
    let waiting = {
        let pool = Arc::clone(&pool);
        tokio::spawn(async move { pool.run(JobLength::Long, SHARE, |_| 2).await })
    };
    while pool.waiting(JobLength::Long) == 0 {
        tokio::task::yield_now().await;
    }

    for other in [JobLength::Brief, JobLength::Waiting] {
        assert_eq!(pool.run(other, SHARE, |_| 5).await, Ok(5), "long jobs are in nobody's way");
    }
    let refused = pool.run(JobLength::Long, SHARE, |_| 3).await;
    assert_eq!(refused, Err(PoolError::Full { jobs_max: 1 }));
    gate.send(()).unwrap();
    assert_eq!(running.await.unwrap(), Ok(()));
    assert_eq!(waiting.await.unwrap(), Ok(2));
    assert_eq!(pool.run(JobLength::Long, SHARE, |_| 4).await, Ok(4));
}

#[tokio::test]
async fn a_panic_is_reported_and_the_thread_lives_on() {
    let pool = Pool::new(1, 8).unwrap();
    let outcome = pool.run(JobLength::Long, SHARE, |_| -> u8 { panic!("the job broke") }).await;
    assert_eq!(outcome, Err(PoolError::Panicked("the job broke".into())));
    assert_eq!(pool.run(JobLength::Long, SHARE, |_| 7).await, Ok(7));
}

#[test]
fn beyond_the_limit_no_job_is_begun_until_there_are_fewer_or_it_is_raised() {
    let pool = Pool::new(1, 16).unwrap();
    pool.begun_limit().set(0);
    let [turns, is_over, ran] = [(); 3].map(|()| Arc::new(AtomicU64::new(0)));
    let (counted, ends) = (Arc::clone(&turns), Arc::clone(&is_over));
    let mut long = Box::pin(pool.run(JobLength::Long, SHARE, move |task| {
        until(|| {
            task.step_aside();
            counted.fetch_add(1, Ordering::Relaxed);
            ends.load(Ordering::Relaxed) > 0
        });
    }));
    assert!(begin(&mut long).is_pending(), "one always may be begun");
    let other = Share { credential: 1, container: 1 };
    let runs = Arc::clone(&ran);
    let mut next = Box::pin(pool.run(JobLength::Long, other, move |_| {
        runs.store(1, Ordering::Relaxed);
    }));
    assert!(begin(&mut next).is_pending());
    // It would have its turn as soon as the first one has had some milliseconds.
    until(|| turns.load(Ordering::Relaxed) > 100);
    assert_eq!((ran.load(Ordering::Relaxed), pool.waiting(JobLength::Long)), (0, 1));
    pool.begun_limit().set(8);
    until(|| ran.load(Ordering::Relaxed) == 1);
    is_over.store(1, Ordering::Relaxed);
}

#[test]
fn with_few_begun_who_is_alone_still_has_a_job_for_each_permit() {
    let pool = Pool::new(4, 16).unwrap();
    for begun_max in [4, 5, 8, 11, 12] {
        pool.begun_limit().set(begun_max);
        let (running, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let mut jobs: Vec<_> = (0..4)
            .map(|_| {
                let (running, is_over) = (Arc::clone(&running), Arc::clone(&is_over));
                Box::pin(pool.run(JobLength::Long, SHARE, move |_| {
                    running.fetch_add(1, Ordering::Relaxed);
                    until(|| is_over.load(Ordering::Relaxed));
                    running.fetch_sub(1, Ordering::Relaxed);
                }))
            })
            .collect();
        jobs.iter_mut().for_each(|job| assert!(begin(job).is_pending()));
        until(|| running.load(Ordering::Relaxed) == 4);
        is_over.store(true, Ordering::Relaxed);
        until(|| running.load(Ordering::Relaxed) == 0);
    }
}

#[test]
fn a_job_that_nobody_waits_for_is_dropped_from_the_queue_and_told_if_it_runs() {
    let pool = Pool::new(1, 8).unwrap();
    let ran = Arc::new(AtomicU64::new(0));
    let (started_sender, started) = mpsc::channel();
    let (told_sender, told) = mpsc::channel();
    let mut running = Box::pin(pool.run(JobLength::Long, SHARE, move |task| {
        started_sender.send(()).unwrap();
        until(|| task.is_cancelled());
        told_sender.send(()).unwrap();
    }));
    assert!(begin(&mut running).is_pending());
    started.recv().unwrap();
    let counted = Arc::clone(&ran);
    let mut queued = Box::pin(pool.run(JobLength::Long, SHARE, move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    }));
    assert!(begin(&mut queued).is_pending());
    assert_eq!(pool.waiting(JobLength::Long), 1);
    drop(queued);
    assert_eq!(pool.waiting(JobLength::Long), 0);
    drop(running);
    told.recv().unwrap();
    drop(pool);
    assert_eq!(ran.load(Ordering::Relaxed), 0);
}

/// Runs jobs that go on until each has stood aside so often, and says in which order they ended.
#[test]
fn a_long_job_hands_its_turn_to_short_ones_and_goes_on_after_them() {
    let pool = Pool::new(1, 16).unwrap();
    let ended = Arc::new(Mutex::new(Vec::new()));
    let (started_sender, started) = mpsc::channel();
    let stop = Arc::new(AtomicU64::new(0));
    let (seen, stopped) = (Arc::clone(&ended), Arc::clone(&stop));
    let mut long = Box::pin(pool.run(JobLength::Long, SHARE, move |task| {
        started_sender.send(()).unwrap();
        // Without its standing aside no other could run: there is one permit.
        while stopped.load(Ordering::Relaxed) < 3 {
            task.step_aside();
        }
        seen.lock().unwrap().push("long");
    }));
    assert!(begin(&mut long).is_pending());
    started.recv().unwrap();
    let mut short: Vec<_> = (0..3)
        .map(|_| {
            let (seen, stop) = (Arc::clone(&ended), Arc::clone(&stop));
            Box::pin(pool.run(JobLength::Long, SHARE, move |_| {
                seen.lock().unwrap().push("short");
                stop.fetch_add(1, Ordering::Relaxed);
            }))
        })
        .collect();
    assert!(short.iter_mut().all(|job| begin(job).is_pending()));
    until(|| ended.lock().unwrap().len() == 4);
    assert_eq!(*ended.lock().unwrap(), ["short", "short", "short", "long"]);
}

/// Begins jobs that stand aside until they are told to end, as many as are begun at a time.
fn begun_at_a_time(length: JobLength) -> u64 {
    let pool = Pool::new(1, 64).unwrap();
    let (running, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut jobs: Vec<_> = (0..16)
        .map(|_| {
            let (running, most) = (Arc::clone(&running), Arc::clone(&most));
            Box::pin(pool.run(length, SHARE, move |task| {
                most.fetch_max(running.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                // Longer than its turn, whose end it asks for.
                for _ in 0..4 {
                    thread::sleep(Duration::from_millis(3));
                    task.step_aside();
                }
                running.fetch_sub(1, Ordering::Relaxed);
            }))
        })
        .collect();
    assert!(jobs.iter_mut().all(|job| begin(job).is_pending()));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for job in jobs {
        assert_eq!(runtime.block_on(job), Ok(()));
    }
    most.load(Ordering::Relaxed)
}

/// Each has the memory of a page while it lasts.
#[test]
fn of_brief_jobs_only_those_that_run_are_begun_and_of_long_ones_many() {
    assert_eq!(begun_at_a_time(JobLength::Brief), 1);
    assert!(begun_at_a_time(JobLength::Long) > 4);
}

#[test]
fn a_credential_with_many_containers_leaves_threads_and_places_to_others() {
    let pool = Pool::new(1, 64).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let running = Arc::new(AtomicU64::new(0));
    let run = |credential, container| {
        let (stop, running) = (Arc::clone(&stop), Arc::clone(&running));
        let share = Share { credential, container };
        Box::pin(pool.run(JobLength::Long, share, move |task| {
            running.fetch_add(1, Ordering::Relaxed);
            while !stop.load(Ordering::Relaxed) && !task.is_cancelled() {
                task.step_aside();
            }
        }))
    };
    // Half of the threads, and half of the places in the queue.
    let mut jobs = Vec::new();
    for n in 0..64 {
        let mut job = run(1, n);
        assert!(begin(&mut job).is_pending());
        jobs.push(job);
        until(|| running.load(Ordering::Relaxed) == (n + 1).min(32));
    }
    assert!(matches!(begin(&mut run(1, 64)), Poll::Ready(Err(PoolError::Full { .. }))));
    let mut others: Vec<_> = (0..8).map(|n| run(2, n)).collect();
    assert!(others.iter_mut().all(|job| begin(job).is_pending()));
    until(|| running.load(Ordering::Relaxed) == 40);
    stop.store(true, Ordering::Relaxed);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for job in jobs.into_iter().chain(others) {
        assert_eq!(runtime.block_on(job), Ok(()));
    }
}

thread_local! {
    /// The processor time that a thread of a test says it has had.
    static HAD: Cell<u64> = const { Cell::new(0) };
    /// How far it has stood back.
    static STOOD: Cell<&str> = const { Cell::new("") };
}

const COURTESY: Courtesy =
    Courtesy { processor_nanos: || HAD.get(), stand_back: || STOOD.set("back") };

/// Jobs of one kind that go on until they are told to end.
#[derive(Default)]
struct Endless {
    /// Begun, and known to be long if they say that they are.
    running: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Endless {
    /// One of them; it says how far its thread stood back in the end.
    fn run<'p>(
        &self,
        pool: &'p Pool,
        origin: Origin,
        nanos: u64,
    ) -> Pin<Box<impl Future<Output = Result<&'static str, PoolError>> + use<'p>>> {
        let (running, stop) = (Arc::clone(&self.running), Arc::clone(&self.stop));
        Box::pin(pool.run(JobLength::Long, origin, move |task| {
            HAD.set(HAD.get() + nanos);
            task.step_aside();
            running.fetch_add(1, Ordering::Relaxed);
            while !stop.load(Ordering::Relaxed) && !task.is_cancelled() {
                task.step_aside();
            }
            STOOD.get()
        }))
    }

    fn running(&self) -> u64 {
        self.running.load(Ordering::Relaxed)
    }
}

fn of_kind(share: Share, kind: u64) -> Origin {
    Origin { share, kind: Some(kind) }
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

const LONG_NANOS: u64 = 30_000_000;

#[test]
fn a_short_job_is_begun_although_long_ones_of_its_share_have_all_their_places() {
    let pool = Pool::with_courtesy(1, 200, COURTESY).unwrap();
    let long = Endless::default();
    let mut jobs = vec![long.run(&pool, of_kind(SHARE, 1), LONG_NANOS)];
    assert!(begin(&mut jobs[0]).is_pending());
    until(|| long.running() == 1);
    // Of 64 threads a quarter is not for those: one share has a third of the others.
    for _ in 1..60 {
        let mut job = long.run(&pool, of_kind(SHARE, 1), LONG_NANOS);
        assert!(begin(&mut job).is_pending());
        jobs.push(job);
    }
    until(|| long.running() == 16);
    assert_eq!(pool.waiting(JobLength::Long), 44);
    // Unknown, then known to be short; and one of a kind that none is known of beside it.
    for kind in [2, 2, 3] {
        assert_eq!(block_on(pool.run(JobLength::Long, of_kind(SHARE, kind), |_| 7)), Ok(7));
        assert_eq!((long.running(), pool.waiting(JobLength::Long)), (16, 44));
    }
    long.stop.store(true, Ordering::Relaxed);
    for job in jobs {
        assert!(block_on(job).is_ok());
    }
}

#[test]
fn jobs_that_nobody_knew_leave_room_for_those_that_are_known_to_be_short() {
    let pool = Pool::with_courtesy(1, 200, COURTESY).unwrap();
    assert_eq!(block_on(pool.run(JobLength::Long, of_kind(SHARE, 1), |_| 7)), Ok(7));
    let long = Endless::default();
    let mut jobs: Vec<_> =
        (0..60).map(|n| long.run(&pool, of_kind(SHARE, 100 + n), LONG_NANOS)).collect();
    assert!(jobs.iter_mut().all(|job| begin(job).is_pending()));
    until(|| long.running() == 19);
    assert_eq!(block_on(pool.run(JobLength::Long, of_kind(SHARE, 1), |_| 7)), Ok(7));
    assert_eq!((long.running(), pool.waiting(JobLength::Long)), (19, 41));
    // Nor do they take the threads of others.
    let other = Share { credential: 9, container: 0 };
    assert_eq!(block_on(pool.run(JobLength::Long, of_kind(other, 1), |_| 7)), Ok(7));
    long.stop.store(true, Ordering::Relaxed);
    for job in jobs {
        assert!(block_on(job).is_ok());
    }
}

#[test]
fn the_thread_of_a_long_job_stands_back() {
    let pool = Pool::with_courtesy(1, 200, COURTESY).unwrap();
    let short = Endless::default();
    short.stop.store(true, Ordering::Relaxed);
    const NEW_NANOS: u64 = 6_000_000;
    assert_eq!(block_on(short.run(&pool, of_kind(SHARE, 1), 1)), Ok(""));
    assert_eq!(block_on(short.run(&pool, of_kind(SHARE, 1), NEW_NANOS)), Ok(""), "it is known");
    assert_eq!(block_on(short.run(&pool, of_kind(SHARE, 3), NEW_NANOS)), Ok("back"));
    assert_eq!(block_on(short.run(&pool, of_kind(SHARE, 1), LONG_NANOS)), Ok("back"));
    // It is known now, and stands back before it has had anything.
    assert_eq!(block_on(short.run(&pool, of_kind(SHARE, 1), 0)), Ok("back"));
    assert_eq!(
        block_on(short.run(&pool, of_kind(SHARE, 1), 0)),
        Ok(""),
        "the one before was short"
    );
}

#[test]
fn what_was_cut_off_while_it_was_short_is_not_known_to_be() {
    let pool = Pool::with_courtesy(1, 200, COURTESY).unwrap();
    let stands = |nanos| {
        let ended = Endless::default();
        ended.stop.store(true, Ordering::Relaxed);
        block_on(ended.run(&pool, of_kind(SHARE, 1), nanos))
    };
    assert_eq!(stands(LONG_NANOS), Ok("back"));
    let cut = Endless::default();
    let mut job = cut.run(&pool, of_kind(SHARE, 1), 0);
    assert!(begin(&mut job).is_pending());
    until(|| cut.running() == 1);
    drop(job);
    assert_eq!(stands(0), Ok("back"));
    assert_eq!(stands(0), Ok(""));
}

#[test]
fn of_many_long_jobs_all_come_to_their_end() {
    let pool = Pool::new(2, 200).unwrap();
    let rounds = Arc::new(AtomicU64::new(0));
    let mut jobs: Vec<_> = (0..100)
        .map(|n| {
            let rounds = Arc::clone(&rounds);
            let share = Share { credential: n % 3, container: n % 7 };
            Box::pin(pool.run(JobLength::Long, share, move |task| {
                let until = rounds.load(Ordering::Relaxed) + 20;
                while rounds.fetch_add(1, Ordering::Relaxed) < until {
                    thread::sleep(Duration::from_millis(1));
                    task.step_aside();
                }
            }))
        })
        .collect();
    assert!(jobs.iter_mut().all(|job| begin(job).is_pending()));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for job in jobs {
        assert_eq!(runtime.block_on(job), Ok(()));
    }
}

#[test]
fn a_helper_is_there_while_a_permit_is_free_and_waited_for_without_one() {
    let pool = Pool::new(2, 8).unwrap();
    let (helped_sender, helped) = mpsc::channel();
    let mut job = Box::pin(pool.run(JobLength::Long, SHARE, move |task| {
        let (gate, gated) = mpsc::channel::<()>();
        let sender = helped_sender.clone();
        let first = task.help(Box::new(move || {
            gated.recv().unwrap();
            sender.send("helped").unwrap();
        }));
        let second = task.help(Box::new(|| {}));
        let mut was_waited_for = false;
        task.wait_for_help(&mut || {
            gate.send(()).unwrap();
            was_waited_for = true;
        });
        (first, second, was_waited_for)
    }));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(&mut job), Ok((true, false, true)));
    assert_eq!(helped.recv(), Ok("helped"));
}

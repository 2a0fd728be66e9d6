//! The governor: the last line that keeps the server within its memory.
//!
//! What is divided (`memory.rs`) is counted as it was asked for. What is taken is more: merges of
//! tables hold what they read, the allocator keeps pages of which only some pieces are in use, and
//! more of them the more threads there are, and running queries hold blocks of the store. So a
//! thread looks what all processes of the server really take. Nearing the number that was set, less
//! is given out until it is less again:
//!
//! ```text
//!   taken, of --memory-mb
//!   up to 7/8     nothing is held back
//!   7/8 to 9/8    operations get less and less of their memory, and fewer queries are begun at a
//!                 time: the others wait in their queue. What queries have found is forgotten, and
//!                 processes of scripts that have nothing to do are ended
//!   from 9/8      nobody gets more but who needs little, or is alone
//! ```
//!
//! It tightens at once and loosens over seconds, so that it does not swing. What is held back never
//! stops all work (`partita_model::MemoryBudget::hold_back`, `Pool::begun_limit`): a server whose
//! memory is full of what cannot be let go, for example the indexes of very much data, goes on with
//! one large operation at a time.
//!
//! Where the system does not tell what a process takes, there is no governor; with `--store memory`
//! neither, as its items are not part of the number.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use partita_engine::Database;
use partita_gateway::{BegunLimit, Sample, Series, SeriesKind};
use partita_model::Object;
use partita_script::Workers;

use crate::memory::MemoryPlan;
use partita_cli::Failure;

/// How often it looks while there is much room, and while there is not. Two processors touch some
/// ten megabytes of new memory in the shorter time. A look takes some ten microseconds.
const LOOK_CALM: Duration = Duration::from_millis(100);
const LOOK_TIGHT: Duration = Duration::from_millis(10);
/// From three quarters of the number on there is not much room.
const TIGHT: Part = Part(3, 4);

/// From here on something is held back, and from there on everything.
const BEGIN: Part = Part(7, 8);
const FULL: Part = Part(9, 8);

/// What is held back in thousandths, and by how many of them it loosens with each look: it takes
/// two seconds to loosen wholly.
const WHOLE: u64 = 1_000;
const LOOSEN: u64 = 5;

/// While something is held back so many long jobs are begun for each one that runs, and one when
/// everything is.
const BEGUN_JOBS: usize = 4;

/// In looks: what can be let go is let go no more often than once a second, and a line is logged no
/// more often than once a minute.
const LET_GO_LOOKS: u64 = 100;
const LOG_LOOKS: u64 = 6_000;

/// A fraction.
#[derive(Clone, Copy)]
struct Part(u64, u64);

impl Part {
    fn of(self, whole: u64) -> u64 {
        whole / self.1 * self.0
    }
}

/// What is done about the memory that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Measures {
    /// Of the operations' memory.
    held_back_bytes: u64,
    /// How many long jobs may be begun.
    begun_max: usize,
    /// What is only kept in case somebody asks for it is let go.
    lets_go: bool,
    /// It is worth a line.
    logs: bool,
}

/// Decides. It knows neither processes nor clocks.
#[derive(Debug)]
struct Governor {
    total_bytes: u64,
    operations_bytes: u64,
    /// Long jobs that run at a time, and those that may be begun where there is room.
    running_max: usize,
    begun_most: usize,
    /// In thousandths.
    pressure: u64,
    looks: u64,
    let_go_at: Option<u64>,
    logged_at: Option<u64>,
}

impl Governor {
    fn new(plan: &MemoryPlan, running_max: usize) -> Governor {
        Governor {
            total_bytes: plan.total,
            operations_bytes: plan.operations,
            running_max,
            begun_most: plan.begun_jobs(running_max),
            pressure: 0,
            looks: 0,
            let_go_at: None,
            logged_at: None,
        }
    }

    /// So many bytes are taken now.
    fn look(&mut self, taken_bytes: u64) -> Measures {
        self.looks += 1;
        let (begin, full) = (BEGIN.of(self.total_bytes), FULL.of(self.total_bytes));
        let over = taken_bytes.saturating_sub(begin).min(full - begin);
        // In units that do not overflow.
        let now = (over >> 10) * WHOLE / ((full - begin) >> 10).max(1);
        self.pressure = now.max(self.pressure.saturating_sub(LOOSEN));
        let is_over = over > 0;
        Measures {
            held_back_bytes: self.operations_bytes / WHOLE * self.pressure,
            begun_max: self.begun_max(),
            lets_go: is_over && is_due(&mut self.let_go_at, self.looks, LET_GO_LOOKS),
            logs: is_over && is_due(&mut self.logged_at, self.looks, LOG_LOOKS),
        }
    }

    fn begun_max(&self) -> usize {
        if self.pressure == 0 {
            return self.begun_most;
        }
        let left = usize::try_from(WHOLE - self.pressure).unwrap_or(0);
        let beside_running =
            self.running_max.saturating_mul(BEGUN_JOBS - 1) * left / WHOLE as usize;
        (self.running_max + beside_running).min(self.begun_most)
    }

    /// Until it has to look again.
    fn pause(&self, taken_bytes: u64) -> Duration {
        let is_tight = self.pressure > 0 || taken_bytes > TIGHT.of(self.total_bytes);
        if is_tight { LOOK_TIGHT } else { LOOK_CALM }
    }
}

/// Is it the first time, or has the last one been so many looks ago? Then this is the last one.
fn is_due(last: &mut Option<u64>, looks: u64, every: u64) -> bool {
    let due = last.is_none_or(|last| looks - last >= every);
    if due {
        *last = Some(looks);
    }
    due
}

/// What the governor has seen and done, for `/status` and `/metrics`.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    taken_bytes: AtomicU64,
    taken_bytes_peak: AtomicU64,
    held_back_bytes: AtomicU64,
    held_back_times: AtomicU64,
}

impl Seen {
    fn note(&self, taken_bytes: u64, measures: &Measures) {
        self.taken_bytes.store(taken_bytes, Ordering::Relaxed);
        self.taken_bytes_peak.fetch_max(taken_bytes, Ordering::Relaxed);
        let before = self.held_back_bytes.swap(measures.held_back_bytes, Ordering::Relaxed);
        if before == 0 && measures.held_back_bytes > 0 {
            self.held_back_times.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// For `/status`; nothing where nobody looks.
    pub(crate) fn add_to(&self, object: Object) -> Object {
        let number = |of: &AtomicU64| i64::try_from(of.load(Ordering::Relaxed)).unwrap_or(i64::MAX);
        if self.taken_bytes.load(Ordering::Relaxed) == 0 {
            return object;
        }
        object
            .with("taken_bytes", number(&self.taken_bytes))
            .with("taken_bytes_peak", number(&self.taken_bytes_peak))
            .with("held_back_bytes", number(&self.held_back_bytes))
            .with("held_back_times", number(&self.held_back_times))
    }

    /// For `/metrics`; nothing where nobody looks.
    pub(crate) fn series(&self, plan_bytes: u64) -> Vec<Series> {
        let load = |of: &AtomicU64| of.load(Ordering::Relaxed) as f64;
        if self.taken_bytes.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let series = |name, help, kind, value| {
            let samples = vec![Sample { labels: Vec::new(), value }];
            Series { name, help, kind, samples }
        };
        vec![
            series(
                "memory_taken_bytes",
                "Bytes that all processes of the server take",
                SeriesKind::Gauge,
                load(&self.taken_bytes),
            ),
            series(
                "memory_limit_bytes",
                "Bytes that they are to take (--memory-mb)",
                SeriesKind::Gauge,
                plan_bytes as f64,
            ),
            series(
                "memory_held_back_bytes",
                "Bytes of the operations' memory that are not given out, because too much is taken",
                SeriesKind::Gauge,
                load(&self.held_back_bytes),
            ),
            series(
                "memory_held_back",
                "How often memory began to be held back",
                SeriesKind::Counter,
                load(&self.held_back_times),
            ),
        ]
    }
}

/// Whom the governor has do something.
pub(crate) struct Governed {
    pub(crate) database: Arc<Database>,
    pub(crate) workers: Arc<Workers>,
    pub(crate) begun: BegunLimit,
}

impl Governed {
    /// What all processes take; None: the system does not tell.
    fn taken_bytes(&self) -> Option<u64> {
        let server = status_bytes("self", &["VmRSS:"])?;
        // Their files are the server's own program, which counts once.
        let bytes = |process: u32| status_bytes(&process.to_string(), &["RssAnon:", "RssShmem:"]);
        let workers = self.workers.processes().into_iter().filter_map(bytes);
        Some(server + workers.sum::<u64>())
    }

    fn carry_out(&self, measures: &Measures, taken_bytes: u64, total_bytes: u64) {
        let held_back = usize::try_from(measures.held_back_bytes).unwrap_or(usize::MAX);
        self.database.hold_back(held_back);
        self.begun.set(measures.begun_max);
        if measures.lets_go {
            self.database.forget_found();
            self.workers.end_idle();
        }
        if measures.logs {
            tracing::warn!(
                "all processes together take {} MB of the {} of --memory-mb: operations wait or \
                 are refused until it is less",
                taken_bytes >> 20,
                total_bytes >> 20
            );
        }
    }
}

/// The sum of some lines of a process' status.
fn status_bytes(process: &str, names: &[&str]) -> Option<u64> {
    lines_bytes(&fs::read_to_string(format!("/proc/{process}/status")).ok()?, names)
}

fn lines_bytes(text: &str, names: &[&str]) -> Option<u64> {
    let bytes = |name: &&str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
        kilobytes.checked_mul(1024)
    };
    names.iter().map(bytes).sum()
}

/// A running thread; stopped by [`GovernorThread::stop`].
pub(crate) struct GovernorThread {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl GovernorThread {
    /// None: the system does not tell what a process takes.
    pub(crate) fn start(
        plan: &MemoryPlan,
        governed: Governed,
        running_max: usize,
        seen: &Arc<Seen>,
    ) -> Result<Option<GovernorThread>, Failure> {
        let Some(mut taken_bytes) = governed.taken_bytes() else { return Ok(None) };
        let mut governor = Governor::new(plan, running_max);
        let (stop, stopped) = mpsc::channel();
        let (seen, total_bytes) = (Arc::clone(seen), plan.total);
        let thread = thread::Builder::new()
            .name("partita-memory".to_owned())
            .spawn(move || {
                let mut before = None;
                while let Err(RecvTimeoutError::Timeout) =
                    stopped.recv_timeout(governor.pause(taken_bytes))
                {
                    taken_bytes = governed.taken_bytes().unwrap_or(taken_bytes);
                    let measures = governor.look(taken_bytes);
                    seen.note(taken_bytes, &measures);
                    if before != Some(measures) {
                        governed.carry_out(&measures, taken_bytes, total_bytes);
                        before = Some(measures);
                    }
                }
            })
            .map_err(|error| Failure::other(format!("cannot start a thread: {error}")))?;
        Ok(Some(GovernorThread { stop, thread }))
    }

    pub(crate) fn stop(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            tracing::error!("the thread that watches the memory ended by a panic");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn governor() -> Governor {
        Governor {
            total_bytes: 160 * MB,
            operations_bytes: 40 * MB,
            running_max: 2,
            begun_most: 14,
            pressure: 0,
            looks: 0,
            let_go_at: None,
            logged_at: None,
        }
    }

    fn held_back_mb(governor: &mut Governor, taken_mb: u64) -> u64 {
        (governor.look(taken_mb * MB).held_back_bytes + MB / 2) / MB
    }

    #[test]
    fn nothing_is_held_back_while_there_is_room() {
        let mut governor = governor();
        for taken_mb in [0, 100, 140] {
            let measures = governor.look(taken_mb * MB);
            let nothing =
                Measures { held_back_bytes: 0, begun_max: 14, lets_go: false, logs: false };
            assert_eq!(measures, nothing, "{taken_mb}");
        }
    }

    #[test]
    fn the_nearer_the_limit_the_more_is_held_back_and_the_fewer_are_begun() {
        let found: Vec<_> = [141, 150, 160, 170, 180, 1 << 30]
            .into_iter()
            .map(|taken_mb| {
                let measures = governor().look(taken_mb * MB);
                (measures.held_back_bytes / MB, measures.begun_max)
            })
            .collect();
        let all = 39;
        assert_eq!(found, [(0, 7), (9, 6), (19, 5), (29, 3), (all, 2), (all, 2),]);
    }

    #[test]
    fn it_tightens_at_once_and_loosens_over_many_looks() {
        let mut governor = governor();
        assert_eq!(held_back_mb(&mut governor, 180), 40);
        assert_eq!(held_back_mb(&mut governor, 100), 40);
        let looks = (2..).find(|_| held_back_mb(&mut governor, 100) == 0);
        assert!(looks.is_some_and(|looks| (150..=200).contains(&looks)), "{looks:?}");
        for _ in 0..20 {
            governor.look(100 * MB);
        }
        assert_eq!(governor.look(100 * MB).begun_max, 14);
        assert_eq!(held_back_mb(&mut governor, 160), 20);
    }

    #[test]
    fn what_can_be_let_go_is_once_a_second_and_a_line_comes_once_a_minute() {
        let mut governor = governor();
        let told: Vec<_> = (0..12_000).map(|_| governor.look(170 * MB)).collect();
        assert_eq!(told.iter().filter(|measures| measures.lets_go).count(), 120);
        assert_eq!(told.iter().filter(|measures| measures.logs).count(), 2);
        assert!(told[0].lets_go && told[0].logs);
    }

    #[test]
    fn it_looks_more_often_where_there_is_little_room() {
        let mut governor = governor();
        assert_eq!(governor.pause(100 * MB), LOOK_CALM);
        assert_eq!(governor.pause(130 * MB), LOOK_TIGHT);
        governor.look(170 * MB);
        assert_eq!(governor.pause(100 * MB), LOOK_TIGHT);
    }

    #[test]
    fn the_number_of_a_huge_machine_does_not_overflow() {
        let (total_bytes, operations_bytes) = (u64::MAX / 2, u64::MAX / 4);
        let mut governor = Governor { total_bytes, operations_bytes, ..governor() };
        assert!(governor.look(u64::MAX).held_back_bytes > u64::MAX / 5);
    }

    #[test]
    fn a_process_is_what_the_system_says() {
        let text = "Name:\tpartita\nVmRSS:\t  2048 kB\nRssAnon:\t 1024 kB\nRssShmem:\t 0 kB\n";
        assert_eq!(lines_bytes(text, &["VmRSS:"]), Some(2 * MB));
        assert_eq!(lines_bytes(text, &["RssAnon:", "RssShmem:"]), Some(MB));
        assert_eq!(lines_bytes("Name:\tpartita\n", &["VmRSS:"]), None);
        #[cfg(target_os = "linux")]
        assert!(status_bytes("self", &["VmRSS:"]).is_some_and(|bytes| bytes > MB));
    }
}

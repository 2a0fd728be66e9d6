//! Counts of durations, and how a child tells them to its parent: one line per interval.

use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Sixteen buckets per doubling of microseconds: percentiles are exact to 6 %.
const BUCKETS: usize = 64 * 16;

/// A stall is an operation that takes longer than this.
const STALL: Duration = Duration::from_millis(250);

/// Durations of one kind of operation in the running interval.
pub(crate) struct Recorder {
    buckets: Vec<AtomicU64>,
    max_us: AtomicU64,
    stalls: AtomicU64,
    /// Until when the last stall lasted: operations that wait for the same one are counted once.
    stalled_until: Mutex<Instant>,
}

impl Recorder {
    pub(crate) fn new() -> Recorder {
        Recorder {
            buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            max_us: AtomicU64::new(0),
            stalls: AtomicU64::new(0),
            stalled_until: Mutex::new(Instant::now()),
        }
    }

    pub(crate) fn record(&self, start: Instant) {
        let took = start.elapsed();
        let us = took.as_micros() as u64;
        self.buckets[bucket(us)].fetch_add(1, Ordering::Relaxed);
        self.max_us.fetch_max(us, Ordering::Relaxed);
        if took > STALL {
            let mut until = self.stalled_until.lock().expect("no panic");
            if start > *until {
                self.stalls.fetch_add(1, Ordering::Relaxed);
            }
            *until = (*until).max(start + took);
        }
    }

    /// What happened since the last call.
    pub(crate) fn take(&self) -> Durations {
        Durations {
            counts: self.buckets.iter().map(|bucket| bucket.swap(0, Ordering::Relaxed)).collect(),
            max_us: self.max_us.swap(0, Ordering::Relaxed),
            stalls: self.stalls.swap(0, Ordering::Relaxed),
        }
    }
}

fn bucket(us: u64) -> usize {
    let us = us + 16;
    let power = us.ilog2();
    let fine = (us >> (power - 4)) & 15;
    (power as usize * 16 + fine as usize).min(BUCKETS - 1)
}

fn middle_us(bucket: usize) -> f64 {
    let (power, fine) = (bucket / 16, bucket % 16);
    (16.0 + fine as f64 + 0.5) * 2f64.powi(power as i32 - 4) - 16.0
}

#[derive(Clone, Default)]
pub(crate) struct Durations {
    counts: Vec<u64>,
    max_us: u64,
    stalls: u64,
}

impl Durations {
    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    fn add(&mut self, other: &Durations) {
        self.counts.resize(BUCKETS, 0);
        for (mine, more) in self.counts.iter_mut().zip(&other.counts) {
            *mine += more;
        }
        self.max_us = self.max_us.max(other.max_us);
        self.stalls += other.stalls;
    }

    fn percentile_ms(&self, share: f64) -> f64 {
        let wanted = (self.count() as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted.max(1) {
                return middle_us(bucket).max(0.0) / 1000.0;
            }
        }
        0.0
    }

    fn max_ms(&self) -> f64 {
        self.max_us as f64 / 1000.0
    }

    fn describe(&self) -> String {
        format!(
            "p50 {:.2} p99 {:.2} p99.9 {:.1} max {:.0} ms, {} stalls",
            self.percentile_ms(0.5),
            self.percentile_ms(0.99),
            self.percentile_ms(0.999),
            self.max_ms(),
            self.stalls
        )
    }

    fn json(&self, name: &str, seconds: f64) -> String {
        format!(
            "\"{name}\":{{\"per_second\":{:.0},\"p50_ms\":{:.3},\"p99_ms\":{:.3},\"p999_ms\":{:.2},\
             \"max_ms\":{:.1},\"stalls_over_250_ms\":{}}}",
            self.count() as f64 / seconds,
            self.percentile_ms(0.5),
            self.percentile_ms(0.99),
            self.percentile_ms(0.999),
            self.max_ms(),
            self.stalls
        )
    }

    fn to_text(&self) -> String {
        let mut text = format!("{} {}", self.max_us, self.stalls);
        for (bucket, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            write!(text, " {bucket}:{count}").expect("a string takes all text");
        }
        text
    }

    fn parse(text: &str) -> Option<Durations> {
        let mut words = text.split(' ');
        let max_us = words.next()?.parse().ok()?;
        let stalls = words.next()?.parse().ok()?;
        let mut counts = vec![0; BUCKETS];
        for word in words {
            let (bucket, count) = word.split_once(':')?;
            *counts.get_mut(bucket.parse::<usize>().ok()?)? = count.parse().ok()?;
        }
        Some(Durations { counts, max_us, stalls })
    }
}

/// What a child tells of one interval.
pub(crate) struct Interval {
    pub(crate) seconds: f64,
    pub(crate) writes: Durations,
    pub(crate) reads: Durations,
    pub(crate) scans: Durations,
    pub(crate) rss_mb: u64,
    pub(crate) disk_mb: u64,
    /// Processor seconds of our threads and of the engine's, within the interval.
    pub(crate) cpu_own: f64,
    pub(crate) cpu_engine: f64,
}

impl Interval {
    pub(crate) fn to_line(&self) -> String {
        format!(
            "{}|{}|{}|{}|{}|{}|{}|{}",
            self.seconds,
            self.writes.to_text(),
            self.reads.to_text(),
            self.scans.to_text(),
            self.rss_mb,
            self.disk_mb,
            self.cpu_own,
            self.cpu_engine
        )
    }

    pub(crate) fn parse(line: &str) -> Option<Interval> {
        let parts: Vec<&str> = line.split('|').collect();
        let [seconds, writes, reads, scans, rss, disk, own, engine] = parts.as_slice() else {
            return None;
        };
        Some(Interval {
            seconds: seconds.parse().ok()?,
            writes: Durations::parse(writes)?,
            reads: Durations::parse(reads)?,
            scans: Durations::parse(scans)?,
            rss_mb: rss.parse().ok()?,
            disk_mb: disk.parse().ok()?,
            cpu_own: own.parse().ok()?,
            cpu_engine: engine.parse().ok()?,
        })
    }

    pub(crate) fn describe(&self) -> String {
        format!(
            "{:.0} commits/s [{}] · {:.0} reads/s [{}] · {:.0} scans/s [{}] · {} MB memory, {} MB \
             disk · cores: {:.2} own, {:.2} engine",
            self.writes.count() as f64 / self.seconds,
            self.writes.describe(),
            self.reads.count() as f64 / self.seconds,
            self.reads.describe(),
            self.scans.count() as f64 / self.seconds,
            self.scans.describe(),
            self.rss_mb,
            self.disk_mb,
            self.cpu_own / self.seconds,
            self.cpu_engine / self.seconds,
        )
    }
}

/// All intervals together.
#[derive(Default)]
pub(crate) struct Total {
    seconds: f64,
    writes: Durations,
    reads: Durations,
    scans: Durations,
    rss_mb_max: u64,
    disk_mb_last: u64,
}

impl Total {
    pub(crate) fn add(&mut self, interval: &Interval) {
        self.seconds += interval.seconds;
        self.writes.add(&interval.writes);
        self.reads.add(&interval.reads);
        self.scans.add(&interval.scans);
        self.rss_mb_max = self.rss_mb_max.max(interval.rss_mb);
        self.disk_mb_last = interval.disk_mb;
    }

    pub(crate) fn json(&self) -> String {
        format!(
            "{},{},{},\"rss_mb_max\":{},\"disk_mb\":{}",
            self.writes.json("commits", self.seconds),
            self.reads.json("reads", self.seconds),
            self.scans.json("scans", self.seconds),
            self.rss_mb_max,
            self.disk_mb_last
        )
    }
}

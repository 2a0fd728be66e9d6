//! Clients that repeat a refused request as fast as they can, slowed down.
//!
//! A range that is gone (410) makes clients read the ranges again and ask anew, mostly without a
//! pause. One that draws the wrong conclusion asks the same for ever, thousands of times a second,
//! and never tells its user. From the [`IDENTICAL_MAX`]th identical refusal within a second on
//! (same connection, container and range id) each is delivered later than the one before, and the
//! log says so once. Any other answer on the connection ends that, but for the reads that a 410
//! itself asks for: the ranges, the container, the account.
//!
//! Nobody is kept waiting here: the delay is the delivery's, which holds a connection and no
//! thread. While no client is refused like this, an answer costs one look at a number.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// So many identical refusals within [`WINDOW`] are a loop. A split makes a client see a handful.
const IDENTICAL_MAX: usize = 20;
const WINDOW: Duration = Duration::from_secs(1);

/// The first delay, doubled with each refusal up to the last.
const DELAY_MIN: Duration = Duration::from_millis(10);
const DELAY_MAX: Duration = Duration::from_secs(1);

/// Connections that are watched at a time. Those that are not seen for a while make room; beyond
/// this, further ones are not watched.
const CONNECTIONS_MAX: usize = 4_096;
/// Ranges that are watched of one connection.
const RANGES_MAX: usize = 64;

/// The refusals of late, by connection. See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Loops {
    /// How many connections are watched.
    watched: AtomicUsize,
    connections: Mutex<HashMap<SocketAddr, Vec<Watched>>>,
}

/// What one connection was refused.
#[derive(Debug)]
struct Watched {
    /// Stands for container and range: texts of clients are as long as these like.
    asked: u64,
    /// When, in nanoseconds; at most [`IDENTICAL_MAX`], within [`WINDOW`].
    times: VecDeque<u64>,
    /// How long the last answer was held back. Zero: it is no loop.
    delay: Duration,
    /// When the last answer was due.
    due_nanos: u64,
}

impl Loops {
    /// How long the refusal of a range shall be held back. `path` is the container's.
    pub(crate) fn refused(
        &self,
        peer: SocketAddr,
        path: &str,
        range: &str,
        now_nanos: u64,
    ) -> Duration {
        let mut connections = self.lock();
        if connections.len() >= CONNECTIONS_MAX && !connections.contains_key(&peer) {
            connections.retain(|_, ranges| ranges.iter().any(|range| range.is_recent(now_nanos)));
            if connections.len() >= CONNECTIONS_MAX {
                return Duration::ZERO;
            }
        }
        let ranges = connections.entry(peer).or_default();
        let asked = mark(path, range);
        let known = ranges.iter().position(|known| known.asked == asked);
        let at = known.unwrap_or_else(|| {
            if ranges.len() >= RANGES_MAX {
                ranges.remove(0);
            }
            ranges.push(Watched::new(asked, now_nanos));
            ranges.len() - 1
        });
        let delay = ranges.get_mut(at).map_or(Duration::ZERO, |known| known.refused(now_nanos));
        self.watched.store(connections.len(), Ordering::Relaxed);
        if delay == DELAY_MIN {
            tracing::warn!(
                %peer,
                path,
                range,
                "a client repeats a request for a partition key range that is not there (410) \
                 without pause; its answers are delayed from now on"
            );
        }
        delay
    }

    /// Is anybody watched?
    pub(crate) fn are_there(&self) -> bool {
        self.watched.load(Ordering::Relaxed) > 0
    }

    /// The connection got another answer. Connections that have gone, or do nothing of the kind
    /// any more, are forgotten as well, lest every later answer looks for itself among them.
    pub(crate) fn answered(&self, peer: SocketAddr, now_nanos: u64) {
        let mut connections = self.lock();
        let is_recent = |ranges: &[Watched]| ranges.iter().any(|range| range.is_recent(now_nanos));
        connections.retain(|other, ranges| *other != peer && is_recent(ranges));
        self.watched.store(connections.len(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SocketAddr, Vec<Watched>>> {
        // Each change leaves the map whole, so a panic elsewhere has broken nothing here.
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    fn new(asked: u64, now_nanos: u64) -> Watched {
        let (times, delay) = (VecDeque::new(), Duration::ZERO);
        Watched { asked, times, delay, due_nanos: now_nanos }
    }

    /// Did it get its last answer within the window?
    fn is_recent(&self, now_nanos: u64) -> bool {
        now_nanos.saturating_sub(self.due_nanos) <= nanos(WINDOW)
    }

    fn refused(&mut self, now_nanos: u64) -> Duration {
        if !self.is_recent(now_nanos) {
            self.delay = Duration::ZERO;
        }
        let begin = now_nanos.saturating_sub(nanos(WINDOW));
        self.times.retain(|time| *time >= begin);
        if self.times.len() == IDENTICAL_MAX {
            self.times.pop_front();
        }
        self.times.push_back(now_nanos);
        if !self.delay.is_zero() {
            self.delay = DELAY_MAX.min(self.delay * 2);
        } else if self.times.len() == IDENTICAL_MAX {
            self.delay = DELAY_MIN;
        }
        self.due_nanos = now_nanos.saturating_add(nanos(self.delay));
        self.delay
    }
}

/// Two requests with the same mark by chance would at worst be counted as one.
fn mark(path: &str, range: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (path, range).hash(&mut hasher);
    hasher.finish()
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    fn peer(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn a_loop_is_slowed_down_until_another_answer_comes() {
        let loops = Loops::default();
        let mut now = 5_000 * MILLI;
        let ask = |count: usize, now: &mut u64| -> Vec<u128> {
            let once = |_| {
                let delay = loops.refused(peer(1), "dbs/d/colls/c", "7", *now);
                *now += MILLI + nanos(delay);
                delay.as_millis()
            };
            (0..count).map(once).collect()
        };
        assert_eq!(ask(19, &mut now), [0; 19]);
        assert_eq!(ask(9, &mut now), [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        loops.answered(peer(2), now);
        assert_eq!(ask(1, &mut now), [1000]);
        loops.answered(peer(1), now);
        assert_eq!(ask(20, &mut now), [[0; 19].as_slice(), &[10]].concat());
    }

    #[test]
    fn connections_containers_and_ranges_are_counted_apart() {
        let loops = Loops::default();
        for n in 0..19 {
            for (port, path, range) in [(1, "c", "0"), (1, "c", "1"), (1, "x", "0"), (2, "c", "0")]
            {
                let delay = loops.refused(peer(port), path, range, n * MILLI);
                assert_eq!(delay, Duration::ZERO, "{n} {port} {path} {range}");
            }
        }
        assert_eq!(loops.refused(peer(1), "c", "1", 20 * MILLI), DELAY_MIN);
        assert_eq!(loops.refused(peer(1), "c", "1", 20 * MILLI), DELAY_MIN * 2);
        assert_eq!(loops.refused(peer(2), "c", "0", 20 * MILLI), DELAY_MIN);
    }

    #[test]
    fn twenty_refusals_in_more_than_a_second_are_no_loop() {
        let loops = Loops::default();
        for n in 0..200 {
            assert_eq!(loops.refused(peer(1), "c", "0", n * 60 * MILLI), Duration::ZERO, "{n}");
        }
        // Who comes back after a rest begins anew.
        let burst = |at: u64| (0..20).map(|n| loops.refused(peer(1), "c", "0", at + n)).collect();
        let (first, second): (Vec<_>, Vec<_>) = (burst(60_000 * MILLI), burst(63_000 * MILLI));
        assert_eq!((first[18], first[19]), (Duration::ZERO, DELAY_MIN));
        assert_eq!(first, second);
    }

    #[test]
    fn what_is_watched_is_bounded_and_forgotten() {
        let loops = Loops::default();
        for n in 0..2 * CONNECTIONS_MAX {
            let port = u16::try_from(n % 60_000).unwrap();
            loops.refused(peer(port), "c", "0", 0);
        }
        assert_eq!(loops.watched.load(Ordering::Relaxed), CONNECTIONS_MAX);
        for n in 0..2 * RANGES_MAX {
            loops.refused(peer(0), "c", &n.to_string(), 0);
        }
        assert_eq!(loops.lock().get(&peer(0)).map(Vec::len), Some(RANGES_MAX));
        loops.answered(peer(60_001), 500 * MILLI);
        assert_eq!(loops.watched.load(Ordering::Relaxed), CONNECTIONS_MAX);
        loops.answered(peer(60_001), 1_001 * MILLI);
        assert!(!loops.are_there());
    }
}

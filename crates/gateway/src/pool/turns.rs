//! Whose turn it is: the order in which those who wait for a processor get one.
//!
//! Who has had little goes before who has had much: first those who have had a few milliseconds
//! at most, then the short ones, then the long ones. Among equals the credential that has had least
//! goes first, then its container that has, then who waits for longest. So nobody gets more by
//! asking more often, nor by asking under many names. Whoever is expected to take long counts among
//! the long ones from the beginning (`kinds.rs`), and of one credential's jobs those go first that
//! are known to be short. Every eighth turn is for who waits for longest of all, whoever that is,
//! so that the long ones come to their end beside any number of short ones. Those whose client is
//! gone come before all others: they end at once, and make room.
//!
//! This file knows neither threads nor clocks.

use std::collections::HashMap;

use super::kinds::{Expected, Kinds, Origin};

/// Who shares: a credential, and what it works on. Numbers that mean something to the door.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Share {
    pub credential: u64,
    pub container: u64,
}

/// Processor time up to which one is new.
pub(super) const NEW_NANOS: u64 = 5_000_000;
/// Processor time up to which one is short.
pub(super) const SHORT_NANOS: u64 = 25_000_000;
/// One turn in so many is for who waits for longest.
const FAIRNESS: u64 = 8;

/// Who waits, and what all have had.
#[derive(Debug, Default)]
pub(super) struct Turns {
    waiting: Vec<Waiting>,
    credentials: HashMap<u64, Had>,
    shares: HashMap<Share, Had>,
    kinds: Kinds,
    given: u64,
    arrived: u64,
}

/// Somebody who waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) id: u64,
    pub(super) origin: Origin,
    pub(super) expected: Expected,
    used_nanos: u64,
    arrived: u64,
    cancelled: bool,
}

impl Waiting {
    /// Is it neither long nor expected to be?
    pub(super) fn is_short(&self) -> bool {
        self.used_nanos < SHORT_NANOS && self.expected < Expected::Long
    }
}

/// What somebody has had since there was something to do for them.
#[derive(Debug, Default)]
struct Had {
    nanos: u64,
    jobs: usize,
}

impl Turns {
    /// A job has come. Who was not there before begins with what those have had who had least: else
    /// they would have to wait until the newcomer has had as much.
    pub(super) fn enter(&mut self, share: Share) {
        come(&mut self.credentials, share.credential);
        come(&mut self.shares, share);
    }

    /// A job is done, or was dropped.
    pub(super) fn leave(&mut self, share: Share) {
        go(&mut self.credentials, share.credential);
        go(&mut self.shares, share);
    }

    /// Somebody has had a processor for so long.
    pub(super) fn charge(&mut self, share: Share, nanos: u64) {
        let had = [self.credentials.get_mut(&share.credential), self.shares.get_mut(&share)];
        had.into_iter().flatten().for_each(|had| had.nanos += nanos);
    }

    pub(super) fn expected(&self, origin: Origin) -> Expected {
        self.kinds.expected(origin)
    }

    /// A job is done or has become long: the same is expected of others of its kind from now on.
    pub(super) fn note(&mut self, origin: Origin, is_long: bool) {
        if !self.kinds.note(origin, is_long) {
            return;
        }
        let expected = self.kinds.expected(origin);
        let alike = self.waiting.iter_mut().filter(|waiting| waiting.origin == origin);
        alike.for_each(|waiting| waiting.expected = expected);
    }

    pub(super) fn wait(&mut self, id: u64, origin: Origin, used_nanos: u64, cancelled: bool) {
        self.arrived += 1;
        let (arrived, expected) = (self.arrived, self.expected(origin));
        self.waiting.push(Waiting { id, origin, expected, used_nanos, arrived, cancelled });
    }

    /// The client of somebody who waits is gone.
    pub(super) fn cancel(&mut self, id: u64) {
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.id == id) {
            waiting.cancelled = true;
        }
    }

    /// Takes somebody out of the line. False: they are not in it.
    pub(super) fn remove(&mut self, id: u64) -> bool {
        let at = self.waiting.iter().position(|waiting| waiting.id == id);
        at.map(|at| self.waiting.swap_remove(at)).is_some()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Who is next, of those who may. They do not wait any more.
    pub(super) fn next(&mut self, may: impl Fn(&Waiting) -> bool) -> Option<u64> {
        let is_turn_of_oldest = (self.given + 1).is_multiple_of(FAIRNESS);
        let may = |(_, waiting): &(usize, &Waiting)| may(waiting);
        let able = self.waiting.iter().enumerate().filter(may);
        let next = match is_turn_of_oldest {
            true => able.min_by_key(|(_, waiting)| waiting.arrived),
            false => able.min_by_key(|(_, waiting)| self.rank(waiting)),
        };
        let at = next.map(|(at, _)| at)?;
        self.given += 1;
        Some(self.waiting.swap_remove(at).id)
    }

    fn rank(&self, waiting: &Waiting) -> impl Ord + use<> {
        let class = match waiting.used_nanos {
            _ if !waiting.is_short() => 2_u8,
            used if used < NEW_NANOS => 0,
            _ => 1,
        };
        let share = waiting.origin.share;
        let nanos = |had: Option<&Had>| had.map_or(0, |had| had.nanos);
        let of_credential = nanos(self.credentials.get(&share.credential));
        let of_share = nanos(self.shares.get(&share));
        // Of long ones nobody goes first for what was thought of them.
        let expected = if class == 2 { Expected::Long } else { waiting.expected };
        (!waiting.cancelled, class, of_credential, expected, of_share, waiting.arrived)
    }
}

fn come<K: Copy + Eq + std::hash::Hash>(all: &mut HashMap<K, Had>, who: K) {
    let least = || all.values().map(|had| had.nanos).min().unwrap_or(0);
    let nanos = if all.contains_key(&who) { 0 } else { least() };
    all.entry(who).or_insert(Had { nanos, jobs: 0 }).jobs += 1;
}

fn go<K: Copy + Eq + std::hash::Hash>(all: &mut HashMap<K, Had>, who: K) {
    if let Some(had) = all.get_mut(&who) {
        had.jobs = had.jobs.saturating_sub(1);
        if had.jobs == 0 {
            all.remove(&who);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    fn share(credential: u64, container: u64) -> Share {
        Share { credential, container }
    }

    fn next(turns: &mut Turns) -> Option<u64> {
        turns.next(|_| true)
    }

    /// All have come and have used so much.
    fn line(jobs: &[(Share, u64)]) -> Turns {
        let mut turns = Turns::default();
        for (id, (share, used)) in (0..).zip(jobs) {
            turns.enter(*share);
            turns.wait(id, (*share).into(), *used, false);
        }
        turns
    }

    #[test]
    fn a_short_one_goes_before_long_ones_and_one_turn_in_eight_is_the_oldests() {
        let mut turns = line(&[(share(1, 1), 900 * MILLI)]);
        let mut long_ones = 0;
        for id in 1..80 {
            turns.enter(share(1, 1));
            turns.wait(id, share(1, 1).into(), 0, false);
            let next = next(&mut turns).unwrap();
            if next == 0 {
                long_ones += 1;
                turns.wait(0, share(1, 1).into(), 900 * MILLI, false);
            }
        }
        assert!((5..=10).contains(&long_ones), "{long_ones}");
    }

    #[test]
    fn who_has_had_less_goes_first_among_credentials_and_then_among_containers() {
        let mut turns = line(&[(share(1, 1), 0), (share(1, 2), 0), (share(2, 1), 0)]);
        turns.charge(share(1, 1), 30 * MILLI);
        turns.charge(share(2, 1), 20 * MILLI);
        assert_eq!(next(&mut turns), Some(2), "the other credential has had less");
        assert_eq!(next(&mut turns), Some(1), "the container has had nothing");
        assert_eq!(next(&mut turns), Some(0));
        assert_eq!(next(&mut turns), None);
    }

    #[test]
    fn many_jobs_of_one_credential_get_no_more_than_one_of_another() {
        let mut turns = line(&[(share(1, 1), 50 * MILLI); 40]);
        turns.enter(share(2, 1));
        turns.wait(40, share(2, 1).into(), 50 * MILLI, false);
        let mut other = 0;
        for _ in 0..70 {
            let id = next(&mut turns).unwrap();
            let share = if id == 40 { share(2, 1) } else { share(1, 1) };
            other += u64::from(id == 40);
            turns.charge(share, 2 * MILLI);
            turns.wait(id, share.into(), 50 * MILLI, false);
        }
        assert!((28..=36).contains(&other), "{other} of 70");
    }

    #[test]
    fn who_comes_new_has_no_advance_over_those_who_are_there() {
        let mut turns = line(&[(share(1, 1), 0)]);
        turns.charge(share(1, 1), 500 * MILLI);
        turns.enter(share(2, 1));
        turns.wait(1, share(2, 1).into(), 0, false);
        turns.charge(share(2, 1), MILLI);
        assert_eq!(next(&mut turns), Some(0));
    }

    #[test]
    fn who_is_gone_ends_first_and_who_may_not_is_passed_over() {
        let mut turns = line(&[(share(1, 1), 0), (share(2, 1), 90 * MILLI), (share(3, 1), 0)]);
        turns.cancel(1);
        assert_eq!(next(&mut turns), Some(1));
        assert_eq!(turns.next(|waiting| waiting.id != 0), Some(2));
        assert_eq!(turns.next(|waiting| waiting.id != 0), None);
        assert!(turns.remove(0) && !turns.remove(0));
        assert_eq!(turns.len(), 0);
    }

    fn of_kind(kind: u64) -> Origin {
        Origin { share: share(1, 1), kind: Some(kind) }
    }

    #[test]
    fn what_is_expected_to_take_long_waits_behind_all_that_is_not() {
        let mut turns = Turns::default();
        turns.note(of_kind(1), true);
        turns.note(of_kind(2), false);
        for (id, kind) in [1, 3, 2, 1].into_iter().enumerate() {
            turns.wait(id as u64, of_kind(kind), 0, false);
        }
        turns.wait(4, of_kind(3), 24 * MILLI, false);
        let order: Vec<u64> = std::iter::from_fn(|| next(&mut turns)).collect();
        assert_eq!(order, [2, 1, 4, 0, 3]);
    }

    #[test]
    fn when_one_of_a_kind_becomes_long_those_that_wait_are_known_to_be() {
        let mut turns = Turns::default();
        (0..3).for_each(|id| turns.wait(id, of_kind(id % 2), 0, false));
        turns.note(of_kind(0), true);
        assert_eq!(turns.next(Waiting::is_short), Some(1));
        assert_eq!(turns.next(Waiting::is_short), None);
        turns.note(of_kind(0), false);
        assert_eq!(turns.next(Waiting::is_short), Some(0));
    }
}

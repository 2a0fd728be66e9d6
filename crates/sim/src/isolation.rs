//! Isolation: within a logical partition every history must be one that could have happened with
//! one operation after the other.
//!
//! Operations are the nodes of a graph. Versions of an item have the order of their commits, from
//! which follow its edges: who wrote a version comes before who read it, before who replaced it;
//! who read a version comes before who replaced that. A cycle is an anomaly. That the order is also
//! that of real time, and of each session, is looked at when operations are answered
//! (`world/commits.rs`).
//!
//! Who finds no item sees no version that tells which of its absences it was: before it was first
//! written, or after one of its removals. Of those that were there since the operation began it is
//! known if there was just one, which is nearly always.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A logical partition of a container.
pub type Home = (usize, u8);

/// What operations wrote and saw.
#[derive(Debug, Default)]
pub struct History {
    homes: BTreeMap<Home, Log>,
}

#[derive(Debug, Default)]
struct Log {
    /// Changes in the order of commits: LSN, operation, item, version.
    writes: Vec<(u64, u64, u8, Option<u64>)>,
    /// Operation, item, version.
    reads: Vec<(u64, u8, u64)>,
    absences: Vec<Absence>,
}

/// An operation found no item.
#[derive(Debug)]
struct Absence {
    operation: u64,
    id: u8,
    /// After how many of the changes of its logical partition the item had gone, or not yet come.
    after: usize,
}

/// What an operation saw.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    /// Items with their versions; none: there was no item.
    pub reads: Vec<(u8, Option<u64>)>,
    /// How many changes the logical partition had seen when it began.
    pub since: usize,
    /// Items may also have been gone since their time was over.
    pub expire: bool,
}

impl History {
    /// An operation was committed.
    pub fn committed(
        &mut self,
        operation: u64,
        home: Home,
        lsn: u64,
        changes: &[(u8, Option<u64>)],
    ) {
        let writes = &mut self.homes.entry(home).or_default().writes;
        writes.extend(changes.iter().map(|(id, n)| (lsn, operation, *id, *n)));
    }

    /// How many changes a logical partition has seen.
    pub fn changes(&self, home: Home) -> usize {
        self.homes.get(&home).map_or(0, |log| log.writes.len())
    }

    /// An operation that is over saw this. Error: an item was there all the time, and not seen.
    pub fn saw(&mut self, operation: u64, home: Home, sight: Sight) -> Result<(), String> {
        let log = self.homes.entry(home).or_default();
        for (id, n) in sight.reads {
            if let Some(n) = n {
                log.reads.push((operation, id, n));
                continue;
            }
            let (absences, was_there) = log.absences_of(operation, id, sight.since);
            match absences[..] {
                [after] if !(was_there && sight.expire) => {
                    log.absences.push(Absence { operation, id, after });
                }
                [] if !sight.expire => {
                    return Err(format!("operation {operation} did not see item {id}"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Is there an order in which all of it could have happened?
    pub fn check(&self) -> Result<(), String> {
        for (home, log) in &self.homes {
            log.check().map_err(|what| format!("logical partition {home:?}: {what}"))?;
        }
        Ok(())
    }
}

impl Log {
    fn check(&self) -> Result<(), String> {
        let edges = self.edges()?;
        match cycle(&edges) {
            None => Ok(()),
            Some(cycle) => Err(format!("no order of operations explains what they saw: {cycle:?}")),
        }
    }

    /// Since a moment: after which changes by others an item was not there, and was it there after
    /// any?
    fn absences_of(&self, operation: u64, id: u8, since: usize) -> (Vec<usize>, bool) {
        let changes = self.writes.iter().enumerate().filter(|(_, (.., of, _))| *of == id);
        let before = changes.clone().rfind(|(at, _)| *at < since);
        let first = before.map_or((0, None), |(at, (.., n))| (at + 1, *n));
        let others = changes.filter(|(at, (_, by, ..))| *at >= since && *by != operation);
        let states = others.map(|(at, (.., n))| (at + 1, *n));
        let (there, absent): (Vec<_>, Vec<_>) =
            [first].into_iter().chain(states).partition(|(_, n)| n.is_some());
        (absent.into_iter().map(|(after, _)| after).collect(), !there.is_empty())
    }

    fn edges(&self) -> Result<BTreeMap<u64, BTreeSet<u64>>, String> {
        let mut writes = self.writes.clone();
        writes.sort_by_key(|(lsn, ..)| *lsn);
        let mut edges: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        let mut add = |from: u64, to: u64| {
            if from != to {
                edges.entry(from).or_default().insert(to);
            }
        };
        // Who wrote each version, and who replaced it.
        let mut writers: HashMap<(u8, u64), (u64, Option<u64>)> = HashMap::new();
        let mut last: HashMap<u8, (u64, Option<u64>)> = HashMap::new();
        for (_, operation, id, n) in writes {
            if let Some((before, version)) = last.insert(id, (operation, n)) {
                add(before, operation);
                if let Some(known) = version.and_then(|version| writers.get_mut(&(id, version))) {
                    known.1 = Some(operation);
                }
            }
            if let Some(n) = n {
                writers.insert((id, n), (operation, None));
            }
        }
        for Absence { operation, id, after } in &self.absences {
            let is_of = |(_, _, of, _): &&(u64, u64, u8, Option<u64>)| of == id;
            let (before, later) = self.writes.split_at(*after);
            if let Some((_, remover, ..)) = before.iter().rfind(is_of) {
                add(*remover, *operation);
            }
            if let Some((_, creator, ..)) = later.iter().find(is_of) {
                add(*operation, *creator);
            }
        }
        for (operation, id, n) in &self.reads {
            let Some((writer, replaced)) = writers.get(&(*id, *n)) else {
                return Err(format!("operation {operation} saw version {n} that nobody wrote"));
            };
            add(*writer, *operation);
            if let Some(replaced) = replaced {
                add(*operation, *replaced);
            }
        }
        Ok(edges)
    }
}

/// A cycle, if there is one.
fn cycle(edges: &BTreeMap<u64, BTreeSet<u64>>) -> Option<Vec<u64>> {
    let mut done: BTreeSet<u64> = BTreeSet::new();
    for start in edges.keys() {
        if done.contains(start) {
            continue;
        }
        // The way from the start, each with what is still to be tried from there.
        let mut way: Vec<(u64, Vec<u64>)> = vec![(*start, successors(edges, *start))];
        while let Some((_, rest)) = way.last_mut() {
            let Some(next) = rest.pop() else {
                done.extend(way.pop().map(|(node, _)| node));
                continue;
            };
            if let Some(at) = way.iter().position(|(node, _)| *node == next) {
                return Some(way[at..].iter().map(|(node, _)| *node).collect());
            }
            if !done.contains(&next) {
                way.push((next, successors(edges, next)));
            }
        }
    }
    None
}

fn successors(edges: &BTreeMap<u64, BTreeSet<u64>>, node: u64) -> Vec<u64> {
    edges.get(&node).into_iter().flatten().copied().collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]
mod tests {
    use super::*;

    const HOME: Home = (0, 0);

    fn history(writes: &[(u64, u8, u64)], reads: &[(u64, u8, u64)]) -> History {
        let mut history = History::default();
        for (at, (operation, id, n)) in writes.iter().enumerate() {
            history.committed(*operation, HOME, at as u64 / 2 + 1, &[(*id, Some(*n))]);
        }
        for (operation, id, n) in reads {
            let sight = Sight { reads: vec![(*id, Some(*n))], ..Sight::default() };
            history.saw(*operation, HOME, sight).unwrap();
        }
        history
    }

    #[test]
    fn one_after_the_other_is_no_anomaly() {
        let writes = [(1, 0, 10), (1, 1, 11), (2, 0, 20), (2, 1, 21)];
        assert_eq!(history(&writes, &[(3, 0, 10), (3, 1, 11), (4, 1, 21)]).check(), Ok(()));
    }

    #[test]
    fn to_see_half_of_a_transaction_is_one() {
        let writes = [(1, 0, 10), (1, 1, 11), (2, 0, 20), (2, 1, 21)];
        assert!(history(&writes, &[(3, 0, 20), (3, 1, 11)]).check().is_err());
    }

    #[test]
    fn a_lost_update_is_one() {
        // Both replace what both have read.
        let writes = [(1, 0, 10), (1, 1, 11), (2, 0, 20), (9, 1, 90), (3, 0, 30)];
        assert!(history(&writes, &[(2, 0, 10), (3, 0, 10)]).check().is_err());
    }

    #[test]
    fn write_skew_is_one() {
        let writes = [(1, 0, 10), (1, 1, 11), (2, 0, 20), (3, 1, 31)];
        assert!(history(&writes, &[(2, 1, 11), (3, 0, 10)]).check().is_err());
    }

    /// Two operations look for two items that are not there since `since`, and each creates one.
    fn skewed(since: usize) -> History {
        let mut history = history(&[(7, 0, 1), (7, 1, 2)], &[]);
        history.committed(8, HOME, 2, &[(0, None), (1, None)]);
        for (operation, id) in [(2, 0), (3, 1)] {
            history.committed(operation, HOME, operation + 10, &[(id, Some(operation))]);
        }
        for (operation, id) in [(2, 1), (3, 0)] {
            let sight = Sight { reads: vec![(id, None)], since, expire: false };
            history.saw(operation, HOME, sight).unwrap();
        }
        history
    }

    #[test]
    fn write_skew_of_items_that_are_not_there_is_one() {
        assert!(skewed(4).check().is_err());
        assert_eq!(skewed(0).check(), Ok(()), "it may have been before they were first written");
    }

    #[test]
    fn not_to_see_what_was_there_all_the_time_is_one() {
        let mut history = history(&[(1, 0, 10), (2, 0, 20)], &[]);
        let sight = |since, expire| Sight { reads: vec![(0, None)], since, expire };
        assert!(history.saw(3, HOME, sight(1, false)).is_err());
        assert_eq!(history.saw(3, HOME, sight(0, false)), Ok(()));
        assert_eq!(history.saw(3, HOME, sight(1, true)), Ok(()), "its time may have been over");
        assert_eq!(history.check(), Ok(()));
    }

    #[test]
    fn a_version_that_nobody_wrote_is_one() {
        assert!(history(&[(1, 0, 10)], &[(2, 0, 77)]).check().is_err());
    }
}

//! Isolation: within a logical partition every history must be one that could have happened with
//! one operation after the other.
//!
//! Operations are the nodes of a graph. Versions of an item have the order of their commits, from
//! which follow its edges: who wrote a version comes before who read it, before who replaced it;
//! who read a version comes before who replaced that. A cycle is an anomaly. That the order is also
//! that of real time, and of each session, is looked at when operations are answered
//! (`world/commits.rs`).

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
    reads: Vec<(u64, u8, Option<u64>)>,
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

    /// An operation read these versions; none: there was no item.
    pub fn saw(&mut self, operation: u64, home: Home, reads: Vec<(u8, Option<u64>)>) {
        let log = self.homes.entry(home).or_default();
        // That there was no item may mean that it was deleted, or that its time was over.
        let reads = reads.into_iter().filter(|(_, n)| n.is_some());
        log.reads.extend(reads.map(|(id, n)| (operation, id, n)));
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
        for (operation, id, n) in &self.reads {
            let Some(n) = n else { continue };
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
mod tests {
    use super::*;

    const HOME: Home = (0, 0);

    fn history(writes: &[(u64, u8, u64)], reads: &[(u64, u8, u64)]) -> History {
        let mut history = History::default();
        for (at, (operation, id, n)) in writes.iter().enumerate() {
            history.committed(*operation, HOME, at as u64 / 2 + 1, &[(*id, Some(*n))]);
        }
        for (operation, id, n) in reads {
            history.saw(*operation, HOME, vec![(*id, Some(*n))]);
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

    #[test]
    fn a_version_that_nobody_wrote_is_one() {
        assert!(history(&[(1, 0, 10)], &[(2, 0, 77)]).check().is_err());
    }
}

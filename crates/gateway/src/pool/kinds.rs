//! What a job is expected to take: as long as the one of its kind before it.
//!
//! Nobody knows beforehand how long a query takes, but most are asked again and again. So the door
//! may name the *kind* of a job (its query without the values), and the pool remembers whether the
//! last of that kind took long. Only the same share is believed: what somebody's jobs took says
//! nothing of others', and nobody can make those of others look long. Many kinds drive out those
//! that were seen longest ago, which then are as new.
//!
//! This file knows neither threads nor clocks.

use std::collections::HashMap;

use super::turns::Share;

/// Kinds that are remembered.
const KINDS_MAX: usize = 1_024;

/// Whose a job is, and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    pub share: Share,
    /// Jobs of a kind are likely to take as long as each other. None: no job like this one takes
    /// long.
    pub kind: Option<u64>,
}

impl From<Share> for Origin {
    fn from(share: Share) -> Origin {
        Origin { share, kind: None }
    }
}

/// How long a job is expected to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Expected {
    Short,
    Unknown,
    Long,
}

/// What is remembered.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    known: HashMap<(Share, u64), Known>,
    noted: u64,
}

#[derive(Debug)]
struct Known {
    is_long: bool,
    noted: u64,
}

impl Kinds {
    pub(super) fn expected(&self, origin: Origin) -> Expected {
        let Some(kind) = origin.kind else { return Expected::Short };
        match self.known.get(&(origin.share, kind)) {
            None => Expected::Unknown,
            Some(Known { is_long: false, .. }) => Expected::Short,
            Some(Known { is_long: true, .. }) => Expected::Long,
        }
    }

    /// A job took so long, or has by now. True: that is news.
    pub(super) fn note(&mut self, origin: Origin, is_long: bool) -> bool {
        let Some(kind) = origin.kind else { return false };
        let key = (origin.share, kind);
        self.noted += 1;
        let noted = self.noted;
        if let Some(known) = self.known.get_mut(&key) {
            known.noted = noted;
            return std::mem::replace(&mut known.is_long, is_long) != is_long;
        }
        if self.known.len() >= KINDS_MAX {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.noted);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                self.known.remove(&oldest);
            }
        }
        self.known.insert(key, Known { is_long, noted });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(credential: u64, kind: u64) -> Origin {
        Origin { share: Share { credential, container: 0 }, kind: Some(kind) }
    }

    #[test]
    fn a_kind_takes_what_its_last_job_took_and_only_for_its_share() {
        let mut kinds = Kinds::default();
        assert_eq!(kinds.expected(origin(1, 1)), Expected::Unknown);
        assert_eq!(kinds.expected(Origin::from(origin(1, 1).share)), Expected::Short);
        let news = [true, true, false, false, true].map(|long| kinds.note(origin(1, 1), long));
        assert_eq!(news, [true, false, true, false, true]);
        assert_eq!(kinds.expected(origin(1, 1)), Expected::Long);
        assert_eq!(kinds.expected(origin(2, 1)), Expected::Unknown, "somebody else's");
        assert_eq!(kinds.expected(origin(1, 2)), Expected::Unknown, "another kind");
        kinds.note(origin(1, 1), false);
        assert_eq!(kinds.expected(origin(1, 1)), Expected::Short);
    }

    #[test]
    fn many_kinds_drive_out_those_that_were_seen_longest_ago() {
        let mut kinds = Kinds::default();
        for kind in 0..KINDS_MAX as u64 {
            kinds.note(origin(1, kind), true);
        }
        kinds.note(origin(1, 0), true);
        kinds.note(origin(2, 0), true);
        assert_eq!(kinds.known.len(), KINDS_MAX);
        assert_eq!(kinds.expected(origin(1, 0)), Expected::Long);
        assert_eq!(kinds.expected(origin(1, 1)), Expected::Unknown);
    }
}

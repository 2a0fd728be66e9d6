//! How far a reader of the change feed is: the ETag of its last page.
//!
//! As at the service it is the LSN up to which everything was looked at, in decimal. It names no
//! partition, so it is as good for the partitions that this one is split into.
//!
//! A reader of several partitions at once (a beginning of a hierarchical key that lies in more than
//! one, or the whole container) has one LSN for each: `range:lsn,range:lsn`. After a split a child
//! goes on where its parent was; after a merge where the parent was that was read least, so that
//! some changes may come again and none is missed.

use std::fmt;

use partita_model::{Error, Lsn, Result};

use crate::catalog::Partition;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// The same LSN for whoever is asked.
    One(Lsn),
    /// An LSN for each range.
    Many(Vec<(u32, Lsn)>),
}

impl Position {
    pub(super) fn of_parts(parts: &[(u32, Lsn)]) -> Position {
        match parts {
            [(_, lsn)] => Position::One(*lsn),
            parts => Position::Many(parts.to_vec()),
        }
    }

    /// Reads an ETag, without its quotes.
    pub(super) fn parse(text: &str) -> Result<Position> {
        if let Some(lsn) = number(text) {
            return Ok(Position::One(Lsn(lsn)));
        }
        let part = |part: &str| {
            let (range, lsn) = part.split_once(':')?;
            Some((u32::try_from(number(range)?).ok()?, Lsn(number(lsn)?)))
        };
        let parts = text.split(',').map(part).collect::<Option<Vec<_>>>();
        parts.map(Position::Many).ok_or_else(|| invalid(text))
    }

    /// How far the reader is in a partition.
    pub(super) fn of(&self, partition: &Partition) -> Result<Lsn> {
        let parts = match self {
            Position::One(lsn) => return Ok(*lsn),
            Position::Many(parts) => parts,
        };
        let of = |range: u32| parts.iter().find(|(id, _)| *id == range).map(|(_, lsn)| *lsn);
        let ancestors = || partition.parents.iter().filter_map(|parent| of(*parent)).min();
        of(partition.range_id).or_else(ancestors).ok_or_else(|| invalid(&self.to_string()))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Position::One(lsn) => write!(f, "{}", lsn.0),
            Position::Many(parts) => {
                let texts: Vec<String> =
                    parts.iter().map(|(range, lsn)| format!("{range}:{}", lsn.0)).collect();
                f.write_str(&texts.join(","))
            }
        }
    }
}

/// A number as we print it: nothing but digits.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn invalid(text: &str) -> Error {
    Error::bad_request(format!(
        "Invalid Continuation Token: '{text}' in If-None-Match is no ETag of this change feed"
    ))
}

#[cfg(test)]
mod tests {
    use partita_model::EpkRange;
    use partita_storage::PartitionId;

    use super::*;

    fn partition(range_id: u32, parents: &[u32]) -> Partition {
        Partition::new(range_id, PartitionId(1), EpkRange::all(), parents.to_vec())
    }

    #[test]
    fn an_etag_comes_back_as_it_went() {
        for parts in [vec![(3, Lsn(0))], vec![(0, Lsn(7)), (12, Lsn(u64::MAX))]] {
            let position = Position::of_parts(&parts);
            assert_eq!(Position::parse(&position.to_string()), Ok(position));
        }
    }

    #[test]
    fn one_lsn_is_good_for_every_partition_and_many_for_their_children() {
        assert_eq!(Position::One(Lsn(5)).of(&partition(9, &[])), Ok(Lsn(5)));
        let many = Position::Many(vec![(1, Lsn(10)), (2, Lsn(20))]);
        assert_eq!(many.of(&partition(2, &[1])), Ok(Lsn(20)));
        assert_eq!(many.of(&partition(3, &[0, 2])), Ok(Lsn(20)), "a child of 2");
        assert_eq!(many.of(&partition(4, &[1, 2])), Ok(Lsn(10)), "1 and 2 were merged");
        assert!(many.of(&partition(4, &[3])).is_err());
    }

    #[test]
    fn junk_is_no_etag() {
        for text in ["", "junk", "-1", "+1", "1:", ":1", "1:2,", "a:1", "99999999999999999999"] {
            assert!(Position::parse(text).is_err(), "{text}");
        }
    }
}

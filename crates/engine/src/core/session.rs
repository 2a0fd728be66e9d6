//! Session tokens: what a client has seen, so that it never reads an older state.
//!
//! A token is `<range id>:<version>#<lsn>` with possibly `#<region>=<lsn>` parts behind, several of
//! them joined by commas. We write version -1 and no regions; we read all of it. The version of a
//! token says how the account's regions were laid out; a token with a higher version than ours
//! comes from a store that is ahead of us.

use partita_model::{Error, ErrorKind, Lsn, Result};

use crate::catalog::Partition;

/// Our tokens' version: one region, never changed.
const VERSION: i64 = -1;

/// Fails if this is no token at all. A write goes on whatever its client has seen.
pub(crate) fn check_form(token: &str) -> Result<()> {
    parts(token).try_for_each(|part| parse(part).map(|_| ()))
}

/// Fails if the client has seen more of the partition than `lsn`.
pub(crate) fn check(token: &str, partition: &Partition, lsn: Lsn) -> Result<()> {
    for part in parts(token) {
        let (range, seen) = parse(part)?;
        let ours = range == partition.range_id || partition.parents.contains(&range);
        if ours && (seen.version > VERSION || seen.lsn > lsn) {
            return Err(Error::new(
                ErrorKind::SessionNotAvailable,
                format!(
                    "The read session is not available for the input session token. The \
                     read/write session is not available: the token names LSN {} of range \
                     {range}, which is at {lsn}",
                    seen.lsn
                ),
            ));
        }
    }
    Ok(())
}

fn parts(token: &str) -> impl Iterator<Item = &str> {
    token.split(',').map(str::trim).filter(|part| !part.is_empty())
}

struct SeenLsn {
    version: i64,
    lsn: Lsn,
}

fn parse(part: &str) -> Result<(u32, SeenLsn)> {
    let invalid = || {
        Error::bad_request(format!(
            "The session token provided '{part}' is invalid: expected <range>:<version>#<lsn>"
        ))
    };
    let (range, vector) = part.split_once(':').ok_or_else(invalid)?;
    let range = range.parse().map_err(|_| invalid())?;
    let mut fields = vector.split('#');
    let first = fields.next().ok_or_else(invalid)?;
    let Some(lsn) = fields.next() else {
        // The oldest form has no version.
        let lsn = first.parse().map_err(|_| invalid())?;
        return Ok((range, SeenLsn { version: VERSION, lsn: Lsn(lsn) }));
    };
    for region in fields {
        let (id, local) = region.split_once('=').ok_or_else(invalid)?;
        id.parse::<u64>().and(local.parse::<i64>().map(|_| 0)).map_err(|_| invalid())?;
    }
    let version = first.parse().map_err(|_| invalid())?;
    let lsn = lsn.parse().map_err(|_| invalid())?;
    Ok((range, SeenLsn { version, lsn: Lsn(lsn) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use partita_model::EpkRange;
    use partita_storage::PartitionId;

    fn outcome(token: &str) -> Option<ErrorKind> {
        let partition = Partition::new(5, PartitionId(1), EpkRange::all(), vec![0, 2]);
        check(token, &partition, Lsn(100)).err().map(|error| error.kind)
    }

    #[test]
    fn what_was_seen_here_is_available() {
        for token in ["5:-1#100", "5:-1#7#1=7#2=-1", "5:100", "", "5:-1#1,2:-1#2", "9:3#999"] {
            assert_eq!(outcome(token), None, "{token}");
        }
    }

    #[test]
    fn the_future_is_not() {
        for token in ["5:-1#101", "2:-1#101", "0:-1#1,5:-1#101", "5:0#1", "5:101"] {
            assert_eq!(outcome(token), Some(ErrorKind::SessionNotAvailable), "{token}");
            assert_eq!(check_form(token), Ok(()), "{token}");
        }
    }

    #[test]
    fn garbage_is_refused() {
        for token in ["x", "5", "5:", "5:-1#", "5:a#1", "a:-1#1", "5:-1#1#x", "5:-1#1#1=y"] {
            assert_eq!(outcome(token), Some(ErrorKind::BadRequest), "{token}");
            check_form(token).unwrap_err();
        }
    }
}

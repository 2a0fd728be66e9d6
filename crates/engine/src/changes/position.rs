//! How far a reader of the change feed is: the ETag of its last page.
//!
//! As at the service it is the LSN up to which everything was looked at, in decimal. It names no
//! partition, so it is as good for the partitions that this one is split into.
//!
//! A reader of several partitions at once (a beginning of a hierarchical key that lies in more than
//! one, or the whole container) has one LSN for each: `range:lsn,range:lsn`. Each of these says
//! that everything of that partition up to that LSN was looked at, and stays true when the
//! partition is no more. LSNs only grow from a partition to those that come after it; so at any
//! EPK the reader is at the largest of the LSNs of all partitions that ever had it.
//!
//! ```text
//! "1:100,2:2000"          partitions 1 and 2
//! "3:150,2:2000"          1 and 2 were merged into 3: up to 150 all of 3, up to 2000 what was in 2
//! "2700"                  everything of 3
//! ```
//!
//! Of two partitions that are merged each has a line of LSNs of its own, and the merged one has the
//! records of both. One number cannot say how far a reader is in both lines, so the old partitions
//! are named until the reader is beyond them. Whoever has an ETag of each may join them: that is
//! the first form.
//!
//! Of partitions that went before [`FormerRanges`] were kept nobody knows which EPKs they had:
//! where nothing else is known a reader goes on where the parent was that was read least, so that
//! some changes may come again and none is missed.

use std::collections::HashSet;
use std::fmt;

use partita_model::{Epk, EpkRange, Error, Lsn, Result};

use crate::catalog::{FormerRanges, Partition};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// The same LSN for whoever is asked.
    One(Lsn),
    /// An LSN for each range.
    Many(Vec<(u32, Lsn)>),
}

/// A part of a partition, and up to which LSN its reader has seen everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) epks: EpkRange,
    pub(super) after: Lsn,
}

/// A partition that was asked for a page.
#[derive(Clone, Debug)]
pub(super) struct Asked<'a> {
    pub(super) partition: &'a Partition,
    /// What of it.
    pub(super) epks: EpkRange,
    /// How far there was anything to look at.
    pub(super) end: Lsn,
    /// How far was looked.
    pub(super) reached: Lsn,
}

impl Position {
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
        let mut named = HashSet::new();
        let parts = parts.filter(|parts| parts.iter().all(|(range, _)| named.insert(*range)));
        parts.map(Position::Many).ok_or_else(|| invalid(text))
    }

    /// How far the reader is in a part of a partition: for each piece of it, in order.
    pub(super) fn pieces(
        &self,
        partition: &Partition,
        epks: &EpkRange,
        former: &FormerRanges,
    ) -> Result<Vec<Piece>> {
        let parts = match self {
            Position::One(lsn) => return Ok(vec![Piece { epks: epks.clone(), after: *lsn }]),
            Position::Many(parts) => parts,
        };
        let known = Known::of(parts, partition, former);
        let pieces = match epks.is_empty() {
            false => known.pieces(epks),
            // Nothing is shown of it, but the reader is told how far it is.
            true => {
                let after = known.pieces(&partition.epks);
                let after = after.and_then(|pieces| pieces.iter().map(|piece| piece.after).min());
                after.map(|after| vec![Piece { epks: epks.clone(), after }])
            }
        };
        pieces.ok_or_else(|| invalid(&self.to_string()))
    }

    /// Where a reader who was here is after a page.
    pub(super) fn after_page(
        before: Option<&Position>,
        asked: &[Asked<'_>],
        former: &FormerRanges,
    ) -> Position {
        let mut parts: Vec<(u32, Lsn)> =
            asked.iter().map(|asked| (asked.partition.range_id, asked.reached)).collect();
        if let Some(Position::Many(before)) = before {
            parts.extend(before.iter().filter_map(|part| still_ahead(*part, asked, former)));
        }
        match parts[..] {
            [(_, lsn)] => Position::One(lsn),
            _ => Position::Many(parts),
        }
    }
}

/// What a reader knew of a partition that is no more, if it is further there than in what came
/// after. An LSN that nothing was written under yet would have the reader miss what will be.
fn still_ahead(
    (range, lsn): (u32, Lsn),
    asked: &[Asked<'_>],
    former: &FormerRanges,
) -> Option<(u32, Lsn)> {
    let epks = former.epks(range)?;
    let comes_after =
        |asked: &&Asked<'_>| asked.partition.parents.contains(&range) && asked.epks.overlaps(epks);
    let ahead = asked.iter().filter(comes_after).filter(|asked| lsn.min(asked.end) > asked.reached);
    ahead.map(|asked| lsn.min(asked.end)).min().map(|lsn| (range, lsn))
}

/// What a reader has seen of a partition, by itself or before it was there.
struct Known<'a> {
    /// Everything of these EPKs up to this LSN.
    seen: Vec<(&'a EpkRange, Lsn)>,
    /// The least of what is known of ranges whose EPKs are not.
    least: Option<Lsn>,
}

impl<'a> Known<'a> {
    fn of(parts: &[(u32, Lsn)], partition: &'a Partition, former: &'a FormerRanges) -> Known<'a> {
        let mut known = Known { seen: Vec::new(), least: None };
        for (range, lsn) in parts {
            if *range == partition.range_id {
                known.seen.push((&partition.epks, *lsn));
            } else if partition.parents.contains(range) {
                match former.epks(*range) {
                    Some(epks) => known.seen.push((epks, *lsn)),
                    None => known.least = Some(known.least.map_or(*lsn, |least| least.min(*lsn))),
                }
            }
        }
        known
    }

    /// None if nothing is known of some of these EPKs, of which there is at least one.
    fn pieces(&self, epks: &EpkRange) -> Option<Vec<Piece>> {
        let ends = self.seen.iter().flat_map(|(epks, _)| [&epks.min, &epks.max]);
        let inside = |bound: &&Epk| epks.min < **bound && **bound < epks.max;
        let mut bounds: Vec<_> = ends.filter(inside).chain([&epks.min, &epks.max]).collect();
        bounds.sort_unstable();
        bounds.dedup();
        let mut pieces: Vec<Piece> = Vec::new();
        for (min, max) in bounds.iter().zip(bounds.iter().skip(1)) {
            let here = self.seen.iter().filter(|(epks, _)| epks.contains(min));
            let after = here.map(|(_, lsn)| *lsn).max().or(self.least)?;
            match pieces.last_mut() {
                Some(last) if last.after == after => last.epks.max = (*max).clone(),
                _ => {
                    let epks = EpkRange::new((*min).clone(), (*max).clone());
                    pieces.push(Piece { epks, after });
                }
            }
        }
        Some(pieces)
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
    use partita_storage::PartitionId;

    use super::*;

    fn epks(min: u8, max: u8) -> EpkRange {
        EpkRange::new(Epk::from(vec![min]), Epk::from(vec![max]))
    }

    fn partition(range_id: u32, parents: &[u32], epks: EpkRange) -> Partition {
        Partition::new(range_id, PartitionId(1), epks, parents.to_vec())
    }

    fn former(ranges: &[(u32, u8, u8)]) -> FormerRanges {
        let mut former = FormerRanges::default();
        former.extend(ranges.iter().map(|(id, min, max)| (*id, epks(*min, *max))));
        former
    }

    /// The pieces of what is asked as `min..max>lsn`, or None if the ETag does not say.
    fn pieces(
        etag: &str,
        (partition, asked): (&Partition, EpkRange),
        former: &FormerRanges,
    ) -> Option<String> {
        let pieces = Position::parse(etag).unwrap().pieces(partition, &asked, former).ok()?;
        let bound = |epk: &Epk| epk.as_bytes().first().copied().unwrap_or(0);
        let text = |Piece { epks, after }: &Piece| {
            format!("{}..{}>{}", bound(&epks.min), bound(&epks.max), after.0)
        };
        Some(pieces.iter().map(text).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn an_etag_comes_back_as_it_went() {
        for text in ["0", "7", "3:0", "0:7,12:18446744073709551615", "12:3,0:5"] {
            assert_eq!(Position::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn junk_is_no_etag() {
        let junk = ["", "junk", "-1", "+1", "1:", ":1", "1:2,", "a:1", "99999999999999999999"];
        for text in junk.into_iter().chain(["1:2,1:2", "1:2,2:2,1:3", "4294967296:1"]) {
            assert!(Position::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn one_lsn_is_good_for_every_partition_and_those_of_ranges_for_their_children() {
        let former = former(&[(0, 0, 40), (1, 40, 80)]);
        let left = partition(2, &[0], epks(0, 20));
        let all = |partition: &Partition| partition.epks.clone();
        assert_eq!(pieces("5", (&left, all(&left)), &former).unwrap(), "0..20>5");
        assert_eq!(pieces("0:5", (&left, all(&left)), &former).unwrap(), "0..20>5");
        assert_eq!(pieces("0:5,2:9", (&left, all(&left)), &former).unwrap(), "0..20>9");
        assert_eq!(pieces("1:5", (&left, all(&left)), &former), None, "that is another part");
        assert_eq!(pieces("2:5", (&left, epks(7, 7)), &former).unwrap(), "7..7>5", "nothing of it");
    }

    #[test]
    fn after_a_merge_each_piece_goes_on_where_its_reader_was() {
        let former = former(&[(0, 0, 80), (1, 0, 40), (2, 40, 80), (3, 0, 80)]);
        let merged = partition(3, &[0, 1, 2], epks(0, 80));
        let asked = |etag: &str, epks| pieces(etag, (&merged, epks), &former);
        assert_eq!(asked("1:100,2:2000", epks(0, 80)).unwrap(), "0..40>100 40..80>2000");
        assert_eq!(asked("1:100,2:2000", epks(10, 30)).unwrap(), "10..30>100");
        assert_eq!(asked("1:9,2:9", epks(0, 80)).unwrap(), "0..80>9");
        assert_eq!(asked("3:150,2:2000", epks(0, 80)).unwrap(), "0..40>150 40..80>2000");
        assert_eq!(asked("2:2000", epks(0, 80)), None, "nothing is known of half of it");
        assert_eq!(asked("2:2000", epks(40, 50)).unwrap(), "40..50>2000");
        // Split again, elsewhere.
        let right = partition(5, &[0, 1, 2, 3], epks(20, 80));
        let asked = |etag: &str| pieces(etag, (&right, epks(20, 80)), &former).unwrap();
        assert_eq!(asked("3:150,2:2000"), "20..40>150 40..80>2000");
        assert_eq!(asked("5:300,2:2000"), "20..40>300 40..80>2000");
        assert_eq!(asked("4:7,5:2500,2:2000"), "20..80>2500");
    }

    #[test]
    fn of_ranges_whose_epks_nobody_knows_the_least_counts() {
        let merged = partition(4, &[0, 1, 2, 3], epks(0, 80));
        let asked = |etag: &str| pieces(etag, (&merged, epks(0, 80)), &former(&[(3, 0, 20)]));
        assert_eq!(asked("1:100,2:2000").unwrap(), "0..80>100");
        assert_eq!(asked("1:100,2:2000,3:300").unwrap(), "0..20>300 20..80>100");
        // 1 and 2 may never have been where 3 was.
        assert_eq!(asked("1:100,2:2000,3:50").unwrap(), "0..20>50 20..80>100");
    }

    #[test]
    fn a_former_range_is_named_until_the_reader_is_beyond_it() {
        let former = former(&[(1, 0, 40), (2, 40, 80), (7, 80, 90)]);
        let (merged, other) =
            (partition(3, &[1, 2], epks(0, 80)), partition(8, &[7], epks(80, 90)));
        let page = |before: &str, reached: &[u64], end: u64| {
            let before = Position::parse(before).unwrap();
            let asked: Vec<Asked<'_>> = [&merged, &other]
                .into_iter()
                .zip(reached)
                .map(|(partition, reached)| {
                    let (epks, reached) = (partition.epks.clone(), Lsn(*reached));
                    Asked { partition, epks, end: Lsn(end), reached }
                })
                .collect();
            Position::after_page(Some(&before), &asked, &former).to_string()
        };
        assert_eq!(page("1:100,2:2000", &[150], 3_000), "3:150,2:2000");
        assert_eq!(page("3:150,2:2000", &[1_999], 3_000), "3:1999,2:2000");
        assert_eq!(page("3:1999,2:2000", &[2_000], 3_000), "2000");
        assert_eq!(page("1:100,2:2000,7:5", &[150, 9], 3_000), "3:150,8:9,2:2000");
        assert_eq!(page("1:100,2:2000,7:50", &[2_150, 9], 3_000), "3:2150,8:9,7:50");
        assert_eq!(page("1:100,2:99999", &[150], 3_000), "3:150,2:3000", "nobody is that far");
        assert_eq!(page("100", &[150], 3_000), "150");
        assert_eq!(page("9:400,2:2000", &[150], 3_000), "3:150,2:2000", "9 is nobody's parent");
    }
}

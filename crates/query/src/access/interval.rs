//! Sets of scalar values, as sorted lists of intervals over their encoded bytes.
//!
//! The encoding is the one of sort keys and index terms (`model::keycode`): its byte order is the
//! order of the values, and no encoding is the beginning of another. So a set of values that a
//! predicate accepts is a few intervals of bytes, and AND, OR and NOT are intersection, union and
//! complement, whatever the types involved.

use std::cmp::Ordering;
use std::ops::Bound;

/// A run of encoded scalar values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Where it begins.
    pub low: Bound<Vec<u8>>,
    /// Where it ends.
    pub high: Bound<Vec<u8>>,
}

impl Interval {
    /// One value.
    pub fn point(value: Vec<u8>) -> Interval {
        Interval { low: Bound::Included(value.clone()), high: Bound::Included(value) }
    }

    /// The value, if the interval holds only one.
    pub fn as_point(&self) -> Option<&[u8]> {
        match (&self.low, &self.high) {
            (Bound::Included(low), Bound::Included(high)) if low == high => Some(low),
            _ => None,
        }
    }

    fn is_empty(&self) -> bool {
        match (&self.low, &self.high) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(low), Bound::Included(high)) => low > high,
            (Bound::Included(low) | Bound::Excluded(low), Bound::Excluded(high))
            | (Bound::Excluded(low), Bound::Included(high)) => low >= high,
        }
    }
}

/// A set of values: intervals in order, none empty, none touching the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ValueSet(Vec<Interval>);

impl ValueSet {
    pub(super) fn one(interval: Interval) -> ValueSet {
        ValueSet::from_list(vec![interval])
    }

    /// The union of intervals in any order.
    pub(super) fn from_list(mut list: Vec<Interval>) -> ValueSet {
        list.retain(|interval| !interval.is_empty());
        list.sort_by(|a, b| compare_lows(&a.low, &b.low));
        let mut merged: Vec<Interval> = Vec::with_capacity(list.len());
        for interval in list {
            match merged.last_mut() {
                Some(last) if reaches(&last.high, &interval.low) => {
                    if compare_highs(&interval.high, &last.high).is_gt() {
                        last.high = interval.high;
                    }
                }
                _ => merged.push(interval),
            }
        }
        ValueSet(merged)
    }

    pub(super) fn into_list(self) -> Vec<Interval> {
        self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn union(self, other: ValueSet) -> ValueSet {
        let mut list = self.0;
        list.extend(other.0);
        ValueSet::from_list(list)
    }

    pub(super) fn intersect(&self, other: &ValueSet) -> ValueSet {
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut common = Vec::new();
        while let (Some(left), Some(right)) = (a.peek(), b.peek()) {
            let low = match compare_lows(&left.low, &right.low) {
                Ordering::Less => &right.low,
                Ordering::Equal | Ordering::Greater => &left.low,
            };
            let left_ends_first = compare_highs(&left.high, &right.high).is_lt();
            let high = if left_ends_first { &left.high } else { &right.high };
            common.push(Interval { low: low.clone(), high: high.clone() });
            if left_ends_first {
                a.next();
            } else {
                b.next();
            }
        }
        ValueSet::from_list(common)
    }

    /// What lies inside `whole` and not in this set.
    pub(super) fn complement_in(&self, whole: &ValueSet) -> ValueSet {
        let mut gaps = Vec::with_capacity(self.0.len() + 1);
        let mut low = Bound::Unbounded;
        for interval in &self.0 {
            if let Some(high) = flip(&interval.low) {
                gaps.push(Interval { low: low.clone(), high });
            }
            match flip(&interval.high) {
                Some(next) => low = next,
                None => return ValueSet::from_list(gaps).intersect(whole),
            }
        }
        gaps.push(Interval { low, high: Bound::Unbounded });
        ValueSet::from_list(gaps).intersect(whole)
    }
}

/// The other side of a bound; none beyond an open end.
fn flip(bound: &Bound<Vec<u8>>) -> Option<Bound<Vec<u8>>> {
    match bound {
        Bound::Unbounded => None,
        Bound::Included(value) => Some(Bound::Excluded(value.clone())),
        Bound::Excluded(value) => Some(Bound::Included(value.clone())),
    }
}

fn compare_lows(a: &Bound<Vec<u8>>, b: &Bound<Vec<u8>>) -> Ordering {
    match (a, b) {
        (Bound::Unbounded, Bound::Unbounded) => Ordering::Equal,
        (Bound::Unbounded, _) => Ordering::Less,
        (_, Bound::Unbounded) => Ordering::Greater,
        (Bound::Included(a), Bound::Included(b)) | (Bound::Excluded(a), Bound::Excluded(b)) => {
            a.cmp(b)
        }
        (Bound::Included(a), Bound::Excluded(b)) => a.cmp(b).then(Ordering::Less),
        (Bound::Excluded(a), Bound::Included(b)) => a.cmp(b).then(Ordering::Greater),
    }
}

fn compare_highs(a: &Bound<Vec<u8>>, b: &Bound<Vec<u8>>) -> Ordering {
    match (a, b) {
        (Bound::Unbounded, Bound::Unbounded) => Ordering::Equal,
        (Bound::Unbounded, _) => Ordering::Greater,
        (_, Bound::Unbounded) => Ordering::Less,
        (Bound::Included(a), Bound::Included(b)) | (Bound::Excluded(a), Bound::Excluded(b)) => {
            a.cmp(b)
        }
        (Bound::Included(a), Bound::Excluded(b)) => a.cmp(b).then(Ordering::Greater),
        (Bound::Excluded(a), Bound::Included(b)) => a.cmp(b).then(Ordering::Less),
    }
}

/// Does an interval that ends at `high` overlap or touch one that begins at `low`?
fn reaches(high: &Bound<Vec<u8>>, low: &Bound<Vec<u8>>) -> bool {
    match (high, low) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
        (Bound::Excluded(high), Bound::Excluded(low)) => high > low,
        (Bound::Included(high) | Bound::Excluded(high), Bound::Included(low))
        | (Bound::Included(high), Bound::Excluded(low)) => high >= low,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `[3,7)` and the like over one-byte values; `*` is an open end.
    fn interval(text: &str) -> Interval {
        let (low, high) = text[1..text.len() - 1].split_once(',').unwrap();
        let bound = |text: &str, closed: bool| match (text, closed) {
            ("*", _) => Bound::Unbounded,
            (text, true) => Bound::Included(vec![text.parse().unwrap()]),
            (text, false) => Bound::Excluded(vec![text.parse().unwrap()]),
        };
        let (low, high) = (bound(low, text.starts_with('[')), bound(high, text.ends_with(']')));
        Interval { low, high }
    }

    fn set(texts: &[&str]) -> ValueSet {
        ValueSet::from_list(texts.iter().map(|text| interval(text)).collect())
    }

    fn holds(set: &ValueSet, value: u8) -> bool {
        let value = [value];
        set.0.iter().any(|interval| {
            let above = match &interval.low {
                Bound::Unbounded => true,
                Bound::Included(low) => low[..] <= value[..],
                Bound::Excluded(low) => low[..] < value[..],
            };
            let below = match &interval.high {
                Bound::Unbounded => true,
                Bound::Included(high) => value[..] <= high[..],
                Bound::Excluded(high) => value[..] < high[..],
            };
            above && below
        })
    }

    #[test]
    fn a_union_joins_what_overlaps_or_touches() {
        assert_eq!(set(&["[5,7]", "[1,3)", "[3,4]", "(6,9)"]), set(&["[1,4]", "[5,9)"]));
        assert_eq!(set(&["(1,2)", "(2,3)"]).0.len(), 2);
        assert_eq!(set(&["(3,3)", "[4,3]"]).0.len(), 0);
        assert_eq!(set(&["[*,3]", "[2,*]"]).0.len(), 1);
    }

    #[test]
    fn the_operations_agree_with_those_on_plain_sets() {
        let texts = [
            "[1,3]", "(2,5)", "[4,4]", "(4,6]", "[*,2)", "[6,*]", "(7,8)", "[7,8]", "(*,*)",
            "[0,0]",
        ];
        let whole = set(&["[1,9)"]);
        for a in 0..1_u32 << texts.len() {
            let pick = |bits: u32| {
                let chosen: Vec<&str> =
                    (0..texts.len()).filter(|at| bits >> at & 1 == 1).map(|at| texts[at]).collect();
                set(&chosen)
            };
            let (left, right) = (pick(a), pick(a.rotate_left(5) ^ (a >> 3) ^ 0b11_0001));
            let (union, common) = (left.clone().union(right.clone()), left.intersect(&right));
            let rest = left.complement_in(&whole);
            for value in 0..12 {
                let (in_left, in_right) = (holds(&left, value), holds(&right, value));
                assert_eq!(holds(&union, value), in_left || in_right, "{left:?} or {right:?}");
                assert_eq!(holds(&common, value), in_left && in_right, "{left:?} and {right:?}");
                let inside = holds(&whole, value);
                assert_eq!(holds(&rest, value), inside && !in_left, "not {left:?}");
            }
        }
    }
}

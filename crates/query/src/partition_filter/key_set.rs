//! Partition key values in their order, and sets of them.
//!
//! A component of a key is undefined, null, a boolean, a number or a string, in that order. A
//! comparison reaches over all numbers or all strings, so there is a place before the first and
//! behind the last number, and behind the last string (the first is the empty one). These places
//! are no values: they only end intervals.

use std::cmp::Ordering;

use partita_model::{KeyPart, Value};

/// A value of a component, or an end of one type's values.
#[derive(Clone, Debug)]
pub(crate) enum KeyPoint {
    Undefined,
    Null,
    Bool(bool),
    BeforeNumbers,
    Number(f64),
    BehindNumbers,
    String(String),
    BehindStrings,
}

impl KeyPoint {
    /// Where an item with this value has its key; objects and arrays count as undefined.
    pub(crate) fn of(value: Option<&Value>) -> KeyPoint {
        match value {
            None | Some(Value::Array(_) | Value::Object(_)) => KeyPoint::Undefined,
            Some(Value::Null) => KeyPoint::Null,
            Some(Value::Bool(value)) => KeyPoint::Bool(*value),
            // Adding zero makes zero of minus zero: the language holds them equal.
            Some(Value::Number(number)) => KeyPoint::Number(number.as_f64() + 0.0),
            Some(Value::String(text)) => KeyPoint::String(text.clone()),
        }
    }

    /// The component of a key, if the place is one.
    pub(crate) fn part(&self) -> Option<KeyPart> {
        match self {
            KeyPoint::Undefined => Some(KeyPart::Undefined),
            KeyPoint::Null => Some(KeyPart::Null),
            KeyPoint::Bool(value) => Some(KeyPart::Bool(*value)),
            KeyPoint::Number(number) => Some(KeyPart::Number(*number)),
            KeyPoint::String(text) => Some(KeyPart::String(text.clone())),
            KeyPoint::BeforeNumbers | KeyPoint::BehindNumbers | KeyPoint::BehindStrings => None,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            KeyPoint::Undefined => 0,
            KeyPoint::Null => 1,
            KeyPoint::Bool(_) => 2,
            KeyPoint::BeforeNumbers => 3,
            KeyPoint::Number(_) => 4,
            KeyPoint::BehindNumbers => 5,
            KeyPoint::String(_) => 6,
            KeyPoint::BehindStrings => 7,
        }
    }
}

impl Ord for KeyPoint {
    fn cmp(&self, other: &KeyPoint) -> Ordering {
        match (self, other) {
            (KeyPoint::Bool(a), KeyPoint::Bool(b)) => a.cmp(b),
            (KeyPoint::Number(a), KeyPoint::Number(b)) => a.total_cmp(b),
            (KeyPoint::String(a), KeyPoint::String(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for KeyPoint {
    fn partial_cmp(&self, other: &KeyPoint) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for KeyPoint {
    fn eq(&self, other: &KeyPoint) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for KeyPoint {}

/// One end of an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) place: KeyPoint,
    pub(crate) inclusive: bool,
}

impl End {
    pub(crate) fn at(place: KeyPoint) -> End {
        End { place, inclusive: true }
    }

    pub(crate) fn beside(place: KeyPoint) -> End {
        End { place, inclusive: false }
    }
}

/// From one place to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) low: End,
    pub(crate) high: End,
}

impl Interval {
    pub(crate) fn point(place: KeyPoint) -> Interval {
        Interval { low: End::at(place.clone()), high: End::at(place) }
    }

    pub(crate) fn is_point(&self) -> bool {
        self.low.place == self.high.place
    }

    fn is_empty(&self) -> bool {
        match self.low.place.cmp(&self.high.place) {
            Ordering::Less => false,
            Ordering::Equal => !(self.low.inclusive && self.high.inclusive),
            Ordering::Greater => true,
        }
    }

    fn intersect(&self, other: &Interval) -> Interval {
        Interval {
            low: later_low(&self.low, &other.low).clone(),
            high: earlier_high(&self.high, &other.high).clone(),
        }
    }
}

/// A set of places: disjoint intervals in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeySet(Vec<Interval>);

impl KeySet {
    /// Everything in any of the intervals.
    pub(crate) fn union(mut intervals: Vec<Interval>) -> KeySet {
        intervals.retain(|interval| !interval.is_empty());
        intervals.sort_by(|a, b| low_order(&a.low, &b.low));
        let mut merged: Vec<Interval> = Vec::with_capacity(intervals.len());
        for interval in intervals {
            match merged.last_mut() {
                Some(last) if touches(&last.high, &interval.low) => {
                    last.high = later_high(&last.high, &interval.high).clone();
                }
                _ => merged.push(interval),
            }
        }
        KeySet(merged)
    }

    pub(crate) fn point(place: KeyPoint) -> KeySet {
        KeySet(vec![Interval::point(place)])
    }

    pub(crate) fn intervals(&self) -> &[Interval] {
        &self.0
    }

    pub(crate) fn into_intervals(self) -> Vec<Interval> {
        self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is in both; both are in order, so one walk finds it.
    pub(crate) fn intersect(&self, other: &KeySet) -> KeySet {
        let (mut ours, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut common = Vec::new();
        while let (Some(a), Some(b)) = (ours.peek(), theirs.peek()) {
            let both = a.intersect(b);
            if !both.is_empty() {
                common.push(both);
            }
            if high_order(&a.high, &b.high) == Ordering::Less {
                ours.next();
            } else {
                theirs.next();
            }
        }
        KeySet(common)
    }
}

/// Of two starts at one place the inclusive one is earlier.
fn low_order(a: &End, b: &End) -> Ordering {
    a.place.cmp(&b.place).then(b.inclusive.cmp(&a.inclusive))
}

/// Of two ends at one place the inclusive one is later.
fn high_order(a: &End, b: &End) -> Ordering {
    a.place.cmp(&b.place).then(a.inclusive.cmp(&b.inclusive))
}

fn later_low<'a>(a: &'a End, b: &'a End) -> &'a End {
    if low_order(a, b) == Ordering::Less { b } else { a }
}

fn later_high<'a>(a: &'a End, b: &'a End) -> &'a End {
    if high_order(a, b) == Ordering::Less { b } else { a }
}

fn earlier_high<'a>(a: &'a End, b: &'a End) -> &'a End {
    if high_order(a, b) == Ordering::Less { a } else { b }
}

/// Is there nothing between an end and the next start?
fn touches(high: &End, low: &End) -> bool {
    match low.place.cmp(&high.place) {
        Ordering::Less => true,
        Ordering::Equal => low.inclusive || high.inclusive,
        Ordering::Greater => false,
    }
}

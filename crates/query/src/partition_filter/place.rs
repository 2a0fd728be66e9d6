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
pub(crate) enum Place {
    Undefined,
    Null,
    Bool(bool),
    BeforeNumbers,
    Number(f64),
    BehindNumbers,
    String(String),
    BehindStrings,
}

impl Place {
    /// Where an item with this value has its key; objects and arrays count as undefined.
    pub(crate) fn of(value: Option<&Value>) -> Place {
        match value {
            None | Some(Value::Array(_) | Value::Object(_)) => Place::Undefined,
            Some(Value::Null) => Place::Null,
            Some(Value::Bool(value)) => Place::Bool(*value),
            // Adding zero makes zero of minus zero: the language holds them equal.
            Some(Value::Number(number)) => Place::Number(number.as_f64() + 0.0),
            Some(Value::String(text)) => Place::String(text.clone()),
        }
    }

    /// The component of a key, if the place is one.
    pub(crate) fn part(&self) -> Option<KeyPart> {
        match self {
            Place::Undefined => Some(KeyPart::Undefined),
            Place::Null => Some(KeyPart::Null),
            Place::Bool(value) => Some(KeyPart::Bool(*value)),
            Place::Number(number) => Some(KeyPart::Number(*number)),
            Place::String(text) => Some(KeyPart::String(text.clone())),
            Place::BeforeNumbers | Place::BehindNumbers | Place::BehindStrings => None,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Place::Undefined => 0,
            Place::Null => 1,
            Place::Bool(_) => 2,
            Place::BeforeNumbers => 3,
            Place::Number(_) => 4,
            Place::BehindNumbers => 5,
            Place::String(_) => 6,
            Place::BehindStrings => 7,
        }
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Place) -> Ordering {
        match (self, other) {
            (Place::Bool(a), Place::Bool(b)) => a.cmp(b),
            (Place::Number(a), Place::Number(b)) => a.total_cmp(b),
            (Place::String(a), Place::String(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Place) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Place) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Place {}

/// One end of an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) place: Place,
    pub(crate) inclusive: bool,
}

impl End {
    pub(crate) fn at(place: Place) -> End {
        End { place, inclusive: true }
    }

    pub(crate) fn beside(place: Place) -> End {
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
    pub(crate) fn point(place: Place) -> Interval {
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
pub(crate) struct Places(Vec<Interval>);

impl Places {
    /// Everything in any of the intervals.
    pub(crate) fn union(mut intervals: Vec<Interval>) -> Places {
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
        Places(merged)
    }

    pub(crate) fn point(place: Place) -> Places {
        Places(vec![Interval::point(place)])
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
    pub(crate) fn intersect(&self, other: &Places) -> Places {
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
        Places(common)
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

//! From what was measured to a number between 0 and 100, and to words.
//!
//! Four things are weighed, as far as they are known: how many values there are, how evenly bytes
//! spread over them, how evenly requests do, and how many queries a single partition could answer.
//! Weaknesses that no strength outweighs take a share of the whole: values that are missing, a
//! growing tail that takes all new items, keys that leave every item alone. Every deduction has its
//! sentence.

use partita_model::{KeyPart, limits};

use crate::queries::Routing;

/// Weights of values, bytes, requests and queries.
const WEIGHTS: [f64; 4] = [25.0, 25.0, 20.0, 30.0];

/// So many different values are enough for any container.
const VALUES_ENOUGH: f64 = 200.0;

/// A largest value with this share of the whole is no concern.
const SHARE_SMALL: f64 = 0.01;

/// What a query that needs the beginning of a key, or a few keys, is worth beside one that needs a
/// single one.
const PREFIX_WORTH: f64 = 0.7;
const FEW_WORTH: f64 = 0.5;

/// What each further path of a hierarchy must bring to be worth it.
const LEVEL_COST: f64 = 3.0;

/// What is left of the score for each path of a hierarchy that no query names.
const UNASKED_KEPT: f64 = 0.9;

/// A logical partition that costs much, of the key that the container has.
#[derive(Clone, Debug, PartialEq)]
pub struct HotKey {
    pub parts: Vec<KeyPart>,
    /// Its share of the request units used lately.
    pub share: f64,
}

/// What there was to look at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    pub items: u64,
    pub bytes: u64,
    /// Items of the sample that was looked at closely.
    pub sampled: usize,
}

/// What was measured of a candidate.
#[derive(Clone, Debug, PartialEq)]
pub struct Measures {
    /// Different values in the sample, and in the whole by estimate.
    pub distinct: usize,
    pub distinct_estimated: f64,
    /// The share of bytes under the value that has the most, and that value as JSON.
    pub largest_share: f64,
    pub largest_value: String,
    /// The share of requests that one value would take; None if requests are not known.
    pub hottest_share: Option<f64>,
    /// The share of items without a value, or with null.
    pub missing_share: f64,
    /// Strings, numbers and booleans, as shares of the items; of the last path of a hierarchy.
    pub types: [f64; 3],
    /// None if no queries are known.
    pub routing: Option<Routing>,
    /// Nearly every item has a value of its own.
    pub alone: bool,
    /// The value is a date or a time.
    pub time: bool,
    /// Newer items have larger values, and many share one.
    pub tail: bool,
    /// Most values are long texts.
    pub text: bool,
    /// Paths of a hierarchy that no query names; none if no queries are known.
    pub unasked: Vec<String>,
    /// Most values are numbers that are not whole.
    pub fractions: bool,
    /// Some value is too long for a partition key.
    pub too_long: bool,
}

/// The score, and the reasons, the good ones first.
pub(crate) fn score(measures: &Measures, levels: usize, seen: Seen) -> (f64, Vec<String>) {
    let mut good = Vec::new();
    let mut bad = Vec::new();
    let parts = [
        Some(values(measures, &mut good, &mut bad)),
        Some(bytes(measures, &mut good, &mut bad)),
        requests(measures, &mut good, &mut bad),
        queries(measures, &mut good, &mut bad),
    ];
    let known = || WEIGHTS.iter().zip(parts).filter_map(|(weight, part)| Some((weight, part?)));
    let total: f64 = known().map(|(weight, _)| weight).sum();
    let weighed: f64 = known().map(|(weight, part)| weight * part).sum::<f64>() / total.max(1.0);
    let kept = deductions(measures, levels, seen, &mut bad);
    let cost = LEVEL_COST * levels.saturating_sub(1) as f64;
    good.append(&mut bad);
    ((weighed * kept * 100.0 - cost).clamp(0.0, 100.0), good)
}

fn values(measures: &Measures, good: &mut Vec<String>, bad: &mut Vec<String>) -> f64 {
    let values = measures.distinct_estimated;
    let part = (values.max(1.0).log10() / VALUES_ENOUGH.log10()).clamp(0.0, 1.0);
    match values {
        values if values < 2.0 => bad.push("− it has one value only: nothing spreads".into()),
        values if values < 100.0 => bad.push(format!(
            "− only about {values:.0} different values: data and requests cannot spread further"
        )),
        values => good.push(format!("+ about {values:.0} different values")),
    }
    part
}

fn bytes(measures: &Measures, good: &mut Vec<String>, bad: &mut Vec<String>) -> f64 {
    let share = measures.largest_share;
    let full = limits::LOGICAL_PARTITION_BYTES_MAX as f64 / share.max(1e-9);
    let full = size(full);
    let value = &measures.largest_value;
    if share > 0.05 {
        bad.push(format!(
            "− {value} has {} of the bytes: it is full when the container holds {full}",
            percent(share)
        ));
    } else {
        good.push(format!(
            "+ the largest value has {} of the bytes: it is full when the container holds {full}",
            percent(share)
        ));
    }
    evenness(share)
}

fn requests(measures: &Measures, good: &mut Vec<String>, bad: &mut Vec<String>) -> Option<f64> {
    let share = measures.hottest_share?;
    let line = format!("one value would take {} of the requests seen", percent(share));
    if share > 0.1 {
        bad.push(format!("− {line}"))
    } else {
        good.push(format!("+ {line}"))
    }
    Some(evenness(share))
}

fn queries(measures: &Measures, good: &mut Vec<String>, bad: &mut Vec<String>) -> Option<f64> {
    let routing = measures.routing?;
    let part = routing.single + PREFIX_WORTH * routing.prefix + FEW_WORTH * routing.few;
    let words = [
        (routing.single, "one logical partition"),
        (routing.prefix, "only the partitions under a prefix"),
        (routing.few, "a few logical partitions"),
        (routing.all, "all partitions"),
    ];
    let words = words.iter().filter(|(share, _)| *share > 0.0);
    let words: Vec<String> =
        words.map(|(share, where_to)| format!("{} ask {where_to}", percent(*share))).collect();
    let line = format!("of the queries, {}", words.join(", "));
    if part >= 0.5 {
        good.push(format!("+ {line}"))
    } else {
        bad.push(format!("− {line}"))
    }
    Some(part)
}

/// What is left after weaknesses that nothing outweighs.
fn deductions(measures: &Measures, levels: usize, seen: Seen, bad: &mut Vec<String>) -> f64 {
    let mut kept = 1.0 - measures.missing_share;
    if measures.missing_share > 0.0 {
        let share = percent(measures.missing_share);
        bad.push(format!("− {share} of the items have no value there: they would share one key"));
    }
    let largest = measures.largest_share * seen.bytes as f64;
    if largest > limits::LOGICAL_PARTITION_BYTES_MAX as f64 {
        kept *= 0.2;
        let (value, largest) = (&measures.largest_value, size(largest));
        bad.push(format!("− {value} holds {largest} already, more than a logical partition may"));
    }
    let mut weakness = |holds: bool, share: f64, why: &str| {
        if holds {
            kept *= share;
            bad.push(format!("− {why}"));
        }
    };
    let is_hierarchy = levels > 1;
    weakness(measures.too_long, 0.0, "some values are longer than a partition key may be");
    weakness(measures.tail, 0.3, "new items all go to the newest value: one partition takes them");
    weakness(
        measures.time && !measures.tail,
        0.5,
        "it is a time, which readers rarely know exactly: queries for a period ask all partitions",
    );
    weakness(measures.text, 0.5, "its values are texts, not names of something");
    for path in &measures.unasked {
        weakness(true, UNASKED_KEPT, &format!("no query names {path}"));
    }
    weakness(measures.fractions, 0.4, "it is a measured number, which nobody asks for exactly");
    weakness(
        measures.alone && !measures.time,
        if is_hierarchy { 0.9 } else { 0.75 },
        "nearly every item is alone under its key: no transactions, no queries within one key",
    );
    kept
}

/// 1 for a share that is no concern, 0 for everything under one key, by orders of magnitude.
fn evenness(share: f64) -> f64 {
    (share.max(1e-9).log10() / SHARE_SMALL.log10()).clamp(0.0, 1.0)
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent > 0.0 && percent < 0.1 => "less than 0.1 %".to_owned(),
        percent if percent == 0.0 || percent >= 10.0 => format!("{percent:.0} %"),
        percent => format!("{percent:.1} %"),
    }
}

/// A size in the largest unit that gives at least one.
fn size(bytes: f64) -> String {
    let mut rest = bytes;
    for unit in ["B", "KB", "MB", "GB", "TB"] {
        if rest < 1024.0 {
            return format!("{rest:.0} {unit}");
        }
        rest /= 1024.0;
    }
    format!("{rest:.0} PB")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: Seen = Seen { items: 1_000, bytes: 1 << 20, sampled: 1_000 };

    fn fine() -> Measures {
        Measures {
            distinct: 1_000,
            distinct_estimated: 1_000.0,
            largest_share: 0.01,
            largest_value: "[\"a\"]".into(),
            hottest_share: None,
            missing_share: 0.0,
            types: [1.0, 0.0, 0.0],
            routing: None,
            alone: false,
            time: false,
            tail: false,
            text: false,
            unasked: Vec::new(),
            fractions: false,
            too_long: false,
        }
    }

    #[test]
    fn what_is_not_known_does_not_count() {
        let (best, reasons) = score(&fine(), 1, SEEN);
        assert!((best - 100.0).abs() < 1e-6, "{best} {reasons:?}");
        let routing = Routing { single: 0.5, prefix: 0.0, few: 0.0, all: 0.5 };
        let half = score(&Measures { routing: Some(routing), ..fine() }, 1, SEEN).0;
        assert!((half - 100.0 * 65.0 / 80.0).abs() < 1e-6, "{half}");
    }

    #[test]
    fn every_weakness_costs_and_is_named() {
        let best = score(&fine(), 1, SEEN).0;
        for (weak, word) in [
            (Measures { missing_share: 0.1, ..fine() }, "no value"),
            (Measures { alone: true, ..fine() }, "alone"),
            (Measures { time: true, ..fine() }, "a time"),
            (Measures { tail: true, ..fine() }, "newest"),
            (Measures { fractions: true, ..fine() }, "measured"),
            (Measures { text: true, ..fine() }, "texts"),
            (Measures { unasked: vec!["/f".into()], ..fine() }, "no query names /f"),
            (Measures { too_long: true, ..fine() }, "longer"),
            (Measures { distinct_estimated: 5.0, ..fine() }, "only about 5"),
            (Measures { largest_share: 0.5, ..fine() }, "50 % of the bytes"),
            (Measures { hottest_share: Some(0.9), ..fine() }, "90 % of the requests"),
        ] {
            let (score, reasons) = score(&weak, 1, SEEN);
            assert!(score < best - 1.0, "{word}: {score}");
            assert!(reasons.iter().any(|reason| reason.contains(word)), "{reasons:?}");
        }
        let large = Seen { bytes: 100 << 40, ..SEEN };
        let (score, reasons) = score(&fine(), 1, large);
        assert!(score < 25.0 && reasons.iter().any(|reason| reason.contains("already")));
    }
}

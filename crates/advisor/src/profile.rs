//! How the values of a key are spread over the sample.

use std::collections::HashMap;

use crate::paths::{Column, MISSING, NULL};

/// The spread of a key of one or more paths.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Profile {
    /// Different keys in the sample.
    pub(crate) distinct: usize,
    /// Different keys in the whole, estimated.
    pub(crate) distinct_estimated: f64,
    /// The share of bytes under the key that has the most.
    pub(crate) largest_share: f64,
    /// An item with that key.
    pub(crate) largest_item: usize,
    /// The share of requests that go to one key, where requests are known.
    pub(crate) hottest_share: Option<f64>,
    /// The share of items that lack a component, or have null there.
    pub(crate) missing_share: f64,
}

/// What is known of every item beside its values.
pub(crate) struct Weights {
    /// Bytes of each item of the sample.
    pub(crate) bytes: Vec<f64>,
    /// The share of requests that each item got, where that is known.
    pub(crate) requests: Option<Vec<f64>>,
    /// Items of the whole that the sample stands for.
    pub(crate) items_seen: u64,
}

struct Key {
    first: usize,
    items: usize,
    bytes: f64,
    requests: f64,
}

/// Looks at a key made of these columns.
pub(crate) fn profile(columns: &[&Column], weights: &Weights) -> Profile {
    let items = weights.bytes.len();
    let mut keys: HashMap<u64, Key> = HashMap::new();
    let mut missing = 0;
    for item in 0..items {
        let values = columns.iter().map(|column| column.values.get(item).copied());
        let (mut hash, mut lacks) = (0, false);
        for value in values.map(|value| value.unwrap_or(MISSING)) {
            lacks |= value == MISSING || value == NULL;
            hash = mix(hash ^ value);
        }
        missing += usize::from(lacks);
        let key =
            keys.entry(hash).or_insert(Key { first: item, items: 0, bytes: 0.0, requests: 0.0 });
        key.items += 1;
        key.bytes += weights.bytes.get(item).copied().unwrap_or(0.0);
        let requests = weights.requests.as_ref().and_then(|requests| requests.get(item));
        key.requests += requests.copied().unwrap_or(0.0);
    }
    let total: f64 = weights.bytes.iter().sum();
    let largest = keys
        .values()
        .max_by(|a, b| a.bytes.total_cmp(&b.bytes).then_with(|| b.first.cmp(&a.first)));
    let hottest = keys.values().map(|key| key.requests).fold(0.0, f64::max);
    Profile {
        distinct: keys.len(),
        distinct_estimated: estimate(&keys, items, weights.items_seen),
        largest_share: largest.map_or(0.0, |key| key.bytes) / total.max(1.0),
        largest_item: largest.map_or(0, |key| key.first),
        hottest_share: weights.requests.is_some().then_some(hottest),
        missing_share: missing as f64 / items.max(1) as f64,
    }
}

/// How many keys the whole has. Keys that came once stand for others that did not come at all; the
/// factor is the one with the smallest possible error in the worst case (the "guaranteed-error
/// estimator").
fn estimate(keys: &HashMap<u64, Key>, sampled: usize, seen: u64) -> f64 {
    let once = keys.values().filter(|key| key.items == 1).count();
    let factor = (seen as f64 / sampled.max(1) as f64).max(1.0).sqrt();
    factor * once as f64 + (keys.len() - once) as f64
}

/// Spreads the bits of a number: the output function of splitmix64.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::Items;
    use partita_model::PropertyPath;

    #[test]
    fn a_profile_counts_values_and_finds_the_largest() {
        let texts = [
            r#"{"a":"x","b":1}"#,
            r#"{"a":"x","b":2}"#,
            r#"{"a":"x","b":2}"#,
            r#"{"a":"y","b":1}"#,
            r#"{"a":null}"#,
        ];
        let items = Items::new(&texts);
        let [a, b] = ["/a", "/b"].map(|path| items.column(PropertyPath::parse(path).unwrap()));
        let weights = Weights {
            bytes: vec![10.0, 10.0, 10.0, 30.0, 40.0],
            requests: Some(vec![0.1, 0.1, 0.1, 0.6, 0.1]),
            items_seen: 5,
        };
        let one = profile(&[&a], &weights);
        assert_eq!((one.distinct, one.largest_item), (3, 4));
        assert!((one.largest_share - 0.4).abs() < 1e-9 && (one.missing_share - 0.2).abs() < 1e-9);
        assert!((one.hottest_share.unwrap() - 0.6).abs() < 1e-9);
        let both = profile(&[&a, &b], &weights);
        assert_eq!(both.distinct, 4);
        assert_ne!(profile(&[&b, &a], &weights).distinct, 0);
    }

    #[test]
    fn rare_values_stand_for_those_that_were_not_seen() {
        let texts: Vec<String> =
            (0..100).map(|n| format!(r#"{{"a":{n},"b":{}}}"#, n % 5)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let items = Items::new(&texts);
        let [a, b] = ["/a", "/b"].map(|path| items.column(PropertyPath::parse(path).unwrap()));
        let weights = Weights { bytes: vec![1.0; 100], requests: None, items_seen: 10_000 };
        assert!((profile(&[&a], &weights).distinct_estimated - 1_000.0).abs() < 1e-6);
        assert!((profile(&[&b], &weights).distinct_estimated - 5.0).abs() < 1e-6);
    }
}

//! The index as a whole: what entries a document has, and that ranges of keys are ranges of values.

use std::cmp::Ordering;
use std::ops::Bound;

use partita_model::{
    CompositeIndex, Document, IndexPath, IndexStep, IndexingPolicy, Scalar, Value,
};
use partita_storage::KeyRange;
use proptest::prelude::*;

use super::*;

fn policy(json: &str) -> IndexingPolicy {
    IndexingPolicy::parse(&Value::parse(json.as_bytes()).unwrap()).unwrap()
}

fn steps(path: &str) -> Vec<IndexStep> {
    IndexPath::parse(&format!("{path}/?")).unwrap().steps().to_vec()
}

/// The keys of a document's terms.
fn terms(text: &str, policy: &IndexingPolicy) -> Vec<Vec<u8>> {
    terms_as(text, policy, Terms::Short)
}

fn terms_as(text: &str, policy: &IndexingPolicy, terms: Terms) -> Vec<Vec<u8>> {
    let all = entries(text, 1, policy, terms, usize::MAX).unwrap().keys;
    let is_term = |key: &Bytes| contains(&keys::all_terms(), key);
    all.into_iter().filter(is_term).map(Vec::from).collect()
}

fn contains(range: &KeyRange, key: &[u8]) -> bool {
    use std::ops::RangeBounds;
    let bound = |bound: &Bound<Vec<u8>>| bound.clone();
    (bound(&range.start), bound(&range.end)).contains(&key.to_vec())
}

#[test]
fn every_leaf_has_a_term_by_default() {
    let text = r#"{"id":"1","a":{"b":[1,2,{"c":null}]},"e":[],"o":{},"_ts":5,"_rid":"x","_self":"x","_etag":"x"}"#;
    // id, two numbers and one null in the array, the two empty ones, and the time
    assert_eq!(terms(text, &policy("{}")).len(), 7);
}

#[test]
fn equal_elements_of_an_array_share_a_term() {
    assert_eq!(terms(r#"{"a":[1,1,1.0]}"#, &policy("{}")).len(), 1);
}

#[test]
fn excluded_paths_have_none() {
    let some = policy(r#"{"includedPaths":[{"path":"/a/?"}],"excludedPaths":[{"path":"/*"}]}"#);
    assert_eq!(terms(r#"{"id":"1","a":1,"b":2}"#, &some).len(), 2, "a, and the id always");
    let nothing = policy(r#"{"indexingMode":"none","automatic":false}"#);
    let found = entries(r#"{"id":"1"}"#, 1, &nothing, Terms::Short, usize::MAX);
    assert_eq!(found, Some(Entries::default()));
}

#[test]
fn the_systems_properties_are_not_served() {
    let all = policy(r#"{"includedPaths":[{"path":"/*"},{"path":"/_etag/?"}]}"#);
    assert_eq!(terms(r#"{"_etag":"x","_rid":"y"}"#, &all).len(), 0);
    let served = ServedPolicy::new(&all, std::iter::empty());
    for (path, indexed) in [("/_etag", false), ("/_rid", false), ("/_ts", true), ("/_x", true)] {
        assert_eq!(served.indexes(&steps(path)), indexed, "{path}");
    }
}

#[test]
fn what_all_policies_have_is_served() {
    let both = r#"[{"path":"/a"},{"path":"/b","order":"descending"}]"#;
    let one = policy(&format!(
        r#"{{"excludedPaths":[{{"path":"/x/*"}}],"compositeIndexes":[{both},[{{"path":"/a"}},{{"path":"/c"}}]]}}"#
    ));
    let two = policy(
        r#"{"excludedPaths":[{"path":"/y/?"}],
            "compositeIndexes":[[{"path":"/a/?"},{"path":"/b","order":"descending"}]]}"#,
    );
    let served = ServedPolicy::new(&one, std::iter::once(&two));
    for (path, indexed) in [("/x/z", false), ("/y", false), ("/y/z", true), ("/z", true)] {
        assert_eq!(served.indexes(&steps(path)), indexed, "{path}");
    }
    assert_eq!(served.composites().collect::<Vec<_>>(), [&one.composite()[0]]);
    let none = policy(r#"{"indexingMode":"none","automatic":false}"#);
    let served = ServedPolicy::new(&one, std::iter::once(&none));
    assert!(!served.indexes(&steps("/z")) && served.composites().next().is_none());
}

#[test]
fn names_of_any_length_have_terms() {
    let name = "n".repeat(100_000);
    for terms in [Terms::Short, Terms::Long] {
        let text = format!(r#"{{"{name}":{{"a":1,"b":1}}}}"#);
        let found = terms_as(&text, &policy("{}"), terms);
        assert!(found.len() == 2 && found.iter().all(|key| key.len() < 64));
        let path = path_prefix(&steps(&format!("/{name}/a")), terms);
        let one = keys::term_range(&path, Bound::Unbounded, Bound::Unbounded);
        assert_eq!(found.iter().filter(|key| contains(&one, key)).count(), 1);
    }
}

#[test]
fn a_shape_says_what_is_at_a_path() {
    let text =
        r#"{"id":"1","a":{"b":{"c":{"d":{"e":1}}},"l":[{"m":1}]},"n":null,"o":{},"p":[],"q":1}"#;
    let some = policy(r#"{"excludedPaths":[{"path":"/q/*"}]}"#);
    let shapes = [Terms::Short, Terms::Long].map(|terms| {
        let record = dictionary(text, &some, terms);
        assert!(Shape::parse(&record[1..]).is_none());
        (terms, Shape::parse(&record).unwrap())
    });
    for (path, kind) in [
        ("/id", Some(Kind::Scalar)),
        ("/a", Some(Kind::Object)),
        ("/a/b/c/d", Some(Kind::Object)),
        ("/a/b/c/d/e", None),
        ("/a/l", Some(Kind::Array)),
        ("/a/l/m", None),
        ("/n", Some(Kind::Scalar)),
        ("/o", Some(Kind::Object)),
        ("/p", Some(Kind::Array)),
        ("/q", None),
        ("/x", None),
    ] {
        for (terms, shape) in &shapes {
            assert_eq!(shape.kind(&path_prefix(&steps(path), *terms)), kind, "{path}");
        }
    }
}

#[test]
fn shapes_are_equal_if_the_same_paths_have_the_same_kinds() {
    let shape =
        |text: &str| entries(text, 1, &policy("{}"), Terms::Short, usize::MAX).unwrap().shape;
    let one = shape(r#"{"a":1,"b":[1]}"#);
    assert_eq!(one, shape(r#"{"b":[],"a":"x"}"#));
    for other in [r#"{"a":1,"b":1}"#, r#"{"a":1}"#, r#"{"a":1,"b":[],"c":1}"#, r#"{}"#] {
        assert_ne!(one, shape(other), "{other}");
    }
    let many = |count: usize| {
        let members: Vec<String> = (0..count).map(|n| format!(r#""m{n}":1"#)).collect();
        shape(&format!("{{{}}}", members.join(",")))
    };
    assert_ne!(many(256), Some(UNKNOWN_SHAPE));
    assert_eq!(many(257), Some(UNKNOWN_SHAPE));
    assert_eq!(
        shape(&format!(r#"{{"{}":{{"a":1}}}}"#, "n".repeat(900))).map(|s| s == 0),
        Some(false)
    );
}

#[test]
fn columns_are_the_sort_keys_of_queries() {
    let index = two_columns([true, false]);
    for text in ["null", "false", "-0.0", "1e300", r#""x""#, "[]", r#"[1,{"a":2}]"#, "{}"] {
        let document = format!(r#"{{"a":{text}}}"#);
        let policy = policy_of(&index);
        let mut keys = KeyBuffer::new(64, usize::MAX);
        composite::put_keys(&mut keys, Document::new(&document), 1, &policy);
        let keys = keys.into_sorted();
        let value = Value::parse(text.as_bytes()).unwrap();
        let expected = [partita_query::sort_key(Some(&value)), partita_query::sort_key(None)];
        assert_eq!(columns_of(&keys[0], &index).unwrap(), expected, "{text}");
    }
}

/// Scalars around those that are hard to keep in order.
fn scalar() -> impl Strategy<Value = Scalar<'static>> {
    let letters = prop::sample::select(&['\0', 'a', 'b', '\u{FFFF}', '\u{10000}', 'ä'][..]);
    let short = prop::collection::vec(letters, 0..4).prop_map(String::from_iter);
    let lengths = prop_oneof![122..134_usize, 250..262_usize];
    let long = (short.clone(), lengths, short.clone())
        .prop_map(|(start, middle, end)| format!("{start}{}{end}", "m".repeat(middle)));
    let longer = (1_018..1_030_usize, short.clone())
        .prop_map(|(middle, end)| format!("{}{end}", "m".repeat(middle)));
    prop_oneof![
        Just(Scalar::Null),
        any::<bool>().prop_map(Scalar::Bool),
        (-3..3_i32).prop_map(|n| Scalar::Number(f64::from(n) / 2.0)),
        prop_oneof![short, long, longer].prop_map(|text| Scalar::String(text.into())),
    ]
}

fn column() -> impl Strategy<Value = Option<Scalar<'static>>> {
    prop_oneof![1 => Just(None), 6 => scalar().prop_map(Some)]
}

fn rank(scalar: Option<&Scalar<'_>>) -> u8 {
    match scalar {
        None => 0,
        Some(Scalar::Null) => 1,
        Some(Scalar::Bool(_)) => 2,
        Some(Scalar::Number(_)) => 3,
        Some(Scalar::String(_)) => 4,
    }
}

fn compare(a: Option<&Scalar<'_>>, b: Option<&Scalar<'_>>) -> Ordering {
    match (a, b) {
        (Some(Scalar::Bool(a)), Some(Scalar::Bool(b))) => a.cmp(b),
        (Some(Scalar::Number(a)), Some(Scalar::Number(b))) => a.total_cmp(b),
        (Some(Scalar::String(a)), Some(Scalar::String(b))) => {
            a.encode_utf16().cmp(b.encode_utf16())
        }
        _ => rank(a).cmp(&rank(b)),
    }
}

fn sort_key(scalar: Option<&Scalar<'_>>) -> Vec<u8> {
    let mut out = Vec::new();
    match scalar {
        None => out.push(0),
        Some(scalar) => crate::entry_value::put_scalar(&mut out, scalar, usize::MAX),
    }
    out
}

fn json(scalar: &Scalar<'_>) -> String {
    match scalar {
        Scalar::Null => "null".into(),
        Scalar::Bool(value) => value.to_string(),
        Scalar::Number(value) => value.to_string(),
        Scalar::String(text) => Value::from(text.to_string()).to_json(),
    }
}

fn bound(scalar: &Scalar<'_>, which: u8) -> Bound<Vec<u8>> {
    match which {
        0 => Bound::Unbounded,
        1 => Bound::Included(sort_key(Some(scalar))),
        _ => Bound::Excluded(sort_key(Some(scalar))),
    }
}

fn above(value: &Scalar<'_>, low: &Scalar<'_>, which: u8) -> bool {
    let order = compare(Some(value), Some(low));
    which == 0 || order.is_gt() || (which == 1 && order.is_eq())
}

fn below(value: &Scalar<'_>, high: &Scalar<'_>, which: u8) -> bool {
    let order = compare(Some(value), Some(high));
    which == 0 || order.is_lt() || (which == 1 && order.is_eq())
}

fn as_ref(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

fn two_columns(descending: [bool; 2]) -> CompositeIndex {
    let order = |descending| if descending { "descending" } else { "ascending" };
    let [a, b] = descending.map(order);
    let json = format!(
        r#"{{"compositeIndexes":[[{{"path":"/a","order":"{a}"}},{{"path":"/b/c","order":"{b}"}}]]}}"#
    );
    policy(&json).composite()[0].clone()
}

/// The policy with this index only.
fn policy_of(index: &CompositeIndex) -> IndexingPolicy {
    let column = |n: usize| {
        let order = if index.paths[n].descending { "descending" } else { "ascending" };
        format!(r#"{{"path":"{}","order":"{order}"}}"#, index.paths[n].text)
    };
    policy(&format!(r#"{{"compositeIndexes":[[{},{}]]}}"#, column(0), column(1)))
}

/// The key of an item's entry in a composite index.
fn composite_key(
    index: &CompositeIndex,
    values: &[Option<Scalar<'static>>; 2],
    rid: u64,
) -> Vec<u8> {
    let [a, b] = values;
    let a = a.as_ref().map_or(String::new(), |a| format!(r#""a":{},"#, json(a)));
    let b = b.as_ref().map_or(String::new(), |b| format!(r#""c":{}"#, json(b)));
    let text = format!(r#"{{{a}"b":{{{b}}}}}"#);
    let policy = policy_of(index);
    let mut keys = KeyBuffer::new(64, usize::MAX);
    composite::put_keys(&mut keys, Document::new(&text), rid, &policy);
    keys.into_sorted().pop().unwrap().into()
}

proptest! {
    #[test]
    fn a_range_of_values_is_a_range_of_terms(
        value in scalar(),
        (low, low_is) in (scalar(), 0..3_u8),
        (high, high_is) in (scalar(), 0..3_u8),
        terms in prop::sample::select(&[(Terms::Short, 128), (Terms::Long, 1_024)][..]),
    ) {
        let (terms, bytes_max) = terms;
        let text = format!(r#"{{"a":{}}}"#, json(&value));
        let key = terms_as(&text, &policy("{}"), terms).remove(0);
        let path = path_prefix(&steps("/a"), terms);
        let (from, to) = (bound(&low, low_is), bound(&high, high_is));
        let found = contains(&keys::term_range(&path, as_ref(&from), as_ref(&to)), &key);
        let wanted = above(&value, &low, low_is) && below(&value, &high, high_is);
        let stored = keys::term_value(&key, &path).unwrap();
        prop_assert!(found == wanted || (found && stored.is_cut()));
        prop_assert_eq!(keys::entry_rid(&key), Some(1));
        let is_long = matches!(&value, Scalar::String(text) if text.len() > bytes_max);
        prop_assert_eq!(stored.is_cut(), is_long);
        if !is_long {
            prop_assert_eq!(stored.bytes(), sort_key(Some(&value)));
            prop_assert_eq!(stored.scalar(), Some(value));
        }
    }

    #[test]
    fn composite_entries_are_in_the_order_of_their_columns(
        one in [column(), column()],
        two in [column(), column()],
        descending: [bool; 2],
    ) {
        let index = two_columns(descending);
        let (first, second) = (composite_key(&index, &one, 1), composite_key(&index, &two, 2));
        let column = |n: usize| {
            let order = compare(one[n].as_ref(), two[n].as_ref());
            if descending[n] { order.reverse() } else { order }
        };
        let (a, b) = (columns_of(&first, &index).unwrap(), columns_of(&second, &index).unwrap());
        let undecided = |n: usize| is_cut(&a[n]) && a[n] == b[n] && column(n).is_ne();
        let is_open = undecided(0) || (column(0).is_eq() && undecided(1));
        if !is_open {
            prop_assert_eq!(first.cmp(&second), column(0).then(column(1)).then(Ordering::Less));
        }
        for (stored, value) in a.iter().zip(&one) {
            let whole = sort_key(value.as_ref());
            prop_assert_eq!(&stored[..], &*fit(&whole, COLUMN_STRING_BYTES_MAX));
        }
    }

    #[test]
    fn a_range_of_the_last_column_is_a_range_of_composite_entries(
        (first, value) in (column(), scalar()),
        (low, low_is) in (scalar(), 0..3_u8),
        (high, high_is) in (scalar(), 0..3_u8),
        descending: [bool; 2],
    ) {
        let index = two_columns(descending);
        let key = composite_key(&index, &[first.clone(), Some(value.clone())], 7);
        let mut prefix = keys::composite_prefix(composite_id(&index));
        put_column(&mut prefix, &sort_key(first.as_ref()), descending[0]);
        let (from, to) = (bound(&low, low_is), bound(&high, high_is));
        let range = keys::composite_range(&prefix, as_ref(&from), as_ref(&to), descending[1]);
        let wanted = above(&value, &low, low_is) && below(&value, &high, high_is);
        let found = contains(&range, &key);
        let cut = columns_of(&key, &index).unwrap().iter().any(|column| is_cut(column));
        prop_assert!(found == wanted || (found && cut));
    }
}

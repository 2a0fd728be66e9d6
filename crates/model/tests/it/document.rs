//! Documents: finding, walking, stamping.

use partita_model::{
    Document, Etag, Leaf, Node, PropertyPath, RawKind, SYSTEM_NAMES, Scalar, Step,
    SystemProperties, Value, compact_object, json, stamp, unstamp,
};
use proptest::prelude::*;

use crate::generate;

const SYSTEM: SystemProperties<'_> = SystemProperties {
    rid: "AQIDBIAAAAUBAAAAAAAAAA==",
    self_link: "dbs/AQIDBA==/colls/AQIDBIAAAAU=/docs/AQIDBIAAAAUBAAAAAAAAAA==/",
    etag: Etag([7; 16]),
    ts: 1_700_000_000,
};

fn found<'a>(text: &'a str, path: &str) -> Option<&'a str> {
    Document::new(text).get(&PropertyPath::parse(path).unwrap()).map(|raw| raw.text())
}

#[test]
fn a_path_finds_the_value_and_skips_the_rest() {
    let text = r#"{"s":"}\"]{\\","n":[{"a":1}],"a":{"b":{"c":-1.5e3}},"\u0078":"é","":0}"#;
    assert_eq!(found(text, "/a/b/c"), Some("-1.5e3"));
    assert_eq!(found(text, "/a/b"), Some(r#"{"c":-1.5e3}"#));
    assert_eq!(found(text, "/x"), Some("\"é\""));
    assert_eq!(found(text, "/s"), Some(r#""}\"]{\\""#));
    for path in ["/n/a", "/n/0", "/s/a", "/a/b/c/d", "/a/c", "/b", "/c"] {
        assert_eq!(found(text, path), None, "{path}");
    }
    assert_eq!(Document::new(text).member("").map(|raw| raw.text()), Some("0"));
}

#[test]
fn raw_values_know_their_kind_and_scalar() {
    let text = r#"{"a":null,"b":false,"c":12,"d":"x\n","e":[1],"f":{"g":1}}"#;
    let seen: Vec<_> =
        Document::new(text).members().map(|(name, raw)| (name, raw.kind(), raw.scalar())).collect();
    assert_eq!(
        seen,
        [
            ("a".into(), RawKind::Null, Some(Scalar::Null)),
            ("b".into(), RawKind::Bool, Some(Scalar::Bool(false))),
            ("c".into(), RawKind::Number, Some(Scalar::Number(12.0))),
            ("d".into(), RawKind::String, Some(Scalar::String("x\n".into()))),
            ("e".into(), RawKind::Array, None),
            ("f".into(), RawKind::Object, None),
        ]
    );
}

#[test]
fn numbers_of_any_length_are_read_as_the_nearest_double() {
    for literal in ["0", "-0", "7", "999999999999999", "9007199254740993", "0.1", "1e300", "-12"] {
        let text = format!("{{\"n\":{literal}}}");
        let scalar = Document::new(&text).member("n").and_then(|raw| raw.scalar());
        assert_eq!(scalar, Some(Scalar::Number(literal.parse().unwrap())), "{literal}");
    }
}

#[test]
fn the_system_s_members_follow_the_user_s() {
    let tail = "\"_rid\":\"AQIDBIAAAAUBAAAAAAAAAA==\",\
        \"_self\":\"dbs/AQIDBA==/colls/AQIDBIAAAAU=/docs/AQIDBIAAAAUBAAAAAAAAAA==/\",\
        \"_etag\":\"\\\"07070707-0707-0707-0707-070707070707\\\"\",\
        \"_ts\":1700000000,\"_attachments\":\"attachments/\"}";
    let kept = r#"{"id":"1","_lsn":3,"x":{"_ts":1},"#;
    for user in [
        r#"{"id":"1","_lsn":3,"x":{"_ts":1}}"#,
        r#"{"_ts":0,"id":"1","_rid":[1,2],"_lsn":3,"_self":{"a":"}"},"x":{"_ts":1},"_etag":""}"#,
        r#"{"\u005fts":0,"id":"1","_lsn":3,"x":{"_ts":1},"_attachments":null}"#,
    ] {
        assert_eq!(stamp(user, &SYSTEM), format!("{kept}{tail}"));
    }
    for user in ["{}", r#"{"_ts":1}"#] {
        assert_eq!(stamp(user, &SYSTEM), format!("{{{tail}"));
        assert_eq!(unstamp(user), "{}");
    }
}

/// The leaves as a tree's walk sees them.
fn leaves(value: &Value, path: &mut Vec<Step<'static>>, out: &mut Vec<(String, Leaf<'static>)>) {
    let leaf = match value {
        Value::Array(elements) if elements.is_empty() => Leaf::EmptyArray,
        Value::Object(object) if object.is_empty() => Leaf::EmptyObject,
        Value::Array(elements) => {
            for element in elements {
                path.push(Step::Element);
                leaves(element, path, out);
                path.pop();
            }
            return;
        }
        Value::Object(object) => {
            for (name, member) in object.iter() {
                path.push(Step::Member(name.to_owned().into()));
                leaves(member, path, out);
                path.pop();
            }
            return;
        }
        Value::Null => Leaf::Scalar(Scalar::Null),
        Value::Bool(value) => Leaf::Scalar(Scalar::Bool(*value)),
        Value::Number(number) => Leaf::Scalar(Scalar::Number(number.as_f64())),
        Value::String(text) => Leaf::Scalar(Scalar::String(text.clone().into())),
    };
    out.push((format!("{path:?}"), leaf));
}

/// The arrays and objects of a tree that are not empty.
fn holding(value: &Value) -> usize {
    match value {
        Value::Array(elements) if !elements.is_empty() => {
            1 + elements.iter().map(holding).sum::<usize>()
        }
        Value::Object(object) if object.iter().next().is_some() => {
            1 + object.iter().map(|(_, member)| holding(member)).sum::<usize>()
        }
        _ => 0,
    }
}

proptest! {
    #[test]
    fn a_walk_visits_the_leaves_of_the_tree(object in generate::object(), seed: u64) {
        let value = Value::Object(object);
        let text = compact_object(generate::messy_text(&value, seed).as_bytes()).unwrap();
        let mut expected = Vec::new();
        leaves(&value, &mut Vec::new(), &mut expected);
        let mut seen = Vec::new();
        Document::new(&text).walk(&mut |path, leaf| seen.push((format!("{path:?}"), leaf)));
        prop_assert_eq!(seen, expected);
    }

    #[test]
    fn a_visit_meets_what_holds_a_value_before_the_value(object in generate::object(), seed: u64) {
        let value = Value::Object(object);
        let text = compact_object(generate::messy_text(&value, seed).as_bytes()).unwrap();
        let mut open: Vec<Vec<Step<'_>>> = Vec::new();
        let mut holders = 0;
        Document::new(&text).visit(&mut |path, node| {
            let parent = path.split_last().map(|(_, parent)| parent.to_vec());
            assert!(parent.is_none_or(|parent| open.contains(&parent)), "{path:?}");
            if matches!(node, Node::Array | Node::Object) {
                holders += 1;
                open.push(path.to_vec());
            }
        });
        prop_assert_eq!(holders, holding(&value));
    }

    #[test]
    fn members_are_found_as_in_the_tree(
        object in generate::object(),
        seed: u64,
        name in generate::name(),
    ) {
        let value = Value::Object(object);
        let text = compact_object(generate::messy_text(&value, seed).as_bytes()).unwrap();
        let document = Document::new(&text);
        let found = document.member(&name).map(|raw| raw.to_value());
        prop_assert_eq!(found, value.get(&name).cloned());
        prop_assert_eq!(document.to_value(), value);
    }

    #[test]
    fn a_stamp_comes_off_again(object in generate::object(), seed: u64) {
        let user: partita_model::Object =
            object.into_iter().filter(|(name, _)| !SYSTEM_NAMES.contains(&name.as_str())).collect();
        let value = Value::Object(user);
        let text = compact_object(generate::messy_text(&value, seed).as_bytes()).unwrap();
        let stamped = stamp(&text, &SYSTEM);
        prop_assert_eq!(compact_object(stamped.as_bytes()), Ok(stamped.clone()));
        prop_assert_eq!(unstamp(&stamped), text.as_str());
        prop_assert_eq!(stamp(&stamped, &SYSTEM), stamped.as_str());
        let tree = json::parse(stamped.as_bytes()).unwrap();
        prop_assert_eq!(tree.get("_etag"), Some(&Value::from(SYSTEM.etag.quoted())));
    }
}

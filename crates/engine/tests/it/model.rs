//! Random operations against the engine and against a plain map: the same answers, always.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use partita_engine::{Op, Scope};
use partita_model::{ErrorKind, Object, PartitionKeyHeader, Value};
use proptest::prelude::*;

use crate::harness::*;

#[derive(Clone, Debug)]
enum Step {
    Create { id: u8, key: u8, value: u8 },
    Upsert { id: u8, key: u8, value: u8 },
    Replace { id: u8, key: u8, value: u8 },
    Patch { id: u8, key: u8, value: u8 },
    Delete { id: u8, key: u8 },
    Read { id: u8, key: u8 },
    ChangePolicy { policy: u8 },
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let target = (0..6_u8, 0..5_u8);
    let write = (0..6_u8, 0..5_u8, 0..8_u8);
    prop_oneof![
        4 => write.clone().prop_map(|(id, key, value)| Step::Create { id, key, value }),
        3 => write.clone().prop_map(|(id, key, value)| Step::Upsert { id, key, value }),
        2 => write.clone().prop_map(|(id, key, value)| Step::Replace { id, key, value }),
        2 => write.prop_map(|(id, key, value)| Step::Patch { id, key, value }),
        3 => target.clone().prop_map(|(id, key)| Step::Delete { id, key }),
        2 => target.prop_map(|(id, key)| Step::Read { id, key }),
        1 => (0..4_u8).prop_map(|policy| Step::ChangePolicy { policy }),
        1 => Just(Step::Restart),
    ]
}

/// Keys of all types; the last is the absence of one.
const KEYS: [&str; 5] = [r#""a""#, "1", "null", r#""long long long key""#, "{}"];

/// Values with different sets of index terms.
const VALUES: [&str; 8] = [
    "1",
    r#""x""#,
    "[1,2,3]",
    "[]",
    "{}",
    r#"{"a":{"b":[{"c":1},{"c":2}]}}"#,
    "null",
    "[[1],[1,[2]]]",
];

const POLICIES: [&str; 4] = [
    "{}",
    r#"{"indexingMode":"none","automatic":false}"#,
    r#"{"includedPaths":[{"path":"/v/*"}],"excludedPaths":[{"path":"/*"}]}"#,
    r#"{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/v/a/b/[]/?"}]}"#,
];

fn document(id: u8, key: u8, value: u8) -> String {
    let value = VALUES[value as usize];
    match KEYS[key as usize] {
        "{}" => format!(r#"{{"id":"i{id}","v":{value}}}"#),
        key => format!(r#"{{"id":"i{id}","pk":{key},"v":{value}}}"#),
    }
}

type Model = BTreeMap<(u8, u8), Value>;

/// The value without what the system adds.
fn user_part(value: &Value) -> Value {
    let object = value.as_object().unwrap().iter();
    let kept = object.filter(|(name, _)| !name.starts_with('_'));
    Value::Object(kept.map(|(name, value)| (name.to_owned(), value.clone())).collect::<Object>())
}

fn apply(bench: &Bench, model: &mut Model, step: &Step) {
    let header = |key: u8| format!("[{}]", KEYS[key as usize]);
    let name = |id: u8| format!("i{id}");
    match *step {
        Step::Create { id, key, value } => {
            let reply = bench.create(&document(id, key, value));
            match model.entry((id, key)) {
                Entry::Occupied(_) => assert_eq!(error(&reply), ErrorKind::Conflict),
                Entry::Vacant(free) => {
                    free.insert(user_part(&body(&reply)));
                }
            }
        }
        Step::Upsert { id, key, value } => {
            let stored = body(&bench.upsert(&document(id, key, value), None));
            model.insert((id, key), user_part(&stored));
        }
        Step::Replace { id, key, value } => {
            let reply = bench.replace(&name(id), &header(key), &document(id, key, value), None);
            match model.get_mut(&(id, key)) {
                Some(known) => *known = user_part(&body(&reply)),
                None => assert_eq!(error(&reply), ErrorKind::NotFound),
            }
        }
        Step::Patch { id, key, value } => {
            let operation =
                format!(r#"[{{"op":"set","path":"/v","value":{}}}]"#, VALUES[value as usize]);
            let reply = bench.patch(&name(id), &header(key), &operation);
            match model.get_mut(&(id, key)) {
                Some(known) => {
                    *known = user_part(&body(&reply));
                    assert_eq!(known.get("v"), Some(&json(VALUES[value as usize])));
                }
                None => assert_eq!(error(&reply), ErrorKind::NotFound),
            }
        }
        Step::Delete { id, key } => {
            let reply = bench.delete(&name(id), &header(key));
            match model.remove(&(id, key)) {
                Some(_) => assert!(reply.result.is_ok()),
                None => assert_eq!(error(&reply), ErrorKind::NotFound),
            }
        }
        Step::Read { id, key } => {
            let reply = bench.read(&name(id), &header(key));
            match model.get(&(id, key)) {
                Some(known) => assert_eq!(&user_part(&body(&reply)), known),
                None => assert_eq!(error(&reply), ErrorKind::NotFound),
            }
        }
        Step::ChangePolicy { policy } => {
            let policy = POLICIES[policy as usize];
            let body = json(&format!(r#"{{"id":"c",{KEY_PK},"indexingPolicy":{policy}}}"#));
            let op = Op::ReplaceContainer { container: path(), body, condition: None };
            bench.run(op).result.unwrap();
        }
        Step::Restart => unreachable!("the caller restarts"),
    }
}

fn assert_same(bench: &Bench, model: &Model) {
    let mut found: Vec<String> =
        bench.list(&Scope::All, 3).iter().map(|item| user_part(item).to_json()).collect();
    let mut known: Vec<String> = model.values().map(Value::to_json).collect();
    found.sort();
    known.sort();
    assert_eq!(found, known);
    for (n, key) in KEYS.iter().enumerate() {
        let scope = Scope::PartitionKey(PartitionKeyHeader::parse(&format!("[{key}]")).unwrap());
        let known = model.keys().filter(|(_, key)| *key as usize == n).count();
        assert_eq!(bench.list(&scope, 2).len(), known);
    }
    bench.assert_whole();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_is_a_map(steps in proptest::collection::vec(step(), 1..80), which in 0..2_usize) {
        let mut bench = Bench::new();
        bench.make_container(PARTITIONS[which].1, KEY_PK);
        let mut model = Model::new();
        for step in &steps {
            match step {
                Step::Restart => bench = bench.reopened(),
                step => apply(&bench, &mut model, step),
            }
        }
        assert_same(&bench, &model);
    }
}

//! Random batches against the engine and against a plain map that is copied and thrown away.

use std::collections::BTreeMap;

use partita_engine::{BatchDone, BatchOperation, Change, Reply, Scope};
use partita_model::{ErrorKind, Value};
use proptest::prelude::*;

use crate::batches::{atomic, create, delete, patch, read, replace, results, upsert};
use crate::harness::*;

/// An operation on item `id` of a batch's logical partition; `u` is its unique value.
#[derive(Clone, Debug)]
enum Step {
    Create { id: u8, u: u8 },
    Upsert { id: u8, u: u8 },
    Replace { id: u8, to: u8, u: u8 },
    Patch { id: u8, u: u8 },
    Delete { id: u8 },
    Read { id: u8 },
}

#[derive(Clone, Debug)]
enum Round {
    Batch { key: u8, steps: Vec<Step> },
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let (id, u) = (0..5_u8, 0..9_u8);
    prop_oneof![
        3 => (id.clone(), u.clone()).prop_map(|(id, u)| Step::Create { id, u }),
        4 => (id.clone(), u.clone()).prop_map(|(id, u)| Step::Upsert { id, u }),
        2 => (id.clone(), id.clone(), u.clone())
            .prop_map(|(id, to, u)| Step::Replace { id, to, u }),
        2 => (id.clone(), u).prop_map(|(id, u)| Step::Patch { id, u }),
        2 => id.clone().prop_map(|id| Step::Delete { id }),
        2 => id.prop_map(|id| Step::Read { id }),
    ]
}

fn round() -> impl Strategy<Value = Round> {
    prop_oneof![
        12 => (0..3_u8, proptest::collection::vec(step(), 1..8))
            .prop_map(|(key, steps)| Round::Batch { key, steps }),
        1 => Just(Round::Restart),
    ]
}

/// Unique values by item, in one logical partition.
type Items = BTreeMap<u8, u8>;

/// What a step leaves of an item, or why it fails.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Done {
    Item(Change, u8),
    Deleted,
    Failed(Failure),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Failure {
    NotFound,
    Conflict,
    Dependency,
}

fn document(key: u8, id: u8, u: u8) -> String {
    // Values of several shapes, so that the index entries of two versions overlap in part.
    let more = ["1", "[1,2]", "{\"a\":1}"][usize::from(u) % 3];
    format!(r#"{{"id":"{id}","pk":"k{key}","u":{u},"v":{more}}}"#)
}

fn operation(key: u8, step: &Step) -> BatchOperation {
    match *step {
        Step::Create { id, u } => create(&document(key, id, u)),
        Step::Upsert { id, u } => upsert(&document(key, id, u)),
        Step::Replace { id, to, u } => replace(&id.to_string(), &document(key, to, u)),
        Step::Patch { id, u } => {
            let set = format!(r#"[{{"op":"set","path":"/u","value":{u}}}]"#);
            patch(&id.to_string(), &set)
        }
        Step::Delete { id } => delete(&id.to_string()),
        Step::Read { id } => read(&id.to_string()),
    }
}

/// Puts an item unless another one has its unique value.
fn put(items: &mut Items, id: u8, u: u8) -> Done {
    if items.iter().any(|(other, taken)| *other != id && *taken == u) {
        return Done::Failed(Failure::Conflict);
    }
    match items.insert(id, u) {
        None => Done::Item(Change::Created, u),
        Some(_) => Done::Item(Change::Replaced, u),
    }
}

fn apply(items: &mut Items, step: &Step) -> Done {
    match *step {
        Step::Create { id, .. } if items.contains_key(&id) => Done::Failed(Failure::Conflict),
        Step::Create { id, u } | Step::Upsert { id, u } => put(items, id, u),
        Step::Replace { id, .. } | Step::Patch { id, .. } | Step::Delete { id }
            if !items.contains_key(&id) =>
        {
            Done::Failed(Failure::NotFound)
        }
        Step::Patch { id, u } => put(items, id, u),
        Step::Replace { id, to, u } if id == to => put(items, id, u),
        Step::Replace { to, .. } if items.contains_key(&to) => Done::Failed(Failure::Conflict),
        Step::Replace { id, to, u } => {
            items.remove(&id);
            match put(items, to, u) {
                Done::Item(..) => Done::Item(Change::Replaced, u),
                failed => failed,
            }
        }
        Step::Delete { id } => {
            items.remove(&id);
            Done::Deleted
        }
        Step::Read { id } => match items.get(&id) {
            Some(u) => Done::Item(Change::None, *u),
            None => Done::Failed(Failure::NotFound),
        },
    }
}

/// The results of a batch on a plain map, which is left as it was if one step fails.
fn run(items: &mut Items, steps: &[Step]) -> Vec<Done> {
    let mut copy = items.clone();
    let mut done = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        let result = apply(&mut copy, step);
        if matches!(result, Done::Failed(_)) {
            let mut undone = vec![Done::Failed(Failure::Dependency); steps.len()];
            undone[at] = result;
            return undone;
        }
        done.push(result);
    }
    *items = copy;
    done
}

fn found(reply: &Reply) -> Vec<Done> {
    let u = |body: &[u8]| {
        let value = Value::parse(body).unwrap().get("u").and_then(Value::as_i64).unwrap();
        u8::try_from(value).unwrap()
    };
    let done = results(reply).iter().map(|result| match &result.result {
        Ok(BatchDone::Item { body: Some(body), change, .. }) => Done::Item(*change, u(&body.0)),
        Ok(BatchDone::Deleted) => Done::Deleted,
        Ok(other) => panic!("{other:?}"),
        Err(error) => Done::Failed(match error.kind {
            ErrorKind::NotFound => Failure::NotFound,
            ErrorKind::Conflict => Failure::Conflict,
            ErrorKind::FailedDependency => Failure::Dependency,
            _ => panic!("{error:?}"),
        }),
    });
    done.collect()
}

fn stored(bench: &Bench) -> Vec<(String, String, i64)> {
    let all = bench.list(&Scope::All, 3).into_iter().map(|item| {
        let u = item.get("u").and_then(Value::as_i64).unwrap();
        (text(&item, "pk"), text(&item, "id"), u)
    });
    let mut all: Vec<_> = all.collect();
    all.sort();
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_batch_is_all_or_nothing(
        rounds in proptest::collection::vec(round(), 1..30),
        which in 0..2_usize,
    ) {
        let mut bench = Bench::new();
        let unique = r#""uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]}"#;
        bench.make_container(PARTITIONS[which].1, &format!("{KEY_PK},{unique}"));
        let mut model: BTreeMap<u8, Items> = BTreeMap::new();
        for round in &rounds {
            let Round::Batch { key, steps } = round else {
                bench = bench.reopened();
                continue;
            };
            let operations = steps.iter().map(|step| operation(*key, step)).collect();
            let header = format!(r#"["k{key}"]"#);
            let before = bench.read("none", &header).served.unwrap().lsn.0;
            let reply = atomic(&bench, &header, operations);
            let expected = run(model.entry(*key).or_default(), steps);
            prop_assert_eq!(found(&reply), expected.clone(), "{:?}", steps);
            let writes = steps.iter().any(|step| !matches!(step, Step::Read { .. }));
            let failed = expected.iter().any(|done| matches!(done, Done::Failed(_)));
            let commits = u64::from(writes && !failed);
            prop_assert_eq!(reply.served.unwrap().lsn.0, before + commits);
        }
        let known = model.iter().flat_map(|(key, items)| {
            items.iter().map(move |(id, u)| (format!("k{key}"), id.to_string(), i64::from(*u)))
        });
        let mut known: Vec<_> = known.collect();
        known.sort();
        prop_assert_eq!(stored(&bench), known);
        bench.assert_whole();
    }
}

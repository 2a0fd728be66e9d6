//! Random histories and a reader that stops, restarts and goes back at random: nothing is missed.
//!
//! Readers of the parts of a container read in pages while it is written. A reader that was killed
//! goes on from an ETag that it wrote down some time ago. What it saw last of every item must in the
//! end be what is stored, and within a logical partition it must see versions in their order.

use std::collections::{BTreeMap, HashMap};

use partita_engine::{ChangesFrom, Maintenance, MaintenanceBudget, Op, Scope};
use partita_model::Value;
use proptest::prelude::*;

use crate::batches::{atomic, delete, upsert};
use crate::changes::{Reader, key, range};
use crate::harness::*;

#[derive(Clone, Debug)]
enum Step {
    Put {
        id: u8,
        key: u8,
    },
    Delete {
        id: u8,
        key: u8,
    },
    /// Ids with true are written, the others deleted.
    Batch {
        key: u8,
        ids: Vec<(u8, bool)>,
    },
    Read {
        reader: u8,
        items: u8,
    },
    /// The reader is killed and begins where it was at this one of its pages.
    Rewind {
        reader: u8,
        page: u8,
    },
    Reindex {
        none: bool,
    },
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let (id, pk) = (0..6_u8, 0..6_u8);
    prop_oneof![
        8 => (id.clone(), pk.clone()).prop_map(|(id, key)| Step::Put { id, key }),
        3 => (id.clone(), pk.clone()).prop_map(|(id, key)| Step::Delete { id, key }),
        3 => (pk, proptest::collection::vec((id, any::<bool>()), 1..6))
            .prop_map(|(key, ids)| Step::Batch { key, ids }),
        6 => (any::<u8>(), 1..4_u8).prop_map(|(reader, items)| Step::Read { reader, items }),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(reader, page)| Step::Rewind { reader, page }),
        1 => any::<bool>().prop_map(|none| Step::Reindex { none }),
        1 => Just(Step::Restart),
    ]
}

type ItemName = (String, String);

/// A reader with what it saw.
struct Follower {
    reader: Reader,
    /// The versions that it saw last.
    seen: HashMap<ItemName, String>,
    /// The LSN of what it saw last of each logical partition.
    lsns: HashMap<String, i64>,
    /// Where it was after each page.
    etags: Vec<ChangesFrom>,
}

impl Follower {
    fn new(scope: Scope) -> Follower {
        let reader = Reader::of(scope);
        let etags = vec![reader.from.clone()];
        Follower { reader, seen: HashMap::new(), lsns: HashMap::new(), etags }
    }

    fn take(&mut self, items: Vec<Value>) {
        for item in items {
            let lsn = item.get("_lsn").and_then(Value::as_i64).unwrap();
            let pk = text(&item, "pk");
            let before = self.lsns.insert(pk.clone(), lsn).unwrap_or(0);
            assert!(before <= lsn, "a change came after a later one of the same partition key");
            self.seen.insert((pk, text(&item, "id")), text(&item, "_etag"));
        }
        self.etags.push(self.reader.from.clone());
    }

    fn read(&mut self, bench: &Bench, items_max: usize) {
        self.reader.items_max = items_max;
        let (items, _) = self.reader.page(bench);
        self.take(items);
    }

    fn rewind(&mut self, page: usize) {
        self.reader.from = self.etags[page % self.etags.len()].clone();
        self.lsns.clear();
    }

    /// Whatever there is at the end is what was seen last.
    fn finish(mut self, bench: &Bench, stored: &BTreeMap<ItemName, String>) {
        let rest = self.reader.rest(bench);
        self.take(rest);
        for (name, etag) in stored {
            assert_eq!(self.seen.get(name), Some(etag), "{name:?} for {:?}", self.reader);
        }
        assert_eq!(self.reader.rest(bench), []);
    }
}

fn document(id: u8, key: u8) -> String {
    format!(r#"{{"id":"{id}","pk":"{key}"}}"#)
}

fn reindex(bench: &Bench, none: bool) {
    let policy = if none { r#"{"indexingMode":"none","automatic":false}"# } else { "{}" };
    let body = format!(r#"{{"id":"c",{KEY_PK},"indexingPolicy":{policy}}}"#);
    let op = Op::ReplaceContainer { container: path(), body: json(&body), condition: None };
    bench.run(op).result.unwrap();
    while bench.database.maintain(&MaintenanceBudget::default()).unwrap() != Maintenance::Idle {}
}

fn run(bench: Bench, steps: &[Step], mut followers: Vec<Follower>) -> (Bench, Vec<Follower>) {
    let mut bench = bench;
    for step in steps {
        bench.clock.advance_millis(500);
        match step {
            Step::Put { id, key } => {
                bench.upsert(&document(*id, *key), None).result.unwrap();
            }
            Step::Delete { id, key } => {
                drop(bench.delete(&id.to_string(), &format!(r#"["{key}"]"#)));
            }
            Step::Batch { key, ids } => {
                let operations = ids.iter().map(|(id, put)| match put {
                    true => upsert(&document(*id, *key)),
                    false => delete(&id.to_string()),
                });
                drop(atomic(&bench, &format!(r#"["{key}"]"#), operations.collect()));
            }
            Step::Read { reader, items } => {
                let which = usize::from(*reader) % followers.len();
                followers[which].read(&bench, usize::from(*items));
            }
            Step::Rewind { reader, page } => {
                let which = usize::from(*reader) % followers.len();
                followers[which].rewind(usize::from(*page));
            }
            Step::Reindex { none } => reindex(&bench, *none),
            Step::Restart => bench = bench.reopened(),
        }
    }
    (bench, followers)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_reader_that_restarts_at_random_misses_nothing(
        several in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let (partitions, throughput) = PARTITIONS[usize::from(several)];
        let bench = Bench::new();
        bench.make_container(throughput, KEY_PK);
        let mut scopes: Vec<Scope> = (0..partitions as u32).map(range).collect();
        scopes.push(Scope::All);
        scopes.extend((0..6).map(|pk| key(&format!(r#"["{pk}"]"#))));
        let followers = scopes.into_iter().map(Follower::new).collect();
        let (bench, followers) = run(bench, &steps, followers);
        for follower in followers {
            let name = |item: &Value| (text(item, "pk"), text(item, "id"));
            let items = bench.list(&follower.reader.scope, 100);
            let stored = items.iter().map(|item| (name(item), text(item, "_etag"))).collect();
            follower.finish(&bench, &stored);
        }
        bench.assert_whole();
    }
}

//! Any sequence of writes, splits, merges and restarts leaves what the writes left.

use std::collections::BTreeMap;

use partita_engine::{Context, Op, Reply, SplitAt};
use partita_model::{ErrorKind, Value};
use proptest::prelude::*;

use super::STEP;
use crate::harness::*;

#[derive(Clone, Debug)]
enum Step {
    Create(u8, u8),
    Upsert(u8, u8),
    Patch(u8, u8),
    Delete(u8, u8),
    /// Gives an item another id.
    Rename(u8, u8, u8),
    /// Splits the partition that is at this place.
    Split(u8, SplitAt),
    /// Merges it with its right neighbour.
    Merge(u8),
    /// Has there be partitions for this many times 10 000 RU/s.
    Throughput(u8),
    Maintain(u8),
    Restart,
    /// Lets some seconds pass.
    Wait(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0..6_u8;
    let id = || 0..4_u8;
    let at = prop_oneof![Just(SplitAt::Midpoint), Just(SplitAt::Storage)];
    prop_oneof![
        4 => (key(), id()).prop_map(|(key, id)| Step::Create(key, id)),
        4 => (key(), id()).prop_map(|(key, id)| Step::Upsert(key, id)),
        2 => (key(), id()).prop_map(|(key, id)| Step::Patch(key, id)),
        3 => (key(), id()).prop_map(|(key, id)| Step::Delete(key, id)),
        2 => (key(), id(), id()).prop_map(|(key, id, to)| Step::Rename(key, id, to)),
        3 => (any::<u8>(), at).prop_map(|(which, at)| Step::Split(which, at)),
        2 => any::<u8>().prop_map(Step::Merge),
        1 => (1..9_u8).prop_map(Step::Throughput),
        9 => (1..6_u8).prop_map(Step::Maintain),
        1 => Just(Step::Restart),
        1 => (1..40_u8).prop_map(Step::Wait),
    ]
}

/// The kinds of containers.
const CONTAINERS: [&str; 3] = [
    KEY_PK,
    r#""partitionKey":{"paths":["/pk","/sub"],"kind":"MultiHash","version":2},"defaultTtl":60"#,
    r#""partitionKey":{"paths":["/pk"],"kind":"Hash","version":1},
       "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]},"defaultTtl":90"#,
];

struct World {
    bench: Option<Bench>,
    hierarchical: bool,
    expires: bool,
    /// What was acknowledged, and the session token of that.
    items: BTreeMap<(u8, u8), (i64, String)>,
    n: i64,
}

impl World {
    fn new(container: &str) -> World {
        let bench = Bench::new();
        bench.make_container(400, container);
        let (hierarchical, expires) = (container.contains("/sub"), container.contains("Ttl"));
        World { bench: Some(bench), hierarchical, expires, items: BTreeMap::new(), n: 0 }
    }

    fn bench(&self) -> &Bench {
        self.bench.as_ref().unwrap()
    }

    fn key(&self, key: u8) -> String {
        if self.hierarchical { format!("[{},{key}]", key / 3) } else { format!("[{key}]") }
    }

    fn document(&self, key: u8, id: u8) -> String {
        let first = if self.hierarchical { key / 3 } else { key };
        let n = self.n;
        format!(r#"{{"id":"{key}-{id}","pk":{first},"sub":{key},"u":{},"n":{n}}}"#, n % 5)
    }

    fn take(&mut self, step: &Step) {
        self.n += 1;
        match step {
            Step::Create(key, id) => {
                let reply = self.bench().create(&self.document(*key, *id));
                self.note(&reply, (*key, *id), (*key, *id));
            }
            Step::Upsert(key, id) => {
                let reply = self.bench().upsert(&self.document(*key, *id), None);
                self.note(&reply, (*key, *id), (*key, *id));
            }
            Step::Patch(key, id) => {
                let patch =
                    format!(r#"{{"operations":[{{"op":"set","path":"/n","value":{}}}]}}"#, self.n);
                let reply = self.bench().patch(&format!("{key}-{id}"), &self.key(*key), &patch);
                self.note(&reply, (*key, *id), (*key, *id));
            }
            Step::Rename(key, id, to) => {
                let name = format!("{key}-{id}");
                let body = self.document(*key, *to);
                let reply = self.bench().replace(&name, &self.key(*key), &body, None);
                self.note(&reply, (*key, *id), (*key, *to));
            }
            Step::Delete(key, id) => {
                let reply = self.bench().delete(&format!("{key}-{id}"), &self.key(*key));
                match reply.result {
                    Ok(_) => drop(self.items.remove(&(*key, *id))),
                    Err(error) => assert_eq!(error.kind, ErrorKind::NotFound),
                }
            }
            Step::Split(which, at) => {
                let ids = self.bench().range_ids();
                drop(self.bench().split(ids[usize::from(*which) % ids.len()], at.clone()));
            }
            Step::Merge(which) => {
                let ids = self.bench().range_ids();
                let at = usize::from(*which) % ids.len();
                if let Some(right) = ids.get(at + 1) {
                    drop(self.bench().merge([ids[at], *right]));
                }
            }
            Step::Throughput(partitions) => {
                self.bench().give_throughput(u32::from(*partitions) * 10_000).result.unwrap();
            }
            Step::Maintain(steps) => {
                for _ in 0..*steps {
                    self.bench().database.maintain(&STEP).unwrap();
                }
            }
            Step::Restart => self.bench = self.bench.take().map(Bench::reopened),
            Step::Wait(seconds) => self.bench().clock.advance_millis(u64::from(*seconds) * 1_000),
        }
    }

    /// A write of an item that may get another id by it.
    fn note(&mut self, reply: &Reply, from: (u8, u8), to: (u8, u8)) {
        match &reply.result {
            Ok(_) => {
                let served = reply.served.as_ref().unwrap();
                let token = format!("{}:-1#{}", served.range_id, served.lsn);
                self.items.remove(&from);
                self.items.insert(to, (self.n, token));
            }
            Err(error) => {
                let expected = [ErrorKind::Conflict, ErrorKind::NotFound];
                assert!(expected.contains(&error.kind), "{error:?}");
            }
        }
    }

    /// What is there is what was acknowledged; what was acknowledged may have expired.
    fn check(&self) {
        let bench = self.bench();
        bench.partitions();
        let found = bench.everything();
        for item in found.values() {
            let (id, n) = (text(item, "id"), item.get("n").and_then(Value::as_i64).unwrap());
            let (key, sub) = id.split_once('-').unwrap();
            let known = self.items.get(&(key.parse().unwrap(), sub.parse().unwrap()));
            assert_eq!(known.map(|(n, _)| *n), Some(n), "{id}");
        }
        if !self.expires {
            assert_eq!(found.len(), self.items.len());
        }
        for ((key, id), (_, token)) in &self.items {
            let context = Context { session: Some(token.clone()), ..Context::default() };
            let path = item_path(&format!("{key}-{id}"), &self.key(*key));
            let reply = bench.run_with(Op::ReadItem { path, condition: None }, &context);
            let is_there = found.contains_key(&format!("{key}-{id}"));
            match reply.result {
                Ok(_) => assert!(is_there),
                Err(error) => assert_eq!((error.kind, is_there), (ErrorKind::NotFound, false)),
            }
        }
        bench.assert_whole();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_or_doubled_by_moves(
        kind in 0..CONTAINERS.len(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut world = World::new(CONTAINERS[kind]);
        for (n, step) in steps.iter().enumerate() {
            world.take(step);
            if n % 4 == 0 {
                world.check();
            }
        }
        world.check();
        world.bench().settle();
        world.check();
    }
}

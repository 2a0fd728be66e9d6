//! Random histories, splits and merges, and readers that stop, restart and go back at random:
//! nothing is missed, and nothing comes twice to a reader that did not go back.
//!
//! Readers of the parts of a container read in pages while it is written and while partitions are
//! being split and merged. A reader that was killed goes on from an ETag that it wrote down some
//! time ago; one whose partition was split or merged asks the partitions that came after, with the
//! ETag that it has, as clients do.
//!
//! A reader of latest versions must in the end have seen of every item what is stored, and within a
//! logical partition versions in their order. A reader of all versions replays what it is told, and
//! every change must fit what it has: it was created once, and the version before a change is the
//! one that it knows.

use std::collections::{BTreeMap, HashMap};

use partita_engine::{
    ChangeFeedSettings, ChangeKind, ChangedItem, ChangesFrom, ChangesMode, MaintenanceBudget, Op,
    Scope, SplitAt,
};
use partita_model::{EpkRange, ErrorKind, Value};
use proptest::prelude::*;

use crate::batches::{atomic, delete, upsert};
use crate::changes::{Reader, key};
use crate::changes_versions::tidy;
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
    Tidy,
    Split {
        which: u8,
    },
    Merge {
        which: u8,
    },
    /// So many steps of what is under way.
    Maintain {
        steps: u8,
    },
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let (id, pk) = (0..6_u8, 0..6_u8);
    prop_oneof![
        16 => (id.clone(), pk.clone()).prop_map(|(id, key)| Step::Put { id, key }),
        6 => (id.clone(), pk.clone()).prop_map(|(id, key)| Step::Delete { id, key }),
        6 => (pk, proptest::collection::vec((id, any::<bool>()), 1..6))
            .prop_map(|(key, ids)| Step::Batch { key, ids }),
        12 => (any::<u8>(), 1..4_u8).prop_map(|(reader, items)| Step::Read { reader, items }),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(reader, page)| Step::Rewind { reader, page }),
        2 => any::<bool>().prop_map(|none| Step::Reindex { none }),
        2 => Just(Step::Tidy),
        2 => any::<u8>().prop_map(|which| Step::Split { which }),
        1 => any::<u8>().prop_map(|which| Step::Merge { which }),
        8 => (1..8_u8).prop_map(|steps| Step::Maintain { steps }),
        2 => Just(Step::Restart),
    ]
}

type ItemName = (String, String);

/// What a reader has, and where.
#[derive(Clone)]
struct Known {
    from: ChangesFrom,
    /// The versions of items that it saw last, by their ETags.
    items: HashMap<ItemName, String>,
    told: HashMap<ItemName, u64>,
}

/// Somebody who follows the feed.
#[derive(Clone)]
struct Follower {
    reader: Reader,
    /// The part of the container, for one that reads partitions.
    epks: Option<EpkRange>,
    items: HashMap<ItemName, String>,
    /// The LSN of what it was told last of each item.
    told: HashMap<ItemName, u64>,
    /// The LSN of what it saw last of each logical partition.
    lsns: HashMap<String, u64>,
    pages: Vec<Known>,
}

fn name(item: &Value) -> ItemName {
    (text(item, "pk"), text(item, "id"))
}

/// Whom a change is about.
fn item_of(change: &ChangedItem, body: Option<&Value>) -> ItemName {
    let Some(version) = &change.version else { return name(body.unwrap()) };
    let pk = version.partition_key.to_string();
    (pk.trim_matches(['[', ']', '"']).to_owned(), version.id.clone())
}

impl Follower {
    fn new(reader: Reader, epks: Option<EpkRange>) -> Follower {
        let (items, told) = (HashMap::new(), HashMap::new());
        let pages = vec![Known { from: reader.from.clone(), items: HashMap::new(), told }];
        let (told, lsns) = (HashMap::new(), HashMap::new());
        Follower { reader, epks, items, told, lsns, pages }
    }

    fn take(&mut self, changes: &[ChangedItem]) {
        let before = self.told.clone();
        for change in changes {
            let body = change.current.as_ref().map(|item| Value::parse(&item.0).unwrap());
            let item = item_of(change, body.as_ref());
            let last = before.get(&item).copied().unwrap_or(0);
            assert!(last < change.lsn.0, "told again after {last}: {change:?}");
            self.told.insert(item.clone(), change.lsn.0);
            match &change.version {
                None => self.see(change.lsn.0, &body.unwrap()),
                Some(version) => {
                    let before = version.previous.as_ref();
                    let before = before.map(|item| text(&json_of(&item.0), "_etag"));
                    let after = body.map(|item| text(&item, "_etag"));
                    let known = self.items.get(&item);
                    let told = known.filter(|_| version.kind == ChangeKind::Delete);
                    assert_eq!(told, before.as_ref(), "{change:?}");
                    assert_eq!(known.is_some(), version.previous_lsn.is_some(), "{change:?}");
                    assert_eq!(version.kind == ChangeKind::Create, known.is_none(), "{change:?}");
                    match after {
                        Some(etag) => drop(self.items.insert(item, etag)),
                        None => drop(self.items.remove(&item)),
                    }
                }
            }
        }
        let (from, items) = (self.reader.from.clone(), self.items.clone());
        self.pages.push(Known { from, items, told: self.told.clone() });
    }

    fn see(&mut self, lsn: u64, item: &Value) {
        let before = self.lsns.insert(text(item, "pk"), lsn).unwrap_or(0);
        assert!(before <= lsn, "a change came after a later one of the same partition key");
        self.items.insert(name(item), text(item, "_etag"));
    }

    fn read(&mut self, bench: &Bench, items_max: usize) -> bool {
        self.reader.items_max = items_max;
        let (changes, more) = self.reader.changes(bench);
        self.take(&changes);
        more
    }

    fn rewind(&mut self, page: usize) {
        let known = &self.pages[page % self.pages.len()];
        self.reader.from = known.from.clone();
        self.items = known.items.clone();
        self.told = known.told.clone();
        self.lsns.clear();
    }

    /// Those who go on after the partitions changed.
    fn successors(self, bench: &Bench) -> Vec<Follower> {
        let Some(epks) = &self.epks else { return vec![self] };
        let mut successors = Vec::new();
        for partition in bench.partitions() {
            let Some(part) = partition.epks.intersect(epks) else { continue };
            let within = Some(part.clone());
            let scope = Scope::Range { id: partition.range_id.to_string(), within };
            let reader = Reader { scope, ..self.reader.clone() };
            successors.push(Follower { reader, epks: Some(part), ..self.clone() });
        }
        successors
    }

    /// Whatever there is at the end is what was seen last.
    fn finish(mut self, bench: &Bench) {
        while self.read(bench, 100) {}
        let items = bench.list(&self.reader.scope, 100);
        let stored: BTreeMap<ItemName, String> =
            items.iter().map(|item| (name(item), text(item, "_etag"))).collect();
        for (name, etag) in &stored {
            assert_eq!(self.items.get(name), Some(etag), "{name:?} for {:?}", self.reader);
        }
        if self.epks.is_none() && self.reader.mode == ChangesMode::AllVersions {
            assert_eq!(self.items.len(), stored.len(), "a delete was not told");
        }
        assert_eq!(self.reader.changes(bench), (Vec::new(), false));
    }
}

fn json_of(bytes: &[u8]) -> Value {
    Value::parse(bytes).unwrap()
}

fn document(id: u8, key: u8) -> String {
    format!(r#"{{"id":"{id}","pk":"{key}"}}"#)
}

/// A container's history, and those who follow it.
struct History {
    bench: Bench,
    /// The fields of the container besides its id and its indexing policy.
    fields: String,
    followers: Vec<Follower>,
    /// The partitions that the followers know.
    range_ids: Vec<u32>,
}

impl History {
    fn new(throughput: u32, keeps_all: bool) -> History {
        let change_feed = ChangeFeedSettings { trim_commits_min: 8, ..Default::default() };
        let bench = Bench::with_changes(change_feed);
        let kept = r#","changeFeedPolicy":{"retentionDuration":1000}"#;
        let fields = format!("{KEY_PK}{}", if keeps_all { kept } else { "" });
        bench.make_container(throughput, &fields);
        let range_ids = bench.range_ids();
        let mut history = History { bench, fields, followers: Vec::new(), range_ids };
        history.follow(ChangesMode::LatestVersion);
        if keeps_all {
            history.follow(ChangesMode::AllVersions);
        }
        history
    }

    fn follow(&mut self, mode: ChangesMode) {
        let mut scopes: Vec<(Scope, Option<EpkRange>)> =
            (0..6).map(|pk| (key(&format!(r#"["{pk}"]"#)), None)).collect();
        for partition in self.bench.partitions() {
            let id = partition.range_id.to_string();
            scopes.push((Scope::Range { id, within: None }, Some(partition.epks)));
        }
        scopes.push((Scope::All, None));
        for (scope, epks) in scopes {
            let mut reader = Reader { mode, ..Reader::of(scope) };
            if mode == ChangesMode::AllVersions {
                reader.from = ChangesFrom::Now;
                reader.changes(&self.bench);
            }
            self.followers.push(Follower::new(reader, epks));
        }
    }

    fn run(mut self, steps: &[Step]) -> History {
        for step in steps {
            self.bench.clock.advance_millis(500);
            match step {
                Step::Restart => self.bench = self.bench.reopened(),
                step => self.step(step),
            }
            self.look_around();
        }
        self.bench.settle();
        self.look_around();
        self
    }

    fn step(&mut self, step: &Step) {
        let bench = &self.bench;
        let count = self.followers.len();
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
                drop(atomic(bench, &format!(r#"["{key}"]"#), operations.collect()));
            }
            Step::Read { reader, items } => {
                self.followers[usize::from(*reader) % count].read(bench, usize::from(*items));
            }
            Step::Rewind { reader, page } => {
                self.followers[usize::from(*reader) % count].rewind(usize::from(*page));
            }
            Step::Reindex { none } => self.reindex(*none),
            Step::Tidy => tidy(bench),
            Step::Split { which } => {
                let ids = bench.range_ids();
                if ids.len() < 8 {
                    let id = ids[usize::from(*which) % ids.len()];
                    drop(bench.split(id, SplitAt::Midpoint));
                }
            }
            Step::Merge { which } => {
                let ids = bench.range_ids();
                let at = usize::from(*which) % ids.len();
                if let [left, right] = ids[at..ids.len().min(at + 2)] {
                    drop(bench.merge([left, right]));
                }
            }
            Step::Maintain { steps } => {
                let budget = MaintenanceBudget { items_max: 2, bytes_max: 1 << 20 };
                for _ in 0..*steps {
                    bench.database.maintain(&budget).unwrap();
                }
            }
            Step::Restart => {}
        }
    }

    fn reindex(&self, none: bool) {
        let policy = if none { r#"{"indexingMode":"none","automatic":false}"# } else { "{}" };
        let body = format!(r#"{{"id":"c",{},"indexingPolicy":{policy}}}"#, self.fields);
        let op = Op::ReplaceContainer { container: path(), body: json(&body), condition: None };
        self.bench.run(op).result.unwrap();
        self.bench.settle();
    }

    /// After a move readers of partitions that are gone are told so, and go on elsewhere.
    fn look_around(&mut self) {
        let bench = &self.bench;
        let range_ids = bench.range_ids();
        if range_ids == self.range_ids {
            return;
        }
        self.range_ids = range_ids;
        let followers = std::mem::take(&mut self.followers);
        for follower in followers {
            match follower.reader.ask(bench).result {
                Err(error) => {
                    assert_eq!(error.kind, ErrorKind::RangeGone, "{error}");
                    self.followers.extend(follower.successors(bench));
                }
                Ok(_) if follower.epks.is_none() => {
                    self.followers.extend(follower.successors(bench));
                }
                Ok(_) => self.followers.push(follower),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn a_reader_that_restarts_at_random_misses_nothing(
        several in any::<bool>(),
        keeps_all in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..140),
    ) {
        let (_, throughput) = PARTITIONS[usize::from(several)];
        let history = History::new(throughput, keeps_all).run(&steps);
        for follower in history.followers {
            follower.finish(&history.bench);
        }
        history.bench.assert_whole();
    }
}

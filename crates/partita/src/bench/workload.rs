//! What the account is asked: items, reads, writes, queries.
//!
//! Every request is made from its number and a sequence of random numbers with a fixed seed, so two
//! runs ask the same, in the same proportions. All requests name their partition key.

use bytes::Bytes;
use partita_model::{Entropy, SeededEntropy};

use super::account::Ask;
use super::settings::{Settings, Workload};
use super::tally::Kind;
use crate::cli::client::encode;

/// Items that each partition key has before reads and queries are measured.
pub(crate) const ITEMS_PER_KEY: u64 = 10;

/// Properties that share an item's bytes, and what one of them is without any.
const FILLED: usize = 10;
const EMPTY: &str = r#","p0":"""#;

/// What partition keys begin with: those of items that are read, and those of items that are
/// written, so that queries do not find more the longer it takes.
const LOADED: &str = "key";
const WRITTEN: &str = "new";

/// Out of a hundred operations of the mixed workload.
const MIXED_READS: u64 = 70;
const MIXED_WRITES: u64 = 20;

/// Seeds: one for what is asked, one for what items are filled with.
const SEED: u64 = 6;
const FILLING_SEED: u64 = 7;

/// Which requests are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Items that reads and queries will find.
    Load,
    Measure,
}

/// The requests of a run.
pub(crate) struct Requests {
    workload: Workload,
    keys: u64,
    /// The container's link, as it is signed, and as it is written in a path.
    link: String,
    path: String,
    /// Letters that items are filled with, from some place on.
    filling: String,
    item_bytes: usize,
    chance: SeededEntropy,
}

impl Requests {
    pub(crate) fn new(settings: &Settings) -> Requests {
        let (database, container) = (&settings.database, &settings.container);
        Requests {
            workload: settings.workload,
            keys: settings.keys,
            link: format!("dbs/{database}/colls/{container}"),
            path: format!("/dbs/{}/colls/{}", encode(database), encode(container)),
            filling: filling(settings.item_bytes / FILLED * 2 + 64),
            item_bytes: settings.item_bytes,
            chance: SeededEntropy::new(SEED),
        }
    }

    /// How many items are made before measuring.
    pub(crate) fn items(&self) -> u64 {
        if self.workload.needs_items() { self.keys * ITEMS_PER_KEY } else { 0 }
    }

    /// The request with this number.
    pub(crate) fn request(&self, stage: Stage, number: u64) -> (Kind, Ask) {
        match (stage, self.workload) {
            (Stage::Load, _) => (Kind::Write, self.create(&item_id(number), LOADED, number)),
            (Stage::Measure, Workload::Write) => self.write(number),
            (Stage::Measure, Workload::Read) => self.read(),
            (Stage::Measure, Workload::Query) => self.query(),
            (Stage::Measure, Workload::Mixed) => match self.below(100) {
                chance if chance < MIXED_READS => self.read(),
                chance if chance < MIXED_READS + MIXED_WRITES => self.write(number),
                _ => self.query(),
            },
        }
    }

    fn read(&self) -> (Kind, Ask) {
        let number = self.below(self.items());
        let id = item_id(number);
        let ask = Ask {
            verb: "GET",
            signed_type: "docs",
            signed_link: format!("{}/docs/{id}", self.link),
            path: format!("{}/docs/{id}", self.path),
            headers: vec![key_header(&self.key(LOADED, number))],
            body: Bytes::new(),
        };
        (Kind::Read, ask)
    }

    fn write(&self, number: u64) -> (Kind, Ask) {
        (Kind::Write, self.create(&format!("new{number}"), WRITTEN, number))
    }

    fn query(&self) -> (Kind, Ask) {
        let key = self.key(LOADED, self.below(self.keys));
        let from = self.below(ITEMS_PER_KEY);
        let body = format!(
            r#"{{"query":"SELECT * FROM c WHERE c.pk = @pk AND c.place >= @from",
                "parameters":[{{"name":"@pk","value":"{key}"}},{{"name":"@from","value":{from}}}]}}"#
        );
        let mut ask = self.post(&key, body);
        ask.headers.push(("x-ms-documentdb-isquery", "True".to_owned()));
        ask.headers.push(("content-type", "application/query+json".to_owned()));
        (Kind::Query, ask)
    }

    fn create(&self, id: &str, keys: &str, number: u64) -> Ask {
        let mut ask = self.post(&self.key(keys, number), self.item(id, keys, number));
        ask.headers.push(("content-type", "application/json".to_owned()));
        ask
    }

    fn post(&self, key: &str, body: String) -> Ask {
        Ask {
            verb: "POST",
            signed_type: "docs",
            signed_link: self.link.clone(),
            path: format!("{}/docs", self.path),
            headers: vec![key_header(key)],
            body: body.into(),
        }
    }

    /// A partition key of this set.
    fn key(&self, keys: &str, number: u64) -> String {
        format!("{keys}{}", number % self.keys)
    }

    fn item(&self, id: &str, keys: &str, number: u64) -> String {
        let (key, place) = (self.key(keys, number), number / self.keys);
        let mut item = format!(
            r#"{{"id":"{id}","pk":"{key}","place":{place},"number":{number},"even":{}"#,
            number.is_multiple_of(2)
        );
        // What is left for texts when names, quotes and the last brace are there.
        let left = self.item_bytes.saturating_sub(item.len() + FILLED * EMPTY.len() + 1);
        for property in 0..FILLED {
            let length = left / FILLED + usize::from(property < left % FILLED);
            let from = self.below(self.filling.len().saturating_sub(length) as u64) as usize;
            let text = self.filling.get(from..from + length).unwrap_or_default();
            item.push_str(&format!(r#","p{property}":"{text}""#));
        }
        item.push('}');
        item
    }

    fn below(&self, end: u64) -> u64 {
        self.chance.next_u64() % end.max(1)
    }
}

fn key_header(key: &str) -> (&'static str, String) {
    ("x-ms-documentdb-partitionkey", format!(r#"["{key}"]"#))
}

fn item_id(number: u64) -> String {
    format!("item{number}")
}

fn filling(bytes: usize) -> String {
    let chance = SeededEntropy::new(FILLING_SEED);
    let letter = |_| char::from(b'a' + (chance.next_u64() % 26) as u8);
    (0..bytes).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::super::settings::tests::settings;
    use super::*;

    fn requests(arguments: &[&str]) -> Requests {
        let always = ["--endpoint", "http://localhost", "--container", "a b"];
        Requests::new(&settings(&[&always, arguments].concat()).unwrap())
    }

    #[test]
    fn items_have_the_size_that_was_asked_for() {
        for size in ["256", "1024", "100000"] {
            let requests = requests(&["--item-size", size]);
            let item = requests.item("item123456789", LOADED, 123_456_789);
            assert_eq!(item.len().to_string(), size);
            let parsed: Value = serde_json::from_str(&item).unwrap();
            assert_eq!(parsed["pk"], "key89");
        }
    }

    #[test]
    fn reads_ask_for_items_that_were_loaded_under_their_key() {
        let requests = requests(&["--workload", "read", "--keys", "7"]);
        let loaded: BTreeSet<(String, String)> = (0..requests.items())
            .map(|number| {
                let (_, ask) = requests.request(Stage::Load, number);
                let item: Value = serde_json::from_slice(&ask.body).unwrap();
                (item["id"].as_str().unwrap().to_owned(), ask.headers[0].1.clone())
            })
            .collect();
        assert_eq!(loaded.len(), 70);
        for number in 0..200 {
            let (kind, ask) = requests.request(Stage::Measure, number);
            let id = ask.path.strip_prefix("/dbs/bench/colls/a%20b/docs/").unwrap().to_owned();
            assert_eq!(ask.signed_link, format!("dbs/bench/colls/a b/docs/{id}"));
            assert_eq!(kind, Kind::Read);
            assert!(loaded.contains(&(id, ask.headers[0].1.clone())));
        }
    }

    #[test]
    fn the_mixed_workload_is_mixed_and_never_writes_an_item_twice() {
        let requests = requests(&[]);
        let (mut counts, mut written) = ([0; 3], BTreeSet::new());
        for number in 0..1_000 {
            let (kind, ask) = requests.request(Stage::Measure, number);
            counts[kind as usize] += 1;
            if kind == Kind::Write {
                let item: Value = serde_json::from_slice(&ask.body).unwrap();
                assert!(written.insert(item["id"].as_str().unwrap().to_owned()));
            }
        }
        assert!((650..750).contains(&counts[0]), "{counts:?}");
        assert!((150..250).contains(&counts[1]), "{counts:?}");
        assert!((60..140).contains(&counts[2]), "{counts:?}");
    }
}

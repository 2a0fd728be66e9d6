//! What the account is asked: reads, writes, queries.
//!
//! Every request is made from its number and a sequence of random numbers with a fixed seed, so two
//! runs ask the same, in the same proportions. All requests name their partition key.

use http::Method;
use partita_http_client::{AccountRequest, encode};
use partita_model::{Entropy, SeededEntropy};

use super::Stage;
use super::measurements::OperationKind;
use super::settings::{Settings, Workload};

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

const KEY_HEADER: &str = "x-ms-documentdb-partitionkey";

/// Seeds: one for what is asked, one for what items are filled with.
const SEED: u64 = 6;
const FILLING_SEED: u64 = 7;

/// Makes the requests of a run.
pub(crate) struct RequestGenerator {
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

impl RequestGenerator {
    pub(crate) fn new(settings: &Settings) -> RequestGenerator {
        let (database, container) = (&settings.database, &settings.container);
        RequestGenerator {
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
    pub(crate) fn request(&self, stage: Stage, number: u64) -> (OperationKind, AccountRequest) {
        match (stage, self.workload) {
            (Stage::Load, _) => {
                (OperationKind::Write, self.create(&item_id(number), LOADED, number))
            }
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

    fn read(&self) -> (OperationKind, AccountRequest) {
        let number = self.below(self.items());
        let id = item_id(number);
        let (link, path) = (format!("{}/docs/{id}", self.link), format!("{}/docs/{id}", self.path));
        let request = AccountRequest::new(Method::GET, "docs", link, path)
            .header(KEY_HEADER, key_header(&self.key(LOADED, number)));
        (OperationKind::Read, request)
    }

    fn write(&self, number: u64) -> (OperationKind, AccountRequest) {
        (OperationKind::Write, self.create(&format!("new{number}"), WRITTEN, number))
    }

    fn query(&self) -> (OperationKind, AccountRequest) {
        let key = self.key(LOADED, self.below(self.keys));
        let from = self.below(ITEMS_PER_KEY);
        let body = format!(
            r#"{{"query":"SELECT * FROM c WHERE c.pk = @pk AND c.place >= @from",
                "parameters":[{{"name":"@pk","value":"{key}"}},{{"name":"@from","value":{from}}}]}}"#
        );
        let request = self
            .post(&key, body)
            .header("x-ms-documentdb-isquery", "True")
            .header("content-type", "application/query+json");
        (OperationKind::Query, request)
    }

    fn create(&self, id: &str, keys: &str, number: u64) -> AccountRequest {
        self.post(&self.key(keys, number), self.item(id, keys, number))
            .header("content-type", "application/json")
    }

    fn post(&self, key: &str, body: String) -> AccountRequest {
        let path = format!("{}/docs", self.path);
        AccountRequest::new(Method::POST, "docs", self.link.clone(), path)
            .header(KEY_HEADER, key_header(key))
            .body(body)
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

fn key_header(key: &str) -> String {
    format!(r#"["{key}"]"#)
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

    use super::super::settings::Limit;
    use super::*;

    fn requests(workload: Workload, keys: u64, item_bytes: usize) -> RequestGenerator {
        RequestGenerator::new(&Settings {
            database: "bench".to_owned(),
            container: "a b".to_owned(),
            throughput: None,
            workload,
            clients: 16,
            limit: Limit::Seconds(10),
            item_bytes,
            keys,
        })
    }

    #[test]
    fn items_have_the_size_that_was_asked_for() {
        for size in [256, 1024, 100_000] {
            let requests = requests(Workload::Mixed, 100, size);
            let item = requests.item("item123456789", LOADED, 123_456_789);
            assert_eq!(item.len(), size);
            let parsed: Value = serde_json::from_str(&item).unwrap();
            assert_eq!(parsed["pk"], "key89");
        }
    }

    #[test]
    fn reads_ask_for_items_that_were_loaded_under_their_key() {
        let requests = requests(Workload::Read, 7, 1024);
        let loaded: BTreeSet<(String, String)> = (0..requests.items())
            .map(|number| {
                let (_, request) = requests.request(Stage::Load, number);
                let item: Value = serde_json::from_slice(&request.body).unwrap();
                (item["id"].as_str().unwrap().to_owned(), request.headers[0].1.clone())
            })
            .collect();
        assert_eq!(loaded.len(), 70);
        for number in 0..200 {
            let (kind, request) = requests.request(Stage::Measure, number);
            let id = request.path.strip_prefix("/dbs/bench/colls/a%20b/docs/").unwrap().to_owned();
            assert_eq!(request.signed_link, format!("dbs/bench/colls/a b/docs/{id}"));
            assert_eq!(kind, OperationKind::Read);
            assert!(loaded.contains(&(id, request.headers[0].1.clone())));
        }
    }

    #[test]
    fn the_mixed_workload_is_mixed_and_never_writes_an_item_twice() {
        let requests = requests(Workload::Mixed, 100, 1024);
        let (mut counts, mut written) = ([0; 3], BTreeSet::new());
        for number in 0..1_000 {
            let (kind, request) = requests.request(Stage::Measure, number);
            counts[kind as usize] += 1;
            if kind == OperationKind::Write {
                let item: Value = serde_json::from_slice(&request.body).unwrap();
                assert!(written.insert(item["id"].as_str().unwrap().to_owned()));
            }
        }
        assert!((650..750).contains(&counts[0]), "{counts:?}");
        assert!((150..250).contains(&counts[1]), "{counts:?}");
        assert!((60..140).contains(&counts[2]), "{counts:?}");
    }
}

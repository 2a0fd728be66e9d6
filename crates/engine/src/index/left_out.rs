//! Items that a former version left out of the index.
//!
//! A write may ask for its item to stay out of the index, and containers may say so of all items.
//! Nothing is left out any more, but what was stored so before is there until it is written or
//! indexed anew. It must be found like everything else, so partitions with such items are scanned.

use partita_model::{IndexingMode, IndexingPolicy, Result};
use partita_storage::{Snapshot, Space, counter};

use crate::keys::{self, Total};

/// Does the index of a partition, made under these policies, have all of its items? It cannot lose
/// one.
pub(crate) fn has_all_items<'p>(
    view: &dyn Snapshot,
    mut policies: impl Iterator<Item = &'p IndexingPolicy>,
) -> Result<bool> {
    let leaves_out =
        |policy: &IndexingPolicy| policy.mode() != IndexingMode::None && !policy.automatic();
    if policies.any(leaves_out) {
        return Ok(false);
    }
    match view.get(Space::Meta, &keys::total(Total::Excluded))? {
        Some(record) => Ok(counter(&record.value)? == 0),
        None => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use partita_model::{FixedClock, SeededEntropy, Value};
    use partita_storage::{Batch, Direction, KeyRange, MemoryStore, ScanLimit, Space, Store};

    use crate::changeset::derived;
    use crate::keys::{self, Total};
    use crate::op::{Indexing, QueryRequest};
    use crate::record::ItemRecord;
    use crate::{
        ContainerPath, Context, Database, DatabasePath, EngineSettings, KeyRequired, Maintenance,
        MaintenanceBudget, NewItem, Op, Outcome, block_on,
    };

    fn path() -> ContainerPath {
        ContainerPath { database: "d".into(), container: "c".into() }
    }

    fn done(database: &Database, op: Op) -> Outcome {
        block_on(database.execute(op, &Context::default())).result.unwrap()
    }

    fn filled(store: &Arc<MemoryStore>) -> Arc<Database> {
        let mut settings = EngineSettings::default();
        settings.query.scan_items = 0;
        let (clock, entropy) = (Arc::new(FixedClock::new(0)), Arc::new(SeededEntropy::new(1)));
        let store: Arc<dyn Store> = Arc::clone(store) as Arc<dyn Store>;
        let database = Database::open(store, clock, entropy, settings).unwrap();
        done(&database, Op::CreateDatabase { name: "d".into(), throughput: None });
        let definition = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash"}}"#;
        let create = Op::CreateContainer {
            database: DatabasePath("d".into()),
            body: Value::parse(definition.as_bytes()).unwrap(),
            throughput: None,
            key_required: KeyRequired::Yes,
        };
        done(&database, create);
        for n in 0..20 {
            let body = format!(r#"{{"id":"i{n}","pk":"k{}","n":{n}}}"#, n % 3);
            let item =
                NewItem { body: body.into(), partition_key: None, indexing: Indexing::ByPolicy };
            done(&database, Op::CreateItem { container: path(), item });
        }
        database
    }

    /// Makes every third item what a write with Exclude left in a former version.
    fn leave_out(database: &Database, store: &MemoryStore) {
        let container = database.core.catalog.current().all_containers().next().cloned().unwrap();
        for partition in &container.partitions {
            let view = store.snapshot(partition.id).unwrap();
            let all = ScanLimit { entries_max: 1_000, bytes_max: usize::MAX };
            let page = view.scan(Space::Items, &KeyRange::all(), Direction::Forward, all).unwrap();
            for entry in page.entries.iter().step_by(3) {
                let record = ItemRecord::decode(&entry.record.value).unwrap();
                let key = keys::parse_item(&entry.key, 1).unwrap();
                let mut batch = Batch::new();
                for key in derived(&container, &key, &record).unwrap().entries {
                    batch.delete(Space::Index, key.to_vec());
                }
                let changed = Some(record.changed_at(entry.record.lsn));
                let asked = Indexing::Exclude;
                let record = ItemRecord { indexed: false, asked, changed, ..record };
                batch.put(Space::Items, entry.key.to_vec(), record.encode());
                batch.add(Space::Meta, keys::total(Total::Excluded), 1);
                store.submit(partition.id, batch).wait().unwrap();
            }
        }
    }

    /// A change of the policy takes the items into the index.
    fn index_anew(database: &Database) {
        let body = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash"},
            "indexingPolicy":{"excludedPaths":[{"path":"/x/*"}]}}"#;
        let body = Value::parse(body.as_bytes()).unwrap();
        done(database, Op::ReplaceContainer { container: path(), body, condition: None });
        let budget = MaintenanceBudget::default();
        while database.maintain(&budget).unwrap() != Maintenance::Idle {}
    }

    fn rows(database: &Database, text: &str) -> Vec<String> {
        let query = Box::new(QueryRequest::new(text));
        match done(database, Op::Query { container: path(), query }) {
            Outcome::Query { rows, .. } => rows,
            other => panic!("no rows: {other:?}"),
        }
    }

    #[test]
    fn what_a_former_version_left_out_of_the_index_is_found() {
        let store = Arc::new(MemoryStore::new());
        let database = filled(&store);
        leave_out(&database, &store);
        let texts = [
            "SELECT VALUE COUNT(1) FROM c",
            "SELECT VALUE COUNT(1) FROM c WHERE c.n >= 0",
            "SELECT VALUE c.n FROM c WHERE c.n < 100 ORDER BY c.n",
            "SELECT VALUE c.id FROM c WHERE c.n IN (1, 2, 3, 4, 5)",
            "SELECT DISTINCT VALUE c.n FROM c ORDER BY c.n",
            "SELECT VALUE SUM(c.n) FROM c",
            "SELECT VALUE MAX(c.n) FROM c",
        ];
        let found = |text: &&str| {
            let mut rows = rows(&database, text);
            // Without ORDER BY the order of a scan and that of an index are not the same.
            if !text.contains("ORDER BY") {
                rows.sort();
            }
            rows
        };
        let counts: Vec<Vec<String>> = texts.iter().map(found).collect();
        assert_eq!((&counts[0], &counts[1]), (&vec!["20".to_owned()], &vec!["20".to_owned()]));
        let lengths: Vec<usize> = counts.iter().map(Vec::len).collect();
        assert_eq!(lengths, [1, 1, 20, 5, 20, 1, 1]);
        assert_eq!((counts[5][0].as_str(), counts[6][0].as_str()), ("190", "19"));
        assert_eq!(database.check().unwrap().findings, []);
        index_anew(&database);
        assert_eq!(database.check().unwrap().findings, []);
        assert_eq!(texts.iter().map(found).collect::<Vec<_>>(), counts);
    }
}

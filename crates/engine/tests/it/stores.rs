//! The engine on stores that are real, and on stores that fail.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use partita_engine::{Op, Scope};
use partita_storage::{EmbeddedSettings, EmbeddedStore, FaultPlan, FaultStore, MemoryStore, Store};

use crate::harness::*;

/// A directory that goes away with its test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        drop(std::fs::remove_dir_all(&path));
        Directory(path)
    }

    fn open(&self) -> Arc<dyn Store> {
        Arc::new(EmbeddedStore::open(&self.0, EmbeddedSettings::default()).unwrap())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

#[test]
fn items_survive_on_disk() {
    for (partitions, throughput) in PARTITIONS {
        let directory = Directory::new(&format!("engine_on_disk_{partitions}"));
        let mut known = BTreeMap::new();
        for round in 0..4 {
            let bench = Bench::on(directory.open(), round);
            if round == 0 {
                bench.make_container(throughput, KEY_PK);
            }
            for n in 0..40 {
                let id = format!("{round}-{n}");
                let created = bench.create(&format!(r#"{{"id":"{id}","pk":{n},"v":[{n},null]}}"#));
                known.insert(id, body(&created));
            }
            for n in (0..40).step_by(3) {
                let id = format!("{round}-{n}");
                bench.delete(&id, &format!("[{n}]")).result.unwrap();
                known.remove(&id);
            }
            bench.database.close().unwrap();
        }
        let bench = Bench::on(directory.open(), 9);
        let found: BTreeMap<_, _> =
            bench.list(&Scope::All, 7).into_iter().map(|item| (text(&item, "id"), item)).collect();
        assert_eq!(found, known);
        bench.assert_whole();
        bench.database.close().unwrap();
    }
}

/// One life of a database: makes a container, writes items, changes and deletes some. Returns what
/// was acknowledged: the newest acknowledged value per id (None for a delete), until the first
/// error.
fn live(store: Arc<dyn Store>) -> BTreeMap<u64, Option<u64>> {
    let mut acknowledged = BTreeMap::new();
    let Some(bench) = Bench::try_on(store, 1) else { return acknowledged };
    let made = bench.run(Op::CreateDatabase { name: "db".into(), throughput: None });
    if made.result.is_err() || bench.create_container("c", 12_000, KEY_PK).result.is_err() {
        return acknowledged;
    }
    for n in 0..24_u64 {
        let document = |v| format!(r#"{{"id":"{n}","pk":{n},"v":{v},"tags":["a",{n}]}}"#);
        if bench.create(&document(1)).result.is_err() {
            break;
        }
        acknowledged.insert(n, Some(1));
        if n % 2 == 0 {
            if bench.upsert(&document(2), None).result.is_err() {
                break;
            }
            acknowledged.insert(n, Some(2));
        }
        if n % 3 == 0 {
            if bench.delete(&n.to_string(), &format!("[{n}]")).result.is_err() {
                break;
            }
            acknowledged.insert(n, None);
        }
    }
    acknowledged
}

#[test]
fn a_crash_at_any_write_leaves_the_database_whole() {
    for crash_at in 1..60 {
        let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let plan =
            FaultPlan { seed: crash_at, crash_at_write: Some(crash_at), ..Default::default() };
        let acknowledged = live(Arc::new(FaultStore::new(Arc::clone(&inner), plan)));
        let bench = Bench::on(inner, 2);
        bench.assert_whole();
        for (n, value) in acknowledged {
            let read = bench.read(&n.to_string(), &format!("[{n}]"));
            let found =
                read.result.is_ok().then(|| body(&read).get("v").unwrap().as_i64().unwrap());
            // The write that failed may have happened: then the item is one step further.
            let further = match value {
                Some(1) if n % 2 == 0 => Some(2),
                Some(_) if n % 3 == 0 => None,
                other => other,
            };
            let found = found.map(|v| v as u64);
            assert!(found == value || found == further, "{n}: {found:?} after {crash_at}");
        }
        // Whatever was cut off, the database goes on.
        if bench.database.status().containers == 1 {
            bench.create(r#"{"id":"after","pk":"crash"}"#).result.unwrap();
        }
        let left = bench.database.status();
        assert_eq!(
            left.store.partitions as usize,
            left.partitions + 1,
            "no partition is left over"
        );
    }
}

#[test]
fn a_failing_disk_is_reported_and_never_a_wrong_answer() {
    let (mut answered, mut failed) = (0, 0);
    for seed in 0..20 {
        let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let healthy = Bench::on(Arc::clone(&inner), 1);
        healthy.make_container(12_000, KEY_PK);
        for n in 0..10 {
            healthy.create(&format!(r#"{{"id":"{n}","pk":{n}}}"#)).result.unwrap();
        }
        let plan = FaultPlan { seed, failed_reads_per_mille: 200, ..Default::default() };
        let store = Arc::new(FaultStore::new(inner, plan));
        let Some(failing) = Bench::try_on(store, 2) else { continue };
        for n in 0..10 {
            let reply = failing.read(&n.to_string(), &format!("[{n}]"));
            if reply.result.is_ok() {
                assert_eq!(text(&body(&reply), "id"), n.to_string());
                answered += 1;
            } else {
                assert_eq!(error(&reply), partita_model::ErrorKind::Internal);
                failed += 1;
            }
        }
    }
    assert!(answered > 0 && failed > 0, "{answered} answered, {failed} failed");
}

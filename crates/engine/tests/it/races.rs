//! Writes that lose a race, made to happen: somebody else commits between prepare and decide.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{self, Waker};

use partita_engine::{
    BatchMode, ContainerPath, Context, Existing, Maintenance, MaintenanceBudget, Op, Reply, Scope,
};
use partita_model::{ErrorKind, Lsn, PartitionKeyHeader, Value};
use partita_storage::{
    Batch, MemoryStore, PartitionId, Result, Snapshot, Status, StorageError, Store, Ticket,
    TicketSetter,
};

use crate::batches::{atomic, create, delete, patch, read, summary};
use crate::harness::*;
use crate::imports::{import, into_range};

const KEY: &str = r#"["a"]"#;

type Meddle = Box<dyn FnMut() + Send>;

/// A store in which something happens before every batch is decided.
struct Meddled {
    store: Arc<MemoryStore>,
    meddle: Mutex<Option<Meddle>>,
    /// If there are some, answers to batches wait here.
    held: Mutex<Option<Vec<(TicketSetter, Ticket)>>>,
    /// The next read fails.
    fails_read: Arc<AtomicBool>,
}

impl Meddled {
    /// Holds back the answers to all batches from here on.
    fn hold(&self) {
        *self.held.lock().unwrap() = Some(Vec::new());
    }

    fn release(&self) {
        for (setter, ticket) in self.held.lock().unwrap().take().into_iter().flatten() {
            setter.set(ticket.wait());
        }
    }
}

impl Store for Meddled {
    fn create_partitions(&self, ids: &[PartitionId], start: Lsn) -> Result<()> {
        self.store.create_partitions(ids, start)
    }

    fn drop_partitions(&self, ids: &[PartitionId]) -> Result<()> {
        self.store.drop_partitions(ids)
    }

    fn partitions(&self) -> Result<Vec<PartitionId>> {
        self.store.partitions()
    }

    fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>> {
        match self.fails_read.swap(false, Ordering::AcqRel) {
            true => Err(StorageError::Io("a read was made to fail".to_owned())),
            false => self.store.snapshot(partition),
        }
    }

    fn submit(&self, partition: PartitionId, batch: Batch) -> Ticket {
        if let Some(meddle) = self.meddle.lock().unwrap().as_mut() {
            meddle();
        }
        let ticket = self.store.submit(partition, batch);
        let mut held = self.held.lock().unwrap();
        let Some(held) = held.as_mut() else { return ticket };
        let (setter, later) = Ticket::new();
        held.push((setter, ticket));
        later
    }

    fn seal(&self, partition: PartitionId) -> Result<Lsn> {
        self.store.seal(partition)
    }

    fn unseal(&self, partition: PartitionId) -> Result<()> {
        self.store.unseal(partition)
    }

    fn status(&self) -> Status {
        self.store.status()
    }

    fn close(&self) -> Result<()> {
        self.store.close()
    }
}

/// A database, and another one on the same store that is always faster.
struct Race {
    bench: Bench,
    store: Arc<Meddled>,
    rival: Arc<Bench>,
}

impl Race {
    fn new(fields: &str, items: &[&str]) -> Race {
        let inner = Arc::new(MemoryStore::new());
        let (meddle, held, fails_read) = (Mutex::new(None), Mutex::new(None), Arc::default());
        let store = Arc::new(Meddled { store: Arc::clone(&inner), meddle, held, fails_read });
        let bench = Bench::on(Arc::clone(&store) as _, 1);
        bench.make_container(400, &format!("{KEY_PK}{fields}"));
        for item in items {
            bench.create(item).result.unwrap();
        }
        Race { bench, store, rival: Arc::new(Bench::on(inner, 2)) }
    }

    /// Lets the rival act before the next batch, or before every one if `act` stays true.
    fn meddle(&self, mut act: impl FnMut(&Bench) -> bool + Send + 'static) {
        let rival = Arc::clone(&self.rival);
        let mut going = true;
        let meddle = move || {
            if going {
                going = act(&rival);
            }
        };
        *self.store.meddle.lock().unwrap() = Some(Box::new(meddle));
    }
}

fn incr(id: &str) -> partita_engine::BatchOperation {
    patch(id, r#"[{"op":"incr","path":"/n","value":1}]"#)
}

fn n(reply: &Reply) -> Option<i64> {
    body(reply).get("n").and_then(Value::as_i64)
}

const X: &str = r#"{"id":"x","pk":"a","n":1}"#;
const Y: &str = r#"{"id":"y","pk":"a","n":1}"#;

#[test]
fn a_batch_is_run_again_on_what_is_there_now() {
    let race = Race::new("", &[X, Y]);
    race.meddle(|rival| {
        assert_eq!(summary(&atomic(rival, KEY, vec![incr("x")])), "W");
        false
    });
    assert_eq!(summary(&atomic(&race.bench, KEY, vec![incr("y"), incr("x"), incr("x")])), "WWW");
    assert_eq!((n(&race.bench.read("x", KEY)), n(&race.bench.read("y", KEY))), (Some(4), Some(2)));
    race.bench.assert_whole();
}

#[test]
fn what_a_batch_only_read_counts_too() {
    let race = Race::new("", &[X, Y]);
    race.meddle(|rival| {
        rival.delete("x", KEY).result.unwrap();
        false
    });
    assert_eq!(summary(&atomic(&race.bench, KEY, vec![read("x"), delete("y")])), "n-");
    assert!(race.bench.read("y", KEY).result.is_ok());
    race.bench.assert_whole();
}

#[test]
fn what_a_batch_found_absent_counts_too() {
    let race = Race::new("", &[X]);
    race.meddle(|rival| {
        rival.create(Y).result.unwrap();
        false
    });
    let operations = vec![incr("x"), create(Y), delete("y")];
    assert_eq!(summary(&atomic(&race.bench, KEY, operations)), "-c-");
    assert_eq!(n(&race.bench.read("x", KEY)), Some(1));
    race.bench.assert_whole();
}

#[test]
fn a_unique_key_that_was_free_counts_too() {
    let unique = r#","uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/n"]}]}"#;
    let race = Race::new(unique, &[X]);
    race.meddle(|rival| {
        rival.create(r#"{"id":"z","pk":"a","n":2}"#).result.unwrap();
        false
    });
    assert_eq!(summary(&atomic(&race.bench, KEY, vec![delete("x"), create(Y), incr("y")])), "--c");
    race.bench.assert_whole();
}

#[test]
fn an_expired_item_that_comes_back_keeps_its_unique_key() {
    let fields = r#","defaultTtl":5,"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/n"]}]}"#;
    for in_a_batch in [false, true] {
        let race = Race::new(fields, &[X]);
        race.bench.clock.advance_millis(10_000);
        race.rival.clock.advance_millis(10_000);
        race.meddle(|rival| {
            rival.upsert(X, None).result.unwrap();
            false
        });
        match in_a_batch {
            false => assert_eq!(error(&race.bench.create(Y)), ErrorKind::Conflict),
            true => assert_eq!(summary(&atomic(&race.bench, KEY, vec![create(Y)])), "c"),
        }
        race.bench.assert_whole();
    }
}

#[test]
fn an_expired_item_whose_unique_key_another_one_took_does_not_come_back_with_it() {
    let fields = r#","defaultTtl":5,"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/n"]}]}"#;
    for in_a_batch in [false, true] {
        let race = Race::new(fields, &[X]);
        race.bench.clock.advance_millis(10_000);
        race.rival.clock.advance_millis(10_000);
        race.meddle(|rival| {
            rival.create(Y).result.unwrap();
            false
        });
        match in_a_batch {
            false => assert_eq!(error(&race.bench.create(X)), ErrorKind::Conflict),
            true => assert_eq!(summary(&atomic(&race.bench, KEY, vec![create(X)])), "c"),
        }
        race.bench.assert_whole();
    }
}

#[test]
fn a_change_of_the_catalog_that_could_not_be_read_is_known_a_moment_later() {
    let race = Race::new("", &[]);
    let fails_read = Arc::clone(&race.store.fails_read);
    race.meddle(move |_| {
        fails_read.store(true, Ordering::Release);
        false
    });
    let made = race.bench.create_container("other", 400, KEY_PK);
    assert_eq!(error(&made), ErrorKind::Internal, "nothing is damaged");
    let other = ContainerPath { database: "db".into(), container: "other".into() };
    race.bench.settle();
    let found = race.bench.run(Op::ReadContainer { container: other, condition: None });
    found.result.unwrap();
    race.bench.assert_whole();
}

#[test]
fn databases_on_one_store_give_no_item_the_rid_of_another() {
    for writes in [1, 3] {
        for items in [&[][..], &[X]] {
            let race = Race::new("", items);
            race.meddle(|rival| {
                rival.create(Y).result.unwrap();
                false
            });
            let ids: Vec<String> = (0..writes).map(|n| format!("z{n}")).collect();
            let item = |id: &String| format!(r#"{{"id":"{id}","pk":"a"}}"#);
            match &ids[..] {
                [id] => drop(race.bench.create(&item(id)).result.unwrap()),
                ids => {
                    let creates = ids.iter().map(|id| create(&item(id))).collect();
                    assert_eq!(summary(&atomic(&race.bench, KEY, creates)), "CCC");
                }
            }
            let all = race.bench.list(&Scope::All, 100);
            let rids: BTreeSet<String> = all.iter().map(|item| text(item, "_rid")).collect();
            assert_eq!(rids.len(), items.len() + 1 + writes);
            race.bench.assert_whole();
        }
    }
}

#[test]
fn a_database_gets_its_rids_whatever_another_one_takes() {
    let race = Race::new("", &[]);
    let mut count = 0;
    race.meddle(move |rival| {
        count += 1;
        rival.create(&format!(r#"{{"id":"r{count}","pk":"b"}}"#)).result.unwrap();
        true
    });
    for n in 0..100 {
        race.bench.create(&format!(r#"{{"id":"{n}","pk":"a"}}"#)).result.unwrap();
    }
    let all = race.bench.list(&Scope::All, 1_000);
    let rids: BTreeSet<String> = all.iter().map(|item| text(item, "_rid")).collect();
    assert_eq!(rids.len(), all.len());
    race.bench.assert_whole();
}

#[test]
fn databases_on_one_store_make_no_partition_twice() {
    let race = Race::new("", &[X]);
    // A hundred partitions: a dozen of these need more ids than are reserved at once.
    let make = |bench: &Bench, name: &str| {
        bench.create_container(name, 600_000, KEY_PK).result.unwrap();
    };
    make(&race.rival, "r");
    race.meddle(move |rival| {
        make(rival, "s");
        false
    });
    (0..12).for_each(|n| make(&race.bench, &format!("b{n}")));
    let both = race.bench.reopened();
    let status = both.database.status();
    assert_eq!((status.containers, status.partitions), (15, 1_401));
    assert_eq!(status.store.partitions, 1_402, "and the catalog");
    both.assert_whole();
}

#[test]
fn who_loses_every_race_is_asked_to_retry() {
    let race = Race::new("", &[X, Y]);
    race.meddle(|rival| {
        assert_eq!(summary(&atomic(rival, KEY, vec![incr("x")])), "W");
        true
    });
    let reply = atomic(&race.bench, KEY, vec![incr("y"), incr("x")]);
    assert_eq!(error(&reply), ErrorKind::RetryWith);
    assert_eq!(n(&race.bench.read("y", KEY)), Some(1));
    race.bench.assert_whole();
}

#[test]
fn what_is_committed_after_its_client_hung_up_counts_all_the_same() {
    let create_item = || Op::CreateItem { container: path(), item: item(Y, None) };
    let batch = || {
        let partition_key = Some(PartitionKeyHeader::parse(KEY).unwrap());
        let mode = BatchMode::Atomic { partition_key };
        Op::Batch { container: path(), operations: vec![create(Y)], mode }
    };
    let imported = || import(into_range(0), &[Y.to_owned()], Existing::Fails);
    for op in [create_item(), batch(), imported()] {
        let race = Race::new("", &[X]);
        let container = race.bench.container();
        let meter = container.meters().next().unwrap();
        let before = meter.bytes().unwrap();
        race.store.hold();
        {
            let context = Context::default();
            let mut request = pin!(race.bench.database.execute(op, &context));
            let polled = request.as_mut().poll(&mut task::Context::from_waker(Waker::noop()));
            assert!(polled.is_pending());
        }
        let maintain = || race.bench.database.maintain(&MaintenanceBudget::default()).unwrap();
        while maintain() == Maintenance::Busy {}
        assert_eq!(maintain(), Maintenance::Blocked, "nobody knows yet");
        assert_eq!(meter.bytes(), Some(before));
        race.store.release();
        race.bench.settle();
        assert!(meter.bytes().unwrap() > before);
        race.bench.read("y", KEY).result.unwrap();
        race.bench.assert_whole();
    }
}

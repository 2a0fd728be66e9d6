//! Opening, closing and dropping an embedded store: what is frozen, who may open it, what is freed.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use partita_model::Lsn;
use partita_storage::{
    Batch, Direction, EmbeddedSettings, EmbeddedStore, KeyRange, PartitionId, ScanLimit, Space,
    StorageError, Store, check,
};

use crate::dir::{TempDir, lanes, open, relaxed};

const P: PartitionId = PartitionId(1);
const Q: PartitionId = PartitionId(2);

fn put(store: &dyn Store, partition: PartitionId, key: u64, value: Vec<u8>) {
    let mut batch = Batch::new();
    batch.put(Space::Items, key.to_be_bytes().to_vec(), value);
    store.submit(partition, batch).wait().unwrap();
}

/// Bytes that no compression makes smaller.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    std::iter::repeat_with(next).take(length).collect()
}

#[test]
fn lanes_and_write_buffers_are_frozen() {
    let dir = TempDir::new();
    let made = EmbeddedSettings { memtable_bytes: Some(1 << 20), ..lanes(2) };
    EmbeddedStore::open(dir.path(), made.clone()).unwrap().close().unwrap();
    let other_lanes = EmbeddedStore::open(dir.path(), lanes(3)).err().unwrap();
    let text = other_lanes.to_string();
    assert!(text.contains("lanes = 2 and cannot be opened with 3"), "{text}");
    let other_buffers = EmbeddedSettings { memtable_bytes: Some(2 << 20), ..lanes(2) };
    let text = EmbeddedStore::open(dir.path(), other_buffers).err().unwrap().to_string();
    assert!(text.contains("memtable-bytes = 1048576"), "{text}");
    assert_eq!(EmbeddedStore::open(dir.path(), made).unwrap().status().lanes, 2);
    assert_eq!(open(dir.path()).status().lanes, 2, "what is not said is what it was");
}

/// The keys of the index space and the LSNs of their records.
fn entries(store: &dyn Store) -> Vec<(Vec<u8>, Lsn)> {
    let limit = ScanLimit { entries_max: 100, bytes_max: usize::MAX };
    let view = store.snapshot(P).unwrap();
    let page = view.scan(Space::Index, &KeyRange::all(), Direction::Forward, limit).unwrap();
    page.entries.into_iter().map(|entry| (entry.key.to_vec(), entry.record.lsn)).collect()
}

fn open_lanes(path: &Path) -> usize {
    (0..).take_while(|lane| path.join(format!("lane-{lane}")).exists()).count()
}

#[test]
fn a_store_of_an_earlier_format_goes_on_in_it() {
    let enter = |store: &dyn Store, key: &[u8]| {
        let mut batch = Batch::new();
        batch.put(Space::Index, key.to_vec(), vec![]);
        store.submit(P, batch).wait().unwrap();
    };
    for (format, lsns) in [("format = 1", [Lsn(1), Lsn(2)]), ("format = 2", [Lsn(0), Lsn(0)])] {
        let dir = TempDir::new();
        EmbeddedStore::open(dir.path(), lanes(1)).unwrap().close().unwrap();
        let described = fs::read_to_string(dir.path().join("STORE")).unwrap();
        let described = described
            .lines()
            .skip(1)
            .filter(|line| !["id", "lane-", "checksum"].iter().any(|name| line.starts_with(name)));
        let described = described.collect::<Vec<_>>().join("\n").replace("format = 4", format);
        let described = format!("partita embedded store\n{described}\n");
        fs::write(dir.path().join("STORE"), described).unwrap();
        // These had no keyspace of pending changes.
        for lane in 0..open_lanes(dir.path()) {
            fs::remove_dir_all(dir.path().join(format!("lane-{lane}/keyspaces/5"))).unwrap();
        }
        let store = open(dir.path());
        store.create_partitions(&[P], Lsn(0)).unwrap();
        enter(&store, b"a");
        store.close().unwrap();
        let store = open(dir.path());
        enter(&store, b"b");
        let found = entries(&store);
        assert_eq!(found, [(b"a".to_vec(), lsns[0]), (b"b".to_vec(), lsns[1])], "{format}");
        store.close().unwrap();
        assert_eq!(check(dir.path()).unwrap().problems, Vec::<String>::new());
        assert!(fs::read_to_string(dir.path().join("STORE")).unwrap().contains(format));
    }
}

#[test]
fn an_impossible_number_of_lanes_is_refused() {
    for wrong in [0, 9] {
        let dir = TempDir::new();
        let error = EmbeddedStore::open(dir.path(), lanes(wrong)).err().unwrap();
        assert!(matches!(error, StorageError::Settings(_)), "{error}");
    }
}

#[test]
fn a_directory_serves_one_store_at_a_time() {
    let dir = TempDir::new();
    let store = open(dir.path());
    let error = EmbeddedStore::open(dir.path(), EmbeddedSettings::default()).err().unwrap();
    assert!(error.to_string().contains("is in use by another process"), "{error}");
    assert!(check(dir.path()).is_err());
    store.close().unwrap();
    open(dir.path());
}

#[test]
fn an_unfinished_creation_is_done_again() {
    let dir = TempDir::new();
    fs::write(dir.path().join("CREATING"), "").unwrap();
    fs::create_dir_all(dir.path().join("lane-0/keyspaces")).unwrap();
    fs::write(dir.path().join("lane-0/0.jnl"), "half a journal").unwrap();
    open(dir.path()).create_partitions(&[P], Lsn(0)).unwrap();
    assert!(!dir.path().join("CREATING").exists());
    assert_eq!(open(dir.path()).partitions(), Ok(vec![P]));
}

#[test]
fn lanes_without_a_description_are_never_deleted() {
    let dir = TempDir::new();
    open(dir.path()).close().unwrap();
    fs::remove_file(dir.path().join("STORE")).unwrap();
    let error = EmbeddedStore::open(dir.path(), EmbeddedSettings::default()).err().unwrap();
    assert!(matches!(error, StorageError::Corrupt(_)), "{error}");
    assert!(dir.path().join("lane-0").is_dir());
}

#[test]
fn foreign_files_beside_the_store_do_no_harm() {
    let dir = TempDir::new();
    fs::write(dir.path().join("certificate.pem"), "mine").unwrap();
    open(dir.path()).close().unwrap();
    open(dir.path()).close().unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("certificate.pem")).unwrap(), "mine");
}

#[test]
fn dropped_partitions_give_their_space_back() {
    let dir = TempDir::new();
    let store = EmbeddedStore::open(dir.path(), relaxed(lanes(1))).unwrap();
    store.create_partitions(&[P, Q], Lsn(0)).unwrap();
    for key in 0..600 {
        put(&store, P, key, noise(key, 32 * 1024));
        put(&store, Q, key, noise(key, 16));
    }
    store.reclaim().unwrap();
    let before = tables_bytes(dir.path());
    assert!(before > 19 << 20, "{before}");
    store.drop_partitions(&[P]).unwrap();
    store.reclaim().unwrap();
    // The tables that a view still shows go with the next view.
    put(&store, Q, 0, noise(0, 16));
    store.reclaim().unwrap();
    let after = tables_bytes(dir.path());
    assert!(after < 1 << 20, "{before} bytes became {after}");
    store.close().unwrap();
    let report = check(dir.path()).unwrap();
    assert_eq!((report.dropped_records, report.records), (0, 600), "{report:?}");
    assert!(report.problems.is_empty(), "{report:?}");
}

#[test]
fn tables_of_dropped_partitions_go_without_being_written_anew() {
    let dir = TempDir::new();
    // Tables that a merge has written may begin in one partition and end in another, and those
    // stay: with small ones that is little, whenever merges come.
    let settings = || EmbeddedSettings {
        memtable_bytes: Some(1 << 20),
        table_bytes: Some(1 << 20),
        ..relaxed(lanes(1))
    };
    let mut store = EmbeddedStore::open(dir.path(), settings()).unwrap();
    let others = [P, PartitionId(9)];
    let gone = [PartitionId(4), PartitionId(5)];
    let all = [others[0], gone[0], gone[1], others[1]];
    store.create_partitions(&all, Lsn(0)).unwrap();
    for partition in all {
        for key in 0..300 {
            put(&store, partition, key, noise(key, 32 * 1024));
        }
        // Everything is in tables then, and none of them has two partitions: on a busy machine a
        // memtable may be closed late, and its table be as large as several partitions.
        store.close().unwrap();
        drop(store);
        store = EmbeddedStore::open(dir.path(), settings()).unwrap();
    }
    store.free_dropped().unwrap();
    let before = tables_bytes(dir.path());
    store.drop_partitions(&gone).unwrap();
    store.free_dropped().unwrap();
    let after = tables_bytes(dir.path());
    assert!(after + (12 << 20) < before, "{before} bytes became {after}");
    for partition in others {
        let snapshot = store.snapshot(partition).unwrap();
        for key in 0..300_u64 {
            let record = snapshot.get(Space::Items, &key.to_be_bytes()).unwrap().unwrap();
            assert_eq!(record.value, noise(key, 32 * 1024));
        }
    }
    store.close().unwrap();
    let report = check(dir.path()).unwrap();
    assert_eq!((report.records, report.problems), (600, Vec::new()));
}

#[test]
fn a_store_that_nobody_writes_to_tidies_up() {
    let dir = TempDir::new();
    let settings =
        EmbeddedSettings { memtable_bytes: Some(2 << 20), table_bytes: Some(1 << 20), ..lanes(1) };
    let store = EmbeddedStore::open(dir.path(), relaxed(settings)).unwrap();
    store.create_partitions(&[P], Lsn(0)).unwrap();
    // The same items again and again: what is left after merges is a small part.
    for round in 0..8 {
        for key in 0..100 {
            put(&store, P, key, noise(round * 100 + key, 32 * 1024));
        }
    }
    let written = 100 * 32 * 1024;
    // All of it is in tables, and of those that merges have replaced hardly any are left. One look
    // decides: a merge that begins after it writes everything once more.
    let tidied = written..written * 7 / 2;
    let mut bytes = 0;
    for _ in 0..600 {
        bytes = tables_bytes(dir.path());
        if tidied.contains(&bytes) {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    assert!(tidied.contains(&bytes), "{bytes} bytes in tables for {written}");
    put(&store, P, 1, vec![1]);
    let record = store.snapshot(P).unwrap().get(Space::Items, &1u64.to_be_bytes()).unwrap();
    assert_eq!(record.unwrap().value[..], [1]);
    store.close().unwrap();
    let report = check(dir.path()).unwrap();
    assert_eq!((report.records, report.problems), (100, Vec::new()));
}

/// The bytes of the first lane's files beside its journals, which have an extension.
fn tables_bytes(path: &Path) -> u64 {
    fn all(path: &Path) -> u64 {
        let entries = fs::read_dir(path).unwrap().flatten().map(|entry| entry.path());
        entries.map(|path| if path.is_dir() { all(&path) } else { blocks(&path) }).sum()
    }
    let entries = fs::read_dir(path.join("lane-0")).unwrap().flatten().map(|entry| entry.path());
    entries.filter(|path| path.is_dir()).map(|path| all(&path)).sum()
}

/// What a file takes; none if it has gone since it was seen, as replaced tables do at any time.
fn blocks(path: &Path) -> u64 {
    #[cfg(unix)]
    use std::os::unix::fs::MetadataExt;
    match fs::metadata(path) {
        #[cfg(unix)]
        Ok(file) => file.blocks() * 512,
        #[cfg(not(unix))]
        Ok(file) => file.len(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
        Err(error) => panic!("{}: {error}", path.display()),
    }
}

#[test]
fn a_store_that_was_not_closed_has_everything_all_the_same() {
    let dir = TempDir::new();
    for round in 0..5u64 {
        let store = open(dir.path());
        if round == 0 {
            store.create_partitions(&[P, Q], Lsn(0)).unwrap();
        }
        assert_eq!(store.snapshot(P).unwrap().lsn(), Lsn(100 * round));
        for key in 0..100 {
            put(&store, P, key, vec![u8::try_from(round).unwrap()]);
        }
    }
    let store = open(dir.path());
    assert_eq!(store.snapshot(P).unwrap().lsn(), Lsn(500));
    assert_eq!(store.snapshot(Q).unwrap().lsn(), Lsn(0));
}

#[test]
fn a_closed_store_leaves_nothing_to_replay() {
    let dir = TempDir::new();
    for round in 0..4 {
        let store = EmbeddedStore::open(dir.path(), lanes(2)).unwrap();
        if round == 0 {
            store.create_partitions(&[P, Q], Lsn(0)).unwrap();
        }
        for key in 0..50 {
            put(&store, P, round * 50 + key, noise(key, 1000));
            put(&store, Q, key, noise(round, 1000));
        }
        if round == 1 {
            // Tables of the last level forget the engine's sequence numbers.
            store.reclaim().unwrap();
        }
        store.close().unwrap();
        for lane in ["lane-0", "lane-1"] {
            let files = fs::read_dir(dir.path().join(lane)).unwrap().flatten();
            let journals = files.filter(|file| file.path().extension().is_some());
            let lengths: Vec<u64> = journals.map(|file| file.metadata().unwrap().len()).collect();
            assert_eq!(lengths, [0]);
        }
    }
    let store = open(dir.path());
    let (p, q) = (store.snapshot(P).unwrap(), store.snapshot(Q).unwrap());
    assert_eq!((p.lsn(), q.lsn()), (Lsn(200), Lsn(200)));
    for key in 0..200 {
        let item = p.get(Space::Items, &u64::to_be_bytes(key)).unwrap().unwrap();
        assert_eq!(item.value, noise(key % 50, 1000));
    }
    for key in 0..50 {
        let item = q.get(Space::Items, &u64::to_be_bytes(key)).unwrap().unwrap();
        assert_eq!(item.value, noise(3, 1000), "the newest version");
    }
}

#[test]
fn closing_finishes_what_was_submitted() {
    let dir = TempDir::new();
    let store = open(dir.path());
    store.create_partitions(&[P], Lsn(0)).unwrap();
    let tickets: Vec<_> = (0..500).map(|_| store.submit(P, Batch::new())).collect();
    store.close().unwrap();
    let committed = tickets.into_iter().filter(|ticket| matches!(ticket.try_answer(), Some(Ok(_))));
    assert_eq!(committed.count(), 500);
    assert_eq!(open(dir.path()).snapshot(P).unwrap().lsn(), Lsn(500));
}

#[test]
fn a_check_of_a_sound_store_counts_its_records() {
    let dir = TempDir::new();
    let store = open(dir.path());
    store.create_partitions(&[P, Q], Lsn(0)).unwrap();
    (0..50).for_each(|key| put(&store, P, key, vec![]));
    drop(store);
    let report = check(dir.path()).unwrap();
    assert_eq!((report.partitions, report.records), (2, 50));
    assert!(report.problems.is_empty(), "{report:?}");
    let empty = TempDir::new();
    assert!(check(empty.path()).is_err());
}

#[test]
fn the_engine_is_the_version_whose_files_we_know() {
    // The journal reader and the settings rely on what this version does: read its notes, run the
    // soak, and look at both before changing this.
    let lock = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock");
    let lock = fs::read_to_string(lock).unwrap();
    assert!(lock.contains("name = \"fjall\"\nversion = \"3.1.13\""));
}

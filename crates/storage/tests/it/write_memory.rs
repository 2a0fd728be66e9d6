//! Changes take no more memory than was set for them, and none of them is lost for it.

use partita_model::Lsn;
use partita_storage::{Batch, EmbeddedSettings, EmbeddedStore, PartitionId, Space, Store};

use crate::dir::{TempDir, lanes};

const HOME: PartitionId = PartitionId(1);
const MB: u64 = 1 << 20;

/// Writes 16 MB; the most that the buffers took meanwhile.
fn write(store: &EmbeddedStore) -> u64 {
    store.create_partitions(&[HOME], Lsn(0)).unwrap();
    let mut most = 0;
    for number in 0..256_u32 {
        let mut batch = Batch::new();
        let key = number.to_be_bytes().to_vec();
        batch.put(Space::Items, key.clone(), vec![number as u8; 64 * 1024]);
        batch.put(Space::Index, key.repeat(100), Vec::new());
        store.submit(HOME, batch).wait().unwrap();
        most = most.max(store.write_buffer_bytes());
    }
    most
}

fn is_all_there(store: &EmbeddedStore) -> bool {
    let view = store.snapshot(HOME).unwrap();
    (0..256_u32).all(|number| {
        let key = number.to_be_bytes().to_vec();
        let item = view.get(Space::Items, &key).unwrap();
        let entry = view.get(Space::Index, &key.repeat(100)).unwrap();
        item.is_some_and(|item| item.value == vec![number as u8; 64 * 1024]) && entry.is_some()
    })
}

#[test]
fn buffers_become_tables_before_they_have_more_than_there_is_memory_for() {
    let dir = TempDir::new();
    let settings = EmbeddedSettings { write_bytes_max: Some(2 * MB), ..lanes(1) };
    let store = EmbeddedStore::open(dir.path(), settings.clone()).unwrap();
    let most = write(&store);
    assert!(most <= 2 * MB, "{most} bytes");
    assert!(is_all_there(&store));
    drop(store);
    let again = EmbeddedStore::open(dir.path(), settings).unwrap();
    assert!(is_all_there(&again));
}

#[test]
fn with_enough_memory_buffers_are_filled() {
    let dir = TempDir::new();
    let settings = EmbeddedSettings { write_bytes_max: Some(256 * MB), ..lanes(1) };
    let store = EmbeddedStore::open(dir.path(), settings).unwrap();
    let most = write(&store);
    assert!(most > 7 * MB, "{most} bytes");
}

#[test]
fn a_new_store_has_as_many_lanes_as_there_is_memory_for() {
    for (megabytes, most) in [(1, 1), (32, 1), (64, 2), (100_000, 8)] {
        let dir = TempDir::new();
        let settings = EmbeddedSettings {
            write_bytes_max: Some(megabytes * MB),
            ..EmbeddedSettings::default()
        };
        let store = EmbeddedStore::open(dir.path(), settings).unwrap();
        let lanes = store.status().lanes;
        assert!((1..=most).contains(&lanes), "{lanes} lanes with {megabytes} MB");
        store.close().unwrap();
        // The number stays, whatever memory there is later.
        let again = EmbeddedStore::open(dir.path(), EmbeddedSettings::default()).unwrap();
        assert_eq!(again.status().lanes, lanes);
    }
}

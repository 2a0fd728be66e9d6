//! Damaged files are noticed: nothing that was acknowledged disappears without a word.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use partita_model::Lsn;
use partita_storage::{
    Batch, EmbeddedSettings, EmbeddedStore, PartitionId, Space, StorageError, Store, check,
};

use crate::dir::{TempDir, copy, lanes, open, used};

const P: PartitionId = PartitionId(1);
const COMMITS: u64 = 300;

fn value(number: u64) -> Vec<u8> {
    format!("the value of {number}").into_bytes()
}

/// A store with some commits that are in the journal only.
fn unflushed() -> TempDir {
    let dir = TempDir::new();
    let store = EmbeddedStore::open(dir.path(), lanes(1)).unwrap();
    store.create_partitions(&[P], Lsn(0)).unwrap();
    for number in 1..=COMMITS {
        let mut batch = Batch::new();
        batch.put(Space::Items, number.to_be_bytes().to_vec(), value(number));
        batch.put(Space::Index, value(number), vec![]);
        store.submit(P, batch).wait().unwrap();
    }
    drop(store);
    // Without its unused, zero-filled end the journal is quick to copy.
    let bytes = used(&journal(dir.path()));
    fs::write(journal(dir.path()), bytes).unwrap();
    dir
}

fn journal(dir: &Path) -> PathBuf {
    dir.join("lane-0/0.jnl")
}

fn reopen(dir: &Path) -> Result<EmbeddedStore, StorageError> {
    EmbeddedStore::open(dir, EmbeddedSettings::default())
}

fn assert_complete(store: &EmbeddedStore, place: &str) {
    let snapshot = store.snapshot(P).unwrap();
    assert_eq!(snapshot.lsn(), Lsn(COMMITS), "{place}");
    for number in 1..=COMMITS {
        let item = snapshot.get(Space::Items, &number.to_be_bytes()).unwrap();
        let item = item.unwrap_or_else(|| panic!("item {number} is gone, {place}"));
        assert_eq!(item.value, value(number), "{place}");
        assert!(snapshot.get(Space::Index, &value(number)).unwrap().is_some(), "{place}");
    }
}

#[test]
fn a_flipped_bit_in_the_journal_is_never_overlooked() {
    let sound = unflushed();
    let bytes = fs::read(journal(sound.path())).unwrap();
    let mut refused = 0;
    // Over all the journal, and every byte of one batch in its middle.
    let spread = (0..bytes.len()).step_by(bytes.len() / 60);
    let middle = bytes.len() / 2;
    for position in spread.chain(middle..middle + 150) {
        let dir = TempDir::new();
        copy(sound.path(), dir.path());
        let mut damaged = bytes.clone();
        damaged[position] ^= 0x10;
        fs::write(journal(dir.path()), damaged).unwrap();
        let place = format!("byte {position} of {}", bytes.len());
        match reopen(dir.path()) {
            Ok(store) => assert_complete(&store, &place),
            Err(StorageError::Corrupt(_)) => refused += 1,
            Err(error) => panic!("{error}, {place}"),
        }
    }
    assert!(refused > 150, "only {refused} were refused");
}

#[test]
fn a_refused_journal_is_left_as_it_was() {
    let dir = unflushed();
    let path = journal(dir.path());
    let mut bytes = fs::read(&path).unwrap();
    // The length of a key: to the engine this is the end of the journal.
    let key = [P.0.to_be_bytes(), 150u64.to_be_bytes()].concat();
    let key = bytes.windows(16).position(|window| window == key).unwrap();
    bytes[key - 10] ^= 0x01;
    fs::write(&path, &bytes).unwrap();
    for _ in 0..2 {
        let error = reopen(dir.path()).err().unwrap().to_string();
        assert!(error.contains("were acknowledged up to group 301"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    let report = check(dir.path()).unwrap();
    let [problem] = report.problems.as_slice() else { panic!("{report:?}") };
    assert!(problem.contains("0.jnl is unreadable from byte"), "{problem}");
    assert_eq!(fs::read(&path).unwrap(), bytes, "a check changes nothing");
}

#[test]
fn a_journal_cut_short_is_refused() {
    let sound = unflushed();
    let bytes = fs::read(journal(sound.path())).unwrap();
    for kept in [0, 10, bytes.len() / 2, bytes.len() - 1] {
        let dir = TempDir::new();
        copy(sound.path(), dir.path());
        fs::write(journal(dir.path()), &bytes[..kept]).unwrap();
        assert!(matches!(reopen(dir.path()).err(), Some(StorageError::Corrupt(_))), "{kept}");
    }
}

#[test]
fn a_torn_last_write_that_nobody_was_told_of_is_forgotten() {
    let dir = unflushed();
    let path = journal(dir.path());
    let mut bytes = fs::read(&path).unwrap();
    // The beginning of one more batch, as a crash in the middle of a write leaves it.
    let again = bytes[bytes.len() - 100..].to_vec();
    bytes.push(1);
    bytes.extend(again);
    fs::write(&path, bytes).unwrap();
    assert_complete(&reopen(dir.path()).unwrap(), "after a torn write");
}

#[test]
fn a_last_write_with_sectors_missing_is_forgotten_unless_it_was_acknowledged() {
    let dir = unflushed();
    let store = open(dir.path());
    let begin = used(&journal(dir.path())).len();
    let before = fs::read(dir.path().join("lane-0.mark")).unwrap();
    let mut batch = Batch::new();
    batch.put(Space::Items, vec![7; 8], vec![9; 4_000]);
    store.submit(P, batch).wait().unwrap();
    drop(store);
    // A sector in the middle did not reach the disk, what lies around it did.
    let mut bytes = used(&journal(dir.path()));
    bytes[begin + 1_000..begin + 1_512].fill(0);
    fs::write(journal(dir.path()), &bytes).unwrap();
    let error = reopen(dir.path()).err().unwrap();
    assert!(matches!(&error, StorageError::Corrupt(text) if text.contains("acknowledged")));
    // The same where the mark does not know of it: the machine ended before the write did.
    fs::write(dir.path().join("lane-0.mark"), before).unwrap();
    assert_eq!(check(dir.path()).unwrap().problems, Vec::<String>::new());
    assert_complete(&reopen(dir.path()).unwrap(), "after a torn write");
}

#[test]
fn a_wrong_checksum_in_the_middle_is_damage_whatever_the_mark_says() {
    let dir = unflushed();
    let mut bytes = fs::read(journal(dir.path())).unwrap();
    let value = value(150);
    let hit = bytes.windows(value.len()).position(|window| window == value).unwrap();
    bytes[hit] ^= 1;
    fs::write(journal(dir.path()), bytes).unwrap();
    let error = reopen(dir.path()).err().unwrap().to_string();
    assert!(error.contains("0.jnl has a wrong checksum at byte"), "{error}");
}

/// The same store with its journal in two, as the engine leaves it when one is full.
fn with_two_journals() -> TempDir {
    let dir = unflushed();
    let bytes = fs::read(journal(dir.path())).unwrap();
    let end = b"FJL\x03";
    let is_end = |at: &usize| bytes[*at..].starts_with(end);
    let half = (bytes.len() / 2..bytes.len()).find(is_end).unwrap() + end.len();
    fs::write(journal(dir.path()), &bytes[..half]).unwrap();
    fs::write(dir.path().join("lane-0/1.jnl"), &bytes[half..]).unwrap();
    dir
}

#[test]
fn an_emptied_journal_before_others_is_refused() {
    let sound = with_two_journals();
    for emptied in [vec![], vec![0; 10_000], vec![7; 10_000]] {
        let dir = TempDir::new();
        copy(sound.path(), dir.path());
        fs::write(journal(dir.path()), &emptied).unwrap();
        let report = check(dir.path()).unwrap();
        let [problem] = report.problems.as_slice() else { panic!("{report:?}") };
        assert!(problem.contains("0.jnl holds no group"), "{problem}");
        let error = reopen(dir.path()).err().unwrap();
        assert!(matches!(&error, StorageError::Corrupt(text) if text == problem), "{error}");
        assert_eq!(fs::read(journal(dir.path())).unwrap(), emptied, "nothing is changed");
    }
    assert_complete(&reopen(sound.path()).unwrap(), "with both journals");
}

#[test]
fn an_end_leaves_the_newest_journal_and_empty() {
    let dir = with_two_journals();
    for _ in 0..2 {
        let store = open(dir.path());
        assert_complete(&store, "with the newest journal");
        store.close().unwrap();
        assert!(!journal(dir.path()).exists());
        assert_eq!(fs::read(dir.path().join("lane-0/1.jnl")).unwrap(), vec![]);
    }
}

#[test]
fn empty_journals_of_earlier_versions_are_taken_away() {
    let dir = with_two_journals();
    open(dir.path()).close().unwrap();
    // They left all journals behind, and did not write down that they had emptied them.
    fs::write(journal(dir.path()), b"").unwrap();
    let mark = dir.path().join("lane-0.mark");
    let bytes = fs::read(&mark).unwrap();
    fs::write(mark, &bytes[..8192]).unwrap();
    assert_eq!(check(dir.path()).unwrap().problems, Vec::<String>::new());
    for _ in 0..2 {
        assert_complete(&reopen(dir.path()).unwrap(), "after an end of an earlier version");
        assert!(!journal(dir.path()).exists());
    }
}

#[test]
fn the_only_journal_emptied_is_refused_also_where_the_last_group_is_in_a_table() {
    let dir = TempDir::new();
    let settings = EmbeddedSettings { memtable_bytes: Some(64 * 1024), ..lanes(1) };
    let store = EmbeddedStore::open(dir.path(), settings).unwrap();
    store.create_partitions(&[P], Lsn(0)).unwrap();
    let mut item = Batch::new();
    item.put(Space::Items, vec![1], vec![1]);
    store.submit(P, item).wait().unwrap();
    // The buffer that has the group's number is full, that of the item is not.
    let mut filler = Batch::new();
    filler.put(Space::Meta, vec![1], vec![1; 20_000]);
    store.submit(P, filler).wait().unwrap();
    let flushed = dir.path().join("lane-0/keyspaces/4/tables");
    while fs::read_dir(&flushed).unwrap().next().is_none() {
        thread::sleep(Duration::from_millis(10));
    }
    drop(store);
    let bytes = used(&journal(dir.path()));
    for emptied in [vec![], vec![0; 10_000]] {
        fs::write(journal(dir.path()), &emptied).unwrap();
        let report = check(dir.path()).unwrap();
        assert_eq!(report.problems.len(), 1, "{report:?}");
        for _ in 0..2 {
            let error = reopen(dir.path()).err().unwrap();
            assert!(matches!(error, StorageError::Corrupt(_)), "{error}");
        }
    }
    fs::write(journal(dir.path()), bytes).unwrap();
    let store = reopen(dir.path()).unwrap();
    let snapshot = store.snapshot(P).unwrap();
    assert!(snapshot.get(Space::Items, &[1]).unwrap().is_some());
}

#[test]
fn a_lost_mark_is_refused() {
    let dir = unflushed();
    fs::remove_file(dir.path().join("lane-0.mark")).unwrap();
    assert!(matches!(reopen(dir.path()).err(), Some(StorageError::Corrupt(_))));
}

#[test]
fn a_damaged_table_is_told_by_the_check_and_by_the_start() {
    let dir = unflushed();
    open(dir.path()).close().unwrap();
    let table = table_of_items(dir.path());
    damage(&table);
    let report = check(dir.path()).unwrap();
    let [problem] = report.problems.as_slice() else { panic!("{report:?}") };
    assert!(problem.starts_with(&format!("{} is damaged", table.display())), "{problem}");
    let error = reopen(dir.path()).err().unwrap();
    assert!(matches!(&error, StorageError::Corrupt(text) if text.contains(problem)), "{error}");
}

#[test]
fn files_that_cannot_be_read_are_told_one_by_one() {
    let dir = unflushed();
    open(dir.path()).close().unwrap();
    let others = [dir.path().join("lane-0/LANE"), journal(dir.path())];
    for path in [table_of_items(dir.path())].iter().chain(&others) {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
    }
    let problems = check(dir.path()).unwrap().problems;
    let told = |path: &Path| {
        let name = path.display().to_string();
        problems.iter().filter(|problem| problem.contains(&name)).count()
    };
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert!(problems.iter().all(|problem| problem.contains("cannot read ")), "{problems:?}");
    let tables = dir.path().join("lane-0/keyspaces/1/tables");
    assert_eq!([&others[0], &others[1], &tables].map(|path| told(path)), [1, 1, 1], "{problems:?}");
    let error = reopen(dir.path()).err().unwrap();
    assert!(matches!(error, StorageError::Io(_)), "{error}");
}

#[test]
fn a_table_that_is_damaged_later_is_told_by_reads() {
    let dir = unflushed();
    open(dir.path()).close().unwrap();
    let store = open(dir.path());
    damage(&table_of_items(dir.path()));
    let snapshot = store.snapshot(P).unwrap();
    let read = |number: u64| snapshot.get(Space::Items, &number.to_be_bytes());
    let failed =
        (1..=COMMITS).map(read).filter(|item| matches!(item, Err(StorageError::Corrupt(_))));
    assert!(failed.count() > 0);
}

fn table_of_items(dir: &Path) -> PathBuf {
    let tables = fs::read_dir(dir.join("lane-0/keyspaces/1/tables")).unwrap();
    tables.flatten().next().unwrap().path()
}

/// Changes a byte of the records, in place.
fn damage(table: &Path) {
    let mut bytes = fs::read(table).unwrap();
    let hit = bytes.windows(12).position(|window| window == b"the value of").unwrap();
    bytes[hit + 3] ^= 0xff;
    fs::write(table, bytes).unwrap();
}

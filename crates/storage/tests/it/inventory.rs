//! Whatever happens to a single file of a store: it is refused as damaged, or nothing is lost. A
//! check says the same, and changes nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use partita_model::Lsn;
use partita_storage::{
    Batch, EmbeddedSettings, EmbeddedStore, PartitionId, Space, StorageError, Store, check,
};

use crate::dir::{TempDir, copy, lanes, open, used};

/// Two partitions in each of two lanes.
const PARTITIONS: [PartitionId; 4] =
    [PartitionId(2), PartitionId(3), PartitionId(4), PartitionId(5)];
const COMMITS: u64 = 60;

/// Damages a file; false if that cannot be done to this one.
type Damage = fn(&Path, &Path) -> bool;

const DAMAGES: [(&str, Damage); 7] = [
    ("removed", |_, path| fs::remove_file(path).is_ok()),
    ("emptied", |_, path| change(path, Vec::clear)),
    ("cut by a byte", |_, path| change(path, |bytes| bytes.truncate(bytes.len().max(1) - 1))),
    ("changed at its beginning", |_, path| change(path, |bytes| flip(bytes, 0, 1))),
    ("changed in its middle", |_, path| change(path, |bytes| flip(bytes, 1, 2))),
    ("renamed", |_, path| fs::rename(path, path.with_extension("moved")).is_ok()),
    ("changed places with that of the other lane", |dir, path| {
        let other = in_other_lane(dir, path);
        let (Ok(ours), Ok(theirs)) = (fs::read(path), fs::read(&other)) else { return false };
        fs::write(path, theirs).unwrap();
        fs::write(other, ours).unwrap();
        true
    }),
];

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> bool {
    let before = fs::read(path).unwrap();
    let mut bytes = before.clone();
    change(&mut bytes);
    fs::write(path, &bytes).unwrap();
    bytes != before
}

/// Changes a bit of the byte at a part of the length.
fn flip(bytes: &mut [u8], times: usize, of: usize) {
    let at = bytes.len() * times / of;
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 0x04;
    }
}

fn in_other_lane(dir: &Path, path: &Path) -> PathBuf {
    let name = path.strip_prefix(dir).unwrap().to_str().unwrap();
    dir.join(name.replacen("lane-0", "lane-1", 1))
}

fn value(partition: PartitionId, number: u64) -> Vec<u8> {
    format!("the value of {number} in {}", partition.0).into_bytes()
}

fn fill(store: &dyn Store, numbers: impl Iterator<Item = u64>) {
    for number in numbers {
        for partition in PARTITIONS {
            let mut batch = Batch::new();
            batch.put(Space::Items, number.to_be_bytes().to_vec(), value(partition, number));
            batch.put(Space::Index, value(partition, number), vec![]);
            batch.put(Space::Feed, number.to_be_bytes().to_vec(), vec![]);
            batch.put(Space::Meta, b"last".to_vec(), value(partition, number));
            store.submit(partition, batch).wait().unwrap();
        }
    }
}

/// A store with tables in all keyspaces; `killed` ones have as much again in their journals.
fn sound(killed: bool) -> TempDir {
    let dir = TempDir::new();
    let settings = EmbeddedSettings { new_id: 7, ..lanes(2) };
    let store = EmbeddedStore::open(dir.path(), settings).unwrap();
    store.create_partitions(&PARTITIONS, Lsn(0)).unwrap();
    fill(&store, 0..COMMITS / 2);
    store.close().unwrap();
    let store = open(dir.path());
    fill(&store, COMMITS / 2..COMMITS);
    if killed {
        drop(store)
    } else {
        store.close().unwrap()
    }
    // Without their unused, zero-filled ends journals are quick to copy.
    for journal in files(dir.path()).into_keys().filter(|path| is_journal(path)) {
        fs::write(&journal, used(&journal)).unwrap();
    }
    dir
}

fn is_journal(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jnl")
}

/// All files under a directory with what is in them.
fn files(under: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(under).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

/// What was done to a copy of the store, and to which file.
fn assert_told_or_harmless(dir: &Path, what: &str) -> bool {
    let before = files(dir);
    let report = check(dir);
    assert_eq!(files(dir), before, "a check changed something, {what}");
    let problems = report.unwrap_or_else(|error| panic!("{error}, {what}")).problems;
    match EmbeddedStore::open(dir, EmbeddedSettings::default()) {
        Ok(store) => {
            assert_eq!(problems, Vec::<String>::new(), "served all the same, {what}");
            assert_complete(&store, what);
            false
        }
        Err(StorageError::Corrupt(_)) => {
            assert!(!problems.is_empty(), "only the check calls it whole, {what}");
            let after = files(dir);
            let mut changed = after.iter().filter(|(path, bytes)| before.get(*path) != Some(bytes));
            let changed = changed.find(|(path, _)| !path.ends_with("LOCK"));
            assert_eq!(changed.map(|(path, _)| path), None, "refused, but changed: {what}");
            true
        }
        Err(error) => panic!("{error}, {what}"),
    }
}

fn assert_complete(store: &EmbeddedStore, what: &str) {
    for partition in PARTITIONS {
        let view = store.snapshot(partition).unwrap();
        assert_eq!(view.lsn(), Lsn(COMMITS), "{what}");
        for number in 0..COMMITS {
            let get = |space, key: &[u8]| view.get(space, key).unwrap();
            let item = get(Space::Items, &number.to_be_bytes());
            let item = item.unwrap_or_else(|| panic!("an item is gone: {what}"));
            assert_eq!(item.value, value(partition, number), "{what}");
            assert!(get(Space::Index, &value(partition, number)).is_some(), "{what}");
            assert!(get(Space::Feed, &number.to_be_bytes()).is_some(), "{what}");
        }
    }
}

/// Does it to a copy of the store; whether that was refused.
fn try_out(sound: &Path, what: &str, damage: impl Fn(&Path) -> bool) -> Option<bool> {
    let dir = TempDir::new();
    copy(sound, dir.path());
    damage(dir.path()).then(|| assert_told_or_harmless(dir.path(), what))
}

#[test]
fn no_damage_of_a_file_goes_unnoticed() {
    for killed in [false, true] {
        let sound = sound(killed);
        assert!(!try_out(sound.path(), "nothing was done", |_| true).unwrap());
        let names: Vec<PathBuf> = files(sound.path())
            .into_keys()
            .map(|path| path.strip_prefix(sound.path()).unwrap().to_owned())
            .filter(|name| !name.starts_with("lane-1"))
            .collect();
        let cases: Vec<(&Path, &str, Damage)> = names
            .iter()
            .flat_map(|name| DAMAGES.map(|(what, damage)| (name.as_path(), what, damage)))
            .collect();
        let refused = Mutex::new(BTreeMap::<(&Path, &str), bool>::new());
        let parts = cases.chunks(cases.len().div_ceil(4));
        thread::scope(|scope| {
            for part in parts {
                let (refused, sound) = (&refused, sound.path());
                scope.spawn(move || {
                    for (name, what, damage) in part {
                        let told = format!("killed {killed}: {} was {what}", name.display());
                        let is_refused = try_out(sound, &told, |dir| damage(dir, &dir.join(name)));
                        if let Some(is_refused) = is_refused {
                            refused.lock().unwrap().insert((name, what), is_refused);
                        }
                    }
                });
            }
        });
        let refused = refused.into_inner().unwrap();
        // Some must be: a test that accepts everything as harmless would prove nothing.
        for (name, what) in [
            ("STORE", "changed in its middle"),
            ("lane-0.mark", "removed"),
            ("lane-0.mark", "changed places with that of the other lane"),
            ("lane-0/version", "removed"),
            ("lane-0/0.jnl", "removed"),
            ("lane-0/keyspaces/0/current", "removed"),
            ("lane-0/keyspaces/1/current", "removed"),
        ] {
            assert!(refused[&(Path::new(name), what)], "killed {killed}: {name} was {what}");
        }
        // Which tables both lanes have depends on what was merged when.
        let is_table = |name: &Path| name.parent().is_some_and(|parent| parent.ends_with("tables"));
        let of_another = "changed places with that of the other lane";
        let mut tables =
            refused.iter().filter(|((name, what), _)| is_table(name) && *what == of_another);
        assert!(tables.any(|(_, refused)| *refused), "killed {killed}: no table {of_another}");
        let count = refused.values().filter(|refused| **refused).count();
        assert!(count * 4 > refused.len() * 3, "{count} of {} were refused", refused.len());
    }
}

#[test]
fn what_is_new_or_has_another_number_is_refused() {
    let sound = sound(true);
    let add = |name: &'static str| {
        move |dir: &Path| {
            let path = dir.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "foreign").is_ok()
        }
    };
    for name in [
        "lane-2.mark",
        "lane-2/0.jnl",
        "lane-0/notes",
        "lane-0/7.jnl",
        "lane-0/keyspaces/6/current",
        "lane-0/keyspaces/notes",
        "lane-1/keyspaces/1/notes",
        "lane-1/keyspaces/1/tables/notes",
    ] {
        let what = format!("{name} was added");
        assert_eq!(try_out(sound.path(), &what, add(name)), Some(true), "{what}");
    }
    let rename = |from: &'static str, to: &'static str| {
        move |dir: &Path| fs::rename(dir.join(from), dir.join(to)).is_ok()
    };
    for (from, to) in [
        ("lane-1", "lane-2"),
        ("lane-0/keyspaces/5", "lane-0/keyspaces/6"),
        ("lane-0/0.jnl", "lane-0/1.jnl.bak"),
    ] {
        let what = format!("{from} was renamed to {to}");
        assert_eq!(try_out(sound.path(), &what, rename(from, to)), Some(true), "{what}");
    }
}

#[test]
fn what_a_crash_leaves_behind_is_no_damage() {
    let sound = sound(true);
    for name in [
        "STORE.new",
        "lane-0.unreadable-journal.new",
        "lane-0/LANE.new",
        "lane-0/keyspaces/1/KEYSPACE.new",
        "lane-0/keyspaces/1/.tmpAbCdEf",
        "lane-0/keyspaces/1/v99",
        "lane-0/keyspaces/1/tables/99",
    ] {
        let what = format!("{name} was left behind");
        let add = |dir: &Path| fs::write(dir.join(name), "half").is_ok();
        assert_eq!(try_out(sound.path(), &what, add), Some(false), "{what}");
    }
}

#[test]
fn directories_that_change_places_are_noticed() {
    let sound = sound(true);
    let exchange = |a: &'static str, b: &'static str| {
        move |dir: &Path| {
            fs::rename(dir.join(a), dir.join("between")).unwrap();
            fs::rename(dir.join(b), dir.join(a)).unwrap();
            fs::rename(dir.join("between"), dir.join(b)).is_ok()
        }
    };
    for (a, b) in [
        ("lane-0", "lane-1"),
        ("lane-0/keyspaces", "lane-1/keyspaces"),
        ("lane-0/keyspaces/1", "lane-1/keyspaces/1"),
        ("lane-0/keyspaces/5", "lane-1/keyspaces/5"),
        ("lane-0/keyspaces/1", "lane-0/keyspaces/2"),
        ("lane-0/keyspaces/1/tables", "lane-1/keyspaces/1/tables"),
        ("lane-0/keyspaces/3/tables", "lane-0/keyspaces/1/tables"),
    ] {
        let what = format!("{a} and {b} changed places");
        assert_eq!(try_out(sound.path(), &what, exchange(a, b)), Some(true), "{what}");
    }
}

#[test]
fn the_files_of_another_store_are_noticed() {
    let sound = sound(true);
    let other = sound_of(8);
    for name in ["lane-0.mark", "lane-0/LANE", "lane-1/keyspaces/3/KEYSPACE"] {
        let what = format!("{name} is that of another store");
        let replace = |dir: &Path| fs::copy(other.path().join(name), dir.join(name)).is_ok();
        assert_eq!(try_out(sound.path(), &what, replace), Some(true), "{what}");
    }
}

fn sound_of(new_id: u64) -> TempDir {
    let dir = TempDir::new();
    let settings = EmbeddedSettings { new_id, ..lanes(2) };
    EmbeddedStore::open(dir.path(), settings).unwrap().close().unwrap();
    dir
}

#[test]
fn a_store_of_the_former_form_is_written_down_when_it_is_opened() {
    let dir = sound(true);
    let path = dir.path().join("STORE");
    let text = fs::read_to_string(&path).unwrap();
    let kept = |line: &&str| !["id", "lane-", "checksum"].iter().any(|name| line.starts_with(name));
    let former: Vec<&str> = text.lines().skip(1).filter(kept).collect();
    let former = format!("partita embedded store\n{}\n", former.join("\n"));
    for path in files(dir.path()).into_keys() {
        if path.ends_with("LANE") || path.ends_with("KEYSPACE") {
            fs::remove_file(path).unwrap();
        } else if path.extension().is_some_and(|extension| extension == "mark") {
            let mark = fs::read(&path).unwrap();
            fs::write(path, former_mark(&mark)).unwrap();
        }
    }
    // It names one lane too few: its number is compared with the lanes that are there.
    fs::write(&path, former.replace("lanes = 2", "lanes = 1")).unwrap();
    let error = EmbeddedStore::open(dir.path(), EmbeddedSettings::default()).err().unwrap();
    assert!(matches!(error, StorageError::Corrupt(_)), "{error}");
    fs::write(&path, &former).unwrap();
    let before = files(dir.path());
    assert_eq!(check(dir.path()).unwrap().problems, Vec::<String>::new());
    assert_eq!(files(dir.path()), before, "a check changes nothing");
    let settings = EmbeddedSettings { new_id: 9, ..EmbeddedSettings::default() };
    let store = EmbeddedStore::open(dir.path(), settings).unwrap();
    assert_complete(&store, "the former form");
    drop(store);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("id = 0000000000000009\n") && text.contains("checksum = "), "{text}");
    assert!(!assert_told_or_harmless(dir.path(), "the former form was written anew"));
}

/// The newer of a mark's slots as it was written before marks said whose they are.
fn former_mark(mark: &[u8]) -> Vec<u8> {
    let group = std::cmp::max(&mark[24..32], &mark[4096 + 24..4096 + 32]);
    let slot = [&b"PTMARK01"[..], group].concat();
    let sum = slot.iter().fold(0xcbf2_9ce4_8422_2325, |sum: u64, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mut former = slot;
    former.extend(sum.to_be_bytes());
    former.resize(8192, 0);
    former
}

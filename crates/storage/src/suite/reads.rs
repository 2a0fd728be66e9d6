//! Cases about snapshots, point reads and scans.

use std::ops::{Bound, ControlFlow};

use super::{Case, P, Rig, commit, delete, get, keys, open_with_partition, put, snapshot};
use crate::contract::{Batch, Direction, KeyRange, Page, ScanLimit, Snapshot, Space, Store};
use partita_model::Lsn;

pub(super) const CASES: &[Case] = &[
    ("a snapshot does not change", a_snapshot_does_not_change),
    ("a snapshot after the ticket shows the batch", a_snapshot_after_the_ticket_shows_the_batch),
    ("spaces do not share keys", spaces_do_not_share_keys),
    ("an entry that is only a key is there", an_entry_that_is_only_a_key_is_there),
    ("many keys are read in their order", many_keys_are_read_in_their_order),
    ("a scan respects its bounds", a_scan_respects_its_bounds),
    ("pages end at their limits", pages_end_at_their_limits),
    ("pages together are the range", pages_together_are_the_range),
    ("a walk shows what pages hold", a_walk_shows_what_pages_hold),
];

fn a_snapshot_does_not_change(rig: &dyn Rig) {
    let store = open_with_partition(rig);
    put(&*store, "a", "1");
    put(&*store, "b", "1");
    let before = snapshot(&*store, P);
    put(&*store, "a", "2");
    delete(&*store, "b");
    put(&*store, "c", "1");
    let between = snapshot(&*store, P);
    delete(&*store, "a");
    assert_eq!(before.lsn(), Lsn(2));
    assert_eq!(get(&*before, "a"), Some(("1".into(), Lsn(1))));
    assert_eq!(get(&*before, "c"), None);
    assert_eq!(keys(&*before, Space::Items), ["a", "b"]);
    assert_eq!(keys(&*between, Space::Items), ["a", "c"]);
    assert_eq!(keys(&*snapshot(&*store, P), Space::Items), ["c"]);
}

fn a_snapshot_after_the_ticket_shows_the_batch(rig: &dyn Rig) {
    let store = open_with_partition(rig);
    for number in 1..=200 {
        let lsn = put(&*store, "n", &number.to_string());
        let now = snapshot(&*store, P);
        assert_eq!(get(&*now, "n"), Some((number.to_string(), lsn)));
        assert_eq!(now.lsn(), lsn);
    }
}

fn an_entry_that_is_only_a_key_is_there(rig: &dyn Rig) {
    let store = open_with_partition(rig);
    let enter = |keys: &[&str]| {
        let mut batch = Batch::new();
        for key in keys {
            batch.expect_absent(Space::Index, key.as_bytes().to_vec());
            batch.put(Space::Index, key.as_bytes().to_vec(), vec![]);
        }
        commit(&*store, P, batch)
    };
    enter(&["a", "b"]).expect("a commit");
    assert!(enter(&["b"]).is_err(), "it is there for expectations");
    let now = snapshot(&*store, P);
    let record = now.get(Space::Index, b"a").expect("a read").expect("the entry");
    assert_eq!(record.value, b""[..]);
    assert_eq!(keys(&*now, Space::Index), ["a", "b"]);
    let mut walked = Vec::new();
    now.walk(Space::Index, &KeyRange::all(), Direction::Forward, &mut |key, value| {
        walked.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    })
    .expect("a walk");
    assert_eq!(walked, [(b"a".to_vec(), vec![]), (b"b".to_vec(), vec![])]);
    let mut batch = Batch::new();
    batch.delete(Space::Index, b"a".to_vec());
    commit(&*store, P, batch).expect("a commit");
    enter(&["a"]).expect("a commit");
}

fn spaces_do_not_share_keys(rig: &dyn Rig) {
    let store = open_with_partition(rig);
    let mut batch = Batch::new();
    for space in Space::ALL {
        batch.put(space, b"k".to_vec(), format!("{space:?}").into_bytes());
    }
    commit(&*store, P, batch).expect("a commit");
    let mut batch = Batch::new();
    batch.delete(Space::Index, b"k".to_vec());
    commit(&*store, P, batch).expect("a commit");
    let now = snapshot(&*store, P);
    for space in Space::ALL {
        let found = now.get(space, b"k").expect("a read").map(|record| record.value);
        let expected = (space != Space::Index).then(|| format!("{space:?}").into_bytes().into());
        assert_eq!(found, expected);
    }
}

fn many_keys_are_read_in_their_order(rig: &dyn Rig) {
    let store = open_with_partition(rig);
    put(&*store, "a", "1");
    put(&*store, "b", "2");
    let wanted = [b"b".to_vec(), b"x".to_vec(), b"a".to_vec(), b"b".to_vec()];
    let found = snapshot(&*store, P).get_many(Space::Items, &wanted).expect("a read");
    let values: Vec<_> = found.iter().map(|record| record.as_ref().map(|r| &r.value[..])).collect();
    assert_eq!(values, [Some(&b"2"[..]), None, Some(&b"1"[..]), Some(&b"2"[..])]);
    assert_eq!(snapshot(&*store, P).get_many(Space::Items, &[]), Ok(vec![]));
}

/// A partition with the items a, b, c, d, e of 2 bytes each, key included.
fn alphabet(rig: &dyn Rig) -> Box<dyn Store> {
    let store = open_with_partition(rig);
    let mut batch = Batch::new();
    for letter in ["d", "a", "e", "c", "b"] {
        batch.put(Space::Items, letter.as_bytes().to_vec(), vec![0]);
    }
    commit(&*store, P, batch).expect("a commit");
    store
}

fn scan(
    snapshot: &dyn Snapshot,
    range: KeyRange,
    direction: Direction,
    limit: (usize, usize),
) -> (String, bool) {
    let limit = ScanLimit { entries_max: limit.0, bytes_max: limit.1 };
    let page = snapshot.scan(Space::Items, &range, direction, limit).expect("a scan");
    (letters(&page), page.more)
}

fn letters(page: &Page) -> String {
    page.entries.iter().map(|entry| String::from_utf8_lossy(&entry.key)).collect()
}

fn a_scan_respects_its_bounds(rig: &dyn Rig) {
    let store = alphabet(rig);
    let now = snapshot(&*store, P);
    let [open, at, after] = [0, 1, 2];
    let bound = |kind: i32, key: &str| match kind {
        0 => Bound::Unbounded,
        1 => Bound::Included(key.into()),
        _ => Bound::Excluded(key.into()),
    };
    for (start, end, expected) in [
        ((open, ""), (open, ""), "abcde"),
        ((at, "b"), (at, "d"), "bcd"),
        ((after, "b"), (after, "d"), "c"),
        ((at, "bb"), (after, "dd"), "cd"),
        ((open, ""), (at, "b"), "ab"),
        ((after, "d"), (open, ""), "e"),
        ((after, "c"), (after, "c"), ""),
        ((at, "c"), (at, "c"), "c"),
        ((at, "d"), (at, "b"), ""),
        ((at, "x"), (open, ""), ""),
        ((at, ""), (after, "a"), ""),
    ] {
        let range = KeyRange { start: bound(start.0, start.1), end: bound(end.0, end.1) };
        let forward = scan(&*now, range.clone(), Direction::Forward, (10, 100));
        assert_eq!(forward, (expected.to_owned(), false), "{range:?}");
        let backward = scan(&*now, range.clone(), Direction::Backward, (10, 100));
        let reversed: String = expected.chars().rev().collect();
        assert_eq!(backward, (reversed, false), "{range:?}");
    }
}

fn pages_end_at_their_limits(rig: &dyn Rig) {
    let store = alphabet(rig);
    let now = snapshot(&*store, P);
    let forward = |limit| scan(&*now, KeyRange::all(), Direction::Forward, limit);
    assert_eq!(forward((2, 100)), ("ab".into(), true));
    assert_eq!(forward((5, 100)), ("abcde".into(), false));
    assert_eq!(forward((10, 6)), ("abc".into(), true));
    assert_eq!(forward((10, 7)), ("abc".into(), true));
    // A page has an entry even where none fits, so that a scan gets on.
    assert_eq!(forward((0, 0)), ("a".into(), true));
    let last = KeyRange::prefix(b"e");
    assert_eq!(scan(&*now, last, Direction::Forward, (1, 0)), ("e".into(), false));
    let backward = scan(&*now, KeyRange::all(), Direction::Backward, (3, 100));
    assert_eq!(backward, ("edc".into(), true));
}

fn pages_together_are_the_range(rig: &dyn Rig) {
    let store = open_with_partition(rig);
    let mut batch = Batch::new();
    for number in 0..500 {
        batch.put(Space::Items, format!("{number:04}").into_bytes(), vec![7; number % 50]);
    }
    commit(&*store, P, batch).expect("a commit");
    let now = snapshot(&*store, P);
    let limit = ScanLimit { entries_max: 13, bytes_max: 300 };
    let mut range = KeyRange::all();
    let mut found = Vec::new();
    loop {
        let page = now.scan(Space::Items, &range, Direction::Forward, limit).expect("a scan");
        found.extend(page.entries.into_iter().map(|entry| entry.key));
        if !page.more {
            break;
        }
        let last = found.last().expect("a page is not empty").to_vec();
        range.start = Bound::Excluded(last);
    }
    let expected: Vec<_> = (0..500).map(|number| format!("{number:04}").into_bytes()).collect();
    assert_eq!(found, expected);
}

fn a_walk_shows_what_pages_hold(rig: &dyn Rig) {
    let store = open_with_partition(rig);
    let mut batch = Batch::new();
    for n in 0..2_500_u32 {
        batch.put(Space::Index, format!("{n:05}").into_bytes(), n.to_be_bytes().to_vec());
    }
    commit(&*store, P, batch).expect("a commit");
    let view = snapshot(&*store, P);
    let between = |start: &str, end: &str| KeyRange {
        start: Bound::Included(start.as_bytes().to_vec()),
        end: Bound::Excluded(end.as_bytes().to_vec()),
    };
    for (range, enough) in [
        (between("00000", "03000"), 9_999),
        (between("01000", "01010"), 9_999),
        (between("5", "4"), 1),
        (between("00007", "02000"), 1_234),
    ] {
        for direction in [Direction::Forward, Direction::Backward] {
            let limit = ScanLimit { entries_max: enough, bytes_max: usize::MAX };
            let page = view.scan(Space::Index, &range, direction, limit).expect("a page");
            let mut shown = Vec::new();
            let visited = view.walk(Space::Index, &range, direction, &mut |key, value| {
                shown.push((key.to_vec(), value.to_vec()));
                if shown.len() < enough {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            });
            visited.expect("a walk");
            let held = page.entries.iter().map(|e| (e.key.to_vec(), e.record.value.to_vec()));
            assert!(held.eq(shown.iter().cloned()), "{range:?} {direction:?}");
        }
    }
}

//! Cases about what a batch does: LSNs, expectations, counters, logs.

use super::{Case, P, Rig, commit, delete, get, keys, open_with_partition, put, snapshot};
use crate::contract::StorageError;
use crate::contract::{Batch, Space, counter};
use crate::prepared::KEY_BYTES_MAX;
use partita_model::Lsn;

pub(super) const CASES: &[Case] = &[
    ("a put is read and a delete is not", a_put_is_read_and_a_delete_is_not),
    ("commits are numbered without gaps", commits_are_numbered_without_gaps),
    ("a commit gets the LSN that it asks for", a_commit_gets_the_lsn_that_it_asks_for),
    ("records carry the LSN of their last write", records_carry_the_lsn_of_their_last_write),
    ("a failed expectation changes nothing", a_failed_expectation_changes_nothing),
    ("expectations that hold let the batch pass", expectations_that_hold_let_the_batch_pass),
    ("expectations see batches submitted before", expectations_see_batches_submitted_before),
    ("adds make counters that commute", adds_make_counters_that_commute),
    ("adds count from what was written last", adds_count_from_what_was_written_last),
    ("an add to something else is an error", an_add_to_something_else_is_an_error),
    ("logs are filed under the commit's LSN", logs_are_filed_under_the_commits_lsn),
    ("a batch at fault disturbs nobody", a_batch_at_fault_disturbs_nobody),
    ("extreme keys and values are kept", extreme_keys_and_values_are_kept),
];

fn a_put_is_read_and_a_delete_is_not(rig: &dyn Rig) {
    let store = open_with_partition(rig);
    put(&*store, "a", "1");
    put(&*store, "b", "2");
    put(&*store, "a", "3");
    delete(&*store, "b");
    delete(&*store, "never there");
    let now = snapshot(&*store, P);
    assert_eq!(get(&*now, "a"), Some(("3".into(), Lsn(3))));
    assert_eq!(get(&*now, "b"), None);
    assert_eq!(keys(&*now, Space::Items), ["a"]);
}

fn commits_are_numbered_without_gaps(rig: &dyn Rig) {
    let store = open_with_partition(rig);
    let tickets: Vec<_> = (0..200).map(|_| store.submit(P, Batch::new())).collect();
    for (expected, ticket) in (1..).zip(tickets) {
        assert_eq!(ticket.wait().map(|commit| commit.lsn), Ok(Lsn(expected)));
    }
    assert_eq!(snapshot(&*store, P).lsn(), Lsn(200));
}

fn a_commit_gets_the_lsn_that_it_asks_for(rig: &dyn Rig) {
    let store = open_with_partition(rig);
    put(&*store, "a", "1");
    let at_least = |lsn| Batch { lsn_min: Some(Lsn(lsn)), ..Batch::new() };
    assert_eq!(commit(&*store, P, at_least(1)), Ok(Lsn(2)), "the next one is later");
    let mut batch = at_least(40);
    batch.put(Space::Items, b"b".to_vec(), b"2".to_vec());
    batch.log(vec![], b"logged".to_vec());
    assert_eq!(commit(&*store, P, batch), Ok(Lsn(40)));
    let now = snapshot(&*store, P);
    assert_eq!((get(&*now, "b"), now.lsn()), (Some(("2".into(), Lsn(40))), Lsn(40)));
    let record = now.get(Space::Feed, &40_u64.to_be_bytes()).expect("a read").expect("a log");
    assert_eq!((&record.value[..], record.lsn), (&b"logged"[..], Lsn(40)));
    assert_eq!(put(&*store, "a", "3"), Lsn(41));
}

fn records_carry_the_lsn_of_their_last_write(rig: &dyn Rig) {
    let store = open_with_partition(rig);
    put(&*store, "a", "same");
    put(&*store, "b", "same");
    put(&*store, "a", "same");
    let now = snapshot(&*store, P);
    assert_eq!(get(&*now, "a"), Some(("same".into(), Lsn(3))));
    assert_eq!(get(&*now, "b"), Some(("same".into(), Lsn(2))));
}

fn a_failed_expectation_changes_nothing(rig: &dyn Rig) {
    let store = open_with_partition(rig);
    put(&*store, "a", "1");
    let key = || b"a".to_vec();
    let conflict = Err(StorageError::Conflict { space: Space::Items, key: key() });
    let attempts: [fn(&mut Batch, Vec<u8>); 3] = [
        |batch, key| batch.expect_absent(Space::Items, key),
        |batch, key| batch.expect_unchanged(Space::Items, key, Lsn(0)),
        |batch, key| batch.expect_unchanged(Space::Items, key, Lsn(2)),
    ];
    for attempt in attempts {
        let mut batch = Batch::new();
        attempt(&mut batch, key());
        batch.put(Space::Items, key(), b"2".to_vec());
        batch.log(vec![], vec![]);
        assert_eq!(commit(&*store, P, batch), conflict);
    }
    let mut absent = Batch::new();
    absent.expect_unchanged(Space::Items, b"b".to_vec(), Lsn(1));
    assert!(commit(&*store, P, absent).is_err());
    let now = snapshot(&*store, P);
    assert_eq!((get(&*now, "a"), now.lsn()), (Some(("1".into(), Lsn(1))), Lsn(1)));
    assert_eq!(keys(&*now, Space::Feed), Vec::<String>::new());
    assert_eq!(put(&*store, "a", "2"), Lsn(2));
}

fn expectations_that_hold_let_the_batch_pass(rig: &dyn Rig) {
    let store = open_with_partition(rig);
    let mut first = Batch::new();
    first.expect_absent(Space::Items, b"a".to_vec());
    first.put(Space::Items, b"a".to_vec(), b"1".to_vec());
    assert_eq!(commit(&*store, P, first), Ok(Lsn(1)));
    let mut second = Batch::new();
    second.expect_unchanged(Space::Items, b"a".to_vec(), Lsn(1));
    second.expect_absent(Space::Meta, b"a".to_vec());
    second.delete(Space::Items, b"a".to_vec());
    assert_eq!(commit(&*store, P, second), Ok(Lsn(2)));
    let mut third = Batch::new();
    third.expect_absent(Space::Items, b"a".to_vec());
    assert_eq!(commit(&*store, P, third), Ok(Lsn(3)));
}

fn expectations_see_batches_submitted_before(rig: &dyn Rig) {
    let store = open_with_partition(rig);
    let claim = || {
        let mut batch = Batch::new();
        batch.expect_absent(Space::Items, b"seat".to_vec());
        batch.put(Space::Items, b"seat".to_vec(), vec![]);
        batch
    };
    let tickets: Vec<_> = (0..20).map(|_| store.submit(P, claim())).collect();
    let answers: Vec<_> = tickets.into_iter().map(|ticket| ticket.wait()).collect();
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    assert!(answers.first().is_some_and(Result::is_ok), "the first one wins: {answers:?}");
    assert_eq!(snapshot(&*store, P).lsn(), Lsn(1));
}

fn adds_make_counters_that_commute(rig: &dyn Rig) {
    let store = open_with_partition(rig);
    let tickets: Vec<_> = (1..=50)
        .map(|delta| {
            let mut batch = Batch::new();
            batch.add(Space::Meta, b"n".to_vec(), delta);
            batch.add(Space::Meta, b"n".to_vec(), -1);
            store.submit(P, batch)
        })
        .collect();
    for ticket in tickets {
        ticket.wait().expect("an add");
    }
    let record = snapshot(&*store, P).get(Space::Meta, b"n").expect("a read").expect("a counter");
    assert_eq!((counter(&record.value), record.lsn), (Ok(50 * 51 / 2 - 50), Lsn(50)));
}

/// One commit after the other: stores may remember what they wrote.
fn adds_count_from_what_was_written_last(rig: &dyn Rig) {
    let store = open_with_partition(rig);
    let change = |write: &dyn Fn(&mut Batch)| {
        let mut batch = Batch::new();
        write(&mut batch);
        commit(&*store, P, batch)
    };
    let add = |delta| change(&|batch| batch.add(Space::Meta, b"n".to_vec(), delta));
    let count = |expected: Option<i64>| {
        let record = snapshot(&*store, P).get(Space::Meta, b"n").expect("a read");
        assert_eq!(record.map(|record| counter(&record.value).expect("a counter")), expected);
    };
    for sum in 1..=4 {
        add(1).expect("an add");
        count(Some(sum));
    }
    change(&|batch| {
        batch.add(Space::Meta, b"n".to_vec(), 100);
        batch.expect_unchanged(Space::Meta, b"n".to_vec(), Lsn(1));
    })
    .expect_err("it has changed since");
    add(1).expect("an add");
    count(Some(5));
    change(&|batch| batch.put(Space::Meta, b"n".to_vec(), 70_i64.to_be_bytes().to_vec()))
        .expect("a put");
    add(1).expect("an add");
    count(Some(71));
    change(&|batch| batch.delete(Space::Meta, b"n".to_vec())).expect("a delete");
    count(None);
    for sum in 1..=3 {
        add(1).expect("an add");
        count(Some(sum));
    }
    // More counters than anybody remembers.
    for _ in 0..2 {
        change(&|batch| {
            (0..3_000_u32).for_each(|n| batch.add(Space::Meta, n.to_be_bytes().to_vec(), n.into()));
        })
        .expect("many adds");
    }
    add(1).expect("an add");
    count(Some(4));
    let last = snapshot(&*store, P).get(Space::Meta, &2_999_u32.to_be_bytes()).expect("a read");
    assert_eq!(last.map(|record| counter(&record.value)), Some(Ok(2 * 2_999)));
}

fn an_add_to_something_else_is_an_error(rig: &dyn Rig) {
    let store = open_with_partition(rig);
    put(&*store, "a", "no counter");
    let mut batch = Batch::new();
    batch.add(Space::Items, b"a".to_vec(), 1);
    assert!(matches!(commit(&*store, P, batch), Err(StorageError::Corrupt(_))));
    assert_eq!(get(&*snapshot(&*store, P), "a"), Some(("no counter".into(), Lsn(1))));
    assert_eq!(put(&*store, "b", ""), Lsn(2));
}

fn logs_are_filed_under_the_commits_lsn(rig: &dyn Rig) {
    let store = open_with_partition(rig);
    put(&*store, "a", "1");
    let mut batch = Batch::new();
    batch.log(b"/x".to_vec(), b"first".to_vec());
    batch.log(b"/y".to_vec(), b"second".to_vec());
    assert_eq!(commit(&*store, P, batch), Ok(Lsn(2)));
    let now = snapshot(&*store, P);
    let record = now.get(Space::Feed, b"\0\0\0\0\0\0\0\x02/y").expect("a read").expect("a log");
    assert_eq!((&record.value[..], record.lsn), (&b"second"[..], Lsn(2)));
    assert_eq!(keys(&*now, Space::Feed).len(), 2);
}

fn a_batch_at_fault_disturbs_nobody(rig: &dyn Rig) {
    let store = open_with_partition(rig);
    let mut twice = Batch::new();
    twice.put(Space::Items, b"a".to_vec(), vec![]);
    twice.put(Space::Items, b"a".to_vec(), vec![]);
    assert!(matches!(commit(&*store, P, twice), Err(StorageError::BadBatch(_))));
    let mut long = Batch::new();
    long.put(Space::Items, vec![0; KEY_BYTES_MAX + 1], vec![]);
    assert!(matches!(commit(&*store, P, long), Err(StorageError::BadBatch(_))));
    let mut overflow = Batch::new();
    overflow.add(Space::Meta, b"n".to_vec(), i64::MAX);
    overflow.add(Space::Meta, b"n".to_vec(), 1);
    assert!(matches!(commit(&*store, P, overflow), Err(StorageError::BadBatch(_))));
    assert_eq!(put(&*store, "a", "1"), Lsn(1));
    assert!(store.status().healthy);
}

fn extreme_keys_and_values_are_kept(rig: &dyn Rig) {
    let store = open_with_partition(rig);
    let large = vec![0xa5; 3 * 1024 * 1024];
    let longest = vec![0xff; KEY_BYTES_MAX];
    let pairs = [(vec![], vec![]), (longest, vec![1]), (vec![0], large), (vec![0xff], vec![0])];
    let mut batch = Batch::new();
    for (key, value) in &pairs {
        batch.put(Space::Items, key.clone(), value.clone());
    }
    assert_eq!(commit(&*store, P, batch), Ok(Lsn(1)));
    let now = snapshot(&*store, P);
    for (key, value) in &pairs {
        let record = now.get(Space::Items, key).expect("a read").expect("a record");
        assert_eq!(&record.value[..], value.as_slice());
    }
    assert_eq!(keys(&*now, Space::Items).len(), 4);
}

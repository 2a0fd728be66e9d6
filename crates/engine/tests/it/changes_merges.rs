//! The change feed across merges: a reader that says how far it is in each partition is told
//! everything, and everything once.
//!
//! Two partitions that are merged had a line of LSNs each. The tests make these as different as
//! they can be: one logical partition is written to far more often than all others, and the reader
//! is far in one partition and near the beginning of the other.

use std::collections::BTreeMap;

use partita_engine::{
    ChangeFeedSettings, ChangedItem, ChangesFrom, ChangesMode, Partition, Scope, SplitAt,
};
use partita_model::Value;

use crate::changes::{Reader, range};
use crate::changes_versions::tidy;
use crate::harness::*;

const KEPT: &str = r#""changeFeedPolicy":{"retentionDuration":10}"#;
const MODES: [ChangesMode; 2] = [ChangesMode::LatestVersion, ChangesMode::AllVersions];
const MINUTE: u64 = 60_000;

/// How often which item was told, or should be.
type Counts = BTreeMap<String, usize>;

/// A container of two partitions that the background has come to rest with.
struct History {
    bench: Bench,
    /// How often which item was written.
    written: Counts,
    rounds: usize,
}

impl History {
    fn new() -> History {
        History::with(ChangeFeedSettings::default())
    }

    fn with(settings: ChangeFeedSettings) -> History {
        let bench = Bench::with_changes(settings);
        bench.make_container(400, &format!("{KEY_PK},{KEPT}"));
        bench.split(0, SplitAt::Midpoint).result.unwrap();
        bench.settle();
        assert_eq!(bench.range_ids(), [1, 2]);
        History { bench, written: Counts::new(), rounds: 0 }
    }

    /// Writes new items, every fifth of them twice.
    fn write(&mut self, items: usize) {
        self.rounds += 1;
        for n in 0..items {
            let id = format!("{}-{n}", self.rounds);
            let pk = if n % 10 == 0 { format!("k{n}") } else { "often".into() };
            let times = if n % 5 == 0 { 2 } else { 1 };
            for _ in 0..times {
                let body = format!(r#"{{"id":"{id}","pk":"{pk}"}}"#);
                self.bench.upsert(&body, None).result.unwrap();
            }
            self.written.insert(id, times);
        }
    }

    /// What a reader in this mode is to be told.
    fn expected(&self, mode: ChangesMode) -> Counts {
        match mode {
            ChangesMode::AllVersions => self.written.clone(),
            ChangesMode::LatestVersion => self.written.keys().map(|id| (id.clone(), 1)).collect(),
        }
    }

    /// A reader that begins now, before there is anything.
    fn reader(&self, mode: ChangesMode, scope: Scope) -> Reader {
        assert!(self.written.is_empty());
        let mut reader = Reader { mode, from: ChangesFrom::Now, ..Reader::of(scope) };
        assert_eq!(reader.changes(&self.bench), (Vec::new(), false));
        reader
    }

    fn merge_all(&self) -> Partition {
        while let [left, right, ..] = self.bench.range_ids()[..] {
            self.bench.merge([left, right]).result.unwrap();
            self.bench.settle();
        }
        self.bench.partitions().remove(0)
    }
}

/// Reads a page, and counts what it tells.
fn page(reader: &mut Reader, bench: &Bench, told: &mut Counts) -> bool {
    let (changes, more) = reader.changes(bench);
    for change in &changes {
        *told.entry(id_of(change)).or_default() += 1;
    }
    more
}

fn id_of(change: &ChangedItem) -> String {
    match (&change.version, &change.current) {
        (Some(version), _) => version.id.clone(),
        (None, Some(body)) => text(&Value::parse(&body.0).unwrap(), "id"),
        (None, None) => panic!("{change:?}"),
    }
}

fn etag(reader: &Reader) -> String {
    match &reader.from {
        ChangesFrom::Etag(etag) => etag.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_reader_of_the_whole_container_is_told_everything_once() {
    for mode in MODES {
        for items_max in [1, 7, 50] {
            let mut history = History::new();
            let mut reader = Reader { items_max, ..history.reader(mode, Scope::All) };
            let mut told = Counts::new();
            history.write(200);
            for _ in 0..100 / items_max {
                assert!(page(&mut reader, &history.bench, &mut told), "in the middle of reading");
            }
            let merged = history.merge_all();
            history.bench = history.bench.reopened();
            assert_eq!(merged.parents, [0, 1, 2]);
            history.write(20);
            while page(&mut reader, &history.bench, &mut told) {}
            assert_eq!(told, history.expected(mode), "{mode:?}, {items_max} a page");
            etag(&reader).parse::<u64>().expect("beyond the merge one number says it all");
        }
    }
}

#[test]
fn also_after_several_splits_and_merges_and_restarts() {
    for mode in MODES {
        for rest in 1..4 {
            let mut history = History::new();
            let mut reader = Reader { items_max: 4, ..history.reader(mode, Scope::All) };
            let mut told = Counts::new();
            for round in 0..18 {
                history.write(30);
                for _ in 0..round % 5 * rest {
                    page(&mut reader, &history.bench, &mut told);
                }
                let ids = history.bench.range_ids();
                match ids[..] {
                    [.., left, right] if round % 2 == 0 && round % 3 == 0 => {
                        history.bench.merge([left, right]).result.unwrap();
                    }
                    [left, right, ..] if round % 2 == 0 => {
                        history.bench.merge([left, right]).result.unwrap();
                    }
                    _ => {
                        let id = ids[round % ids.len()];
                        history.bench.split(id, SplitAt::Midpoint).result.unwrap();
                    }
                }
                history.bench.settle();
                if round % 4 == 0 {
                    history.bench = history.bench.reopened();
                }
            }
            while page(&mut reader, &history.bench, &mut told) {}
            assert_eq!(told, history.expected(mode), "{mode:?}, {rest}");
            history.bench.assert_whole();
        }
    }
}

/// Who reads by range, and is told that its ranges are gone, joins the ETags that it has of them.
#[test]
fn etags_of_the_merged_ranges_may_be_joined() {
    for mode in MODES {
        let mut history = History::new();
        let (mut one, mut two) = (history.reader(mode, range(1)), history.reader(mode, range(2)));
        (one.items_max, two.items_max) = (3, 11);
        let mut told = Counts::new();
        history.write(200);
        for _ in 0..3 {
            page(&mut one, &history.bench, &mut told);
            page(&mut two, &history.bench, &mut told);
        }
        let merged = history.merge_all();
        history.write(20);
        let joined = format!("1:{},2:{}", etag(&one), etag(&two));
        let from = ChangesFrom::Etag(joined.clone());
        let scope = range(merged.range_id);
        let mut reader = Reader { mode, from, items_max: 5, ..Reader::of(scope) };
        while page(&mut reader, &history.bench, &mut told) {}
        assert_eq!(told, history.expected(mode), "{mode:?} after {joined}");
    }
}

/// That is what SDKs do: a part of the hash range has an ETag, and parts are never joined.
#[test]
fn a_part_that_keeps_its_epks_and_its_etag_is_told_everything_once() {
    for mode in MODES {
        let mut history = History::new();
        let sources = history.bench.partitions();
        let mut readers: Vec<Reader> = sources
            .iter()
            .map(|source| Reader { items_max: 5, ..history.reader(mode, range(source.range_id)) })
            .collect();
        let mut told = Counts::new();
        history.write(200);
        for (reader, pages) in readers.iter_mut().zip([1, 5]) {
            for _ in 0..pages {
                page(reader, &history.bench, &mut told);
            }
        }
        let merged = history.merge_all();
        history.write(20);
        for (reader, source) in readers.iter_mut().zip(&sources) {
            let within = Some(source.epks.clone());
            reader.scope = Scope::Range { id: merged.range_id.to_string(), within };
            while page(reader, &history.bench, &mut told) {}
        }
        assert_eq!(told, history.expected(mode), "{mode:?}");
    }
}

/// One number cannot say how far a reader is in two lines of LSNs: see COMPAT.md.
#[test]
fn the_smaller_of_two_etags_has_some_changes_told_again_and_misses_none() {
    let mode = ChangesMode::LatestVersion;
    let mut history = History::new();
    let (mut one, mut two) = (history.reader(mode, range(1)), history.reader(mode, range(2)));
    history.write(200);
    let mut told = Counts::new();
    for reader in [&mut one, &mut two] {
        reader.items_max = 10;
        page(reader, &history.bench, &mut told);
    }
    let (reached_one, reached_two): (u64, u64) =
        (etag(&one).parse().unwrap(), etag(&two).parse().unwrap());
    assert_ne!(reached_one, reached_two);
    let merged = history.merge_all();
    let from = ChangesFrom::Etag(reached_one.min(reached_two).to_string());
    let mut reader = Reader { from, items_max: 7, ..Reader::of(range(merged.range_id)) };
    while page(&mut reader, &history.bench, &mut told) {}
    assert!(told.keys().eq(history.written.keys()), "none is missed");
    let again: usize = told.values().sum::<usize>() - history.written.len();
    assert!((1..10).contains(&again), "what lay between the two comes again: {again}");
}

/// Records of containers say which EPKs a partition had only since some version.
#[test]
fn of_merges_that_were_not_written_down_some_changes_are_told_again() {
    let mode = ChangesMode::LatestVersion;
    let mut history = History::new();
    let mut reader = Reader { items_max: 7, ..history.reader(mode, Scope::All) };
    history.write(200);
    let mut told = Counts::new();
    for _ in 0..5 {
        page(&mut reader, &history.bench, &mut told);
    }
    history.merge_all();
    history.bench = history.bench.with_catalog(r#""formerRanges""#, r#""unheardOf""#);
    while page(&mut reader, &history.bench, &mut told) {}
    assert!(told.keys().eq(history.written.keys()), "none is missed");
    // From then on it is written down.
    let id = history.bench.range_ids()[0];
    history.bench.split(id, SplitAt::Midpoint).result.unwrap();
    history.bench.settle();
    page(&mut reader, &history.bench, &mut told);
    let before = told.values().sum::<usize>();
    history.write(100);
    page(&mut reader, &history.bench, &mut told);
    history.merge_all();
    while page(&mut reader, &history.bench, &mut told) {}
    assert_eq!(told.values().sum::<usize>(), before + 100);
}

/// What was removed from the feed of one partition is not missing in that of the other.
#[test]
fn a_reader_of_all_versions_is_refused_only_what_is_missing_of_its_own() {
    let commits = ChangeFeedSettings { trim_commits_min: 10_000, ..Default::default() };
    for together in [false, true] {
        let mut history = History::with(commits.clone());
        let mode = ChangesMode::AllVersions;
        let sources = history.bench.partitions();
        let readers = |history: &History| -> Vec<Reader> {
            sources.iter().map(|source| history.reader(mode, range(source.range_id))).collect()
        };
        let begun: Vec<String> = readers(&history).iter().map(etag).collect();
        history.write(200);
        history.bench.clock.advance_millis(11 * MINUTE);
        tidy(&history.bench);
        history.written.clear();
        let mut readers = readers(&history);
        let reached: Vec<u64> = readers.iter().map(|r| etag(r).parse().unwrap()).collect();
        assert!(reached[0].abs_diff(reached[1]) > 100, "{reached:?}");
        history.write(10);
        let merged = history.merge_all();
        history.bench = history.bench.reopened();
        let id = merged.range_id.to_string();
        let mut told = Counts::new();
        if together {
            let joined = ChangesFrom::Etag(format!("1:{},2:{}", reached[0], reached[1]));
            let mut reader = Reader { mode, from: joined, ..Reader::of(Scope::All) };
            while page(&mut reader, &history.bench, &mut told) {}
        } else {
            for (reader, source) in readers.iter_mut().zip(&sources) {
                let within = Some(source.epks.clone());
                reader.scope = Scope::Range { id: id.clone(), within };
                while page(reader, &history.bench, &mut told) {}
            }
        }
        assert_eq!(told, history.expected(mode));
        for early in
            [format!("1:{},2:{}", begun[0], reached[1]), format!("1:{},2:{}", reached[0], begun[1])]
        {
            let from = ChangesFrom::Etag(early);
            let refused = Reader { mode, from, ..Reader::of(Scope::All) }.ask(&history.bench);
            assert!(refused.result.unwrap_err().message.contains("retention period"));
        }
        history.bench.clock.advance_millis(11 * MINUTE);
        tidy(&history.bench);
        let late = format!("1:{},2:{}", reached[0], reached[1]);
        let late = Reader { mode, from: ChangesFrom::Etag(late), ..Reader::of(Scope::All) };
        assert!(late.ask(&history.bench).result.is_err(), "its time is over, too");
        history.bench.assert_whole();
    }
}

//! The change feed: order, places to begin, parts of a container, pages.

use partita_engine::{
    ChangeFeedSettings, ChangedItem, ChangesFrom, ChangesMode, ChangesQuery, ChangesRequest,
    Context, Maintenance, MaintenanceBudget, Op, Outcome, Reply, Scope,
};
use partita_model::{Epk, EpkRange, ErrorKind, PartitionKeyHeader, Value};

use crate::batches::{atomic, create, delete, replace, upsert};
use crate::harness::*;

/// Somebody who follows the change feed.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    pub(crate) scope: Scope,
    pub(crate) mode: ChangesMode,
    pub(crate) from: ChangesFrom,
    pub(crate) since: Option<u64>,
    pub(crate) query: Option<ChangesQuery>,
    pub(crate) items_max: usize,
}

impl Reader {
    pub(crate) fn of(scope: Scope) -> Reader {
        let (mode, from) = (ChangesMode::LatestVersion, ChangesFrom::Beginning);
        Reader { scope, mode, from, since: None, query: None, items_max: 1_000 }
    }

    pub(crate) fn ask(&self, bench: &Bench) -> Reply {
        let request = Box::new(ChangesRequest {
            scope: self.scope.clone(),
            mode: self.mode,
            from: self.from.clone(),
            since: self.since,
            query: self.query.clone(),
            items_max: Some(self.items_max),
            listen: false,
        });
        bench.run(Op::ReadChanges { container: path(), request })
    }

    /// The next page, and whether there is more.
    pub(crate) fn changes(&mut self, bench: &Bench) -> (Vec<ChangedItem>, bool) {
        let Ok(Outcome::Changes { changes, etag, more, .. }) = self.ask(bench).result else {
            panic!("no page for {self:?}");
        };
        self.from = ChangesFrom::Etag(etag);
        (changes, more)
    }

    /// The items of the next page with their LSNs, and whether there is more.
    pub(crate) fn page(&mut self, bench: &Bench) -> (Vec<Value>, bool) {
        let (changes, more) = self.changes(bench);
        let item = |change: &ChangedItem| {
            let Value::Object(item) = Value::parse(&change.current.as_ref()?.0).unwrap() else {
                panic!("no item: {change:?}");
            };
            Some(Value::from(item.with("_lsn", i64::try_from(change.lsn.0).unwrap())))
        };
        (changes.iter().map(|change| item(change).unwrap()).collect(), more)
    }

    /// Everything up to now.
    pub(crate) fn rest(&mut self, bench: &Bench) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let (items, more) = self.page(bench);
            all.extend(items);
            if !more {
                return all;
            }
        }
    }

    fn ids(&mut self, bench: &Bench) -> Vec<String> {
        self.rest(bench).iter().map(|item| text(item, "id")).collect()
    }
}

pub(crate) fn key(json: &str) -> Scope {
    Scope::PartitionKey(PartitionKeyHeader::parse(json).unwrap())
}

pub(crate) fn range(id: u32) -> Scope {
    Scope::Range { id: id.to_string(), within: None }
}

fn lsns(items: &[Value]) -> Vec<i64> {
    items.iter().map(|item| item.get("_lsn").and_then(Value::as_i64).unwrap()).collect()
}

fn put(bench: &Bench, id: &str, pk: &str) {
    bench.upsert(&format!(r#"{{"id":"{id}","pk":"{pk}"}}"#), None).result.unwrap();
}

#[test]
fn an_item_comes_once_where_it_changed_last() {
    for (partitions, throughput) in PARTITIONS {
        let bench = Bench::new();
        bench.make_container(throughput, KEY_PK);
        for id in ["a", "b", "c", "d", "a", "c"] {
            put(&bench, id, "k");
        }
        bench.delete("b", r#"["k"]"#).result.unwrap();
        for items_max in [1, 2, 3, 100] {
            let mut reader = Reader { items_max, ..Reader::of(key(r#"["k"]"#)) };
            let items = reader.rest(&bench);
            let ids: Vec<String> = items.iter().map(|item| text(item, "id")).collect();
            assert_eq!(ids, ["d", "a", "c"], "{partitions} partitions, {items_max} a page");
            assert!(lsns(&items).is_sorted());
            assert_eq!(reader.rest(&bench), [], "nothing new");
            put(&bench, "d", "k");
            assert_eq!(reader.ids(&bench), ["d"]);
            put(&bench, "a", "k");
            put(&bench, "c", "k");
            assert_eq!(reader.ids(&bench), ["a", "c"]);
        }
    }
}

#[test]
fn what_was_committed_together_comes_together() {
    for (_, throughput) in PARTITIONS {
        let bench = Bench::new();
        bench.make_container(throughput, KEY_PK);
        put(&bench, "first", "k");
        put(&bench, "gone", "k");
        let item = |id: &str| format!(r#"{{"id":"{id}","pk":"k"}}"#);
        let operations = vec![
            create(&item("a")),
            create(&item("b")),
            upsert(&item("a")),
            delete("gone"),
            create(&item("passing")),
            delete("passing"),
            replace("first", &item("second")),
        ];
        atomic(&bench, r#"["k"]"#, operations).result.unwrap();
        put(&bench, "last", "k");
        let mut reader = Reader { items_max: 1, ..Reader::of(key(r#"["k"]"#)) };
        let pages: Vec<Vec<String>> = (0..2)
            .map(|_| reader.page(&bench).0.iter().map(|item| text(item, "id")).collect())
            .collect();
        assert_eq!(pages, [vec!["b", "a", "second"], vec!["last"]]);
        assert_eq!(reader.ids(&bench), Vec::<String>::new());
    }
}

#[test]
fn a_reader_begins_now_or_at_a_time() {
    let bench = Bench::new();
    bench.make_container(30_000, KEY_PK);
    let start = bench.clock_seconds();
    put(&bench, "early", "k");
    bench.clock.advance_millis(10_000);
    let mut now = Reader { from: ChangesFrom::Now, ..Reader::of(key(r#"["k"]"#)) };
    assert_eq!(now.ids(&bench), Vec::<String>::new());
    put(&bench, "late", "k");
    assert_eq!(now.ids(&bench), ["late"]);
    for (since, ids) in [
        (0, vec!["early", "late"]),
        (start - 1, vec!["early", "late"]),
        (start, vec!["late"]),
        (start + 9, vec!["late"]),
        (start + 10, vec![]),
    ] {
        let mut reader = Reader { since: Some(since), ..Reader::of(key(r#"["k"]"#)) };
        assert_eq!(reader.ids(&bench), ids, "{since}");
    }
    let mut reader = Reader { since: Some(start + 20), ..Reader::of(key(r#"["k"]"#)) };
    assert_eq!(reader.ids(&bench), Vec::<String>::new());
    put(&bench, "too early", "k");
    assert_eq!(reader.ids(&bench), Vec::<String>::new(), "the time holds also later");
    bench.clock.advance_millis(11_000);
    put(&bench, "in time", "k");
    assert_eq!(reader.ids(&bench), ["in time"]);
}

/// Some clients send the time that they began at with every ETag.
#[test]
fn a_reader_from_this_very_second_misses_nothing_of_the_rest_of_it() {
    for (_, throughput) in PARTITIONS {
        let bench = Bench::new();
        bench.make_container(throughput, KEY_PK);
        let now = bench.clock_seconds();
        (0..20).for_each(|n| put(&bench, "before", &format!("k{n}")));
        let mut reader = Reader { since: Some(now), items_max: 1, ..Reader::of(Scope::All) };
        assert!(reader.ids(&bench).is_empty());
        (0..20).for_each(|n| put(&bench, "after", &format!("k{n}")));
        assert_eq!(reader.ids(&bench), vec!["after"; 20]);
        // A page that is full before all partitions were looked at does not begin in the others.
        bench.clock.advance_millis(1_000);
        (0..20).for_each(|n| put(&bench, "later", &format!("k{n}")));
        let mut reader = Reader { since: Some(now), items_max: 1, ..Reader::of(Scope::All) };
        assert_eq!(reader.ids(&bench), vec!["later"; 20]);
    }
}

#[test]
fn the_feeds_of_the_partitions_divide_that_of_the_container() {
    let bench = Bench::new();
    bench.make_container(30_000, KEY_PK);
    let mut all = Reader { items_max: 7, ..Reader::of(Scope::All) };
    for round in 0..2 {
        for n in 0..50 {
            put(&bench, &format!("i{n}"), &format!("k{n}"));
        }
        let mut whole = all.ids(&bench);
        whole.sort();
        assert_eq!(whole.len(), 50, "round {round}");
        let mut parts = Vec::new();
        for id in 0..5 {
            let part = Reader::of(range(id)).ids(&bench);
            assert!(part.len() > 2, "the hash spreads the keys");
            parts.extend(part);
        }
        parts.sort();
        assert_eq!(parts, whole);
    }
    assert_eq!(error(&Reader::of(range(5)).ask(&bench)), ErrorKind::RangeGone);
}

#[test]
fn a_range_of_epks_is_read_within_one_partition() {
    let bench = Bench::new();
    bench.make_container(30_000, KEY_PK);
    for n in 0..60 {
        put(&bench, &format!("i{n}"), &format!("k{n}"));
    }
    let whole = Reader::of(range(1)).ids(&bench);
    let epk = |hex: &str| Epk::parse_hex(hex).unwrap();
    let (min, max) =
        (epk("0CCCCCCCCCCCCCCCCCCCCCCCCCCCCCCC"), epk("19999999999999999999999999999998"));
    let middle = epk("13");
    let mut halves = Vec::new();
    for (min, max) in [(min.clone(), middle.clone()), (middle, max)] {
        let within = EpkRange { min, max };
        let named = Scope::Range { id: "1".into(), within: Some(within.clone()) };
        let ids = Reader::of(named).ids(&bench);
        assert_eq!(Reader::of(Scope::Epks(within)).ids(&bench), ids);
        halves.push(ids);
    }
    assert!(halves.iter().all(|half| !half.is_empty()));
    assert_eq!(halves.concat().len(), whole.len());
    let wide = EpkRange { min, max: epk("FF") };
    assert_eq!(error(&Reader::of(Scope::Epks(wide)).ask(&bench)), ErrorKind::RangeGone);
    let elsewhere = EpkRange { min: epk("30"), max: epk("31") };
    let mut reader = Reader::of(Scope::Range { id: "1".into(), within: Some(elsewhere) });
    assert_eq!(reader.ids(&bench), Vec::<String>::new());
}

#[test]
fn keys_that_share_a_hash_have_feeds_of_their_own() {
    let bench = Bench::new();
    bench.make_container(30_000, r#""partitionKey":{"paths":["/pk"],"kind":"Hash","version":1}"#);
    let common = "x".repeat(150);
    put(&bench, "a", &format!("{common}a"));
    put(&bench, "b", &format!("{common}b"));
    assert_eq!(Reader::of(key(&format!(r#"["{common}b"]"#))).ids(&bench), ["b"]);
}

#[test]
fn a_beginning_of_a_hierarchical_key_has_a_feed() {
    let bench = Bench::new();
    let keys = r#""partitionKey":{"paths":["/t","/u"],"kind":"MultiHash","version":2}"#;
    bench.make_container(30_000, keys);
    for n in 0..20 {
        let body = format!(r#"{{"id":"i{n}","t":"t{}","u":{n}}}"#, n % 4);
        bench.create(&body).result.unwrap();
    }
    let mut reader = Reader { items_max: 2, ..Reader::of(key(r#"["t1"]"#)) };
    assert_eq!(reader.ids(&bench), ["i1", "i5", "i9", "i13", "i17"]);
}

#[test]
fn expired_items_are_not_shown() {
    let bench = Bench::new();
    bench.make_container(30_000, &format!(r#"{KEY_PK},"defaultTtl":5"#));
    put(&bench, "old", "k");
    bench.clock.advance_millis(3_000);
    put(&bench, "young", "k");
    bench.clock.advance_millis(2_000);
    assert_eq!(Reader::of(key(r#"["k"]"#)).ids(&bench), ["young"]);
}

#[test]
fn indexing_an_item_anew_is_no_change_of_it() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    for id in ["a", "b", "c"] {
        put(&bench, id, "k");
    }
    let mut reader = Reader::of(range(0));
    assert_eq!(reader.ids(&bench), ["a", "b", "c"]);
    let body = format!(r#"{{"id":"c",{KEY_PK},"indexingPolicy":{{"indexingMode":"none"}}}}"#);
    let op = Op::ReplaceContainer { container: path(), body: json(&body), condition: None };
    bench.run(op).result.unwrap();
    while bench.database.maintain(&MaintenanceBudget::default()).unwrap() != Maintenance::Idle {}
    assert_eq!(reader.ids(&bench), Vec::<String>::new());
    put(&bench, "b", "k");
    assert_eq!(reader.ids(&bench), ["b"]);
    assert_eq!(Reader::of(range(0)).ids(&bench), ["a", "c", "b"]);
    bench.assert_whole();
}

#[test]
fn a_page_that_looked_at_much_and_found_nothing_is_continued() {
    let few = ChangeFeedSettings { page_entries_max: 10, ..ChangeFeedSettings::default() };
    let bench = Bench::with_changes(few);
    bench.make_container(400, KEY_PK);
    put(&bench, "rare", "rare");
    for _ in 0..25 {
        put(&bench, "often", "often");
    }
    put(&bench, "rare too", "rare");
    let mut reader = Reader::of(key(r#"["rare"]"#));
    let pages: Vec<(usize, bool)> = (0..3)
        .map(|_| {
            let (items, more) = reader.page(&bench);
            (items.len(), more)
        })
        .collect();
    assert_eq!(pages, [(1, true), (0, true), (1, false)]);
}

#[test]
fn an_etag_of_another_feed_is_refused() {
    let bench = Bench::new();
    bench.make_container(30_000, KEY_PK);
    put(&bench, "a", "k");
    for etag in ["junk", "7:1", "0:1,x", ""] {
        let from = ChangesFrom::Etag(etag.into());
        let reply = Reader { from, ..Reader::of(Scope::All) }.ask(&bench);
        assert_eq!(error(&reply), ErrorKind::BadRequest, "{etag}");
    }
}

#[test]
fn a_reader_that_is_ahead_of_the_feed_has_seen_all_of_it_and_misses_nothing_after() {
    for (partitions, throughput) in PARTITIONS {
        let bench = Bench::new();
        bench.make_container(throughput, KEY_PK);
        put(&bench, "a", "k");
        let many: Vec<String> = (0..partitions).map(|range| format!("{range}:99")).collect();
        for etag in ["99".to_owned(), u64::MAX.to_string(), many.join(",")] {
            let from = ChangesFrom::Etag(etag.clone());
            let mut reader = Reader { from, ..Reader::of(Scope::All) };
            let (items, more) = reader.page(&bench);
            assert_eq!((items.len(), more), (0, false), "{etag}");
            put(&bench, &etag, "k");
            assert_eq!(reader.ids(&bench), [etag]);
        }
    }
}

fn asking(text: &str) -> Option<ChangesQuery> {
    Some(ChangesQuery { text: text.into(), parameters: Vec::new(), previous: false })
}

#[test]
fn a_query_filters_the_feed_and_chooses_what_is_told() {
    for (_, throughput) in PARTITIONS {
        let bench = Bench::new();
        let computed =
            r#""computedProperties":[{"name":"twice","query":"SELECT VALUE c.n * 2 FROM c"}]"#;
        bench.make_container(throughput, &format!("{KEY_PK},{computed}"));
        for n in 0..20 {
            let body = format!(r#"{{"id":"i{n}","pk":"k{}","n":{n}}}"#, n % 7);
            bench.create(&body).result.unwrap();
        }
        let told = |query: ChangesQuery, items_max| {
            let query = Some(query);
            let mut reader = Reader { query, items_max, ..Reader::of(Scope::All) };
            let mut rows = Vec::new();
            loop {
                let (changes, more) = reader.changes(&bench);
                assert!(changes.iter().all(|change| change.queried));
                let row = |change: &ChangedItem| {
                    String::from_utf8_lossy(&change.current.as_ref().unwrap().0).into_owned()
                };
                rows.extend(changes.iter().map(row));
                if !more {
                    rows.sort();
                    return rows;
                }
            }
        };
        for items_max in [1, 3, 100] {
            let rows = |text| told(asking(text).unwrap(), items_max);
            assert_eq!(
                rows("SELECT VALUE c.id FROM c WHERE c.n IN (3, 17)"),
                [r#""i17""#, r#""i3""#]
            );
            assert_eq!(rows("SELECT c.id, c.no FROM c WHERE c.twice = 38"), [r#"{"id":"i19"}"#]);
            assert_eq!(rows("SELECT * FROM c").len(), 20);
            assert!(rows("SELECT * FROM c WHERE c.n = 5")[0].contains(r#""_lsn":"#));
            assert_eq!(rows("SELECT VALUE c.missing FROM c"), Vec::<String>::new());
            assert_eq!(rows("SELECT VALUE 1 FROM c WHERE c._lsn > 1000"), Vec::<String>::new());
        }
        let parameters = vec![("@n".to_owned(), json("4"))];
        let text = "SELECT VALUE c.pk FROM c WHERE c.n = @n".to_owned();
        assert_eq!(told(ChangesQuery { text, parameters, previous: false }, 9), [r#""k4""#]);
        let mut reader =
            Reader { query: asking("SELECT * FROM c WHERE c.n = 100"), ..Reader::of(Scope::All) };
        assert_eq!(reader.page(&bench), (Vec::new(), false), "nothing passed, and it is the end");
        let reply = reader.ask(&bench);
        assert!(reply.charge.0 >= 1.0);
        bench.create(r#"{"id":"late","pk":"k","n":100}"#).result.unwrap();
        assert_eq!(reader.ids(&bench), ["late"]);
    }
}

#[test]
fn a_query_on_the_feed_that_does_more_than_filter_is_refused() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    for (text, told) in [
        ("SELECT * FROM c ORDER BY c.id", "ORDER BY"),
        ("SELECT TOP 1 * FROM c", "TOP"),
        ("SELECT * FROM c OFFSET 0 LIMIT 1", "OFFSET"),
        ("SELECT DISTINCT c.a FROM c", "DISTINCT"),
        ("SELECT c.a FROM c GROUP BY c.a", "GROUP BY"),
        ("SELECT COUNT(1) FROM c", "aggregate"),
        ("SELECT VALUE t FROM c JOIN t IN c.tags", "JOIN"),
        ("SELECT VALUE t FROM t IN c.tags", "JOIN"),
        ("SELECT 1", "FROM"),
        ("SELECT * FROM c WHERE", "Syntax error"),
    ] {
        let reader = Reader { query: asking(text), ..Reader::of(Scope::All) };
        let error = reader.ask(&bench).result.unwrap_err();
        assert_eq!(error.kind, ErrorKind::BadRequest, "{text}");
        assert!(error.message.contains(told), "{text}: {}", error.message);
    }
}

#[test]
fn a_page_has_the_price_of_a_feed_and_a_session() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    for n in 0..10 {
        put(&bench, &format!("i{n}"), "k");
    }
    let mut reader = Reader::of(range(0));
    let reply = reader.ask(&bench);
    assert!((1.5..1.8).contains(&reply.charge.0), "ten items and two KB: {}", reply.charge.0);
    let written = bench.upsert(r#"{"id":"i9","pk":"k"}"#, None).served.unwrap().lsn;
    assert_eq!(reply.served.unwrap().lsn.next(), written);
    reader.rest(&bench);
    assert_eq!(reader.ask(&bench).charge.0, 1.0, "nothing new");
    let request = Box::new(ChangesRequest {
        scope: range(0),
        mode: ChangesMode::LatestVersion,
        from: ChangesFrom::Beginning,
        since: None,
        query: None,
        items_max: None,
        listen: false,
    });
    let context =
        Context { session: Some(format!("0:-1#{}", written.next())), ..Context::default() };
    let op = Op::ReadChanges { container: path(), request };
    assert_eq!(error(&bench.run_with(op, &context)), ErrorKind::SessionNotAvailable);
}

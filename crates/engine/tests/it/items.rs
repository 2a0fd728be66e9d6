//! One item at a time.

use partita_engine::{Change, Condition, Context, EtagPattern, Op, Outcome, QueryRequest, Scope};
use partita_model::{ErrorKind, PartitionKeyHeader};

use crate::harness::*;

#[test]
fn an_item_lives_from_create_to_delete() {
    for (partitions, throughput) in PARTITIONS {
        let bench = Bench::new();
        bench.make_container(throughput, KEY_PK);
        for n in 0..20 {
            let (id, key) = (format!("i{n}"), format!(r#"["k{n}"]"#));
            let created = bench.create(&format!(r#"{{"id":"{id}","pk":"k{n}","n": {n} }}"#));
            assert_eq!(change(&created), Change::Created);
            let stored = body(&created);
            assert_eq!(stored.get("n").unwrap().as_i64(), Some(n));
            assert!(created.charge.0 > 5.0);
            let served = created.served.clone().unwrap();
            assert!((served.range_id as usize) < partitions);

            let read = bench.read(&id, &key);
            assert_eq!(body(&read), stored);
            assert_eq!(read.charge.0, 1.0);
            assert_eq!(read.served.clone().unwrap().item_lsn, Some(served.lsn));

            let replaced =
                bench.replace(&id, &key, &format!(r#"{{"id":"{id}","pk":"k{n}","m":1}}"#), None);
            assert_eq!(change(&replaced), Change::Replaced);
            assert_ne!(text(&body(&replaced), "_etag"), text(&stored, "_etag"));
            assert_eq!(text(&body(&replaced), "_rid"), text(&stored, "_rid"));
            assert!(replaced.charge.0 > created.charge.0);

            assert!(matches!(bench.delete(&id, &key).result, Ok(Outcome::Deleted)));
            let gone = bench.read(&id, &key);
            assert_eq!(error(&gone), ErrorKind::NotFound);
            assert!(gone.served.is_some() && gone.charge.0 > 0.0);
        }
        bench.assert_whole();
    }
}

#[test]
fn the_same_id_lives_under_many_keys() {
    for (_, throughput) in PARTITIONS {
        let bench = Bench::new();
        bench.make_container(throughput, KEY_PK);
        let keys = [r#""a""#, "1", "1.5", "true", "false", "null", r#""""#, r#""1""#];
        for key in keys {
            bench.create(&format!(r#"{{"id":"x","pk":{key},"me":{key}}}"#)).result.unwrap();
        }
        bench.create(r#"{"id":"x","me":"undefined"}"#).result.unwrap();
        for key in keys {
            let read = body(&bench.read("x", &format!("[{key}]")));
            assert_eq!(read.get("me"), Some(&json(key)));
        }
        assert_eq!(text(&body(&bench.read("x", "[{}]")), "me"), "undefined");
        assert_eq!(error(&bench.create(r#"{"id":"x","pk":1.0}"#)), ErrorKind::Conflict);
        bench.assert_whole();
    }
}

#[test]
fn conditions_decide_who_writes() {
    let bench = Bench::new();
    bench.make_container(30_000, KEY_PK);
    let doc = r#"{"id":"x","pk":"a"}"#;
    let any = Some(Condition::Match(EtagPattern::Any));
    assert_eq!(error(&bench.upsert(doc, any)), ErrorKind::PreconditionFailed);
    let first = body(&bench.upsert(doc, None));
    let etag = text(&first, "_etag");
    let none = Some(Condition::NoneMatch(EtagPattern::Any));
    assert_eq!(error(&bench.upsert(doc, none)), ErrorKind::PreconditionFailed);
    let second = bench.replace("x", r#"["a"]"#, doc, if_match(&etag));
    assert_eq!(change(&second), Change::Replaced);
    assert_eq!(
        error(&bench.replace("x", r#"["a"]"#, doc, if_match(&etag))),
        ErrorKind::PreconditionFailed
    );
    assert_eq!(error(&bench.upsert(doc, if_match(&etag))), ErrorKind::PreconditionFailed);
    let condition = if_match(&etag);
    let delete = bench.run(Op::DeleteItem { path: item_path("x", r#"["a"]"#), condition });
    assert_eq!(error(&delete), ErrorKind::PreconditionFailed);
    let now = text(&body(&second), "_etag");
    let known = Some(Condition::NoneMatch(EtagPattern::Exact(now.trim_matches('"').into())));
    let read = bench.run(Op::ReadItem { path: item_path("x", r#"["a"]"#), condition: known });
    assert!(matches!(read.result, Ok(Outcome::NotModified { .. })));
}

#[test]
fn a_bad_item_changes_nothing() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    let deep = format!(r#"{{"id":"x","pk":"a","v":{}1{}}}"#, "[".repeat(200), "]".repeat(200));
    let long_id = format!(r#"{{"id":"{}","pk":"a"}}"#, "x".repeat(1_024));
    let long_key = format!(r#"{{"id":"x","pk":"{}"}}"#, "x".repeat(2_049));
    let bad = [
        "",
        "[]",
        "{",
        r#"{"pk":"a"}"#,
        r#"{"id":7,"pk":"a"}"#,
        r#"{"id":"","pk":"a"}"#,
        &deep,
        &long_id,
        &long_key,
    ];
    for doc in bad {
        assert_eq!(error(&bench.create(doc)), ErrorKind::BadRequest, "{doc:.60}");
    }
    let huge = format!(r#"{{"id":"x","pk":"a","v":"{}"}}"#, "x".repeat(2 << 20));
    assert_eq!(error(&bench.create(&huge)), ErrorKind::TooLarge);
    let other = Op::CreateItem {
        container: path(),
        item: item(r#"{"id":"x","pk":"a"}"#, Some(r#"["b"]"#)),
    };
    assert_eq!(error(&bench.run(other)), ErrorKind::PartitionKeyMismatch);
    assert_eq!(bench.list(&Scope::All, 10).len(), 0);
    bench.assert_whole();
}

#[test]
fn a_patch_changes_what_it_names_and_nothing_else() {
    let bench = Bench::new();
    bench.make_container(30_000, KEY_PK);
    bench
        .create(r#"{"id":"x","pk":"a","n":1,"keep":1.50,"arr":[1,2],"lone":"\ud800"}"#)
        .result
        .unwrap();
    let key = r#"["a"]"#;
    let patched = bench.patch("x", key, r#"{"operations":[{"op":"incr","path":"/n","value":2},{"op":"add","path":"/arr/-","value":3}],"condition":"from c where c.n = 1"}"#);
    assert_eq!(change(&patched), Change::Replaced);
    let Ok(Outcome::Item { body: raw, .. }) = &patched.result else { panic!() };
    let raw = std::str::from_utf8(&raw.0).unwrap();
    assert!(raw.contains(r#""n":3,"keep":1.50,"arr":[1,2,3],"lone":"\ud800""#), "{raw}");
    let again = bench.patch(
        "x",
        key,
        r#"{"operations":[{"op":"set","path":"/n","value":9}],"condition":"from c where c.n = 1"}"#,
    );
    assert_eq!(error(&again), ErrorKind::PreconditionFailed);
    for path in ["/id", "/pk", "/_etag", "/_rid"] {
        let op = format!(r#"[{{"op":"set","path":"{path}","value":"z"}}]"#);
        assert_eq!(error(&bench.patch("x", key, &op)), ErrorKind::BadRequest, "{path}");
    }
    assert_eq!(
        error(&bench.patch("y", key, r#"[{"op":"set","path":"/n","value":1}]"#)),
        ErrorKind::NotFound
    );
    bench.assert_whole();
}

#[test]
fn hierarchical_keys_need_all_their_parts() {
    for (_, throughput) in PARTITIONS {
        let bench = Bench::new();
        bench.make_container(
            throughput,
            r#""partitionKey":{"paths":["/t","/u/id"],"kind":"MultiHash","version":2}"#,
        );
        bench.create(r#"{"id":"x","t":"T","u":{"id":5}}"#).result.unwrap();
        assert_eq!(text(&body(&bench.read("x", r#"["T",5]"#)), "id"), "x");
        assert_eq!(error(&bench.read("x", r#"["T"]"#)), ErrorKind::PartitionKeyMismatch);
        assert_eq!(error(&bench.read("x", r#"["T",5,6]"#)), ErrorKind::PartitionKeyMismatch);
        assert_eq!(error(&bench.read("x", r#"["T",6]"#)), ErrorKind::NotFound);
        bench.assert_whole();
    }
}

#[test]
fn unique_keys_hold_within_a_logical_partition() {
    for (_, throughput) in PARTITIONS {
        let bench = Bench::new();
        bench.make_container(throughput, &format!(r#"{KEY_PK},"uniqueKeyPolicy":{{"uniqueKeys":[{{"paths":["/mail"]}},{{"paths":["/a","/b"]}}]}}"#));
        bench.create(r#"{"id":"1","pk":"a","mail":"x","a":1,"b":1}"#).result.unwrap();
        assert_eq!(
            error(&bench.create(r#"{"id":"2","pk":"a","mail":"x","a":1,"b":2}"#)),
            ErrorKind::Conflict
        );
        assert_eq!(
            error(&bench.create(r#"{"id":"2","pk":"a","mail":"y","a":1,"b":1.0}"#)),
            ErrorKind::Conflict
        );
        bench.create(r#"{"id":"2","pk":"b","mail":"x","a":1,"b":1}"#).result.unwrap();
        bench.create(r#"{"id":"3","pk":"a","mail":"y","a":1}"#).result.unwrap();
        assert_eq!(
            error(&bench.create(r#"{"id":"4","pk":"a","mail":"z","a":1}"#)),
            ErrorKind::Conflict
        );
        assert_eq!(
            error(&bench.upsert(r#"{"id":"3","pk":"a","mail":"x"}"#, None)),
            ErrorKind::Conflict
        );
        bench.upsert(r#"{"id":"1","pk":"a","mail":"free"}"#, None).result.unwrap();
        bench.upsert(r#"{"id":"3","pk":"a","mail":"x","a":7}"#, None).result.unwrap();
        bench.delete("3", r#"["a"]"#).result.unwrap();
        bench.create(r#"{"id":"5","pk":"a","mail":"x","a":7}"#).result.unwrap();
        bench.assert_whole();
    }
}

#[test]
fn expired_items_are_gone_and_their_place_is_free() {
    let bench = Bench::new();
    bench.make_container(
        30_000,
        &format!(
            r#"{KEY_PK},"defaultTtl":100,"uniqueKeyPolicy":{{"uniqueKeys":[{{"paths":["/u"]}}]}}"#
        ),
    );
    bench.create(r#"{"id":"short","pk":"a","ttl":10,"u":1}"#).result.unwrap();
    bench.create(r#"{"id":"default","pk":"a","u":2}"#).result.unwrap();
    bench.create(r#"{"id":"never","pk":"a","ttl":-1,"u":3}"#).result.unwrap();
    for ttl in ["0", "null", "-10", r#""x""#, "1.5"] {
        let doc = format!(r#"{{"id":"bad","pk":"a","ttl":{ttl}}}"#);
        assert_eq!(error(&bench.create(&doc)), ErrorKind::BadRequest, "{ttl}");
    }
    bench.clock.advance_millis(10_000);
    assert_eq!(error(&bench.read("short", r#"["a"]"#)), ErrorKind::NotFound);
    assert_eq!(error(&bench.delete("short", r#"["a"]"#)), ErrorKind::NotFound);
    assert_eq!(bench.list(&Scope::All, 10).len(), 2);
    let claimed = bench.create(r#"{"id":"other","pk":"a","u":1}"#);
    assert_eq!(change(&claimed), Change::Created, "an expired item holds no unique key");
    let renamed = bench.replace("never", r#"["a"]"#, r#"{"id":"short","pk":"a","u":3}"#, None);
    assert_eq!(error(&renamed), ErrorKind::Conflict, "the place is taken until it is cleared");
    assert_eq!(change(&bench.upsert(r#"{"id":"short","pk":"a","u":9}"#, None)), Change::Created);
    bench.delete("short", r#"["a"]"#).result.unwrap();
    bench.create(r#"{"id":"short","pk":"a","ttl":10,"u":9}"#).result.unwrap();
    bench.clock.advance_millis(10_000);
    assert_eq!(change(&bench.create(r#"{"id":"short","pk":"a","u":9}"#)), Change::Created);
    bench.clock.advance_millis(85_000);
    assert_eq!(bench.list(&Scope::All, 10).len(), 3);
    bench.assert_whole();
}

#[test]
fn an_expired_item_whose_unique_key_went_with_another_one_is_no_damage() {
    let bench = Bench::new();
    let unique = r#""uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]}"#;
    bench.make_container(400, &format!(r#"{KEY_PK},"defaultTtl":-1,{unique}"#));
    bench.create(r#"{"id":"short","pk":"a","ttl":10,"u":1}"#).result.unwrap();
    bench.clock.advance_millis(10_000);
    bench.create(r#"{"id":"other","pk":"a","u":1}"#).result.unwrap();
    bench.assert_whole();
    bench.delete("other", r#"["a"]"#).result.unwrap();
    bench.assert_whole();
}

#[test]
fn a_session_never_reads_the_past() {
    for (_, throughput) in PARTITIONS {
        let bench = Bench::new();
        bench.make_container(throughput, KEY_PK);
        let served = bench.create(r#"{"id":"x","pk":"a"}"#).served.unwrap();
        let read = |token: String| {
            let context = Context { session: Some(token), ..Context::default() };
            bench.run_with(
                Op::ReadItem { path: item_path("x", r#"["a"]"#), condition: None },
                &context,
            )
        };
        assert!(read(format!("{}:-1#{}", served.range_id, served.lsn)).result.is_ok());
        let future = read(format!("{}:-1#{}", served.range_id, served.lsn.0 + 1));
        assert_eq!(error(&future), ErrorKind::SessionNotAvailable);
        assert_eq!(error(&read("nonsense".into())), ErrorKind::BadRequest);
    }
}

#[test]
fn items_are_found_by_resource_id_too() {
    for (_, throughput) in PARTITIONS {
        let bench = Bench::new();
        bench.make_container(throughput, KEY_PK);
        let stored = body(&bench.create(r#"{"id":"x","pk":"a"}"#));
        let parts: Vec<String> = text(&stored, "_self").split('/').map(str::to_owned).collect();
        let mut path = item_path("x", r#"["a"]"#);
        path.container.database = parts[1].clone();
        path.container.container = parts[3].clone();
        path.id = parts[5].clone();
        let read = bench.run(Op::ReadItem { path: path.clone(), condition: None });
        assert_eq!(body(&read), stored);
        path.id = "x".into();
        let by_id = bench.run(Op::ReadItem { path, condition: None });
        assert_eq!(body(&by_id), stored);
    }
}

#[test]
fn read_only_callers_read() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    bench.create(r#"{"id":"x","pk":"a"}"#).result.unwrap();
    let context = Context { access: partita_engine::Access::ReadOnly, ..Context::default() };
    let read = Op::ReadItem { path: item_path("x", r#"["a"]"#), condition: None };
    assert!(bench.run_with(read, &context).result.is_ok());
    let write = Op::CreateItem { container: path(), item: item(r#"{"id":"y","pk":"a"}"#, None) };
    assert_eq!(error(&bench.run_with(write, &context)), ErrorKind::Forbidden);
}

#[test]
fn an_item_enters_the_index_whatever_its_write_says_of_that() {
    use partita_engine::{Indexing, NewItem};
    let manual = r#""indexingPolicy":{"indexingMode":"consistent","automatic":false}"#;
    let entries = |fields: &str, indexing| {
        let bench = Bench::new();
        bench.make_container(30_000, fields);
        let item = NewItem { indexing, ..item(r#"{"id":"x","pk":"a","n":1}"#, None) };
        bench.run(Op::CreateItem { container: path(), item }).result.unwrap();
        bench.assert_whole();
        // One entry leads to the item by its resource id; the others are terms and the shape.
        bench.database.check().unwrap().entries - 1
    };
    let manual = format!("{KEY_PK},{manual}");
    assert_eq!(entries(KEY_PK, Indexing::ByPolicy), 5);
    assert_eq!(entries(KEY_PK, Indexing::Exclude), 5);
    assert_eq!(entries(&manual, Indexing::ByPolicy), 5);
    assert_eq!(entries(&manual, Indexing::Include), 5);
}

#[test]
fn a_replace_may_rename_an_item_within_its_partition_key() {
    for (_, throughput) in PARTITIONS {
        let bench = Bench::new();
        let unique = r#""uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]}"#;
        bench.make_container(throughput, &format!("{KEY_PK},{unique}"));
        let first = body(&bench.create(r#"{"id":"old","pk":"a","u":1,"v":[1,2]}"#));
        bench.create(r#"{"id":"taken","pk":"a","u":2}"#).result.unwrap();
        let key = r#"["a"]"#;
        let rename = |id: &str, pk: &str| format!(r#"{{"id":"{id}","pk":"{pk}","u":1,"v":[2,3]}}"#);
        let onto = bench.replace("old", key, &rename("taken", "a"), None);
        assert_eq!(error(&onto), ErrorKind::Conflict);
        let across = bench.replace("old", key, &rename("new", "b"), None);
        assert_eq!(error(&across), ErrorKind::PartitionKeyMismatch);
        let renamed = bench.replace("old", key, &rename("new", "a"), None);
        assert_eq!(change(&renamed), Change::Replaced);
        assert_eq!(text(&body(&renamed), "_rid"), text(&first, "_rid"));
        assert_eq!(error(&bench.read("old", key)), ErrorKind::NotFound);
        assert_eq!(body(&bench.read("new", key)), body(&renamed));
        bench.assert_whole();
    }
}

#[test]
fn a_whole_partition_key_can_be_deleted() {
    use partita_model::PartitionKeyHeader;
    for (_, throughput) in PARTITIONS {
        let bench = Bench::new();
        bench.make_container(throughput, KEY_PK);
        for n in 0..250 {
            bench.create(&format!(r#"{{"id":"i{n}","pk":"big","v":{n}}}"#)).result.unwrap();
            if n % 10 == 0 {
                bench.create(&format!(r#"{{"id":"i{n}","pk":"other"}}"#)).result.unwrap();
            }
        }
        let delete = |key: &str| {
            let partition_key = Some(PartitionKeyHeader::parse(key).unwrap());
            bench.run(Op::DeletePartitionKey { container: path(), partition_key })
        };
        let done = delete(r#"["big"]"#);
        assert!(matches!(done.result, Ok(Outcome::PartitionKeyDeleted)), "{done:?}");
        assert!(done.charge.0 > 250.0 * 5.0);
        assert_eq!(bench.list(&Scope::All, 100).len(), 25);
        assert!(delete(r#"["nothing there"]"#).result.is_ok());
        assert_eq!(error(&delete(r#"["big","too long"]"#)), ErrorKind::PartitionKeyMismatch);
        bench.assert_whole();
    }
}

#[test]
fn small_items_cost_what_they_cost_at_the_service() {
    let uuid = |n: u8| format!("6f9619ff-8b86-d011-b42d-00cf4fc964{n:02x}");
    let item =
        |n: u8| format!(r#"{{"id":"{}","pk":"{}","value":"{}"}}"#, uuid(0), uuid(1), uuid(n));
    for (_, throughput) in PARTITIONS {
        let bench = Bench::new();
        bench.make_container(throughput, KEY_PK);
        let key = format!(r#"["{}"]"#, uuid(1));
        let close = |charge: f64, expected: f64, by: f64, what: &str| {
            assert!((charge - expected).abs() <= by, "{what}: {charge}, not {expected}");
        };
        close(bench.create(&item(2)).charge.0, 6.29, 0.1, "create");
        close(bench.read(&uuid(0), &key).charge.0, 1.0, 0.0, "read");
        bench.clock.advance_millis(2_000);
        let replaced = bench.upsert(&item(3), None).charge.0;
        close(replaced, 10.7, 1.07, "replace");
        close(replaced, 2.0 * 6.29, 1.258, "replace, of two creates");
        close(bench.delete(&uuid(0), &key).charge.0, 6.29, 0.1, "delete");
        let large = |bytes: usize| {
            format!(r#"{{"id":"large","pk":"{}","p":"{}"}}"#, uuid(1), "x".repeat(bytes))
        };
        close(bench.create(&large(900)).charge.0, 6.25, 0.75, "create of 1 KB");
        close(bench.read("large", &key).charge.0, 1.0, 0.0, "read of 1 KB");
        bench.delete("large", &key).result.unwrap();
        close(bench.create(&large(100 * 1_024)).charge.0, 50.0, 5.0, "create of 100 KB");
        close(bench.read("large", &key).charge.0, 10.0, 1.0, "read of 100 KB");
        close(bench.read("nothing", &key).charge.0, 1.0, 0.1, "read of nothing");
        close(bench.create(&large(900)).charge.0, 1.24, 0.0, "create of an id that is taken");
        let other = || if_match("\"another\"");
        close(bench.upsert(&large(900), other()).charge.0, 1.24, 0.0, "upsert of an old version");
        let replaced = bench.replace("large", &key, &large(900), other());
        assert_eq!(error(&replaced), ErrorKind::PreconditionFailed);
        close(replaced.charge.0, 1.24, 0.0, "replace of an old version");
        let delete = Op::DeleteItem { path: item_path("large", &key), condition: other() };
        close(bench.run(delete).charge.0, 1.24, 0.0, "delete of an old version");
        close(bench.delete("nothing", &key).charge.0, 1.0, 0.0, "delete of nothing");
        for n in 0..20 {
            let few = format!(r#"{{"id":"{n}","pk":"few","n":{n}}}"#);
            bench.create(&few).result.unwrap();
        }
        let few = PartitionKeyHeader::parse(r#"["few"]"#).unwrap();
        let query = QueryRequest {
            scope: Scope::PartitionKey(few),
            ..QueryRequest::new("SELECT VALUE COUNT(1) FROM c")
        };
        let counted = bench.run(Op::Query { container: path(), query: Box::new(query) });
        close(counted.charge.0, 3.0, 0.3, "count under a key");
    }
    let bench = Bench::new();
    bench.make_container(400, &format!(r#"{KEY_PK},"indexingPolicy":{{"indexingMode":"none"}}"#));
    assert_eq!(bench.create(&item(2)).charge.0, 5.0, "without an index");
}

#[test]
fn a_time_to_live_that_is_a_number_makes_sense_even_where_nothing_expires() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    for ttl in ["0", "-2", "-10", "0.5", "-0.5", "-1e300"] {
        let doc = format!(r#"{{"id":"bad","pk":"a","ttl":{ttl}}}"#);
        assert_eq!(error(&bench.create(&doc)), ErrorKind::BadRequest, "{ttl}");
        assert_eq!(error(&bench.upsert(&doc, None)), ErrorKind::BadRequest, "{ttl}");
        let there = r#"{"id":"bad","pk":"a"}"#;
        bench.create(there).result.unwrap();
        let replaced = bench.replace("bad", r#"["a"]"#, &doc, None);
        assert_eq!(error(&replaced), ErrorKind::BadRequest, "{ttl}");
        let patch = format!(r#"{{"operations":[{{"op":"set","path":"/ttl","value":{ttl}}}]}}"#);
        let patched = bench.patch("bad", r#"["a"]"#, &patch);
        assert_eq!(error(&patched), ErrorKind::BadRequest, "{ttl}");
        assert_eq!(body(&bench.read("bad", r#"["a"]"#)).get("ttl"), None);
        bench.delete("bad", r#"["a"]"#).result.unwrap();
    }
    for ttl in ["-1", "1", "1.5", "1e300", "null", "true", r#""0""#, "[]", "{}"] {
        let doc = format!(r#"{{"id":"good","pk":"a","ttl":{ttl}}}"#);
        bench.upsert(&doc, None).result.unwrap();
        bench.replace("good", r#"["a"]"#, &doc, None).result.unwrap();
        let patch = format!(r#"{{"operations":[{{"op":"set","path":"/ttl","value":{ttl}}}]}}"#);
        bench.patch("good", r#"["a"]"#, &patch).result.unwrap();
    }
}

//! What a query sees of what is stored, and at which moment.

use partita_engine::{Context, Indexing, QueryRequest, QuerySettings};
use partita_model::ErrorKind;

use super::*;

#[test]
fn expired_items_are_not_seen() {
    for throughput in THROUGHPUTS {
        let bench = Bench::new();
        bench.make_container(throughput, &format!(r#"{KEY_PK},"defaultTtl":10"#));
        for n in 0..20 {
            let ttl = if n % 2 == 0 { r#","ttl":-1"# } else { "" };
            let body = format!(r#"{{"id":"i{n}","pk":{n},"n":{n}{ttl}}}"#);
            bench.create(&body).result.unwrap();
        }
        let texts = ["SELECT * FROM c", "SELECT * FROM c WHERE c.n >= 0 ORDER BY c.n"];
        for (millis, count) in [(0, 20), (11_000, 10)] {
            bench.clock.advance_millis(millis);
            for text in texts {
                for query in [global(text), scan_only(global(text))] {
                    assert_eq!(all(&bench, &query).len(), count, "{text}");
                }
            }
            let counted = all(&bench, &global("SELECT VALUE COUNT(1) FROM c"));
            assert_eq!(counted, [count.to_string()]);
        }
    }
}

#[test]
fn items_that_are_to_stay_out_of_the_index_are_seen() {
    for throughput in THROUGHPUTS {
        for scan_items in [0, 200] {
            let settings = QuerySettings { scan_items, ..QuerySettings::default() };
            let mut bench = Bench::with_queries(settings);
            bench.make_container(throughput, KEY_PK);
            for n in 0..10 {
                let mut new = item(&format!(r#"{{"id":"i{n}","pk":{n},"n":{n}}}"#), None);
                if n % 2 == 0 {
                    new.indexing = Indexing::Exclude;
                }
                bench.run(Op::CreateItem { container: path(), item: new }).result.unwrap();
            }
            bench.patch("i4", "[4]", r#"[{"op":"set","path":"/n","value":40}]"#).result.unwrap();
            for _ in 0..2 {
                for (text, rows) in [
                    ("SELECT * FROM c", 10),
                    ("SELECT * FROM c WHERE c.n < 100", 10),
                    ("SELECT * FROM c WHERE c.n = 40", 1),
                    ("SELECT * FROM c ORDER BY c.n", 10),
                    ("SELECT DISTINCT VALUE c.n FROM c", 10),
                    ("SELECT c.n, COUNT(1) AS k FROM c GROUP BY c.n", 10),
                ] {
                    for query in [global(text), scan_only(global(text))] {
                        assert_eq!(all(&bench, &query).len(), rows, "{text}");
                    }
                }
                assert_eq!(all(&bench, &global("SELECT VALUE COUNT(1) FROM c")), ["10"]);
                assert_eq!(all(&bench, &global("SELECT VALUE MAX(c.n) FROM c")), ["40"]);
                bench.assert_whole();
                bench = bench.reopened();
            }
        }
    }
}

#[test]
fn a_container_without_index_is_scanned() {
    let bench = Bench::new();
    let policy = r#""indexingPolicy":{"indexingMode":"none","automatic":false}"#;
    bench.make_container(30_000, &format!("{KEY_PK},{policy}"));
    for n in 0..10 {
        bench.create(&format!(r#"{{"id":"i{n}","pk":{n},"n":{n}}}"#)).result.unwrap();
    }
    assert_eq!(all(&bench, &global("SELECT * FROM c WHERE c.n < 7")).len(), 7);
    // As the service has it: there is no order without an index.
    let ordered = run(&bench, global("SELECT VALUE c.n FROM c ORDER BY c.n DESC"));
    assert_eq!(error(&ordered), ErrorKind::BadRequest);
}

#[test]
fn a_session_never_sees_an_older_state() {
    let bench = filled(400);
    let ahead = Context { session: Some("0:-1#1000000".into()), ..Context::default() };
    let op = || Op::Query { container: path(), query: Box::new(global("SELECT * FROM c")) };
    assert_eq!(error(&bench.run_with(op(), &ahead)), ErrorKind::SessionNotAvailable);
    let seen = Context { session: Some("0:-1#60".into()), ..Context::default() };
    let reply = bench.run_with(op(), &seen);
    assert!(reply.served.unwrap().lsn.0 >= 60);
    assert!(reply.result.is_ok());
}

#[test]
fn a_container_that_was_made_again_is_not_the_one_that_is_meant() {
    let bench = filled(400);
    let context =
        Context { intended_container_rid: Some("AAAAAIAAAAA=".into()), ..Context::default() };
    let op = Op::Query { container: path(), query: Box::new(global("SELECT * FROM c")) };
    let reply = bench.run_with(op, &context);
    assert_eq!(error(&reply), ErrorKind::ContainerRidMismatch);
}

#[test]
fn the_time_that_a_query_began_stays_the_same_on_all_pages() {
    let bench = filled(400);
    let query = global("SELECT VALUE GetCurrentTimestampStatic() FROM c");
    let first = PageRequest { items_max: Some(1), continuation: None };
    let one = page(&bench, QueryRequest { page: first, ..query.clone() });
    bench.clock.advance_millis(5_000);
    let next = PageRequest { items_max: Some(1), continuation: one.continuation };
    let two = page(&bench, QueryRequest { page: next, ..query });
    assert_eq!(one.rows, two.rows);
}

#[test]
fn computed_properties_are_properties() {
    let bench = Bench::new();
    let computed =
        r#""computedProperties":[{"name":"twice","query":"SELECT VALUE c.n * 2 FROM c"}]"#;
    bench.make_container(30_000, &format!("{KEY_PK},{computed}"));
    for n in 0..10 {
        bench.create(&format!(r#"{{"id":"i{n}","pk":{n},"n":{n}}}"#)).result.unwrap();
    }
    let found = all(&bench, &global("SELECT VALUE c.twice FROM c WHERE c.twice > 10 ORDER BY c.n"));
    assert_eq!(found, ["12", "14", "16", "18"]);
}

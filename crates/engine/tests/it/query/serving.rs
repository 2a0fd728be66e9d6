//! What the server answers, what it leaves to the client, and what it refuses.

use partita_engine::{PlanQueryRequest, QueryRequest};
use partita_model::ErrorKind;

use super::*;

const MERGED: [&str; 7] = [
    "SELECT * FROM c ORDER BY c.n",
    "SELECT TOP 3 * FROM c",
    "SELECT * FROM c OFFSET 1 LIMIT 3",
    "SELECT DISTINCT c.m FROM c",
    "SELECT c.m, COUNT(1) AS n FROM c GROUP BY c.m",
    "SELECT VALUE COUNT(1) FROM c",
    "SELECT MAX(c.n) FROM c WHERE c.pk = 'k1'",
];

#[test]
fn what_a_client_must_merge_goes_back_with_its_plan_however_few_partitions_there_are() {
    for throughput in THROUGHPUTS {
        let bench = filled(throughput);
        for text in MERGED {
            let reply = run(&bench, as_service(text));
            let ErrorKind::NotServedDirectly { plan } = error(&reply) else { panic!("{text}") };
            assert!(json(&plan).get("queryInfo").is_some(), "{plan}");
        }
    }
}

#[test]
fn a_filter_that_names_one_key_is_answered_whole_but_for_aggregates_other_than_counts() {
    for throughput in THROUGHPUTS {
        let bench = filled(throughput);
        for text in [
            "SELECT * FROM c WHERE c.pk = 'k1' ORDER BY c.id",
            "SELECT * FROM c WHERE c.n > 1 AND c.pk = 'k1' ORDER BY c.n DESC",
            "SELECT c.id, t FROM c JOIN t IN c.tags WHERE c.pk = 'k1' ORDER BY c.n",
            "SELECT TOP 3 * FROM c WHERE c.pk = 'k1' ORDER BY c.n",
            "SELECT VALUE c.n FROM c WHERE c.pk = 'k1' ORDER BY c.n OFFSET 1 LIMIT 3",
            "SELECT DISTINCT c.m FROM c WHERE c.pk = 'k1'",
            "SELECT c.m, COUNT(1) AS n FROM c WHERE c.pk = 'k1' GROUP BY c.m",
            "SELECT c.m FROM c WHERE c.pk = 'k1' GROUP BY c.m",
            "SELECT VALUE COUNT(1) FROM c WHERE c.pk = 'k1'",
            "SELECT VALUE COUNT(c.a) FROM c WHERE c.pk = 'k1'",
            "SELECT VALUE COUNT(1) FROM c WHERE c.pk = 'nobody'",
        ] {
            for cross_partition in [true, false] {
                let query = QueryRequest { cross_partition, ..as_service(text) };
                let found = all_in_pages(&bench, &query, 2);
                assert_eq!(sorted(found.clone()), sorted(expected(&bench, text)), "{text}");
                if text.contains("ORDER BY") {
                    assert_eq!(found, expected(&bench, text), "{text}");
                }
            }
        }
        for text in [
            "SELECT MAX(c.n) FROM c WHERE c.pk = 'k1'",
            "SELECT VALUE SUM(c.n) FROM c WHERE c.pk = 'k1'",
            "SELECT COUNT(1) FROM c WHERE c.pk = 'k1'",
            "SELECT VALUE COUNTIF(c.n > 3) FROM c WHERE c.pk = 'k1'",
            "SELECT c.m, AVG(c.n) AS a FROM c WHERE c.pk = 'k1' GROUP BY c.m",
            "SELECT * FROM c WHERE c.pk IN ('k1', 'k2') ORDER BY c.id",
            "SELECT * FROM c WHERE c.pk != 'k1' ORDER BY c.id",
            "SELECT * FROM c WHERE c.pk = 'k1' OR c.n = 1 ORDER BY c.id",
        ] {
            let kind = error(&run(&bench, as_service(text)));
            assert!(matches!(kind, ErrorKind::NotServedDirectly { .. }), "{text}: {kind:?}");
        }
    }
}

#[test]
fn all_values_of_a_hierarchical_key_make_one_key() {
    let bench = Bench::new();
    let key = r#""partitionKey":{"paths":["/t","/u"],"kind":"MultiHash","version":2}"#;
    bench.make_container(30_000, key);
    for n in 0..20 {
        let body = format!(r#"{{"id":"i{n}","t":"t{}","u":{},"n":{n}}}"#, n % 2, n % 5);
        bench.create(&body).result.unwrap();
    }
    let one = "SELECT VALUE c.n FROM c WHERE c.t = 't1' AND c.u = 3 ORDER BY c.n DESC";
    assert_eq!(all(&bench, &as_service(one)), ["13", "3"]);
    let begin = "SELECT VALUE c.n FROM c WHERE c.t = 't1' ORDER BY c.n DESC";
    let kind = error(&run(&bench, as_service(begin)));
    assert!(matches!(kind, ErrorKind::NotServedDirectly { .. }), "{kind:?}");
}

#[test]
fn an_order_of_what_a_join_or_a_subquery_makes_is_refused() {
    for throughput in THROUGHPUTS {
        let bench = filled(throughput);
        for text in [
            "SELECT VALUE t FROM c JOIN t IN c.tags ORDER BY t",
            "SELECT VALUE t FROM c JOIN t IN c.tags ORDER BY c.m, t",
            "SELECT VALUE t FROM c JOIN t IN c.tags ORDER BY t, c.m DESC",
            "SELECT VALUE t FROM t IN c.tags ORDER BY t.x",
            "SELECT VALUE s FROM c JOIN (SELECT VALUE c.n) s ORDER BY s",
            "SELECT VALUE s FROM c JOIN (SELECT c.n AS k, c.m) s ORDER BY s.m, s.k",
        ] {
            for query in [global(text), scan_only(global(text))] {
                assert_eq!(error(&run(&bench, query)), ErrorKind::BadRequest, "{text}");
            }
        }
        for text in [
            "SELECT c.id, t FROM c JOIN t IN c.tags ORDER BY c.n",
            "SELECT c.id, t FROM c JOIN t IN c.tags ORDER BY c.m, c.n DESC",
            "SELECT c.id, s FROM c JOIN (SELECT VALUE c.n) s ORDER BY c.n DESC",
        ] {
            assert_eq!(all(&bench, &global(text)), expected(&bench, text), "{text}");
        }
    }
}

#[test]
fn the_only_range_is_answered_like_the_whole() {
    let bench = filled(400);
    for text in MERGED {
        let whole = QueryRequest { scope: range(0), ..as_service(text) };
        assert_eq!(sorted(all(&bench, &whole)), sorted(all(&bench, &global(text))));
    }
}

#[test]
fn a_partition_key_or_a_range_is_answered_whole() {
    let bench = filled(30_000);
    for text in MERGED {
        for scope in [key(r#"["k1"]"#), range(2)] {
            assert!(run(&bench, QueryRequest { scope, ..as_service(text) }).result.is_ok());
        }
    }
    let counted = |scope| {
        let query = as_service("SELECT VALUE COUNT(1) FROM c");
        all(&bench, &QueryRequest { scope, ..query })[0].parse::<u64>().unwrap()
    };
    assert_eq!((0..5).map(|id| counted(range(id))).sum::<u64>(), 60);
    assert_eq!(counted(key(r#"["k1"]"#)), 5);
}

#[test]
fn rows_of_several_partitions_come_one_after_another() {
    for throughput in THROUGHPUTS {
        let bench = filled(throughput);
        let query = as_service("SELECT c.id FROM c WHERE c.n >= 10");
        assert_eq!(all_in_pages(&bench, &query, 7).len(), 50);
    }
}

#[test]
fn a_query_over_all_keys_must_be_allowed() {
    for throughput in THROUGHPUTS {
        let bench = filled(throughput);
        let closed = |text| QueryRequest { cross_partition: false, ..as_service(text) };
        for scope in [Scope::All, key("[]")] {
            let query = QueryRequest { scope, ..closed("SELECT * FROM c WHERE c.n = 1") };
            let reply = run(&bench, query);
            assert_eq!(error(&reply), ErrorKind::BadRequest);
            let message = reply.result.unwrap_err().message;
            assert!(message.starts_with("Cross partition query is required but disabled."));
        }
        for text in
            ["SELECT * FROM c WHERE c.pk = 'k1'", "SELECT * FROM c WHERE c.pk = 'k1' AND c.n > 0"]
        {
            assert_eq!(all(&bench, &closed(text)).len(), 5, "the filter names one key");
        }
        let two = closed("SELECT * FROM c WHERE c.pk IN ('k1', 'k2')");
        assert_eq!(error(&run(&bench, two)), ErrorKind::BadRequest);
        for scope in [key(r#"["k1"]"#), range(0)] {
            let query = QueryRequest { scope, ..closed("SELECT * FROM c") };
            assert!(run(&bench, query).result.is_ok());
        }
    }
}

#[test]
fn a_plan_is_made_without_a_look_at_the_items() {
    let bench = filled(30_000);
    let request = |text: &str, features: Option<&str>| Op::PlanQuery {
        container: path(),
        query: Box::new(PlanQueryRequest {
            text: text.into(),
            parameters: Vec::new(),
            features: features.map(str::to_owned),
            partition_key: None,
        }),
    };
    let reply = bench.run(request("SELECT * FROM c ORDER BY c.n", Some("OrderBy")));
    let Ok(Outcome::Plan { plan }) = reply.result else { panic!("{reply:?}") };
    assert!(plan.get("queryInfo").is_some() && plan.get("queryRanges").is_some());
    let reply = bench.run(request("SELECT VALUE COUNT(1) FROM c", Some("OrderBy")));
    assert_eq!(error(&reply), ErrorKind::PlanNotSupported, "the client does not know aggregates");
    let reply = bench.run(request("SELEC", None));
    assert_eq!(error(&reply), ErrorKind::BadRequest);
}

#[test]
fn what_is_no_query_is_refused() {
    let bench = filled(400);
    for text in ["", "SELEC * FROM c", "SELECT * FROM c WHERE", "SELECT NoSuchFunction(c) FROM c"] {
        assert_eq!(error(&run(&bench, global(text))), ErrorKind::BadRequest, "{text}");
    }
    let mut nowhere = path();
    nowhere.container = "nobody".into();
    let op = Op::Query { container: nowhere, query: Box::new(global("SELECT * FROM c")) };
    assert_eq!(error(&bench.run(op)), ErrorKind::OwnerNotFound);
}

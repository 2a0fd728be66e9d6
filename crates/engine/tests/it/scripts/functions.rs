//! User-defined functions in queries.

use partita_engine::{PageRequest, PlanHint, QueryRequest};
use partita_model::ErrorKind;

use super::*;

fn query(bench: &Bench, text: &str, plan_hint: PlanHint) -> Result<Vec<String>, ErrorKind> {
    let (mut all, mut continuation) = (Vec::new(), None);
    loop {
        let page = PageRequest { items_max: Some(3), continuation };
        let query = Box::new(QueryRequest { page, plan_hint, ..QueryRequest::new(text) });
        match bench.run(Op::Query { container: path(), query }).result {
            Ok(Outcome::Query { rows, continuation: next, .. }) => {
                all.extend(rows);
                continuation = next;
                if continuation.is_none() {
                    return Ok(all);
                }
            }
            Ok(other) => panic!("no page: {other:?}"),
            Err(error) => return Err(error.kind),
        }
    }
}

#[test]
fn queries_call_functions_wherever_an_expression_stands() {
    for (_, throughput) in PARTITIONS {
        let (bench, _) = scripted(unthrottled());
        bench.make_container(throughput, KEY_PK);
        for n in 0..12 {
            bench.create(&format!(r#"{{"id":"{n}","pk":"k{n}","n":{n}}}"#)).result.unwrap();
        }
        bench.create(r#"{"id":"none","pk":"a"}"#).result.unwrap();
        script(create(&bench, ScriptKind::Function, "inc", r#"["add",1]"#));
        for (text, expected) in [
            ("SELECT VALUE udf.inc(c.n) FROM c WHERE c.n < 2", vec!["1", "2"]),
            ("SELECT VALUE c.n FROM c WHERE udf.inc(c.n) > 11", vec!["11"]),
            ("SELECT VALUE c.n FROM c WHERE udf.inc(c.n) > 9 AND c.n < 11", vec!["10", "9"]),
            ("SELECT VALUE c.n FROM c WHERE udf.inc(c.n) = 1 OR c.n = 5", vec!["0", "5"]),
            ("SELECT VALUE c.n FROM c WHERE NOT (udf.inc(c.n) > 2)", vec!["0", "1"]),
            ("SELECT VALUE COUNT(1) FROM c WHERE udf.inc(c.n) > 6", vec!["6"]),
            ("SELECT VALUE MAX(udf.inc(c.n)) FROM c", vec!["12"]),
            ("SELECT VALUE c.n FROM c WHERE udf.inc(c.n) > 9 ORDER BY c.n", vec!["9", "10", "11"]),
            ("SELECT VALUE udf.inc(1)", vec!["2"]),
        ] {
            for hint in [PlanHint::Best, PlanHint::ScanOnly] {
                let mut rows = query(&bench, text, hint).unwrap();
                if !text.contains("ORDER BY") {
                    rows.sort();
                }
                assert_eq!(rows, expected, "{text}");
            }
        }
    }
}

#[test]
fn what_functions_compute_is_charged() {
    let (bench, _) = scripted(unthrottled());
    bench.make_container(400, KEY_PK);
    for n in 0..10 {
        bench.create(&format!(r#"{{"id":"{n}","pk":"k","n":{n}}}"#)).result.unwrap();
    }
    script(create(&bench, ScriptKind::Function, "brief", r#"["compute",0]"#));
    script(create(&bench, ScriptKind::Function, "long", r#"["compute",7]"#));
    let charge = |text: &str| {
        let query = Box::new(QueryRequest::new(text));
        let reply = bench.run(Op::Query { container: path(), query });
        reply.result.unwrap();
        reply.charge.0
    };
    for (text, calls) in [
        ("SELECT VALUE udf.NAME(c.n) FROM c", 10.0),
        ("SELECT VALUE COUNT(1) FROM c WHERE udf.NAME(c.n) > 6", 10.0),
        ("SELECT VALUE udf.NAME(1)", 1.0),
    ] {
        let [brief, long] = ["brief", "long"].map(|name| charge(&text.replace("NAME", name)));
        assert!((long - brief - calls * 7.0).abs() < 0.02, "{text}: {brief} and {long}");
    }
}

#[test]
fn a_query_that_calls_what_is_not_there_or_fails_is_refused() {
    let (bench, _) = scripted(unthrottled());
    bench.make_container(30_000, KEY_PK);
    bench.create(r#"{"id":"1","pk":"a","n":1}"#).result.unwrap();
    script(create(&bench, ScriptKind::Function, "fail", r#"["fail"]"#));
    let refused = |text| query(&bench, text, PlanHint::Best).unwrap_err();
    assert_eq!(refused("SELECT VALUE udf.nobody(c.n) FROM c"), ErrorKind::BadRequest);
    assert_eq!(refused("SELECT VALUE udf.fail(c.n) FROM c"), ErrorKind::BadRequest);
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    let without = query(&bench, "SELECT VALUE udf.f(c.n) FROM c", PlanHint::Best);
    assert_eq!(without.unwrap_err(), ErrorKind::Unsupported);
}

#[test]
fn a_function_that_is_not_there_is_missed_when_it_is_called() {
    for (_, throughput) in PARTITIONS {
        let (bench, _) = scripted(unthrottled());
        bench.make_container(throughput, KEY_PK);
        script(create(&bench, ScriptKind::Function, "inc", r#"["add",1]"#));
        let texts = [
            "SELECT VALUE udf.nobody(c.n) FROM c",
            "SELECT * FROM c WHERE udf.nobody(c.n) > udf.inc(1)",
            "SELECT VALUE c.n FROM c WHERE udf.nobody(c.n) ORDER BY c.n",
        ];
        for hint in [PlanHint::Best, PlanHint::ScanOnly] {
            for text in texts {
                assert_eq!(query(&bench, text, hint), Ok(vec![]), "{text}");
            }
        }
        let without_items = query(&bench, "SELECT VALUE udf.nobody(1)", PlanHint::Best);
        assert_eq!(without_items, Err(ErrorKind::BadRequest));
        bench.create(r#"{"id":"1","pk":"a","n":1}"#).result.unwrap();
        for text in texts {
            let called = query(&bench, text, PlanHint::Best);
            assert_eq!(called, Err(ErrorKind::BadRequest), "{text}");
        }
        let none_pass = "SELECT VALUE udf.nobody(c.n) FROM c WHERE c.n > udf.inc(1)";
        assert_eq!(query(&bench, none_pass, PlanHint::Best), Ok(vec![]));
    }
}

#[test]
fn queries_inside_procedures_call_functions_too() {
    let (bench, _) = scripted(unthrottled());
    bench.make_container(30_000, KEY_PK);
    script(create(&bench, ScriptKind::Function, "inc", r#"["add",1]"#));
    let source = r#"[["create",{"id":"1","pk":"a","n":1}],
        ["query","SELECT VALUE udf.inc(c.n) FROM c",5]]"#;
    assert_eq!(answer(&run(&bench, source)).to_json(), "[[2]]");
}

#[test]
fn a_function_that_takes_too_long_again_and_again_is_not_called_for_a_while() {
    for (blocks, throughput) in [(true, 400), (true, 30_000), (false, 400)] {
        let mut settings = unthrottled();
        settings.scripts.blocks = blocks;
        let (bench, _) = scripted(settings);
        bench.make_container(throughput, KEY_PK);
        script(create(&bench, ScriptKind::Function, "slow", r#"["too long"]"#));
        script(create(&bench, ScriptKind::Function, "inc", r#"["add",1]"#));
        let of_none = "SELECT VALUE udf.slow(c.n) FROM c";
        for _ in 0..4 {
            assert_eq!(query(&bench, of_none, PlanHint::Best), Ok(vec![]), "it was not called");
        }
        for n in 0..12 {
            bench.create(&format!(r#"{{"id":"{n}","pk":"k{n}","n":{n}}}"#)).result.unwrap();
        }
        let text = "SELECT VALUE udf.slow(c.n) FROM c WHERE udf.inc(c.n) > 0";
        for _ in 0..3 {
            let called = query(&bench, text, PlanHint::Best);
            assert_eq!(called, Err(ErrorKind::Timeout), "one page overruns once: {throughput}");
            bench.clock.advance_millis(60_000);
        }
        let refused = if blocks { ErrorKind::Forbidden } else { ErrorKind::Timeout };
        assert_eq!(query(&bench, text, PlanHint::Best), Err(refused));
        let others =
            query(&bench, "SELECT VALUE udf.inc(c.n) FROM c WHERE c.n = 1", PlanHint::Best);
        assert_eq!(others.unwrap(), ["2"]);
        bench.clock.advance_millis(4 * 60_000);
        assert_eq!(query(&bench, text, PlanHint::Best), Err(ErrorKind::Timeout), "it may again");
    }
}

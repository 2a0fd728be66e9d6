//! A continuation is good for its query and for nothing else, and survives a restart.

use partita_engine::{PageRequest, QueryRequest};
use partita_model::{ErrorKind, Value};

use super::*;

fn continued(query: QueryRequest, token: &str) -> QueryRequest {
    let page = PageRequest { items_max: Some(5), continuation: Some(token.into()) };
    QueryRequest { page, ..query }
}

fn first_token(bench: &Bench, query: &QueryRequest) -> String {
    let first = PageRequest { items_max: Some(5), continuation: None };
    page(bench, QueryRequest { page: first, ..query.clone() }).continuation.unwrap()
}

fn texts() -> [&'static str; 4] {
    [
        "SELECT * FROM c",
        "SELECT * FROM c ORDER BY c.a DESC",
        "SELECT DISTINCT c.n FROM c",
        "SELECT c.n, COUNT(1) AS k FROM c GROUP BY c.n",
    ]
}

#[test]
fn a_token_is_short_and_fit_for_a_header() {
    let bench = filled(30_000);
    for text in texts() {
        let token = first_token(&bench, &global(text));
        assert!(token.len() < 256, "{token}");
        assert!(token.bytes().all(|byte| byte.is_ascii_graphic()), "{token}");
    }
}

#[test]
fn a_changed_token_is_refused() {
    let bench = filled(30_000);
    for text in texts() {
        let token = first_token(&bench, &global(text));
        for at in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            let reply = run(&bench, continued(global(text), &changed));
            assert_eq!(error(&reply), ErrorKind::BadRequest, "{changed}");
            assert!(reply.result.unwrap_err().message.contains("Invalid Continuation Token"));
        }
        for junk in ["", "Q2.", "junk", "P1.AAAA", "Q1.AAAA", "Q2.AAAA", "\u{e4}", &token[..20]] {
            let reply = run(&bench, continued(global(text), junk));
            assert_eq!(error(&reply), ErrorKind::BadRequest, "{junk}");
        }
    }
}

#[test]
fn a_place_in_an_order_is_one_under_another_filter_too() {
    let bench = filled(30_000);
    let ordered = |filter: &str, order: &str| {
        global(&format!("SELECT VALUE c.id FROM c WHERE {filter} ORDER BY {order}"))
    };
    let query = ordered("true", "c.id DESC");
    let token = first_token(&bench, &query);
    let rest = page(&bench, continued(query.clone(), &token)).rows;
    let last: Vec<String> = page(&bench, query).rows.into_iter().take(5).collect();
    let seen = last.last().unwrap().replace('"', "'");
    let other = ordered(&format!("c.id <= {seen}"), "c.id DESC");
    assert_eq!(page(&bench, continued(other, &token)).rows, rest);
    let same_order = "SELECT VALUE t FROM c JOIN t IN c.tags ORDER BY c.id DESC";
    for other in [ordered("true", "c.id ASC"), ordered("true", "c.a DESC"), global(same_order)] {
        assert_eq!(error(&run(&bench, continued(other, &token))), ErrorKind::BadRequest);
    }
}

#[test]
fn a_place_among_the_rows_of_a_join_is_one_under_another_filter_too() {
    for throughput in THROUGHPUTS {
        let bench = filled(throughput);
        let joined = |filter: &str, order: &str| {
            global(&format!(
                "SELECT c.m, c.id, t, u FROM c JOIN t IN c.tags JOIN u IN c.tags WHERE {filter} \
                 ORDER BY {order}"
            ))
        };
        for (order, at_or_behind) in [("c.m", ">="), ("c.m DESC", "<=")] {
            let whole = all(&bench, &joined("t != 't1'", order));
            // Pages end in the middle of an item's rows, and of the items with one value.
            for rows_max in [1, 2, 3, 7] {
                let (mut rows, mut query) = (Vec::new(), joined("t != 't1'", order));
                loop {
                    query.page.items_max = Some(rows_max);
                    let got = page(&bench, query);
                    rows.extend(got.rows);
                    let Some(token) = got.continuation else { break };
                    let last = json(rows.last().unwrap()).get("m").unwrap().to_json();
                    let resumed = format!("(t != 't1') AND (c.m {at_or_behind} {last})");
                    query = continued(joined(&resumed, order), &token);
                }
                assert_eq!(rows, whole, "{order}, {rows_max} on a page");
            }
            // Rows are counted as FROM makes them: a filter that leaves fewer skips none.
            let mut wide = all(&bench, &joined("true", order));
            let is_same = |row: &String| text(&json(row), "t") == text(&json(row), "u");
            let inside = 1 + wide.iter().position(|row| !is_same(row)).unwrap();
            let mut first = joined("true", order);
            first.page.items_max = Some(inside);
            let got = page(&bench, first);
            let token = got.continuation.unwrap();
            let last = json(&got.rows[inside - 1]);
            let narrow = format!("t = u OR c.id != '{}'", text(&last, "id"));
            wide.drain(..inside);
            let kept = |row: &&String| is_same(row) || text(&json(row), "id") != text(&last, "id");
            let expected: Vec<&String> = wide.iter().filter(kept).collect();
            let rest = page(&bench, continued(joined(&narrow, order), &token)).rows;
            assert!(rest.len() > 3 && expected.len() < wide.len(), "{order}");
            assert_eq!(rest.iter().collect::<Vec<_>>(), expected[..rest.len()], "{order}");
            // Another FROM makes other rows.
            let other = global(&format!("SELECT t FROM c JOIN t IN c.tags ORDER BY {order}"));
            assert_eq!(error(&run(&bench, continued(other, &token))), ErrorKind::BadRequest);
        }
    }
}

#[test]
fn a_token_is_good_for_its_query_only() {
    let bench = filled(30_000);
    bench.create_container("other", 30_000, KEY_PK).result.unwrap();
    let query = QueryRequest {
        parameters: vec![("@n".into(), Value::from(3i64))],
        ..global("SELECT * FROM c WHERE c.n > @n")
    };
    let token = first_token(&bench, &query);
    let others = [
        QueryRequest { text: "SELECT * FROM c WHERE c.n >= @n".into(), ..query.clone() },
        QueryRequest { parameters: vec![("@n".into(), Value::from(4i64))], ..query.clone() },
        QueryRequest { scope: key(r#"["k1"]"#), ..query.clone() },
        QueryRequest { scope: range(0), ..query.clone() },
        QueryRequest { serving: Serving::AsService, ..query.clone() },
    ];
    for other in others {
        assert_eq!(error(&run(&bench, continued(other, &token))), ErrorKind::BadRequest);
    }
    let mut elsewhere = path();
    elsewhere.container = "other".into();
    let op = Op::Query { container: elsewhere, query: Box::new(continued(query.clone(), &token)) };
    assert_eq!(error(&bench.run(op)), ErrorKind::BadRequest);
    assert!(run(&bench, continued(query, &token)).result.is_ok());
}

#[test]
fn a_token_is_good_for_one_partition_key() {
    let bench = filled(30_000);
    let of = |scope| QueryRequest { scope, ..as_service("SELECT * FROM c") };
    let first = PageRequest { items_max: Some(1), continuation: None };
    let one = page(&bench, QueryRequest { page: first, ..of(key(r#"["k1"]"#)) });
    let token = one.continuation.unwrap();
    assert!(run(&bench, continued(of(key(r#"["k1"]"#)), &token)).result.is_ok());
    let other = run(&bench, continued(of(key(r#"["k2"]"#)), &token));
    assert_eq!(error(&other), ErrorKind::BadRequest);
}

#[test]
fn the_token_of_a_range_is_good_for_the_key_that_is_all_of_it() {
    for throughput in THROUGHPUTS {
        let bench = filled(throughput);
        let of = |scope| QueryRequest { scope, ..as_service("SELECT VALUE c.id FROM c") };
        let two = |query| {
            let first = PageRequest { items_max: Some(2), continuation: None };
            page(&bench, QueryRequest { page: first, ..query }).continuation.unwrap()
        };
        let whole = all(&bench, &of(key(r#"["k1"]"#)));
        let read = bench.run(Op::ReadContainer { container: path(), condition: None });
        let container = read.container.unwrap();
        let header = PartitionKeyHeader::parse(r#"["k1"]"#).unwrap();
        let epks = container.definition.partition_key.range_of(&header).unwrap();
        let token = two(of(Scope::Epks(epks.clone())));
        let rest = page(&bench, continued(of(key(r#"["k1"]"#)), &token)).rows;
        assert_eq!(rest, whole.iter().skip(2).cloned().collect::<Vec<_>>());
        let ordered =
            |scope| QueryRequest { scope, ..as_service("SELECT VALUE c.id FROM c ORDER BY c.id") };
        let token_in_order = two(ordered(Scope::Epks(epks.clone())));
        let rest = page(&bench, continued(ordered(key(r#"["k1"]"#)), &token_in_order)).rows;
        let whole = all(&bench, &ordered(key(r#"["k1"]"#)));
        assert_eq!(rest, whole.iter().skip(2).cloned().collect::<Vec<_>>());
        for other in [key(r#"["k2"]"#), Scope::All] {
            let reply = run(&bench, continued(of(other), &token));
            assert_eq!(error(&reply), ErrorKind::BadRequest);
        }
        let partition = container.partitions.iter().find(|p| p.epks.overlaps(&epks)).unwrap();
        let wide = two(of(range(partition.range_id as usize)));
        let reply = run(&bench, continued(of(key(r#"["k1"]"#)), &wide));
        assert_eq!(error(&reply), ErrorKind::BadRequest, "it says nothing of this key");
    }
}

#[test]
fn a_query_goes_on_after_a_restart() {
    for throughput in THROUGHPUTS {
        for text in texts() {
            let mut bench = filled(throughput);
            let query = global(text);
            let whole = all(&bench, &query);
            let mut rows = Vec::new();
            let mut continuation = None;
            loop {
                let next = PageRequest { items_max: Some(17), continuation };
                let got = page(&bench, QueryRequest { page: next, ..query.clone() });
                rows.extend(got.rows);
                continuation = got.continuation;
                if continuation.is_none() {
                    break;
                }
                bench = bench.reopened();
            }
            assert_eq!(rows, whole, "{text}");
        }
    }
}

#[test]
fn a_token_of_a_range_is_good_for_the_ranges_that_it_became() {
    // What a split does to clients: the token of the whole is used with each of the parts. Here
    // the parts are EPK ranges within one partition.
    let bench = filled(400);
    let half = |min: &str, max: &str| {
        let epk = |hex: &str| partita_model::Epk::parse_hex(hex).unwrap();
        let within = Some(partita_model::EpkRange::new(epk(min), epk(max)));
        Scope::Range { id: "0".into(), within }
    };
    for text in texts() {
        let query = QueryRequest { scope: range(0), ..as_service(text) };
        let first = PageRequest { items_max: Some(5), continuation: None };
        let start = page(&bench, QueryRequest { page: first, ..query.clone() });
        let mut rows = start.rows;
        let token = start.continuation.unwrap();
        for scope in [half("", "20"), half("20", "FF")] {
            let mut continuation = Some(token.clone());
            while continuation.is_some() {
                let next = PageRequest { items_max: Some(3), continuation };
                let part = QueryRequest { scope: scope.clone(), page: next, ..query.clone() };
                let got = page(&bench, part);
                rows.extend(got.rows);
                continuation = got.continuation;
            }
        }
        assert_eq!(sorted(rows), sorted(all(&bench, &query)), "{text}");
    }
}

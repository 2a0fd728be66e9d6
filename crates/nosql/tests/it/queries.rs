//! Queries over items, as clients send them: to one logical partition, to the whole container, and
//! as parts to one partition after the other, on containers of one and of five partitions.

use partita_model::Value;

use crate::support::{Answer, Ask, PARTITIONS, World};

const DOCS: &str = "/dbs/d/colls/c/docs";
const CROSS: &str = "x-ms-documentdb-query-enablecrosspartition";
const PLAN: &str = "x-ms-cosmos-is-query-plan-request";
const FEATURES: &str = "x-ms-cosmos-supported-query-features";
const RANGE: &str = "x-ms-documentdb-partitionkeyrangeid";
const CONTINUATION: &str = "x-ms-continuation";
const ITEMS: usize = 40;

/// Forty items under eight keys: item `i7` has n = 7 and lies under `k7`.
fn filled(throughput: &str) -> World {
    let world = World::with_container(throughput);
    for n in 0..ITEMS {
        let key = n % 8;
        let body = format!(
            r#"{{"id":"i{n}","pk":"k{key}","n":{n},"even":{},"tags":["t{}","all"]}}"#,
            n % 2 == 0,
            n % 3
        );
        world.post(DOCS, &body).key(&format!(r#"["k{key}"]"#)).expect(201);
    }
    world
}

/// A query with its parameters as JSON.
fn query<'w>(world: &'w World, text: &str, parameters: &str) -> Ask<'w> {
    let mut body = String::from("{\"query\":");
    partita_model::write_string(&mut body, text);
    body += &format!(",\"parameters\":{parameters}}}");
    world
        .post(DOCS, &body)
        .header("content-type", "application/query+json")
        .header("x-ms-documentdb-isquery", "True")
}

/// A query over the whole container.
fn cross<'w>(world: &'w World, text: &str) -> Ask<'w> {
    query(world, text, "[]").header(CROSS, "True")
}

/// What a client asks before it runs a query in parts.
fn plan<'w>(world: &'w World, text: &str) -> Ask<'w> {
    query(world, text, "null").without("x-ms-documentdb-isquery").header(PLAN, "True")
}

#[track_caller]
fn rows(answer: &Answer) -> String {
    let rows: Vec<String> = answer.feed("Documents").iter().map(Value::to_json).collect();
    rows.join(" ")
}

/// The pages of a query, each with the rows that came.
#[track_caller]
fn pages<'w>(ask: impl Fn() -> Ask<'w>, size: &str) -> Vec<Vec<Value>> {
    let mut pages = Vec::new();
    let mut continuation: Option<String> = None;
    loop {
        let mut asked = ask().header("x-ms-max-item-count", size);
        if let Some(continuation) = &continuation {
            asked = asked.header(CONTINUATION, continuation);
        }
        let answer = asked.expect(200);
        pages.push(answer.feed("Documents"));
        continuation = answer.header(CONTINUATION).map(str::to_owned);
        if continuation.is_none() {
            return pages;
        }
        assert!(pages.len() <= 2 * ITEMS, "the pages do not end");
    }
}

fn sorted(mut rows: Vec<Value>) -> Vec<i64> {
    let mut numbers: Vec<i64> = rows.drain(..).map(|row| row.as_i64().unwrap()).collect();
    numbers.sort_unstable();
    numbers
}

/// The ids of the container's ranges.
fn ranges(world: &World) -> Vec<String> {
    let feed = world.get("/dbs/d/colls/c/pkranges").expect(200).feed("PartitionKeyRanges");
    let id = |range: &Value| range.get("id").and_then(Value::as_str).unwrap().to_owned();
    feed.iter().map(id).collect()
}

#[test]
fn a_query_of_one_key_may_use_the_whole_language() {
    for (throughput, _) in PARTITIONS {
        let world = filled(throughput);
        for (text, expected) in [
            ("SELECT VALUE c.n FROM c WHERE c.n > 10 ORDER BY c.n DESC", "35 27 19 11"),
            (
                "SELECT TOP 2 c.id, c.n FROM c ORDER BY c.n",
                r#"{"id":"i3","n":3} {"id":"i11","n":11}"#,
            ),
            ("SELECT VALUE COUNT(1) FROM c", "5"),
            ("SELECT VALUE SUM(c.n) FROM c WHERE c.n < @max", "14"),
            ("SELECT c.even, COUNT(1) AS n FROM c GROUP BY c.even", r#"{"even":false,"n":5}"#),
            ("SELECT DISTINCT VALUE c.pk FROM c", r#""k3""#),
            ("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 1 LIMIT 2", "11 19"),
            ("SELECT VALUE t FROM c JOIN t IN c.tags WHERE c.n = 3", r#""t0" "all""#),
            ("SELECT VALUE 1", "1"),
            ("SELECT VALUE c.n FROM c WHERE c.pk = 'k4'", ""),
        ] {
            let parameters = r#"[{"name":"@max","value":12}]"#;
            let answer = query(&world, text, parameters).key(r#"["k3"]"#).expect(200);
            assert_eq!(rows(&answer), expected, "{text}");
            assert!(answer.header("x-ms-session-token").is_some(), "{text}");
            let charge = answer.header("x-ms-request-charge").unwrap();
            assert!(charge.parse::<f64>().unwrap() > 0.0, "{text}");
        }
    }
}

#[test]
fn a_plain_query_walks_through_all_partitions() {
    for (throughput, partitions) in PARTITIONS {
        let world = filled(throughput);
        for size in ["-1", "1", "7", "1000"] {
            let pages = pages(|| cross(&world, "SELECT VALUE c.n FROM c WHERE c.even"), size);
            let limit = size.parse().unwrap_or(ITEMS);
            assert!(pages.iter().all(|page| page.len() <= limit.max(1)), "{size}: {pages:?}");
            let rows: Vec<usize> = pages.iter().map(Vec::len).collect();
            assert!(partitions == 1 || rows.len() > 1, "a page is of one partition: {rows:?}");
            let all = sorted(pages.into_iter().flatten().collect());
            let expected: Vec<i64> = (0..40).filter(|n| n % 2 == 0).collect();
            assert_eq!(all, expected, "pages of {size}");
        }
    }
}

#[test]
fn a_query_over_several_keys_must_be_allowed_to_be_one() {
    for (throughput, _) in PARTITIONS {
        let world = filled(throughput);
        let text = "SELECT VALUE c.n FROM c WHERE c.n = 3";
        query(&world, text, "[]").refused(
            400,
            "0",
            "Cross partition query is required but disabled",
        );
        query(&world, text, "[]").key("[]").refused(400, "0", "Cross partition query is required");
        let pinned = "SELECT VALUE c.n FROM c WHERE c.pk = 'k3' AND c.n = 3";
        assert_eq!(rows(&query(&world, pinned, "[]").expect(200)), "3");
    }
}

#[test]
fn what_a_client_must_merge_is_answered_with_its_plan() {
    for (throughput, _) in PARTITIONS {
        let world = filled(throughput);
        for text in [
            "SELECT VALUE c.n FROM c ORDER BY c.n",
            "SELECT TOP 3 VALUE c.n FROM c",
            "SELECT VALUE COUNT(1) FROM c",
            "SELECT DISTINCT VALUE c.even FROM c",
            "SELECT VALUE c.n FROM c OFFSET 1 LIMIT 2",
            "SELECT c.even, COUNT(1) AS n FROM c GROUP BY c.even",
        ] {
            let answer = cross(&world, text).expect(400);
            assert_eq!(answer.header("x-ms-substatus"), Some("1004"), "{text}");
            let message = answer.member("message");
            let start = "The provided cross partition query can not be directly served";
            assert!(message.starts_with(start), "{message}");
            let plan = Value::parse(answer.member("additionalErrorInfo").as_bytes()).unwrap();
            assert!(plan.get("queryInfo").is_some(), "{text}: {}", plan.to_json());
        }
    }
}

#[test]
fn the_server_merges_on_request() {
    for (throughput, _) in PARTITIONS {
        let world = filled(throughput);
        let global = |text: &str| cross(&world, text).header("x-partita-query-serving", "global");
        for (text, expected) in [
            ("SELECT VALUE COUNT(1) FROM c", "40"),
            ("SELECT VALUE c.n FROM c ORDER BY c.n DESC OFFSET 2 LIMIT 3", "37 36 35"),
            ("SELECT DISTINCT VALUE c.tags[1] FROM c", r#""all""#),
            ("SELECT c.even, SUM(c.n) AS n FROM c WHERE c.n < 4 GROUP BY c.even", ""),
        ] {
            let found = rows(&global(text).expect(200));
            if expected.is_empty() {
                assert!(found.contains(r#"{"even":true,"n":2}"#), "{found}");
                assert!(found.contains(r#"{"even":false,"n":4}"#), "{found}");
            } else {
                assert_eq!(found, expected, "{text}");
            }
        }
        let pages = pages(|| global("SELECT VALUE c.n FROM c ORDER BY c.n"), "7");
        let all: Vec<i64> = pages.into_iter().flatten().map(|row| row.as_i64().unwrap()).collect();
        assert_eq!(all, (0..40).collect::<Vec<i64>>());
        cross(&world, "SELECT 1").header("x-partita-query-serving", "x").refused(400, "0", "'x'");
    }
}

#[test]
fn a_plan_and_its_parts_give_the_whole() {
    for (throughput, partitions) in PARTITIONS {
        let world = filled(throughput);
        let text = "SELECT VALUE c.n FROM c WHERE c.even ORDER BY c.n DESC";
        let planned = plan(&world, text).header(FEATURES, "OrderBy, Top").expect(200).json();
        let info = planned.get("queryInfo").unwrap();
        let orders = info.get("orderBy").unwrap().to_json();
        assert_eq!(orders, r#"["Descending"]"#);
        let rewritten = info.get("rewrittenQuery").and_then(Value::as_str).unwrap();
        let part = rewritten.replace("{documentdb-formattableorderbyquery-filter}", "true");
        let mut all = Vec::new();
        let ranges = ranges(&world);
        assert_eq!(ranges.len(), partitions);
        for range in ranges {
            let ask = || query(&world, &part, "[]").header(RANGE, &range);
            let execution = ask().expect(200);
            let told = execution.header("x-ms-cosmos-query-execution-info").unwrap();
            assert_eq!(told, r#"{"reverseRidEnabled":true,"reverseIndexScan":true}"#);
            let rows: Vec<Value> = pages(ask, "3").into_iter().flatten().collect();
            let keys: Vec<i64> = rows.iter().map(order_key).collect();
            assert!(keys.is_sorted_by(|a, b| a >= b), "{keys:?}");
            assert!(rows.iter().all(|row| row.get("_rid").and_then(Value::as_str).is_some()));
            all.extend(rows.iter().map(|row| row.get("payload").unwrap().clone()));
        }
        assert_eq!(sorted(all), (0..40).filter(|n| n % 2 == 0).collect::<Vec<i64>>());
    }
}

fn order_key(row: &Value) -> i64 {
    let keys = row.get("orderByItems").and_then(Value::as_array).unwrap();
    keys.first().unwrap().get("item").and_then(Value::as_i64).unwrap()
}

#[test]
fn a_plan_needs_the_clients_features_and_a_correct_query() {
    let world = filled("30000");
    let grouped = "SELECT c.even, COUNT(1) AS n FROM c GROUP BY c.even";
    let refused = |ask: Ask<'_>, text: &str| {
        let answer = ask.expect(400);
        let message = answer.member("message");
        let start = "Gateway Failed to Retrieve Query Plan: Message: {";
        assert!(message.starts_with(start), "{message}");
        assert!(message.contains(text), "{message}");
    };
    refused(plan(&world, grouped).header(FEATURES, "OrderBy,Top"), "GroupBy");
    let beyond = plan(&world, grouped).header(FEATURES, "OrderBy,Top").expect(400);
    assert_eq!(beyond.header("x-ms-substatus"), Some("1004"));
    let list = "SELECT VALUE MAKELIST(c.n) FROM c";
    plan(&world, list).header(FEATURES, "Aggregate, MultipleAggregates").expect(200);
    let beyond = plan(&world, list).header(FEATURES, "Aggregate, CompositeAggregate").expect(400);
    assert_eq!(beyond.header("x-ms-substatus"), Some("1004"));
    refused(plan(&world, "SELEC * FROM c"), r#""code":"SC1001""#);
    // Some clients say that a request for a plan is a query as well.
    let also = plan(&world, "SELECT * FROM c").header("x-ms-documentdb-isquery", "True");
    assert!(also.expect(200).json().get("queryRanges").is_some());
    plan(&world, "SELECT * FROM c").key(r#"["k1"]"#).expect(200);
    world.post("/dbs/d/colls/x/docs", r#"{"query":"SELECT 1"}"#).header(PLAN, "True").expect(404);
}

#[test]
fn ranges_of_epks_cut_a_query() {
    for (throughput, _) in PARTITIONS {
        let world = filled(throughput);
        let (min, middle, max) = ("", "1C", "FF");
        let mut all = Vec::new();
        for range in ranges(&world) {
            for (start, end) in [(min, middle), (middle, max)] {
                let ask = query(&world, "SELECT VALUE c.n FROM c", "[]")
                    .header(RANGE, &range)
                    .header("x-ms-start-epk", start)
                    .header("x-ms-end-epk", end)
                    .header("x-ms-read-key-type", "EffectivePartitionKeyRange");
                all.extend(ask.expect(200).feed("Documents"));
            }
        }
        assert_eq!(sorted(all), (0..40).collect::<Vec<i64>>());
        let half =
            query(&world, "SELECT 1", "[]").header(RANGE, "0").header("x-ms-start-epk", "AA");
        half.refused(400, "0", "One of the input values is invalid");
    }
}

#[test]
fn a_prefix_of_a_hierarchical_key_restricts_a_query() {
    for (throughput, _) in PARTITIONS {
        let world = World::new();
        world.post("/dbs", r#"{"id":"d"}"#).expect(201);
        let key = r#"{"paths":["/t","/u"],"kind":"MultiHash","version":2}"#;
        world
            .post("/dbs/d/colls", &format!(r#"{{"id":"c","partitionKey":{key}}}"#))
            .header("x-ms-offer-throughput", throughput)
            .expect(201);
        for n in 0..12 {
            let (t, u) = (n % 3, n % 4);
            let body = format!(r#"{{"id":"i{n}","t":"t{t}","u":"u{u}","n":{n}}}"#);
            world.post(DOCS, &body).key(&format!(r#"["t{t}","u{u}"]"#)).expect(201);
        }
        let text = "SELECT VALUE c.n FROM c";
        let numbers = |ask: Ask<'_>| sorted(ask.expect(200).feed("Documents"));
        assert_eq!(numbers(query(&world, text, "[]").key(r#"["t1"]"#)), [1, 4, 7, 10]);
        assert_eq!(numbers(query(&world, text, "[]").key(r#"["t1","u3"]"#)), [7]);
        assert_eq!(numbers(query(&world, text, "[]").key(r#"["none"]"#)), [0; 0]);
        let ordered = "SELECT VALUE c.n FROM c ORDER BY c.n DESC";
        let answer = query(&world, ordered, "[]").key(r#"["t1","u3"]"#).expect(200);
        assert_eq!(rows(&answer), "7");
    }
}

#[test]
fn errors_say_where_in_the_text_they_are() {
    for (throughput, _) in PARTITIONS {
        let world = filled(throughput);
        let refused = |text: &str, part: &str| {
            cross(&world, text).refused(400, "0", part);
            query(&world, text, "[]").key(r#"["k1"]"#).refused(400, "0", part);
        };
        refused(
            "SELECT * FORM c",
            r#"Message: {"errors":[{"severity":"Error","location":{"start":9,"#,
        );
        refused("SELECT * FROM c WHERE", "SC1002");
        refused("SELECT VALUE x.n FROM c", "Identifier 'x' could not be resolved.");
        refused("SELECT VALUE NOPE(c.n) FROM c", "SC2005");
        refused("SELECT * FROM c ORDER BY c.n + 1", "could not be mapped to a document path");
        let junk = query(&world, "SELECT * FROM c", "[]").key(r#"["k1"]"#);
        junk.header(CONTINUATION, "junk").refused(400, "0", "Invalid Continuation Token");
        let two = r#"[{"name":"@a","value":1},{"name":"@a","value":2}]"#;
        let twice = query(&world, "SELECT VALUE @a FROM c", two).key(r#"["k1"]"#);
        twice.refused(400, "0", "duplicate parameter name '@a'");
    }
}

#[test]
fn several_orders_need_their_index() {
    for (throughput, _) in PARTITIONS {
        let world = filled(throughput);
        let text = "SELECT * FROM c ORDER BY c.even, c.n";
        let ask = query(&world, text, "[]").key(r#"["k1"]"#);
        ask.refused(400, "0", "does not have a corresponding composite index");
    }
}

#[test]
fn a_continuation_fits_the_clients_limit() {
    let world = filled("30000");
    let long = "x".repeat(3_000);
    for n in 0..4 {
        let body = format!(r#"{{"id":"long{n}","pk":"long","text":"{long}{n}"}}"#);
        world.post(DOCS, &body).key(r#"["long"]"#).expect(201);
    }
    for text in ["SELECT VALUE c.id FROM c ORDER BY c.text", "SELECT VALUE c.id FROM c"] {
        let answer = query(&world, text, "[]")
            .key(r#"["long"]"#)
            .header("x-ms-max-item-count", "1")
            .header("x-ms-documentdb-responsecontinuationtokenlimitinkb", "1")
            .expect(200);
        let token = answer.header(CONTINUATION).unwrap();
        assert!(token.len() <= 1024 && token.is_ascii(), "{text}: {}", token.len());
        let ask = || {
            query(&world, text, "[]")
                .key(r#"["long"]"#)
                .header("x-ms-documentdb-responsecontinuationtokenlimitinkb", "1")
        };
        let pages = pages(ask, "1");
        let ids: Vec<String> = pages.iter().flatten().map(Value::to_json).collect();
        assert_eq!(ids, [r#""long0""#, r#""long1""#, r#""long2""#, r#""long3""#], "{text}");
    }
}

#[test]
fn a_continuation_of_no_length_is_refused() {
    let world = filled("400");
    let limit = "x-ms-documentdb-responsecontinuationtokenlimitinkb";
    for (text, status) in [("0", 400), ("-1", 400), ("x", 400), ("1", 200)] {
        let ask = query(&world, "SELECT * FROM c", "[]").key(r#"["k1"]"#);
        ask.header(limit, text).expect(status);
        let changes = world.get(DOCS).header("a-im", "Incremental Feed");
        changes.header(limit, text).expect(status);
        for feed in [DOCS, "/dbs", "/dbs/d/colls", "/dbs/d/users", "/dbs/d/colls/c/udfs", "/offers"]
        {
            world.get(feed).header(limit, text).expect(status);
        }
        let query = r#"{"query":"select * from c"}"#;
        let resources = world.post("/dbs", query).header("content-type", "application/query+json");
        resources.header("x-ms-documentdb-isquery", "True").header(limit, text).expect(status);
    }
}

#[test]
fn a_filter_that_names_one_key_needs_no_plan() {
    for (throughput, _) in PARTITIONS {
        let world = filled(throughput);
        for (text, expected) in [
            ("select value c.n from c where c.pk = 'k3' order by c.n desc", "35 27 19 11 3"),
            ("SELECT TOP 1 VALUE c.n FROM c WHERE c.pk = 'k3' ORDER BY c.n", "3"),
            ("SELECT VALUE c.n FROM c WHERE c.pk = 'k3' ORDER BY c.n OFFSET 1 LIMIT 2", "11 19"),
            ("SELECT DISTINCT VALUE c.even FROM c WHERE c.pk = 'k3'", "false"),
            ("SELECT VALUE COUNT(1) FROM c WHERE c.pk = 'k3'", "5"),
            (
                "SELECT c.pk, COUNT(1) AS n FROM c WHERE c.pk = 'k3' GROUP BY c.pk",
                r#"{"pk":"k3","n":5}"#,
            ),
        ] {
            assert_eq!(rows(&cross(&world, text).expect(200)), expected, "{text}");
            assert_eq!(rows(&query(&world, text, "[]").expect(200)), expected, "{text}");
        }
        let by_parameter = "SELECT VALUE c.n FROM c WHERE c.pk = @tenant-id ORDER BY c.n";
        let named = r#"[{"name":"@tenant-id","value":"k3"}]"#;
        let found = query(&world, by_parameter, named).header(CROSS, "True").expect(200);
        assert_eq!(rows(&found), "3 11 19 27 35");
        for text in [
            "SELECT MAX(c.n) FROM c WHERE c.pk = 'k3'",
            "SELECT VALUE AVG(c.n) FROM c WHERE c.pk = 'k3'",
            "SELECT COUNT(1) FROM c WHERE c.pk = 'k3'",
        ] {
            let answer = cross(&world, text).expect(400);
            assert_eq!(answer.header("x-ms-substatus"), Some("1004"), "{text}");
        }
    }
}

#[test]
fn a_literal_may_have_control_characters_and_a_plan_says_them_again() {
    let world = filled("30000");
    let body = r#"{"id":"odd","pk":"odd","n":99,"text":"a\r\n\tb\u0001"}"#;
    world.post(DOCS, body).key(r#"["odd"]"#).expect(201);
    let text = "SELECT VALUE c.n FROM c WHERE c.text = 'a\r\n\tb\u{1}'";
    assert_eq!(rows(&query(&world, text, "[]").key(r#"["odd"]"#).expect(200)), "99");
    let ordered = format!("{text} ORDER BY c.n");
    let plan = plan(&world, &ordered).expect(200).json();
    let info = plan.get("queryInfo").unwrap();
    let part = info.get("rewrittenQuery").and_then(Value::as_str).unwrap();
    let part = part.replace("{documentdb-formattableorderbyquery-filter}", "true");
    let found: usize = ranges(&world)
        .iter()
        .map(|id| query(&world, &part, "[]").header(RANGE, id).expect(200))
        .map(|answer| answer.feed("Documents").len())
        .sum();
    assert_eq!(found, 1);
}

#[test]
fn a_page_of_no_rows_is_one_of_as_many_as_there_are() {
    for (throughput, _) in PARTITIONS {
        let world = filled(throughput);
        for text in ["SELECT * FROM c", "SELECT * FROM c ORDER BY c.n", "SELECT TOP 3 * FROM c"] {
            let ask = || query(&world, text, "[]").key(r#"["k3"]"#);
            let zero = ask().header("x-ms-max-item-count", "0").expect(200);
            assert_eq!(zero.feed("Documents"), ask().expect(200).feed("Documents"), "{text}");
            assert!(!zero.feed("Documents").is_empty(), "{text}");
            assert_eq!(zero.header(CONTINUATION), None, "{text}");
        }
        let zero = pages(|| cross(&world, "SELECT VALUE c.n FROM c"), "0");
        assert_eq!(sorted(zero.concat()).len(), ITEMS);
    }
}

#[test]
fn metrics_are_told_on_request() {
    for (throughput, _) in PARTITIONS {
        let world = filled(throughput);
        let ask = |text: &str| query(&world, text, "[]").key(r#"["k3"]"#);
        let silent = ask("SELECT * FROM c").expect(200);
        assert_eq!(silent.header("x-ms-documentdb-query-metrics"), None);
        assert_eq!(silent.header("x-ms-cosmos-index-utilization"), None);
        let told = ask("SELECT * FROM c WHERE c.n > 20")
            .header("x-ms-documentdb-populatequerymetrics", "True")
            .header("x-ms-cosmos-populateindexmetrics-v2", "true")
            .expect(200);
        let metrics = told.header("x-ms-documentdb-query-metrics").unwrap();
        assert!(metrics.contains("outputDocumentCount=2;"), "{metrics}");
        // So few items are scanned, but an index serves the filter.
        let indexes = told.header("x-ms-cosmos-index-utilization").unwrap();
        for index in ["%2Fpk%2F%3F", "%2Fn%2F%3F"] {
            assert!(indexes.contains(index), "{indexes}");
        }
        assert!(metrics.split(';').all(|pair| pair.matches('=').count() == 1), "{metrics}");
        let indexes = told.header("x-ms-cosmos-index-utilization").unwrap();
        assert!(indexes.starts_with("%7B%22UtilizedIndexes%22"), "{indexes}");
        let old = ask("SELECT * FROM c").header("x-ms-cosmos-populateindexmetrics", "True");
        let old = old.expect(200).header("x-ms-cosmos-index-utilization").unwrap().to_owned();
        // The beginning of {"Utilized in base64.
        assert!(old.starts_with("eyJVdGlsaXplZ"), "{old}");
    }
}

#[test]
fn a_query_explains_itself() {
    for (throughput, partitions) in PARTITIONS {
        let world = filled(throughput);
        let answer = cross(&world, "SELECT * FROM c WHERE c.n = 3 ORDER BY c.id")
            .header("x-partita-explain", "true")
            .header("x-partita-query-serving", "global")
            .expect(200);
        let report = answer.json();
        assert_eq!(report.get("rows").and_then(Value::as_i64), Some(1));
        let leaves = report.get("partitions").and_then(Value::as_array).unwrap();
        assert_eq!(leaves.len(), partitions);
        for leaf in leaves {
            for name in ["range", "plan", "entriesScanned", "rowsEvaluated", "rowsOut", "nanos"] {
                assert!(leaf.get(name).is_some(), "{name}: {}", leaf.to_json());
            }
        }
        let text = report.get("text").and_then(Value::as_str).unwrap();
        assert!(text.contains("\nrange 0 "), "{text}");
        assert_eq!(report.get("Documents"), None);
    }
}

#[test]
fn a_key_pins_the_partitions_that_are_asked() {
    let world = filled("30000");
    let explained = |text: &str| {
        let answer = cross(&world, text)
            .header("x-partita-explain", "true")
            .header("x-partita-query-serving", "global")
            .expect(200);
        answer.json().get("partitions").and_then(Value::as_array).unwrap().len()
    };
    assert_eq!(explained("SELECT * FROM c"), 5);
    assert_eq!(explained("SELECT * FROM c WHERE c.pk = 'k3'"), 1);
    assert!(explained("SELECT * FROM c WHERE c.pk IN ('k3', 'k4')") <= 2);
    assert_eq!(explained("SELECT * FROM c WHERE c.n = 3"), 5);
}

#[test]
fn a_range_that_is_not_there_is_gone() {
    let world = filled("30000");
    query(&world, "SELECT * FROM c", "[]").header(RANGE, "99").refused(410, "1002", "");
}

#[test]
fn queries_obey_resource_tokens() {
    let world = filled("30000");
    world.post("/dbs/d/users", r#"{"id":"u"}"#).expect(201);
    let permission = r#"{"id":"p","permissionMode":"Read","resource":"dbs/d/colls/c","resourcePartitionKey":["k3"]}"#;
    let token = world.post("/dbs/d/users/u/permissions", permission).expect(201).member("_token");
    let text = "SELECT VALUE c.n FROM c WHERE c.n < 5";
    let own = query(&world, text, "[]").key(r#"["k3"]"#).token(&token).expect(200);
    assert_eq!(rows(&own), "3");
    query(&world, text, "[]").key(r#"["k4"]"#).token(&token).expect(403);
    cross(&world, text).token(&token).expect(403);
    cross(&world, "SELECT VALUE c.n FROM c WHERE c.pk = 'k3'").token(&token).expect(403);
}

#[test]
fn an_item_that_is_left_out_of_the_index_is_found_all_the_same() {
    for (throughput, _) in PARTITIONS {
        let world = filled(throughput);
        let excluded = |n: usize| {
            let body = format!(r#"{{"id":"x{n}","pk":"k1","n":{n},"even":"no"}}"#);
            let ask = world.post(DOCS, &body).key(r#"["k1"]"#);
            ask.header("x-ms-indexing-directive", "Exclude").expect(201);
        };
        excluded(100);
        excluded(7);
        for (text, expected) in [
            ("SELECT VALUE COUNT(1) FROM c", "7"),
            ("SELECT VALUE COUNT(1) FROM c WHERE c.n >= 33", "2"),
            ("SELECT VALUE COUNT(c.even) FROM c", "7"),
            ("SELECT VALUE c.n FROM c ORDER BY c.n DESC", "100 33 25 17 9 7 1"),
            ("SELECT TOP 2 VALUE c.n FROM c ORDER BY c.n DESC", "100 33"),
            ("SELECT VALUE c.n FROM c WHERE c.n = 7", "7"),
            ("SELECT DISTINCT VALUE c.even FROM c ORDER BY c.even", r#"false "no""#),
            (
                "SELECT c.even, COUNT(1) AS n FROM c WHERE c.n > 50 GROUP BY c.even",
                r#"{"even":"no","n":1}"#,
            ),
            ("SELECT VALUE MAX(c.n) FROM c", "100"),
        ] {
            let keyed = query(&world, text, "[]").key(r#"["k1"]"#).expect(200);
            assert_eq!(rows(&keyed), expected, "{text}");
        }
        for (text, expected) in [
            ("SELECT VALUE COUNT(1) FROM c", "42"),
            ("SELECT TOP 1 VALUE c.n FROM c ORDER BY c.n DESC", "100"),
            ("SELECT DISTINCT VALUE c.even FROM c ORDER BY c.even DESC", r#""no" true false"#),
        ] {
            let global = cross(&world, text).header("x-partita-query-serving", "global");
            assert_eq!(rows(&global.expect(200)), expected, "{text}");
        }
        let wrong = world.post(DOCS, r#"{"id":"y","pk":"k1"}"#).key(r#"["k1"]"#);
        wrong.header("x-ms-indexing-directive", "Never").refused(400, "0", "Include, Exclude");
    }
}

#[test]
fn an_alias_of_a_join_has_no_order() {
    for (throughput, _) in PARTITIONS {
        let world = filled(throughput);
        let told = "Order-by over correlated collections is not supported.";
        for text in [
            "SELECT VALUE t FROM c JOIN t IN c.tags ORDER BY t",
            "SELECT VALUE t FROM c JOIN t IN c.tags ORDER BY c.n, t",
            "SELECT VALUE t FROM c JOIN (SELECT VALUE s FROM s IN c.tags) AS t ORDER BY t",
        ] {
            query(&world, text, "[]").key(r#"["k3"]"#).refused(400, "0", told);
        }
        let ordered = "SELECT VALUE c.n FROM c JOIN t IN c.tags ORDER BY c.n";
        let answer = query(&world, ordered, "[]").key(r#"["k3"]"#).expect(200);
        assert_eq!(rows(&answer), "3 3 11 11 19 19 27 27 35 35");
    }
}

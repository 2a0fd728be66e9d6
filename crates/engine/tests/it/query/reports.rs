//! What a page tells of the work behind it.

use super::*;

#[test]
fn a_report_reads_like_this() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    for n in 0..3 {
        bench.create(&format!(r#"{{"id":"i{n}","pk":"a","n":{n}}}"#)).result.unwrap();
    }
    let mut golden = String::new();
    for text in [
        "SELECT VALUE c.n FROM c WHERE c.n > 0",
        "SELECT VALUE c.id FROM c ORDER BY c.n DESC",
        "SELECT VALUE COUNT(1) FROM c",
        "SELECT 1",
    ] {
        let page = page(&bench, scan_only(global(text)));
        golden += &format!("{text}\n{}\n", page.report);
    }
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/query-reports.txt");
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        std::fs::write(file, &golden).unwrap();
    }
    assert_eq!(golden, std::fs::read_to_string(file).unwrap(), "actual:\n{golden}");
}

#[test]
fn a_report_is_also_json() {
    let bench = filled(30_000);
    let value = page(&bench, scan_only(global("SELECT * FROM c"))).report.to_value();
    assert_eq!(value.get("rows").unwrap().to_json(), "60");
    let partitions = value.get("partitions").unwrap();
    let partita_model::Value::Array(partitions) = partitions else { panic!("{value}") };
    assert_eq!(partitions.len(), 5);
    let loaded: i64 = partitions
        .iter()
        .map(|partition| partition.get("documentsLoaded").unwrap().as_i64().unwrap())
        .sum();
    assert_eq!(loaded, 60);
}

#[test]
fn the_same_work_has_the_same_price() {
    let (one, two) = (filled(30_000), filled(30_000));
    for text in ["SELECT * FROM c", "SELECT * FROM c ORDER BY c.n", "SELECT VALUE COUNT(1) FROM c"]
    {
        let first = run(&one, global(text));
        let charge = first.charge;
        let Ok(Outcome::Query { report, .. }) = first.result else { panic!("{text}") };
        assert_eq!(report.charge, charge, "{text}");
        assert_eq!(run(&one, global(text)).charge, charge, "{text}");
        assert_eq!(run(&two, global(text)).charge, charge, "{text}");
        assert!(charge.0 >= 2.3, "{text}");
    }
}

#[test]
fn a_scan_that_is_shorter_than_the_index_costs_no_more_than_it() {
    let charge = |scan_items: u64, text: &str| {
        let settings = partita_engine::QuerySettings { scan_items, ..Default::default() };
        let bench = Bench::with_queries(settings);
        fill(&bench, 400);
        let Page { rows, report, .. } = page(&bench, global(text));
        let serving: Vec<String> = report.indexes_serving.iter().map(|i| i.to_string()).collect();
        (report.charge.0, serving.join(" "), rows)
    };
    for (text, indexes) in [
        ("SELECT * FROM c WHERE c.n = 3", "/n/?"),
        ("SELECT * FROM c WHERE c.n >= 50 AND c.n < 55", "/n/?"),
        ("SELECT * FROM c WHERE c.n = 3 ORDER BY c.n", "/n/?"),
        ("SELECT TOP 2 * FROM c ORDER BY c.n DESC", "/n/?"),
        ("SELECT TOP 2 * FROM c ORDER BY c.m, c.n DESC", "/m ASC, /n DESC"),
    ] {
        let (scanned, serving, by_scan) = charge(200, text);
        let (searched, _, by_index) = charge(0, text);
        assert_eq!(sorted(by_scan), sorted(by_index), "{text}");
        assert!(scanned <= searched + 0.01, "{text}: {scanned} and not {searched}");
        assert!(serving.contains(indexes), "{text}: {serving}");
    }
    let (whole, _, _) = charge(200, "SELECT * FROM c WHERE c.n * 2 + c.m = 7");
    assert!(whole > 25.0, "no index spares a look at sixty items: {whole}");
}

#[test]
fn the_same_indexes_are_named_however_many_items_there_are() {
    let named = |scan_items: u64, text: &str| {
        let settings = partita_engine::QuerySettings { scan_items, ..Default::default() };
        let bench = Bench::with_queries(settings);
        fill(&bench, 400);
        let QueryReport { leaves, indexes_serving, .. } = *page(&bench, global(text)).report;
        let used = leaves.iter().flat_map(|leaf| &leaf.indexes_used);
        let all: std::collections::BTreeSet<String> =
            used.chain(&indexes_serving).map(|index| index.to_string()).collect();
        all.into_iter().collect::<Vec<_>>().join(" | ")
    };
    for (text, indexes) in [
        ("SELECT * FROM c WHERE c.n = 3 AND c.m = 3", "/m ASC, /n DESC | /m/? | /n/?"),
        ("SELECT * FROM c WHERE c.m = 3 AND c.n > 3", "/m ASC, /n DESC | /m/? | /n/?"),
        ("SELECT * FROM c ORDER BY c.m DESC, c.n", "/m ASC, /n DESC"),
        ("SELECT * FROM c WHERE c.m = 3 ORDER BY c.m, c.n DESC", "/m ASC, /n DESC | /m/?"),
        ("SELECT * FROM c WHERE c.n + 0 = 2", "/n/?"),
        ("SELECT VALUE COUNT(1) FROM c WHERE c.n + 0 = 2", "/n/?"),
        ("SELECT * FROM c WHERE c.n + 0 = 2 ORDER BY c.m", "/m/? | /n/?"),
    ] {
        assert_eq!(named(200, text), indexes, "{text}, scanned");
        assert_eq!(named(0, text), indexes, "{text}, searched");
    }
}

#[test]
fn a_page_pays_for_what_it_looked_at() {
    let bench = filled(400);
    let few = run(&bench, scan_only(global("SELECT TOP 1 * FROM c"))).charge;
    let many = run(&bench, scan_only(global("SELECT * FROM c"))).charge;
    assert!(few < many, "{few} {many}");
}

/// The example of `docs/query.md`: its query, and what the server prints for it but for the times.
#[test]
fn the_documentation_shows_what_is_printed() {
    let page = include_str!("../../../../../docs/query.md");
    let (_, example) = page.split_once("```sql\nSELECT * FROM c WHERE c.device").unwrap();
    let (query, rest) = example.split_once("\n```").unwrap();
    let (_, shown) = rest.split_once("```text\n").unwrap();
    let (shown, _) = shown.split_once("```").unwrap();
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    for n in 0..1_000 {
        let (key, device, level) = (n % 13, n % 50, n % 7);
        let body =
            format!(r#"{{"id":"i{n}","pk":"k{key}","device":"device-{device}","level":{level}}}"#);
        bench.create(&body).result.unwrap();
    }
    let report = page_of(&bench, &format!("SELECT * FROM c WHERE c.device{query}"));
    assert_eq!(without_times(shown), without_times(&report));
}

fn page_of(bench: &Bench, text: &str) -> String {
    page(bench, global(text)).report.to_string()
}

/// Every number before ` ms` is masked.
fn without_times(text: &str) -> String {
    let pieces: Vec<&str> = text.split(" ms").collect();
    let is_time = |c: char| c.is_ascii_digit() || c == '.';
    let masked: Vec<&str> = pieces.iter().map(|piece| piece.trim_end_matches(is_time)).collect();
    masked.join("- ms")
}

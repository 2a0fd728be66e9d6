//! Keys that are longer than the client allows a continuation to be.

use partita_engine::{PageRequest, QueryRequest, QuerySettings};
use partita_model::ErrorKind;

use super::*;

const LIMIT: usize = 1_024;

fn limited(text: &str) -> QueryRequest {
    QueryRequest { token_bytes_max: Some(LIMIT), ..scan_only(global(text)) }
}

/// All rows in pages of this many; what happens between two pages is up to the caller.
fn walk(
    bench: &Bench,
    query: &QueryRequest,
    rows_max: usize,
    mut between: impl FnMut(&[String]),
) -> Result<Vec<String>, ErrorKind> {
    let mut rows = Vec::new();
    let mut continuation = None;
    loop {
        let next = PageRequest { items_max: Some(rows_max), continuation };
        let reply = run(bench, QueryRequest { page: next, ..query.clone() });
        let (got, token) = match reply.result {
            Ok(Outcome::Query { rows, continuation, .. }) => (rows, continuation),
            Ok(other) => panic!("{other:?}"),
            Err(error) => return Err(error.kind),
        };
        rows.extend(got);
        continuation = token;
        let Some(token) = &continuation else { return Ok(rows) };
        assert!(token.len() <= LIMIT, "{}", token.len());
        between(&rows);
    }
}

/// A place in the order of keys is what takes room in a token.
fn by_key() -> QuerySettings {
    QuerySettings { age_order_items_max: 0, ..QuerySettings::default() }
}

/// Items with long ids under long partition keys, in two kinds: ids that differ at the beginning,
/// and ids that differ only in the end.
fn long_ids(throughput: u32, alike: bool) -> Bench {
    let bench = Bench::with_queries(by_key());
    bench.make_container(throughput, KEY_PK);
    for n in 0..12 {
        let long = "i".repeat(900);
        let id = if alike { format!("{long}{n:02}") } else { format!("{n:02}{long}") };
        let body = format!(r#"{{"id":"{id}","pk":"{}{}","n":{n}}}"#, "p".repeat(1_500), n % 3);
        bench.create(&body).result.unwrap();
    }
    bench
}

fn delete_by_number(bench: &Bench, n: usize, alike: bool) {
    let long = "i".repeat(900);
    let id = if alike { format!("{long}{n:02}") } else { format!("{n:02}{long}") };
    let pk = format!(r#"["{}{}"]"#, "p".repeat(1_500), n % 3);
    bench.delete(&id, &pk).result.unwrap();
}

#[test]
fn long_keys_are_found_again_by_resource_id() {
    for throughput in THROUGHPUTS {
        for alike in [true, false] {
            let bench = long_ids(throughput, alike);
            let query = limited("SELECT VALUE c.n FROM c");
            let whole = all(&bench, &scan_only(global("SELECT VALUE c.n FROM c")));
            for rows_max in [1, 2, 5] {
                assert_eq!(walk(&bench, &query, rows_max, |_| {}).unwrap(), whole);
            }
        }
    }
}

#[test]
fn a_deleted_item_with_a_long_key_leaves_no_gap_and_no_repetition() {
    for throughput in THROUGHPUTS {
        let bench = long_ids(throughput, false);
        let query = limited("SELECT VALUE c.n FROM c");
        let whole = all(&bench, &scan_only(global("SELECT VALUE c.n FROM c")));
        let rows = walk(&bench, &query, 2, |rows| {
            let last = rows.last().unwrap().parse().unwrap();
            delete_by_number(&bench, last, false);
        });
        assert_eq!(rows.unwrap(), whole);
    }
}

#[test]
fn everything_can_be_deleted_page_by_page() {
    for throughput in THROUGHPUTS {
        let bench = long_ids(throughput, false);
        let query = limited("SELECT VALUE c.n FROM c");
        let rows = walk(&bench, &query, 3, |rows| {
            for row in &rows[rows.len() - 3..] {
                delete_by_number(&bench, row.parse().unwrap(), false);
            }
        });
        assert_eq!(rows.unwrap().len(), 12);
    }
}

#[test]
fn a_place_that_nobody_knows_any_more_is_an_error() {
    let bench = long_ids(400, true);
    let query = limited("SELECT VALUE c.n FROM c");
    let rows = walk(&bench, &query, 2, |rows| {
        delete_by_number(&bench, rows.last().unwrap().parse().unwrap(), true);
    });
    assert_eq!(rows, Err(ErrorKind::BadRequest), "ids share what fits into the token");
}

/// Items whose property `s` is a long text: equal in part, or from the beginning different.
fn long_texts(throughput: u32, alike: bool) -> Bench {
    let bench = Bench::new();
    bench.make_container(throughput, &format!("{KEY_PK},{COMPOSITES}"));
    for n in 0..20 {
        let long = "s".repeat(3_000);
        let s = if alike { format!("{long}{:02}", n / 2) } else { format!("{:02}{long}", n / 2) };
        let body = format!(r#"{{"id":"i{n}","pk":"k{}","s":"{s}","n":{n}}}"#, n % 7);
        bench.create(&body).result.unwrap();
    }
    bench
}

const SORTED: [&str; 4] = [
    "SELECT VALUE c.n FROM c ORDER BY c.s",
    "SELECT VALUE c.n FROM c ORDER BY c.s DESC",
    "SELECT VALUE c.n FROM c ORDER BY c.s, c.n",
    "SELECT VALUE c.n FROM c ORDER BY c.s DESC, c.n ASC",
];

#[test]
fn long_sort_keys_are_found_again_by_resource_id() {
    for throughput in THROUGHPUTS {
        for alike in [true, false] {
            let bench = long_texts(throughput, alike);
            for text in SORTED {
                let whole = expected(&bench, text);
                for rows_max in [1, 3, 7] {
                    let rows = walk(&bench, &limited(text), rows_max, |_| {});
                    assert_eq!(rows.unwrap(), whole, "{text}");
                }
            }
        }
    }
}

#[test]
fn a_deleted_item_with_a_long_sort_key_is_no_guess() {
    for throughput in THROUGHPUTS {
        for text in SORTED {
            // With pages of two, the deleted item is the last of its text.
            let bench = long_texts(throughput, false);
            let whole = expected(&bench, text);
            let delete_last = |rows: &[String]| {
                let n: usize = rows.last().unwrap().parse().unwrap();
                bench.delete(&format!("i{n}"), &format!(r#"["k{}"]"#, n % 7)).result.unwrap();
            };
            // The other item of the same text was delivered, so the place is not certain.
            let rows = walk(&bench, &limited(text), 2, delete_last);
            assert_eq!(rows, Err(ErrorKind::BadRequest), "{text}");
            // When all of a page goes, it is.
            let bench = long_texts(throughput, false);
            let delete_both = |rows: &[String]| {
                for row in &rows[rows.len() - 2..] {
                    let n: usize = row.parse().unwrap();
                    bench.delete(&format!("i{n}"), &format!(r#"["k{}"]"#, n % 7)).result.unwrap();
                }
            };
            assert_eq!(walk(&bench, &limited(text), 2, delete_both).unwrap(), whole, "{text}");
        }
    }
}

//! Working memory: what wants too much is refused by name, nothing stays reserved, and below the
//! limit nothing is different.

use partita_engine::{
    ChangesQuery, DatabasePath, EngineSettings, KeyRequired, Op, PageRequest, QueryRequest, Reply,
    Scope,
};
use partita_model::{ErrorKind, MemoryBudget, MemoryUse};

use super::*;
use crate::changes::Reader;

const MB: usize = 1 << 20;
const ITEMS: usize = 60;
const ELEMENTS: usize = 400;

/// Sixty items with a list of four hundred numbers and a text of 4 KB each.
fn bench(memory: &MemoryBudget, throughput: u32) -> Bench {
    bench_of(ITEMS, memory, throughput)
}

fn bench_of(items: usize, memory: &MemoryBudget, throughput: u32) -> Bench {
    let settings = EngineSettings { memory: memory.clone(), ..unthrottled() };
    let bench = Bench::with_settings(settings);
    let policy = r#""indexingPolicy":{"includedPaths":[{"path":"/*"}],
        "excludedPaths":[{"path":"/list/*"}]}"#;
    bench.make_container(throughput, &format!("{KEY_PK},{policy}"));
    for n in 0..items {
        let list: Vec<String> = (0..ELEMENTS).map(|at| (n * ELEMENTS + at).to_string()).collect();
        let (list, long) = (list.join(","), format!("{n:04}").repeat(1_000));
        let body = format!(
            r#"{{"id":"i{n}","pk":"k{n}","n":{n},"few":[0,1,2,3,4,5,6,7],"list":[{list}],"long":"{long}"}}"#
        );
        bench.create(&body).result.unwrap();
    }
    bench
}

/// Queries that want more than a megabyte, and what for.
const TOO_MUCH: [(&str, &str); 8] = [
    ("SELECT DISTINCT c.n, x FROM c JOIN x IN c.list OFFSET 100000 LIMIT 1", "working memory"),
    ("SELECT c.n, x, COUNT(1) AS k FROM c JOIN x IN c.list GROUP BY c.n, x", "GROUP BY"),
    ("SELECT x, MAX(c.long) AS m FROM c JOIN x IN c.list GROUP BY x", "GROUP BY"),
    ("SELECT VALUE MAKELIST({n: c.n, x: x}) FROM c JOIN x IN c.list", "GROUP BY"),
    ("SELECT VALUE MAKESET([c.n, x]) FROM c JOIN x IN c.list", "GROUP BY"),
    (
        "SELECT VALUE ARRAY_LENGTH(ARRAY(SELECT VALUE [x, y] FROM x IN c.list JOIN y IN c.list)) \
         FROM c WHERE c.n < 2",
        "the values that it builds",
    ),
    (
        "SELECT VALUE EXISTS(SELECT DISTINCT VALUE [x, y] FROM x IN c.list JOIN y IN c.list \
         GROUP BY x, y) FROM c WHERE c.n < 2",
        "GROUP BY",
    ),
    (
        "SELECT VALUE LENGTH(REPLACE(c.long, '0', REPLICATE('ab', 400))) FROM c",
        "the values that it builds",
    ),
];

/// Queries whose pages and sorts make do with what there is.
const MAKE_DO: [&str; 6] = [
    "SELECT * FROM c",
    "SELECT c.long, x FROM c JOIN x IN c.few",
    "SELECT c.long, x FROM c JOIN x IN c.few ORDER BY c.n DESC",
    "SELECT * FROM c ORDER BY c.long DESC",
    "SELECT DISTINCT c.long, c.n FROM c",
    "SELECT c.n, MIN(c.long) AS k FROM c JOIN x IN c.few GROUP BY c.n",
];

#[test]
fn what_wants_too_much_is_refused_by_name_and_leaves_nothing_reserved() {
    for throughput in THROUGHPUTS {
        let memory = MemoryBudget::new(4 * MB);
        let bench = bench(&memory, throughput);
        for (text, what) in TOO_MUCH {
            let error = run(&bench, global(text)).result.unwrap_err();
            assert_eq!(error.kind, ErrorKind::BadRequest, "{text}: {error}");
            for part in [what, "--memory-mb"] {
                assert!(error.message.contains(part), "{text}: {error}");
            }
            assert_eq!(memory.figures().used, 0, "{text}");
        }
        assert!(memory.figures().too_much >= TOO_MUCH.len() as u64);
    }
}

#[test]
fn with_enough_memory_all_of_them_have_their_result() {
    let memory = MemoryBudget::new(1 << 32);
    let bench = bench_of(12, &memory, 30_000);
    for text in TOO_MUCH.iter().map(|(text, _)| *text).chain(MAKE_DO) {
        // Groups of several partitions come in another order, and lists in that of the partitions.
        let counted = all(&bench, &global(text)).iter().map(String::len).sum::<usize>();
        let wanted = expected(&bench, text).iter().map(String::len).sum::<usize>();
        assert_eq!(counted, wanted, "{text}");
        assert_eq!(memory.figures().used, 0, "{text}");
    }
    assert!(memory.figures().peak > MB);
}

#[test]
fn pages_and_sorts_make_do_with_little_memory() {
    for throughput in THROUGHPUTS {
        let memory = MemoryBudget::new(4 * MB);
        let bench = bench(&memory, throughput);
        for text in MAKE_DO {
            for plan in [global(text), scan_only(global(text))] {
                let page = PageRequest { items_max: Some(1_000_000), ..PageRequest::default() };
                let found = all(&bench, &QueryRequest { page, ..plan });
                assert_eq!(sorted(found), sorted(expected(&bench, text)), "{text}");
                assert_eq!(memory.figures().used, 0, "{text}");
            }
        }
        let peak = memory.figures().peak;
        assert!((1..=MB).contains(&peak), "one had {peak} bytes");
        assert_eq!(memory.figures().too_much, 0);
    }
}

#[test]
fn one_item_may_have_more_rows_than_there_is_memory_for() {
    let memory = MemoryBudget::new(4 * MB);
    let bench = bench_of(2, &memory, 400);
    let text = "SELECT c.long, x FROM c JOIN x IN c.list";
    let page = PageRequest { items_max: Some(1_000_000), ..PageRequest::default() };
    assert_eq!(all(&bench, &QueryRequest { page, ..global(text) }), expected(&bench, text));
    assert_eq!(memory.figures().used, 0);
    assert!(memory.figures().peak <= MB);
}

#[test]
fn large_items_that_an_index_finds_are_loaded_as_there_is_memory_for_them() {
    let memory = MemoryBudget::new(4 * MB);
    let bench = bench_of(0, &memory, 400);
    for n in 0..400 {
        let (kind, length) = if n < 8 { ("few", n.min(1) * 300_000) } else { ("most", 0) };
        let long = "x".repeat(length);
        let body = format!(r#"{{"id":"i{n}","pk":"k{n}","kind":"{kind}","long":"{long}"}}"#);
        bench.create(&body).result.unwrap();
    }
    let text = "SELECT VALUE LENGTH(c.long) FROM c WHERE c.kind = 'few'";
    assert_eq!(all(&bench, &global(text)), expected(&bench, text));
    let report = page(&bench, global(text)).report;
    assert!(report.leaves[0].documents_loaded < 20, "by the index: {report:?}");
    assert_eq!(memory.figures().used, 0);
}

#[test]
fn queries_on_the_change_feed_and_on_resources_draw_on_the_same_memory() {
    let memory = MemoryBudget::new(4 * MB);
    let bench = bench_of(2, &memory, 400);
    let text = "SELECT VALUE ARRAY(SELECT VALUE [x, y] FROM x IN c.list JOIN y IN c.list) FROM c";
    let query = ChangesQuery { text: text.into(), parameters: Vec::new(), previous: false };
    let reader = Reader { query: Some(query), ..Reader::of(Scope::All) };
    let page = PageRequest::default();
    let (database, key_required) = (DatabasePath(path().database), KeyRequired::No);
    let list = Op::ListContainers { database, filter: None, page: page.clone(), key_required };
    for name in ["c1", "c2", "c3", "c4"] {
        bench.create_container(name, 400, KEY_PK).result.unwrap();
    }
    let text = format!("SELECT VALUE '{}' FROM r", "x".repeat(300_000));
    let query = Query::parse(&text, &[], &[]).unwrap();
    let op = Op::QueryResources { list: Box::new(list), query, page };
    for (reply, what) in
        [(reader.ask(&bench), "the values that it builds"), (bench.run(op), "its rows")]
    {
        let error = reply.result.unwrap_err();
        assert_eq!(error.kind, ErrorKind::BadRequest, "{error}");
        assert!(error.message.contains(what), "{error}");
        assert_eq!(memory.figures().used, 0);
    }
}

#[test]
fn an_order_stays_what_it_is_with_little_memory() {
    let memory = MemoryBudget::new(4 * MB);
    for throughput in THROUGHPUTS {
        let bench = bench(&memory, throughput);
        for text in ["SELECT * FROM c ORDER BY c.long DESC", "SELECT c.long FROM c ORDER BY c.n"] {
            for plan in [global(text), scan_only(global(text))] {
                assert_eq!(all(&bench, &plan), expected(&bench, text), "{text}");
            }
        }
    }
}

#[test]
fn who_finds_no_memory_because_of_others_may_try_again() {
    const OTHERS: MemoryUse = MemoryUse { name: "others", advice: "" };
    let memory = MemoryBudget::new(16 * MB);
    let bench = bench(&memory, 400);
    let text = "SELECT c.n, x, COUNT(1) AS k FROM c JOIN x IN c.list GROUP BY c.n, x";
    let held: Vec<_> = (0..4)
        .map(|_| {
            let mut one = memory.share().reservation(OTHERS);
            one.grow(3 * MB + MB / 2).unwrap();
            one
        })
        .collect();
    let held_bytes = memory.figures().used;
    assert_eq!(error(&run(&bench, global(text))), ErrorKind::Unavailable);
    assert_eq!(memory.figures().used, held_bytes);
    let small = |reply: Reply| reply.result.is_ok();
    assert!(small(run(&bench, global("SELECT VALUE c.n FROM c"))), "it needs little");
    drop(held);
}

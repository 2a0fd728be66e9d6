//! How long queries take per item: `cargo run --release -p partita-query --example timing`.

use std::ops::ControlFlow;
use std::time::Instant;

use partita_model::Document;
use partita_query::{Groups, Query, ScopeSettings};

const ITEMS: usize = 20_000;

const QUERIES: [&str; 12] = [
    "SELECT * FROM c",
    "SELECT * FROM c WHERE c.type = 'a'",
    "SELECT VALUE c.n FROM c WHERE c.n > 10 AND c.type = 'b'",
    "SELECT c.id, c.address.city, c.n FROM c",
    "SELECT VALUE COUNT(1) FROM c WHERE c.n < 500",
    "SELECT c.type, COUNT(1) AS n, SUM(c.n) AS s FROM c GROUP BY c.type",
    "SELECT VALUE t.name FROM c JOIN t IN c.tags WHERE t.name = 'tag3'",
    "SELECT VALUE c.id FROM c WHERE EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t.w > 7)",
    "SELECT VALUE c.id FROM c WHERE CONTAINS(c.address.city, 'own', true)",
    "SELECT VALUE c.id FROM c WHERE ARRAY_CONTAINS(c.tags, {name: 'tag3'}, true)",
    "SELECT DISTINCT VALUE c.address FROM c",
    "SELECT VALUE {a: c.n * 2, b: [c.id, UPPER(c.type)]} FROM c ORDER BY c.n",
];

fn item(n: usize) -> String {
    let tags: Vec<String> =
        (0..n % 8).map(|t| format!(r#"{{"name":"tag{t}","w":{}}}"#, (n + t) % 10)).collect();
    format!(
        r#"{{"id":"item-{n}","type":"{}","n":{},"address":{{"street":"Main Street {}","city":"Town {}","zip":{}}},"tags":[{}],"text":"{}","_rid":"abcdefgh{n}","_ts":{}}}"#,
        if n % 2 == 0 { "a" } else { "b" },
        n % 1000,
        n % 77,
        n % 33,
        10_000 + n % 900,
        tags.join(","),
        "lorem ipsum dolor ".repeat(20),
        1_700_000_000 + n
    )
}

fn main() -> partita_model::Result<()> {
    let items: Vec<String> = (0..ITEMS).map(item).collect();
    let bytes: usize = items.iter().map(String::len).sum();
    println!("{ITEMS} items of {} bytes", bytes / ITEMS);
    for text in QUERIES {
        let query = Query::parse(text, &[], &[])?;
        let mut run = query.start(&ScopeSettings::default());
        let mut groups = Groups::new(&query);
        let mut rows = 0_usize;
        let start = Instant::now();
        for item in &items {
            if query.facts().is_grouped {
                run.gather(Document::new(item), &mut groups)?;
                continue;
            }
            run.rows(Document::new(item), &mut |_| {
                rows += 1;
                ControlFlow::Continue(())
            })?;
        }
        if query.facts().is_grouped {
            rows = groups.finish(&mut run)?.len();
        }
        let nanos = start.elapsed().as_nanos() / ITEMS as u128;
        println!("{nanos:>6} ns per item, {rows:>6} rows: {text}");
    }
    Ok(())
}

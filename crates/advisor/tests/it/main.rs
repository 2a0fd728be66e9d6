//! Data with a known right answer, and what is advised for it.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]

use partita_advisor::{Advice, AskedQuery, Candidate, HotKey, Sample, advise};
use partita_model::{Entropy, KeyPart, PartitionKeyDefinition, SeededEntropy, Value};

/// Orders of a shop: 40 tenants, of which the first has a third of everything; 600 users, each of
/// one tenant; a day that all orders of it share; a status; an amount; ids.
fn shop(items: u64) -> Vec<String> {
    let entropy = SeededEntropy::new(3);
    let draw = |below: u64| entropy.next_u64() % below;
    (0..items)
        .map(|number| {
            let user = draw(600);
            let tenant = if user % 3 == 0 { 0 } else { user % 40 };
            let status = ["open", "paid", "sent"][draw(3) as usize];
            let (guid, day) = (draw(u64::MAX), number * 28 / items + 1);
            let amount = draw(100_000) as f64 / 100.0 + 0.001;
            let nickname = if draw(2) == 0 { r#","nick":"x""#.to_owned() } else { String::new() };
            format!(
                r#"{{"id":"{guid:016x}","note":"{}","note2":"order {number} of user {user}","tenant":"t{tenant}","user":{{"id":"u{user}"}},"day":"2026-02-{day:02}","at":{},"status":"{status}","amount":{amount},"kind":"order"{nickname}}}"#,
                "x".repeat(draw(400) as usize),
                1_770_000_000 + number
            )
        })
        .collect()
}

fn sampled(items: &[String], items_max: usize) -> Sample {
    let mut sample = Sample::new(items_max);
    items.iter().for_each(|item| sample.offer(item.as_bytes()).unwrap());
    sample
}

fn find<'a>(advice: &'a Advice, paths: &[&str]) -> &'a Candidate {
    advice.candidates.iter().find(|candidate| candidate.paths == paths).unwrap()
}

fn first(advice: &Advice) -> Vec<&str> {
    advice.candidates[0].paths.iter().map(String::as_str).collect()
}

fn asked(queries: &[(&str, u64)]) -> Vec<AskedQuery> {
    let query = |(text, count): &(&str, u64)| {
        let parameters =
            ["@t", "@u", "@s", "@d"].map(|name| (name.to_owned(), "string".to_owned()));
        let used = parameters.into_iter().filter(|(name, _)| text.contains(name.as_str()));
        AskedQuery::new(text, &used.collect::<Vec<_>>(), &[], *count).unwrap()
    };
    queries.iter().map(query).collect()
}

fn key(paths: &str) -> PartitionKeyDefinition {
    let body = format!(r#"{{"paths":{paths},"kind":"Hash","version":2}}"#);
    PartitionKeyDefinition::parse(&Value::parse(body.as_bytes()).unwrap()).unwrap()
}

#[test]
fn without_queries_the_evenly_spread_user_wins() {
    let advice = advise(&sampled(&shop(3_000), 3_000), &[], None, &[]);
    assert_eq!(first(&advice), ["/user/id"], "{:#?}", &advice.candidates[..5]);
    let worse = |paths: &[&str]| find(&advice, paths).score;
    for weak in
        ["/tenant", "/status", "/kind", "/day", "/at", "/amount", "/nick", "/note", "/note2"]
    {
        assert!(worse(&[weak]) < 60.0, "{weak} has {}", worse(&[weak]));
    }
    assert!(worse(&["/id"]) < worse(&["/user/id"]));
}

#[test]
fn every_weakness_is_named() {
    let advice = advise(&sampled(&shop(3_000), 3_000), &[], None, &[]);
    let says = |path: &str, words: &str| {
        let candidate = find(&advice, &[path]);
        let found = candidate.reasons.iter().any(|reason| reason.contains(words));
        assert!(found, "{path}: {:?}", candidate.reasons);
    };
    says("/tenant", r#"["t0"] has 3"#);
    says("/status", "only about 3 different values");
    says("/kind", "one value only");
    says("/day", "new items all go to the newest value");
    says("/at", "it is a time");
    says("/amount", "measured number");
    says("/note", "texts");
    says("/note2", "texts");
    says("/nick", "of the items have no value there");
    says("/id", "nearly every item is alone");
}

#[test]
fn queries_for_a_large_tenant_make_a_hierarchy_the_answer() {
    let queries = asked(&[
        ("SELECT * FROM c WHERE c.tenant = @t AND c.status = @s", 60),
        ("SELECT * FROM c WHERE c.tenant = @t AND c.user.id = @u", 35),
        ("SELECT * FROM c WHERE c.day = @d", 5),
    ]);
    let advice = advise(&sampled(&shop(3_000), 3_000), &queries, None, &[]);
    assert_eq!(first(&advice), ["/tenant", "/user/id"], "{:#?}", &advice.candidates[..5]);
    let routing = find(&advice, &["/tenant", "/user/id"]).measures.routing.unwrap();
    assert!((routing.single - 0.35).abs() < 1e-9 && (routing.prefix - 0.6).abs() < 1e-9);
    let tenant = find(&advice, &["/tenant"]).measures.routing.unwrap();
    assert!((tenant.single - 0.95).abs() < 1e-9, "{tenant:?}");
}

#[test]
fn queries_by_id_alone_make_the_id_the_answer() {
    let queries = asked(&[("SELECT * FROM c WHERE c.id = @u", 100)]);
    let advice = advise(&sampled(&shop(2_000), 2_000), &queries, None, &[]);
    assert_eq!(first(&advice), ["/id"], "{:#?}", &advice.candidates[..5]);
}

#[test]
fn requests_that_were_seen_count_against_a_key_that_they_would_hit() {
    let items = shop(2_000);
    let present = key(r#"["/user/id"]"#);
    // One user of the first tenant gets most of the requests.
    let hot = [HotKey { parts: vec![KeyPart::String("u3".into())], share: 0.9 }];
    let with = advise(&sampled(&items, 2_000), &[], Some(&present), &hot);
    let without = advise(&sampled(&items, 2_000), &[], Some(&present), &[]);
    let shares = |advice: &Advice, path: &str| find(advice, &[path]).measures.hottest_share;
    assert!(shares(&with, "/user/id").unwrap() > 0.89);
    assert!(shares(&with, "/tenant").unwrap() > 0.9);
    assert!(shares(&with, "/id").unwrap() < 0.9);
    assert_eq!(shares(&without, "/user/id"), None);
    assert!(find(&with, &["/user/id"]).score < find(&without, &["/user/id"]).score);
    assert!(find(&with, &["/user/id"]).present && !find(&with, &["/id"]).present);
}

#[test]
fn a_sample_says_nearly_what_the_whole_says() {
    let items = shop(6_000);
    let whole = advise(&sampled(&items, 6_000), &[], None, &[]);
    let part = advise(&sampled(&items, 2_000), &[], None, &[]);
    assert_eq!((part.seen.items, part.seen.sampled), (6_000, 2_000));
    assert_eq!(first(&part), first(&whole));
    for path in ["/tenant", "/status", "/user/id"] {
        let [a, b] = [&whole, &part].map(|advice| find(advice, &[path]));
        assert!((a.score - b.score).abs() < 10.0, "{path}: {} and {}", a.score, b.score);
        assert!((a.measures.largest_share - b.measures.largest_share).abs() < 0.05, "{path}");
    }
}

#[test]
fn the_same_input_gives_the_same_advice() {
    let queries = asked(&[("SELECT * FROM c WHERE c.tenant = @t", 3)]);
    let again = || advise(&sampled(&shop(1_500), 1_000), &queries, None, &[]);
    assert_eq!(again(), again());
}

#[test]
fn nothing_gives_no_advice() {
    let advice = advise(&Sample::new(10), &[], Some(&key(r#"["/pk"]"#)), &[]);
    assert_eq!(advice.candidates, []);
}

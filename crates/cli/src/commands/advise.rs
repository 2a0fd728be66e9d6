//! `partita advise shop/orders`: which partition key would serve a container best, and why.
//!
//! Items come from the server's own feed, with the queries that it was asked lately and its hottest
//! keys; or from a file with a JSON object per line. What they say is `partita_advisor`'s business.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use http::Method;
use partita_advisor::{Advice, AskedQuery, Candidate, HotKey, Routing, Sample, advise};
use partita_http_client::{AccountRequest, encode};
use partita_model::{Clock, KeyPart, Object, PartitionKeyDefinition, PartitionKeyHeader, Value};

use crate::args::AdviseArgs;
use crate::client::Client;
use crate::container_name::ContainerName;
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::response::{member, number, rows, text};
use crate::table::{Align, bar, count, percent, size, table};

/// Items of a page of the feed.
const PAGE_ITEMS: &str = "1000";

/// Candidates whose reasons are printed.
const EXPLAINED: usize = 3;

/// What the advisor is given.
struct Material {
    sample: Sample,
    queries: Vec<AskedQuery>,
    present: Option<PartitionKeyDefinition>,
    hot: Vec<HotKey>,
}

pub(crate) fn run(args: &AdviseArgs, clock: Arc<dyn Clock>) -> Result<(), Failure> {
    let mut material = match (&args.container, &args.file) {
        (Some(container), None) => from_server(args, container, clock)?,
        (None, Some(file)) => from_file(args, file)?,
        _ => {
            return Err(Failure::usage(
                "advise takes a container, as in: partita advise shop/orders; or a file with a JSON \
                 object per line, as in: partita advise --file items.jsonl",
            ));
        }
    };
    if let Some(file) = &args.queries {
        material.queries = queries_of_file(file)?;
    }
    let Material { sample, queries, present, hot } = material;
    let advice = advise(&sample, &queries, present.as_ref(), &hot);
    if args.json {
        print_json(&json(&advice, args.top));
    } else {
        print(&render(&advice, args.top, queries.is_empty()));
    }
    Ok(())
}

fn from_file(args: &AdviseArgs, file: &Path) -> Result<Material, Failure> {
    let mut sample = Sample::new(args.sample);
    for (at, line) in lines(file)?.enumerate() {
        let line = line.map_err(|error| cannot_read(file, &error))?;
        if line.trim().is_empty() {
            continue;
        }
        sample.offer(line.as_bytes()).map_err(|error| {
            Failure::usage(format!("{}, line {}: {}", file.display(), at + 1, error.message))
        })?;
    }
    Ok(Material { sample, queries: Vec::new(), present: None, hot: Vec::new() })
}

/// One query per line; empty lines and those that begin with `--` are passed over.
fn queries_of_file(file: &Path) -> Result<Vec<AskedQuery>, Failure> {
    let mut queries = Vec::new();
    for line in lines(file)? {
        let line = line.map_err(|error| cannot_read(file, &error))?;
        let line = line.trim();
        if !line.is_empty() && !line.starts_with("--") {
            queries.push(AskedQuery::from_text(line).map_err(|e| Failure::usage(e.message))?);
        }
    }
    Ok(queries)
}

fn lines(file: &Path) -> Result<impl Iterator<Item = std::io::Result<String>>, Failure> {
    Ok(BufReader::new(File::open(file).map_err(|error| cannot_read(file, &error))?).lines())
}

fn cannot_read(file: &Path, error: &std::io::Error) -> Failure {
    Failure::other(format!("{}: {error}", file.display()))
}

fn from_server(
    args: &AdviseArgs,
    container: &ContainerName,
    clock: Arc<dyn Clock>,
) -> Result<Material, Failure> {
    let client = Client::new(&args.connect, clock)?;
    let report = client.get(&container.path(&["partitions"]), "top=0")?;
    let definition = PartitionKeyDefinition::parse(member(&report, "partitionKey")?)?;
    let asked = client.get(&container.path(&["queries"]), "")?;
    let mut queries = Vec::new();
    for query in rows(&asked, "queries")? {
        queries.extend(asked_query(query, &definition)?);
    }
    let hot = hot_keys(&report);
    let sample = sample_feed(&client, container, args)?;
    Ok(Material { sample, queries, present: Some(definition), hot })
}

/// A query of the server's log. One that cannot be read without the container's own functions and
/// computed properties is left out.
fn asked_query(
    query: &Value,
    definition: &PartitionKeyDefinition,
) -> Result<Option<AskedQuery>, Failure> {
    let mut parameters = Vec::new();
    for parameter in rows(query, "parameters")? {
        parameters.push((text(parameter, "name")?.to_owned(), text(parameter, "type")?.to_owned()));
    }
    let named = number(query, "keyParts")? as usize;
    let named = definition.paths.get(..named).unwrap_or_default();
    let count = number(query, "count")? as u64;
    Ok(AskedQuery::new(text(query, "query")?, &parameters, named, count).ok())
}

/// The hottest logical partitions with their shares of what was used lately.
fn hot_keys(report: &Value) -> Vec<HotKey> {
    let hottest = report.get("hottest").and_then(Value::as_array).unwrap_or_default();
    let hot = |row: &Value| {
        let key = PartitionKeyHeader::parse(&row.get("key")?.to_json()).ok()?;
        let parts: Vec<KeyPart> = key.0;
        Some(HotKey { parts, share: row.get("shareOfContainer")?.as_f64()? })
    };
    hottest.iter().filter_map(hot).collect()
}

/// Reads the container's items, all of them or up to the limit.
fn sample_feed(
    client: &Client,
    container: &ContainerName,
    args: &AdviseArgs,
) -> Result<Sample, Failure> {
    let mut sample = Sample::new(args.sample);
    let ContainerName { database, container } = container;
    let link = format!("dbs/{database}/colls/{container}");
    let path = format!("/dbs/{}/colls/{}/docs", encode(database), encode(container));
    let first = AccountRequest::new(Method::GET, "docs", link, path)
        .header("x-ms-max-item-count", PAGE_ITEMS);
    let mut request = first.clone();
    loop {
        let response = client.send(&request)?;
        for item in rows(&response.json(), "Documents")? {
            sample.offer(item.to_json().as_bytes())?;
        }
        let Some(token) = response.continuation else { return Ok(sample) };
        if sample.items_seen() >= args.items_max {
            return Ok(sample);
        }
        request = first.clone().header("x-ms-continuation", token);
    }
}

/// The best candidates, and the present key wherever it stands.
fn chosen(advice: &Advice, top: usize) -> impl Iterator<Item = (usize, &Candidate)> {
    let all = advice.candidates.iter().enumerate();
    all.filter(move |(rank, candidate)| *rank < top || candidate.present)
}

fn json(advice: &Advice, top: usize) -> Value {
    let candidate = |(rank, found): (usize, &Candidate)| {
        let measures = &found.measures;
        let paths: Vec<Value> = found.paths.iter().map(|p| Value::from(p.as_str())).collect();
        let reasons: Vec<Value> = found.reasons.iter().map(|r| Value::from(r.as_str())).collect();
        let [strings, numbers, booleans] = measures.types;
        let types =
            Object::new().with("string", strings).with("number", numbers).with("boolean", booleans);
        Value::from(
            Object::new()
                .with("rank", rank as i64 + 1)
                .with("paths", paths)
                .with("score", (found.score * 10.0).round() / 10.0)
                .with("present", found.present)
                .with("values", measures.distinct_estimated.round())
                .with("largestShare", measures.largest_share)
                .with("largestValue", measures.largest_value.as_str())
                .with("hottestShare", measures.hottest_share.map_or(Value::Null, Value::from))
                .with("missingShare", measures.missing_share)
                .with("types", types)
                .with("queries", measures.routing.map_or(Value::Null, routing))
                .with("reasons", reasons),
        )
    };
    Object::new()
        .with("items", advice.seen.items as f64)
        .with("bytes", advice.seen.bytes as f64)
        .with("sampled", advice.seen.sampled as f64)
        .with("candidates", chosen(advice, top).map(candidate).collect::<Vec<_>>())
        .into()
}

fn routing(routing: Routing) -> Value {
    Object::new()
        .with("single", routing.single)
        .with("prefix", routing.prefix)
        .with("few", routing.few)
        .with("all", routing.all)
        .into()
}

fn render(advice: &Advice, top: usize, without_queries: bool) -> String {
    let seen = advice.seen;
    let mut out = format!(
        "{} items, {}; {} of them looked at closely\n\n",
        count(seen.items as f64),
        size(seen.bytes as f64),
        count(seen.sampled as f64)
    );
    let rows: Vec<Vec<String>> = chosen(advice, top).map(row).collect();
    let headings = [
        ("", Align::Right),
        ("SCORE", Align::Left),
        ("PARTITION KEY", Align::Left),
        ("VALUES", Align::Right),
        ("LARGEST", Align::Right),
        ("HOTTEST", Align::Right),
        ("MISSING", Align::Right),
        ("ONE-PARTITION QUERIES", Align::Left),
    ];
    out.push_str(&table(&headings, &rows));
    for (rank, candidate) in chosen(advice, top.min(EXPLAINED)) {
        let present = if candidate.present { " (the present key)" } else { "" };
        out.push_str(&format!("\n{}. {}{present}\n", rank + 1, candidate.paths.join(", ")));
        for reason in &candidate.reasons {
            out.push_str(&format!("   {reason}\n"));
        }
    }
    if without_queries {
        out.push_str(
            "\nNo queries are known: how they would be routed is not part of the scores. A server \
             remembers\nwhat it was asked since it started; --queries FILE takes them from a file.\n",
        );
    }
    out
}

fn row((rank, candidate): (usize, &Candidate)) -> Vec<String> {
    let measures = &candidate.measures;
    let present = if candidate.present { " *" } else { "" };
    let queries = |routing: Routing| {
        let under = match routing.prefix {
            prefix if prefix > 0.0 => format!(" + {} by prefix", percent(prefix)),
            _ => String::new(),
        };
        format!("{} {}{under}", bar(routing.single), percent(routing.single))
    };
    let unknown = || "?".to_owned();
    vec![
        format!("{}", rank + 1),
        format!("{} {:.0}", bar(candidate.score / 100.0), candidate.score),
        format!("{}{present}", candidate.paths.join(", ")),
        count(measures.distinct_estimated),
        percent(measures.largest_share),
        measures.hottest_share.map_or_else(unknown, percent),
        percent(measures.missing_share),
        measures.routing.map_or_else(unknown, queries),
    ]
}

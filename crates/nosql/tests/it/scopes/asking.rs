//! The acts of the model as requests, and what their answers show.

use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use partita_model::Value;

use super::model::{Act, Chance, Item, Paging, Procedure, Where};
use crate::support::{Answer, Ask, World};

pub(super) const CONTAINER: &str = "/dbs/d/colls/c";
const DOCS: &str = "/dbs/d/colls/c/docs";
const DEFINITION: &str = r#"{"id":"c","changeFeedPolicy":{"retentionDuration":10},
    "partitionKey":{"paths":["/t","/u"],"kind":"MultiHash","version":2}}"#;
const POST: &str = "x-ms-documentdb-post-trigger-include";
const QUERY: &str = "application/query+json";

const ALL: &str = r#"function () {
    var found = [];
    function keep(error, rows) { found.push(error ? String(error.body) : rows); tell(); }
    function tell() { __.response.setBody(found); }
    __.queryDocuments(__.getSelfLink(), 'SELECT * FROM c', keep);
    __.queryDocuments(__.getSelfLink(), 'SELECT VALUE c.secret FROM c ORDER BY c.secret', keep);
    __.readDocuments(__.getSelfLink(), keep);
    __.filter(function (item) { return item.secret !== 1; }, keep);
}"#;
const ONE: &str = r#"function (name, link) {
    var found = [];
    function keep(error, item) {
        found.push(error ? String(error.body) : item);
        __.response.setBody(found);
    }
    __.readDocument(__.getAltLink() + '/docs/' + name, keep);
    __.readDocument(link, keep);
}"#;
const WRITE: &str = r#"function (item) {
    __.upsertDocument(__.getSelfLink(), item, function (error, written) {
        __.response.setBody(error ? String(error.body) : written);
    });
}"#;
const PAGE: &str = r#"function (continuation) {
    var options = { pageSize: 1, continuation: continuation };
    __.queryDocuments(__.getSelfLink(), 'SELECT * FROM c ORDER BY c.secret', options,
        function (error, rows, next) {
            __.response.setBody(error ? String(error.body)
                                      : { rows: rows, next: next.continuation });
        });
}"#;
const LOOK: &str = r#"function () {
    __.queryDocuments(__.getSelfLink(), 'SELECT * FROM c', function (error, rows) {
        if (__.response.getBody()) { __.response.setBody({ seen: rows }); }
    });
}"#;
const TELL: &str = "function (item) { return item.secret; }";

/// Continuations that somebody was given: of what, and the text.
#[derive(Default)]
pub(super) struct Taken(Vec<(Option<Paging>, String)>);

impl Taken {
    fn any(&self, chance: &Chance, paging: Option<Paging>) -> Option<String> {
        let fitting: Vec<&String> =
            self.0.iter().filter(|(of, _)| *of == paging).map(|(_, text)| text).collect();
        (!fitting.is_empty()).then(|| chance.one_of(&fitting).clone())
    }

    /// Keeps what an answer ends with.
    pub(super) fn keep(&mut self, act: Act, answer: &Answer) {
        let paging = match act {
            Act::Page { paging, .. } => Some(paging),
            Act::Run(Procedure::Page, ..) => None,
            _ => return,
        };
        let text = match paging {
            Some(Paging::Feed | Paging::Versions) => answer.header("etag").map(str::to_owned),
            Some(_) => answer.header("x-ms-continuation").map(str::to_owned),
            None => Value::parse(&answer.body)
                .ok()
                .and_then(|body| body.get("next").and_then(Value::as_str).map(str::to_owned)),
        };
        self.0.extend(text.map(|text| (paging, text)));
    }
}

/// Makes the container in a world, with every item and every script.
pub(super) fn furnish(world: &World, throughput: &str) {
    world.post("/dbs", r#"{"id":"d"}"#).expect(201);
    world.post("/dbs/d/colls", DEFINITION).header("x-ms-offer-throughput", throughput).expect(201);
    let script = |kind: &str, id: &str, source: &str, more: &str| {
        let source = Value::from(source).to_json();
        let body = format!(r#"{{"id":"{id}","body":{source}{more}}}"#);
        world.post(&format!("{CONTAINER}/{kind}"), &body).expect(201);
    };
    for procedure in Procedure::ALL {
        script("sprocs", procedure.name(), source(procedure), "");
    }
    script("triggers", "look", LOOK, r#","triggerType":"Post","triggerOperation":"All""#);
    script("udfs", "tell", TELL, "");
    for item in Item::all() {
        restore(world, item);
    }
}

fn source(procedure: Procedure) -> &'static str {
    match procedure {
        Procedure::All => ALL,
        Procedure::One => ONE,
        Procedure::Write => WRITE,
        Procedure::Page => PAGE,
    }
}

/// Puts an item back, with the account's key.
pub(super) fn restore(world: &World, item: Item) {
    let upsert = upsert(world, item).send();
    assert!([200, 201].contains(&upsert.status), "{}", upsert.text());
}

fn at(item: Item) -> String {
    item.place().json().unwrap()
}

fn path(item: Item) -> String {
    format!("{DOCS}/{}", item.name())
}

fn upsert(world: &World, item: Item) -> Ask<'_> {
    let ask = world.post(DOCS, &item.body()).key(&at(item));
    ask.header("x-ms-documentdb-is-upsert", "True")
}

fn batch<'w>(world: &'w World, item: Item, operation: &str) -> Ask<'w> {
    world
        .post(DOCS, &format!("[{operation}]"))
        .key(&at(item))
        .header("x-ms-cosmos-is-batch-request", "True")
        .header("x-ms-cosmos-batch-atomic", "True")
}

fn first_range(world: &World) -> String {
    let ranges = world.get(&format!("{CONTAINER}/pkranges")).expect(200);
    let ranges = ranges.feed("PartitionKeyRanges");
    ranges[0].get("id").and_then(Value::as_str).unwrap().to_owned()
}

fn bulk<'w>(world: &'w World, items: &[Item]) -> Ask<'w> {
    let read = |item: &Item| {
        let key = Value::from(at(*item)).to_json();
        format!(r#"{{"operationType":"Read","id":"{}","partitionKey":{key}}}"#, item.name())
    };
    let reads: Vec<String> = items.iter().map(read).collect();
    world
        .post(DOCS, &format!("[{}]", reads.join(",")))
        .header("x-ms-cosmos-is-batch-request", "True")
        .header("x-ms-cosmos-batch-atomic", "False")
        .header("x-ms-cosmos-batch-continue-on-error", "True")
        .header("x-ms-documentdb-partitionkeyrangeid", &first_range(world))
}

fn query<'w>(world: &'w World, text: &str) -> Ask<'w> {
    world
        .post(DOCS, &format!(r#"{{"query":"{text}"}}"#))
        .header("x-ms-documentdb-isquery", "True")
        .header("content-type", QUERY)
        .header("x-ms-documentdb-query-enablecrosspartition", "True")
        .header("x-ms-documentdb-populatequerymetrics", "True")
        .header("x-ms-cosmos-populateindexmetrics", "True")
}

/// As SDKs read many items: a query to each range.
fn read_many<'w>(world: &'w World, items: [Item; 2]) -> Ask<'w> {
    let one = |item: Item| format!("(c.id = '{}' AND c.t = 't{}')", item.name(), item.t);
    let text = format!("SELECT * FROM c WHERE {}", items.map(one).join(" OR "));
    query(world, &text).header("x-ms-documentdb-partitionkeyrangeid", &first_range(world))
}

fn page<'w>(
    world: &'w World,
    (paging, place): (Paging, Where),
    short: bool,
    continuation: Option<String>,
) -> Ask<'w> {
    let mut ask = match (paging.text(), paging) {
        (Some(text), _) => query(world, text).header("x-partita-query-serving", "global"),
        (None, Paging::Feed) => world.get(DOCS).header("a-im", "Incremental feed"),
        // All versions begin now, or where somebody was.
        (None, Paging::Versions) => world
            .get(DOCS)
            .header("a-im", "Full-Fidelity Feed")
            .header("x-ms-cosmos-changefeed-wire-format-version", "2021-09-15")
            .header("if-none-match", "*"),
        (None, _) => world.get(DOCS),
    };
    if let Some(key) = place.json() {
        ask = ask.key(&key);
    }
    if short {
        ask = ask.header("x-ms-max-item-count", "1");
    }
    match (continuation, paging) {
        (None, _) => ask,
        (Some(etag), Paging::Feed | Paging::Versions) => ask.header("if-none-match", &etag),
        (Some(token), _) => ask.header("x-ms-continuation", &token),
    }
}

fn run<'w>(
    world: &'w World,
    (procedure, place): (Procedure, Where),
    item: Item,
    continuation: Option<String>,
) -> Ask<'w> {
    let arguments = match procedure {
        Procedure::All => "[]".to_owned(),
        Procedure::One => format!(r#"["{}","{}"]"#, item.name(), rid_link(world, item)),
        Procedure::Write => format!("[{}]", item.body()),
        Procedure::Page => match continuation {
            Some(token) => format!("[{}]", Value::from(token).to_json()),
            None => "[]".to_owned(),
        },
    };
    let path = format!("{CONTAINER}/sprocs/{}", procedure.name());
    world.post(&path, &arguments).key(&place.json().unwrap())
}

/// An item's link of resource ids.
fn rid_link(world: &World, item: Item) -> String {
    world.get(&path(item)).key(&at(item)).expect(200).member("_self")
}

/// The request of an act.
pub(super) fn ask<'w>(world: &'w World, act: Act, chance: &Chance, taken: &Taken) -> Ask<'w> {
    match act {
        Act::Read(item) => world.get(&path(item)).key(&at(item)),
        Act::ReadByRid(item, under) => {
            world.get(&format!("/{}", rid_link(world, item))).key(&under.json().unwrap())
        }
        Act::Create(item) => world.post(DOCS, &item.body()).key(&at(item)),
        Act::Upsert(item) => upsert(world, item),
        Act::UpsertTriggered(item) => upsert(world, item).header(POST, "look"),
        Act::Replace(item) => world.put(&path(item), &item.body()).key(&at(item)),
        Act::ReplaceTriggered(item) => {
            world.put(&path(item), &item.body()).key(&at(item)).header(POST, "look")
        }
        Act::Patch(item) => world
            .patch(&path(item), r#"[{"op":"set","path":"/v","value":1}]"#)
            .header("content-type", "application/json_patch+json")
            .key(&at(item)),
        Act::Delete(item) => world.delete(&path(item)).key(&at(item)),
        Act::Page { paging, place, resumed, short } => {
            let continuation = resumed.then(|| taken.any(chance, Some(paging))).flatten();
            page(world, (paging, place), short, continuation)
        }
        Act::Run(procedure, place, item) => {
            run(world, (procedure, place), item, taken.any(chance, None))
        }
        Act::BatchRead(item) => {
            batch(world, item, &format!(r#"{{"operationType":"Read","id":"{}"}}"#, item.name()))
        }
        Act::BatchWrite(item) => {
            let body = item.body();
            batch(world, item, &format!(r#"{{"operationType":"Upsert","resourceBody":{body}}}"#))
        }
        Act::Bulk(one, other) => bulk(world, &[one, other]),
        Act::ReadMany(one, other) => read_many(world, [one, other]),
        Act::Plan => query(world, "SELECT * FROM c ORDER BY c.secret")
            .header("x-ms-cosmos-is-query-plan-request", "True"),
        Act::ReadProcedure(procedure) => {
            world.get(&format!("{CONTAINER}/sprocs/{}", procedure.name()))
        }
        Act::WriteProcedure(procedure) => {
            let (id, source) = (procedure.name(), Value::from(source(procedure)).to_json());
            let body = format!(r#"{{"id":"{id}","body":{source}}}"#);
            world.put(&format!("{CONTAINER}/sprocs/{id}"), &body)
        }
        Act::ListProcedures => world.get(&format!("{CONTAINER}/sprocs")),
        Act::Definition => world.get(CONTAINER),
        Act::Statistics => world.get(CONTAINER).header("x-ms-documentdb-populatequotainfo", "True"),
    }
}

/// What an answer shows: items by their secrets, and items by their names.
pub(super) fn shown(answer: &Answer) -> [Vec<Item>; 2] {
    let mut text = answer.text();
    for value in answer.headers.values() {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        text = format!("{text} {value} {}", decoded(&value));
    }
    text += &decoded(&answer.text());
    [marked(&text, "S-"), marked(&text, "N-")]
}

/// What is hidden in a text as base64, in both alphabets.
fn decoded(text: &str) -> String {
    let config = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    let engines = [alphabet::STANDARD, alphabet::URL_SAFE]
        .map(|letters| GeneralPurpose::new(&letters, config));
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "+/-_=".contains(c);
    let mut out = String::new();
    for word in text.split(|c| !is_letter(c)).filter(|word| word.len() >= 8) {
        for engine in &engines {
            let bytes = engine.decode(word).unwrap_or_default();
            out.push_str(&String::from_utf8_lossy(&bytes));
            out.push(' ');
        }
    }
    out
}

pub(super) fn marked(text: &str, mark: &str) -> Vec<Item> {
    let parts = text.split(mark).skip(1).filter_map(|rest| {
        let numbers = rest.split_once("-E")?.0.split('-').map(str::parse);
        match numbers.collect::<Result<Vec<u64>, _>>().ok()?[..] {
            [t, u, id] => Some(Item { t, u, id }),
            _ => None,
        }
    });
    parts.collect()
}

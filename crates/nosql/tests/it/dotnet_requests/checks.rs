//! What an answer must be for the SDK to go on.

use std::ops::RangeInclusive;

use http::Method;
use partita_model::{Object, Value, binary_json};

use super::rows::{self, Page};
use super::{Record, batches, json_of};
use crate::hybrid_row::wire::Told;
use crate::support::Answer;

/// Headers that no SDK reads, and those that depend on how much is stored.
const UNREAD: [&str; 9] = [
    "cache-control",
    "content-length",
    "content-location",
    "date",
    "server",
    "x-ms-alt-content-path",
    "x-ms-content-path",
    "x-ms-continuation",
    "x-ms-request-duration-ms",
];

/// Properties whose values are ours to choose; their kind is not.
const OWN: [&str; 12] = [
    "databaseAccountEndpoint",
    "documentCount",
    "lsn",
    "crts",
    "maxConsumedStorageEverInKB",
    "maxThroughputEverProvisioned",
    "message",
    "offerLastReplaceTimestamp",
    "previousImageLSN",
    "offerResourceId",
    "resource",
    "sizeInKB",
];

/// Properties that were told then although the client had not named them.
const NO_LONGER_TOLD: [&str; 2] =
    ["/partitionKey/version", "/content/offerAutopilotSettings/autoUpgradePolicy"];

/// Records whose answers have rows now that they lacked then, and how many.
const MORE_ROWS: [(usize, usize); 3] = [
    // The item of record 216, which is not indexed.
    (304, 1),
    // The items of batches and bulks, which were refused then; the first page has no room for all.
    (332, 7),
    (339, 10),
];

/// The record whose answer shows what a query in the order of its rows is answered with.
const ORDERED_ROWS: usize = 32;
/// The record whose answer shows an offer.
const OFFER: usize = 418;

/// Properties that hold the elements of a feed.
const FEEDS: [&str; 9] = [
    "Conflicts",
    "Databases",
    "DocumentCollections",
    "Documents",
    "Offers",
    "Permissions",
    "StoredProcedures",
    "Triggers",
    "UserDefinedFunctions",
];

/// What a record's answer is to be.
pub(super) struct Expectation {
    status: u16,
    substatus: Option<String>,
    model: Model,
    /// For batches: the results that the client accepted.
    results: Option<Vec<Told>>,
}

/// The record whose answer is a model for headers and body.
#[derive(Clone, Copy, PartialEq)]
enum Model {
    Nothing,
    Same(usize),
    /// With these properties, but other values and other rows.
    Alike(usize),
}

impl Expectation {
    pub(super) fn recorded(record: &Record) -> Expectation {
        Expectation {
            status: record.status,
            substatus: record.answer_header("x-ms-substatus").map(str::to_owned),
            model: Model::Same(record.index),
            results: batches::results(&record.answer),
        }
    }

    fn other(status: u16, model: Model) -> Expectation {
        Expectation { status, substatus: None, model, results: None }
    }

    /// The record whose answer is compared.
    pub(super) fn model(&self) -> Option<usize> {
        match self.model {
            Model::Nothing => None,
            Model::Same(index) | Model::Alike(index) => Some(index),
        }
    }
}

const TABLE_REST: &str = "the Table protocol over REST";
const STORAGE: &str = "Azure Storage's tables";
const TABLE_PROCEDURE: &str = "the Table SDK's system procedure";
const SEARCH: &str = "vector and full-text search";
const THROUGHPUT: &str = "throughput: the_recorded_refusal_for_throughput_is_given";

/// How many records are replayed.
pub(super) const REPLAYED: usize = 637;

/// The records that are not, with the reason.
pub(super) const LEFT_OUT: [(&str, &[RangeInclusive<usize>]); 5] = [
    (SEARCH, &[482..=482, 484..=484]),
    (THROUGHPUT, &[499..=499]),
    (TABLE_PROCEDURE, &[627..=628, 631..=633]),
    (TABLE_REST, &[645..=667]),
    (STORAGE, &[668..=690]),
];

/// Why a record is not replayed, if it is not.
pub(super) fn left_out(record: &Record) -> Option<&'static str> {
    match record.client.as_str() {
        "dotnet-table-1.0.8-cosmos-rest" => return Some(TABLE_REST),
        "dotnet-table-1.0.8-storage" => return Some(STORAGE),
        _ => {}
    }
    if record.path.contains("__.sys.tablesBatchOperation") {
        return Some(TABLE_PROCEDURE);
    }
    if record.status == 501 && record.kind.starts_with("vector") {
        return Some(SEARCH);
    }
    if record.status == 429 {
        return Some(THROUGHPUT);
    }
    None
}

pub(super) fn is_change_feed(record: &Record) -> bool {
    record.header("a-im").is_some() && !record.path.ends_with("/pkranges")
}

/// What is to be answered: what was recorded, but where the recording shows what was wrong then.
pub(super) fn expected(record: &Record, records: &[Record]) -> Expectation {
    if record.path.starts_with("//addresses") {
        return Expectation::other(501, Model::Nothing);
    }
    if is_range_of_rid(record) {
        return Expectation::other(200, Model::Alike(ORDERED_ROWS));
    }
    // Parameters with a hyphen: the next record has the same query without.
    if record.kind.contains("@tenant-id") && record.status == 400 {
        return Expectation::other(200, Model::Same(record.index + 1));
    }
    if is_default_offer(record) {
        return Expectation::other(200, Model::Alike(OFFER));
    }
    // What is in a lease depends on those that the recording lacks.
    let is_lease = record.path.contains("/leases") && record.path.contains("/docs/");
    if is_lease && record.method == Method::GET && record.status == 200 {
        return Expectation::other(200, Model::Alike(record.index));
    }
    // HybridRow: the same batch was recorded again, with the answer that the client accepted.
    if record.is_batch() && record.status == 501 {
        let same = |other: &&Record| {
            let operations = |record: &Record| record.body.len();
            other.is_batch()
                && other.kind == record.kind
                && other.status != 501
                && operations(other) == operations(record)
        };
        return match records.iter().find(same) {
            Some(answered) => {
                Expectation { model: Model::Nothing, ..Expectation::recorded(answered) }
            }
            None => Expectation::other(200, Model::Nothing),
        };
    }
    Expectation::recorded(record)
}

/// A range named with the container's resource id, which was refused then.
fn is_range_of_rid(record: &Record) -> bool {
    let range = record.header("x-ms-documentdb-partitionkeyrangeid").unwrap_or("");
    record.status == 410
        && record.header("x-ms-documentdb-isquery").is_some()
        && range.contains(',')
}

/// Containers made without throughput have an offer by now.
fn is_default_offer(record: &Record) -> bool {
    record.kind.starts_with("throughput: container without") && record.path == "/offers"
}

/// What is wrong with an answer, in words.
///
/// `model` is the record whose answer is compared, with the body of that answer in our names.
pub(super) fn check(
    record: &Record,
    model: Option<(&Record, &str)>,
    answer: &Answer,
    expectation: &Expectation,
) -> Vec<String> {
    let mut wrong = Vec::new();
    if answer.status != expectation.status {
        wrong.push(format!(
            "{} instead of {}: {}",
            answer.status,
            expectation.status,
            answer.text()
        ));
        return wrong;
    }
    for name in ["x-ms-activity-id", "x-ms-request-charge", "x-ms-version", "x-ms-serviceversion"] {
        if answer.header(name).is_none() {
            wrong.push(format!("no header {name}"));
        }
    }
    if let Some(substatus) = &expectation.substatus {
        let given = answer.header("x-ms-substatus");
        if given != Some(substatus) {
            wrong.push(format!("sub-status {given:?} instead of {substatus}"));
        }
    }
    if record.is_batch() && answer.status < 300 {
        batches::check(&record.body, &answer.body, expectation.results.as_deref(), &mut wrong);
    }
    if record.header("x-ms-version") < Some("2018-12-31") && answer.text().contains("systemKey") {
        wrong.push("the system key is shown to an old client".to_owned());
    }
    let formats = record.header("x-ms-cosmos-supported-serialization-formats");
    let binary = formats == Some("CosmosBinary") && answer.status < 300 && !answer.body.is_empty();
    if binary_json::is_binary(&answer.body) != binary {
        wrong.push(format!("binary: {}, {formats:?} was asked for", !binary));
    }
    if let Some((model, body)) = model {
        check_like(record, model, body, answer, expectation, &mut wrong);
    }
    wrong
}

/// Compares an answer with the recorded one that is a model for it.
fn check_like(
    record: &Record,
    model: &Record,
    recorded: &str,
    answer: &Answer,
    expectation: &Expectation,
    wrong: &mut Vec<String>,
) {
    for (name, _) in &model.answer_headers {
        if !UNREAD.contains(&name.as_str()) && answer.header(name).is_none() {
            wrong.push(format!("no header {name}"));
        }
    }
    match (Value::parse(recorded.as_bytes()).ok(), json_of(answer)) {
        (Some(recorded), Some(own)) if matches!(expectation.model, Model::Alike(_)) => {
            alike(&recorded, &own, "", wrong);
            check_other_rows(record, &own, wrong);
        }
        (Some(recorded), Some(own)) => {
            let more = MORE_ROWS.iter().find(|(index, _)| *index == record.index);
            let page = Page::of(record, more.map_or(0, |(_, rows)| *rows));
            covers(page, &recorded, &own, "", wrong);
        }
        (Some(_), None) => wrong.push(format!("no JSON: {}", answer.text())),
        (None, _) if model.answer.is_empty() != answer.body.is_empty() => {
            let what = if answer.body.is_empty() { "no body" } else { "a body" };
            wrong.push(format!("{what}: {}", answer.text()));
        }
        (None, _) => {}
    }
    if record.method == Method::GET && record.path.ends_with("/pkranges") && answer.status == 200 {
        check_ranges(record, answer, wrong);
    }
}

/// What is known of rows that were not recorded.
fn check_other_rows(record: &Record, own: &Value, wrong: &mut Vec<String>) {
    if is_range_of_rid(record) {
        let rows = own.get("Documents").and_then(Value::as_array).unwrap();
        let values = rows.iter().map(|row| {
            let payload = row.get("payload").unwrap();
            let is_asked_for =
                payload.get("metricType").and_then(Value::as_str) == Some("Temperature");
            let value = payload.get("metricValue").and_then(Value::as_f64).unwrap();
            (is_asked_for && value > 100.0).then_some(value)
        });
        let Some(values) = values.collect::<Option<Vec<f64>>>() else {
            wrong.push("rows that were not asked for".to_owned());
            return;
        };
        if !values.is_sorted() {
            wrong.push(format!("rows in the order {values:?}"));
        }
    } else if is_default_offer(record) {
        let rows = own.get("Offers").and_then(Value::as_array).unwrap();
        let throughput = |row: &Value| row.get("content")?.get("offerThroughput")?.as_i64();
        let throughputs: Vec<Option<i64>> = rows.iter().map(throughput).collect();
        if throughputs != [Some(400)] {
            wrong.push(format!("offers of {throughputs:?} RU/s"));
        }
    } else {
        let id = own.get("id").and_then(Value::as_str).unwrap();
        let token = own.get("LeaseToken").and_then(Value::as_str);
        if Some(id.rsplit("..").next().unwrap()) != token {
            wrong.push(format!("the lease {id} has the token {token:?}"));
        }
    }
}

/// Notes where a body lacks properties of the recorded one. Rows are as the first recorded one.
fn alike(recorded: &Value, own: &Value, at: &str, wrong: &mut Vec<String>) {
    if let (Some(recorded), Some(own)) = (recorded.as_object(), own.as_object()) {
        for (name, value) in recorded.iter() {
            let at = format!("{at}/{name}");
            match own.get(name) {
                Some(own) => alike(value, own, &at, wrong),
                None => wrong.push(format!("no {at}")),
            }
        }
    } else if let (Some(recorded), Some(own)) = (recorded.as_array(), own.as_array()) {
        match recorded.first() {
            Some(_) if own.is_empty() => wrong.push(format!("{at} is empty")),
            Some(first) => {
                for (place, own) in own.iter().enumerate() {
                    alike(first, own, &format!("{at}/{place}"), wrong);
                }
            }
            None => {}
        }
    } else if recorded.kind_name() != own.kind_name() && !recorded.is_null() && !own.is_null() {
        wrong.push(format!("{at} is {}", own.to_json()));
    }
}

/// The SDKs route by these: the same bounds under the same ids.
fn check_ranges(record: &Record, answer: &Answer, wrong: &mut Vec<String>) {
    let ranges = |body: Option<Value>| -> Vec<String> {
        let body = body.unwrap();
        let text =
            |row: &Value, name: &str| row.get(name).and_then(Value::as_str).unwrap().to_owned();
        let rows = body.get("PartitionKeyRanges").and_then(Value::as_array).unwrap().iter();
        rows.map(|row| ["id", "minInclusive", "maxExclusive"].map(|name| text(row, name)).join(" "))
            .collect()
    };
    let (recorded, own) = (ranges(record.answer_json()), ranges(json_of(answer)));
    if recorded != own {
        wrong.push(format!("ranges {own:?} instead of {recorded:?}"));
    }
}

/// Notes where a body lacks what the recorded one has.
pub(super) fn covers(page: Page, recorded: &Value, own: &Value, at: &str, wrong: &mut Vec<String>) {
    if let (Some(recorded), Some(own)) = (recorded.as_object(), own.as_object()) {
        for (name, value) in recorded.iter() {
            let at = format!("{at}/{name}");
            match own.get(name) {
                None if is_system_key(value) => {}
                None if NO_LONGER_TOLD.iter().any(|told| at.ends_with(told)) => {}
                None if name == "previous" && !is_delete_by_user(recorded) => {}
                None => wrong.push(format!("no {at}")),
                Some(_) if name == "previous" && !is_delete_by_user(recorded) => {
                    wrong.push(format!("{at} is told"));
                }
                // An offer is called what its resource id is.
                Some(_) if name == "id" && Some(value) == recorded.get("_rid") => {}
                Some(own) if FEEDS.contains(&name) => rows::cover(page, value, own, &at, wrong),
                Some(own) if OWN.contains(&name) || name.starts_with('_') => {
                    if value.kind_name() != own.kind_name() {
                        wrong.push(format!("{at} is {}", own.to_json()));
                    }
                }
                Some(own) => covers(page, value, own, &at, wrong),
            }
        }
        return;
    }
    if let (Some(recorded), Some(own)) = (recorded.as_array(), own.as_array()) {
        if at.ends_with("/types") {
            if recorded.iter().any(|kind| !own.contains(kind)) {
                wrong.push(format!("{at} has not all of {recorded:?}"));
            }
            return;
        }
        if recorded.len() != own.len() {
            wrong.push(format!("{at} has {} elements instead of {}", own.len(), recorded.len()));
        }
        for (place, (recorded, own)) in recorded.iter().zip(own).enumerate() {
            covers(page, recorded, own, &format!("{at}/{place}"), wrong);
        }
        return;
    }
    if recorded != own {
        wrong.push(format!("{at} is {} instead of {}", own.to_json(), recorded.to_json()));
    }
}

/// The key of a container that was made without one, which clients of old API versions are not to
/// see: they would not read its items.
fn is_system_key(value: &Value) -> bool {
    value.get("systemKey").and_then(Value::as_bool) == Some(true)
}

/// Only there a row of the feed of all versions has the version before.
fn is_delete_by_user(row: &Object) -> bool {
    let metadata = row.get("metadata");
    let kind = metadata.and_then(|metadata| metadata.get("operationType")?.as_str());
    let expired = metadata.and_then(|metadata| metadata.get("timeToLiveExpired")?.as_bool());
    kind == Some("delete") && expired != Some(true)
}

//! What an answer must be for the SDK to go on.

use http::Method;
use partita_model::Value;

use super::{Record, batches, json_of};
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
    "metadata",
    "offerLastReplaceTimestamp",
    "offerResourceId",
    "resource",
    "sizeInKB",
];

/// Properties that were told then although the client had not named them.
const NO_LONGER_TOLD: [&str; 2] =
    ["/partitionKey/version", "/content/offerAutopilotSettings/autoUpgradePolicy"];

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
    /// Is the recorded answer a model for headers and body?
    as_recorded: bool,
    /// For batches: status and sub-status of each result.
    results: Option<Vec<(u32, u32)>>,
}

impl Expectation {
    pub(super) fn recorded(record: &Record) -> Expectation {
        Expectation {
            status: record.status,
            substatus: record.answer_header("x-ms-substatus").map(str::to_owned),
            as_recorded: true,
            results: batches::results(&record.answer),
        }
    }

    fn other(status: u16) -> Expectation {
        Expectation { status, substatus: None, as_recorded: false, results: None }
    }
}

/// Why a record is not replayed, if it is not.
pub(super) fn left_out(record: &Record) -> Option<&'static str> {
    match record.client.as_str() {
        "dotnet-table-1.0.8-cosmos-rest" => return Some("the Table protocol over REST"),
        "dotnet-table-1.0.8-storage" => return Some("Azure Storage's tables"),
        _ => {}
    }
    if record.path.contains("__.sys.tablesBatchOperation") {
        return Some("the Table SDK's system procedure");
    }
    if record.status == 501 && record.kind.starts_with("vector") {
        return Some("search");
    }
    if record.status == 429 {
        return Some("throughput: the_recorded_refusal_for_throughput_is_given");
    }
    None
}

pub(super) fn is_change_feed(record: &Record) -> bool {
    record.header("a-im").is_some() && !record.path.ends_with("/pkranges")
}

/// What is to be answered: what was recorded, but where the recording shows what was wrong then.
pub(super) fn expected(record: &Record, records: &[Record]) -> Expectation {
    if record.path.starts_with("//addresses") {
        return Expectation::other(501);
    }
    // Ranges named with the container's resource id.
    if record.status == 410 && record.header("x-ms-documentdb-isquery").is_some() {
        let range = record.header("x-ms-documentdb-partitionkeyrangeid").unwrap();
        if range.contains(',') {
            return Expectation::other(200);
        }
    }
    // Parameters with a hyphen.
    if record.kind.contains("@tenant-id") && record.status == 400 {
        return Expectation::other(200);
    }
    // Containers made without throughput have an offer by now.
    if record.kind.starts_with("throughput: container without") && record.path == "/offers" {
        return Expectation::other(200);
    }
    // What is in a lease depends on those that the recording lacks.
    if record.path.contains("/leases") && record.method == Method::GET && record.status == 200 {
        return Expectation::other(200);
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
            Some(answered) => Expectation { as_recorded: false, ..Expectation::recorded(answered) },
            None => Expectation::other(200),
        };
    }
    Expectation::recorded(record)
}

/// What is wrong with an answer, in words.
///
/// `recorded` is the recorded body with our names in it.
pub(super) fn check(
    record: &Record,
    recorded: &str,
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
    if let Some(results) = &expectation.results {
        let given = batches::results(&answer.body);
        if given.as_ref() != Some(results) {
            wrong.push(format!("results {given:?} instead of {results:?}"));
        }
    }
    if record.header("x-ms-version") < Some("2018-12-31") && answer.text().contains("systemKey") {
        wrong.push("the system key is shown to an old client".to_owned());
    }
    if !expectation.as_recorded {
        return wrong;
    }
    for (name, _) in &record.answer_headers {
        if !UNREAD.contains(&name.as_str()) && answer.header(name).is_none() {
            wrong.push(format!("no header {name}"));
        }
    }
    match (Value::parse(recorded.as_bytes()).ok(), json_of(answer)) {
        (Some(recorded), Some(own)) => covers(&recorded, &own, "", &mut wrong),
        (Some(_), None) => wrong.push(format!("no JSON: {}", answer.text())),
        (None, _) if record.answer.is_empty() != answer.body.is_empty() => {
            let what = if answer.body.is_empty() { "no body" } else { "a body" };
            wrong.push(format!("{what}: {}", answer.text()));
        }
        (None, _) => {}
    }
    if record.method == Method::GET && record.path.ends_with("/pkranges") && answer.status == 200 {
        check_ranges(record, answer, &mut wrong);
    }
    wrong
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
fn covers(recorded: &Value, own: &Value, at: &str, wrong: &mut Vec<String>) {
    if let (Some(recorded), Some(own)) = (recorded.as_object(), own.as_object()) {
        for (name, value) in recorded.iter() {
            let at = format!("{at}/{name}");
            match own.get(name) {
                None if is_system_key(value) || NO_LONGER_TOLD.contains(&at.as_str()) => {}
                None => wrong.push(format!("no {at}")),
                Some(own) if FEEDS.contains(&name) => covers_rows(value, own, &at, wrong),
                Some(own) if OWN.contains(&name) || name.starts_with('_') => {
                    if value.kind_name() != own.kind_name() {
                        wrong.push(format!("{at} is {}", own.to_json()));
                    }
                }
                Some(own) => covers(value, own, &at, wrong),
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
            covers(recorded, own, &format!("{at}/{place}"), wrong);
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

/// Of a feed the rows with the same id are compared. Where there are none, since what is stored
/// differs, a row of ours has the properties that all recorded ones have.
fn covers_rows(recorded: &Value, own: &Value, at: &str, wrong: &mut Vec<String>) {
    let (Some(recorded), Some(own)) = (recorded.as_array(), own.as_array()) else {
        wrong.push(format!("{at} is no array"));
        return;
    };
    if recorded.is_empty() != own.is_empty() {
        wrong.push(format!("{at} has {} rows instead of {}", own.len(), recorded.len()));
        return;
    }
    let Some(first) = own.first() else { return };
    for row in recorded {
        if let Some(fields) = row.as_object() {
            for (name, value) in fields.iter() {
                let shown = |row: &Value| row.get(name).is_some_and(|value| !is_system_key(value));
                let everywhere = recorded.iter().all(shown);
                match first.get(name) {
                    None if everywhere => wrong.push(format!("rows of {at} have no {name}")),
                    Some(own)
                        if everywhere
                            && name.starts_with('_')
                            && own.kind_name() != value.kind_name() =>
                    {
                        wrong.push(format!("{at} {name} is {}", own.to_json()));
                    }
                    _ => {}
                }
            }
        } else if row.kind_name() != first.kind_name() {
            wrong.push(format!("rows of {at} are {}", first.kind_name()));
        }
    }
}

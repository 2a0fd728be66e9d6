//! What the recording calls things, and what we call them.
//!
//! Recorded answers and ours are read side by side: where one has a resource id, an ETag or a
//! continuation, the other has our name for the same thing.

use std::collections::HashMap;

use partita_model::Value;

use super::{Record, checks, json_of};
use crate::support::{Answer, World};

#[derive(Default)]
pub(super) struct Names {
    /// Resource ids, ETags of resources and continuations. No two of them are alike.
    own: Vec<(String, String)>,
    /// Places in change feeds: small numbers, so they are known by feed.
    feeds: HashMap<(String, String), String>,
    /// Progress by container and range.
    progress: HashMap<(String, String), u64>,
    /// The last token of a permission.
    token: Option<String>,
}

/// Which feed it is: the container, with the range or the partition key.
fn feed_of(record: &Record) -> String {
    let range = record.header("x-ms-documentdb-partitionkeyrangeid");
    let part = range.or(record.header("x-ms-documentdb-partitionkey")).unwrap_or("");
    format!("{} {part}", record.path)
}

/// The container that a path names.
fn container_of(path: &str) -> String {
    path.split('/').take(5).collect::<Vec<_>>().join("/")
}

/// What the .NET SDKs sign for a path of resource ids, and for some others: its type and link.
/// None where it is the path itself.
pub(super) fn signed(path: &str) -> Option<(String, String)> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    match parts.as_slice() {
        ["dbs", database, "colls", container, "operations", _] => {
            Some(("colls".to_owned(), format!("dbs/{database}/colls/{container}")))
        }
        ["offers", offer] => Some(("offers".to_owned(), offer.to_lowercase())),
        ["dbs", database, rest @ ..] if database.ends_with("==") && database.len() == 8 => {
            let kind = if rest.len() % 2 == 1 { rest.len() } else { rest.len().saturating_sub(1) };
            let kind = if rest.is_empty() { "dbs" } else { rest[kind - 1] };
            let ids = rest.len() / 2 * 2;
            let own = if ids == 0 { database } else { rest[ids - 1] };
            Some((kind.to_owned(), own.to_lowercase()))
        }
        _ => None,
    }
}

impl Names {
    /// These are names of the same thing.
    pub(super) fn same(&mut self, recorded: &str, own: &str) {
        self.own.retain(|(known, _)| known != recorded);
        self.own.push((recorded.to_owned(), own.to_owned()));
        // The longest first: a container's resource id begins those of its items.
        self.own.sort_by_key(|(recorded, _)| std::cmp::Reverse(recorded.len()));
    }

    pub(super) fn knows(&self, recorded: &str) -> bool {
        self.own.iter().any(|(known, _)| known == recorded)
    }

    pub(super) fn token(&self) -> &str {
        self.token.as_deref().unwrap()
    }

    /// A text of the recording with our names in it, also inside of JSON strings.
    pub(super) fn translate(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (recorded, own) in &self.own {
            text = text.replace(recorded.as_str(), own);
            if recorded.contains('"') {
                let escaped = |text: &str| text.replace('"', "\\\"");
                text = text.replace(&escaped(recorded), &escaped(own));
            }
        }
        text
    }

    /// Names in bytes, where both have the same length.
    pub(super) fn translate_bytes(&self, bytes: &mut [u8]) {
        for (recorded, own) in self.own.iter().filter(|(a, b)| a.len() == b.len()) {
            let length = recorded.len();
            for at in 0..=bytes.len().saturating_sub(length) {
                if bytes.get(at..at + length) == Some(recorded.as_bytes()) {
                    bytes[at..at + length].copy_from_slice(own.as_bytes());
                }
            }
        }
    }

    /// Our session token for the ranges that a recorded one names. A recorded token that was ahead
    /// of its time stays ahead.
    pub(super) fn session(&self, record: &Record, recorded: &str) -> Option<String> {
        let container = container_of(&self.translate(&record.path));
        let ahead = match record.answer_header("x-ms-substatus") {
            Some("1002") if record.status == 404 => 100_000,
            _ => 0,
        };
        let part = |part: &str| {
            let range = part.split(':').next()?.to_owned();
            let lsn = self.progress.get(&(container.clone(), range.clone()))? + ahead;
            Some(format!("{range}:-1#{lsn}"))
        };
        let parts: Vec<String> = recorded.split(',').filter_map(part).collect();
        (!parts.is_empty()).then(|| parts.join(","))
    }

    /// Our ETag for a recorded place in a change feed.
    pub(super) fn feed_etag(&self, record: &Record, recorded: &str) -> String {
        let key = (feed_of(record), recorded.to_owned());
        self.feeds.get(&key).cloned().unwrap_or_else(|| recorded.to_owned())
    }

    /// Sees to it that a recorded place in a change feed has a name of ours. Where the recording
    /// lacks the page that gave it, it is as many changes before the end as its answer has.
    pub(super) fn place_in_feed(&mut self, world: &World, record: &Record, recorded: &str) {
        let key = (feed_of(record), recorded.to_owned());
        // What was stored was not quite the same: the end is where our feed ends.
        let at_end = record.status == 304;
        if recorded == "*" || self.feeds.contains_key(&key) && !at_end {
            return;
        }
        let mut ask = world.get(&self.translate(&record.path));
        for name in ["x-ms-documentdb-partitionkeyrangeid", "x-ms-documentdb-partitionkey"] {
            if let Some(value) = record.header(name) {
                ask = ask.header(name, value);
            }
        }
        let end = ask.header("a-im", "Incremental Feed").header("if-none-match", "*").send();
        let end: u64 = end.header("etag").unwrap().trim_matches('"').parse().unwrap();
        let rows = record.answer_json().and_then(|body| body.get("_count")?.as_i64());
        let before = end.saturating_sub(u64::try_from(rows.unwrap_or(0)).unwrap());
        self.feeds.insert(key, format!("\"{before}\""));
    }

    /// Takes the names out of a recorded answer and ours.
    pub(super) fn learn(&mut self, record: &Record, answer: &Answer) {
        if let Some(token) = answer.header("x-ms-session-token") {
            let container = container_of(&self.translate(&record.path));
            for part in token.split(',') {
                let (range, lsn) = part.split_once(":-1#").unwrap();
                let key = (container.clone(), range.to_owned());
                self.progress.insert(key, lsn.parse().unwrap());
            }
        }
        let pair = |name: &str| Some((record.answer_header(name)?, answer.header(name)?));
        if let Some((recorded, own)) = pair("x-ms-continuation") {
            self.same(recorded, own);
        }
        if let Some((recorded, own)) = pair("etag") {
            match checks::is_change_feed(record) {
                true => {
                    self.feeds.insert((feed_of(record), recorded.to_owned()), own.to_owned());
                }
                false => self.same(recorded, own),
            }
        }
        if let (Some(recorded), Some(own)) = (record.answer_json(), json_of(answer)) {
            self.learn_from(&recorded, &own);
        }
    }

    fn learn_from(&mut self, recorded: &Value, own: &Value) {
        if let (Some(recorded), Some(own)) = (recorded.as_array(), own.as_array()) {
            for row in recorded {
                let id = row.get("offerResourceId").or(row.get("id")).and_then(Value::as_str);
                let id = id.map(|id| self.translate(id));
                let same = |own: &&Value| {
                    let own_id = own.get("offerResourceId").or(own.get("id"));
                    own_id.and_then(Value::as_str) == id.as_deref() && id.is_some()
                };
                if let Some(own) = own.iter().find(same) {
                    self.learn_from(row, own);
                }
            }
            return;
        }
        let (Some(recorded), Some(own)) = (recorded.as_object(), own.as_object()) else { return };
        for (name, value) in recorded.iter() {
            let Some(counterpart) = own.get(name) else { continue };
            match (name, value.as_str(), counterpart.as_str()) {
                ("_rid" | "_etag", Some(recorded), Some(own)) if recorded.len() >= 4 => {
                    self.same(recorded, own);
                }
                ("_token", _, Some(token)) => self.token = Some(token.to_owned()),
                _ => self.learn_from(value, counterpart),
            }
        }
    }
}

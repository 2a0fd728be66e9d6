//! Commits and answers: what the model makes of the one, and the other compared with that.

use std::collections::BTreeMap;

use bytes::Bytes;
use partita_engine::{BatchDone, BatchResult, Outcome, Reply, Served};
use partita_model::{Error, ErrorKind, Value};

use super::ask::{item_of, key_of, writes_of};
use super::{Checked, World};
use crate::isolation::Sight;
use crate::kind::{Doc, IDS, KEYS, Kind, id_number, id_text};
use crate::model::{Done, Item, Items, Moment, Want, apply, apply_all, lives};
use crate::plan::Ask;
use crate::scripts::Procedure;
use crate::store::{Actor, Seen};

/// An operation whose end is not known yet.
pub(super) struct Record {
    container: usize,
    ask: Ask,
    /// Faults of the store before it began.
    faults: u64,
    /// What others were told before it began.
    floor: u64,
    /// Changes of its logical partition before it began.
    since: usize,
    commits: Vec<u64>,
    /// What its commit came to.
    done: Vec<Done>,
    /// The same for each operation of a bulk, by the id that it is about.
    parts: BTreeMap<u8, Done>,
    /// What its procedure has to answer.
    answer: Option<Vec<Value>>,
    /// Nobody waits for it any more.
    is_over: bool,
}

/// What the failure of a write says of which nobody knows yet whether it was done. All others were
/// not done, and must not be later.
const UNKNOWN: &str = "Whether this write was done is known when";

/// Marks the numbers of commits in the history that are not all of their operation.
const PART: u64 = 1 << 63;

impl Record {
    pub(super) fn new(
        container: usize,
        ask: Ask,
        faults: u64,
        (floor, since): (u64, usize),
    ) -> Record {
        let (commits, done, parts) = (Vec::new(), Vec::new(), BTreeMap::new());
        let (answer, is_over) = (None, false);
        Record { container, ask, faults, floor, since, commits, done, parts, answer, is_over }
    }
}

/// What a commit stored, by id.
struct Stored {
    documents: BTreeMap<u8, Value>,
    deleted: Vec<u8>,
}

/// What an operation comes to.
struct Effect {
    done: Vec<Done>,
    changes: Vec<(u8, Option<u64>)>,
    answer: Option<Vec<Value>>,
}

impl World {
    /// Takes note of what has become visible.
    pub(super) fn absorb(&mut self) -> Checked {
        for seen in self.disk.take_seen() {
            self.take_note(&seen)?;
        }
        let reopenings = self.disk.reopenings();
        if reopenings > self.reopenings {
            // What became of the writes whose end was unknown is known now.
            self.report.reopenings += reopenings - self.reopenings;
            self.reopenings = reopenings;
            self.records.retain(|_, record| !record.is_over);
        }
        for (container, key, id) in std::mem::take(&mut self.touched) {
            self.look_at(container, key, id)?;
        }
        Ok(())
    }

    /// Nobody waits for an operation any more; it may still be committed.
    pub(super) fn end_record(&mut self, number: u64) {
        if let Some(record) = self.records.get_mut(&number) {
            record.is_over = true;
        }
    }

    /// Brings the model up to date after a commit.
    pub(super) fn take_note(&mut self, seen: &Seen) -> Checked {
        if seen.items.is_empty() {
            return Ok(());
        }
        let number = match seen.actor {
            Actor::Operation(number) => number,
            Actor::Maintenance if seen.files => return self.note_expiry(seen),
            Actor::Maintenance | Actor::Nobody => return Ok(()),
        };
        let Some(mut record) = self.records.remove(&number) else {
            return Err(format!("operation {number} committed after it was answered: {seen:?}"));
        };
        self.stamp += 1;
        let stored = stored(&seen.items)?;
        let container = record.container;
        let kind = self.kind(container);
        let (key, ask) = part_of(&record.ask, &stored)
            .ok_or_else(|| format!("a commit of {:?} stores what it does not say", record.ask))?;
        let etag = |document: &Value| {
            let text = document.get("_etag").and_then(Value::as_str).unwrap_or_default();
            text.trim_matches('"').to_owned()
        };
        let etags = stored.documents.iter().map(|(id, document)| (*id, etag(document))).collect();
        let (lsn, stamp) = (seen.lsn.0, self.stamp);
        let at = Moment { seconds: seen.submitted, lsn, stamp, etags };
        let contents = &mut self.containers[container];
        contents.check_order(key, lsn).map_err(|what| format!("{ask:?}: {what}"))?;
        contents.ages.push((stamp, seen.submitted));
        let items = contents.keys.entry(key).or_default();
        let mut expired = items.clone();
        expired.retain(|_, item| !lives(kind, item, at.seconds));
        let effect = effect(kind, items, &ask, &at, &stored);
        if effect.done.iter().any(Done::is_failure) {
            let failed = &effect.done;
            return Err(format!("{:?} was committed, and comes to {failed:?}", record.ask));
        }
        compare_stored(items, &stored)?;
        for (id, n) in &effect.changes {
            self.touched.insert((container, key, *id));
            if expired.remove(id).is_some() {
                contents.change(key, lsn, *id, (None, true));
            }
            contents.change(key, lsn, *id, (*n, false));
        }
        // Operations of a bulk, and what a partition key is cleared by, are commits of their own.
        let is_whole = !matches!(record.ask, Ask::Bulk { .. } | Ask::Clear { .. });
        let node = if is_whole { number } else { PART | stamp };
        self.history.committed(node, (container, key), lsn, &effect.changes);
        record.commits.push(lsn);
        if let (Ask::Bulk { .. }, Ask::One { want, .. }) = (&record.ask, &ask) {
            record.parts.extend(effect.done.first().map(|done| (id_of(want), done.clone())));
        }
        record.done.extend(effect.done);
        record.answer = effect.answer.or(record.answer);
        self.records.insert(number, record);
        Ok(())
    }

    /// The sweep removed an item, whose time must be over.
    fn note_expiry(&mut self, seen: &Seen) -> Checked {
        let container = self.owner(seen.partition)?;
        let container = container.ok_or_else(|| format!("nobody's partition changes: {seen:?}"))?;
        let (kind, lsn) = (self.kind(container), seen.lsn.0);
        let contents = &mut self.containers[container];
        for (place, value) in &seen.items {
            let key = (0..KEYS).find(|key| kind.is_key_of(*key, place));
            let id = (0..IDS).find(|id| is_id_of(*id, place));
            let (Some((key, id)), None) = (key.zip(id), value) else {
                return Err(format!("maintenance files what it does not remove: {seen:?}"));
            };
            contents.check_order(key, lsn)?;
            let items = contents.keys.entry(key).or_default();
            let item = items.remove(&id).filter(|item| !lives(kind, item, seen.submitted));
            if item.is_none() {
                return Err(format!("an item that is not expired was removed: {seen:?}"));
            }
            contents.change(key, lsn, id, (None, true));
            self.stamp += 1;
            contents.ages.push((self.stamp, seen.submitted));
            let node = PART | self.stamp;
            self.history.committed(node, (container, key), lsn, &[(id, None)]);
        }
        self.report.expiries += 1;
        Ok(())
    }

    /// An operation was answered.
    pub(super) fn answered(&mut self, client: usize, number: u64, reply: Reply) -> Checked {
        let Some(record) = self.records.remove(&number) else {
            return Err(format!("operation {number} is not known"));
        };
        self.disk.note(number);
        let served = reply.served.clone();
        self.note_served(client, &record, served.as_ref(), reply.result.is_ok())?;
        match &reply.result {
            Ok(outcome) => {
                self.report.acknowledged += 1;
                self.disk.note(served.map_or(0, |served| served.lsn.0));
                self.check_success(client, number, &record, outcome)
            }
            Err(error) => self.check_failure(number, &record, error),
        }
        .map_err(|what| format!("{:?} of container {}: {what}", record.ask, record.container))?;
        if is_unknown(&reply) && self.disk.is_poisoned() {
            self.records.insert(number, Record { is_over: true, ..record });
        }
        Ok(())
    }

    /// What was told never goes back, whoever was told.
    fn note_served(
        &mut self,
        client: usize,
        record: &Record,
        served: Option<&Served>,
        is_done: bool,
    ) -> Checked {
        let (Some(key), Some(served)) = (key_of(&record.ask), served) else { return Ok(()) };
        let lsn = served.lsn.0;
        if lsn < record.floor {
            let floor = record.floor;
            return Err(format!("{:?} shows LSN {lsn} after {floor} was told", record.ask));
        }
        if is_done && let Some(committed) = record.commits.last() {
            if *committed != lsn && !matches!(record.ask, Ask::Clear { .. }) {
                return Err(format!("{:?} tells LSN {lsn}, it is {committed}", record.ask));
            }
            if *committed <= record.floor {
                return Err(format!("{:?} has an LSN that was told before", record.ask));
            }
        }
        let token = format!("{}:-1#{lsn}", served.range_id);
        self.clients[client].tokens.insert((record.container, key), token);
        let told = self.containers[record.container].told.entry(key).or_default();
        *told = lsn.max(*told);
        Ok(())
    }

    /// What the model has the operation come to at this moment, if nothing is changed by it.
    fn expected(&self, record: &Record) -> Effect {
        let seconds = self.seconds();
        let at = Moment { seconds, stamp: self.stamp, ..Moment::default() };
        let key = key_of(&record.ask).unwrap_or(0);
        let contents = &self.containers[record.container];
        let mut items = contents.keys.get(&key).cloned().unwrap_or_default();
        let nothing = Stored { documents: BTreeMap::new(), deleted: Vec::new() };
        effect(self.kind(record.container), &mut items, &record.ask, &at, &nothing)
    }

    fn check_success(
        &mut self,
        client: usize,
        number: u64,
        record: &Record,
        outcome: &Outcome,
    ) -> Checked {
        match (&record.ask, outcome) {
            (Ask::One { key, want }, outcome) => {
                let expected = self.expected_done(record, matches!(want, Want::Read(_)))?;
                let expected = expected.first().ok_or("nothing came of it")?.clone();
                check_item(&expected, outcome)?;
                self.note_item(client, number, record, (*key, want), outcome)
            }
            (Ask::Batch { key, wants }, Outcome::Batch { results }) => {
                let is_broken = results.iter().any(|result| result.result.is_err());
                let reads = wants.iter().all(|want| matches!(want, Want::Read(_)));
                if is_partly_unknown(results) {
                    return Ok(());
                }
                let expected = self.expected_done(record, is_broken || reads)?;
                if is_broken && self.disk.has_failed_since(record.faults) {
                    return Ok(());
                }
                check_results(&expected, results)?;
                match is_broken {
                    true => Ok(()),
                    false => self.note_reads(number, record, *key, wants, results),
                }
            }
            (Ask::Bulk { wants }, Outcome::Batch { results }) => {
                let is_excused = self.disk.has_failed_since(record.faults);
                check_bulk(record, wants, results, is_excused)
            }
            (Ask::Call { key, procedure, docs }, Outcome::ProcedureAnswer { answer }) => {
                let is_changed = !writes_of(*procedure, docs).is_empty();
                if is_changed == record.commits.is_empty() {
                    return Err(format!("{} commits", record.commits.len()));
                }
                let expected = match is_changed {
                    true => record.answer.clone(),
                    false => self.expected(record).answer,
                };
                let told = answer.as_ref().and_then(|text| Value::parse(text.as_bytes()).ok());
                let told = told.and_then(|told| told.as_array().map(<[Value]>::to_vec));
                if sorted(told.as_ref()) != sorted(expected.as_ref()) {
                    return Err(format!("answers {told:?} instead of {expected:?}"));
                }
                let told = told.unwrap_or_default();
                if *procedure != Procedure::Tally {
                    let reads = docs.iter().zip(&told).map(|(doc, n)| (doc.id, number_of(n)));
                    return self.saw(number, record, *key, reads.collect());
                }
                Ok(())
            }
            (_, Outcome::MovePlanned { .. }) => {
                self.report.moves += 1;
                Ok(())
            }
            (Ask::Policy { .. }, _) => {
                self.report.policies += 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// What an operation came to by its commit; or comes to now, if it changed nothing.
    fn expected_done(&self, record: &Record, changes_nothing: bool) -> Checked<Vec<Done>> {
        match (changes_nothing, record.commits.len()) {
            (true, 0) => Ok(self.expected(record).done),
            (false, 1) => Ok(record.done.clone()),
            (_, commits) => Err(format!("it was answered after {commits} commits")),
        }
    }

    fn check_failure(&mut self, number: u64, record: &Record, error: &Error) -> Checked {
        let is_whole = !matches!(record.ask, Ask::Clear { .. } | Ask::Bulk { .. });
        if is_whole && !record.commits.is_empty() && !says_unknown(error) {
            return Err(format!("it was committed, and answered with {error:?}"));
        }
        let frees =
            matches!(record.ask, Ask::Clear { .. } | Ask::One { want: Want::Delete(..), .. });
        if frees && error.kind == ErrorKind::DiskFull {
            return Err(format!("frees space, and fails with {error:?}"));
        }
        if is_fault(&error.kind) && self.disk.has_failed_since(record.faults) {
            return Ok(());
        }
        match (&record.ask, &error.kind) {
            (_, ErrorKind::RetryWith | ErrorKind::RangeMoving | ErrorKind::RangeGone) => Ok(()),
            (Ask::Call { procedure: Procedure::Rollback, .. }, ErrorKind::ScriptFailed { .. })
            | (Ask::Call { procedure: Procedure::Rollback, .. }, ErrorKind::BadRequest) => Ok(()),
            (
                Ask::Split { .. } | Ask::Merge { .. } | Ask::Policy { .. },
                ErrorKind::BadRequest
                | ErrorKind::Conflict
                | ErrorKind::NotFound
                | ErrorKind::PreconditionFailed,
            ) => Ok(()),
            (Ask::One { key, want }, kind) => {
                let done = self.expected(record).done;
                match done.first() {
                    Some(Done::NotFound) if *kind == ErrorKind::NotFound => {
                        self.saw(number, record, *key, vec![(id_of(want), None)])
                    }
                    Some(done) if failure(kind).as_ref() == Some(done) => Ok(()),
                    done => Err(format!("fails with {error:?}, and comes to {done:?}")),
                }
            }
            _ => Err(format!("fails with {error:?}")),
        }
    }

    /// What a client has seen of an item.
    fn note_item(
        &mut self,
        client: usize,
        number: u64,
        record: &Record,
        (key, want): (u8, &Want),
        outcome: &Outcome,
    ) -> Checked {
        let Some(item) = item_of(outcome) else { return Ok(()) };
        let id = item.get("id").and_then(Value::as_str).and_then(id_number);
        let id = id.ok_or("an item without an id")?;
        if let Some(etag) = item.get("_etag").and_then(Value::as_str) {
            let place = (record.container, key, id);
            self.clients[client].etags.insert(place, etag.trim_matches('"').to_owned());
        }
        let read = match want {
            Want::Read(_) => item.get("n").and_then(number_of),
            Want::Patch { .. } => before(&item),
            _ => return Ok(()),
        };
        self.saw(number, record, key, vec![(id, read)])
    }

    fn saw(
        &mut self,
        number: u64,
        record: &Record,
        key: u8,
        reads: Vec<(u8, Option<u64>)>,
    ) -> Checked {
        let expire = self.kind(record.container).default_ttl().is_some();
        let sight = Sight { reads, since: record.since, expire };
        self.history.saw(number, (record.container, key), sight)
    }

    /// What a batch read of items that it had not written itself before.
    fn note_reads(
        &mut self,
        number: u64,
        record: &Record,
        key: u8,
        wants: &[Want],
        results: &[BatchResult],
    ) -> Checked {
        let (mut reads, mut written) = (Vec::new(), Vec::new());
        for (want, result) in wants.iter().zip(results) {
            let item = match &result.result {
                Ok(BatchDone::Item { body: Some(body), .. }) => Value::parse(&body.0).ok(),
                _ => None,
            };
            match want {
                Want::Read(id) if !written.contains(id) => {
                    reads.push((*id, item.and_then(|item| number_of(item.get("n")?))));
                }
                Want::Patch { id, .. } if !written.contains(id) => {
                    reads.push((*id, item.as_ref().and_then(before)));
                    written.push(*id);
                }
                Want::Read(_) | Want::Patch { .. } => {}
                Want::Create(doc) | Want::Upsert(doc, _) => written.push(doc.id),
                Want::Replace(id, doc, _) => written.extend([*id, doc.id]),
                Want::Delete(id, _) => written.push(*id),
            }
        }
        self.saw(number, record, key, reads)
    }
}

/// Does nobody know yet whether all of it was done?
fn is_unknown(reply: &Reply) -> bool {
    match &reply.result {
        Err(error) => says_unknown(error),
        Ok(Outcome::Batch { results }) => is_partly_unknown(results),
        Ok(_) => false,
    }
}

fn is_partly_unknown(results: &[BatchResult]) -> bool {
    results.iter().any(|result| result.result.as_ref().is_err_and(says_unknown))
}

fn says_unknown(error: &Error) -> bool {
    error.message.contains(UNKNOWN)
}

fn number_of(value: &Value) -> Option<u64> {
    value.as_i64().and_then(|n| u64::try_from(n).ok())
}

/// The version that a patch was made of: the last but one of the log.
fn before(item: &Value) -> Option<u64> {
    let log = item.get("log")?.as_array()?;
    number_of(log.get(log.len().checked_sub(2)?)?)
}

fn sorted(values: Option<&Vec<Value>>) -> Vec<String> {
    let mut texts: Vec<String> = values.into_iter().flatten().map(Value::to_json).collect();
    texts.sort();
    texts
}

fn failure(kind: &ErrorKind) -> Option<Done> {
    match kind {
        ErrorKind::NotFound => Some(Done::NotFound),
        ErrorKind::Conflict => Some(Done::Conflict),
        ErrorKind::PreconditionFailed => Some(Done::Precondition),
        ErrorKind::FailedDependency => Some(Done::Dependency),
        _ => None,
    }
}

/// Reads what a commit stored from the records of the items.
fn stored(items: &[(Bytes, Option<Bytes>)]) -> Checked<Stored> {
    let mut stored = Stored { documents: BTreeMap::new(), deleted: Vec::new() };
    for (key, value) in items {
        match value {
            Some(value) => {
                let start = value.windows(7).position(|part| part == b"{\"id\":\"");
                let text = start.map(|start| &value[start..]).unwrap_or_default();
                let document = Value::parse(text).map_err(|error| format!("no item: {error}"))?;
                let id = document.get("id").and_then(Value::as_str).and_then(id_number);
                stored.documents.insert(id.ok_or("an item without an id")?, document);
            }
            None => {
                stored.deleted.extend((0..IDS).find(|id| is_id_of(*id, key)));
            }
        }
    }
    stored.deleted.sort_unstable();
    Ok(stored)
}

/// Is this the key of an item with that id?
fn is_id_of(id: u8, key: &[u8]) -> bool {
    let text = id_text(id);
    key.windows(text.len()).any(|part| part == text.as_bytes())
}

/// The part of a request that a commit belongs to, and its logical partition.
fn part_of(ask: &Ask, stored: &Stored) -> Option<(u8, Ask)> {
    let Ask::Bulk { wants } = ask else { return Some((key_of(ask)?, ask.clone())) };
    let id = stored.documents.keys().chain(&stored.deleted).next()?;
    let (key, want) = wants.iter().find(|(_, want)| id_of(want) == *id)?;
    Some((*key, Ask::One { key: *key, want: want.clone() }))
}

fn id_of(want: &Want) -> u8 {
    match want {
        Want::Create(Doc { id, .. })
        | Want::Upsert(Doc { id, .. }, _)
        | Want::Replace(id, ..)
        | Want::Patch { id, .. }
        | Want::Delete(id, _)
        | Want::Read(id) => *id,
    }
}

/// Does what a request asks for.
fn effect(kind: Kind, items: &mut Items, ask: &Ask, at: &Moment, stored: &Stored) -> Effect {
    let mut effect = Effect { done: Vec::new(), changes: Vec::new(), answer: None };
    match ask {
        Ask::One { want, .. } => {
            effect.done.push(apply(kind, items, want, at));
            effect.changes = changes_of(want);
        }
        Ask::Batch { wants, .. } => {
            effect.done = apply_all(kind, items, wants, at);
            effect.changes = wants.iter().flat_map(changes_of).collect();
        }
        Ask::Call { procedure, docs, .. } => {
            effect.answer = Some(answer(kind, items, *procedure, docs, at));
            for doc in writes_of(*procedure, docs) {
                let want = Want::Upsert(doc, None);
                effect.done.push(apply(kind, items, &want, at));
                effect.changes.extend(changes_of(&want));
            }
        }
        Ask::Clear { .. } => {
            for id in &stored.deleted {
                let want = Want::Delete(*id, None);
                effect.done.push(apply(kind, items, &want, at));
                effect.changes.extend(changes_of(&want));
            }
        }
        Ask::Bulk { .. } | Ask::Split { .. } | Ask::Merge { .. } | Ask::Policy { .. } => {}
    }
    effect
}

fn answer(
    kind: Kind,
    items: &Items,
    procedure: Procedure,
    docs: &[Doc; 2],
    at: &Moment,
) -> Vec<Value> {
    let number = |item: &Item| Value::from(i64::try_from(item.n).unwrap_or(i64::MAX));
    let live = |item: &&Item| lives(kind, item, at.seconds);
    let of = |doc: &Doc| items.get(&doc.id).filter(live).map_or(Value::Null, number);
    match procedure {
        Procedure::Tally => items.values().filter(live).map(number).collect(),
        Procedure::Pair | Procedure::Rollback | Procedure::Look => docs.iter().map(of).collect(),
    }
}

/// What a successful operation changes.
fn changes_of(want: &Want) -> Vec<(u8, Option<u64>)> {
    match want {
        Want::Read(_) => Vec::new(),
        Want::Create(doc) | Want::Upsert(doc, _) => vec![(doc.id, Some(doc.n))],
        Want::Replace(id, doc, _) if *id != doc.id => vec![(*id, None), (doc.id, Some(doc.n))],
        Want::Replace(_, doc, _) => vec![(doc.id, Some(doc.n))],
        Want::Patch { id, n, .. } => vec![(*id, Some(*n))],
        Want::Delete(id, _) => vec![(*id, None)],
    }
}

/// What is in the store is what the model has.
fn compare_stored(items: &Items, stored: &Stored) -> Checked {
    for (id, document) in &stored.documents {
        let item =
            items.get(id).ok_or_else(|| format!("item {id} was stored, and is not there"))?;
        compare(item, document)?;
    }
    match stored.deleted.iter().find(|id| items.contains_key(id)) {
        Some(id) => Err(format!("item {id} was removed, and is there")),
        None => Ok(()),
    }
}

/// An item is what the model has.
pub(super) fn compare(item: &Item, document: &Value) -> Checked {
    let number = |name: &str| document.get(name).and_then(number_of);
    let log = document.get("log").and_then(Value::as_array).unwrap_or_default();
    let log: Vec<u64> = log.iter().filter_map(number_of).collect();
    let is_same = number("n") == Some(item.n)
        && number("u") == Some(item.u)
        && number("c") == Some(item.c)
        && log == item.log
        && number("_ts") == Some(item.ts);
    match is_same {
        true => Ok(()),
        false => Err(format!("the item is {}, it must be {item:?}", document.to_json())),
    }
}

fn check_item(expected: &Done, outcome: &Outcome) -> Checked {
    match (expected, outcome) {
        (Done::Deleted, Outcome::Deleted) => Ok(()),
        (Done::Item(item), outcome @ Outcome::Item { etag, .. }) => {
            let document = item_of(outcome).ok_or("the item is no document")?;
            compare(item, &document)?;
            let etag = etag.to_string();
            match etag == item.etag {
                true => Ok(()),
                false => Err(format!("the item's ETag is {etag}, it must be {}", item.etag)),
            }
        }
        (expected, outcome) => Err(format!("answers {outcome:?} instead of {expected:?}")),
    }
}

fn check_results(expected: &[Done], results: &[BatchResult]) -> Checked {
    for (expected, result) in expected.iter().zip(results) {
        let is_same = match (&result.result, expected) {
            (Ok(BatchDone::Item { body: Some(body), .. }), Done::Item(item)) => {
                let document = Value::parse(&body.0).map_err(|error| error.to_string())?;
                compare(item, &document)?;
                true
            }
            (Ok(BatchDone::Deleted), Done::Deleted) => true,
            (Err(error), expected) => failure(&error.kind).as_ref() == Some(expected),
            _ => false,
        };
        if !is_same {
            return Err(format!("{results:?} instead of {expected:?}"));
        }
    }
    Ok(())
}

/// What a bulk says was done was committed as it says, and nothing else was. Why others were not,
/// was decided at different times.
fn check_bulk(
    record: &Record,
    wants: &[(u8, Want)],
    results: &[BatchResult],
    is_excused: bool,
) -> Checked {
    if wants.len() != results.len() {
        return Err(format!("{} results", results.len()));
    }
    for ((_, want), result) in wants.iter().zip(results) {
        let done = record.parts.get(&id_of(want));
        let is_right = match (&result.result, done) {
            (Ok(_), Some(done)) => {
                check_results(std::slice::from_ref(done), std::slice::from_ref(result))?;
                true
            }
            (Err(error), None) => match &error.kind {
                ErrorKind::RetryWith | ErrorKind::RangeMoving | ErrorKind::RangeGone => true,
                ErrorKind::NotFound | ErrorKind::Conflict => true,
                kind => is_fault(kind) && is_excused,
            },
            (Err(error), Some(_)) => says_unknown(error),
            (Ok(_), None) => false,
        };
        if !is_right {
            return Err(format!("{want:?} comes to {done:?}, answered with {result:?}"));
        }
    }
    Ok(())
}

/// Is it a failure that a fault of the store may lead to?
fn is_fault(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::Unavailable | ErrorKind::Internal | ErrorKind::DiskFull)
}

//! Reads of much at once: they wait for nothing, so what they answer is what the model has at that
//! moment. A query that is read over many events must show everything that did not change
//! meanwhile, once.

use std::collections::BTreeMap;

use partita_engine::{Context, Op, Outcome, PageRequest, QueryRequest, Reply, Scope};
use partita_model::{ErrorKind, Value};

use super::ask::{item_of, item_path};
use super::commits::compare;
use super::{Checked, World};
use crate::kind::{IDS, KEYS, id_number, path};
use crate::model::{Item, lives};

/// A query that is read page by page.
pub(super) struct Cursor {
    container: usize,
    continuation: Option<String>,
    /// How often each version was shown.
    shown: BTreeMap<u64, u64>,
    /// The versions that were there when it began.
    begun: Vec<(u8, u8, Item)>,
}

impl World {
    /// The living items of a container, by logical partition and id.
    pub(super) fn living(&self, container: usize) -> Vec<(u8, u8, Item)> {
        let (kind, seconds) = (self.kind(container), self.seconds());
        let keys = self.containers[container].keys.iter();
        let all = keys.flat_map(|(key, items)| {
            let living = items.iter().filter(move |(_, item)| lives(kind, item, seconds));
            living.map(|(id, item)| (*key, *id, item.clone()))
        });
        all.collect()
    }

    /// Is this a failure that the store was made to have?
    pub(super) fn is_excused(&self, reply: &Reply, faults: u64) -> bool {
        let failed = reply.result.as_ref().err().map(|error| &error.kind);
        let is_fault = matches!(failed, Some(ErrorKind::Unavailable | ErrorKind::Internal));
        is_fault && self.disk.has_failed_since(faults)
    }

    /// Reads some item, in passing.
    pub(super) fn look_at_one(&mut self) -> Checked {
        let number = self.disk.trace();
        let container = (number % self.containers.len() as u64) as usize;
        let (key, id) = ((number >> 8) % u64::from(KEYS), (number >> 16) % u64::from(IDS));
        self.look_at(container, key as u8, id as u8)
    }

    /// A point read is what the model has.
    pub(super) fn look_at(&self, container: usize, key: u8, id: u8) -> Checked {
        let kind = self.kind(container);
        let op = Op::ReadItem { path: item_path(kind, container, key, id), condition: None };
        let faults = self.disk.faults();
        let Some(reply) = self.database.execute_now(&op, &Context::default()) else {
            return Err("a point read waits".into());
        };
        if self.is_excused(&reply, faults) {
            return Ok(());
        }
        let items = &self.containers[container].keys[&key];
        let item = items.get(&id).filter(|item| lives(kind, item, self.seconds()));
        let place = format!("item {id} of {} in container {container}", kind.key_json(key));
        match (item, &reply.result) {
            (None, Err(error)) if error.kind == ErrorKind::NotFound => Ok(()),
            (Some(item), Ok(outcome)) => {
                let document = item_of(outcome).ok_or("the item is no document")?;
                compare(item, &document).map_err(|what| format!("{place}: {what}"))
            }
            (item, result) => Err(format!("{place} is {item:?}, a read has {result:?}")),
        }
    }

    /// All rows of a query at this moment are what the model has.
    pub(super) fn query_all(&mut self, container: usize, key: Option<u8>, page: usize) -> Checked {
        let kind = self.kind(container);
        let text = match key {
            None => "SELECT * FROM c",
            Some(_) => "SELECT * FROM c WHERE c.n >= 0",
        };
        let scope = key.map_or(Scope::All, |key| Scope::PartitionKey(kind.key(key)));
        let (mut found, mut continuation) = (BTreeMap::new(), None);
        loop {
            let page = PageRequest { items_max: Some(page), continuation };
            let query = QueryRequest { page, scope: scope.clone(), ..QueryRequest::new(text) };
            let faults = self.disk.faults();
            let op = Op::Query { container: path(container), query: Box::new(query) };
            let reply = self.now(op, &Context::default())?;
            if self.is_excused(&reply, faults) {
                return Ok(());
            }
            let (rows, next) = match reply.result {
                Ok(Outcome::Query { rows, continuation, .. }) => (rows, continuation),
                other => return Err(format!("a query of container {container}: {other:?}")),
            };
            for row in rows {
                let row = super::value(&row)?;
                let id = row.get("id").and_then(Value::as_str).and_then(id_number);
                let place = kind.key_of(&row).zip(id).ok_or("a row is no item")?;
                if found.insert(place, row).is_some() {
                    return Err(format!("a query of container {container} shows {place:?} twice"));
                }
            }
            continuation = next;
            if continuation.is_none() {
                break;
            }
        }
        let living = self.living(container).into_iter();
        for (of, id, item) in living.filter(|(of, ..)| key.is_none_or(|key| key == *of)) {
            let row = found.remove(&(of, id));
            let row = row.ok_or_else(|| format!("a query of {container} lacks {item:?}"))?;
            compare(&item, &row).map_err(|what| format!("a query of {container}: {what}"))?;
        }
        match found.values().next() {
            Some(row) => Err(format!("a query of {container} has too much: {}", row.to_json())),
            None => Ok(()),
        }
    }

    /// Reads the next page of one of the queries under way, or begins it.
    pub(super) fn go_on_reading(&mut self, which: usize) -> Checked {
        if which >= self.cursors.len() {
            let container = which % self.containers.len();
            let (continuation, shown) = (None, BTreeMap::new());
            let begun = self.living(container);
            self.cursors.push(Cursor { container, continuation, shown, begun });
        }
        let at = which.min(self.cursors.len() - 1);
        let mut cursor = self.cursors.swap_remove(at);
        if self.read_page(&mut cursor)? {
            self.cursors.push(cursor);
        }
        Ok(())
    }

    /// Reads a page; true if there is more to come.
    fn read_page(&mut self, cursor: &mut Cursor) -> Checked<bool> {
        let page = PageRequest { items_max: Some(2), continuation: cursor.continuation.take() };
        let query = QueryRequest { page: page.clone(), ..QueryRequest::new("SELECT * FROM c") };
        let faults = self.disk.faults();
        let op = Op::Query { container: path(cursor.container), query: Box::new(query) };
        let reply = self.now(op, &Context::default())?;
        if self.is_excused(&reply, faults) {
            cursor.continuation = page.continuation;
            return Ok(true);
        }
        let (rows, next) = match reply.result {
            Ok(Outcome::Query { rows, continuation, .. }) => (rows, continuation),
            other => return Err(format!("a query that goes on: {other:?}")),
        };
        let kind = self.kind(cursor.container);
        for row in rows {
            let row = super::value(&row)?;
            let id = row.get("id").and_then(Value::as_str).and_then(id_number);
            let (key, id) = kind.key_of(&row).zip(id).ok_or("a row is no item")?;
            let item = self.containers[cursor.container].keys[&key].get(&id);
            let item = item.ok_or_else(|| format!("a query shows {} too late", row.to_json()))?;
            compare(item, &row)?;
            *cursor.shown.entry(item.n).or_default() += 1;
        }
        cursor.continuation = next;
        if cursor.continuation.is_some() {
            return Ok(true);
        }
        let now = self.living(cursor.container);
        for item in cursor.begun.iter().filter(|item| now.contains(item)) {
            let times = cursor.shown.get(&item.2.n).copied().unwrap_or(0);
            if times != 1 {
                return Err(format!("a query that went on shows {item:?} {times} times"));
            }
        }
        Ok(false)
    }
}

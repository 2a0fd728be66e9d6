//! The queries that were asked lately, for whoever wonders which partition key would serve them.
//!
//! Kept in memory only and bounded: a number of containers, a number of texts for each, texts of a
//! bounded length. Of parameters only the types are kept, never the values. A query is counted
//! once: not for pages after the first, and where a client asks the partitions one by one, only for
//! the first of them. Nobody waits for this: a query that finds the log busy is not counted.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use partita_model::{ContainerRid, Epk, Result, Value};

use super::Queries;
use crate::catalog::Container;
use crate::context::Work;
use crate::op::{ContainerPath, Outcome, QueryRequest, RecentQuery, Scope};

const CONTAINERS_MAX: usize = 256;
const QUERIES_MAX: usize = 128;
const TEXT_BYTES_MAX: usize = 4_096;

/// The log of all containers.
#[derive(Debug, Default)]
pub(crate) struct QueryLog {
    containers: Mutex<HashMap<ContainerRid, Recent>>,
}

/// The queries of one container.
#[derive(Debug, Default)]
struct Recent {
    /// Counts the queries: a clock for "lately".
    asked: u64,
    queries: Vec<KnownQuery>,
}

#[derive(Debug)]
struct KnownQuery {
    query: RecentQuery,
    last: u64,
}

impl QueryLog {
    /// Counts a query.
    pub(crate) fn note(&self, container: &Container, request: &QueryRequest) {
        let is_rest = request.page.continuation.is_some() || !is_first(container, &request.scope);
        if is_rest || request.text.len() > TEXT_BYTES_MAX {
            return;
        }
        let Ok(mut containers) = self.containers.try_lock() else { return };
        if containers.len() >= CONTAINERS_MAX && !containers.contains_key(&container.rid) {
            return;
        }
        containers.entry(container.rid).or_default().note(request);
    }

    /// The queries of a container, the most frequent first.
    fn of(&self, container: ContainerRid) -> Vec<RecentQuery> {
        let containers = self.containers.lock().unwrap_or_else(PoisonError::into_inner);
        let known = containers.get(&container).map_or(&[][..], |recent| &recent.queries);
        let mut queries: Vec<RecentQuery> = known.iter().map(|known| known.query.clone()).collect();
        queries.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.text.cmp(&b.text)));
        queries
    }

    /// Forgets containers that are gone.
    pub(crate) fn retain(&self, lives: impl Fn(ContainerRid) -> bool) {
        let mut containers = self.containers.lock().unwrap_or_else(PoisonError::into_inner);
        containers.retain(|rid, _| lives(*rid));
    }
}

/// Is this a whole query, or the first of those that a client makes of one?
fn is_first(container: &Container, scope: &Scope) -> bool {
    let first = container.partitions.first();
    match scope {
        Scope::All | Scope::PartitionKey(_) => true,
        Scope::Range { id, .. } => first.is_some_and(|first| first.range_id.to_string() == *id),
        Scope::Epks(range) => range.min == Epk::min(),
    }
}

impl Recent {
    fn note(&mut self, request: &QueryRequest) {
        self.asked += 1;
        let key_parts = match &request.scope {
            Scope::PartitionKey(header) => header.0.len(),
            Scope::All | Scope::Range { .. } | Scope::Epks(_) => 0,
        };
        let is_same = |known: &&mut KnownQuery| {
            let query = &known.query;
            query.text == request.text
                && query.key_parts == key_parts
                && query.parameters.len() == request.parameters.len()
                && query.parameters.iter().zip(&request.parameters).all(
                    |((name, shape), (asked, value))| name == asked && *shape == shape_of(value),
                )
        };
        if let Some(known) = self.queries.iter_mut().find(is_same) {
            known.query.count += 1;
            known.last = self.asked;
            return;
        }
        if self.queries.len() >= QUERIES_MAX {
            self.forget_one();
        }
        let parameters = request.parameters.iter();
        let query = RecentQuery {
            text: request.text.clone(),
            parameters: parameters.map(|(name, value)| (name.clone(), shape_of(value))).collect(),
            key_parts,
            count: 1,
        };
        self.queries.push(KnownQuery { query, last: self.asked });
    }

    /// The least asked goes, of those the one that was not asked for the longest time. All others
    /// count half, so that what was frequent once does not stay for ever.
    fn forget_one(&mut self) {
        let least = self
            .queries
            .iter()
            .enumerate()
            .min_by_key(|(_, known)| (known.query.count, known.last));
        if let Some((at, _)) = least {
            self.queries.swap_remove(at);
        }
        if self.asked.is_multiple_of(QUERIES_MAX as u64) {
            self.queries
                .iter_mut()
                .for_each(|known| known.query.count = known.query.count.div_ceil(2));
        }
    }
}

/// The type of a parameter's value. Of an array also its length and the type of its elements,
/// which decide where a query has to look.
fn shape_of(value: &Value) -> String {
    match value {
        Value::Array(elements) => {
            let element = elements.first().map_or("null", Value::kind_name);
            format!("array {} {element}", elements.len())
        }
        other => other.kind_name().to_owned(),
    }
}

impl Queries {
    /// The queries of a container that were asked lately.
    pub(crate) fn recent_queries(
        &self,
        work: &mut Work<'_>,
        path: &ContainerPath,
    ) -> Result<Outcome> {
        work.usage.metadata_reads = 1;
        let container = self.core.item_container(work, path)?.container;
        let catalog = self.core.catalog.current();
        self.log.retain(|rid| catalog.all_containers().any(|known| known.rid == rid));
        Ok(Outcome::RecentQueries { queries: self.log.of(container.rid) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str, parameter: Value) -> QueryRequest {
        QueryRequest { parameters: vec![("@p".into(), parameter)], ..QueryRequest::new(text) }
    }

    #[test]
    fn queries_are_told_apart_by_text_and_types_but_not_by_values() {
        let mut recent = Recent::default();
        for value in ["a", "b"] {
            recent.note(&asked("SELECT 1", Value::from(value)));
        }
        recent.note(&asked("SELECT 1", Value::from(1_i64)));
        recent.note(&asked("SELECT 1", Value::from(vec![Value::from("x"), Value::from("y")])));
        let found: Vec<(u64, &str)> = recent
            .queries
            .iter()
            .map(|known| (known.query.count, known.query.parameters[0].1.as_str()))
            .collect();
        assert_eq!(found, [(2, "string"), (1, "number"), (1, "array 2 string")]);
    }

    #[test]
    fn what_is_asked_often_stays_and_the_number_is_bounded() {
        let mut recent = Recent::default();
        for number in 0..1_000 {
            recent.note(&asked(&format!("SELECT {number}"), Value::Null));
            recent.note(&asked("SELECT often", Value::Null));
        }
        assert_eq!(recent.queries.len(), QUERIES_MAX);
        let often = recent.queries.iter().find(|known| known.query.text == "SELECT often");
        assert!(often.unwrap().query.count > 100);
    }
}

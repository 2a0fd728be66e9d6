//! Prepared queries: a text is parsed, checked and lowered once, not for every page.
//!
//! The pages of a query, queries that come again, and an attempt that was given up inline and runs
//! in the pool (`scheduler/`) find here what the first of them prepared: the lowered query and
//! its filter on partition keys. What a text means depends on its parameters and on the container's
//! computed properties and indexes. So an entry is named by all of these: the container by its
//! resource id, which no other container ever gets, and by the LSN of its record in the catalog,
//! which every change of the container moves on. No entry is ever wrong, and none is removed by
//! hand; those that nobody asks for any more are pushed out.
//!
//! Parameters are compared as they were written: objects whose members come in another order are
//! equal to a query, and yet its result shows the order. Malformed queries are not kept, and
//! neither are long texts and large parameters, which rarely come again.

use std::hash::{BuildHasher, BuildHasherDefault, Hash, RandomState};
use std::sync::Arc;

use partita_model::{ContainerRid, Lsn, Number, Result, Value};
use partita_query::{PartitionFilter, Query};
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};

use super::token::codec::{put_blob, put_number};
use crate::catalog::Container;
use crate::index::NumberHasher;
use crate::op::QueryRequest;

/// The memory of all prepared queries, about.
const CACHE_BYTES_MAX: u64 = 8 << 20;
/// The longest text that is kept.
const TEXT_BYTES_MAX: usize = 8 << 10;
/// The largest parameters that are kept, all together.
const PARAMETER_BYTES_MAX: usize = 2 << 10;
/// What a prepared query takes for each byte of its text and parameters, about: the syntax tree,
/// the lowered form and what indexes can do for it.
const BYTES_PER_BYTE: u64 = 64;
/// What it takes besides.
const OVERHEAD_BYTES: u64 = 1 << 10;
/// Few enough that the longest text fits into one's part of the memory.
const SHARDS: usize = 8;
/// About how many queries there are; the cache sizes its memory of evicted ones by it.
const QUERIES: usize = 1_000;

/// A query that is ready to run on a container.
pub(super) struct Prepared {
    pub(super) query: Query,
    /// Where it has to look.
    pub(super) filter: PartitionFilter,
}

impl Prepared {
    fn new(container: &Container, request: &QueryRequest) -> Result<Prepared> {
        let computed = &container.definition.computed_properties;
        let indexed = container.indexed_computed();
        let query = Query::parse_indexed(&request.text, &request.parameters, computed, &indexed)?;
        let filter = query.partition_filter(&container.definition.partition_key);
        Ok(Prepared { query, filter })
    }
}

/// The queries that were prepared lately, by the hashes of their names.
pub(crate) struct PreparedQueries {
    entries: Cache<u64, Arc<Entry>, Weights, BuildHasherDefault<NumberHasher>>,
    hashes: RandomState,
}

struct Entry {
    name: Name<String>,
    prepared: Arc<Prepared>,
}

/// What a query depends on. Two may have one hash, so names are compared as they are.
#[derive(Hash)]
struct Name<T> {
    container: ContainerRid,
    version: Lsn,
    text: T,
    parameters: Vec<u8>,
}

impl Default for PreparedQueries {
    fn default() -> PreparedQueries {
        let options = OptionsBuilder::new()
            .shards(SHARDS)
            .weight_capacity(CACHE_BYTES_MAX)
            .estimated_items_capacity(QUERIES)
            .build()
            .expect("both numbers are given");
        let (hasher, lifecycle) = (BuildHasherDefault::default(), DefaultLifecycle::default());
        let entries = Cache::with_options(options, Weights, hasher, lifecycle);
        PreparedQueries { entries, hashes: RandomState::new() }
    }
}

impl PreparedQueries {
    /// A query as it is known, or prepared now.
    pub(super) fn get(
        &self,
        container: &Container,
        request: &QueryRequest,
    ) -> Result<Arc<Prepared>> {
        let Some(name) = Name::new(container, request) else {
            return Prepared::new(container, request).map(Arc::new);
        };
        let hash = self.hashes.hash_one(&name);
        if let Some(entry) = self.entries.get(&hash).filter(|entry| name.is(&entry.name)) {
            return Ok(Arc::clone(&entry.prepared));
        }
        let prepared = Arc::new(Prepared::new(container, request)?);
        let entry = Entry { name: name.into_owned(), prepared: Arc::clone(&prepared) };
        self.entries.insert(hash, Arc::new(entry));
        Ok(prepared)
    }
}

impl<'t> Name<&'t str> {
    /// None if the query is too large to be kept.
    fn new(container: &Container, request: &'t QueryRequest) -> Option<Name<&'t str>> {
        let text = Some(request.text.as_str()).filter(|text| text.len() <= TEXT_BYTES_MAX)?;
        let mut parameters = Vec::new();
        for (name, value) in &request.parameters {
            put_text(&mut parameters, name)?;
            put_value(&mut parameters, value)?;
        }
        Some(Name { container: container.rid, version: container.lsn, text, parameters })
    }

    fn is(&self, other: &Name<String>) -> bool {
        self.container == other.container
            && self.version == other.version
            && self.text == other.text
            && self.parameters == other.parameters
    }

    fn into_owned(self) -> Name<String> {
        let Name { container, version, text, parameters } = self;
        Name { container, version, text: text.to_owned(), parameters }
    }
}

/// Writes a value so that different ones differ. None if it is too large.
fn put_value(out: &mut Vec<u8>, value: &Value) -> Option<()> {
    match value {
        Value::Null => out.push(b'z'),
        Value::Bool(false) => out.push(b'f'),
        Value::Bool(true) => out.push(b't'),
        Value::Number(Number::Int(int)) => {
            out.push(b'i');
            out.extend(int.to_be_bytes());
        }
        Value::Number(Number::Double(double)) => {
            out.push(b'd');
            out.extend(double.to_bits().to_be_bytes());
        }
        Value::String(text) => {
            out.push(b's');
            put_text(out, text)?;
        }
        Value::Array(items) => {
            out.push(b'a');
            put_number(out, items.len() as u64);
            items.iter().try_for_each(|item| put_value(out, item))?;
        }
        Value::Object(members) => {
            out.push(b'o');
            put_number(out, members.len() as u64);
            for (name, value) in members.iter() {
                put_text(out, name)?;
                put_value(out, value)?;
            }
        }
    }
    (out.len() <= PARAMETER_BYTES_MAX).then_some(())
}

fn put_text(out: &mut Vec<u8>, text: &str) -> Option<()> {
    if text.len() > PARAMETER_BYTES_MAX {
        return None;
    }
    put_blob(out, text.as_bytes());
    Some(())
}

#[derive(Clone)]
struct Weights;

impl Weighter<u64, Arc<Entry>> for Weights {
    fn weight(&self, _: &u64, entry: &Arc<Entry>) -> u64 {
        let bytes = entry.name.text.len() + entry.name.parameters.len();
        bytes as u64 * BYTES_PER_BYTE + OVERHEAD_BYTES
    }
}

#[cfg(test)]
mod tests {
    use partita_model::{FixedClock, SeededEntropy};
    use partita_storage::MemoryStore;

    use super::*;
    use crate::{
        ContainerPath, Context, Database, DatabasePath, EngineSettings, KeyRequired, Op, block_on,
    };

    fn done(database: &Database, op: Op) {
        block_on(database.execute(op, &Context::default())).result.unwrap();
    }

    fn container(database: &Database) -> Arc<Container> {
        database.core.catalog.current().all_containers().next().cloned().unwrap()
    }

    fn database() -> Arc<Database> {
        let (clock, entropy) = (Arc::new(FixedClock::new(0)), Arc::new(SeededEntropy::new(1)));
        let store = Arc::new(MemoryStore::new());
        let database = Database::open(store, clock, entropy, EngineSettings::default()).unwrap();
        done(&database, Op::CreateDatabase { name: "d".into(), throughput: None });
        let create = Op::CreateContainer {
            database: DatabasePath("d".into()),
            body: definition(),
            throughput: None,
            key_required: KeyRequired::Yes,
        };
        done(&database, create);
        database
    }

    fn definition() -> Value {
        let text = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash"}}"#;
        Value::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_query_is_prepared_once_for_a_version_of_its_container() {
        let database = database();
        let before = container(&database);
        let request = QueryRequest::new("SELECT * FROM c WHERE c.pk = 'a'");
        let get =
            |container: &Container| database.queries.prepared.get(container, &request).unwrap();
        let first = get(&before);
        assert!(Arc::ptr_eq(&first, &get(&before)));
        let path = ContainerPath { database: "d".into(), container: "c".into() };
        let replace = Op::ReplaceContainer { container: path, body: definition(), condition: None };
        done(&database, replace);
        assert!(!Arc::ptr_eq(&first, &get(&container(&database))));
        assert!(Arc::ptr_eq(&first, &get(&before)), "whoever began before goes on as before");
    }

    #[test]
    fn an_attempt_that_is_given_up_leaves_its_query_prepared() {
        let database = database();
        let path = ContainerPath { database: "d".into(), container: "c".into() };
        let query = Box::new(QueryRequest::new("SELECT DISTINCT c.a FROM c"));
        let op = Op::Query { container: path, query };
        assert!(database.try_inline(&op, &Context::default()).is_none());
        assert_eq!(database.queries.prepared.entries.len(), 1);
        done(&database, op);
        assert_eq!(database.queries.prepared.entries.len(), 1);
    }

    #[test]
    fn what_is_large_or_malformed_is_not_kept() {
        let database = database();
        let container = container(&database);
        let is_kept = |text: &str, value: Value| {
            let parameters = vec![("@p".to_owned(), value)];
            let request = QueryRequest { parameters, ..QueryRequest::new(text) };
            let get = || database.queries.prepared.get(&container, &request).unwrap();
            Arc::ptr_eq(&get(), &get())
        };
        let text =
            |bytes: usize| format!("SELECT VALUE @p FROM c WHERE c.a = '{}'", "x".repeat(bytes));
        assert!(is_kept(&text(TEXT_BYTES_MAX - 100), Value::Null));
        assert!(!is_kept(&text(TEXT_BYTES_MAX), Value::Null));
        for (count, kept) in [(100, true), (1_000, false)] {
            let list = Value::Array(vec![Value::from(7_i64); count]);
            assert_eq!(is_kept(&text(1), list), kept);
        }
        assert!(!is_kept(&text(1), Value::String("x".repeat(PARAMETER_BYTES_MAX))));
        let malformed = QueryRequest::new("SELECT");
        assert!(database.queries.prepared.get(&container, &malformed).is_err());
    }

    #[test]
    fn queries_that_never_come_again_push_each_other_out() {
        let database = database();
        let container = container(&database);
        for n in 0..5_000 {
            let request = QueryRequest::new(format!("SELECT * FROM c WHERE c.n = {n}"));
            database.queries.prepared.get(&container, &request).unwrap();
        }
        assert!(database.queries.prepared.entries.weight() <= CACHE_BYTES_MAX);
        assert!(database.queries.prepared.entries.len() > 100);
    }
}

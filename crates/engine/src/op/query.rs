//! Queries over a container's items, as operations and their outcomes.

use partita_model::{Charge, EpkRange, PartitionKeyHeader, Usage, Value};

use super::{PageRequest, Scope};

/// A query for one page of its result.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryRequest {
    pub text: String,
    /// Names with their `@`, and values.
    pub parameters: Vec<(String, Value)>,
    /// Where an ordered query begins, as the body's member `resumeFilter` says it.
    pub resume: Option<Value>,
    pub scope: Scope,
    /// May the query look at more than one logical partition?
    pub cross_partition: bool,
    pub page: PageRequest,
    /// The longest continuation that the client takes; None: the server's choice.
    pub token_bytes_max: Option<usize>,
    pub serving: Serving,
    pub plan_hint: PlanHint,
    /// Shall the report tell the plan and its indexes? It always has the counts.
    pub explain: bool,
}

impl QueryRequest {
    /// The bytes of the text without its literals: those of queries that differ in values only are
    /// the same.
    pub fn shape(&self) -> impl Iterator<Item = u8> + '_ {
        let mut quote = None;
        self.text.bytes().filter(move |byte| match quote {
            Some(open) => {
                quote = Some(open).filter(|open| open != byte);
                false
            }
            None if byte.is_ascii_digit() => false,
            None => {
                quote = matches!(byte, b'"' | b'\'').then_some(*byte);
                true
            }
        })
    }

    /// A query over everything that the server answers whole and explains, without parameters.
    pub fn new(text: impl Into<String>) -> QueryRequest {
        QueryRequest {
            text: text.into(),
            parameters: Vec::new(),
            resume: None,
            scope: Scope::All,
            cross_partition: true,
            page: PageRequest::default(),
            token_bytes_max: None,
            serving: Serving::Global,
            plan_hint: PlanHint::Best,
            explain: true,
        }
    }
}

/// Who puts the parts of a result together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serving {
    /// As the service does: a query whose parts the client has to merge is refused with its plan.
    AsService,
    /// The server merges, always.
    Global,
}

/// How the items of a query are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanHint {
    Best,
    /// Look at every item: what all other plans are compared with.
    ScanOnly,
}

/// A question about the plan of a query; nothing is run.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanQueryRequest {
    pub text: String,
    pub parameters: Vec<(String, Value)>,
    /// The features that the client can merge, as it lists them; None: all.
    pub features: Option<String>,
    pub partition_key: Option<PartitionKeyHeader>,
}

/// What a page of a query took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueryReport {
    /// In the order in which they were asked.
    pub leaves: Vec<LeafReport>,
    /// Text to meaning.
    pub compile_nanos: u64,
    /// From the meaning to the partitions to ask.
    pub route_nanos: u64,
    /// All of it.
    pub total_nanos: u64,
    /// Rows of the page, and their bytes.
    pub rows: u64,
    pub bytes: u64,
    pub charge: Charge,
    /// Set for ordered queries.
    pub tie_order: Option<TieOrder>,
    /// Indexes that serve the query, whether they were used or a scan took less; and those that
    /// would, if they were there. Only if the request wants to have it explained.
    pub indexes_serving: Vec<IndexUse>,
    pub indexes_missing: Vec<IndexUse>,
}

/// In which order rows with equal ORDER BY values come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TieOrder {
    /// By resource id, oldest item first.
    RidAscending,
    RidDescending,
}

/// What one partition, or a part of it, did for a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeafReport {
    pub range_id: u32,
    /// The EPKs that were asked for.
    pub epks: Option<EpkRange>,
    /// The way to the items, for people: one step per line, the last to run first. As the indexes,
    /// only if the request wants to have it explained.
    pub plan: String,
    pub indexes_used: Vec<IndexUse>,
    /// Keys looked at, in any space.
    pub entries_scanned: u64,
    pub documents_loaded: u64,
    pub document_bytes: u64,
    /// Items on which the query was evaluated.
    pub rows_evaluated: u64,
    /// Steps of evaluation beyond the thousand that an item usually takes.
    pub long_steps: u64,
    pub rows_out: u64,
    /// Items among those loaded that an index would have spared, and their bytes: a scan took less
    /// time, but nobody pays more for that.
    pub spared_documents: u64,
    pub spared_bytes: u64,
    pub nanos: u64,
    /// Of this, what it took to load items and to search indexes. Only if the request wants to have
    /// it explained: it takes many looks at the clock.
    pub load_nanos: u64,
    pub lookup_nanos: u64,
}

impl LeafReport {
    /// What is paid for.
    pub(crate) fn usage(&self) -> Usage {
        let paid = |count: u64| count.saturating_sub(self.spared_documents);
        Usage {
            query_entries: paid(self.entries_scanned),
            documents_loaded: paid(self.documents_loaded),
            document_bytes: self.document_bytes.saturating_sub(self.spared_bytes),
            rows_evaluated: paid(self.rows_evaluated),
            long_steps: self.long_steps,
            ..Usage::default()
        }
    }

    /// Takes in what the same partition did later for the same page.
    pub(crate) fn add(&mut self, later: LeafReport) {
        self.plan = if later.plan.is_empty() {
            std::mem::take(&mut self.plan)
        } else {
            format!("{}\n{}", later.plan, self.plan)
        };
        self.entries_scanned += later.entries_scanned;
        self.documents_loaded += later.documents_loaded;
        self.document_bytes += later.document_bytes;
        self.rows_evaluated += later.rows_evaluated;
        self.long_steps += later.long_steps;
        self.rows_out += later.rows_out;
        self.spared_documents += later.spared_documents;
        self.spared_bytes += later.spared_bytes;
        self.nanos += later.nanos;
        self.load_nanos += later.load_nanos;
        self.lookup_nanos += later.lookup_nanos;
    }
}

/// An index, as the service names it: `/a/?` alone, or `/a ASC`, `/b DESC` for a composite one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IndexUse {
    pub paths: Vec<String>,
    pub composite: bool,
    /// Does it give exactly the items of its part of the filter?
    pub precise: bool,
}

//! A query's report, for people and as JSON.

use std::fmt;

use partita_model::{Object, Value};

use super::{IndexUse, LeafReport, QueryReport};

/// One line for the page, then each partition with its plan.
///
/// ```text
/// 2 rows of 61 bytes for 3.58 RU in 0.000 ms: compiled in 0.000 ms, routed in 0.000 ms
/// range 0 [, FF): 2 rows from 3 of 3 items, 3 entries, 612 bytes, in 0.000 ms
///   scan items by key in [, FF)
/// ```
impl fmt::Display for QueryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} rows of {} bytes for {} RU in {}: compiled in {}, routed in {}",
            self.rows,
            self.bytes,
            self.charge,
            Millis(self.total_nanos),
            Millis(self.compile_nanos),
            Millis(self.route_nanos)
        )?;
        self.leaves.iter().try_for_each(|leaf| write!(f, "{leaf}"))?;
        self.indexes_serving.iter().try_for_each(|index| writeln!(f, "served by {index}"))?;
        self.indexes_missing.iter().try_for_each(|index| writeln!(f, "would use {index}"))
    }
}

impl fmt::Display for LeafReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "range {}", self.range_id)?;
        if let Some(epks) = &self.epks {
            write!(f, " {epks}")?;
        }
        writeln!(
            f,
            ": {} rows from {} of {} items, {} entries, {} bytes, in {}",
            self.rows_out,
            self.rows_evaluated,
            self.documents_loaded,
            self.entries_scanned,
            self.document_bytes,
            Millis(self.nanos)
        )?;
        for line in self.plan.lines() {
            writeln!(f, "  {line}")?;
        }
        for index in &self.indexes_used {
            writeln!(f, "  uses {index}")?;
        }
        Ok(())
    }
}

impl fmt::Display for IndexUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.paths.join(", "))
    }
}

/// A duration as clients read it.
struct Millis(u64);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03} ms", self.0 / 1_000_000, self.0 / 1_000 % 1_000)
    }
}

impl QueryReport {
    /// The report as JSON, for tools.
    pub fn to_value(&self) -> Value {
        let leaves: Vec<Value> = self.leaves.iter().map(LeafReport::to_value).collect();
        let indexes = |uses: &[IndexUse]| uses.iter().map(IndexUse::to_value).collect::<Vec<_>>();
        Value::from(
            Object::new()
                .with("rows", number(self.rows))
                .with("bytes", number(self.bytes))
                .with("charge", Value::from(self.charge.0))
                .with("totalNanos", number(self.total_nanos))
                .with("compileNanos", number(self.compile_nanos))
                .with("routeNanos", number(self.route_nanos))
                .with("indexesServing", indexes(&self.indexes_serving))
                .with("indexesMissing", indexes(&self.indexes_missing))
                .with("partitions", leaves),
        )
    }
}

impl LeafReport {
    fn to_value(&self) -> Value {
        let epks = self.epks.as_ref().map_or(Value::Null, |epks| {
            Value::from(
                Object::new()
                    .with("min", Value::from(epks.min.to_string()))
                    .with("max", Value::from(epks.max.to_string())),
            )
        });
        let plan: Vec<Value> = self.plan.lines().map(Value::from).collect();
        let indexes = |uses: &[IndexUse]| uses.iter().map(IndexUse::to_value).collect::<Vec<_>>();
        Value::from(
            Object::new()
                .with("range", number(u64::from(self.range_id)))
                .with("epks", epks)
                .with("plan", plan)
                .with("indexesUsed", indexes(&self.indexes_used))
                .with("entriesScanned", number(self.entries_scanned))
                .with("documentsLoaded", number(self.documents_loaded))
                .with("documentBytes", number(self.document_bytes))
                .with("rowsEvaluated", number(self.rows_evaluated))
                .with("rowsOut", number(self.rows_out))
                .with("documentsSpared", number(self.spared_documents))
                .with("nanos", number(self.nanos))
                .with("loadNanos", number(self.load_nanos))
                .with("lookupNanos", number(self.lookup_nanos)),
        )
    }
}

impl IndexUse {
    fn to_value(&self) -> Value {
        let paths: Vec<Value> = self.paths.iter().map(|path| Value::from(path.as_str())).collect();
        Value::from(
            Object::new()
                .with("paths", paths)
                .with("composite", self.composite)
                .with("precise", self.precise),
        )
    }
}

/// Counts are far below the largest integer of JSON.
fn number(count: u64) -> Value {
    Value::from(i64::try_from(count).unwrap_or(i64::MAX))
}

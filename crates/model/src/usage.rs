//! What a request did, and what it costs.
//!
//! [`Usage`] is raw counts, gathered at the bottom where the work happens; a [`Charge`] is the
//! price in request units, computed once at the top from the counts. No prices live here.

use std::fmt;
use std::ops::{Add, AddAssign};

/// Counts of the work that one request caused.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// Items read by key or by range.
    pub reads: u64,
    /// Bytes of those items.
    pub read_bytes: u64,
    /// Entries that a scan stepped over, in any space.
    pub entries_scanned: u64,
    /// Items written or deleted.
    pub writes: u64,
    /// Bytes of those items.
    pub written_bytes: u64,
    /// Index entries added and removed.
    pub index_entries_written: u64,
    /// Writes of items that were refused for what is there: an id that is taken, a condition.
    pub refused_writes: u64,
    /// Pages of queries.
    pub queries: u64,
    /// Entries that queries looked at, in any space.
    pub query_entries: u64,
    /// Items that queries loaded.
    pub documents_loaded: u64,
    /// Bytes of those items.
    pub document_bytes: u64,
    /// Rows on which a filter or projection was evaluated.
    pub rows_evaluated: u64,
    /// Steps of evaluation beyond the thousand that an item usually takes: JOINs and subqueries
    /// that multiply.
    pub long_steps: u64,
    /// Reads of databases, containers, offers and ranges.
    pub metadata_reads: u64,
    /// Writes of those.
    pub metadata_writes: u64,
}

impl AddAssign<&Usage> for Usage {
    fn add_assign(&mut self, other: &Usage) {
        self.reads += other.reads;
        self.read_bytes += other.read_bytes;
        self.entries_scanned += other.entries_scanned;
        self.writes += other.writes;
        self.written_bytes += other.written_bytes;
        self.index_entries_written += other.index_entries_written;
        self.refused_writes += other.refused_writes;
        self.queries += other.queries;
        self.query_entries += other.query_entries;
        self.documents_loaded += other.documents_loaded;
        self.document_bytes += other.document_bytes;
        self.rows_evaluated += other.rows_evaluated;
        self.long_steps += other.long_steps;
        self.metadata_reads += other.metadata_reads;
        self.metadata_writes += other.metadata_writes;
    }
}

/// Request units. Shown with two decimals at most, as on the wire: `1`, `5.71`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Default)]
pub struct Charge(pub f64);

impl Add for Charge {
    type Output = Charge;

    fn add(self, other: Charge) -> Charge {
        Charge(self.0 + other.0)
    }
}

impl fmt::Display for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:.2}", self.0);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charge_is_shown_with_at_most_two_decimals() {
        for (charge, text) in
            [(1.0, "1"), (5.714, "5.71"), (5.7, "5.7"), (0.0, "0"), (100.0, "100"), (2.999, "3")]
        {
            assert_eq!(Charge(charge).to_string(), text);
        }
    }
}

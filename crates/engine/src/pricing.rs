//! The price list: from work done to request units. The only place with such numbers.
//!
//! | Work | Price |
//! |---|---|
//! | point read | 1 for the first KB, 1/11 for each further one (100 KB: 10) |
//! | create, or delete | 5 for the first KB, 5/11 for each further one (100 KB: 50) |
//! | the same, indexed | and 0.41, and 0.22 per index entry (three UUIDs: 6.29) |
//! | replace, upsert of an existing item, patch | both: one version goes, one comes |
//! | page of a feed | 1, and 0.05 per item, and 1/11 per KB |
//! | page of a query | 2.8, and 0.005 per entry looked at, 0.4 per KB loaded, 0.005 per row |
//! | evaluation of an item beyond 1 000 steps (JOINs that multiply) | 1 per 10 000 steps |
//! | call of a user-defined function | 1 for each whole millisecond of a processor |
//! | plan of a query | 1 |
//! | run of a procedure, or of triggers with a write | 1, and what all its operations cost |
//! | an item or page that is not there | a read of 1 KB |
//! | a write that is refused for what is there (409, 412) | 0.24 and a read of 1 KB |
//! | account, names, partition key ranges | 1 |
//! | create, replace or delete a database, container or offer | 4.95 |
//!
//! A KB is 1 024 bytes of the stored item, rounded down and at least one: the system's properties
//! do not lift an item of 1 KB into the second one. Reads under strong or bounded-staleness
//! consistency cost double, as they ask two replicas in a replica set. The same work has the same
//! price, always; charges are rounded to hundredths.

use partita_model::{Charge, Consistency, Usage};

const READ_FIRST_KB: f64 = 1.0;
const READ_FURTHER_KB: f64 = 1.0 / 11.0;
const WRITE_FIRST_KB: f64 = 5.0;
const WRITE_FURTHER_KB: f64 = 5.0 / 11.0;
/// For each version of an item that changes the index, and for each entry. A create of three UUIDs
/// is 6.29 at the service, and a replace that changes one of them about 11.7.
const INDEXED_WRITE: f64 = 0.41;
const INDEX_ENTRY: f64 = 0.22;
/// Beside the read: 1.24 at the service.
const REFUSED_WRITE: f64 = 0.24;
const SCANNED_ENTRY: f64 = 0.05;
/// A count of a few items under a key is about 3 at the service, which is all but this.
const QUERY: f64 = 2.8;
const QUERY_ENTRY: f64 = 0.005;
const QUERY_KB: f64 = 0.4;
const QUERY_ROW: f64 = 0.005;
/// A thousand request units for a second of a processor.
const LONG_STEP: f64 = 0.000_1;
const METADATA_READ: f64 = 1.0;
const METADATA_WRITE: f64 = 4.95;

/// The charge for what an operation used.
pub(crate) fn charge(usage: &Usage, consistency: Consistency) -> Charge {
    let read = READ_FIRST_KB * count(usage.reads)
        + READ_FURTHER_KB * further(usage.read_bytes, usage.reads)
        + SCANNED_ENTRY * count(usage.entries_scanned)
        + QUERY * count(usage.queries)
        + QUERY_ENTRY * count(usage.query_entries)
        + QUERY_KB * kilobytes(usage.document_bytes, usage.documents_loaded)
        + QUERY_ROW * count(usage.rows_evaluated)
        + LONG_STEP * count(usage.long_steps);
    let replicas = match consistency {
        Consistency::Strong | Consistency::BoundedStaleness => 2.0,
        Consistency::Session | Consistency::ConsistentPrefix | Consistency::Eventual => 1.0,
    };
    let write = WRITE_FIRST_KB * count(usage.writes)
        + WRITE_FURTHER_KB * further(usage.written_bytes, usage.writes)
        + if usage.index_entries_written > 0 { INDEXED_WRITE * count(usage.writes) } else { 0.0 }
        + INDEX_ENTRY * count(usage.index_entries_written)
        + REFUSED_WRITE * count(usage.refused_writes);
    let metadata =
        METADATA_READ * count(usage.metadata_reads) + METADATA_WRITE * count(usage.metadata_writes);
    Charge(((read * replicas + write + metadata) * 100.0).round() / 100.0)
}

fn count(n: u64) -> f64 {
    n as f64
}

/// All KBs, at least one for each item.
fn kilobytes(bytes: u64, items: u64) -> f64 {
    count((bytes / 1_024).max(items))
}

/// The KBs beyond the first of each item.
fn further(bytes: u64, items: u64) -> f64 {
    count((bytes / 1_024).saturating_sub(items))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(usage: Usage) -> f64 {
        charge(&usage, Consistency::Session).0
    }

    #[test]
    fn the_price_list_holds() {
        let read = |bytes| Usage { reads: 1, read_bytes: bytes, ..Usage::default() };
        assert_eq!(price(read(0)), 1.0);
        assert_eq!(price(read(1_024)), 1.0);
        assert_eq!(price(read(1_300)), 1.0, "1 KB of the user's and the system's properties");
        assert_eq!(price(read(100 * 1_024)), 10.0);
        let write = |bytes| Usage { writes: 1, written_bytes: bytes, ..Usage::default() };
        assert_eq!(price(write(1_024)), 5.0);
        assert_eq!(price(write(100 * 1_024)), 50.0);
        let indexed = Usage { index_entries_written: 15, ..write(1_024) };
        assert_eq!(price(indexed), 8.71);
        // Three UUIDs: a term for each, and one for the time.
        let small = Usage { index_entries_written: 4, ..write(300) };
        assert_eq!(price(small), 6.29);
        // One version goes, one comes, and a term and the time of both.
        let replaced =
            Usage { writes: 2, written_bytes: 600, index_entries_written: 4, ..write(0) };
        assert_eq!(price(replaced), 11.7);
        assert_eq!(price(Usage { refused_writes: 1, ..read(0) }), 1.24);
    }

    #[test]
    fn a_query_pays_for_what_it_looks_at() {
        let page = Usage { queries: 1, ..Usage::default() };
        assert_eq!(price(page.clone()), 2.8);
        let counted = Usage { query_entries: 100, ..page.clone() };
        assert_eq!(price(counted), 3.3, "entries of an index are cheap");
        let loaded = Usage {
            query_entries: 100,
            documents_loaded: 100,
            document_bytes: 100 * 300,
            rows_evaluated: 100,
            ..page
        };
        assert_eq!(price(loaded.clone()), 43.8, "an item is a KB at least");
        assert_eq!(price(Usage { document_bytes: 200 * 1_024, ..loaded.clone() }), 83.8);
        let joined = Usage { long_steps: 10_000_000, ..loaded };
        assert_eq!(price(joined), 1_043.8, "a second of JOINs");
    }

    #[test]
    fn strong_reads_cost_double_and_writes_do_not() {
        let usage = Usage { reads: 1, read_bytes: 10, writes: 1, ..Usage::default() };
        assert_eq!(charge(&usage, Consistency::Strong).0, 7.0);
        assert_eq!(charge(&usage, Consistency::Eventual).0, 6.0);
    }
}

//! What operations take their working memory for.
//!
//! Each row of this table is something that grows with data or with what a client asks for, and is
//! drawn from the budget (`partita_model::memory`) while it grows. What is here is what an error
//! says when there is too little. Things of a fixed size are not drawn: they are part of what the
//! program takes.

use partita_model::MemoryUse;
use partita_storage::{Batch, Write};

/// Rows on their way into a page, and the page.
pub(crate) const ROWS: MemoryUse =
    MemoryUse { name: "the rows of a page", advice: "Select less of each item, or filter more" };

/// The first rows of an order, where no index has it.
pub(crate) const SORTED: MemoryUse = MemoryUse {
    name: "the rows that it sorts",
    advice: "Select less of each item, or add an index that has the order",
};

/// What DISTINCT has seen.
pub(crate) const SEEN: MemoryUse = MemoryUse {
    name: "the different rows of DISTINCT",
    advice: "Filter more, or leave out DISTINCT",
};

/// Lists and columns of what an index has.
pub(crate) const FOUND: MemoryUse = MemoryUse {
    name: "what it finds in indexes",
    advice: "Filter more, or look at one partition key at a time",
};

/// Items that are looked at together.
pub(crate) const LOADED: MemoryUse =
    MemoryUse { name: "the items that it looks at", advice: "Filter more" };

/// A page of the change feed.
pub(crate) const CHANGES: MemoryUse =
    MemoryUse { name: "a page of the change feed", advice: "Ask for fewer changes at a time" };

/// What a transaction has written and not committed yet.
pub(crate) const WRITES: MemoryUse = MemoryUse {
    name: "the writes of a batch, script or import",
    advice: "Write less in one request",
};

/// The index entries of one item.
pub(crate) const ENTRIES: MemoryUse = MemoryUse {
    name: "the index entries of one item",
    advice: "Exclude paths with very many values from the index, or store smaller items",
};

/// The results of the operations of a bulk.
pub(crate) const RESULTS: MemoryUse =
    MemoryUse { name: "the results of a bulk", advice: "Send fewer operations at a time" };

/// A place in a list of numbers that grows by doubling.
pub(crate) const NUMBER_BYTES: usize = 2 * size_of::<u64>();

/// What a change takes beside its key and value, about: its place among the changes of a
/// transaction, and in the batch that is made of them.
pub(crate) const CHANGE_BYTES: usize = 160;

/// The memory that the changes of a batch take, about.
pub(crate) fn bytes_of(batch: &Batch) -> usize {
    let written = batch.writes.iter().map(|write| {
        CHANGE_BYTES
            + match write {
                Write::Put { key, value, .. } => key.len() + value.len(),
                Write::Delete { key, .. } => key.len(),
                Write::Add { key, .. } => key.len(),
                Write::Log { value, .. } => value.len(),
            }
    });
    written.sum::<usize>() + batch.expects.len() * CHANGE_BYTES
}

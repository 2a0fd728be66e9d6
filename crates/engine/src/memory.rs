//! What operations take their working memory for.
//!
//! Each row of this table is something that grows with data or with what a client asks for, and is
//! drawn from the budget (`partita_model::memory`) while it grows. What is here is what an error
//! says when there is too little. Things of a fixed size are not drawn: they are part of what the
//! program takes.

use partita_model::MemoryUse;

/// Rows on their way into a page, and the page.
pub(crate) const ROWS: MemoryUse =
    MemoryUse { name: "the rows of a page", advice: "Select less of each item, or filter more" };

/// The first rows of an order, where no index has it.
pub(crate) const SORTED: MemoryUse = MemoryUse {
    name: "the rows of ORDER BY",
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

/// The results of the operations of a bulk.
pub(crate) const RESULTS: MemoryUse =
    MemoryUse { name: "the results of a bulk", advice: "Send fewer operations at a time" };

/// A place in a list of numbers that grows by doubling.
pub(crate) const NUMBER_BYTES: usize = 2 * size_of::<u64>();

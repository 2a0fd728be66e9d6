//! The SQL dialect: from text to meaning.
//!
//! `lexer` → `parser` → `ast` → `check` → `lower`, with every complaint made in `error`, and
//! `print` for the way back. Offsets inside this module are byte offsets of the query text; only a
//! rendered error counts in UTF-16 units, because that is what the service's clients expect.

pub(crate) mod ast;
pub(crate) mod check;
pub(crate) mod error;
pub(crate) mod identity;
pub(crate) mod lexer;
pub(crate) mod lower;
pub(crate) mod naming;
pub(crate) mod number;
pub(crate) mod parser;
pub(crate) mod print;
#[cfg(test)]
mod tests;
mod walk;

/// The longest query text, in UTF-16 units: the service's limit, quoted in its error SC3020.
pub(crate) const TEXT_UNITS_MAX: usize = 524_288;

/// How deep brackets, calls, subqueries and the like may nest. A level costs a dozen stack frames
/// in the parser: this many need 1.1 MiB unoptimised, so they fit the 2 MiB that threads have by
/// default. Brackets at the left end do not count: generated filters open hundreds of them, as in
/// `(((a OR b) OR c) OR d)`.
pub(crate) const NESTING_MAX: usize = 64;

/// How deep the tree of a query may be, which bounds everything that walks it. One level of nesting
/// makes one level of the tree, or a few if it holds several kinds of operators. Queries in public
/// test suites stay below 16.
pub(crate) const DEPTH_MAX: usize = 64;

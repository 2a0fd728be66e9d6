//! The query language: text in, meaning out; an expression and a row in, a value out.
//!
//! This crate is pure. It opens no file, knows no container, partition or index, and never asks for
//! the time. Its life of a query, in order:
//!
//! 1. `sql::lexer` cuts the text into tokens, lazily, each with its place in the text.
//! 2. `sql::parser` builds the syntax tree of `sql::ast`: what was written, nothing decided.
//! 3. `sql::check` complains about what a well-formed query may not say, in the service's words.
//! 4. `sql::lower` decides what it means: names become slots or constants, parameters their values,
//!    function names functions. What the language has and Partita cannot run is refused here by
//!    name ([`ErrorKind::Unsupported`](partita_model::ErrorKind::Unsupported)), never approximated.
//! 5. `run` binds the sources of a query to the parts of an item and makes rows or groups of them;
//!    `eval` computes an expression, with `None` for the language's `undefined`.
//!
//! Behind the lowering nothing depends on the language: facts, access and the partition filter are
//! read from `ir`, and [`Query`] keeps no syntax tree. Another language brings its own lowering and
//! hands the result to `Query::from_ir`. Only [`plan`] stays with SQL, because a plan is SQL again.
//!
//! Beside this road, [`plan`] tells clients how to ask several partitions, [`access`] tells which
//! items an index could name, and [`Filter`] is the part of the language that metadata queries and
//! conditional patches use.
//!
//! Invariant: no text and no row makes this crate panic or recurse without bound. Nesting is
//! limited while parsing; chains of operators are lists, so their length costs no stack.

pub mod access;
mod aggregate;
mod cell;
mod compare;
mod computed;
mod eval;
mod facts;
mod filter;
mod function;
#[cfg(fuzzing)]
pub mod fuzzing;
mod hash;
mod ir;
mod like;
mod partition_filter;
mod plan;
mod query;
mod run;
mod scope;
mod sortkey;
mod sql;

pub use computed::Computed;
pub use facts::{Facts, OrderFact, PlainRow, Reads};
pub use filter::Filter;
pub use hash::SEEN_BYTES;
pub use partition_filter::{KeyFilter, PartitionFilter};
pub use plan::{
    DistinctType, HybridInfo, IndexMetrics, IndexSpec, OrderColumn, PlanKind, PlanRange,
    PlanRequest, QueryInfo, QueryPlan, index_metrics, plan,
};
pub use query::{Columns, Groups, Judge, Query, Row, Run, evaluate};
pub use run::judge::Seen;
pub use scope::{Functions, Interrupt, ScopeSettings};
pub use sortkey::sort_key;

//! Which partition key would serve these items and queries best?
//!
//! Pure: items and queries come in, a ranking with reasons comes out, and the same input gives the
//! same ranking. Nothing is asked of a server or the system here.
//!
//! ```text
//!   sample.rs     a stream of items     → a bounded sample of them, in their order
//!   paths.rs      the sample            → the paths that have scalar values, bounded
//!   profile.rs    a path, or several    → how many values, how skewed, missing, of which types
//!   queries.rs    queries, a key        → how many of them a single partition could answer
//!   score.rs      all of that           → a number, and the reasons in words
//!   advise.rs     chooses what is looked at: single paths first, then hierarchies of good ones
//! ```
//!
//! Queries are judged by the planner's own logic ([`partita_query::Query::partition_filter`]), with
//! a key definition that does not exist yet.

mod advise;
mod paths;
mod profile;
mod queries;
mod sample;
mod score;

pub use advise::{Advice, Candidate, advise};
pub use queries::{AskedQuery, Routing};
pub use sample::Sample;
pub use score::{HotKey, Measures, Seen};

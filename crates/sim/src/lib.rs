//! The simulator: the engine on a simulated store, with everything that may go wrong, repeatable.
//!
//! A seed becomes a *plan*, a list of events (`plan.rs`): what clients ask for, who goes on next,
//! when the store writes, syncs, answers and crashes, how time passes. A *world* (`world/`) lets
//! them happen, on one thread: operations and steps of maintenance are futures that it polls, the
//! store (`store/`) does what it is told to, procedures are closures (`scripts.rs`). So a plan has
//! one history, and a failing one can be run again, and be made shorter (`shrink.rs`).
//!
//! What must be true is in three places that know nothing of each other: a map that every commit
//! brings up to date (`model.rs`), the database's own check, and a graph of who saw what
//! (`isolation.rs`).
//!
//! That the simulator finds what it is for is shown by mistakes that are put in on purpose
//! (`bug.rs`).
//!
//! Invariant: nothing here or below asks the system for time, randomness or threads, and nothing
//! depends on the order of a hash map. The same plan twice has the same trace.

pub mod bug;
pub mod isolation;
pub mod kind;
pub mod model;
pub mod plan;
pub mod random;
pub mod scripts;
pub mod search;
pub mod shrink;
pub mod store;
pub mod world;

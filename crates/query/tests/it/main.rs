//! What a filter accepts, refuses and selects, as its users see it.

mod cases;
mod errors;
mod robustness;
mod semantics;

//! The meaning of a query, free of syntax.
//!
//! No names to resolve, no parameters, no arguments to count: a lowering has settled all of that.
//! Each operator has one meaning. A language that compares or coerces differently gets operators of
//! its own here, so that evaluation never asks which language an expression was written in.

mod expr;
mod query;
mod set;
mod visit;

pub(crate) use expr::{BinaryOperator, Expr, Step, SubqueryKind, UnaryOperator};
pub(crate) use query::{Grouping, OrderColumn, Projection, Query, Source};
pub(crate) use set::ConstantSet;

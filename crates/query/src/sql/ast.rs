//! What was written, before anything is decided about it.
//!
//! Names are names, functions are words, parameters are unresolved. Two shapes deserve a remark:
//!
//! - Operators of one precedence level form an [`Expr::Chain`], a list folded from the left. The
//!   usual tree of pairs would be as deep as the chain is long, and a 512 KB query of `1+1+1…`
//!   would then overflow the stack of whoever walks it.
//! - `.name` and `[…]` after an expression form one [`Expr::Path`], for the same reason.
//!
//! Spans are kept where a later complaint must point at something. What was written in one of two
//! ways that mean the same is kept too (`.a` or `["a"]`, `ASC` or nothing): a query plan prints the
//! query again as its author wrote it.

use super::error::Span;
pub(crate) use crate::ir::SubqueryKind;
use crate::ir::{BinaryOperator, UnaryOperator};
use partita_model::{Number, Value};

/// A query, or a subquery.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Query {
    pub(crate) select: Select,
    pub(crate) from: Option<From>,
    pub(crate) condition: Option<Expr>,
    pub(crate) group_by: Vec<Expr>,
    pub(crate) order_by: Option<OrderBy>,
    pub(crate) offset_limit: Option<OffsetLimit>,
    pub(crate) span: QuerySpan,
}

/// Where a query stands in the text, and those of its clauses that complaints point at. A clause
/// that is not there has the empty span.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct QuerySpan {
    /// From the first word to the last.
    pub(crate) whole: Span,
    /// `TOP` and its count.
    pub(crate) top: Span,
    pub(crate) order_by: Span,
    pub(crate) offset_limit: Span,
}

/// The condition of a patch: a query without its SELECT clause.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Condition {
    pub(crate) from: From,
    pub(crate) condition: Option<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Select {
    pub(crate) distinct: bool,
    pub(crate) top: Option<Count>,
    pub(crate) selection: Selection,
    /// The clause, for complaints about it.
    pub(crate) span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Selection {
    /// `SELECT *`; the span is the star's.
    Everything(Span),
    /// `SELECT VALUE expr`
    Value(Expr),
    List(Vec<SelectItem>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SelectItem {
    pub(crate) expr: Expr,
    pub(crate) alias: Option<String>,
}

/// The number of TOP, OFFSET or LIMIT.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Count {
    Literal { number: Number, span: Span },
    Parameter { name: String, span: Span },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OffsetLimit {
    pub(crate) offset: Count,
    pub(crate) limit: Count,
}

/// `FROM first JOIN second JOIN …`
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct From {
    pub(crate) first: Source,
    pub(crate) joins: Vec<Source>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Source {
    pub(crate) kind: SourceKind,
    pub(crate) span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SourceKind {
    /// `name IN collection`: every element of an array.
    Iterate { name: String, collection: Collection },
    /// `collection [[AS] alias]`: the value itself.
    Whole { collection: Collection, alias: Option<String> },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Collection {
    /// `name.step["step"][0]`
    Path { root: String, root_span: Span, steps: Vec<PathStep> },
    /// `(SELECT …)`
    Subquery(Box<Query>),
    /// `OBJECTTOARRAY(p.m)`: always an [`Expr::Call`] or an [`Expr::Udf`].
    Call(Expr),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OrderBy {
    Items(Vec<OrderItem>),
    /// `ORDER BY RANK f(…), …`
    Rank {
        functions: Vec<Expr>,
        span: Span,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OrderItem {
    pub(crate) expr: Expr,
    pub(crate) direction: Option<Direction>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Ascending,
    Descending,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    Undefined,
    Literal(Value),
    Name {
        name: String,
        span: Span,
    },
    Parameter {
        name: String,
        span: Span,
    },
    Path {
        base: Box<Expr>,
        steps: Vec<PathStep>,
        span: Span,
    },
    Array(Vec<Expr>),
    Object(Vec<(String, Expr)>),
    Unary {
        operator: UnaryOperator,
        operand: Box<Expr>,
    },
    Chain {
        first: Box<Expr>,
        rest: Vec<(BinaryOperator, Expr)>,
    },
    In {
        negated: bool,
        operand: Box<Expr>,
        list: Vec<Expr>,
    },
    Between {
        negated: bool,
        operand: Box<Expr>,
        low: Box<Expr>,
        high: Box<Expr>,
    },
    Like {
        negated: bool,
        operand: Box<Expr>,
        pattern: Box<Expr>,
        escape: Option<char>,
    },
    /// `a ?? b ?? c`: the first that is defined.
    Coalesce(Vec<Expr>),
    Conditional {
        condition: Box<Expr>,
        then: Box<Expr>,
        otherwise: Box<Expr>,
    },
    /// A function, an aggregate or a word that is neither.
    Call {
        name: String,
        /// The name alone.
        name_span: Span,
        /// From the name to the closing bracket.
        span: Span,
        arguments: Vec<Expr>,
    },
    /// `udf.name(…)`
    Udf {
        name: String,
        span: Span,
        arguments: Vec<Expr>,
    },
    Subquery {
        kind: SubqueryKind,
        query: Box<Query>,
        span: Span,
    },
    /// `(LET name = value IN body)`
    Let {
        name: String,
        value: Box<Expr>,
        body: Box<Expr>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PathStep {
    /// `.name`
    Member(String),
    /// `["name"]`, `[0]`, `[@p]`, `[expr]`
    Index { index: Expr, span: Span },
}

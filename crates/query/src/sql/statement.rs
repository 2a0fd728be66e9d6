//! What was written, before anything is decided about it.
//!
//! Names are names, functions are words, parameters are unresolved. Two shapes deserve a remark:
//!
//! - Operators of one precedence level form an [`Expr::Chain`], a list folded from the left. The
//!   usual tree of pairs would be as deep as the chain is long, and a 512 KB query of `1+1+1…`
//!   would then overflow the stack of whoever walks it.
//! - `.name` and `[…]` after an expression form one [`Expr::Path`], for the same reason.
//!
//! Spans are kept where a later complaint must point at something.

use super::error::Span;
use crate::ir::{BinaryOperator, UnaryOperator};
use partita_model::Value;

/// One statement: a query, or the condition of a patch (which has no SELECT clause).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Statement {
    pub(crate) select: Option<Selection>,
    pub(crate) from: Option<Source>,
    pub(crate) condition: Option<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Selection {
    /// `SELECT *`
    Everything,
    /// `SELECT VALUE expr`
    Value(Expr),
}

/// `FROM name [[AS] alias]`
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) alias: Option<String>,
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
    },
    Path {
        base: Box<Expr>,
        steps: Vec<PathStep>,
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
    Call {
        name: String,
        span: Span,
        arguments: Vec<Expr>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PathStep {
    Member(String),
    Index { index: Expr, span: Span },
}

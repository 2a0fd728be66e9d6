//! The expression tree that `eval` walks.
//!
//! Trees are shallow: runs of binary operators and of path steps are lists (see `sql::ast`), so the
//! depth of a tree is bounded by the nesting limit of the parser that built it.

use crate::function::Function;
use crate::like::Pattern;
use partita_model::Value;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    Undefined,
    Constant(Value),
    /// The row under evaluation, whole.
    Row,
    Path {
        base: Box<Expr>,
        steps: Vec<Step>,
    },
    Array(Vec<Expr>),
    Object(Vec<(String, Expr)>),
    Unary {
        operator: UnaryOperator,
        operand: Box<Expr>,
    },
    /// Folded from the left: `((first ∘ a) ∘ b) ∘ c`.
    Chain {
        first: Box<Expr>,
        rest: Vec<(BinaryOperator, Expr)>,
    },
    In {
        operand: Box<Expr>,
        list: Vec<Expr>,
    },
    Between {
        operand: Box<Expr>,
        low: Box<Expr>,
        high: Box<Expr>,
    },
    /// `LIKE` with a pattern known beforehand.
    Like {
        operand: Box<Expr>,
        pattern: Pattern,
    },
    /// `LIKE` with a pattern that is computed from the row.
    LikeComputed {
        operand: Box<Expr>,
        pattern: Box<Expr>,
        escape: Option<char>,
    },
    Coalesce(Vec<Expr>),
    Conditional {
        condition: Box<Expr>,
        then: Box<Expr>,
        otherwise: Box<Expr>,
    },
    Call {
        function: Function,
        arguments: Vec<Expr>,
    },
}

/// One step into a value. A step that does not fit the value leads to undefined.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    Member(String),
    Element(usize),
    /// A step no value has, such as `[1.5]` or `[null]`.
    Nowhere,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnaryOperator {
    Minus,
    Plus,
    BitNot,
    /// Of a boolean; of anything else undefined.
    Not,
}

/// Comparisons are deep and type-sensitive; logic is three-valued; arithmetic is IEEE with exact
/// integers where they fit; bit operators work on 32 bits as in JavaScript.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BinaryOperator {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    ShiftLeft,
    ShiftRight,
    ShiftRightUnsigned,
    Concat,
    Add,
    Subtract,
    BitAnd,
    BitOr,
    BitXor,
    Multiply,
    Divide,
    Remainder,
}

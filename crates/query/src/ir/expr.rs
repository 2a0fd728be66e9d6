//! The expression tree that `eval` walks.
//!
//! Trees are shallow: runs of binary operators and of path steps are lists (see `sql::ast`), so the
//! depth of a tree is bounded by the nesting limit of the parser that built it.

use std::sync::Arc;

use partita_model::{IndexStep, MemberName, Value};

use super::{ConstantSet, Query};
use crate::aggregate::Aggregate;
use crate::function::Function;
use crate::like::Pattern;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    Undefined,
    Constant(Value),
    /// The item under evaluation, whole. Aliases of the container, and of a path into it that is
    /// no iteration, have become this (with a path behind it).
    Item,
    /// The value that a source, a LET, a group key or an aggregate left in this slot.
    Slot(usize),
    /// The base is never a path itself.
    Path {
        base: Box<Expr>,
        steps: Vec<Step>,
    },
    /// A computed property that the index knows under its name: the same as what it means, and a
    /// place like any other.
    Computed {
        name: String,
        meaning: Box<Expr>,
    },
    Array(Vec<Expr>),
    /// The names are distinct.
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
    /// `IN` with a list that is computed.
    In {
        operand: Box<Expr>,
        list: Vec<Expr>,
    },
    /// `IN` with constants, also `ARRAY_CONTAINS` of a constant array.
    InConstants {
        operand: Box<Expr>,
        set: Arc<ConstantSet>,
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
        /// What the pattern was written as.
        text: String,
        escape: Option<char>,
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
    /// A function that the container's owner wrote.
    Udf {
        name: String,
        arguments: Vec<Expr>,
    },
    Subquery {
        kind: SubqueryKind,
        query: Box<Query>,
    },
    /// The value goes into the slot, then the body is evaluated.
    Let {
        slot: usize,
        value: Box<Expr>,
        body: Box<Expr>,
    },
    /// An aggregate before it has a slot; exists only while a grouped query is lowered.
    Aggregate(Aggregate, Box<Expr>),
}

/// What becomes of a subquery's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubqueryKind {
    /// `(SELECT …)`: the only row; several are an error.
    Scalar,
    /// `EXISTS(…)`: is there one?
    Exists,
    /// `ARRAY(…)`: all of them.
    Array,
    /// `ALL(…)`: is every one true?
    All,
    /// `FIRST(…)`
    First,
    /// `LAST(…)`
    Last,
}

/// One step into a value. A step that does not fit the value leads to undefined.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    Member(MemberName),
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

impl Expr {
    /// A path behind an expression; paths behind paths become one.
    pub(crate) fn path(base: Expr, mut steps: Vec<Step>) -> Expr {
        if steps.is_empty() {
            return base;
        }
        match base {
            Expr::Path { base, steps: mut before } => {
                before.append(&mut steps);
                Expr::Path { base, steps: before }
            }
            base => Expr::Path { base: Box::new(base), steps },
        }
    }

    /// The steps from the item to the value, if the expression is nothing but a way into the item.
    pub(crate) fn item_path(&self) -> Option<&[Step]> {
        match self {
            Expr::Item => Some(&[]),
            Expr::Path { base, steps } if **base == Expr::Item => Some(steps),
            _ => None,
        }
    }

    /// The members to go through to where the index has the value, if there is one such place.
    pub(crate) fn index_path(&self) -> Option<Vec<IndexStep>> {
        let (base, steps): (&Expr, &[Step]) = match self {
            Expr::Path { base, steps } => (base, steps),
            other => (other, &[]),
        };
        let mut path = match base {
            Expr::Item => Vec::new(),
            Expr::Computed { name, .. } => vec![IndexStep::Member(name.clone())],
            _ => return None,
        };
        for step in steps {
            let Step::Member(name) = step else { return None };
            path.push(IndexStep::Member(name.to_string()));
        }
        Some(path)
    }
}

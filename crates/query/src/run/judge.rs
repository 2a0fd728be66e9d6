//! WHERE on columns: the values that an item has at some paths, without the item.
//!
//! Whoever has read an index knows what items have at a path, as far as it is a scalar. A filter
//! that looks at nothing else is decided by these values: arithmetic and comparisons of numbers on
//! plain doubles, everything else by the evaluator, with the values in slots.
//!
//! An index does not tell `1` from `1.0` and `0` from `-0`, the language sometimes does: integers
//! stay exact beyond what a double can hold, and a division by zero has a sign. Where a computation
//! comes near to that the judge does not know, and the item has to be looked at. Filters with
//! functions that could see a difference, or whose result is another one each time, have no judge.

use std::cmp::Ordering;

use partita_model::{Document, IndexStep, Result, Scalar, Value};

use crate::cell::Cell;
use crate::eval::{self, Frame};
use crate::function::Function;
use crate::ir::{BinaryOperator, Expr, Query, Source, Step, UnaryOperator};
use crate::scope::Scope;

/// From here on a double may stand for several integers.
const EXACT_NUMBER_MAX: f64 = 9_007_199_254_740_992.0;

/// What an item has at a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Seen<'v> {
    /// Nothing.
    Undefined,
    /// A number below 2^53.
    Number(f64),
    /// Another scalar, as JSON.
    Text(&'v str),
}

impl<'v> Seen<'v> {
    fn cell(self) -> Option<Cell<'v>> {
        match self {
            Seen::Undefined => None,
            Seen::Number(double) => Some(Cell::from_scalar(Scalar::Number(double))),
            Seen::Text(text) => Some(Cell::from_raw(Document::new(text).raw())),
        }
    }
}

/// Decides a filter by the values at its paths.
#[derive(Debug)]
pub(crate) struct Judge {
    root: Node,
    paths: Vec<Vec<IndexStep>>,
}

#[derive(Debug)]
enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
    Compare {
        operator: BinaryOperator,
        left: Term,
        right: Term,
    },
    /// Column n is slot n.
    Other(Expr),
}

/// Arithmetic.
#[derive(Debug)]
enum Term {
    Constant(f64),
    Column(usize),
    /// `+x` and `-x`
    Signed {
        minus: bool,
        operand: Box<Term>,
    },
    Chain {
        first: Box<Term>,
        rest: Vec<(BinaryOperator, Term)>,
    },
}

/// The truth of a condition; undefined is none of the language's two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Truth {
    Yes,
    No,
    Undefined,
    /// Only the item tells.
    Unsure,
}

/// The value of a term.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Worth {
    Number(f64),
    /// A scalar that is no number.
    Other,
    Undefined,
    /// Only the item tells.
    Unsure,
}

impl Judge {
    /// None if values at paths do not decide the filter, or if there is none.
    pub(crate) fn new(query: &Query) -> Option<Judge> {
        if query.sources != [Source::Value(Expr::Item)] {
            return None;
        }
        let mut making = Making::default();
        let root = making.node(query.filter.as_ref()?)?;
        Some(Judge { root, paths: making.paths })
    }

    /// The paths that it looks at, each the way through members from the item.
    pub(crate) fn paths(&self) -> &[Vec<IndexStep>] {
        &self.paths
    }

    /// Does the filter let an item with these values through, one for each path? None if only the
    /// item tells.
    pub(crate) fn passes(&self, scope: &Scope, values: &[Seen<'_>]) -> Result<Option<bool>> {
        Ok(match self.root.truth(scope, values)? {
            Truth::Yes => Some(true),
            Truth::No | Truth::Undefined => Some(false),
            Truth::Unsure => None,
        })
    }
}

/// A judge in the making.
#[derive(Default)]
struct Making {
    paths: Vec<Vec<IndexStep>>,
}

impl Making {
    fn node(&mut self, expr: &Expr) -> Option<Node> {
        match expr {
            Expr::Computed { meaning, .. } => self.node(meaning),
            Expr::Unary { operator: UnaryOperator::Not, operand } => {
                Some(Node::Not(Box::new(self.node(operand)?)))
            }
            Expr::Chain { first, rest } => self.chain(expr, first, rest),
            other => self.other(other),
        }
    }

    fn chain(
        &mut self,
        whole: &Expr,
        first: &Expr,
        rest: &[(BinaryOperator, Expr)],
    ) -> Option<Node> {
        let all_are = |wanted| rest.iter().all(|(operator, _)| *operator == wanted);
        let operands = || std::iter::once(first).chain(rest.iter().map(|(_, operand)| operand));
        if all_are(BinaryOperator::And) {
            return Some(Node::All(operands().map(|e| self.node(e)).collect::<Option<_>>()?));
        }
        if all_are(BinaryOperator::Or) {
            return Some(Node::Any(operands().map(|e| self.node(e)).collect::<Option<_>>()?));
        }
        match rest {
            [(operator, right)] if is_comparison(*operator) => {
                let known = self.paths.len();
                let terms = self.term(first).zip(self.term(right));
                match terms {
                    // Two columns may have two strings.
                    Some((Term::Column(_), Term::Column(_))) | None => {
                        self.paths.truncate(known);
                        self.other(whole)
                    }
                    Some((left, right)) => Some(Node::Compare { operator: *operator, left, right }),
                }
            }
            _ => self.other(whole),
        }
    }

    fn term(&mut self, expr: &Expr) -> Option<Term> {
        match expr {
            Expr::Constant(Value::Number(number)) => {
                let double = number.as_f64();
                (double.abs() < EXACT_NUMBER_MAX).then_some(Term::Constant(double))
            }
            Expr::Computed { meaning, .. } => self.term(meaning),
            Expr::Unary { operator, operand } => {
                let minus = match operator {
                    UnaryOperator::Minus => true,
                    UnaryOperator::Plus => false,
                    UnaryOperator::Not | UnaryOperator::BitNot => return None,
                };
                Some(Term::Signed { minus, operand: Box::new(self.term(operand)?) })
            }
            Expr::Chain { first, rest } if rest.iter().all(|(operator, _)| is_exact(*operator)) => {
                let first = Box::new(self.term(first)?);
                let operand = |(operator, operand): &(BinaryOperator, Expr)| {
                    Some((*operator, self.term(operand)?))
                };
                Some(Term::Chain { first, rest: rest.iter().map(operand).collect::<Option<_>>()? })
            }
            other => match self.column(other.item_path()?)? {
                (column, []) => Some(Term::Column(column)),
                _ => None,
            },
        }
    }

    fn other(&mut self, expr: &Expr) -> Option<Node> {
        let mut expr = expr.clone();
        self.put_slots(&mut expr).ok()?;
        Some(Node::Other(expr))
    }

    /// Puts slots for the ways into the item. Fails where something else counts than scalars.
    fn put_slots(&mut self, expr: &mut Expr) -> std::result::Result<(), ()> {
        if let Some(steps) = expr.item_path() {
            let (column, steps) = self.column(steps).ok_or(())?;
            *expr = Expr::path(Expr::Slot(column), steps.to_vec());
            return Ok(());
        }
        if !is_blind(expr) {
            return Err(());
        }
        expr.try_for_each_child_mut(&mut |child| self.put_slots(child))
    }

    /// The column of a way into the item, and the steps that lead on from there: into an array,
    /// which no column has.
    fn column<'s>(&mut self, steps: &'s [Step]) -> Option<(usize, &'s [Step])> {
        let members = steps.iter().map_while(|step| match step {
            Step::Member(name) => Some(IndexStep::Member(name.to_string())),
            Step::Element(_) | Step::Nowhere => None,
        });
        let path: Vec<IndexStep> = members.collect();
        let further = steps.get(path.len()..)?;
        if path.is_empty() {
            return None;
        }
        let at = self.paths.iter().position(|known| *known == path).unwrap_or_else(|| {
            self.paths.push(path);
            self.paths.len() - 1
        });
        Some((at, further))
    }
}

/// Is an expression blind to how a number is written, apart from its operands?
fn is_blind(expr: &Expr) -> bool {
    match expr {
        Expr::Chain { rest, .. } => rest.iter().all(|(operator, _)| !is_exact(*operator)),
        Expr::Call { function, .. } => is_blind_function(*function),
        Expr::Undefined | Expr::Constant(_) | Expr::Path { .. } | Expr::Computed { .. } => true,
        Expr::Unary { .. } | Expr::Coalesce(_) | Expr::Conditional { .. } => true,
        Expr::In { .. } | Expr::InConstants { .. } | Expr::Between { .. } => true,
        Expr::Like { .. } | Expr::LikeComputed { .. } => true,
        Expr::Item | Expr::Slot(_) | Expr::Let { .. } | Expr::Aggregate(..) => false,
        Expr::Array(_) | Expr::Object(_) | Expr::Udf { .. } | Expr::Subquery { .. } => false,
    }
}

fn is_blind_function(function: Function) -> bool {
    use Function as F;
    let of_texts = matches!(
        function,
        F::Concat
            | F::Contains
            | F::EndsWith
            | F::IndexOf
            | F::Left
            | F::Length
            | F::Lower
            | F::LeftTrim
            | F::RegexMatch
            | F::Replace
            | F::Reverse
            | F::Right
            | F::RightTrim
            | F::StartsWith
            | F::StringEquals
            | F::Substring
            | F::Trim
            | F::Upper
    );
    let of_kinds = matches!(
        function,
        F::IsArray
            | F::IsBool
            | F::IsDefined
            | F::IsNull
            | F::IsNumber
            | F::IsObject
            | F::IsPrimitive
            | F::IsString
    );
    let of_numbers = matches!(function, F::Abs | F::Ceiling | F::Floor | F::Round | F::Trunc);
    of_texts || of_kinds || of_numbers
}

fn is_comparison(operator: BinaryOperator) -> bool {
    use BinaryOperator as Op;
    matches!(
        operator,
        Op::Equal | Op::NotEqual | Op::Less | Op::LessOrEqual | Op::Greater | Op::GreaterOrEqual
    )
}

/// Is the result of two integers an exact integer?
fn is_exact(operator: BinaryOperator) -> bool {
    use BinaryOperator as Op;
    matches!(operator, Op::Add | Op::Subtract | Op::Multiply | Op::Divide | Op::Remainder)
}

impl Node {
    fn truth(&self, scope: &Scope, values: &[Seen<'_>]) -> Result<Truth> {
        match self {
            Node::All(nodes) => decided(nodes, Truth::No, Truth::Yes, scope, values),
            Node::Any(nodes) => decided(nodes, Truth::Yes, Truth::No, scope, values),
            Node::Not(node) => Ok(match node.truth(scope, values)? {
                Truth::Yes => Truth::No,
                Truth::No => Truth::Yes,
                other => other,
            }),
            Node::Compare { operator, left, right } => {
                Ok(compared(*operator, left.worth(values), right.worth(values)))
            }
            Node::Other(expr) => other(expr, scope, values),
        }
    }
}

/// AND and OR: one value decides, another is what is left when all have it.
fn decided(
    nodes: &[Node],
    decides: Truth,
    rest: Truth,
    scope: &Scope,
    values: &[Seen<'_>],
) -> Result<Truth> {
    let mut all = rest;
    for node in nodes {
        match node.truth(scope, values)? {
            truth if truth == decides => return Ok(decides),
            Truth::Unsure => all = Truth::Unsure,
            Truth::Undefined if all != Truth::Unsure => all = Truth::Undefined,
            _ => {}
        }
    }
    Ok(all)
}

fn compared(operator: BinaryOperator, left: Worth, right: Worth) -> Truth {
    use BinaryOperator as Op;
    let truth = |holds| if holds { Truth::Yes } else { Truth::No };
    let order = match (left, right) {
        (Worth::Undefined, _) | (_, Worth::Undefined) => return Truth::Undefined,
        (Worth::Number(left), Worth::Number(right)) => left.partial_cmp(&right),
        // Different types are unequal, and in no order.
        (Worth::Number(_), Worth::Other) | (Worth::Other, Worth::Number(_)) => {
            return match operator {
                Op::Equal => Truth::No,
                Op::NotEqual => Truth::Yes,
                _ => Truth::Undefined,
            };
        }
        _ => return Truth::Unsure,
    };
    match operator {
        Op::Equal => truth(order == Some(Ordering::Equal)),
        Op::NotEqual => truth(order != Some(Ordering::Equal)),
        Op::Less => truth(order.is_some_and(Ordering::is_lt)),
        Op::LessOrEqual => truth(order.is_some_and(Ordering::is_le)),
        Op::Greater => truth(order.is_some_and(Ordering::is_gt)),
        Op::GreaterOrEqual => truth(order.is_some_and(Ordering::is_ge)),
        _ => Truth::Unsure,
    }
}

/// A condition that the evaluator decides.
fn other(expr: &Expr, scope: &Scope, values: &[Seen<'_>]) -> Result<Truth> {
    scope.begin_item();
    let mut frame = Frame::new(None, scope);
    for (slot, value) in values.iter().enumerate().rev() {
        frame.bind(slot, value.cell());
    }
    Ok(match eval::eval(expr, &mut frame)?.and_then(|cell| cell.as_bool()) {
        Some(true) => Truth::Yes,
        Some(false) => Truth::No,
        None => Truth::Undefined,
    })
}

impl Term {
    fn worth(&self, values: &[Seen<'_>]) -> Worth {
        match self {
            Term::Constant(double) => Worth::Number(*double),
            Term::Column(column) => match values.get(*column) {
                Some(Seen::Number(double)) => Worth::Number(*double),
                Some(Seen::Text(_)) => Worth::Other,
                Some(Seen::Undefined) | None => Worth::Undefined,
            },
            Term::Signed { minus, operand } => match operand.worth(values) {
                Worth::Number(double) if *minus => Worth::Number(-double),
                Worth::Other => Worth::Undefined,
                other => other,
            },
            Term::Chain { first, rest } => rest.iter().fold(first.worth(values), |left, next| {
                let (operator, right) = next;
                calculated(*operator, left, right.worth(values))
            }),
        }
    }
}

fn calculated(operator: BinaryOperator, left: Worth, right: Worth) -> Worth {
    use BinaryOperator as Op;
    let (left, right) = match (left, right) {
        (Worth::Number(left), Worth::Number(right)) => (left, right),
        (Worth::Undefined | Worth::Other, _) | (_, Worth::Undefined | Worth::Other) => {
            return Worth::Undefined;
        }
        (Worth::Unsure, _) | (_, Worth::Unsure) => return Worth::Unsure,
    };
    let result = match operator {
        Op::Add => left + right,
        Op::Subtract => left - right,
        Op::Multiply => left * right,
        Op::Divide if right != 0.0 => left / right,
        Op::Remainder if right != 0.0 => left % right,
        _ => return Worth::Unsure,
    };
    // Not a number is not below anything.
    if result.abs() < EXACT_NUMBER_MAX { Worth::Number(result) } else { Worth::Unsure }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Query;
    use crate::scope::ScopeSettings;

    /// What items can have at a path, as JSON and as a column has it.
    const VALUES: [(&str, Seen<'static>); 14] = [
        ("", Seen::Undefined),
        ("null", Seen::Text("null")),
        ("true", Seen::Text("true")),
        ("false", Seen::Text("false")),
        ("0", Seen::Number(0.0)),
        ("-0.0", Seen::Number(0.0)),
        ("1.0", Seen::Number(1.0)),
        ("3", Seen::Number(3.0)),
        ("-2.5", Seen::Number(-2.5)),
        ("9007199254740991", Seen::Number(9_007_199_254_740_991.0)),
        ("9007199254740991.0", Seen::Number(9_007_199_254_740_991.0)),
        ("\"\"", Seen::Text("\"\"")),
        ("\"Ab\"", Seen::Text("\"Ab\"")),
        ("\"3\"", Seen::Text("\"3\"")),
    ];

    fn item(a: &str, b: &str) -> String {
        let member = |name: &str, value: &str| match value {
            "" => None,
            value => Some(format!("\"{name}\":{value}")),
        };
        let members: Vec<String> = [member("a", a), member("b", b)].into_iter().flatten().collect();
        format!("{{{}}}", members.join(","))
    }

    fn decided_share(filter: &str) -> (usize, usize) {
        let query = Query::parse(&format!("SELECT * FROM c WHERE {filter}"), &[], &[]).unwrap();
        let judge = Judge::new(query.meaning()).unwrap_or_else(|| panic!("{filter}: no judge"));
        let scope = Scope::of(&ScopeSettings::default());
        let mut run = query.start(&ScopeSettings::default());
        let (mut decided, mut all) = (0, 0);
        for (a, in_a) in VALUES {
            for (b, in_b) in VALUES {
                let of = |path: &Vec<IndexStep>| match path.as_slice() {
                    [IndexStep::Member(name)] if name == "a" => in_a,
                    [IndexStep::Member(name)] if name == "b" => in_b,
                    _ => Seen::Undefined,
                };
                let values: Vec<Seen<'_>> = judge.paths().iter().map(of).collect();
                let text = item(a, b);
                let expected = run.matches(Document::new(&text)).unwrap();
                all += 1;
                if let Some(passes) = judge.passes(&scope, &values).unwrap() {
                    assert_eq!(passes, expected, "{filter} of {text}");
                    decided += 1;
                }
            }
        }
        (decided, all)
    }

    #[test]
    fn a_judge_agrees_with_the_item_whatever_the_values_are() {
        for filter in [
            "c.a * 3 + c.b = 12",
            "c.a * 3 + c.b >= 4 AND c.a - c.b != 0",
            "c.a + 1 > c.b",
            "c.b <= c.a * 1",
            "-c.a < +c.b",
            "1 / c.a > 0 OR c.b = 'Ab'",
            "c.a % c.b = 0",
            "c.a * 9007199254740991 > 0",
            "NOT (c.a + c.b > 1)",
            "NOT (c.a != 3) OR c.b + 1 = 4",
            "c.a != 3",
            "3 != c.a",
            "c.a = c.b",
            "c.a < c.b",
            "c.a != c.b AND c.a <= 3",
            "LOWER(c.a) = 'ab' OR c.b",
            "c.a || c.b = 'AbAb'",
            "c.a IN (3, c.b) OR c.b BETWEEN 0 AND 1",
            "(c.a ?? c.b) = 1 OR (c.a ? c.b = 1 : c.b = 3)",
            "c.a & 1 = 1",
            "NOT IS_DEFINED(c.a) AND IS_NUMBER(c.b)",
            "c.a LIKE 'A%' OR c.a LIKE c.b",
            "c.a.x = 1 OR c.b[0] = 1 OR NOT IS_DEFINED(c.a.x)",
            "ABS(c.a) = 2.5 OR c.a > c.b",
        ] {
            let (decided, all) = decided_share(filter);
            assert!(decided * 4 >= all, "{filter}: {decided} of {all}");
        }
    }

    #[test]
    fn what_only_the_item_tells_is_not_decided() {
        for (filter, a, b) in [
            ("c.a / c.b > 0", 1.0, 0.0),
            ("c.a % c.b = 0", 1.0, 0.0),
            ("c.a * c.b > 0", 9_007_199_254_740_991.0, 3.0),
            ("c.a * c.b > 0 AND c.b = 3", 9_007_199_254_740_991.0, 3.0),
        ] {
            let query = Query::parse(&format!("SELECT * FROM c WHERE {filter}"), &[], &[]).unwrap();
            let judge = Judge::new(query.meaning()).unwrap();
            let scope = Scope::of(&ScopeSettings::default());
            let values = [Seen::Number(a), Seen::Number(b)];
            assert_eq!(judge.passes(&scope, &values).unwrap(), None, "{filter}");
        }
    }

    #[test]
    fn filters_of_more_than_scalars_have_no_judge() {
        for text in [
            "SELECT * FROM c",
            "SELECT * FROM c WHERE RAND() < c.a",
            "SELECT * FROM c WHERE udf.f(c.a)",
            "SELECT * FROM c WHERE EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t = 1)",
            "SELECT * FROM c WHERE c = c.a",
            "SELECT * FROM c WHERE POWER(c.a, 2) = 4",
            "SELECT * FROM c WHERE LENGTH(c.a) / c.b = 4",
            "SELECT * FROM c WHERE [c.a] = [1]",
            "SELECT VALUE t FROM c JOIN t IN c.tags WHERE c.a * 2 = t",
            "SELECT VALUE x FROM x IN c.x WHERE x.a * 2 = 4",
        ] {
            let query = Query::parse(text, &[], &[]).unwrap();
            assert!(Judge::new(query.meaning()).is_none(), "{text}");
        }
    }
}

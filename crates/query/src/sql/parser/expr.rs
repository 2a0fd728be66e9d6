//! Scalar expressions: the loose levels are functions, the tight binary operators one table.
//!
//! Operators of one level are collected into one chain. Only brackets, signs, arguments and the
//! branches of `?:` nest, and all of these pass through `nested`. The rules are cut so that what
//! only some expressions have is in functions of its own: every level of nesting pays for the
//! frames of all rules between two brackets.

use super::super::ast::Expr;
use super::super::error::{SqlError, SqlResult};
use super::super::lexer::TokenKind;
use super::Parser;
use crate::ir::{BinaryOperator, UnaryOperator};
use partita_model::{Number, Value};

/// Symbols between two operands, with how tightly they bind.
const OPERATORS: [(&str, u8, BinaryOperator); 19] = [
    ("=", 0, BinaryOperator::Equal),
    ("!=", 0, BinaryOperator::NotEqual),
    ("<>", 0, BinaryOperator::NotEqual),
    ("<", 0, BinaryOperator::Less),
    ("<=", 0, BinaryOperator::LessOrEqual),
    (">", 0, BinaryOperator::Greater),
    (">=", 0, BinaryOperator::GreaterOrEqual),
    ("<<", 0, BinaryOperator::ShiftLeft),
    (">>", 0, BinaryOperator::ShiftRight),
    (">>>", 0, BinaryOperator::ShiftRightUnsigned),
    ("||", 1, BinaryOperator::Concat),
    ("+", 2, BinaryOperator::Add),
    ("-", 2, BinaryOperator::Subtract),
    ("&", 2, BinaryOperator::BitAnd),
    ("|", 2, BinaryOperator::BitOr),
    ("^", 2, BinaryOperator::BitXor),
    ("*", 3, BinaryOperator::Multiply),
    ("/", 3, BinaryOperator::Divide),
    ("%", 3, BinaryOperator::Remainder),
];

/// A chain that waits for the operand behind its last operator.
struct OpenChain {
    tightness: u8,
    first: Expr,
    rest: Vec<(BinaryOperator, Expr)>,
    operator: BinaryOperator,
}

impl OpenChain {
    fn close(mut self, last: Expr) -> Expr {
        self.rest.push((self.operator, last));
        chain(self.first, self.rest)
    }
}

impl Parser<'_> {
    pub(super) fn expr(&mut self) -> SqlResult<Expr> {
        self.nested(Self::conditional)
    }

    fn conditional(&mut self) -> SqlResult<Expr> {
        let condition = self.coalesce()?;
        if self.at_symbol("?") { self.branches(condition) } else { Ok(condition) }
    }

    fn branches(&mut self, condition: Expr) -> SqlResult<Expr> {
        self.expect_symbol("?")?;
        let then = self.expr()?;
        self.expect_symbol(":")?;
        let otherwise = self.expr()?;
        Ok(Expr::Conditional {
            condition: Box::new(condition),
            then: Box::new(then),
            otherwise: Box::new(otherwise),
        })
    }

    fn coalesce(&mut self) -> SqlResult<Expr> {
        let first = self.or()?;
        if !self.at_symbol("??") {
            return Ok(first);
        }
        let mut choices = vec![first];
        while self.eat_symbol("??")? {
            choices.push(self.or()?);
        }
        Ok(Expr::Coalesce(choices))
    }

    fn or(&mut self) -> SqlResult<Expr> {
        let first = self.and()?;
        let mut rest = Vec::new();
        while self.eat_word("OR")? {
            rest.push((BinaryOperator::Or, self.and()?));
        }
        Ok(chain(first, rest))
    }

    fn and(&mut self) -> SqlResult<Expr> {
        let first = self.predicate()?;
        let mut rest = Vec::new();
        while self.eat_word("AND")? {
            rest.push((BinaryOperator::And, self.predicate()?));
        }
        Ok(chain(first, rest))
    }

    /// A comparison, with at most one of `[NOT] IN`, `[NOT] LIKE`, `[NOT] BETWEEN` after it.
    fn predicate(&mut self) -> SqlResult<Expr> {
        let operand = self.comparison()?;
        let more = ["NOT", "IN", "LIKE", "BETWEEN"].iter().any(|word| self.at_word(word));
        if more { self.predicate_of(operand) } else { Ok(operand) }
    }

    fn predicate_of(&mut self, operand: Expr) -> SqlResult<Expr> {
        let operand = Box::new(operand);
        let negated = self.eat_word("NOT")?;
        if self.eat_word("IN")? {
            let list = self.in_list()?;
            Ok(Expr::In { negated, operand, list })
        } else if self.eat_word("LIKE")? {
            let pattern = Box::new(self.comparison()?);
            let escape = self.escape_clause()?;
            Ok(Expr::Like { negated, operand, pattern, escape })
        } else if self.eat_word("BETWEEN")? {
            let low = Box::new(self.comparison()?);
            self.expect_word("AND")?;
            let high = Box::new(self.comparison()?);
            Ok(Expr::Between { negated, operand, low, high })
        } else {
            Err(self.unexpected())
        }
    }

    fn in_list(&mut self) -> SqlResult<Vec<Expr>> {
        self.expect_symbol("(")?;
        let list = self.expressions()?;
        self.expect_symbol(")")?;
        Ok(list)
    }

    fn escape_clause(&mut self) -> SqlResult<Option<char>> {
        if !self.eat_word("ESCAPE")? {
            return Ok(None);
        }
        let span = self.token.span;
        let TokenKind::String(escape) = &self.token.kind else { return Err(self.unexpected()) };
        let mut characters = escape.chars();
        match (characters.next(), characters.next()) {
            (Some(character), None) => {
                self.advance()?;
                Ok(Some(character))
            }
            _ => Err(SqlError::near(self.text, span)),
        }
    }

    /// All operators of [`OPERATORS`] at once. The chains under construction are kept in a list,
    /// loosest first, instead of on the stack: four levels of recursion less per nesting.
    pub(super) fn comparison(&mut self) -> SqlResult<Expr> {
        let operand = self.unary()?;
        if self.binary_operator().is_some() { self.operators(operand) } else { Ok(operand) }
    }

    fn operators(&mut self, mut operand: Expr) -> SqlResult<Expr> {
        let mut open: Vec<OpenChain> = Vec::new();
        while let Some((tightness, operator)) = self.binary_operator() {
            self.advance()?;
            while let Some(chain) = open.pop_if(|chain| chain.tightness > tightness) {
                operand = chain.close(operand);
            }
            match open.last_mut() {
                Some(chain) if chain.tightness == tightness => {
                    chain.rest.push((chain.operator, operand));
                    chain.operator = operator;
                }
                _ => open.push(OpenChain { tightness, first: operand, rest: Vec::new(), operator }),
            }
            operand = self.unary()?;
        }
        Ok(open.into_iter().rev().fold(operand, |last, chain| chain.close(last)))
    }

    fn binary_operator(&self) -> Option<(u8, BinaryOperator)> {
        let TokenKind::Symbol(symbol) = self.token.kind else { return None };
        let row = OPERATORS.iter().find(|(text, ..)| *text == symbol);
        row.map(|(_, tightness, operator)| (*tightness, *operator))
    }

    fn unary(&mut self) -> SqlResult<Expr> {
        let operator = match &self.token.kind {
            _ if self.started.is_some() => return self.postfix(),
            TokenKind::Symbol("-") => UnaryOperator::Minus,
            TokenKind::Symbol("+") => UnaryOperator::Plus,
            TokenKind::Symbol("~") => UnaryOperator::BitNot,
            TokenKind::Word(word) if word.eq_ignore_ascii_case("NOT") => UnaryOperator::Not,
            _ => return self.postfix(),
        };
        self.advance()?;
        let operand = self.nested(Self::unary)?;
        match (operator, &operand) {
            (UnaryOperator::Minus, Expr::Literal(Value::Number(number))) if !signed(*number) => {
                Ok(Expr::Literal(Value::Number(negative(*number))))
            }
            _ => Ok(Expr::Unary { operator, operand: Box::new(operand) }),
        }
    }
}

/// The same as `((first ∘ a) ∘ b) ∘ c`, whether or not that is how the brackets were written.
fn chain(first: Expr, rest: Vec<(BinaryOperator, Expr)>) -> Expr {
    let Some((operator, _)) = rest.first() else { return first };
    match first {
        Expr::Chain { first, rest: mut links } if on_one_level(&links, *operator) => {
            links.extend(rest);
            Expr::Chain { first, rest: links }
        }
        first => Expr::Chain { first: Box::new(first), rest },
    }
}

fn on_one_level(links: &[(BinaryOperator, Expr)], operator: BinaryOperator) -> bool {
    links.first().is_some_and(|(other, _)| tightness(*other) == tightness(operator))
}

/// How tightly an operator binds; AND and OR, which have rules of their own, are apart from it.
fn tightness(operator: BinaryOperator) -> (bool, bool, Option<u8>) {
    let row = OPERATORS.iter().find(|(.., known)| *known == operator);
    let tightness = row.map(|(_, tightness, _)| *tightness);
    (operator == BinaryOperator::And, operator == BinaryOperator::Or, tightness)
}

/// Does the number have a minus already?
fn signed(number: Number) -> bool {
    match number {
        Number::Int(integer) => integer < 0,
        Number::Double(double) => double.is_sign_negative(),
    }
}

/// A minus in front of a number literal belongs to the literal. The least integer is written as the
/// negative of a number that is no integer any more.
fn negative(number: Number) -> Number {
    const BEYOND_MAX: f64 = 9_223_372_036_854_775_808.0;
    match number {
        Number::Int(0) => Number::Int(0),
        Number::Int(integer) => integer.checked_neg().map_or(number, Number::Int),
        Number::Double(double) if double == BEYOND_MAX => Number::Int(i64::MIN),
        Number::Double(double) => Number::Double(-double),
    }
}

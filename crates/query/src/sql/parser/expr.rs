//! Scalar expressions: the loose levels are functions, the tight binary operators one table.
//!
//! Operators of one level are collected into one chain. Only brackets, signs, arguments and the
//! branches of `?:` nest, and all of these pass through `nested`.

use super::super::statement::{Expr, PathStep};
use super::super::error::{Span, SqlError, SqlResult};
use super::super::lexer::TokenKind;
use super::Parser;
use crate::ir::{BinaryOperator, UnaryOperator};
use partita_model::Value;

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
        if !self.eat_symbol("?")? {
            return Ok(condition);
        }
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
        let negated = self.eat_word("NOT")?;
        if self.eat_word("IN")? {
            let list = self.in_list()?;
            Ok(Expr::In { negated, operand: Box::new(operand), list })
        } else if self.eat_word("LIKE")? {
            let pattern = Box::new(self.comparison()?);
            let escape = self.escape_clause()?;
            Ok(Expr::Like { negated, operand: Box::new(operand), pattern, escape })
        } else if self.eat_word("BETWEEN")? {
            let low = Box::new(self.comparison()?);
            self.expect_word("AND")?;
            let high = Box::new(self.comparison()?);
            Ok(Expr::Between { negated, operand: Box::new(operand), low, high })
        } else if negated {
            Err(self.unexpected())
        } else {
            Ok(operand)
        }
    }

    fn in_list(&mut self) -> SqlResult<Vec<Expr>> {
        self.expect_symbol("(")?;
        self.refuse_subquery()?;
        let mut list = vec![self.expr()?];
        while self.eat_symbol(",")? {
            list.push(self.expr()?);
        }
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
    fn comparison(&mut self) -> SqlResult<Expr> {
        let mut open: Vec<OpenChain> = Vec::new();
        let mut operand = self.unary()?;
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
            TokenKind::Symbol("-") => UnaryOperator::Minus,
            TokenKind::Symbol("+") => UnaryOperator::Plus,
            TokenKind::Symbol("~") => UnaryOperator::BitNot,
            TokenKind::Word(word) if word.eq_ignore_ascii_case("NOT") => UnaryOperator::Not,
            _ => return self.postfix(),
        };
        self.advance()?;
        let operand = Box::new(self.nested(Self::unary)?);
        Ok(Expr::Unary { operator, operand })
    }

    fn postfix(&mut self) -> SqlResult<Expr> {
        let base = self.primary()?;
        let mut steps = Vec::new();
        loop {
            let start = self.token.span;
            if self.eat_symbol(".")? {
                steps.push(PathStep::Member(self.name()?));
            } else if self.eat_symbol("[")? {
                let index = self.expr()?;
                self.expect_symbol("]")?;
                steps.push(PathStep::Index { index, span: self.span_from(start) });
            } else if steps.is_empty() {
                return Ok(base);
            } else {
                return Ok(Expr::Path { base: Box::new(base), steps });
            }
        }
    }

    fn primary(&mut self) -> SqlResult<Expr> {
        let span = self.token.span;
        match &self.token.kind {
            TokenKind::Word(word) => {
                let word = word.clone();
                self.word(word, span)
            }
            TokenKind::Symbol("(") => self.parenthesised(),
            TokenKind::Symbol("[") => self.array(),
            TokenKind::Symbol("{") => self.object(),
            TokenKind::Symbol(_) | TokenKind::End => Err(self.unexpected()),
            TokenKind::Parameter(_) | TokenKind::String(_) | TokenKind::Number(_) => {
                self.constant()
            }
        }
    }

    fn constant(&mut self) -> SqlResult<Expr> {
        match self.advance()?.kind {
            TokenKind::Parameter(name) => Ok(Expr::Parameter { name }),
            TokenKind::String(text) => Ok(Expr::Literal(Value::String(text))),
            TokenKind::Number(number) => Ok(Expr::Literal(Value::Number(number))),
            TokenKind::Word(_) | TokenKind::Symbol(_) | TokenKind::End => Err(self.unexpected()),
        }
    }

    /// A literal word, a function call or a name.
    fn word(&mut self, word: String, span: Span) -> SqlResult<Expr> {
        let upper = word.to_ascii_uppercase();
        let literal = match upper.as_str() {
            "UNDEFINED" => Some(Expr::Undefined),
            "NULL" => Some(Expr::Literal(Value::Null)),
            "TRUE" => Some(Expr::Literal(Value::Bool(true))),
            "FALSE" => Some(Expr::Literal(Value::Bool(false))),
            "EXISTS" | "ARRAY" => return self.subquery_operator(&upper),
            "UDF" => return self.user_defined_function(),
            "LEFT" | "RIGHT" => None,
            _ if super::is_reserved(&word) => return Err(self.unexpected()),
            _ => None,
        };
        self.advance()?;
        match literal {
            Some(literal) => Ok(literal),
            None if self.at_symbol("(") => self.call(word, span),
            None if upper == "LET" && self.at_name() => Err(SqlError::unsupported("LET")),
            None if super::is_reserved(&word) => Err(SqlError::near(self.text, span)),
            None => Ok(Expr::Name { name: word, span }),
        }
    }

    fn subquery_operator(&mut self, operator: &str) -> SqlResult<Expr> {
        self.advance()?;
        self.expect_symbol("(")?;
        Err(SqlError::unsupported(format!("{operator} with a subquery")))
    }

    fn user_defined_function(&mut self) -> SqlResult<Expr> {
        self.advance()?;
        self.expect_symbol(".")?;
        let name = self.name()?;
        Err(SqlError::unsupported(format!("the user-defined function {name}")))
    }

    fn call(&mut self, name: String, name_span: Span) -> SqlResult<Expr> {
        self.expect_symbol("(")?;
        self.refuse_subquery()?;
        let arguments = self.list_until(")")?;
        Ok(Expr::Call { name, span: self.span_from(name_span), arguments })
    }

    fn parenthesised(&mut self) -> SqlResult<Expr> {
        self.expect_symbol("(")?;
        self.refuse_subquery()?;
        let inner = self.expr()?;
        self.expect_symbol(")")?;
        Ok(inner)
    }

    fn array(&mut self) -> SqlResult<Expr> {
        self.expect_symbol("[")?;
        Ok(Expr::Array(self.list_until("]")?))
    }

    fn object(&mut self) -> SqlResult<Expr> {
        self.expect_symbol("{")?;
        let mut members = Vec::new();
        if self.eat_symbol("}")? {
            return Ok(Expr::Object(members));
        }
        loop {
            let name = self.member_name()?;
            self.expect_symbol(":")?;
            members.push((name, self.expr()?));
            if !self.eat_symbol(",")? {
                self.expect_symbol("}")?;
                return Ok(Expr::Object(members));
            }
        }
    }

    fn member_name(&mut self) -> SqlResult<String> {
        match &self.token.kind {
            TokenKind::String(name) => {
                let name = name.clone();
                self.advance()?;
                Ok(name)
            }
            _ => self.name(),
        }
    }

    /// Expressions with commas between them, and the bracket that ends them.
    fn list_until(&mut self, close: &str) -> SqlResult<Vec<Expr>> {
        let mut list = Vec::new();
        if self.eat_symbol(close)? {
            return Ok(list);
        }
        loop {
            list.push(self.expr()?);
            if !self.eat_symbol(",")? {
                self.expect_symbol(close)?;
                return Ok(list);
            }
        }
    }

    fn refuse_subquery(&self) -> SqlResult<()> {
        if self.at_word("SELECT") { Err(SqlError::unsupported("a subquery")) } else { Ok(()) }
    }
}

fn chain(first: Expr, rest: Vec<(BinaryOperator, Expr)>) -> Expr {
    if rest.is_empty() { first } else { Expr::Chain { first: Box::new(first), rest } }
}

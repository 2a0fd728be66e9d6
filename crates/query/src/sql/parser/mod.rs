//! Recursive descent over the service's own grammar.
//!
//! The precedence is unusual and follows the service: `NOT` binds like a sign (`NOT c.x = 2` is
//! `(NOT c.x) = 2`), bit operators share a level with `+`, shifts with comparison. `BETWEEN` is
//! accepted inside `AND` chains, where the service's grammar has no sentence at all.
//!
//! This file has the cursor and the rules about words, `clause` the clauses of a query, `expr` the
//! expressions and `primary` what expressions are made of. Only syntax is judged here; what a
//! well-formed sentence may not say is the business of `sql::check`.

mod clause;
mod expr;
mod primary;

use super::ast::{Condition, Expr, Query};
use super::error::{Span, SqlError, SqlResult};
use super::lexer::{Lexer, Token, TokenKind};
use super::lower::Parameters;
use super::{DEPTH_MAX, NESTING_MAX, TEXT_UNITS_MAX};

/// A whole query: `SELECT … [FROM …] [WHERE …] [GROUP BY …] [ORDER BY …] [OFFSET … LIMIT …]`
///
/// The parameters are asked for their names only.
pub(crate) fn parse_query(text: &str, parameters: &Parameters) -> SqlResult<Query> {
    let mut parser = Parser::new(text, parameters)?;
    let query = parser.query()?;
    parser.expect_end()?;
    check_depth(query.depth())?;
    Ok(query)
}

/// The condition of a patch: `FROM c [WHERE expr]`
pub(crate) fn parse_condition(text: &str) -> SqlResult<Condition> {
    let mut parser = Parser::new(text, &[])?;
    let condition = parser.condition()?;
    parser.expect_end()?;
    check_depth(condition.depth())?;
    Ok(condition)
}

/// Words that are never a bare name: not as an alias, not after a dot.
const RESERVED: [&str; 51] = [
    "AND",
    "ARRAY",
    "AS",
    "ASC",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "CONVERT",
    "CROSS",
    "DESC",
    "DISTINCT",
    "ELSE",
    "END",
    "ESCAPE",
    "EXISTS",
    "FALSE",
    "FOR",
    "FROM",
    "GROUP",
    "HAVING",
    "IN",
    "INNER",
    "INSERT",
    "INTO",
    "IS",
    "JOIN",
    "LEFT",
    "LIKE",
    "LIMIT",
    "NOT",
    "NULL",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "RIGHT",
    "SELECT",
    "SET",
    "THEN",
    "TOP",
    "TRUE",
    "UDF",
    "UNDEFINED",
    "UPDATE",
    "VALUE",
    "WHEN",
    "WHERE",
    "WITH",
];

struct Parser<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
    /// The token under the cursor, read already.
    token: Token,
    /// The end of the token before it.
    previous_end: usize,
    nesting: usize,
    /// An operand in brackets that has been read already, and where it starts. The next operand
    /// the rules ask for is this one.
    started: Option<(Expr, Span)>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, parameters: &'a Parameters) -> SqlResult<Parser<'a>> {
        check_length(text)?;
        let mut lexer = Lexer::new(text, parameters);
        let token = lexer.next_token()?;
        Ok(Parser { text, lexer, token, previous_end: 0, nesting: 0, started: None })
    }

    fn advance(&mut self) -> SqlResult<Token> {
        let next = self.lexer.next_token()?;
        self.previous_end = self.token.span.end;
        Ok(std::mem::replace(&mut self.token, next))
    }

    /// The token behind the one under the cursor, for the few words that are keywords only in
    /// front of something. A token that cannot be read is nothing: the error comes when it is due.
    fn following(&self) -> Option<TokenKind> {
        self.lexer.clone().next_token().ok().map(|token| token.kind)
    }

    fn at_word(&self, word: &str) -> bool {
        is_word(&self.token.kind, word)
    }

    fn eat_word(&mut self, word: &str) -> SqlResult<bool> {
        let found = self.at_word(word);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect_word(&mut self, word: &str) -> SqlResult<()> {
        if self.eat_word(word)? { Ok(()) } else { Err(self.unexpected()) }
    }

    fn at_symbol(&self, symbol: &str) -> bool {
        matches!(self.token.kind, TokenKind::Symbol(written) if written == symbol)
    }

    fn eat_symbol(&mut self, symbol: &str) -> SqlResult<bool> {
        let found = self.at_symbol(symbol);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect_symbol(&mut self, symbol: &str) -> SqlResult<()> {
        if self.eat_symbol(symbol)? { Ok(()) } else { Err(self.unexpected()) }
    }

    fn expect_end(&self) -> SqlResult<()> {
        if self.token.kind == TokenKind::End { Ok(()) } else { Err(self.unexpected()) }
    }

    /// Is a name under the cursor: a word that is not reserved?
    fn at_name(&self) -> bool {
        is_name(&self.token.kind)
    }

    fn name(&mut self) -> SqlResult<String> {
        if !self.at_name() {
            return Err(self.unexpected());
        }
        match self.advance()?.kind {
            TokenKind::Word(word) => Ok(word),
            _ => Err(self.unexpected()),
        }
    }

    /// The complaint about the token under the cursor.
    fn unexpected(&self) -> SqlError {
        match self.token.kind {
            TokenKind::End => SqlError::end_of_text(self.text),
            _ => SqlError::near(self.text, self.token.span),
        }
    }

    /// Everything from `start` to the end of the token read last.
    fn span_from(&self, start: Span) -> Span {
        Span::new(start.start, self.previous_end)
    }

    /// Runs one nested rule, or refuses to go deeper.
    fn nested<T>(&mut self, rule: impl FnOnce(&mut Self) -> SqlResult<T>) -> SqlResult<T> {
        if self.nesting == NESTING_MAX {
            return Err(too_deep(NESTING_MAX));
        }
        self.nesting += 1;
        let result = rule(self);
        self.nesting -= 1;
        result
    }
}

fn is_word(token: &TokenKind, word: &str) -> bool {
    matches!(token, TokenKind::Word(written) if written.eq_ignore_ascii_case(word))
}

fn is_name(token: &TokenKind) -> bool {
    matches!(token, TokenKind::Word(word) if !is_reserved(word))
}

pub(crate) fn is_reserved(word: &str) -> bool {
    RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(word))
}

fn too_deep(maximum: usize) -> SqlError {
    let message =
        format!("The SQL query nests expressions more than {maximum} levels deep, the maximum.");
    SqlError::Plain(message)
}

fn check_depth(depth: usize) -> SqlResult<()> {
    if depth > DEPTH_MAX { Err(too_deep(DEPTH_MAX)) } else { Ok(()) }
}

fn check_length(text: &str) -> SqlResult<()> {
    // A UTF-16 unit takes at least one byte of UTF-8, so most texts need no counting.
    if text.len() <= TEXT_UNITS_MAX || text.encode_utf16().count() <= TEXT_UNITS_MAX {
        return Ok(());
    }
    let message =
        format!("The SQL query text exceeded the maximum limit of {TEXT_UNITS_MAX} characters.");
    Err(SqlError::Coded { code: "SC3020", span: Span::new(0, text.len()), message })
}

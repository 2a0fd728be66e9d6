//! What expressions are made of: literals, names, calls, brackets, subqueries, and the steps into a
//! value that may follow any of them.

use super::super::ast::{Expr, PathStep, SubqueryKind};
use super::super::error::{Span, SqlResult};
use super::super::lexer::TokenKind;
use super::{Parser, check_depth, is_name, is_word};
use partita_model::Value;

impl Parser<'_> {
    pub(super) fn postfix(&mut self) -> SqlResult<Expr> {
        let (base, start) = match self.started.take() {
            Some(started) => started,
            None => {
                let start = self.token.span;
                (self.primary()?, start)
            }
        };
        let more = self.at_symbol(".") || self.at_symbol("[");
        if more { self.path(base, start) } else { Ok(base) }
    }

    fn path(&mut self, base: Expr, start: Span) -> SqlResult<Expr> {
        let base = Box::new(base);
        let mut steps = Vec::new();
        loop {
            let step_start = self.token.span;
            if self.eat_symbol(".")? {
                steps.push(PathStep::Member(self.name()?));
            } else if self.eat_symbol("[")? {
                let index = self.expr()?;
                self.expect_symbol("]")?;
                steps.push(PathStep::Index { index, span: self.span_from(step_start) });
            } else {
                return Ok(Expr::Path { base, steps, span: self.span_from(start) });
            }
        }
    }

    fn primary(&mut self) -> SqlResult<Expr> {
        match &self.token.kind {
            TokenKind::Word(word) => {
                let word = word.clone();
                self.word(word)
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
        let token = self.advance()?;
        match token.kind {
            TokenKind::Parameter(name) => Ok(Expr::Parameter { name, span: token.span }),
            TokenKind::String(text) => Ok(Expr::Literal(Value::String(text))),
            TokenKind::Number(number) => Ok(Expr::Literal(Value::Number(number))),
            TokenKind::Word(_) | TokenKind::Symbol(_) | TokenKind::End => Err(self.unexpected()),
        }
    }

    /// A literal word, a subquery with a word in front, a function call or a name.
    fn word(&mut self, word: String) -> SqlResult<Expr> {
        let literal = match word.to_ascii_uppercase().as_str() {
            "UNDEFINED" => Expr::Undefined,
            "NULL" => Expr::Literal(Value::Null),
            "TRUE" => Expr::Literal(Value::Bool(true)),
            "FALSE" => Expr::Literal(Value::Bool(false)),
            "EXISTS" => return self.subquery_behind_word(SubqueryKind::Exists),
            "ARRAY" => return self.subquery_behind_word(SubqueryKind::Array),
            "ALL" if self.before_subquery() => return self.subquery_behind_word(SubqueryKind::All),
            "FIRST" if self.before_subquery() => {
                return self.subquery_behind_word(SubqueryKind::First);
            }
            "LAST" if self.before_subquery() => {
                return self.subquery_behind_word(SubqueryKind::Last);
            }
            "UDF" | "LEFT" | "RIGHT" => return self.call(),
            _ if self.following() == Some(TokenKind::Symbol("(")) => return self.call(),
            _ => {
                let span = self.token.span;
                return Ok(Expr::Name { name: self.name()?, span });
            }
        };
        self.advance()?;
        Ok(literal)
    }

    /// Is the word under the cursor followed by `(SELECT`? Words that are free to be names and
    /// functions otherwise are asked.
    fn before_subquery(&self) -> bool {
        let mut ahead = self.lexer.clone();
        let mut next = || ahead.next_token().ok().map(|token| token.kind);
        next() == Some(TokenKind::Symbol("("))
            && next().is_some_and(|token| is_word(&token, "SELECT"))
    }

    fn subquery_behind_word(&mut self, kind: SubqueryKind) -> SqlResult<Expr> {
        let start = self.advance()?.span;
        self.expect_symbol("(")?;
        self.subquery(kind, start)
    }

    /// The query of a subquery and its closing bracket; the opening one is behind the cursor.
    fn subquery(&mut self, kind: SubqueryKind, start: Span) -> SqlResult<Expr> {
        let query = Box::new(self.nested(Self::query)?);
        self.expect_symbol(")")?;
        Ok(Expr::Subquery { kind, query, span: self.span_from(start) })
    }

    /// `name(…)` or `udf.name(…)`
    pub(super) fn call(&mut self) -> SqlResult<Expr> {
        if self.at_word("UDF") {
            return self.user_defined_call();
        }
        let name_span = self.token.span;
        let name = self.called_name()?;
        let arguments = self.arguments()?;
        Ok(Expr::Call { name, name_span, span: self.span_from(name_span), arguments })
    }

    fn user_defined_call(&mut self) -> SqlResult<Expr> {
        let start = self.advance()?.span;
        self.expect_symbol(".")?;
        let name = self.name()?;
        let arguments = self.arguments()?;
        Ok(Expr::Udf { name, span: self.span_from(start), arguments })
    }

    /// A name with a bracket behind it. Two words are reserved and functions all the same.
    fn called_name(&mut self) -> SqlResult<String> {
        let may_be_called = self.at_name() || self.at_word("LEFT") || self.at_word("RIGHT");
        if !may_be_called || self.following() != Some(TokenKind::Symbol("(")) {
            return Err(self.unexpected());
        }
        match self.advance()?.kind {
            TokenKind::Word(name) => Ok(name),
            _ => Err(self.unexpected()),
        }
    }

    fn arguments(&mut self) -> SqlResult<Vec<Expr>> {
        self.expect_symbol("(")?;
        self.list_until(")")
    }

    /// An expression in brackets.
    ///
    /// If it starts with a bracket itself, and so on, the innermost is read first and each one
    /// around it then starts with what has been read. So brackets at the left end take no stack,
    /// though the tree may still not become deeper than allowed.
    fn parenthesised(&mut self) -> SqlResult<Expr> {
        let mut opened = Vec::new();
        while self.at_symbol("(") {
            opened.push(self.advance()?.span);
        }
        let innermost = opened.pop().unwrap_or(self.token.span);
        let mut inner = self.innermost(innermost)?;
        let mut start = innermost;
        while let Some(open) = opened.pop() {
            self.started = Some((inner, start));
            inner = self.innermost(open)?;
            start = open;
            check_depth(inner.left_depth())?;
        }
        check_depth(inner.depth())?;
        Ok(inner)
    }

    /// What is inside the bracket that was opened at `open`, and the one that closes it.
    fn innermost(&mut self, open: Span) -> SqlResult<Expr> {
        if self.started.is_none() && self.at_word("SELECT") {
            return self.subquery(SubqueryKind::Scalar, open);
        }
        let inner = if self.at_binding() { self.nested(Self::binding)? } else { self.expr()? };
        self.expect_symbol(")")?;
        Ok(inner)
    }

    fn at_binding(&self) -> bool {
        self.started.is_none()
            && self.at_word("LET")
            && self.following().is_some_and(|token| is_name(&token))
    }

    /// `LET name = value IN body`
    fn binding(&mut self) -> SqlResult<Expr> {
        self.expect_word("LET")?;
        let name = self.name()?;
        self.expect_symbol("=")?;
        let value = Box::new(self.comparison()?);
        self.expect_word("IN")?;
        let body = Box::new(self.comparison()?);
        Ok(Expr::Let { name, value, body })
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
            let name = self.name_or_string()?;
            self.expect_symbol(":")?;
            members.push((name, self.expr()?));
            if !self.eat_symbol(",")? {
                self.expect_symbol("}")?;
                return Ok(Expr::Object(members));
            }
        }
    }

    pub(super) fn name_or_string(&mut self) -> SqlResult<String> {
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
        if self.eat_symbol(close)? {
            return Ok(Vec::new());
        }
        let list = self.expressions()?;
        self.expect_symbol(close)?;
        Ok(list)
    }

    /// At least one expression, with commas between them.
    pub(super) fn expressions(&mut self) -> SqlResult<Vec<Expr>> {
        let mut list = vec![self.expr()?];
        while self.eat_symbol(",")? {
            list.push(self.expr()?);
        }
        Ok(list)
    }
}

//! The clauses of a query, from SELECT to LIMIT.

use super::super::ast::Expr;
use super::super::ast::{
    Collection, Condition, Count, Direction, From, OffsetLimit, OrderBy, OrderItem, PathStep,
    Query, QuerySpan, Select, SelectItem, Selection, Source, SourceKind,
};
use super::super::error::{Span, SqlError, SqlResult};
use super::super::lexer::TokenKind;
use super::{Parser, is_name, is_word};
use partita_model::Value;

impl Parser<'_> {
    pub(super) fn query(&mut self) -> SqlResult<Query> {
        let start = self.token.span;
        let mut span = QuerySpan::default();
        let select = self.select(&mut span.top)?;
        let from = if self.eat_word("FROM")? { Some(self.from()?) } else { None };
        let condition = self.where_clause()?;
        let group_by = self.group_by()?;
        let order_start = self.token.span;
        let order_by = self.order_by()?;
        if order_by.is_some() {
            span.order_by = self.span_from(order_start);
        }
        let offset_start = self.token.span;
        let offset_limit = self.offset_limit()?;
        if offset_limit.is_some() {
            span.offset_limit = self.span_from(offset_start);
        }
        span.whole = self.span_from(start);
        Ok(Query { select, from, condition, group_by, order_by, offset_limit, span })
    }

    pub(super) fn condition(&mut self) -> SqlResult<Condition> {
        self.expect_word("FROM")?;
        Ok(Condition { from: self.from()?, condition: self.where_clause()? })
    }

    fn where_clause(&mut self) -> SqlResult<Option<Expr>> {
        if self.eat_word("WHERE")? { self.expr().map(Some) } else { Ok(None) }
    }

    fn select(&mut self, top_span: &mut Span) -> SqlResult<Select> {
        let start = self.token.span;
        self.expect_word("SELECT")?;
        let distinct = self.eat_word("DISTINCT")?;
        let top_start = self.token.span;
        let mut top = None;
        if self.eat_word("TOP")? {
            top = Some(self.count()?);
            *top_span = self.span_from(top_start);
        }
        let star = self.token.span;
        let selection = if self.eat_symbol("*")? {
            Selection::Everything(star)
        } else if self.eat_word("VALUE")? {
            Selection::Value(self.expr()?)
        } else {
            Selection::List(self.select_list()?)
        };
        Ok(Select { distinct, top, selection, span: self.span_from(start) })
    }

    fn select_list(&mut self) -> SqlResult<Vec<SelectItem>> {
        let mut items = vec![self.select_item()?];
        while self.eat_symbol(",")? {
            items.push(self.select_item()?);
        }
        Ok(items)
    }

    fn select_item(&mut self) -> SqlResult<SelectItem> {
        let expr = self.expr()?;
        let named = self.eat_word("AS")?
            || self.at_name()
            || matches!(self.token.kind, TokenKind::String(_));
        let alias = if named { Some(self.name_or_string()?) } else { None };
        Ok(SelectItem { expr, alias })
    }

    fn count(&mut self) -> SqlResult<Count> {
        let span = self.token.span;
        match self.token.kind.clone() {
            TokenKind::Number(number) => {
                self.advance()?;
                Ok(Count::Literal { number, span })
            }
            TokenKind::Parameter(name) => {
                self.advance()?;
                Ok(Count::Parameter { name, span })
            }
            TokenKind::Word(_) | TokenKind::String(_) | TokenKind::Symbol(_) | TokenKind::End => {
                Err(self.unexpected())
            }
        }
    }

    /// What follows the word FROM.
    fn from(&mut self) -> SqlResult<From> {
        let first = self.source()?;
        let mut joins = Vec::new();
        while self.eat_word("JOIN")? {
            joins.push(self.source()?);
        }
        Ok(From { first, joins })
    }

    fn source(&mut self) -> SqlResult<Source> {
        let start = self.token.span;
        let iterates = self.at_name() && self.following().is_some_and(|t| is_word(&t, "IN"));
        let kind = if iterates {
            let name = self.name()?;
            self.expect_word("IN")?;
            SourceKind::Iterate { name, collection: self.collection()? }
        } else {
            let collection = self.collection()?;
            let named = self.eat_word("AS")? || self.at_name();
            let alias = if named { Some(self.name()?) } else { None };
            SourceKind::Whole { collection, alias }
        };
        Ok(Source { kind, span: self.span_from(start) })
    }

    fn collection(&mut self) -> SqlResult<Collection> {
        if self.eat_symbol("(")? {
            let query = Box::new(self.nested(Self::query)?);
            self.expect_symbol(")")?;
            return Ok(Collection::Subquery(query));
        }
        if !self.at_name() || self.following() == Some(TokenKind::Symbol("(")) {
            return self.call().map(Collection::Call);
        }
        let root_span = self.token.span;
        let root = self.name()?;
        let mut steps = Vec::new();
        while let Some(step) = self.collection_step()? {
            steps.push(step);
        }
        Ok(Collection::Path { root, root_span, steps })
    }

    /// `.name`, `["name"]` or `[0]`: the steps of a source are constant.
    fn collection_step(&mut self) -> SqlResult<Option<PathStep>> {
        let start = self.token.span;
        if self.eat_symbol(".")? {
            return self.name().map(PathStep::Member).map(Some);
        }
        if !self.eat_symbol("[")? {
            return Ok(None);
        }
        let index = match self.token.kind.clone() {
            TokenKind::String(name) => Value::String(name),
            TokenKind::Number(number) => Value::Number(number),
            TokenKind::Word(_)
            | TokenKind::Parameter(_)
            | TokenKind::Symbol(_)
            | TokenKind::End => return Err(self.unexpected()),
        };
        self.advance()?;
        self.expect_symbol("]")?;
        let (index, span) = (Expr::Literal(index), self.span_from(start));
        Ok(Some(PathStep::Index { index, span }))
    }

    fn group_by(&mut self) -> SqlResult<Vec<Expr>> {
        if !self.eat_word("GROUP")? {
            return Ok(Vec::new());
        }
        self.expect_word("BY")?;
        self.expressions()
    }

    fn order_by(&mut self) -> SqlResult<Option<OrderBy>> {
        let start = self.token.span;
        if !self.eat_word("ORDER")? {
            return Ok(None);
        }
        self.expect_word("BY")?;
        // `ORDER BY rank` alone orders by something that is called so.
        if self.at_word("RANK") && self.following().is_some_and(|token| is_name(&token)) {
            self.advance()?;
            let functions = self.rank_functions()?;
            return Ok(Some(OrderBy::Rank { functions, span: self.span_from(start) }));
        }
        let mut items = vec![self.order_item()?];
        while self.eat_symbol(",")? {
            items.push(self.order_item()?);
        }
        Ok(Some(OrderBy::Items(items)))
    }

    fn rank_functions(&mut self) -> SqlResult<Vec<Expr>> {
        let mut functions = vec![self.call()?];
        while self.eat_symbol(",")? {
            functions.push(self.call()?);
        }
        if self.at_word("ASC") || self.at_word("DESC") {
            let message = "Specifying a sort order (ASC or DESC) in the ORDER BY RANK clause is \
                           not allowed.";
            return Err(SqlError::Plain(message.to_owned()));
        }
        Ok(functions)
    }

    fn order_item(&mut self) -> SqlResult<OrderItem> {
        let expr = self.expr()?;
        let direction = if self.eat_word("ASC")? {
            Some(Direction::Ascending)
        } else if self.eat_word("DESC")? {
            Some(Direction::Descending)
        } else {
            None
        };
        Ok(OrderItem { expr, direction })
    }

    fn offset_limit(&mut self) -> SqlResult<Option<OffsetLimit>> {
        if !self.eat_word("OFFSET")? {
            return Ok(None);
        }
        let offset = self.count()?;
        self.expect_word("LIMIT")?;
        let limit = self.count()?;
        Ok(Some(OffsetLimit { offset, limit }))
    }
}

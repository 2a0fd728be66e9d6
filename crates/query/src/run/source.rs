//! FROM and WHERE: every combination of the sources' values for which the filter holds.
//!
//! The sources are nested loops in the order written, the last one innermost.

use std::ops::ControlFlow;

use partita_model::{Raw, RawKind, Value};

use super::{Flow, GO_ON, for_each_value};
use crate::cell::{Cell, Tree};
use crate::eval::{self, Frame};
use crate::ir::{Expr, Query, Source};

/// Called for each combination, which is bound to its slots then.
type Each<'f, 'a> = &'f mut dyn FnMut(&mut Frame<'a>) -> Flow;

/// Calls `f` for every row of FROM that WHERE lets through.
pub(crate) fn for_each_binding<'a>(
    query: &'a Query,
    frame: &mut Frame<'a>,
    f: Each<'_, 'a>,
) -> Flow {
    bind_from(query, query.filter.as_ref(), 0, frame, f)
}

/// Calls `f` for every row of FROM, for items that WHERE is known to let through.
pub(crate) fn for_each_known_binding<'a>(
    query: &'a Query,
    frame: &mut Frame<'a>,
    f: Each<'_, 'a>,
) -> Flow {
    bind_from(query, None, 0, frame, f)
}

/// Binds source number `at` and those behind it.
fn bind_from<'a>(
    query: &'a Query,
    filter: Option<&'a Expr>,
    at: usize,
    frame: &mut Frame<'a>,
    f: Each<'_, 'a>,
) -> Flow {
    // Counted at every level: a JOIN over many elements has its price also if none is left of them.
    frame.scope.step()?;
    let Some(source) = query.sources.get(at) else {
        return match filter {
            Some(filter) if !eval::is_true(filter, frame)? => GO_ON,
            _ => f(frame),
        };
    };
    if *source == Source::Value(Expr::Item) {
        // Its alias is the item, so nobody reads the slot.
        return if frame.item.is_some() {
            bind_from(query, filter, at + 1, frame, f)
        } else {
            GO_ON
        };
    }
    let slot = query.first_slot + at;
    let mut bind = |frame: &mut Frame<'a>, cell: Cell<'a>| {
        frame.bind(slot, Some(cell));
        bind_from(query, filter, at + 1, frame, f)
    };
    match source {
        Source::Value(expr) => match eval::eval(expr, frame)? {
            Some(cell) => bind(frame, cell),
            None => GO_ON,
        },
        Source::Elements(expr) => match eval::eval(expr, frame)? {
            Some(cell) => for_each_element(cell, frame, &mut bind),
            None => GO_ON,
        },
        Source::Subquery(query) => for_each_value(query, frame, &mut bind),
        Source::SubqueryElements(query) => for_each_value(query, frame, &mut |frame, cell| {
            for_each_element(cell, frame, &mut bind)
        }),
    }
}

fn for_each_element<'a>(
    cell: Cell<'a>,
    frame: &mut Frame<'a>,
    f: &mut dyn FnMut(&mut Frame<'a>, Cell<'a>) -> Flow,
) -> Flow {
    match cell {
        Cell::Text(raw) if raw.kind() == RawKind::Array => elements_of_text(raw).try_each(frame, f),
        Cell::Tree(Tree::Borrowed(Value::Array(elements))) => {
            elements.iter().map(Cell::from_ref).try_each(frame, f)
        }
        Cell::Tree(Tree::Shared(tree)) => match &*tree {
            Value::Array(elements) => {
                elements.iter().cloned().map(Cell::from_value).try_each(frame, f)
            }
            _ => GO_ON,
        },
        _ => GO_ON,
    }
}

fn elements_of_text<'a>(raw: Raw<'a>) -> impl Iterator<Item = Cell<'a>> {
    raw.document().elements().map(Cell::from_raw)
}

/// A loop that a callback can end.
trait TryEach<'a>: Iterator<Item = Cell<'a>> + Sized {
    fn try_each(
        self,
        frame: &mut Frame<'a>,
        f: &mut dyn FnMut(&mut Frame<'a>, Cell<'a>) -> Flow,
    ) -> Flow {
        for cell in self {
            if f(frame, cell)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        GO_ON
    }
}

impl<'a, I: Iterator<Item = Cell<'a>>> TryEach<'a> for I {}

//! Subqueries inside expressions: many rows in, one value out.
//!
//! Each is run only as far as its result needs: EXISTS and FIRST stop at the first row, ALL at the
//! first that is not true.

use std::ops::ControlFlow;

use partita_model::{Error, Value};

use super::{Evaluated, Frame};
use crate::cell::Cell;
use crate::ir::{Query, SubqueryKind};
use crate::run;

pub(super) fn value<'a>(
    kind: SubqueryKind,
    query: &'a Query,
    frame: &mut Frame<'a>,
) -> Evaluated<'a> {
    match kind {
        SubqueryKind::Scalar => scalar(query, frame),
        SubqueryKind::Exists => Ok(Some(Cell::Bool(first(query, frame)?.is_some()))),
        SubqueryKind::Array => array(query, frame),
        SubqueryKind::All => all(query, frame),
        SubqueryKind::First => first(query, frame),
        SubqueryKind::Last => last(query, frame),
    }
}

fn scalar<'a>(query: &'a Query, frame: &mut Frame<'a>) -> Evaluated<'a> {
    let mut only = None;
    let _flow = run::for_each_value(query, frame, &mut |_, cell| match only.replace(cell) {
        None => Ok(ControlFlow::Continue(())),
        Some(_) => Err(Error::bad_request(
            "The cardinality of a scalar subquery result set cannot be greater than one.",
        )),
    })?;
    Ok(only)
}

fn first<'a>(query: &'a Query, frame: &mut Frame<'a>) -> Evaluated<'a> {
    let mut found = None;
    let _flow = run::for_each_value(query, frame, &mut |_, cell| {
        found = Some(cell);
        Ok(ControlFlow::Break(()))
    })?;
    Ok(found)
}

fn last<'a>(query: &'a Query, frame: &mut Frame<'a>) -> Evaluated<'a> {
    let mut found = None;
    let _flow = run::for_each_value(query, frame, &mut |_, cell| {
        found = Some(cell);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

fn array<'a>(query: &'a Query, frame: &mut Frame<'a>) -> Evaluated<'a> {
    let mut rows = Vec::new();
    let _flow = run::for_each_value(query, frame, &mut |frame, cell| {
        frame.scope.reserve(cell.footprint())?;
        rows.push(cell.into_value());
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(Some(Cell::from_value(Value::Array(rows))))
}

fn all<'a>(query: &'a Query, frame: &mut Frame<'a>) -> Evaluated<'a> {
    let mut holds = true;
    let _flow = run::for_each_value(query, frame, &mut |_, cell| {
        holds = cell.as_bool() == Some(true);
        Ok(if holds { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    Ok(Some(Cell::Bool(holds)))
}

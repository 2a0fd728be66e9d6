//! From a query and an item to rows.
//!
//! `source` binds the slots of FROM, one combination after another, and lets WHERE decide about
//! each; `group` gathers what GROUP BY and aggregates want gathered, `columns` the same of values
//! whose items nobody has, and `judge` decides WHERE by such values; `write` makes the text of a
//! row. A subquery goes through the same functions as the query around it, with the same slots. All
//! of it is driven by callbacks that can stop it, so nothing is computed that nobody wants.

pub(crate) mod columns;
pub(crate) mod group;
pub(crate) mod judge;
mod source;
pub(crate) mod write;

pub(crate) use source::{for_each_binding, for_each_known_binding};

use std::collections::HashSet;
use std::ops::ControlFlow;

use partita_model::Result;

use crate::cell::Cell;
use crate::eval::{self, Evaluated, Frame};
use crate::hash;
use crate::ir::{Projection, Query};
use group::Table;

/// What a callback says about going on.
pub(crate) type Flow = Result<ControlFlow<()>>;

pub(crate) const GO_ON: Flow = Ok(ControlFlow::Continue(()));

/// Calls `f` with the value of each row of a query.
pub(crate) fn for_each_value<'a>(
    query: &'a Query,
    frame: &mut Frame<'a>,
    f: &mut dyn FnMut(&mut Frame<'a>, Cell<'a>) -> Flow,
) -> Flow {
    let mut seen = query.distinct.then(HashSet::new);
    let mut project_row = |frame: &mut Frame<'a>| match project(&query.projection, frame)? {
        Some(cell) if is_new(seen.as_mut(), frame, &cell)? => f(frame, cell),
        _ => GO_ON,
    };
    let Some(grouping) = &query.grouping else {
        return for_each_binding(query, frame, &mut project_row);
    };
    let mut table = Table::new(grouping, frame.scope.memory());
    let _to_the_end = for_each_binding(query, frame, &mut |frame| {
        table.gather(grouping, frame, 1)?;
        GO_ON
    })?;
    let (groups, _memory) = table.into_groups();
    for group in groups {
        group.bind(grouping, frame);
        if project_row(frame)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    GO_ON
}

fn is_new(seen: Option<&mut HashSet<u128>>, frame: &Frame<'_>, cell: &Cell<'_>) -> Result<bool> {
    let Some(seen) = seen else { return Ok(true) };
    let is_new = seen.insert(hash::of_cell(cell));
    if is_new {
        frame.scope.reserve(hash::SEEN_BYTES)?;
    }
    Ok(is_new)
}

fn project<'a>(projection: &'a Projection, frame: &mut Frame<'a>) -> Evaluated<'a> {
    match projection {
        Projection::Value(expr) => eval::eval(expr, frame),
        Projection::Members(members) => eval::object(members, frame),
    }
}

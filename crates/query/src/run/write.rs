//! The text of a row.
//!
//! Constructors at the top of a projection are written member by member, and what comes straight
//! out of an item's text is copied, so most rows are made without a tree. What JSON cannot say (NaN
//! and the infinities) is left out as if it were undefined.

use partita_model::{Number, Raw, RawKind, Result, Value, write_string};

use crate::cell::{self, Cell};
use crate::eval::{self, Frame};
use crate::ir::{Expr, Projection};

/// Appends the row in the frame. False, and nothing appended, if the row is undefined.
pub(crate) fn row<'a>(
    out: &mut String,
    projection: &'a Projection,
    frame: &mut Frame<'a>,
) -> Result<bool> {
    match projection {
        Projection::Value(expr) => self::expr(out, expr, frame),
        Projection::Members(members) => object(out, members, frame),
    }
}

fn expr<'a>(out: &mut String, expr: &'a Expr, frame: &mut Frame<'a>) -> Result<bool> {
    match expr {
        Expr::Object(members) => object(out, members, frame),
        Expr::Array(elements) => array(out, elements, frame),
        Expr::Path { base, steps } => {
            let cell = match &**base {
                Expr::Item => frame.item.as_ref(),
                Expr::Slot(slot) => frame.slot(*slot),
                _ => return evaluated(out, expr, frame),
            };
            let Some(Cell::Text(raw)) = cell else { return evaluated(out, expr, frame) };
            let Some(raw) = cell::walk_text(*raw, steps) else { return Ok(false) };
            frame.scope.reserve(raw.bytes().len())?;
            Ok(self::raw(out, raw))
        }
        other => evaluated(out, other, frame),
    }
}

fn evaluated<'a>(out: &mut String, expr: &'a Expr, frame: &mut Frame<'a>) -> Result<bool> {
    let Some(cell) = eval::eval(expr, frame)? else { return Ok(false) };
    let before = out.len();
    let is_written = self::cell(out, &cell);
    frame.scope.reserve(out.len() - before)?;
    Ok(is_written)
}

fn object<'a>(
    out: &mut String,
    members: &'a [(String, Expr)],
    frame: &mut Frame<'a>,
) -> Result<bool> {
    out.push('{');
    let start = out.len();
    for (name, member) in members {
        let before = out.len();
        if before > start {
            out.push(',');
        }
        write_string(out, name);
        out.push(':');
        if !expr(out, member, frame)? {
            out.truncate(before);
        }
    }
    out.push('}');
    Ok(true)
}

fn array<'a>(out: &mut String, elements: &'a [Expr], frame: &mut Frame<'a>) -> Result<bool> {
    out.push('[');
    let start = out.len();
    for element in elements {
        let before = out.len();
        if before > start {
            out.push(',');
        }
        if !expr(out, element, frame)? {
            out.truncate(before);
        }
    }
    out.push(']');
    Ok(true)
}

/// Appends a value. False, and nothing appended, if it is a number that JSON does not have.
fn cell(out: &mut String, cell: &Cell<'_>) -> bool {
    match cell {
        Cell::Null => out.push_str("null"),
        Cell::Bool(true) => out.push_str("true"),
        Cell::Bool(false) => out.push_str("false"),
        Cell::Number(number) => return self::number(out, *number),
        Cell::String(text) => write_string(out, text),
        Cell::Text(raw) => out.push_str(raw.text()),
        Cell::Tree(tree) => self::tree(out, tree),
    }
    true
}

/// Appends a piece of an item.
fn raw(out: &mut String, raw: Raw<'_>) -> bool {
    match raw.kind() {
        // An item may have `1.0` where the language says `1`.
        RawKind::Number => cell(out, &Cell::from_raw(raw)),
        _ => {
            out.push_str(raw.text());
            true
        }
    }
}

fn number(out: &mut String, number: Number) -> bool {
    let double = number.as_f64();
    if !double.is_finite() {
        return false;
    }
    // The language has no minus zero.
    let number = if double == 0.0 { Number::Int(0) } else { number };
    out.push_str(&number.to_string());
    true
}

fn tree(out: &mut String, value: &Value) {
    match value {
        Value::Array(elements) => {
            out.push('[');
            let start = out.len();
            for element in elements {
                let before = out.len();
                if before > start {
                    out.push(',');
                }
                if !cell(out, &Cell::from_ref(element)) {
                    out.truncate(before);
                }
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            let start = out.len();
            for (name, member) in members.iter() {
                let before = out.len();
                if before > start {
                    out.push(',');
                }
                write_string(out, name);
                out.push(':');
                if !cell(out, &Cell::from_ref(member)) {
                    out.truncate(before);
                }
            }
            out.push('}');
        }
        scalar => {
            cell(out, &Cell::from_ref(scalar));
        }
    }
}

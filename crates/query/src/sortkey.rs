//! Bytes that sort as ORDER BY does.
//!
//! One byte for the type, then the value: undefined 00 · null 01 · false 02 · true 03 · number 05 ·
//! string 08 · array 0B · object 0C. Scalars are encoded as index entries are (see
//! `partita_model::keycode`). Arrays and objects have no order of their own: they sort by their
//! hash, which is what clients compare when they merge the results of partitions.

use partita_model::{Value, keycode};

use crate::cell::{Cell, Kind};
use crate::hash;

const UNDEFINED: u8 = 0x00;
const NULL: u8 = 0x01;
const FALSE: u8 = 0x02;
const TRUE: u8 = 0x03;
const NUMBER: u8 = 0x05;
const STRING: u8 = 0x08;
const ARRAY: u8 = 0x0B;
const OBJECT: u8 = 0x0C;

/// Appends the key of a value; `None` is undefined.
pub(crate) fn put(out: &mut Vec<u8>, cell: Option<&Cell<'_>>) {
    let Some(cell) = cell else {
        out.push(UNDEFINED);
        return;
    };
    match cell {
        Cell::Null => out.push(NULL),
        Cell::Bool(value) => out.push(if *value { TRUE } else { FALSE }),
        Cell::Number(number) => {
            out.push(NUMBER);
            keycode::put_f64(out, number.as_f64());
        }
        Cell::String(text) => {
            out.push(STRING);
            keycode::put_utf16_order_str(out, text);
        }
        Cell::Text(_) | Cell::Tree(_) => {
            out.push(if cell.kind() == Kind::Array { ARRAY } else { OBJECT });
            out.extend_from_slice(&hash::of_cell(cell).to_be_bytes());
        }
    }
}

/// The key of a value; `None` is undefined.
pub fn sort_key(value: Option<&Value>) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, value.map(Cell::from_ref).as_ref());
    out
}

//! Numbers of fixed width.
//!
//! Two families of markers say the same: C7–CC, and CD, CE and D7–DC, whose types a client chose.
//! JSON text has one kind of number, so the choice is not kept.

use super::cursor::{Cursor, malformed};
use crate::error::Result;

/// A number that has a literal in JSON.
pub(super) enum Literal {
    Int(i64),
    Unsigned(u64),
    /// A finite one.
    Double(f64),
}

/// Reads what follows the marker of a number. `at` is where the marker is.
pub(super) fn read(cursor: &mut Cursor<'_>, at: usize, marker: u8) -> Result<Literal> {
    let literal = match marker {
        0xC7 => Literal::Unsigned(u64::from_le_bytes(cursor.array()?)),
        0xC8 | 0xD7 => Literal::Int(cursor.byte()?.into()),
        0xC9 | 0xD9 => Literal::Int(i16::from_le_bytes(cursor.array()?).into()),
        0xCA | 0xDA => Literal::Int(i32::from_le_bytes(cursor.array()?).into()),
        0xCB | 0xDB => Literal::Int(i64::from_le_bytes(cursor.array()?)),
        0xCC | 0xCE => finite(at, f64::from_le_bytes(cursor.array()?))?,
        0xCD => finite(at, f32::from_le_bytes(cursor.array()?).into())?,
        0xD8 => Literal::Int(i8::from_le_bytes(cursor.array()?).into()),
        0xDC => Literal::Int(u32::from_le_bytes(cursor.array()?).into()),
        0xCF => return Err(malformed(at, "16-bit floats (0xcf) are not supported")),
        other => return Err(super::reserved(at, other)),
    };
    Ok(literal)
}

fn finite(at: usize, double: f64) -> Result<Literal> {
    match double.is_finite() {
        true => Ok(Literal::Double(double)),
        false => Err(malformed(at, format!("JSON has no number {double}"))),
    }
}

//! From JSON text to binary JSON, for clients that want answers in it.
//!
//! Everything is as short as it can be said with the plain forms: integers by their size, strings
//! of the fixed dictionary by their marker, containers with the narrowest length that fits, and
//! with their count where that spares a reader many steps. The packed forms of strings, and
//! references to earlier ones, are for writers who have the time.

use super::strings::DICTIONARY;
use crate::value::{Number, Value};

/// Containers of so many parts tell their count, as in the .NET SDK.
const COUNTED_MIN: usize = 16;

/// The markers of a container without parts: the others follow it.
const ARRAY: u8 = 0xE0;
const OBJECT: u8 = 0xE8;

pub(super) fn value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.push(0xD0),
        Value::Bool(false) => out.push(0xD1),
        Value::Bool(true) => out.push(0xD2),
        Value::Number(Number::Int(int)) => integer(out, *int),
        Value::Number(Number::Double(double)) => {
            out.push(0xCC);
            out.extend(double.to_le_bytes());
        }
        Value::String(text) => string(out, text),
        Value::Array(elements) => container(out, ARRAY, elements.len(), |out| {
            elements.iter().for_each(|element| self::value(out, element));
        }),
        Value::Object(members) => container(out, OBJECT, members.len(), |out| {
            for (name, member) in members.iter() {
                string(out, name);
                self::value(out, member);
            }
        }),
    }
}

fn integer(out: &mut Vec<u8>, int: i64) {
    if let Ok(byte) = u8::try_from(int) {
        if byte >= 32 {
            out.push(0xC8);
        }
        out.push(byte);
    } else if let Ok(short) = i16::try_from(int) {
        out.push(0xC9);
        out.extend(short.to_le_bytes());
    } else if let Ok(middle) = i32::try_from(int) {
        out.push(0xCA);
        out.extend(middle.to_le_bytes());
    } else {
        out.push(0xCB);
        out.extend(int.to_le_bytes());
    }
}

fn string(out: &mut Vec<u8>, text: &str) {
    if let Some(marker) = (0x20..).zip(DICTIONARY).find(|(_, word)| *word == text) {
        out.push(marker.0);
        return;
    }
    match u8::try_from(text.len()) {
        Ok(length @ 0..64) => out.push(0x80 + length),
        _ => {
            let width = Width::of(text.len());
            out.push(0xC0 + width as u8);
            width.put(out, out.len(), text.len());
        }
    }
    out.extend(text.as_bytes());
}

/// A container with so many parts. Its length is known when they are written, and is then put
/// before them.
fn container(out: &mut Vec<u8>, empty: u8, count: usize, write_parts: impl FnOnce(&mut Vec<u8>)) {
    out.push(empty);
    let start = out.len();
    write_parts(out);
    let width = Width::of((out.len() - start).max(count));
    let counted = count >= COUNTED_MIN;
    let marker = match count {
        0 => return,
        1 => empty + 1,
        _ if counted => empty + 5 + width as u8,
        _ => empty + 2 + width as u8,
    };
    if let Some(place) = out.get_mut(start - 1) {
        *place = marker;
    }
    if count > 1 {
        let length = out.len() - start;
        if counted {
            width.put(out, start, count);
        }
        width.put(out, start, length);
    }
}

/// In how many bytes a length is told: 1, 2 or 4.
#[derive(Clone, Copy)]
enum Width {
    One = 0,
    Two = 1,
    Four = 2,
}

impl Width {
    fn of(length: usize) -> Width {
        match length {
            0..=0xFF => Width::One,
            0x100..=0xFFFF => Width::Two,
            _ => Width::Four,
        }
    }

    /// Puts a length before what is at this place.
    fn put(self, out: &mut Vec<u8>, at: usize, length: usize) {
        let bytes = length.to_le_bytes().into_iter().take(1 << self as usize);
        out.splice(at..at, bytes);
    }
}

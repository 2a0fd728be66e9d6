//! One number for all equal values: the identity that DISTINCT and GROUP BY go by.
//!
//! It is the 128-bit hash of the .NET client. That client sends the hash of an array or object when
//! it resumes an ordered query, so the same bits must come out here. Every value is hashed with a
//! seed that tells what it is and where it stands: MurmurHash3 of the type's constant with the seed
//! of the place, then of the value with that. An object's members are combined by exclusive or, so
//! that their order does not matter; an element's seed contains its position.

use partita_model::{Document, Number, Raw, RawKind, Value, murmur3_128_seeded};

use crate::cell::Cell;

/// What a set of seen hashes takes for each, about: it is at least half empty after it has grown,
/// and while it grows there are two.
pub const SEEN_BYTES: usize = 3 * size_of::<u128>();

const ROOT: u128 = of_halves(0xbfc2_359e_afc0_e2b7, 0x8846_e002_84c4_cf1f);
const NULL: u128 = of_halves(0x1380_f68b_b3b0_cfe4, 0x156c_918b_f564_ee48);
const FALSE: u128 = of_halves(0xc1be_517f_e893_b40c, 0xe9fc_8a4c_531c_d0dd);
const TRUE: u128 = of_halves(0xf86d_4abf_9a41_2e74, 0x7884_8836_5c8a_985d);
const NUMBER: u128 = of_halves(0x2400_e8b8_94ce_9c2a, 0x790b_e1ea_bd7b_9481);
const STRING: u128 = of_halves(0x61f5_3f0a_4420_4cfb, 0x0948_1be8_ef4b_56dd);
const ARRAY: u128 = of_halves(0xfa57_3b01_4c4d_c18e, 0xa014_512c_858e_b115);
const OBJECT: u128 = of_halves(0x77b2_85ac_511a_ef30, 0x3dcf_1872_4582_2449);
const ELEMENT: u128 = of_halves(0xfe05_7204_216d_b999, 0x5b1c_c317_8bd9_c593);
const NAME: u128 = of_halves(0xc915_dde0_5849_2a8a, 0x7c8b_e2eb_a72e_4634);

const fn of_halves(low: u64, high: u64) -> u128 {
    ((high as u128) << 64) | low as u128
}

/// The hash of a JSON text that is known to be one.
pub(crate) fn of_text(text: &str) -> u128 {
    raw(Document::new(text).raw(), ROOT)
}

pub(crate) fn of_value(value: &Value) -> u128 {
    self::value(value, ROOT)
}

pub(crate) fn of_cell(cell: &Cell<'_>) -> u128 {
    self::cell(cell, ROOT)
}

fn cell(cell: &Cell<'_>, seed: u128) -> u128 {
    match cell {
        Cell::Null => word(NULL, seed),
        Cell::Bool(false) => word(FALSE, seed),
        Cell::Bool(true) => word(TRUE, seed),
        Cell::Number(value) => number(*value, seed),
        Cell::String(text) => string(text, seed),
        Cell::Text(text) => raw(*text, seed),
        Cell::Tree(tree) => value(tree, seed),
    }
}

fn raw(text: Raw<'_>, seed: u128) -> u128 {
    match text.kind() {
        RawKind::Array => {
            let elements = text.document().elements().enumerate();
            elements.fold(word(ARRAY, seed), |hash, (at, element)| {
                word(raw(element, element_seed(at)), hash)
            })
        }
        RawKind::Object => {
            let members = text.document().members();
            object(members.map(|(name, member)| raw(member, name_seed(&name))), seed)
        }
        _ => cell(&Cell::from_raw(text), seed),
    }
}

fn value(value: &Value, seed: u128) -> u128 {
    match value {
        Value::Array(elements) => {
            elements.iter().enumerate().fold(word(ARRAY, seed), |hash, (at, element)| {
                word(self::value(element, element_seed(at)), hash)
            })
        }
        Value::Object(members) => {
            object(members.iter().map(|(name, member)| self::value(member, name_seed(name))), seed)
        }
        scalar => cell(&Cell::from_ref(scalar), seed),
    }
}

fn object(members: impl Iterator<Item = u128>, seed: u128) -> u128 {
    let start = word(OBJECT, seed);
    match members.fold(0, |all, member| all ^ member) {
        0 => start,
        all => word(all, start),
    }
}

fn string(text: &str, seed: u128) -> u128 {
    murmur3_128_seeded(text.as_bytes(), word(STRING, seed))
}

/// A number counts as the nearest double and what that leaves out.
fn number(number: Number, seed: u128) -> u128 {
    let mut bytes = [0; 10];
    let (double, left_out) = match number {
        Number::Int(int) => exact_double(int),
        // Minus zero equals zero.
        Number::Double(double) => (double + 0.0, 0),
    };
    bytes[..8].copy_from_slice(&double.to_le_bytes());
    bytes[8..10].copy_from_slice(&left_out.to_le_bytes());
    murmur3_128_seeded(&bytes, word(NUMBER, seed))
}

/// The double of the upper 53 significant bits, and the bits below them.
fn exact_double(int: i64) -> (f64, u16) {
    const DOUBLE_BITS: u32 = 53;
    let magnitude = int.unsigned_abs();
    let below = (u64::BITS - magnitude.leading_zeros()).saturating_sub(DOUBLE_BITS);
    let low = magnitude & ((1_u64 << below) - 1);
    let upper = (magnitude - low) as f64;
    // At most eleven bits are below.
    (if int < 0 { -upper } else { upper }, (low << (11 - below.min(11)) << 5) as u16)
}

fn element_seed(at: usize) -> u128 {
    ELEMENT.wrapping_add(at as u128)
}

fn name_seed(name: &str) -> u128 {
    murmur3_128_seeded(name.as_bytes(), word(STRING, NAME))
}

fn word(word: u128, seed: u128) -> u128 {
    murmur3_128_seeded(&word.to_le_bytes(), seed)
}

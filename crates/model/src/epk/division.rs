//! Where a range of effective partition keys is divided, in the space that keys really use.
//!
//! The bounds of a range are byte strings, but hashes fill only a part of those: version 2 hashes
//! are below 2^126, version 1 hashes are 32-bit numbers. The middle of the bytes would leave most
//! keys on one side.

use super::{Epk, EpkRange, marker, put_ordered_number};

/// Version 2 hashes are below this.
const V2_END: u128 = 1 << 126;
/// Version 1 hashes are below this.
const V1_END: f64 = 4_294_967_296.0;
const HASH_BYTES: usize = 16;

/// What comes to lie on the left of a boundary: so many of so many equal parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portion {
    pub left: u32,
    pub of: u32,
}

impl Portion {
    pub const HALF: Portion = Portion { left: 1, of: 2 };
}

/// The point that divides a range of version 2 hashes, of which keys have `levels`. Where the range
/// is within one hash of the first level, the next level is divided.
pub(crate) fn v2(range: &EpkRange, portion: Portion, levels: usize) -> Option<Epk> {
    let mut prefix = Vec::new();
    let (mut low, mut high) = (range.min.as_bytes(), Some(range.max.as_bytes()));
    for _ in 0..levels {
        let first = hash(low);
        let end = high.map_or(V2_END, |bytes| hash(bytes).min(V2_END));
        let parts = u128::from(portion.of.max(1));
        let point = first + end.saturating_sub(first) / parts * u128::from(portion.left);
        if point > first {
            prefix.extend_from_slice(&point.to_be_bytes());
            return Some(Epk(prefix));
        }
        prefix.extend_from_slice(&first.to_be_bytes());
        high = high.filter(|_| end == first).map(rest);
        low = rest(low);
    }
    None
}

/// The point that divides a range of version 1 keys.
pub(crate) fn v1(range: &EpkRange, portion: Portion) -> Option<Epk> {
    let low = ordered_number(range.min.as_bytes()).unwrap_or(0.0);
    let high = ordered_number(range.max.as_bytes()).unwrap_or(V1_END);
    let share = f64::from(portion.left) / f64::from(portion.of);
    let point = (low + (high - low) * share).floor();
    if point <= low || point >= high {
        return None;
    }
    let mut bytes = Vec::new();
    put_ordered_number(&mut bytes, point);
    Some(Epk(bytes))
}

/// The hash at the front of these bytes; what is missing is zero.
fn hash(bytes: &[u8]) -> u128 {
    let mut padded = [0; HASH_BYTES];
    for (to, from) in padded.iter_mut().zip(bytes) {
        *to = *from;
    }
    u128::from_be_bytes(padded)
}

fn rest(bytes: &[u8]) -> &[u8] {
    bytes.get(HASH_BYTES..).unwrap_or_default()
}

/// The number at the front of these bytes, as `put_ordered_number` wrote it.
fn ordered_number(bytes: &[u8]) -> Option<f64> {
    const SIGN: u64 = 1 << 63;
    let [marker::NUMBER, first, groups @ ..] = bytes else { return None };
    let mut bits = u64::from(*first) << 56;
    for (group, shift) in groups.iter().zip((0..56).rev().step_by(7).map(|end| end - 6)) {
        bits |= u64::from(group >> 1) << shift;
        if group & 1 == 0 {
            return (bits & SIGN != 0).then(|| f64::from_bits(bits ^ SIGN));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(min: &Epk, max: &Epk) -> EpkRange {
        EpkRange::new(min.clone(), max.clone())
    }

    #[test]
    fn an_ordered_number_is_read_as_it_was_written() {
        for number in [0.0, 1.0, 127.0, 128.0, 65_536.5, 4_294_967_295.0, 0.1, f64::MAX] {
            let mut bytes = Vec::new();
            put_ordered_number(&mut bytes, number);
            bytes.extend_from_slice(&[8, 0x62, 0]);
            assert_eq!(ordered_number(&bytes), Some(number));
        }
        assert_eq!(ordered_number(&[]), None);
        assert_eq!(ordered_number(&[0xFF]), None);
        assert_eq!(ordered_number(&[marker::NUMBER, 0xC0, 1]), None);
    }

    #[test]
    fn the_middle_of_everything_is_the_middle_of_the_hashes() {
        let middle = v2(&EpkRange::all(), Portion::HALF, 1).unwrap();
        assert_eq!(middle.to_string(), format!("20{}", "00".repeat(15)));
        let mut half = Vec::new();
        put_ordered_number(&mut half, 2_147_483_648.0);
        assert_eq!(v1(&EpkRange::all(), Portion::HALF), Some(Epk(half)));
    }

    #[test]
    fn a_portion_leaves_its_parts_on_the_left() {
        let portion = Portion { left: 3, of: 4 };
        let point = v2(&EpkRange::all(), portion, 1).unwrap();
        assert_eq!(point.to_string(), format!("30{}", "00".repeat(15)));
        let mut three_quarters = Vec::new();
        put_ordered_number(&mut three_quarters, 3_221_225_472.0);
        assert_eq!(v1(&EpkRange::all(), portion), Some(Epk(three_quarters)));
    }

    #[test]
    fn halving_again_and_again_stays_inside() {
        let mut halves = EpkRange::all();
        for _ in 0..100 {
            let middle = v2(&halves, Portion::HALF, 1).unwrap();
            assert!(halves.min < middle && middle < halves.max, "{halves} {middle}");
            halves = range(&middle, &halves.max);
        }
        let mut halves = EpkRange::all();
        for _ in 0..31 {
            let middle = v1(&halves, Portion::HALF).unwrap();
            assert!(halves.min < middle && middle < halves.max, "{halves} {middle}");
            halves = range(&halves.min, &middle);
        }
    }

    #[test]
    fn a_single_hash_is_divided_at_the_next_level_or_not_at_all() {
        let one = Epk(7_u128.to_be_bytes().to_vec());
        let next = Epk(8_u128.to_be_bytes().to_vec());
        assert_eq!(v2(&range(&one, &next), Portion::HALF, 1), None);
        let middle = v2(&range(&one, &next), Portion::HALF, 3).unwrap();
        assert_eq!(middle.to_string(), format!("{one}20{}", "00".repeat(15)));
        assert!(one < middle && middle < next);
        let deeper = v2(&range(&middle, &one.followed_by(0xFF)), Portion::HALF, 3).unwrap();
        assert_eq!(deeper.to_string(), format!("{one}30{}", "00".repeat(15)));
        let mut low = Vec::new();
        put_ordered_number(&mut low, 7.0);
        let mut high = Vec::new();
        put_ordered_number(&mut high, 8.0);
        assert_eq!(v1(&range(&Epk(low), &Epk(high)), Portion::HALF), None);
    }
}

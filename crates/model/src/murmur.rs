//! MurmurHash3, the hash under every effective partition key; also what stored formats use where
//! they need a hash that never changes.
//!
//! Two members of Austin Appleby's public-domain family are needed, both with seed 0: the 32-bit
//! variant for 32-bit machines (version 1 keys) and the 128-bit variant for 64-bit machines
//! (version 2 and hierarchical keys). Clients compute the same values to route requests, so every
//! bit counts; the vectors in `tests/data` pin them. Written here because sixty lines that must
//! never change are safer at home than in a dependency that may.

/// The 32-bit variant (x86), seed 0.
pub(crate) fn murmur3_32(bytes: &[u8]) -> u32 {
    let mut hash = 0_u32;
    let (blocks, tail) = bytes.as_chunks::<4>();
    for block in blocks {
        hash ^= scramble_32(u32::from_le_bytes(*block));
        hash = hash.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    if !tail.is_empty() {
        let mut last = [0_u8; 4];
        last[..tail.len()].copy_from_slice(tail);
        hash ^= scramble_32(u32::from_le_bytes(last));
    }
    // The algorithm takes the length modulo 2^32; keys are at most a few kilobytes.
    hash ^= bytes.len() as u32;
    hash ^= hash >> 16;
    hash = hash.wrapping_mul(0x85eb_ca6b);
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

/// The 128-bit variant (x64), seed 0, as the number whose upper half is the second hash word:
/// this is the order in which effective partition keys print it.
pub fn murmur3_128(bytes: &[u8]) -> u128 {
    murmur3_128_seeded(bytes, 0)
}

/// The 128-bit variant (x64). The seed is made of two words as the hash is: the lower half starts
/// the first word, the upper half the second.
pub fn murmur3_128_seeded(bytes: &[u8], seed: u128) -> u128 {
    let (mut h1, mut h2) = (seed as u64, (seed >> 64) as u64);
    let (blocks, tail) = bytes.as_chunks::<16>();
    for block in blocks {
        let (k1, k2) = words(block);
        h1 ^= scramble_first(k1);
        h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= scramble_second(k2);
        h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    // A zero word scrambles to zero, so a short tail padded with zeros needs no cases of its own.
    let mut last = [0_u8; 16];
    last[..tail.len()].copy_from_slice(tail);
    let (k1, k2) = words(&last);
    h1 ^= scramble_first(k1);
    h2 ^= scramble_second(k2);

    let length = bytes.len() as u64;
    h1 ^= length;
    h2 ^= length;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = finish(h1);
    h2 = finish(h2);
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    (u128::from(h2) << 64) | u128::from(h1)
}

fn scramble_32(word: u32) -> u32 {
    word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593)
}

fn scramble_first(word: u64) -> u64 {
    word.wrapping_mul(FIRST).rotate_left(31).wrapping_mul(SECOND)
}

fn scramble_second(word: u64) -> u64 {
    word.wrapping_mul(SECOND).rotate_left(33).wrapping_mul(FIRST)
}

const FIRST: u64 = 0x87c3_7b91_1142_53d5;
const SECOND: u64 = 0x4cf5_ad43_2745_937f;

/// The two little-endian words of a block, first word first.
fn words(block: &[u8; 16]) -> (u64, u64) {
    let both = u128::from_le_bytes(*block);
    (both as u64, (both >> 64) as u64)
}

fn finish(mut word: u64) -> u64 {
    word ^= word >> 33;
    word = word.wrapping_mul(0xff51_afd7_ed55_8ccd);
    word ^= word >> 33;
    word = word.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ (word >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_empty_input_with_seed_zero_hashes_to_zero() {
        assert_eq!(murmur3_32(b""), 0);
        assert_eq!(murmur3_128(b""), 0);
    }

    #[test]
    fn published_values_are_reproduced() {
        assert_eq!(murmur3_32(b"test"), 0xba6b_d213);
        assert_eq!(murmur3_32(b"Hello, world!"), 0xc036_3e43);
        // Published as the words h1, h2.
        let fox = murmur3_128(b"The quick brown fox jumps over the lazy dog");
        assert_eq!(
            (fox as u64, (fox >> 64) as u64),
            (0xe34b_bc7b_bc07_1b6c, 0x7a43_3ca9_c49a_9347)
        );
    }
}

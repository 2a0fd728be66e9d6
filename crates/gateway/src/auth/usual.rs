//! The authorization as every SDK writes it, read without an allocation.
//!
//! `type=master&ver=1.0&sig=…`, as it is or percent-encoded, with the signature of 32 bytes in
//! base64. Whatever is written in another way, or wrong, is left to `master_key.rs`, which knows
//! all ways and can say what is wrong with one: this file never decides against a request.

/// How these authorizations begin: as it is, and encoded in upper and in lower case.
const BEGINNINGS: [&[u8]; 3] = [
    b"type%3Dmaster%26ver%3D1.0%26sig%3D",
    b"type%3dmaster%26ver%3d1.0%26sig%3d",
    b"type=master&ver=1.0&sig=",
];

/// 32 bytes are 42 digits of base64 and one of which only four bits count.
const DIGITS: usize = 43;

const NO_DIGIT: u8 = 0xff;

/// What each byte is worth as a digit of base64.
const WORTH: [u8; 256] = {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut worth = [NO_DIGIT; 256];
    let mut at = 0;
    while at < alphabet.len() {
        worth[alphabet[at] as usize] = at as u8;
        at += 1;
    }
    worth
};

/// The signature in a header that is written in the usual way.
pub(super) fn signature(header: &[u8]) -> Option<[u8; 32]> {
    let mut rest = BEGINNINGS.iter().find_map(|beginning| header.strip_prefix(*beginning))?;
    // One more than there are: the bytes are made of four digits each time.
    let mut digits = [0; DIGITS + 1];
    for digit in digits.iter_mut().take(DIGITS) {
        let byte;
        (byte, rest) = next(rest)?;
        *digit = WORTH[usize::from(byte)];
        if *digit == NO_DIGIT {
            return None;
        }
    }
    if !matches!(rest, b"=" | b"%3D" | b"%3d") {
        return None;
    }
    let mut bytes = [0; 33];
    for (four, three) in digits.chunks_exact(4).zip(bytes.chunks_exact_mut(3)) {
        let &[a, b, c, d] = four else { return None };
        three.copy_from_slice(&[a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d]);
    }
    let (signature, beyond) = bytes.split_first_chunk()?;
    // Bits that do not count must not be set.
    (beyond == [0]).then_some(*signature)
}

/// The first byte of a text, decoded, and what follows.
fn next(text: &[u8]) -> Option<(u8, &[u8])> {
    match text {
        [b'%', high, low, rest @ ..] => {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            let byte = digit(*high)? * 16 + digit(*low)?;
            Some((u8::try_from(byte).ok()?, rest))
        }
        [byte, rest @ ..] => Some((*byte, rest)),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    fn escaped(text: &str) -> String {
        text.replace('=', "%3D").replace('&', "%26").replace('+', "%2B").replace('/', "%2F")
    }

    #[test]
    fn every_digit_is_read_plain_and_encoded() {
        for first in 0..=255u8 {
            let sent: [u8; 32] = std::array::from_fn(|at| first.wrapping_mul(at as u8 + 1) ^ first);
            let plain = format!("type=master&ver=1.0&sig={}", STANDARD.encode(sent));
            let upper = escaped(&plain);
            let lower = upper.replace("%3D", "%3d").replace("%2B", "%2b").replace("%2F", "%2f");
            for text in [plain, upper, lower] {
                assert_eq!(signature(text.as_bytes()), Some(sent), "{text}");
            }
        }
    }

    #[test]
    fn what_is_written_in_another_way_is_not_read() {
        let good = format!("type=master&ver=1.0&sig={}", STANDARD.encode([7; 32]));
        assert!(signature(good.as_bytes()).is_some());
        for other in [
            String::new(),
            good.replace("master", "Master"),
            good.replace("1.0", "2.0"),
            good.replace("ver=1.0&", ""),
            format!(" {good}"),
            format!("{good}="),
            good.trim_end_matches('=').to_owned(),
            good.replace("wc=", "wd="),
            good.replace("wc=", "w*="),
            good.replace("wc=", "w%7="),
            good.replace("wc=", "w%"),
            format!("type=master&ver=1.0&sig={}", STANDARD.encode([7; 31])),
            format!("type=master&ver=1.0&sig={}", STANDARD.encode([7; 33])),
        ] {
            assert_eq!(signature(other.as_bytes()), None, "{other}");
        }
    }
}

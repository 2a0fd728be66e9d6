//! Hides what a continuation token says.
//!
//! A token holds the place where a page ended, and in an order that place is made of values. Along
//! an index it may be the place of an item that the asker may not see: a page of the items under
//! one partition key passes those of others on its way, and may end between two of them. So nobody
//! but the server reads a token.
//!
//! The payload is combined with a stream that is derived from its own signature (a synthetic
//! initialisation vector): equal tokens look equal, and tokens that differ anywhere look unrelated.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// What the stream's key is derived with. Signatures cover more bytes than these, so none is ever
/// equal to the key.
const DERIVATION: &[u8] = b"veil";

/// Hides a payload that has this signature, or shows it again.
pub(super) fn veil(secret: &[u8], signature: &[u8], payload: &mut [u8]) {
    let key = mac(secret, &[DERIVATION]);
    for (number, block) in payload.chunks_mut(key.len()).enumerate() {
        let stream = mac(&key, &[signature, &(number as u64).to_be_bytes()]);
        for (byte, hidden_by) in block.iter_mut().zip(stream) {
            *byte ^= hidden_by;
        }
    }
}

fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    // A key of any length is good for an HMAC.
    let mut mac =
        Hmac::<Sha256>::new_from_slice(key).unwrap_or_else(|_| Hmac::new(&Default::default()));
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_is_shown_by_the_same_and_by_nothing_else() {
        let payload: Vec<u8> = (0..100).collect();
        let hidden = |secret: &[u8], signature: &[u8]| {
            let mut bytes = payload.clone();
            veil(secret, signature, &mut bytes);
            bytes
        };
        let mut bytes = hidden(b"secret", b"signature");
        assert!(bytes.iter().zip(&payload).filter(|(a, b)| a == b).count() < 10);
        assert_ne!(bytes.get(..32), bytes.get(32..64));
        assert_ne!(bytes, hidden(b"secret", b"another"));
        assert_ne!(bytes, hidden(b"another", b"signature"));
        veil(b"secret", b"signature", &mut bytes);
        assert_eq!(bytes, payload);
        veil(b"secret", b"signature", &mut []);
    }
}

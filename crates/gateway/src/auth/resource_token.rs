//! Resource tokens: short-lived credentials that the server itself hands out.
//!
//! ```text
//!   type=resource&ver=1&sig=<base64 of the signature>;<base64 of the contents>;
//!   contents    when the token ends (8 bytes, Unix seconds, big-endian), then what it is for
//! ```
//!
//! A token says all there is to know about it and is signed; the server keeps nothing. What it is
//! for is the door's business and opaque here. The signing key is derived from the account's first
//! read-write key, so tokens end when that key is neither primary nor secondary any more, and no
//! signature made for a token is ever good as the signature of a request.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use subtle::ConstantTimeEq;

use super::master_key::{malformed, percent_decode};
use super::{AuthError, Key, Keys};

/// What the signing key is derived with. A new format of tokens gets another one.
const DERIVATION: &[u8] = b"partita resource tokens 1";

/// How all tokens begin.
const PREFIX: &str = "type=resource&ver=1&sig=";

/// Is this authorization header a resource token, valid or not? Costs a master key's request next
/// to nothing.
pub fn is_resource_token(authorization: &str) -> bool {
    let authorization = authorization.trim_start().as_bytes();
    ["type=resource", "type%3Dresource"].iter().any(|kind| {
        let start = authorization.get(..kind.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(kind.as_bytes()))
    })
}

impl Keys {
    /// A token for these contents that ends at this time; None if the account has no read-write
    /// key.
    pub fn issue_token(&self, contents: &[u8], ends_unix_seconds: u64) -> Option<String> {
        let mut signed = ends_unix_seconds.to_be_bytes().to_vec();
        signed.extend_from_slice(contents);
        let signature = self.token_key()?.sign(&signed);
        Some(format!("{PREFIX}{signature};{};", STANDARD.encode(&signed)))
    }

    /// The contents of a token that this account signed and that has not ended.
    pub fn verify_token(
        &self,
        authorization: &str,
        now_unix_seconds: u64,
    ) -> Result<Vec<u8>, AuthError> {
        let token = percent_decode(authorization.trim())?;
        let (signature, signed) = parse(&token)?;
        let forged = || malformed("the resource token was not signed by this account");
        // Tokens outlive the rotation of the key that they were signed with.
        let keys = [&self.primary, &self.secondary].into_iter().flatten();
        let mut keys = keys.map(|key| key.derived(DERIVATION));
        if !keys.any(|key| bool::from(key.mac(&signed).ct_eq(&signature))) {
            return Err(forged());
        }
        let (ends, contents) = signed.split_first_chunk().ok_or_else(forged)?;
        let ends_unix_seconds = u64::from_be_bytes(*ends);
        if now_unix_seconds >= ends_unix_seconds {
            let ago_seconds = now_unix_seconds - ends_unix_seconds;
            return Err(AuthError::TokenEnded { ago_seconds });
        }
        Ok(contents.to_vec())
    }

    fn token_key(&self) -> Option<Key> {
        let account = self.primary.as_ref().or(self.secondary.as_ref())?;
        Some(account.derived(DERIVATION))
    }
}

fn parse(token: &str) -> Result<([u8; 32], Vec<u8>), AuthError> {
    let body = token.get(..PREFIX.len()).filter(|start| start.eq_ignore_ascii_case(PREFIX));
    let body = body.and_then(|_| token.get(PREFIX.len()..));
    let body = body.ok_or_else(|| malformed(format!("a resource token begins with {PREFIX}")))?;
    let Some((signature, contents)) = body.split_once(';') else {
        return Err(malformed("the resource token has no contents"));
    };
    let contents = contents.strip_suffix(';').unwrap_or(contents);
    let decode = |text: &str| {
        STANDARD.decode(text).map_err(|_| malformed("a part of the resource token is not base64"))
    };
    let signature = decode(signature)?
        .try_into()
        .map_err(|_| malformed("the resource token's signature has not 32 bytes"))?;
    Ok((signature, decode(contents)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000;

    fn keys(letter: &str) -> Keys {
        Keys { primary: Some(Key::parse(&letter.repeat(88)).unwrap()), ..Keys::default() }
    }

    #[test]
    fn a_token_gives_its_contents_back_until_it_ends() {
        let token = keys("A").issue_token(b"what for", NOW + 10).unwrap();
        assert!(is_resource_token(&token));
        assert_eq!(keys("A").verify_token(&token, NOW + 9).unwrap(), b"what for");
        let ended = AuthError::TokenEnded { ago_seconds: 0 };
        assert_eq!(keys("A").verify_token(&token, NOW + 10), Err(ended));
    }

    #[test]
    fn an_escaped_token_is_a_token() {
        let token = keys("A").issue_token(b"what for", NOW + 10).unwrap();
        let escaped: String = token
            .bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
                other => format!("%{other:02X}"),
            })
            .collect();
        assert!(is_resource_token(&escaped));
        assert_eq!(keys("A").verify_token(&escaped, NOW).unwrap(), b"what for");
        assert!(!is_resource_token("type=master&ver=1.0&sig=abc"));
        assert!(!is_resource_token("type%3Dmaster%26ver%3D1.0"));
        assert!(!is_resource_token("é"));
    }

    #[test]
    fn another_key_or_a_changed_letter_is_refused() {
        let token = keys("A").issue_token(b"what for", NOW + 10).unwrap();
        assert!(matches!(keys("B").verify_token(&token, NOW), Err(AuthError::Malformed(_))));
        assert!(matches!(Keys::default().verify_token(&token, NOW), Err(AuthError::Malformed(_))));
        for at in 0..token.len() - 1 {
            let mut bytes = token.clone().into_bytes();
            bytes[at] ^= 1;
            let Ok(changed) = String::from_utf8(bytes) else { continue };
            let verified = keys("A").verify_token(&changed, NOW);
            assert!(matches!(verified, Err(AuthError::Malformed(_))), "{changed}: {verified:?}");
        }
    }

    #[test]
    fn a_read_only_key_issues_no_tokens() {
        let keys = Keys {
            primary_readonly: Some(Key::parse(&"A".repeat(88)).unwrap()),
            ..Keys::default()
        };
        assert_eq!(keys.issue_token(b"", NOW), None);
    }
}

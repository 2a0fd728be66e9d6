//! The account key's signature: HMAC-SHA256 over verb, resource and date.
//!
//! A client sends `authorization: type=master&ver=1.0&sig=<base64>`, usually percent-encoded, and
//! signs five lines, each ended by a line feed:
//!
//! ```text
//!   verb            lower case
//!   resource type   lower case: docs, colls, …
//!   resource link   as it is, percent-decoded
//!   x-ms-date       lower case
//!   date            lower case, only if there is no x-ms-date
//! ```
//!
//! The signature is checked before the date: who cannot sign learns nothing about our clock. A
//! key's HMAC state is prepared once, so that a check hashes the message and nothing else; the
//! comparison takes the same time wherever the first difference is.

use std::borrow::Cow;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::{AuthError, Principal, parse_http_date, usual};

/// An account key, ready to check signatures.
#[derive(Clone)]
pub struct Key(Hmac<Sha256>);

/// The key of Microsoft's emulators, which is printed in their documentation.
pub const WELL_KNOWN_KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

/// Why a text is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("the key is empty")]
    Empty,
    #[error(
        "the key is not base64 (standard alphabet, with padding); \
         `openssl rand -base64 64 | tr -d '\\n'` makes one"
    )]
    NotBase64,
    #[error(
        "the key has {bytes} bytes after base64 decoding, at least {bytes_min} are needed; \
         `openssl rand -base64 64 | tr -d '\\n'` makes one"
    )]
    TooShort { bytes: usize, bytes_min: usize },
}

impl Key {
    /// Half of SHA-256's output: below that, guessing the key becomes thinkable.
    const BYTES_MIN: usize = 16;

    /// Reads a key as accounts show it: base64. Surrounding white space is ignored, since keys are
    /// often read from files.
    pub fn parse(text: &str) -> Result<Key, KeyError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(KeyError::Empty);
        }
        let bytes = STANDARD.decode(text).map_err(|_| KeyError::NotBase64)?;
        if bytes.len() < Key::BYTES_MIN {
            return Err(KeyError::TooShort { bytes: bytes.len(), bytes_min: Key::BYTES_MIN });
        }
        let state = Hmac::new_from_slice(&bytes).expect("HMAC takes keys of any length");
        Ok(Key(state))
    }

    /// The base64 signature of a message.
    pub fn sign(&self, message: &[u8]) -> String {
        STANDARD.encode(self.mac(message))
    }

    /// A key for another purpose that says nothing about this one.
    pub(super) fn derived(&self, purpose: &[u8]) -> Key {
        let state = Hmac::new_from_slice(&self.mac(purpose));
        Key(state.expect("HMAC takes keys of any length"))
    }

    pub(super) fn mac(&self, message: &[u8]) -> [u8; 32] {
        let mut state = self.0.clone();
        state.update(message);
        state.finalize().into_bytes().into()
    }
}

/// Says that there is a key, never which.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// The keys of an account.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    pub primary: Option<Key>,
    pub secondary: Option<Key>,
    pub primary_readonly: Option<Key>,
    pub secondary_readonly: Option<Key>,
}

/// What a request's signature must cover.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    pub verb: &'a str,
    pub resource_type: &'a str,
    /// The resource's link. Clients differ in how they write some links: any of these may have
    /// been signed.
    pub links: &'a [&'a str],
    /// The header `x-ms-date`, or empty.
    pub date: &'a str,
    /// The header `date`, or empty.
    pub http_date: &'a str,
}

impl Keys {
    /// Finds the key that signed the request.
    pub fn verify(
        &self,
        authorization: Option<&str>,
        signed: &Signed<'_>,
        now_unix_seconds: u64,
        skew_seconds_max: u64,
    ) -> Result<Principal, AuthError> {
        let signature = parse_authorization(authorization.ok_or(AuthError::Missing)?)?;
        let Some((principal, date)) = self.find_signer(&signature, signed) else {
            let link = signed.links.first().copied().unwrap_or("");
            return Err(AuthError::Mismatch { string_to_sign: string_to_sign(signed, link) });
        };
        let seconds = parse_http_date(date).ok_or_else(|| AuthError::BadDate(date.to_string()))?;
        let apart_seconds = seconds.abs_diff(now_unix_seconds);
        if apart_seconds > skew_seconds_max {
            let date = date.to_string();
            return Err(AuthError::Expired { date, apart_seconds, skew_seconds_max });
        }
        Ok(principal)
    }

    /// The key that made this signature over any of the allowed messages, and the date it covers.
    fn find_signer<'a>(
        &self,
        signature: &[u8; 32],
        signed: &Signed<'a>,
    ) -> Option<(Principal, &'a str)> {
        // Clients behind a proxy that adds `date` sign without it, very old ones sign both.
        let (date, fifth_lines) = match (signed.date, signed.http_date) {
            ("", date) => (date, [Some(date), None]),
            (date, "") => (date, [Some(""), None]),
            (date, both) => (date, [Some(""), Some(both)]),
        };
        for link in signed.links {
            for fifth in fifth_lines.into_iter().flatten() {
                let message = message(signed, link, fifth);
                if let Some(principal) = self.signer(signature, message.as_bytes()) {
                    return Some((principal, date));
                }
            }
        }
        None
    }

    fn signer(&self, signature: &[u8; 32], message: &[u8]) -> Option<Principal> {
        let keys = [
            (&self.primary, Principal::ReadWrite),
            (&self.secondary, Principal::ReadWrite),
            (&self.primary_readonly, Principal::ReadOnly),
            (&self.secondary_readonly, Principal::ReadOnly),
        ];
        for (key, principal) in keys {
            let Some(key) = key else { continue };
            if bool::from(key.mac(message).ct_eq(signature)) {
                return Some(principal);
            }
        }
        None
    }
}

/// The message a client must sign for this request, with one of its links.
pub fn string_to_sign(signed: &Signed<'_>, link: &str) -> String {
    let fifth = if signed.date.is_empty() { signed.http_date } else { "" };
    message(signed, link, fifth)
}

fn message(signed: &Signed<'_>, link: &str, fifth: &str) -> String {
    let lines = [
        (signed.verb, Case::Lower),
        (signed.resource_type, Case::Lower),
        (link, Case::Kept),
        (signed.date, Case::Lower),
        (fifth, Case::Lower),
    ];
    let bytes: usize = lines.iter().map(|(text, _)| text.len() + 1).sum();
    let mut message = String::with_capacity(bytes);
    for (text, case) in lines {
        let start = message.len();
        message.push_str(text);
        if case == Case::Lower
            && let Some(line) = message.get_mut(start..)
        {
            line.make_ascii_lowercase();
        }
        message.push('\n');
    }
    message
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Lower,
    Kept,
}

/// The signature in an authorization header.
fn parse_authorization(header: &str) -> Result<[u8; 32], AuthError> {
    if let Some(signature) = usual::signature(header.as_bytes()) {
        return Ok(signature);
    }
    let token = percent_decode(header.trim())?;
    let (mut kind, mut version, mut signature) = (None, None, None);
    // At most three parts, each split at its first `=`: base64 padding is made of `=` too.
    for part in token.splitn(3, '&') {
        match part.split_once('=') {
            Some(("type", value)) => kind = Some(value),
            Some(("ver", value)) => version = Some(value),
            Some(("sig", value)) => signature = Some(value),
            Some((name, _)) => return Err(malformed(format!("unknown part {:?}", word(name)))),
            None => return Err(malformed(format!("{:?} has no value", word(part)))),
        }
    }
    match kind {
        Some("master") => {}
        Some(other) => return Err(AuthError::UnknownKind(word(other).to_string())),
        None => return Err(malformed("it has no type=")),
    }
    match version {
        Some("1.0") => {}
        Some(other) => return Err(malformed(format!("ver={:?} is not 1.0", word(other)))),
        None => return Err(malformed("it has no ver=")),
    }
    let signature = signature.ok_or_else(|| malformed("it has no sig="))?;
    let bytes = STANDARD.decode(signature).map_err(|_| malformed("sig is not base64"))?;
    let length = bytes.len();
    bytes.try_into().map_err(|_| malformed(format!("sig has {length} bytes, not 32")))
}

pub(super) fn malformed(reason: impl Into<String>) -> AuthError {
    AuthError::Malformed(reason.into())
}

/// The longest text of a client's that a message repeats.
const WORD_CHARS_MAX: usize = 16;

/// A client's word, to recognise it in a message. What is longer may be a key or a token in the
/// wrong place, and is not repeated.
fn word(text: &str) -> &str {
    if text.chars().count() <= WORD_CHARS_MAX { text } else { "…" }
}

/// Undoes one percent-encoding. A `+` stays a `+`: it is a digit of base64 here, not a space.
pub(super) fn percent_decode(text: &str) -> Result<Cow<'_, str>, AuthError> {
    if !text.contains('%') {
        return Ok(Cow::Borrowed(text));
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let digits = (bytes.next().and_then(hex_digit), bytes.next().and_then(hex_digit));
        let (Some(high), Some(low)) = digits else {
            return Err(malformed("a % is not followed by two hex digits"));
        };
        decoded.push(high * 16 + low);
    }
    String::from_utf8(decoded).map(Cow::Owned).map_err(|_| malformed("it is not UTF-8"))
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

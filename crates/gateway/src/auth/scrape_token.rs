//! The token of those who scrape metrics: a text that is sent as `authorization: Bearer <text>`.
//!
//! Scrapers cannot sign requests, and a key of the account is more than they need: this opens
//! nothing but the figures.

use std::fmt;

use subtle::ConstantTimeEq;

/// A token, ready to be compared.
#[derive(Clone)]
pub struct ScrapeToken(String);

/// Why a text is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScrapeTokenError {
    #[error(
        "the token has {chars} characters, at least {chars_min} are needed; `openssl rand -hex 32` \
         makes one"
    )]
    TooShort { chars: usize, chars_min: usize },
    #[error(
        "the token may have visible ASCII characters only, on one line; `openssl rand -hex 32` \
         makes one"
    )]
    NotVisible,
}

impl ScrapeToken {
    /// Of hexadecimal digits these are 64 bits: below that, guessing becomes thinkable.
    const CHARS_MIN: usize = 16;

    /// Reads a token from a file's text. White space around it is ignored.
    pub fn parse(text: &str) -> Result<ScrapeToken, ScrapeTokenError> {
        let text = text.trim();
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(ScrapeTokenError::NotVisible);
        }
        if text.len() < ScrapeToken::CHARS_MIN {
            let (chars, chars_min) = (text.len(), ScrapeToken::CHARS_MIN);
            return Err(ScrapeTokenError::TooShort { chars, chars_min });
        }
        Ok(ScrapeToken(text.to_owned()))
    }

    /// Is it this one? The time that takes tells how long the token is, and nothing else of it.
    pub fn is(&self, shown: &str) -> bool {
        self.0.as_bytes().ct_eq(shown.as_bytes()).into()
    }
}

/// What an authorization header shows, if it shows a token of that kind.
pub fn shown_token(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Says that there is a token, never which.
impl fmt::Debug for ScrapeToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScrapeToken(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_only_itself() {
        let token = ScrapeToken::parse(" 0123456789abcdef\n").unwrap();
        assert!(token.is("0123456789abcdef"));
        for other in ["", "0123456789abcde", "0123456789abcdef0", "0123456789abcdeF"] {
            assert!(!token.is(other), "{other}");
        }
        assert_eq!(format!("{token:?}"), "ScrapeToken(…)");
    }

    #[test]
    fn what_can_be_guessed_or_not_be_sent_is_refused() {
        let too_short = ScrapeTokenError::TooShort { chars: 15, chars_min: 16 };
        assert_eq!(ScrapeToken::parse("0123456789abcde").unwrap_err(), too_short);
        for text in ["0123456789 abcdef", "0123456789\nabcdef", "0123456789abcdefä"] {
            assert_eq!(ScrapeToken::parse(text).unwrap_err(), ScrapeTokenError::NotVisible);
        }
    }

    #[test]
    fn only_the_scheme_bearer_shows_one() {
        assert_eq!(shown_token("Bearer abc"), Some("abc"));
        assert_eq!(shown_token(" bearer  abc "), Some("abc"));
        for other in ["", "Bearer", "Basic abc", "type=master&ver=1.0&sig=a b"] {
            assert_eq!(shown_token(other), None, "{other}");
        }
    }
}

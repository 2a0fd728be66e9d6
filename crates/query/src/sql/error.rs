//! What can be wrong with a query text, and how it is told.
//!
//! The service answers a compile error with a JSON text inside the error message:
//! `{"errors":[{"severity":"Error","location":{"start":1,"end":9},"code":"SC1001","message":…}]}`.
//! Clients print it and tools parse it, so it is reproduced exactly. The location is a half-open
//! range of UTF-16 units. A few complaints of the service carry neither code nor place; they have
//! the shorter form `{"Errors":["…"]}`.

use partita_model::{Error, json};

/// A half-open range of byte offsets in the query text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Span {
        Span { start, end }
    }
}

/// A complaint about a query text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SqlError {
    /// The service has a code and a place for it.
    Coded { code: &'static str, span: Span, message: String },
    /// The service says it in words only.
    Plain(String),
    /// Part of the language, not part of Partita.
    Unsupported(String),
}

pub(crate) type SqlResult<T> = Result<T, SqlError>;

impl SqlError {
    pub(crate) fn near(text: &str, span: Span) -> SqlError {
        let token = text.get(span.start..span.end).unwrap_or_default();
        let message = format!("Syntax error, incorrect syntax near '{token}'.");
        SqlError::Coded { code: "SC1001", span, message }
    }

    pub(crate) fn end_of_text(text: &str) -> SqlError {
        let message = "Syntax error, unexpected end-of-file.".to_owned();
        SqlError::Coded { code: "SC1002", span: Span::new(text.len(), text.len()), message }
    }

    pub(crate) fn invalid_token(text: &str, span: Span) -> SqlError {
        let token = text.get(span.start..span.end).unwrap_or_default();
        let message = format!("Syntax error, invalid token '{token}'.");
        SqlError::Coded { code: "SC1010", span, message }
    }

    pub(crate) fn invalid_string(text: &str, span: Span) -> SqlError {
        let token = text.get(span.start..span.end).unwrap_or_default();
        let message = format!("Syntax error, invalid string literal token '{token}'.");
        SqlError::Coded { code: "SC1012", span, message }
    }

    pub(crate) fn unresolved(name: &str, span: Span) -> SqlError {
        let message = format!("Identifier '{name}' could not be resolved.");
        SqlError::Coded { code: "SC2001", span, message }
    }

    /// `feature` names what was written, as in "JOIN" or "the function SUBSTRING".
    pub(crate) fn unsupported(feature: impl Into<String>) -> SqlError {
        SqlError::Unsupported(feature.into())
    }

    /// The error as the rest of the database knows it; `text` is the query it is about.
    pub(crate) fn into_error(self, text: &str) -> Error {
        match self {
            SqlError::Coded { code, span, message } => {
                let (start, end) = (utf16_offset(text, span.start), utf16_offset(text, span.end));
                let mut body = format!(
                    r#"{{"errors":[{{"severity":"Error","location":{{"start":{start},"end":{end}}},"code":"{code}","message":"#
                );
                json::write_string(&mut body, &message);
                body.push_str("}]}");
                Error::bad_request(body)
            }
            SqlError::Plain(message) => {
                let mut body = String::from(r#"{"Errors":["#);
                json::write_string(&mut body, &message);
                body.push_str("]}");
                Error::bad_request(body)
            }
            SqlError::Unsupported(feature) => {
                Error::unsupported(format!("the query uses {feature}, which is not supported here"))
            }
        }
    }
}

fn utf16_offset(text: &str, byte: usize) -> usize {
    let before = text.char_indices().take_while(|(at, _)| *at < byte);
    before.map(|(_, character)| character.len_utf16()).sum()
}

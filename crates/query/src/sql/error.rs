//! What can be wrong with a query text, and how it is told.
//!
//! The service answers a compile error with a JSON text inside the error message:
//! `{"errors":[{"severity":"Error","location":{"start":1,"end":9},"code":"SC1001","message":…}]}`.
//! Clients print it and tools parse it, so it is reproduced exactly. The location is a half-open
//! range of UTF-16 units. Several complaints about one text are told together. One has a number for
//! its code and no place, and a few have neither code nor place: these take the shorter form
//! `{"Errors":["…"]}`.

use partita_model::{Error, json};

/// A half-open range of byte offsets in the query text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// The service has a number for it, and does not say where.
    Numbered { code: u32, message: String },
    /// Several coded or numbered complaints.
    Many(Vec<SqlError>),
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

    /// Complaints that were collected while looking at one query.
    ///
    /// Those with a code are told together; those without are told one at a time.
    pub(crate) fn collected(mut complaints: Vec<SqlError>) -> SqlResult<()> {
        let coded = |complaint: &SqlError| {
            matches!(complaint, SqlError::Coded { .. } | SqlError::Numbered { .. })
        };
        if complaints.iter().any(coded) {
            complaints.retain(coded);
        } else {
            complaints.truncate(1);
        }
        match complaints.len() {
            0 | 1 => complaints.pop().map_or(Ok(()), Err),
            _ => Err(SqlError::Many(complaints)),
        }
    }

    /// The error as the rest of the database knows it; `text` is the query it is about.
    pub(crate) fn into_error(self, text: &str) -> Error {
        let body = match self {
            SqlError::Coded { .. } | SqlError::Numbered { .. } => {
                format!(r#"{{"errors":[{}]}}"#, self.entry(text))
            }
            SqlError::Many(complaints) => {
                let entries: Vec<String> = complaints.iter().map(|one| one.entry(text)).collect();
                format!(r#"{{"errors":[{}]}}"#, entries.join(","))
            }
            SqlError::Plain(message) => format!(r#"{{"Errors":[{}]}}"#, quoted(&message)),
            SqlError::Unsupported(feature) => {
                let message = format!("the query uses {feature}, which is not supported here");
                return Error::unsupported(message);
            }
        };
        Error::bad_request(body)
    }

    /// The complaint as one object of the service's list of errors.
    fn entry(&self, text: &str) -> String {
        match self {
            SqlError::Coded { code, span, message } => {
                let (start, end) = (utf16_offset(text, span.start), utf16_offset(text, span.end));
                let location = format!(r#""location":{{"start":{start},"end":{end}}}"#);
                let message = quoted(message);
                format!(r#"{{"severity":"Error",{location},"code":"{code}","message":{message}}}"#)
            }
            SqlError::Numbered { code, message } => {
                let message = quoted(message);
                format!(r#"{{"severity":"Error","code":{code},"message":{message}}}"#)
            }
            SqlError::Plain(message) | SqlError::Unsupported(message) => {
                format!(r#"{{"severity":"Error","message":{}}}"#, quoted(message))
            }
            SqlError::Many(complaints) => {
                let entries: Vec<String> = complaints.iter().map(|one| one.entry(text)).collect();
                entries.join(",")
            }
        }
    }
}

fn quoted(message: &str) -> String {
    let mut text = String::new();
    json::write_string(&mut text, message);
    text
}

fn utf16_offset(text: &str, byte: usize) -> usize {
    let before = text.char_indices().take_while(|(at, _)| *at < byte);
    before.map(|(_, character)| character.len_utf16()).sum()
}

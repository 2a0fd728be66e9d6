//! JSON pointers (RFC 6901): `/a/b~1c/0`.
//!
//! In a token `~1` stands for `/` and `~0` for `~`. Whether `0` is an index or a name depends on
//! what is there, so a pointer only keeps the tokens. The empty pointer, which names the whole
//! document, is refused: nothing may replace a whole item by a patch.

/// A place in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer {
    tokens: Vec<String>,
    text: String,
}

impl Pointer {
    /// Reads a pointer; the error tells what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Pointer, String> {
        let Some(rest) = text.strip_prefix('/') else {
            return Err(format!("'{text}' is no path: it must start with '/'"));
        };
        let tokens = rest.split('/').map(unescape).collect::<Result<_, _>>()?;
        Ok(Pointer { tokens, text: text.to_owned() })
    }

    /// The names and indexes to follow, at least one.
    pub fn tokens(&self) -> &[String] {
        &self.tokens
    }

    /// The pointer as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Does this pointer lead to somewhere inside the other's target?
    pub(super) fn is_below(&self, other: &Pointer) -> bool {
        self.tokens.len() > other.tokens.len() && self.tokens.starts_with(&other.tokens)
    }
}

fn unescape(token: &str) -> Result<String, String> {
    let is_bad = token.split('~').skip(1).any(|after| !after.starts_with(['0', '1']));
    if is_bad {
        return Err(format!("'~' in '{token}' must be followed by 0 or 1: write '~' as '~0'"));
    }
    // In this order: `~01` is the name `~1`, not a slash.
    Ok(token.replace("~1", "/").replace("~0", "~"))
}

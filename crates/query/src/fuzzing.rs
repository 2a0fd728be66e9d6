//! What the fuzz targets do with their input. Compiled for fuzzing only: the syntax tree is not
//! public, and its laws cannot be seen from outside.

use crate::sql::check::check;
use crate::sql::parser::{parse_condition, parse_query};

/// Parses and checks a text.
pub fn parse(text: &str) {
    let _ = parse_condition(text);
    let Ok(query) = parse_query(text) else { return };
    let _ = check(&query, text, &[]).map_err(|error| error.into_error(text));
}

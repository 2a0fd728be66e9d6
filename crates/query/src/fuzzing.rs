//! What the fuzz targets do with their input. Compiled for fuzzing only: the syntax tree is not
//! public, and its laws cannot be seen from outside.

use crate::sql::check::check;
use crate::sql::error::SqlError;
use crate::sql::parser::{parse_condition, parse_query};
use crate::sql::print;

/// Parses and checks a text. What is printed of it must be a query again, one that prints the same
/// and is judged the same, unless the brackets of the print make it too deep.
pub fn parse(text: &str) {
    let _ = parse_condition(text);
    let Ok(query) = parse_query(text) else { return };
    let judged = check(&query, text, &[]).map_err(|error| error.into_error(text));
    let printed = print::query(&query);
    let again = match parse_query(&printed) {
        Ok(again) => again,
        Err(SqlError::Plain(deep)) if deep.contains("levels deep") => return,
        Err(error) => panic!("{printed}\nis no query: {}", error.into_error(&printed)),
    };
    assert_eq!(print::query(&again), printed);
    let judged_again = check(&again, &printed, &[]).map_err(|error| error.into_error(&printed));
    assert_eq!(judged_again.is_ok(), judged.is_ok(), "{printed}");
}

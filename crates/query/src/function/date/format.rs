//! Formats of moments: runs of letters stand for numbers, a backslash takes the next character as
//! it is, and everything else stands for itself.
//!
//! The letters are those of .NET. Of its letters that stand for words (names of days and months,
//! eras, halves of the day, time zones) nobody says what the service makes: they are refused.

use super::calendar::Fields;
use partita_model::{Error, Result};
use std::fmt::Write as _;

/// Letters that mean something in .NET, but not here.
const REFUSED: [char; 7] = ['g', 'K', 't', 'z', '\'', '"', '%'];

/// The moment as the format asks.
pub(super) fn format(fields: &Fields, format: &str) -> Result<String> {
    let mut out = String::with_capacity(format.len());
    let mut rest = format.chars().peekable();
    while let Some(letter) = rest.next() {
        match letter {
            '\\' => out.push(rest.next().unwrap_or('\\')),
            'y' | 'M' | 'd' | 'H' | 'h' | 'm' | 's' | 'f' | 'F' => {
                let mut run = 1;
                while rest.next_if_eq(&letter).is_some() {
                    run += 1;
                }
                write_number(&mut out, fields, letter, run)?;
            }
            letter if REFUSED.contains(&letter) => return Err(refused(letter, 1)),
            literal => out.push(literal),
        }
    }
    Ok(out)
}

fn write_number(out: &mut String, fields: &Fields, letter: char, run: usize) -> Result<()> {
    let (number, longest) = match letter {
        'y' if run <= 2 => (fields.year % 100, 2),
        'y' => (fields.year, 4),
        'M' => (fields.month, 2),
        'd' => (fields.day, 2),
        'H' => (fields.hour, 2),
        'h' => ((fields.hour + 11) % 12 + 1, 2),
        'm' => (fields.minute, 2),
        's' => (fields.second, 2),
        _ => return write_fraction(out, fields.fraction, letter, run),
    };
    if run > longest {
        return Err(refused(letter, run));
    }
    let written = write!(out, "{number:0run$}");
    written.map_err(|_| Error::internal("writing to a string failed"))
}

/// So many digits of the fraction; `F` leaves out the zeros at the end.
fn write_fraction(out: &mut String, fraction: i64, letter: char, run: usize) -> Result<()> {
    let digits = format!("{fraction:07}");
    let Some(digits) = digits.get(..run) else { return Err(refused(letter, run)) };
    out.push_str(if letter == 'F' { digits.trim_end_matches('0') } else { digits });
    Ok(())
}

fn refused(letter: char, run: usize) -> Error {
    let specifier = letter.to_string().repeat(run.min(8));
    Error::unsupported(format!(
        "Partita does not know the specifier '{specifier}' of the function DATETIMEFORMAT. \
         A letter that is meant as it is needs a backslash before it."
    ))
}

#[cfg(test)]
mod tests {
    use crate::function::testing::{call, expect};

    #[test]
    fn letters_stand_for_numbers_and_backslashes_for_letters() {
        expect(&[
            (r#"DATETIMEFORMAT "2024-10-10 14:40:20" "yyyyMMdd""#, r#""20241010""#),
            (
                r#"DATETIMEFORMAT "2024-10-10 14:40:20" "yyyy-MM-dd [HH:mm:ss]""#,
                r#""2024-10-10 [14:40:20]""#,
            ),
            (
                r#"DATETIMEFORMAT "2024-10-10 14:40:20" "To\\da\\y i\\s: ss.fff""#,
                r#""Today is: 20.000""#,
            ),
            (r#"DATETIMEFORMAT "2024-10-10 14:40:20" "ss.FFF""#, r#""20.""#),
            (r#"DATETIMEFORMAT "2024-10-10 14:40:20.1250" "FFFFFFF fff f""#, r#""125 125 1""#),
            (r#"DATETIMEFORMAT "2024-01-02 00:04:05" "yy M d H h m s""#, r#""24 1 2 0 12 4 5""#),
            (r#"DATETIMEFORMAT "2024-01-02" "é\\""#, r#""é\\""#),
            (r#"DATETIMEFORMAT "2024-01-02" """#, r#""""#),
            (r#"DATETIMEFORMAT "2024-01-0" "yyyy""#, "undefined"),
            (r#"DATETIMEFORMAT "2024-01-02" 1"#, "undefined"),
        ]);
    }

    #[test]
    fn letters_without_a_known_meaning_are_refused_by_name() {
        for (format, specifier) in
            [("MMM", "'MMM'"), ("ffffffff", "'ffffffff'"), ("tt", "'t'"), ("'x'", "'''")]
        {
            let found = call(&format!(r#"DATETIMEFORMAT "2024-01-02" "{format}""#));
            assert!(found.contains(specifier), "{found}");
        }
    }
}

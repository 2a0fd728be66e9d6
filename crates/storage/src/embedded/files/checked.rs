//! Small text files with a checksum, so that a changed or cut one is never taken for a whole one.
//!
//! ```text
//! partita store
//! lanes = 2
//! checksum = 0123456789abcdef
//! ```
//!
//! The last line has the checksum of everything before it. Whoever edits such a file by hand is
//! told so at the next start: what is written there is true of the files beside it and cannot be
//! chosen.

use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use crate::contract::Result;
use crate::contract::StorageError;

const NAME: &str = "checksum = ";

/// A text with its checksum in a last line.
pub(in crate::embedded) fn with_checksum(mut text: String) -> String {
    let sum = xxh3_64(text.as_bytes());
    text.push_str(&format!("{NAME}{sum:016x}\n"));
    text
}

/// The text without its last line, if that is right.
pub(in crate::embedded) fn verified<'a>(text: &'a str, path: &Path) -> Result<&'a str> {
    let end = text.rfind(NAME).filter(|at| text[..*at].ends_with('\n'));
    let body = end.and_then(|at| text.get(..at));
    body.filter(|body| with_checksum((*body).to_owned()) == text).ok_or_else(|| {
        StorageError::Corrupt(format!(
            "{} is not as it was written: its checksum is wrong. Restore it from a backup; it \
             cannot be edited",
            path.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_change_of_a_text_is_noticed() {
        let path = Path::new("file");
        let text = with_checksum("partita store\nlanes = 2\n".to_owned());
        assert_eq!(verified(&text, path), Ok("partita store\nlanes = 2\n"));
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let changed = String::from_utf8(bytes).unwrap();
            assert!(verified(&changed, path).is_err(), "byte {at}");
            assert!(verified(&text[..at], path).is_err(), "cut at {at}");
        }
        assert!(verified(&format!("{text}\n"), path).is_err());
    }
}

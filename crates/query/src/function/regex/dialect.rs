//! Regular expressions as Perl, JavaScript and .NET write them, rewritten for our engine.
//!
//! The engines agree on nearly everything. Where ours gives a meaning to what the others take as it
//! stands, a backslash is put before it: a brace that counts nothing, brackets and doubled signs
//! inside a set, blanks inside a set when blanks are ignored. `\<` and `\>` are plain signs, and
//! `\Z` is the end. Look-around, back-references, and groups that never give back are recognised
//! and refused by name: an engine of linear time has none of them.

use partita_model::{Error, Result};

/// The pattern for our engine.
pub(super) fn translated(pattern: &str, ignores_blanks: bool) -> Result<String> {
    let mut translation = Translation {
        rest: pattern,
        out: String::with_capacity(pattern.len() + 8),
        ignores_blanks,
    };
    while let Some(next) = translation.take() {
        match next {
            '\\' => translation.escape(false)?,
            '[' => translation.set()?,
            '(' => translation.group()?,
            '{' if !counts(translation.rest) => translation.out.push_str(r"\{"),
            '#' if ignores_blanks => translation.comment(),
            other => translation.out.push(other),
        }
    }
    Ok(translation.out)
}

struct Translation<'p> {
    rest: &'p str,
    out: String,
    ignores_blanks: bool,
}

impl Translation<'_> {
    fn take(&mut self) -> Option<char> {
        let mut characters = self.rest.chars();
        let next = characters.next();
        self.rest = characters.as_str();
        next
    }

    fn take_if(&mut self, prefix: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(prefix) else { return false };
        self.rest = rest;
        self.out.push_str(prefix);
        true
    }

    /// Behind a backslash.
    fn escape(&mut self, is_in_set: bool) -> Result<()> {
        match self.take() {
            Some('1'..='9') | Some('k') if !is_in_set => return Err(refused("back-reference")),
            Some(plain @ ('<' | '>')) => self.out.push(plain),
            Some('Z') if !is_in_set => self.out.push_str(r"\z"),
            Some(other) => {
                self.out.push('\\');
                self.out.push(other);
            }
            None => self.out.push('\\'),
        }
        Ok(())
    }

    /// Behind a round bracket: kinds of groups that our engine does not have.
    fn group(&mut self) -> Result<()> {
        for (prefix, what) in [
            ("?=", "look-ahead"),
            ("?!", "look-ahead"),
            ("?<=", "look-behind"),
            ("?<!", "look-behind"),
            ("?>", "atomic group"),
            ("?(", "conditional group"),
        ] {
            if self.rest.starts_with(prefix) {
                return Err(refused(what));
            }
        }
        self.out.push('(');
        Ok(())
    }

    /// Behind an opening square bracket.
    fn set(&mut self) -> Result<()> {
        self.out.push('[');
        self.take_if("^");
        // A closing bracket that comes first is a member.
        if self.rest.starts_with(']') {
            self.take();
            self.out.push_str(r"\]");
        }
        while let Some(next) = self.take() {
            match next {
                ']' => {
                    self.out.push(']');
                    return Ok(());
                }
                '\\' => self.escape(true)?,
                '[' if self.rest.starts_with(':') => self.named_class(),
                '[' | '&' | '~' => {
                    self.out.push('\\');
                    self.out.push(next);
                }
                '-' if self.rest.starts_with('-') => self.out.push_str(r"\-"),
                blank if self.ignores_blanks && (blank.is_whitespace() || blank == '#') => {
                    self.out.push('\\');
                    self.out.push(blank);
                }
                other => self.out.push(other),
            }
        }
        Ok(())
    }

    /// `[:alpha:]`, inside a set.
    fn named_class(&mut self) {
        match self.rest.find(":]") {
            Some(end) => {
                let (class, rest) = self.rest.split_at(end + 2);
                self.rest = rest;
                self.out.push('[');
                self.out.push_str(class);
            }
            None => self.out.push_str(r"\["),
        }
    }

    /// Up to the end of the line nothing counts.
    fn comment(&mut self) {
        self.rest = self.rest.split_once('\n').map_or("", |(_, rest)| rest);
    }
}

/// Does `n}`, `n,}` or `n,m}` follow?
fn counts(text: &str) -> bool {
    let Some((inside, _)) = text.split_once('}') else { return false };
    let (least, most) = inside.split_once(',').unwrap_or((inside, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !least.is_empty() && is_number(least) && is_number(most)
}

fn refused(what: &str) -> Error {
    Error::bad_request(format!(
        "Regular expressions are matched in linear time and cannot have a {what}."
    ))
}

#[cfg(test)]
mod tests {
    use super::translated;
    use crate::function::regex::compile;

    #[test]
    fn what_others_take_as_it_stands_gets_a_backslash() {
        for (pattern, ignores_blanks, expected) in [
            ("a{1}b{2,}c{2,3}", false, "a{1}b{2,}c{2,3}"),
            ("a{x}{,3}{", false, r"a\{x}\{,3}\{"),
            ("[a[b]&&~]", false, r"[a\[b]&&~]"),
            ("[&&]", false, r"[\&\&]"),
            ("[[:alpha:]_[]", false, r"[[:alpha:]_\[]"),
            ("[]a]", false, r"[\]a]"),
            ("[^]a]", false, r"[^\]a]"),
            ("[+--]", false, r"[+\--]"),
            (r"\<a\>\/", false, r"<a>\/"),
            (r"a\Z", false, r"a\z"),
            ("[a b#] # no [\nc", true, "[a\\ b\\#] c"),
            ("[a b#]", false, "[a b#]"),
        ] {
            let found = translated(pattern, ignores_blanks).unwrap();
            assert_eq!(found, expected, "{pattern}");
        }
    }

    #[test]
    fn translated_patterns_match_what_they_say() {
        for (pattern, modifiers, text, expected) in [
            ("{x}", "", "a{x}b", true),
            ("^[[]$", "", "[", true),
            ("^[a&&b]$", "", "&", true),
            ("^[]]$", "", "]", true),
            ("^[ ]$", "x", " ", true),
            (r"^\<$", "", "<", true),
            (r"^[\]]$", "", "]", true),
            (r"^\d{3}-\d{4}$", "", "555-1234", true),
            (r"^(?<year>\d+)$", "", "2020", true),
        ] {
            let regex = compile(pattern, modifiers).unwrap();
            assert_eq!(regex.is_match(text), expected, "{pattern} on {text}");
        }
    }
}

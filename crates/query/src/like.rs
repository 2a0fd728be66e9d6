//! `LIKE` patterns: `%` any run, `_` one character, `[abc]`, `[a-f]` and `[^…]` sets.
//!
//! A pattern is matched against the whole text, case-sensitively, by the two-finger walk: on a
//! mismatch, go back to the last `%` and let it swallow one character more. No recursion, and never
//! more steps than the lengths of text and pattern multiplied.

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pattern(Vec<Piece>);

#[derive(Clone, Debug, PartialEq)]
enum Piece {
    AnyRun,
    AnyOne,
    One(char),
    Set { negated: bool, ranges: Vec<(char, char)> },
}

/// What follows the fixed beginning of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Nothing: the pattern is a text.
    Nothing,
    /// `%` and no more.
    Anything,
    /// Something to be matched.
    Pattern,
}

impl Pattern {
    /// Every text is a pattern: a bracket that never closes stands for itself.
    pub(crate) fn new(text: &str, escape: Option<char>) -> Pattern {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            rest = rest.get(next.len_utf8()..).unwrap_or_default();
            pieces.push(match next {
                _ if Some(next) == escape => match rest.chars().next() {
                    Some(literal) => {
                        rest = rest.get(literal.len_utf8()..).unwrap_or_default();
                        Piece::One(literal)
                    }
                    None => Piece::One(next),
                },
                '%' => Piece::AnyRun,
                '_' => Piece::AnyOne,
                '[' => match set(rest) {
                    Some((piece, after)) => {
                        rest = after;
                        piece
                    }
                    None => Piece::One('['),
                },
                literal => Piece::One(literal),
            });
        }
        Pattern(pieces)
    }

    /// The text with which every match begins, and what follows it.
    pub(crate) fn beginning(&self) -> (String, Rest) {
        let literal = |piece: &Piece| match piece {
            Piece::One(character) => Some(*character),
            Piece::AnyRun | Piece::AnyOne | Piece::Set { .. } => None,
        };
        let text: String = self.0.iter().map_while(literal).collect();
        let rest = match self.0.get(text.chars().count()..) {
            None | Some([]) => Rest::Nothing,
            Some([Piece::AnyRun]) => Rest::Anything,
            Some(_) => Rest::Pattern,
        };
        (text, rest)
    }

    pub(crate) fn matches(&self, text: &str) -> bool {
        let mut pieces = self.0.iter();
        let mut characters = text.chars();
        // Where to go on after a mismatch: behind the last `%`, one character later each time.
        let mut retry = None;
        loop {
            let before = characters.clone();
            let fits = match (pieces.next(), characters.next()) {
                (Some(Piece::AnyRun), _) => {
                    characters = before;
                    retry = Some((pieces.clone(), characters.clone()));
                    continue;
                }
                (Some(piece), Some(character)) => piece.accepts(character),
                (None, None) => return true,
                (Some(_), None) => return false,
                (None, Some(_)) => false,
            };
            if fits {
                continue;
            }
            let Some((after_run, mut later)) = retry.take() else { return false };
            if later.next().is_none() {
                return false;
            }
            (pieces, characters) = (after_run.clone(), later.clone());
            retry = Some((after_run, later));
        }
    }
}

impl Piece {
    fn accepts(&self, character: char) -> bool {
        match self {
            Piece::AnyRun | Piece::AnyOne => true,
            Piece::One(literal) => *literal == character,
            Piece::Set { negated, ranges } => {
                let inside = ranges.iter().any(|(low, high)| (*low..=*high).contains(&character));
                inside != *negated
            }
        }
    }
}

/// The set that starts here, just after its `[`, and the text behind it.
fn set(text: &str) -> Option<(Piece, &str)> {
    let (inside, after) = text.split_once(']')?;
    let (negated, members) = match inside.strip_prefix('^') {
        Some(members) => (true, members),
        None => (false, inside),
    };
    let mut ranges = Vec::new();
    let mut rest = members.chars().peekable();
    while let Some(low) = rest.next() {
        let mut ahead = rest.clone();
        match (ahead.next(), ahead.next()) {
            (Some('-'), Some(high)) => {
                ranges.push((low, high));
                rest = ahead;
            }
            _ => ranges.push((low, low)),
        }
    }
    Some((Piece::Set { negated, ranges }, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_texts() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("a", "a", true),
            ("a", "A", false),
            ("a", "ab", false),
            ("%", "", true),
            ("%", "anything", true),
            ("a%", "abc", true),
            ("%c", "abc", true),
            ("%b%", "abc", true),
            ("%b%", "ac", false),
            ("%ab", "aab", true),
            ("%ab%ab%", "xabyab", true),
            ("%ab%ab%", "xab", false),
            ("a_c", "abc", true),
            ("a_c", "ac", false),
            ("_", "é", true),
            ("[abc]x", "bx", true),
            ("[a-c]x", "dx", false),
            ("[^a-c]x", "dx", true),
            ("[%]x", "%x", true),
            ("[%]x", "yx", false),
            ("[a", "[a", true),
            ("%%%a", "bba", true),
        ] {
            assert_eq!(Pattern::new(pattern, None).matches(text), expected, "{pattern} on {text}");
        }
    }

    #[test]
    fn the_escape_character_makes_the_next_one_literal() {
        let pattern = Pattern::new("10!%", Some('!'));
        assert!(pattern.matches("10%"));
        assert!(!pattern.matches("100"));
        assert!(Pattern::new("a!", Some('!')).matches("a!"));
    }
}

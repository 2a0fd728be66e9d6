//! Cuts a query text into tokens, one at a time and on demand.
//!
//! Keywords are not told from identifiers here: the language has words that are reserved in one
//! place and free in another, so the parser asks. Comments and white space vanish. Every token
//! carries its byte range, because every complaint quotes one.

use super::error::{Span, SqlError, SqlResult};
use super::lower::Parameters;
use partita_model::Number;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind {
    /// An identifier or a keyword, as written.
    Word(String),
    /// `@name`, the sign included, as in the parameter list that comes with the query.
    Parameter(String),
    /// A string literal, unescaped.
    String(String),
    Number(Number),
    /// An operator or a bracket.
    Symbol(&'static str),
    End,
}

/// Longest first, so that `>>>` is never read as `>>` and `>`.
const SYMBOLS: [&str; 31] = [
    ">>>", "<<", ">>", "<=", ">=", "<>", "!=", "||", "??", "+", "-", "*", "/", "%", "&", "|", "^",
    "~", "=", "<", ">", "?", ":", ".", ",", "(", ")", "[", "]", "{", "}",
];

#[derive(Clone)]
pub(crate) struct Lexer<'a> {
    text: &'a str,
    position: usize,
    /// The parameters that come with the query: some have names that are no words.
    parameters: &'a Parameters,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a str, parameters: &'a Parameters) -> Lexer<'a> {
        Lexer { text, position: 0, parameters }
    }

    pub(crate) fn next_token(&mut self) -> SqlResult<Token> {
        self.skip_blanks()?;
        let start = self.position;
        let kind = match self.peek() {
            None => TokenKind::End,
            Some('\'' | '"') => self.string()?,
            Some('@') => self.parameter()?,
            Some(c) if is_word_start(c) => TokenKind::Word(self.word().to_owned()),
            Some(c) if c.is_ascii_digit() => self.number()?,
            Some('.') if self.peek_second().is_some_and(|c| c.is_ascii_digit()) => self.number()?,
            Some(_) => self.symbol()?,
        };
        Ok(Token { kind, span: Span::new(start, self.position) })
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.position..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn peek_second(&self) -> Option<char> {
        self.rest().chars().nth(1)
    }

    fn advance(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.position += next.len_utf8();
        Some(next)
    }

    fn take_while(&mut self, accepts: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|c| !accepts(c)).unwrap_or(rest.len());
        self.position += length;
        rest.get(..length).unwrap_or_default()
    }

    fn skip_blanks(&mut self) -> SqlResult<()> {
        loop {
            self.take_while(char::is_whitespace);
            if self.rest().starts_with("--") {
                self.take_while(|c| c != '\n');
            } else if self.rest().starts_with("/*") {
                let inside = self.rest().get(2..).unwrap_or_default();
                match inside.find("*/") {
                    Some(length) => self.position += length + 4,
                    None => return Err(SqlError::end_of_text(self.text)),
                }
            } else {
                return Ok(());
            }
        }
    }

    fn word(&mut self) -> &'a str {
        self.take_while(is_word_part)
    }

    /// `@tenant-id` is one name if such a parameter came with the query, else a difference.
    fn parameter(&mut self) -> SqlResult<TokenKind> {
        let start = self.position;
        if let Some(name) = self.hyphenated() {
            self.position += name.len();
            return Ok(TokenKind::Parameter(name.to_owned()));
        }
        self.advance();
        match self.peek() {
            Some(c) if is_word_start(c) => Ok(TokenKind::Parameter(format!("@{}", self.word()))),
            _ => Err(SqlError::invalid_token(self.text, Span::new(start, self.position))),
        }
    }

    /// The longest name with a hyphen that stands here as a whole.
    fn hyphenated(&self) -> Option<&'a str> {
        let rest = self.rest();
        let stands_here = |name: &&str| {
            let behind = rest.strip_prefix(*name).map(|behind| behind.chars().next());
            behind.is_some_and(|next| !next.is_some_and(is_word_part))
        };
        let names = self.parameters.iter().map(|(name, _)| name.as_str());
        let hyphenated = names.filter(|name| name.starts_with('@') && name.contains('-'));
        hyphenated.filter(stands_here).max_by_key(|name| name.len())
    }

    fn symbol(&mut self) -> SqlResult<TokenKind> {
        let start = self.position;
        let rest = self.rest();
        match SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            Some(symbol) => {
                self.position += symbol.len();
                Ok(TokenKind::Symbol(symbol))
            }
            None => {
                self.advance();
                Err(SqlError::invalid_token(self.text, Span::new(start, self.position)))
            }
        }
    }

    fn number(&mut self) -> SqlResult<TokenKind> {
        let start = self.position;
        let rest = self.rest();
        let number = if rest.starts_with("0x") || rest.starts_with("0X") {
            self.position += 2;
            hexadecimal(self.take_while(|c| c.is_ascii_hexdigit()))
        } else {
            self.skip_decimal();
            decimal(self.text.get(start..self.position).unwrap_or_default())
        };
        let span = Span::new(start, self.position);
        number.map(TokenKind::Number).ok_or_else(|| SqlError::invalid_token(self.text, span))
    }

    fn skip_decimal(&mut self) {
        self.take_while(|c| c.is_ascii_digit());
        if self.peek() == Some('.') {
            self.advance();
            self.take_while(|c| c.is_ascii_digit());
        }
        // An `e` without digits after it is not an exponent but the next word.
        let mut ahead = self.rest().chars();
        if matches!(ahead.next(), Some('e' | 'E')) {
            let (sign, digit) = match ahead.next() {
                Some('+' | '-') => (1, ahead.next()),
                other => (0, other),
            };
            if digit.is_some_and(|c| c.is_ascii_digit()) {
                self.position += 1 + sign;
                self.take_while(|c| c.is_ascii_digit());
            }
        }
    }

    fn string(&mut self) -> SqlResult<TokenKind> {
        let start = self.position;
        let quote = self.advance();
        let mut value = String::new();
        loop {
            let next = self.advance();
            match next {
                _ if next == quote => return Ok(TokenKind::String(value)),
                Some('\\') => match self.escape() {
                    Some(character) => value.push(character),
                    None => return Err(self.bad_string(start)),
                },
                // Control characters as well: JSON forbids them, SQL does not.
                Some(c) => value.push(c),
                None => return Err(self.bad_string(start)),
            }
        }
    }

    /// The service quotes everything from the opening quote to the end of the text.
    fn bad_string(&mut self, start: usize) -> SqlError {
        SqlError::invalid_string(self.text, Span::new(start, self.text.len()))
    }

    fn escape(&mut self) -> Option<char> {
        Some(match self.advance()? {
            c @ ('\'' | '"' | '\\' | '/') => c,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => return self.unicode_escape(),
            _ => return None,
        })
    }

    /// Half a surrogate pair alone becomes U+FFFD, as it does when an item's text is decoded.
    fn unicode_escape(&mut self) -> Option<char> {
        let first = self.four_digits()?;
        if (0xD800..0xDC00).contains(&first) && self.rest().starts_with("\\u") {
            let before = self.position;
            self.position += 2;
            let second = self.four_digits()?;
            if (0xDC00..0xE000).contains(&second) {
                let code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
                return char::from_u32(code);
            }
            self.position = before;
        }
        Some(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn four_digits(&mut self) -> Option<u32> {
        let digits = self.rest().get(..4)?;
        // `from_str_radix` alone would let a sign through.
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        self.position += 4;
        u32::from_str_radix(digits, 16).ok()
    }
}

fn is_word_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

fn is_word_part(c: char) -> bool {
    is_word_start(c) || c.is_ascii_digit()
}

fn hexadecimal(digits: &str) -> Option<Number> {
    if digits.is_empty() {
        return None;
    }
    match i64::from_str_radix(digits, 16) {
        Ok(integer) => Some(Number::Int(integer)),
        Err(_) => {
            let value = digits.chars().filter_map(|c| c.to_digit(16));
            finite(value.fold(0.0, |sum, digit| sum * 16.0 + f64::from(digit)))
        }
    }
}

fn decimal(text: &str) -> Option<Number> {
    match text.parse::<i64>() {
        Ok(integer) => Some(Number::Int(integer)),
        Err(_) => finite(text.parse::<f64>().ok()?),
    }
}

fn finite(value: f64) -> Option<Number> {
    value.is_finite().then_some(Number::Double(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use partita_model::Value;

    fn kinds(text: &str) -> SqlResult<Vec<TokenKind>> {
        let mut lexer = Lexer::new(text, &[]);
        let mut kinds = Vec::new();
        loop {
            match lexer.next_token()?.kind {
                TokenKind::End => return Ok(kinds),
                kind => kinds.push(kind),
            }
        }
    }

    fn one(text: &str) -> TokenKind {
        let kinds = kinds(text).unwrap();
        assert_eq!(kinds.len(), 1, "{text} is one token");
        kinds.into_iter().next().unwrap()
    }

    #[test]
    fn numbers_are_exact_integers_or_doubles() {
        for (text, expected) in [
            ("0", Number::Int(0)),
            ("9223372036854775807", Number::Int(i64::MAX)),
            ("9223372036854775808", Number::Double(9_223_372_036_854_775_808.0)),
            ("1.5", Number::Double(1.5)),
            (".5", Number::Double(0.5)),
            ("1.", Number::Double(1.0)),
            ("1e3", Number::Double(1000.0)),
            ("1E-3", Number::Double(0.001)),
            ("0x1F", Number::Int(31)),
            ("0xFFFFFFFFFFFFFFFFF", Number::Double(295147905179352825855.0)),
        ] {
            assert_eq!(one(text), TokenKind::Number(expected), "{text}");
        }
    }

    #[test]
    fn a_number_too_large_for_a_double_is_an_invalid_token() {
        assert!(kinds("1e999").is_err());
        assert!(kinds("0x").is_err());
    }

    #[test]
    fn strings_take_either_quote_and_json_escapes() {
        for (text, expected) in [
            (r#"'a"b'"#, "a\"b"),
            (r#""a'b""#, "a'b"),
            (r"'\'\n\u0041\/'", "'\nA/"),
            (r"'\ud83d\ude00'", "\u{1F600}"),
            (r"'\ud83dx'", "\u{FFFD}x"),
            (r"'\ud83d\u0041'", "\u{FFFD}A"),
            ("'a\r\n\tb\u{1}\0'", "a\r\n\tb\u{1}\0"),
        ] {
            assert_eq!(one(text), TokenKind::String(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_string_that_does_not_end_or_escapes_badly_is_quoted_to_the_end() {
        for text in ["'abc", r"'\x'", r"'\u12'", r"'\u+123'", "'a\nb", "'\\"] {
            let expected = SqlError::invalid_string(text, Span::new(0, text.len()));
            assert_eq!(kinds(text), Err(expected), "{text}");
        }
    }

    #[test]
    fn a_parameter_has_a_hyphen_in_its_name_if_the_list_says_so() {
        let listed: Vec<_> = ["@a", "@a-b", "@a-b-c", "@-d", "e-f", "@g-1"]
            .map(|name| (name.to_owned(), Value::Null))
            .into();
        for (text, expected) in [
            ("@a-b", vec!["@a-b"]),
            ("@a-b-c", vec!["@a-b-c"]),
            ("@a-b-d", vec!["@a-b", "-", "d"]),
            ("@a-bc", vec!["@a", "-", "bc"]),
            ("@a -b", vec!["@a", "-", "b"]),
            ("@a-b-1", vec!["@a-b", "-", "1"]),
            ("@-d", vec!["@-d"]),
            ("e-f", vec!["e", "-", "f"]),
            ("@g-12", vec!["@g", "-", "12"]),
            ("@A-b", vec!["@A", "-", "b"]),
        ] {
            let mut lexer = Lexer::new(text, &listed);
            let tokens: Vec<&str> = std::iter::from_fn(|| lexer.next_token().ok())
                .take_while(|token| token.kind != TokenKind::End)
                .filter_map(|token| text.get(token.span.start..token.span.end))
                .collect();
            assert_eq!(tokens, expected, "{text}");
        }
        assert_eq!(kinds("@a-b").map(|kinds| kinds.len()), Ok(3));
    }

    #[test]
    fn comments_are_blank_and_must_end() {
        assert_eq!(one("/* a */ 1 -- b"), TokenKind::Number(Number::Int(1)));
        assert_eq!(kinds("1 /* a"), Err(SqlError::end_of_text("1 /* a")));
    }

    #[test]
    fn symbols_are_read_longest_first_and_strays_are_invalid() {
        let expected = vec![TokenKind::Symbol(">>>"), TokenKind::Symbol(">=")];
        assert_eq!(kinds(">>>>="), Ok(expected));
        for stray in [";", "$", "!", "é", "@", "@1"] {
            assert!(matches!(kinds(stray), Err(SqlError::Coded { code: "SC1010", .. })), "{stray}");
        }
    }
}

//! Paths into items, as policies write them.
//!
//! A [`PropertyPath`] leads from member to member: `/address/city`. An [`IndexPath`] may also go
//! through arrays (`[]`) and ends with what it covers: `/?` the value there, `/*` everything from
//! there down. A segment with unusual characters is put in quotes, `/"a/b"/c` or `/'a/b'/c`; inside
//! them a backslash before the quote or another backslash stands for that character.

use crate::document::Step;
use crate::error::{Error, Result};

/// A path from member to member. Used for partition keys and unique keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PropertyPath {
    segments: Vec<String>,
    text: String,
}

impl PropertyPath {
    /// Reads a path such as `/a/b` or `/"a b"/c`.
    pub fn parse(text: &str) -> Result<PropertyPath> {
        let mut segments = Vec::new();
        for segment in split(text)? {
            match segment {
                Segment::Quoted(name) => segments.push(name),
                Segment::Plain(name) if is_wild(&name) => {
                    return Err(bad(text, format!("must not contain the wildcard '{name}'")));
                }
                Segment::Plain(name) => segments.push(name),
            }
        }
        if segments.is_empty() {
            return Err(bad(text, "must name a property"));
        }
        Ok(PropertyPath { segments, text: text.to_owned() })
    }

    /// The names to follow, at least one.
    pub fn segments(&self) -> &[String] {
        &self.segments
    }

    /// The path as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Is there white space in a segment without quotes?
    pub(crate) fn has_plain_white_space(&self) -> bool {
        let is_odd = |segment: &Segment| match segment {
            Segment::Plain(name) => name.contains(char::is_whitespace),
            Segment::Quoted(_) => false,
        };
        split(&self.text).is_ok_and(|segments| segments.iter().any(is_odd))
    }
}

/// One step of an [`IndexPath`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum IndexStep {
    /// To the member of this name.
    Member(String),
    /// To any element of an array.
    Element,
}

/// What an [`IndexPath`] covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexEnd {
    /// `/?`: the value at the path.
    Value,
    /// `/*`: the value at the path and everything below it.
    Subtree,
}

/// A path of an indexing policy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IndexPath {
    steps: Vec<IndexStep>,
    end: IndexEnd,
    text: String,
}

impl IndexPath {
    /// Reads a path such as `/*`, `/a/b/?` or `/a/[]/b/*`. `/` is short for `/*`.
    pub fn parse(text: &str) -> Result<IndexPath> {
        if text == "/" {
            return Ok(IndexPath {
                steps: Vec::new(),
                end: IndexEnd::Subtree,
                text: text.to_owned(),
            });
        }
        let mut segments = split(text)?;
        let end = match segments.pop() {
            Some(Segment::Plain(end)) if end == "?" => IndexEnd::Value,
            Some(Segment::Plain(end)) if end == "*" => IndexEnd::Subtree,
            _ => return Err(bad(text, "must end with '/?' or '/*'")),
        };
        let mut steps = Vec::new();
        for segment in segments {
            match segment {
                Segment::Quoted(name) => steps.push(IndexStep::Member(name)),
                Segment::Plain(name) if name == "[]" => steps.push(IndexStep::Element),
                Segment::Plain(name) if is_wild(&name) => {
                    return Err(bad(text, format!("may contain '{name}' only at its end")));
                }
                Segment::Plain(name) => steps.push(IndexStep::Member(name)),
            }
        }
        if steps.is_empty() && end == IndexEnd::Value {
            return Err(bad(text, "must name a property before '/?'"));
        }
        Ok(IndexPath { steps, end, text: text.to_owned() })
    }

    /// The steps before the end.
    pub fn steps(&self) -> &[IndexStep] {
        &self.steps
    }

    /// What the path covers.
    pub fn end(&self) -> IndexEnd {
        self.end
    }

    /// The path as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Does the path cover the leaf at this place in a document?
    pub fn covers(&self, place: &[Step<'_>]) -> bool {
        let is_long_enough = match self.end {
            IndexEnd::Value => place.len() == self.steps.len(),
            IndexEnd::Subtree => place.len() >= self.steps.len(),
        };
        is_long_enough && self.steps.iter().zip(place).all(|(step, at)| step.matches(at))
    }
}

impl IndexStep {
    fn matches(&self, step: &Step<'_>) -> bool {
        match (self, step) {
            (IndexStep::Member(name), Step::Member(at)) => name == at,
            (IndexStep::Element, Step::Element) => true,
            (IndexStep::Member(_), Step::Element) | (IndexStep::Element, Step::Member(_)) => false,
        }
    }
}

fn is_wild(segment: &str) -> bool {
    segment == "[]" || segment.contains(['*', '?'])
}

fn bad(path: &str, problem: impl AsRef<str>) -> Error {
    Error::bad_request(format!("the path '{path}' {}", problem.as_ref()))
}

enum Segment {
    Plain(String),
    Quoted(String),
}

/// The segments of a path, each behind a slash and none empty.
fn split(path: &str) -> Result<Vec<Segment>> {
    let mut segments = Vec::new();
    let mut rest = path;
    if rest.is_empty() {
        return Err(bad(path, "is empty: it must start with '/'"));
    }
    while !rest.is_empty() {
        let Some(after) = rest.strip_prefix('/') else {
            let problem = if segments.is_empty() {
                "must start with '/'"
            } else {
                "must have a '/' after a closing quote"
            };
            return Err(bad(path, problem));
        };
        let (segment, after) = match after.chars().next() {
            Some(quote @ ('"' | '\'')) => split_quoted(path, after, quote)?,
            _ => split_plain(path, after)?,
        };
        segments.push(segment);
        rest = after;
    }
    Ok(segments)
}

fn split_plain<'a>(path: &str, text: &'a str) -> Result<(Segment, &'a str)> {
    let (name, rest) = text.split_at(text.find('/').unwrap_or(text.len()));
    if name.is_empty() {
        let problem =
            if rest.is_empty() { "must not end with '/'" } else { "has an empty segment ('//')" };
        return Err(bad(path, problem));
    }
    if name.contains('"') {
        return Err(bad(path, format!("has a quote inside the segment '{name}': quote it whole")));
    }
    Ok((Segment::Plain(name.to_owned()), rest))
}

fn split_quoted<'a>(path: &str, text: &'a str, quote: char) -> Result<(Segment, &'a str)> {
    let mut name = String::new();
    let mut chars = text.chars();
    // The opening quote, which the caller saw.
    chars.next();
    while let Some(c) = chars.next() {
        if c == quote {
            if name.is_empty() {
                return Err(bad(path, "has an empty segment"));
            }
            return Ok((Segment::Quoted(name), chars.as_str()));
        }
        let escaped =
            chars.clone().next().filter(|next| c == '\\' && (*next == quote || *next == '\\'));
        if escaped.is_some() {
            chars.next();
        }
        name.push(escaped.unwrap_or(c));
    }
    Err(bad(path, format!("has a segment whose quote ({quote}) is not closed")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn property_paths_split_into_names() {
        let cases: [(&str, &[&str]); 8] = [
            ("/a", &["a"]),
            ("/a/b", &["a", "b"]),
            ("/\"a b\"/c", &["a b", "c"]),
            ("/\"level' 1*()\"/\"le/vel2\"", &["level' 1*()", "le/vel2"]),
            ("/'level\" 1*()'/'le/vel2'", &["level\" 1*()", "le/vel2"]),
            (r#"/"a\"b""#, &["a\"b"]),
            (r#"/"a\\b\n""#, &["a\\b\\n"]),
            ("/ümläut/it's", &["ümläut", "it's"]),
        ];
        for (text, names) in cases {
            let path = PropertyPath::parse(text).unwrap();
            assert_eq!(path.segments(), names, "{text}");
            assert_eq!(path.text(), text);
        }
    }

    #[test]
    fn wrong_property_paths_are_refused_by_name() {
        for text in [
            "", "/", "a", "/a/", "//a", "/a/*", "/a/?", "/[]/a", "/a*b", "/\"a", "/'a'b", "/\"\"",
            "/a\"b",
        ] {
            let error = PropertyPath::parse(text).unwrap_err();
            assert!(error.message.contains(&format!("'{text}'")), "{error}");
        }
    }

    #[test]
    fn index_paths_cover_what_they_say() {
        let member = |name: &'static str| Step::Member(name.into());
        let tags = [member("a"), Step::Element, member("b c")];
        for (text, covered) in [
            ("/*", true),
            ("/", true),
            ("/a/*", true),
            ("/a/[]/*", true),
            ("/a/[]/\"b c\"/?", true),
            ("/a/[]/\"b c\"/*", true),
            ("/a/?", false),
            ("/a/[]/?", false),
            ("/a/\"b c\"/?", false),
            ("/b/*", false),
            ("/a/[]/\"b c\"/d/*", false),
        ] {
            assert_eq!(IndexPath::parse(text).unwrap().covers(&tags), covered, "{text}");
        }
    }

    #[test]
    fn wrong_index_paths_are_refused_by_name() {
        for text in ["", "/a", "/?", "*", "/*/a", "/*/a/?", "/a/?/b/?", "/a?/*", "/a//?"] {
            let error = IndexPath::parse(text).unwrap_err();
            assert!(error.message.contains(&format!("'{text}'")), "{error}");
        }
    }
}

//! The paths of a sample that could be partition keys, and their values, column by column.
//!
//! A value is kept as a hash: what counts is which items share one. Comparing columns of numbers is
//! what makes it cheap to look at hundreds of hierarchies.

use std::borrow::Cow;
use std::collections::BTreeMap;

use partita_model::{
    Document, KeyPart, Leaf, PartitionKeyHeader, PropertyPath, SYSTEM_NAMES, Scalar, Step,
    murmur3_128,
};

/// Paths that are looked at: those that the most items have.
const PATHS_MAX: usize = 64;

/// The property is absent, or no scalar.
pub(crate) const MISSING: u64 = 0;

/// The property is null.
pub(crate) const NULL: u64 = 1;

/// Items, in the order in which they were written as far as that is known.
pub(crate) struct Items<'a> {
    pub(crate) documents: Vec<Document<'a>>,
}

/// One path and its value in every item.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) path: PropertyPath,
    /// One for each item.
    pub(crate) values: Vec<u64>,
    /// Items whose value is a string, number, boolean.
    pub(crate) kinds: [usize; 3],
    /// Numbers that are not whole.
    pub(crate) fractions: usize,
    /// Values that look like a date or a time.
    pub(crate) times: usize,
    /// Of two values in a row the later one is the larger, in so many of the pairs.
    pub(crate) rises: usize,
    /// … out of so many pairs of different values.
    pub(crate) pairs: usize,
    /// Strings that are texts for people rather than names of something.
    pub(crate) texts: usize,
    /// Bytes of the longest string.
    pub(crate) length_max: usize,
}

impl<'a> Items<'a> {
    /// The sample, ordered by time of writing if every item tells it.
    pub(crate) fn new(texts: &[&'a str]) -> Items<'a> {
        let mut documents: Vec<Document<'a>> =
            texts.iter().map(|text| Document::new(text)).collect();
        let written = |document: &Document<'_>| match document.member("_ts")?.scalar()? {
            Scalar::Number(seconds) => Some(seconds),
            Scalar::Null | Scalar::Bool(_) | Scalar::String(_) => None,
        };
        if documents.iter().all(|document| written(document).is_some()) {
            documents
                .sort_by(|a, b| written(a).unwrap_or(0.0).total_cmp(&written(b).unwrap_or(0.0)));
        }
        Items { documents }
    }

    /// The value at a path in an item.
    pub(crate) fn value(&self, item: usize, path: &PropertyPath) -> Option<Scalar<'a>> {
        self.documents.get(item)?.get(path)?.scalar()
    }

    /// The columns of all paths that are worth a look, those that most items have first.
    pub(crate) fn columns(&self) -> Vec<Column> {
        let mut found: Vec<(usize, String)> =
            self.scalar_paths().into_iter().map(|(path, count)| (count, path)).collect();
        found.sort_by(|(a, one), (b, two)| b.cmp(a).then_with(|| one.cmp(two)));
        found.truncate(PATHS_MAX);
        let paths = found.into_iter().filter_map(|(_, text)| PropertyPath::parse(&text).ok());
        paths.map(|path| self.column(path)).collect()
    }

    /// Paths that lead to scalars without going through an array, and how many items have them.
    fn scalar_paths(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for document in &self.documents {
            document.walk(&mut |steps, leaf| {
                if let (Leaf::Scalar(_), Some(path)) = (leaf, path_of(steps)) {
                    *counts.entry(path).or_insert(0) += 1;
                }
            });
        }
        counts
    }

    pub(crate) fn column(&self, path: PropertyPath) -> Column {
        let named_like_time = looks_like_a_name_of_time(path.text());
        let mut column = Column {
            path,
            values: Vec::with_capacity(self.documents.len()),
            kinds: [0; 3],
            fractions: 0,
            times: 0,
            texts: 0,
            rises: 0,
            pairs: 0,
            length_max: 0,
        };
        let mut before: Option<Scalar<'a>> = None;
        for document in &self.documents {
            let scalar = document.get(&column.path).and_then(|raw| raw.scalar());
            column.add(scalar.as_ref(), named_like_time);
            if let (Some(before), Some(scalar)) = (&before, &scalar) {
                column.compare(before, scalar);
            }
            before = scalar.or(before);
        }
        column
    }
}

impl Column {
    fn add(&mut self, scalar: Option<&Scalar<'_>>, named_like_time: bool) {
        match scalar {
            Some(Scalar::String(text)) => {
                self.kinds[0] += 1;
                self.length_max = self.length_max.max(text.len());
                self.times += usize::from(is_date(text));
                self.texts += usize::from(is_text(text));
            }
            Some(Scalar::Number(number)) => {
                self.kinds[1] += 1;
                self.fractions += usize::from(number.fract() != 0.0);
                self.times += usize::from(named_like_time && is_epoch(*number));
            }
            Some(Scalar::Bool(_)) => self.kinds[2] += 1,
            Some(Scalar::Null) | None => {}
        }
        self.values.push(scalar.map_or(MISSING, hash));
    }

    fn compare(&mut self, before: &Scalar<'_>, after: &Scalar<'_>) {
        let ordering = match (before, after) {
            (Scalar::Number(before), Scalar::Number(after)) => after.total_cmp(before),
            (Scalar::String(before), Scalar::String(after)) => after.cmp(before),
            _ => return,
        };
        if ordering.is_ne() {
            self.pairs += 1;
            self.rises += usize::from(ordering.is_gt());
        }
    }
}

/// The path as a definition writes it; None through arrays, and for the system's own properties.
fn path_of(steps: &[Step<'_>]) -> Option<String> {
    let mut text = String::new();
    for (depth, step) in steps.iter().enumerate() {
        let Step::Member(name) = step else { return None };
        if depth == 0 && (SYSTEM_NAMES.contains(&name.as_ref()) || name == "_lsn") {
            return None;
        }
        text.push('/');
        text.push_str(&segment(name));
    }
    Some(text)
}

/// A name as a segment, in quotes where it has to be.
fn segment(name: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !name.is_empty() && name.chars().all(is_plain) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"")))
}

fn hash(scalar: &Scalar<'_>) -> u64 {
    let part = KeyPart::from(scalar.clone());
    if part == KeyPart::Null {
        return NULL;
    }
    let text = PartitionKeyHeader(vec![part]).to_header_json();
    // Two values are set aside for items without one.
    ((murmur3_128(text.as_bytes()) >> 64) as u64).max(2)
}

/// Identifiers are at most as long as a hash in hexadecimal, and have few words.
fn is_text(text: &str) -> bool {
    text.len() > 64 || text.split_whitespace().count() > 3
}

/// `2026-11-16…`.
fn is_date(text: &str) -> bool {
    let is_expected = |(at, byte): (usize, &u8)| match at {
        4 | 7 => *byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    text.len() >= 10 && text.as_bytes().iter().enumerate().take(10).all(is_expected)
}

/// Seconds or milliseconds since 1970, between 2000 and 2100.
fn is_epoch(number: f64) -> bool {
    const YEARS: std::ops::Range<f64> = 946_684_800.0..4_102_444_800.0;
    YEARS.contains(&number) || YEARS.contains(&(number / 1_000.0))
}

fn looks_like_a_name_of_time(path: &str) -> bool {
    let last = path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    ["time", "date", "created", "updated", "modified", "epoch", "day"]
        .iter()
        .any(|word| last.contains(word))
        || last == "ts"
        || last == "at"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_go_to_scalars_and_not_through_arrays() {
        let text = r#"{"id":"1","a":{"b c":1,"d":{}},"e":[{"f":1}],"_ts":5,"n":null}"#;
        let items = Items::new(&[text]);
        let columns = items.columns();
        let paths: Vec<&str> = columns.iter().map(|column| column.path.text()).collect();
        assert_eq!(paths, ["/a/\"b c\"", "/id", "/n"]);
        assert_eq!(columns[2].values, [NULL]);
    }

    #[test]
    fn equal_values_share_a_number_and_types_are_told_apart() {
        let texts = [r#"{"a":1}"#, r#"{"a":1.0}"#, r#"{"a":"1"}"#, r#"{"b":1}"#, r#"{"a":[]}"#];
        let items = Items::new(&texts);
        let column = items.column(PropertyPath::parse("/a").unwrap());
        assert_eq!(column.values[0], column.values[1]);
        assert_ne!(column.values[0], column.values[2]);
        assert_eq!(column.values[3..], [MISSING, MISSING]);
        assert_eq!(column.kinds, [1, 2, 0]);
    }

    #[test]
    fn times_and_rising_values_are_seen() {
        let texts: Vec<String> = (0..20)
            .map(|n| {
                format!(
                    r#"{{"day":"2026-11-{:02}T00:00:00Z","createdAt":{}}}"#,
                    n / 2 + 1,
                    1_700_000_000 + n
                )
            })
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let items = Items::new(&texts);
        for (path, pairs) in [("/day", 9), ("/createdAt", 19)] {
            let column = items.column(PropertyPath::parse(path).unwrap());
            assert_eq!((column.times, column.rises, column.pairs), (20, pairs, pairs), "{path}");
        }
    }
}

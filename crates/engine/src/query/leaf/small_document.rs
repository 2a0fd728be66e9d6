//! Documents that have only what a query looks at.
//!
//! Where an index or a key tells all the values that a query looks at, the item is not loaded: a
//! small document with these values stands for it.

use partita_model::{IndexStep, Scalar, Value, write_string};

use crate::index::EntryValue;

/// From here on a double may stand for several integers.
const EXACT_NUMBER_MAX: f64 = 9_007_199_254_740_992.0;

/// Appends a value as JSON. False, and nothing appended, if the item may have said it otherwise.
pub(super) fn put_text(out: &mut String, value: &Scalar<'_>) -> bool {
    match value {
        Scalar::Null => out.push_str("null"),
        Scalar::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Scalar::Number(double) if double.abs() < EXACT_NUMBER_MAX => {
            if double.fract() == 0.0 {
                out.push_str(&(*double as i64).to_string());
            } else {
                out.push_str(&Value::from(*double).to_string());
            }
        }
        Scalar::Number(_) => return false,
        Scalar::String(text) => write_string(out, text),
    }
    true
}

/// Does a sort key belong to one value? Some numbers share one, and so do texts with half a
/// character.
pub(in crate::query) fn is_of_one_value(sort_key: &[u8]) -> bool {
    match EntryValue::new(sort_key).scalar() {
        Some(Scalar::Number(double)) => double.abs() < EXACT_NUMBER_MAX,
        Some(Scalar::String(text)) => !is_doubtful(&text),
        Some(Scalar::Null | Scalar::Bool(_)) | None => true,
    }
}

/// Half a character of an item is the replacement character in keys.
pub(super) fn is_doubtful(text: &str) -> bool {
    !text.is_ascii() && text.contains(char::REPLACEMENT_CHARACTER)
}

/// A name as a JSON string.
pub(super) fn quoted(name: &str) -> String {
    let mut quoted = String::with_capacity(name.len() + 2);
    write_string(&mut quoted, name);
    quoted
}

/// Where in a small document the values go.
#[derive(Default)]
pub(super) struct Template {
    column: Option<usize>,
    /// Members as JSON strings.
    members: Vec<(String, Template)>,
}

impl Template {
    pub(super) fn new(paths: &[Vec<IndexStep>]) -> Template {
        let mut root = Template::default();
        for (number, path) in paths.iter().enumerate() {
            let mut node = &mut root;
            for step in path {
                let IndexStep::Member(name) = step else { continue };
                node = node.member(name);
            }
            node.column = Some(number);
        }
        root
    }

    fn member(&mut self, name: &str) -> &mut Template {
        let quoted = quoted(name);
        let at = match self.members.iter().position(|(known, _)| *known == quoted) {
            Some(at) => at,
            None => {
                self.members.push((quoted, Template::default()));
                self.members.len() - 1
            }
        };
        &mut self.members[at].1
    }

    /// Writes the document; a member without a value is left out.
    pub(super) fn write<'v>(
        &self,
        out: &mut String,
        value: &mut dyn FnMut(usize) -> Option<&'v str>,
    ) {
        out.push('{');
        let start = out.len();
        for (name, member) in &self.members {
            // What has no value has nothing below it, and neither has a scalar; of what is an array
            // or object the item is loaded.
            let scalar = match member.column {
                Some(column) => match value(column) {
                    Some(text) => Some(text),
                    None => continue,
                },
                None => None,
            };
            if out.len() > start {
                out.push(',');
            }
            out.push_str(name);
            out.push(':');
            match scalar {
                Some(text) => out.push_str(text),
                None => member.write(out, value),
            }
        }
        out.push('}');
    }
}

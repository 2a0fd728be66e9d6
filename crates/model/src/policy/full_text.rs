//! Full-text search: which properties hold prose, in which language, and which are indexed.

use crate::error::{Error, Result};
use crate::path::PropertyPath;
use crate::policy::shape;
use crate::value::{Object, Value};

/// A container's full-text policy.
#[derive(Clone, Debug, PartialEq)]
pub struct FullTextPolicy {
    /// The language of paths that state none.
    pub default_language: Language,
    /// The paths that hold text.
    pub paths: Vec<FullTextPath>,
}

/// One path that holds text.
#[derive(Clone, Debug, PartialEq)]
pub struct FullTextPath {
    /// Where the text stands.
    pub path: PropertyPath,
    /// Its language, unless it is the policy's default.
    pub language: Option<Language>,
}

/// A language the service knows how to take apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Language {
    code: &'static str,
    /// As the policy names it, which is how it is shown.
    written: Value,
}

/// The codes, spelled exactly so, and the numbers that Windows has for them: policies of the
/// feature's first days name those, as numbers or as texts.
const LANGUAGES: &[(&str, &str)] = &[
    (ENGLISH, "1033"),
    ("de-DE", "1031"),
    ("es-ES", "3082"),
    ("fr-FR", "1036"),
    ("it-IT", "1040"),
    ("pt-BR", "1046"),
    ("pt-PT", "2070"),
];

const ENGLISH: &str = "en-US";

impl Language {
    fn parse(value: &Value, name: &str) -> Result<Language> {
        let text = match value.as_i64() {
            Some(number) => number.to_string(),
            None => shape::string(value, name)?.to_owned(),
        };
        let known = LANGUAGES.iter().find(|(code, number)| *code == text || *number == text);
        let Some((code, _)) = known else {
            let codes: Vec<&str> = LANGUAGES.iter().map(|(code, _)| *code).collect();
            return Err(Error::bad_request(format!(
                "The Full Text Policy contains an unsupported language {text}. Supported languages \
                 are: {}.",
                codes.join(", ")
            )));
        };
        Ok(Language { code, written: value.clone() })
    }

    /// The language of policies that name none.
    fn english() -> Language {
        Language { code: ENGLISH, written: Value::from(ENGLISH) }
    }

    /// The code, as in policies.
    pub fn code(&self) -> &'static str {
        self.code
    }
}

impl FullTextPolicy {
    /// Reads the member `fullTextPolicy`.
    pub(super) fn parse(value: &Value) -> Result<FullTextPolicy> {
        let policy = shape::object(value, "fullTextPolicy")?;
        let default_language = shape::present(policy, "defaultLanguage")
            .map_or(Ok(Language::english()), |value| Language::parse(value, "defaultLanguage"))?;
        let entries = shape::array_or_empty(policy, "fullTextPaths")?;
        let entries: Vec<FullTextPath> = entries.iter().map(parse_path).collect::<Result<_>>()?;
        let mut paths: Vec<FullTextPath> = Vec::new();
        for entry in entries {
            if paths.iter().any(|other| other.path.segments() == entry.path.segments()) {
                return Err(Error::bad_request(format!(
                    "The Full Text Policy contains the path {} twice.",
                    entry.path.text()
                )));
            }
            paths.push(entry);
        }
        Ok(FullTextPolicy { default_language, paths })
    }

    /// The policy as clients see it.
    pub(super) fn to_value(&self) -> Value {
        let entry = |entry: &FullTextPath| {
            let object = Object::new().with("path", entry.path.text());
            Value::from(match &entry.language {
                Some(language) => object.with("language", language.written.clone()),
                None => object,
            })
        };
        Value::from(
            Object::new().with("defaultLanguage", self.default_language.written.clone()).with(
                "fullTextPaths",
                Value::from(self.paths.iter().map(entry).collect::<Vec<Value>>()),
            ),
        )
    }
}

/// Reads the member `fullTextIndexes` of an indexing policy.
pub(super) fn parse_indexes(policy: &Object) -> Result<Vec<PropertyPath>> {
    let mut paths: Vec<PropertyPath> = Vec::new();
    for entry in shape::array_or_empty(policy, "fullTextIndexes")? {
        let entry = shape::object(entry, "fullTextIndexes")?;
        let text = shape::string(
            shape::required(entry, "path", "A full-text index")?,
            "fullTextIndexes.path",
        )?;
        let path = PropertyPath::parse(text).map_err(|error| {
            Error::bad_request(format!(
                "The Full Text Indexing Policy contains an invalid Path: {text}. {error}"
            ))
        })?;
        if paths.iter().any(|other| other.segments() == path.segments()) {
            return Err(Error::bad_request(format!(
                "The Full Text Indexing Policy contains the path {text} twice."
            )));
        }
        paths.push(path);
    }
    Ok(paths)
}

/// The indexes as clients see them.
pub(super) fn indexes_to_values(paths: &[PropertyPath]) -> Vec<Value> {
    let entry = |path: &PropertyPath| Value::from(Object::new().with("path", path.text()));
    paths.iter().map(entry).collect()
}

/// Every full-text index needs its path in the policy.
pub(super) fn check_indexes(
    indexes: &[PropertyPath],
    policy: Option<&FullTextPolicy>,
) -> Result<()> {
    let known = |path: &PropertyPath| {
        policy.is_some_and(|policy| {
            policy.paths.iter().any(|entry| entry.path.segments() == path.segments())
        })
    };
    match indexes.iter().find(|path| !known(path)) {
        None => Ok(()),
        Some(path) => Err(Error::bad_request(format!(
            "The Full Text Indexing Policy's path::{} not matching in Full Text Policy's path.",
            path.text()
        ))),
    }
}

fn parse_path(value: &Value) -> Result<FullTextPath> {
    let entry = shape::object(value, "fullTextPaths")?;
    let text =
        shape::string(shape::required(entry, "path", "A full-text path")?, "fullTextPaths.path")?;
    let path = PropertyPath::parse(text).map_err(|error| {
        Error::bad_request(format!(
            "The Full Text Policy contains an invalid Path: {text}. {error}"
        ))
    })?;
    let language = shape::present(entry, "language")
        .map(|value| Language::parse(value, "fullTextPaths.language"))
        .transpose()?;
    Ok(FullTextPath { path, language })
}

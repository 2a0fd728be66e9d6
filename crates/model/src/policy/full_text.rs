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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Language {
    EnUs,
    DeDe,
    EsEs,
    FrFr,
    ItIt,
    PtBr,
    PtPt,
}

/// The codes, spelled exactly so.
const LANGUAGES: &[(&str, Language)] = &[
    ("en-US", Language::EnUs),
    ("de-DE", Language::DeDe),
    ("es-ES", Language::EsEs),
    ("fr-FR", Language::FrFr),
    ("it-IT", Language::ItIt),
    ("pt-BR", Language::PtBr),
    ("pt-PT", Language::PtPt),
];

impl Language {
    fn parse(value: &Value, name: &str) -> Result<Language> {
        let text = shape::string(value, name)?;
        LANGUAGES.iter().find(|(code, _)| *code == text).map(|(_, language)| *language).ok_or_else(
            || {
                let codes: Vec<&str> = LANGUAGES.iter().map(|(code, _)| *code).collect();
                Error::bad_request(format!(
                    "The Full Text Policy contains an unsupported language {text}. Supported \
                     languages are: {}.",
                    codes.join(", ")
                ))
            },
        )
    }

    /// The code, as in policies.
    pub fn code(self) -> &'static str {
        LANGUAGES.iter().find(|(_, language)| *language == self).map_or("en-US", |(code, _)| *code)
    }
}

impl FullTextPolicy {
    /// Reads the member `fullTextPolicy`.
    pub(super) fn parse(value: &Value) -> Result<FullTextPolicy> {
        let policy = shape::object(value, "fullTextPolicy")?;
        let default_language = shape::present(policy, "defaultLanguage")
            .map_or(Ok(Language::EnUs), |value| Language::parse(value, "defaultLanguage"))?;
        let mut paths: Vec<FullTextPath> = Vec::new();
        for entry in shape::array_or_empty(policy, "fullTextPaths")? {
            let entry = parse_path(entry)?;
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
            Value::from(match entry.language {
                Some(language) => object.with("language", language.code()),
                None => object,
            })
        };
        Value::from(Object::new().with("defaultLanguage", self.default_language.code()).with(
            "fullTextPaths",
            Value::from(self.paths.iter().map(entry).collect::<Vec<Value>>()),
        ))
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

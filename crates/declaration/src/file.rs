//! Reads a file, and objects in it whose members must all be known.

use std::fs;
use std::path::Path;

use partita_model::{Object, Value};

/// What was read, or what is wrong with it.
pub(crate) type Read<T> = Result<T, String>;

/// Reads a file; its extension says whether it is TOML or JSON.
pub(crate) fn read(file: &Path) -> Read<Value> {
    let text = fs::read_to_string(file).map_err(|error| error.to_string())?;
    match file.extension().and_then(|ending| ending.to_str()) {
        Some("toml") => from_toml(&text),
        Some("json") => Value::parse(text.as_bytes()).map_err(|error| error.message),
        _ => Err("the name must end with .json or .toml".to_owned()),
    }
}

/// An object of the file whose members are all known.
pub(crate) struct Block<'a> {
    pub(crate) what: &'a str,
    members: &'a Object,
}

impl<'a> Block<'a> {
    pub(crate) fn of(what: &'a str, value: &'a Value, known: &[&str]) -> Read<Block<'a>> {
        let Value::Object(members) = value else {
            return Err(format!("{what} must be an object"));
        };
        match members.iter().find(|(name, _)| !known.contains(name)) {
            Some((name, _)) => {
                Err(format!("{what} has no '{name}'; it can have: {}", known.join(", ")))
            }
            None => Ok(Block { what, members }),
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.members.get(name)
    }

    pub(crate) fn name(&self) -> Read<String> {
        let name = self.get("name").and_then(Value::as_str);
        name.map(str::to_owned).ok_or_else(|| format!("{} needs a name", self.what))
    }

    /// A list of blocks; one that is not there is empty, and one block alone is a list of one.
    pub(crate) fn blocks(&self, name: &str) -> Read<&'a [Value]> {
        match self.get(name) {
            None => Ok(&[]),
            Some(Value::Array(blocks)) => Ok(blocks),
            Some(one @ Value::Object(_)) => Ok(std::slice::from_ref(one)),
            Some(_) => Err(format!("'{name}' of {} must be a list of objects", self.what)),
        }
    }
}

pub(crate) fn from_toml(text: &str) -> Read<Value> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    of_toml(toml::Value::Table(table))
}

fn of_toml(value: toml::Value) -> Read<Value> {
    Ok(match value {
        toml::Value::String(text) => Value::from(text),
        toml::Value::Integer(number) => Value::from(number),
        toml::Value::Float(number) if number.is_finite() => Value::from(number),
        toml::Value::Float(number) => return Err(format!("JSON has no {number}")),
        toml::Value::Boolean(truth) => Value::from(truth),
        // JSON has no dates; items have them as text.
        toml::Value::Datetime(time) => Value::from(time.to_string()),
        toml::Value::Array(list) => {
            Value::Array(list.into_iter().map(of_toml).collect::<Read<_>>()?)
        }
        toml::Value::Table(table) => {
            let mut object = Object::new();
            for (name, value) in table {
                object.insert(name, of_toml(value)?);
            }
            object.into()
        }
    })
}

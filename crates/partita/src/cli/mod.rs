//! Commands that ask a running server, over its own wire, and print what it says.
//!
//! `connect.rs` says which server, `client.rs` signs and sends, `table.rs` lays out. The commands
//! themselves ask one thing each and take no decision: with `--json` they print the server's answer
//! as it came.

mod advise;
pub(crate) mod client;
pub(crate) mod connect;
mod explain_key;
mod moves;
mod partitions;
pub(crate) mod table;

use std::io::Write;

use partita_model::Value;

pub(crate) use advise::run as advise;
pub(crate) use explain_key::run as explain_key;
pub(crate) use moves::run as admin;
pub(crate) use partitions::run as partitions;

use crate::failure::Failure;

/// A container as it is typed: `database/container`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContainerName {
    pub(crate) database: String,
    pub(crate) container: String,
}

impl ContainerName {
    /// Reads `database/container`.
    pub(crate) fn parse(text: &str) -> Result<ContainerName, String> {
        match text.split_once('/') {
            Some((database, container))
                if !database.is_empty() && !container.is_empty() && !container.contains('/') =>
            {
                Ok(ContainerName { database: database.into(), container: container.into() })
            }
            _ => Err("name a container as DATABASE/CONTAINER, for example shop/orders".to_owned()),
        }
    }

    /// The path of the container in the admin API, and something inside.
    fn path(&self, inside: &[&str]) -> Vec<String> {
        let names = ["_partita", "databases", &self.database, "containers", &self.container];
        names.iter().chain(inside).map(ToString::to_string).collect()
    }
}

/// Prints to standard output. Whoever closed it does not want the rest.
pub(crate) fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

pub(crate) fn say_json(value: &Value) {
    say(&format!("{}\n", value.to_json()));
}

/// A member of an answer that the server always sends.
fn member<'v>(value: &'v Value, name: &str) -> Result<&'v Value, Failure> {
    value.get(name).ok_or_else(|| {
        Failure::other(format!(
            "the server's answer has no member '{name}': is it of another version?"
        ))
    })
}

fn rows<'v>(value: &'v Value, name: &str) -> Result<&'v [Value], Failure> {
    Ok(member(value, name)?.as_array().unwrap_or_default())
}

fn text<'v>(value: &'v Value, name: &str) -> Result<&'v str, Failure> {
    Ok(member(value, name)?.as_str().unwrap_or_default())
}

fn number(value: &Value, name: &str) -> Result<f64, Failure> {
    Ok(member(value, name)?.as_f64().unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_named_with_its_database() {
        let name = ContainerName::parse("shop/my orders").unwrap();
        assert_eq!((name.database.as_str(), name.container.as_str()), ("shop", "my orders"));
        for wrong in ["shop", "/orders", "shop/", "a/b/c", ""] {
            assert!(ContainerName::parse(wrong).unwrap_err().contains("DATABASE/CONTAINER"));
        }
    }
}

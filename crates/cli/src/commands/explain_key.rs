//! `partita explain-key shop/orders '["acme"]'`: the EPK of a partition key, and where it lives.
//!
//! With `--paths` no server is asked: the EPK follows from the definition alone.

use std::sync::Arc;

use partita_http_client::encode;
use partita_model::{Clock, Object, PartitionKeyDefinition, PartitionKeyHeader, Value};

use crate::args::ExplainKeyArgs;
use crate::client::Client;
use crate::container_name::ContainerName;
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::response::{member, rows, text};
use crate::table::{count, size};

pub(crate) fn run(args: &ExplainKeyArgs, clock: Arc<dyn Clock>) -> Result<(), Failure> {
    let explained = match (args.what.as_slice(), args.paths.is_empty()) {
        ([container, key], true) => {
            let container = ContainerName::parse(container).map_err(Failure::usage)?;
            check(key)?;
            let client = Client::new(&args.connect, clock)?;
            let path = container.path(&["explain-key"]);
            client.get(&path, &format!("key={}", encode(key)))?
        }
        ([key], false) => without_server(args, key)?,
        _ => {
            return Err(Failure::usage(
                "explain-key takes a container and a key, as in: partita explain-key shop/orders \
                 '[\"acme\"]'; or, without a server: partita explain-key --paths /tenant \
                 '[\"acme\"]'",
            ));
        }
    };
    if args.json {
        print_json(&explained);
    } else {
        print(&render(&explained)?);
    }
    Ok(())
}

fn check(key: &str) -> Result<PartitionKeyHeader, Failure> {
    PartitionKeyHeader::parse(key).map_err(|error| Failure::usage(error.message))
}

/// What the definition says of a key.
fn without_server(args: &ExplainKeyArgs, key: &str) -> Result<Value, Failure> {
    let kind = match (&args.kind, args.paths.len()) {
        (Some(kind), _) => kind.as_str(),
        (None, 1) => "Hash",
        (None, _) => "MultiHash",
    };
    let paths: Vec<Value> = args.paths.iter().map(|path| Value::from(path.as_str())).collect();
    let body = Object::new().with("paths", paths).with("kind", kind);
    let body = Value::from(body.with("version", i64::from(args.key_version)));
    let usage = |error: partita_model::Error| Failure::usage(error.message);
    let definition = PartitionKeyDefinition::parse(&body).map_err(usage)?;
    let header = check(key)?;
    let epks = definition.range_of(&header).map_err(usage)?;
    let header = Value::parse(header.to_header_json().as_bytes()).map_err(usage)?;
    Ok(Object::new()
        .with("partitionKey", definition.to_value())
        .with("key", header)
        .with("epk", epks.min.to_string())
        .with("minInclusive", epks.min.to_string())
        .with("maxExclusive", epks.max.to_string())
        .into())
}

fn render(explained: &Value) -> Result<String, Failure> {
    let key = member(explained, "key")?;
    let paths = rows(member(explained, "partitionKey")?, "paths")?;
    let given = key.as_array().map_or(0, <[Value]>::len);
    let mut out = format!("Key    {}\n", key.to_json());
    if given == paths.len() {
        out.push_str(&format!("EPK    {}\n", text(explained, "epk")?));
    } else {
        out.push_str(&format!(
            "EPKs   {} up to {} ({given} of {} paths)\n",
            text(explained, "minInclusive")?,
            text(explained, "maxExclusive")?,
            paths.len()
        ));
    }
    if explained.get("partitions").is_some() {
        for home in rows(explained, "partitions")? {
            out.push_str(&format!(
                "Home   partition {}, EPKs [{}, {})\n",
                text(home, "id")?,
                text(home, "minInclusive")?,
                text(home, "maxExclusive")?
            ));
        }
    }
    let numbers = |name| explained.get(name).and_then(Value::as_f64);
    if let (Some(items), Some(bytes)) = (numbers("items"), numbers("storageBytes")) {
        out.push_str(&format!("Holds  {} items, {}\n", count(items), size(bytes)));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offline(paths: &[&str], key: &str) -> Result<Value, Failure> {
        let args = ExplainKeyArgs {
            what: vec![key.to_owned()],
            paths: paths.iter().map(ToString::to_string).collect(),
            kind: None,
            key_version: 2,
            json: false,
            connect: crate::args::ConnectArgs { endpoint: String::new(), key: None, ca_file: None },
        };
        without_server(&args, key)
    }

    #[test]
    fn a_definition_alone_gives_the_epk() {
        let one = offline(&["/pk"], r#"["redmond"]"#).unwrap();
        assert_eq!(text(&one, "epk").unwrap(), "22E342F38A486A088463DFF7838A5963");
        let prefix = offline(&["/a", "/b"], r#"["redmond"]"#).unwrap();
        assert!(render(&prefix).unwrap().contains("(1 of 2 paths)"));
        let whole = offline(&["/a", "/b"], r#"["redmond",5]"#).unwrap();
        assert!(text(&whole, "epk").unwrap().starts_with("22E342F38A486A088463DFF7838A5963"));
    }

    #[test]
    fn a_key_that_does_not_fit_is_refused() {
        assert!(offline(&["/a"], r#"["x","y"]"#).is_err());
        assert!(offline(&["a"], r#"["x"]"#).is_err());
        assert!(offline(&["/a"], "x").is_err());
    }
}

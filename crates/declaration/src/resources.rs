//! What a file declares, in the words of the Terraform provider for the service.
//!
//! ```toml
//! [[database]]
//! name = "shop"
//! autoscale_settings = { max_throughput = 4000 }       # or throughput = 400, or neither
//!
//! [[database.container]]
//! name = "orders"
//! partition_key_paths = ["/customer"]
//! default_ttl = 86400
//! unique_key = [{ paths = ["/number"] }]
//! indexing_policy = { indexing_mode = "consistent", excluded_path = [{ path = "/notes/*" }] }
//! items = [{ id = "1", customer = "a", number = 17 }]  # here, or in items_file, an item per line
//! ```
//!
//! The same in JSON.

use std::fs;
use std::path::Path;

use partita_model::{Object, Throughput, Value};

use crate::file::{self, Block, Read};

/// A whole file.
#[derive(Debug, PartialEq)]
pub(crate) struct Declared {
    pub(crate) databases: Vec<DeclaredDatabase>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct DeclaredDatabase {
    pub(crate) name: String,
    pub(crate) throughput: Option<Throughput>,
    pub(crate) containers: Vec<DeclaredContainer>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct DeclaredContainer {
    pub(crate) name: String,
    pub(crate) throughput: Option<Throughput>,
    /// The resource as a client would send it.
    pub(crate) body: Value,
    /// JSON texts.
    pub(crate) items: Vec<Vec<u8>>,
}

impl Declared {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Read<Declared> {
        let value = file::read(path)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        Declared::of(&value, folder)
    }

    fn of(value: &Value, folder: &Path) -> Read<Declared> {
        let file = Block::of("the file", value, &["database"])?;
        let databases = file.blocks("database")?;
        let database = |value: &Value| DeclaredDatabase::of(value, folder);
        Ok(Declared { databases: databases.iter().map(database).collect::<Read<_>>()? })
    }
}

impl DeclaredDatabase {
    fn of(value: &Value, folder: &Path) -> Read<DeclaredDatabase> {
        let members = ["name", "throughput", "autoscale_settings", "container"];
        let block = Block::of("a database", value, &members)?;
        let container = |value: &Value| DeclaredContainer::of(value, folder);
        Ok(DeclaredDatabase {
            name: block.name()?,
            throughput: throughput(&block)?,
            containers: block.blocks("container")?.iter().map(container).collect::<Read<_>>()?,
        })
    }
}

impl DeclaredContainer {
    fn of(value: &Value, folder: &Path) -> Read<DeclaredContainer> {
        let members = [
            "name",
            "throughput",
            "autoscale_settings",
            "partition_key_paths",
            "partition_key_kind",
            "partition_key_version",
            "default_ttl",
            "analytical_storage_ttl",
            "unique_key",
            "indexing_policy",
            "conflict_resolution_policy",
            "items",
            "items_file",
        ];
        let block = Block::of("a container", value, &members)?;
        let name = block.name()?;
        let mut body =
            Object::new().with("id", name.as_str()).with("partitionKey", partition_key(&block)?);
        let renamed =
            [("default_ttl", "defaultTtl"), ("analytical_storage_ttl", "analyticalStorageTtl")];
        for (from, to) in renamed {
            if let Some(value) = block.get(from) {
                body.insert(to, value.clone());
            }
        }
        if let Some(policy) = unique_keys(&block)? {
            body.insert("uniqueKeyPolicy", policy);
        }
        if let Some(value) = block.get("indexing_policy") {
            body.insert("indexingPolicy", indexing(value)?);
        }
        if let Some(value) = block.get("conflict_resolution_policy") {
            body.insert("conflictResolutionPolicy", conflict_resolution(value)?);
        }
        let throughput = throughput(&block)?;
        let items = items(&block, folder)?;
        Ok(DeclaredContainer { name, throughput, body: body.into(), items })
    }
}

fn partition_key(block: &Block<'_>) -> Read<Value> {
    let paths = block.get("partition_key_paths").cloned();
    let paths = paths.ok_or_else(|| format!("{} needs partition_key_paths", block.what))?;
    let several = paths.as_array().is_some_and(|paths| paths.len() > 1);
    let kind = block.get("partition_key_kind").cloned();
    let kind = kind.unwrap_or(Value::from(if several { "MultiHash" } else { "Hash" }));
    let version = block.get("partition_key_version").cloned().unwrap_or(Value::from(2_i64));
    Ok(Object::new().with("paths", paths).with("kind", kind).with("version", version).into())
}

fn unique_keys(block: &Block<'_>) -> Read<Option<Value>> {
    let keys = block.blocks("unique_key")?;
    if keys.is_empty() {
        return Ok(None);
    }
    for key in keys {
        Block::of("a unique_key", key, &["paths"])?;
    }
    Ok(Some(Object::new().with("uniqueKeys", keys.to_vec()).into()))
}

fn indexing(value: &Value) -> Read<Value> {
    let members =
        ["indexing_mode", "included_path", "excluded_path", "composite_index", "spatial_index"];
    let block = Block::of("an indexing_policy", value, &members)?;
    let mut policy = Object::new();
    if let Some(mode) = block.get("indexing_mode") {
        policy.insert("indexingMode", mode.clone());
    }
    for (from, to) in [("included_path", "includedPaths"), ("excluded_path", "excludedPaths")] {
        if block.get(from).is_some() {
            policy.insert(to, block.blocks(from)?.to_vec());
        }
    }
    if block.get("composite_index").is_some() {
        let composite = |value: &Value| {
            let index = Block::of("a composite_index", value, &["index"])?;
            Ok(Value::from(index.blocks("index")?.iter().map(ordered).collect::<Vec<Value>>()))
        };
        let composites = block.blocks("composite_index")?.iter().map(composite);
        policy.insert("compositeIndexes", composites.collect::<Read<Vec<Value>>>()?);
    }
    if block.get("spatial_index").is_some() {
        policy.insert("spatialIndexes", block.blocks("spatial_index")?.to_vec());
    }
    Ok(policy.into())
}

/// Terraform writes `Ascending`, the service `ascending`.
fn ordered(index: &Value) -> Value {
    let Value::Object(index) = index else { return index.clone() };
    let mut ordered = index.clone();
    if let Some(order) = index.get("order").and_then(Value::as_str) {
        ordered.insert("order", order.to_lowercase());
    }
    ordered.into()
}

fn conflict_resolution(value: &Value) -> Read<Value> {
    let names = [
        ("mode", "mode"),
        ("conflict_resolution_path", "conflictResolutionPath"),
        ("conflict_resolution_procedure", "conflictResolutionProcedure"),
    ];
    let known: Vec<&str> = names.iter().map(|(from, _)| *from).collect();
    let block = Block::of("a conflict_resolution_policy", value, &known)?;
    let mut policy = Object::new();
    for (from, to) in names {
        if let Some(value) = block.get(from) {
            policy.insert(to, value.clone());
        }
    }
    Ok(policy.into())
}

fn items(block: &Block<'_>, folder: &Path) -> Read<Vec<Vec<u8>>> {
    let mut items: Vec<Vec<u8>> =
        block.blocks("items")?.iter().map(|item| item.to_json().into_bytes()).collect();
    let Some(file) = block.get("items_file") else { return Ok(items) };
    let file = file.as_str().ok_or("items_file must be the name of a file")?;
    let text = fs::read_to_string(folder.join(file))
        .map_err(|error| format!("items_file '{file}': {error}"))?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    items.extend(lines.map(|line| line.as_bytes().to_vec()));
    Ok(items)
}

fn throughput(block: &Block<'_>) -> Read<Option<Throughput>> {
    let whole = |name: &str, value: &Value| {
        let number = value.as_i64().and_then(|number| u32::try_from(number).ok());
        number.ok_or_else(|| format!("'{name}' of {} must be a whole number", block.what))
    };
    match (block.get("throughput"), block.get("autoscale_settings")) {
        (None, None) => Ok(None),
        (Some(manual), None) => Ok(Some(Throughput::Manual(whole("throughput", manual)?))),
        (None, Some(settings)) => {
            let settings = Block::of("autoscale_settings", settings, &["max_throughput"])?;
            let max =
                settings.get("max_throughput").ok_or("autoscale_settings needs max_throughput")?;
            let max = whole("max_throughput", max)?;
            Ok(Some(Throughput::Autoscale { max, increment_percent: None }))
        }
        (Some(_), Some(_)) => {
            Err(format!("{} has throughput or autoscale_settings, not both", block.what))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::from_toml;

    fn toml(text: &str) -> Read<Declared> {
        Declared::of(&from_toml(text)?, Path::new("."))
    }

    #[test]
    fn both_notations_say_the_same() {
        let written = r#"
            [[database]]
            name = "shop"
            autoscale_settings = { max_throughput = 4000 }
            [[database.container]]
            name = "orders"
            partition_key_paths = ["/tenant", "/customer"]
            throughput = 1200
            default_ttl = 86400
            unique_key = [{ paths = ["/number"] }]
            items = [{ id = "1", tenant = "t", when = 2024-01-01, price = 1.5, tags = [true] }]
            [database.container.indexing_policy]
            indexing_mode = "consistent"
            included_path = [{ path = "/*" }]
            excluded_path = [{ path = "/notes/*" }]
            [[database.container.indexing_policy.composite_index]]
            index = [{ path = "/a", order = "Ascending" }, { path = "/b", order = "Descending" }]
        "#;
        let json = r#"{"database":{"name":"shop","autoscale_settings":{"max_throughput":4000},
            "container":[{"name":"orders","partition_key_paths":["/tenant","/customer"],
            "throughput":1200,"default_ttl":86400,"unique_key":{"paths":["/number"]},
            "items":[{"id":"1","price":1.5,"tags":[true],"tenant":"t","when":"2024-01-01"}],
            "indexing_policy":{"indexing_mode":"consistent","included_path":[{"path":"/*"}],
            "excluded_path":[{"path":"/notes/*"}],"composite_index":[{"index":[
            {"path":"/a","order":"Ascending"},{"path":"/b","order":"Descending"}]}]}}]}}"#;
        let of_json =
            Declared::of(&Value::parse(json.as_bytes()).unwrap(), Path::new(".")).unwrap();
        let container = &of_json.databases[0].containers[0];
        let body = container.body.to_json();
        for part in [
            r#""kind":"MultiHash","version":2"#,
            r#""compositeIndexes":[[{"path":"/a","order":"ascending"},"#,
            r#""uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/number"]}]}"#,
            r#""defaultTtl":86400"#,
        ] {
            assert!(body.contains(part), "{part} is not in {body}");
        }
        assert_eq!(container.throughput, Some(Throughput::Manual(1200)));
        let sorted = |declared: &Declared| {
            let items = &declared.databases[0].containers[0].items[0];
            let Value::Object(item) = Value::parse(items).unwrap() else { panic!() };
            let mut members: Vec<String> =
                item.iter().map(|(name, value)| format!("{name}={value}")).collect();
            members.sort();
            members
        };
        let of_toml = toml(written).unwrap();
        assert_eq!(sorted(&of_toml), sorted(&of_json));
        assert_eq!(of_toml.databases[0].containers[0].throughput, container.throughput);
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (text, reason) in [
            ("[[database]]", "needs a name"),
            ("[[databse]]\nname='x'", "has no 'databse'"),
            ("[[database]]\nname='x'\ncolour=1", "has no 'colour'"),
            ("[[database]]\nname='x'\nthroughput='a'", "whole number"),
            ("[[database]]\nname='x'\nthroughput=400\nautoscale_settings={}", "not both"),
            ("[[database]]\nname='x'\n[[database.container]]\nname='c'", "partition_key_paths"),
            ("database=1", "a list of objects"),
            ("name = ", "expected"),
        ] {
            let error = toml(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}

//! Creates the databases, containers and items of a file that are missing.
//!
//! What exists is left as it is, so the same file can be given at every start. A container that
//! exists with another partition key is an error, since no program written for the declared one
//! could work on it.

use std::path::Path;

use partita_engine::{
    ContainerPath, Context, Database, DatabasePath, Indexing, KeyRequired, NewItem, Op, block_on,
};
use partita_model::{ErrorKind, Value};

use crate::resources::{Declared, DeclaredContainer};

/// Creates what a file declares.
pub fn apply(database: &Database, file: &Path) -> Result<(), String> {
    let declared = Declared::read(file)?;
    let mut created = Created::default();
    for wanted in declared.databases {
        let op = Op::CreateDatabase { name: wanted.name.clone(), throughput: wanted.throughput };
        let is_new =
            create(database, op).map_err(|why| format!("the database '{}': {why}", wanted.name))?;
        created.databases += usize::from(is_new);
        for container in wanted.containers {
            let name = format!("the container '{}/{}'", wanted.name, container.name);
            create_container(database, &wanted.name, container, &mut created)
                .map_err(|why| format!("{name}: {why}"))?;
        }
    }
    tracing::info!(
        file = %file.display(),
        databases = created.databases,
        containers = created.containers,
        items = created.items,
        "created what was missing"
    );
    Ok(())
}

#[derive(Default)]
struct Created {
    databases: usize,
    containers: usize,
    items: usize,
}

fn create_container(
    database: &Database,
    parent: &str,
    wanted: DeclaredContainer,
    created: &mut Created,
) -> Result<(), String> {
    let path = ContainerPath { database: parent.to_owned(), container: wanted.name.clone() };
    let op = Op::CreateContainer {
        database: DatabasePath(parent.to_owned()),
        body: wanted.body.clone(),
        throughput: wanted.throughput,
        key_required: KeyRequired::Yes,
    };
    if create(database, op)? {
        created.containers += 1;
    } else {
        check_key(database, &path, &wanted.body)?;
    }
    for (at, body) in wanted.items.into_iter().enumerate() {
        let item = NewItem { body, partition_key: None, indexing: Indexing::ByPolicy };
        let op = Op::CreateItem { container: path.clone(), item };
        created.items +=
            usize::from(create(database, op).map_err(|text| format!("item {}: {text}", at + 1))?);
    }
    Ok(())
}

/// Whether it was created; if not, it existed.
fn create(database: &Database, op: Op) -> Result<bool, String> {
    match block_on(database.execute(op, &Context::default())).result {
        Ok(_) => Ok(true),
        Err(error) if error.kind == ErrorKind::Conflict => Ok(false),
        Err(error) => Err(error.message),
    }
}

fn check_key(database: &Database, path: &ContainerPath, wanted: &Value) -> Result<(), String> {
    let op = Op::ReadContainer { container: path.clone(), condition: None };
    let reply = block_on(database.execute(op, &Context::default()));
    reply.result.map_err(|error| error.message)?;
    let found = reply.container.ok_or("it was deleted in the meantime")?;
    let paths = |key: Option<&Value>| key.and_then(|key| key.get("paths")).cloned();
    let (is, shall) = (
        paths(Some(&found.definition.partition_key.to_value())),
        paths(wanted.get("partitionKey")),
    );
    if is == shall {
        return Ok(());
    }
    let text = |paths: Option<Value>| paths.map(|paths| paths.to_json()).unwrap_or_default();
    Err(format!(
        "it exists with the partition key {}, the file says {}; a key cannot be changed",
        text(is),
        text(shall)
    ))
}

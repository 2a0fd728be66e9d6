//! `--init FILE`: databases, containers and items that shall be there when the server is ready.
//!
//! What is missing is made; what is there is left as it is, so the same file can be given at every
//! start. A container that is there under another partition key is an error, since no program
//! written for the declared one could work on it. The file is read whole before anything is made.

mod declared;

use std::path::Path;

use partita_engine::{
    ContainerPath, Context, Database, DatabasePath, Indexing, KeyRequired, NewItem, Op, block_on,
};
use partita_model::{ErrorKind, Value};

use self::declared::{Declared, DeclaredContainer};
use crate::failure::Failure;

/// Makes what a file declares.
pub(crate) fn apply(database: &Database, file: &Path) -> Result<(), Failure> {
    let declared = Declared::read(file).map_err(|reason| failed(file, &reason))?;
    let mut made = Made::default();
    for wanted in declared.databases {
        let op = Op::CreateDatabase { name: wanted.name.clone(), throughput: wanted.throughput };
        made.databases +=
            usize::from(create(database, op).map_err(|text| {
                failed(file, &format!("the database '{}': {text}", wanted.name))
            })?);
        for container in wanted.containers {
            let place = format!("the container '{}/{}'", wanted.name, container.name);
            make_container(database, &wanted.name, container, &mut made)
                .map_err(|text| failed(file, &format!("{place}: {text}")))?;
        }
    }
    tracing::info!(
        file = %file.display(),
        databases = made.databases,
        containers = made.containers,
        items = made.items,
        "made what was missing"
    );
    Ok(())
}

#[derive(Default)]
struct Made {
    databases: usize,
    containers: usize,
    items: usize,
}

fn make_container(
    database: &Database,
    parent: &str,
    wanted: DeclaredContainer,
    made: &mut Made,
) -> Result<(), String> {
    let path = ContainerPath { database: parent.to_owned(), container: wanted.name.clone() };
    let op = Op::CreateContainer {
        database: DatabasePath(parent.to_owned()),
        body: wanted.body.clone(),
        throughput: wanted.throughput,
        key_required: KeyRequired::Yes,
    };
    if create(database, op)? {
        made.containers += 1;
    } else {
        check_key(database, &path, &wanted.body)?;
    }
    for (at, body) in wanted.items.into_iter().enumerate() {
        let item = NewItem { body, partition_key: None, indexing: Indexing::ByPolicy };
        let op = Op::CreateItem { container: path.clone(), item };
        made.items +=
            usize::from(create(database, op).map_err(|text| format!("item {}: {text}", at + 1))?);
    }
    Ok(())
}

/// Whether it was made; if not, it was there.
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
    let found = reply.container.ok_or("it was deleted meanwhile")?;
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
        "it is there with the partition key {}, the file says {}; a key cannot be changed",
        text(is),
        text(shall)
    ))
}

fn failed(file: &Path, reason: &str) -> Failure {
    Failure::usage(format!("--init {}: {reason}", file.display()))
}

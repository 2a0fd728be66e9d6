//! The records of users and permissions.

use partita_model::{
    ContainerRid, DatabaseRid, Error, PartitionKeyHeader, PermissionRid, Result, ScriptRid,
    UserRid, Value,
};
use partita_storage::Record;

use super::super::codec::{Fields, damaged, integer, object};
use super::{Owner, Permission, PermissionMode, Target, User};

pub(super) fn encode_user(user: &User) -> Vec<u8> {
    object()
        .with("rid", user.rid.to_string())
        .with("name", user.name.as_str())
        .with("etag", user.etag.to_string())
        .with("ts", integer(user.ts))
        .into_bytes()
}

pub(in super::super) fn user(record: &Record) -> Result<User> {
    let fields = Fields::of("user", record)?;
    Ok(User {
        rid: UserRid::parse(fields.text("rid")?).ok_or_else(|| damaged("user", "rid"))?,
        name: fields.text("name")?.to_owned(),
        etag: fields.etag()?,
        ts: fields.number("ts")?,
        lsn: record.lsn,
    })
}

pub(super) fn encode_permission(permission: &Permission) -> Vec<u8> {
    let Target { owner, item, script, partition_key } = &permission.target;
    let key = partition_key.as_ref().map(PartitionKeyHeader::to_header_json);
    let container = match owner {
        Owner::Known(rid) => object().with("container", rid.to_string()),
        Owner::Named { database, name } => {
            object().with("containerOf", database.to_string()).with("containerName", name.as_str())
        }
    };
    container
        .with("rid", permission.rid.to_string())
        .with("name", permission.name.as_str())
        .with("mode", permission.mode_text.as_str())
        .with("resource", permission.resource.as_str())
        .with("resourceKey", permission.resource_partition_key.clone().unwrap_or(Value::Null))
        .with("item", item.as_deref().map_or(Value::Null, Value::from))
        .with("script", script.map_or(Value::Null, |rid| Value::from(rid.to_string())))
        .with("key", key.map_or(Value::Null, Value::from))
        .with("etag", permission.etag.to_string())
        .with("ts", integer(permission.ts))
        .into_bytes()
}

pub(in super::super) fn permission(record: &Record) -> Result<Permission> {
    let fields = Fields::of("permission", record)?;
    let broken = |field: &'static str| move || -> Error { damaged("permission", field) };
    let text_if_there = |name: &'static str| match fields.value(name)? {
        Value::Null => Ok(None),
        value => value.as_str().map(Some).ok_or_else(broken(name)),
    };
    // Records from before scripts could be opened say nothing of them.
    let script = match fields.text("script") {
        Ok(rid) => Some(ScriptRid::parse(rid).ok_or_else(broken("script"))?),
        Err(_) => None,
    };
    let key = text_if_there("key")?.map(PartitionKeyHeader::parse).transpose();
    let owner = match fields.text("containerName") {
        Ok(name) => Owner::Named {
            database: DatabaseRid::parse(fields.text("containerOf")?)
                .ok_or_else(broken("containerOf"))?,
            name: name.to_owned(),
        },
        Err(_) => Owner::Known(
            ContainerRid::parse(fields.text("container")?).ok_or_else(broken("container"))?,
        ),
    };
    let target = Target {
        owner,
        item: text_if_there("item")?.map(str::to_owned),
        script,
        partition_key: key.map_err(|_| damaged("permission", "key"))?,
    };
    let mode_text = fields.text("mode")?.to_owned();
    Ok(Permission {
        rid: PermissionRid::parse(fields.text("rid")?).ok_or_else(broken("rid"))?,
        name: fields.text("name")?.to_owned(),
        mode: PermissionMode::parse(&mode_text).ok_or_else(broken("mode"))?,
        mode_text,
        resource: fields.text("resource")?.to_owned(),
        resource_partition_key: Some(fields.value("resourceKey")?.clone())
            .filter(|key| !key.is_null()),
        target,
        etag: fields.etag()?,
        ts: fields.number("ts")?,
        lsn: record.lsn,
    })
}

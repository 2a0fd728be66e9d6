//! What a client sends as a permission, and what its link means.
//!
//! A link may name a container that is not there: clients store such permissions. If it is a link
//! of names, it opens the container that will have the name, in the database of the link, which
//! must be there; a link of resource ids opens nothing then.

use partita_model::{
    ContainerLink, ContainerRid, DatabaseRid, Error, ItemRid, LinkedResource, PartitionKeyHeader,
    Result, ScriptKind, ScriptRid, Value, check_item_id, check_resource_name, limits,
};
use partita_storage::Space;

use super::Resources;
use crate::catalog::{AddressedBy, Catalog, Container, Owner, PermissionMode, Target};
use crate::keys;
use crate::op::{ContainerPath, DatabasePath};

/// A permission as it was sent, with everything checked that needs no catalog.
#[derive(Debug)]
pub(super) struct PermissionBody {
    pub(super) name: String,
    pub(super) mode_text: String,
    pub(super) mode: PermissionMode,
    pub(super) resource: String,
    pub(super) resource_partition_key: Option<Value>,
    key: Option<PartitionKeyHeader>,
    link: ResourceLink,
}

/// The link of a container, or of an item or script in it.
#[derive(Debug, PartialEq, Eq)]
struct ResourceLink {
    container: ContainerPath,
    inside: Inside,
}

/// What a link leads to in its container.
#[derive(Debug, PartialEq, Eq)]
enum Inside {
    Everything,
    Item(String),
    Script(ScriptKind, String),
}

impl PermissionBody {
    pub(super) fn parse(body: &Value) -> Result<PermissionBody> {
        let name = text(body, "id")?;
        check_resource_name("permission", name)?;
        let mode_text = text(body, "permissionMode")?;
        let mode = PermissionMode::parse(mode_text).ok_or_else(|| {
            Error::bad_request(format!(
                "The permissionMode '{mode_text}' is invalid: it must be All or Read"
            ))
        })?;
        let resource = text(body, "resource")?;
        let sent = body.get("resourcePartitionKey").filter(|key| !key.is_null()).cloned();
        Ok(PermissionBody {
            name: name.to_owned(),
            mode_text: mode_text.to_owned(),
            mode,
            resource: resource.to_owned(),
            key: sent.as_ref().map(partition_key).transpose()?,
            resource_partition_key: sent,
            link: ResourceLink::parse(resource)?,
        })
    }
}

impl ResourceLink {
    fn parse(link: &str) -> Result<ResourceLink> {
        let pieces: Vec<&str> = link.trim_matches('/').split('/').collect();
        let (database, container, inside) = match ContainerLink::parse(&pieces) {
            Some(parsed) if !parsed.database.is_empty() && !parsed.container.is_empty() => {
                (parsed.database, parsed.container, parsed.resource())
            }
            Some(_) | None => return Err(bad_link(link)),
        };
        let inside = match inside {
            LinkedResource::Container => Inside::Everything,
            LinkedResource::Item(id) => {
                check_item_id(id)?;
                Inside::Item(id.to_owned())
            }
            LinkedResource::Script(kind, script) => Inside::Script(kind, script.to_owned()),
            LinkedResource::Items | LinkedResource::Scripts(_) | LinkedResource::Other(_) => {
                return Err(bad_link(link));
            }
        };
        let container =
            ContainerPath { database: database.to_owned(), container: container.to_owned() };
        Ok(ResourceLink { container, inside })
    }
}

impl Resources {
    /// What a permission opens.
    pub(super) fn target(&self, catalog: &Catalog, body: &PermissionBody) -> Result<Target> {
        let ResourceLink { container: path, inside } = &body.link;
        let resolved = match catalog.container(path) {
            Ok(resolved) => resolved,
            Err(error) => return absent_target(catalog, body)?.ok_or(error),
        };
        let container = &resolved.container;
        check_key(container, body.key.as_ref())?;
        let partition_key = body.key.clone();
        let owner = Owner::Known(container.rid);
        let whole = Target { owner, item: None, script: None, partition_key };
        let id = match inside {
            Inside::Everything => return Ok(whole),
            Inside::Script(kind, segment) => {
                let script = catalog.script(&resolved, *kind, segment)?;
                return Ok(Target { script: Some(script.rid), ..whole });
            }
            Inside::Item(id) => id,
        };
        let rid = ItemRid::parse(id).filter(|rid| rid.container == container.rid);
        match rid.filter(|_| resolved.by == AddressedBy::Rid) {
            None => Ok(Target { item: Some(id.clone()), ..whole }),
            Some(rid) => self.target_by_rid(container, rid, whole),
        }
    }

    /// An item's resource id names one item, so its id and partition key are what is opened.
    fn target_by_rid(&self, container: &Container, rid: ItemRid, target: Target) -> Result<Target> {
        let components = container.definition.partition_key.paths.len();
        for partition in &container.partitions {
            let view = self.core.store.snapshot(partition.id)?;
            let Some(pointer) = view.get(Space::Index, &keys::rid(rid.item))? else { continue };
            let found = keys::parse_item(&pointer.value, components)
                .ok_or_else(|| Error::corrupt("a resource id leads to a damaged key"))?;
            let key = PartitionKeyHeader::from(found.key);
            if target.partition_key.is_some_and(|wanted| !key.0.starts_with(&wanted.0)) {
                return Err(Error::bad_request(format!(
                    "The resourcePartitionKey is not that of the item {rid}"
                )));
            }
            return Ok(Target { item: Some(found.id), partition_key: Some(key), ..target });
        }
        Err(Error::not_found(format!("Resource Not Found: there is no item {rid}")))
    }
}

/// What a link means whose container is not there. A database that has the name comes first, as
/// everywhere.
fn absent_target(catalog: &Catalog, body: &PermissionBody) -> Result<Option<Target>> {
    let ResourceLink { container: path, inside } = &body.link;
    let partition_key = body.key.clone();
    let named = catalog.database(&DatabasePath(path.database.clone())).ok();
    if let Some(database) = named.filter(|database| database.name == path.database) {
        let item = match inside {
            Inside::Everything => None,
            Inside::Item(id) => Some(id.clone()),
            // A script is opened by its resource id, which it gets when it is made.
            Inside::Script(..) => return Ok(None),
        };
        check_resource_name("container", &path.container)?;
        check_key_length(partition_key.as_ref(), limits::PARTITION_KEY_PATHS_MAX)?;
        let owner = Owner::Named { database: database.rid, name: path.container.clone() };
        return Ok(Some(Target { owner, item, script: None, partition_key }));
    }
    Ok(absent_by_rid(path, inside).map(|(container, item, script)| {
        let owner = Owner::Known(container);
        Target { owner, item, script, partition_key }
    }))
}

/// The resource ids in a link.
fn absent_by_rid(
    path: &ContainerPath,
    inside: &Inside,
) -> Option<(ContainerRid, Option<String>, Option<ScriptRid>)> {
    let database = DatabaseRid::parse(&path.database)?;
    let container = ContainerRid::parse(&path.container).filter(|rid| rid.database == database)?;
    match inside {
        Inside::Everything => Some((container, None, None)),
        Inside::Item(id) => Some((container, Some(id.clone()), None)),
        Inside::Script(_, rid) => Some((container, None, Some(ScriptRid::parse(rid)?))),
    }
}

fn text<'a>(body: &'a Value, name: &str) -> Result<&'a str> {
    match body.get(name) {
        None => Err(Error::bad_request(format!(
            "The input content is invalid because the required properties - '{name}; ' - are \
             missing"
        ))),
        Some(value) => value.as_str().ok_or_else(|| {
            Error::bad_request(format!("The property '{name}' of a permission must be a string"))
        }),
    }
}

fn partition_key(sent: &Value) -> Result<PartitionKeyHeader> {
    match sent.as_array() {
        Some([_, ..]) => PartitionKeyHeader::parse(&sent.to_json()),
        Some([]) | None => Err(Error::bad_request(format!(
            "The resourcePartitionKey {sent} is invalid: it must be an array with at least one \
             element"
        ))),
    }
}

fn check_key(container: &Container, key: Option<&PartitionKeyHeader>) -> Result<()> {
    check_key_length(key, container.definition.partition_key.paths.len())
}

fn check_key_length(key: Option<&PartitionKeyHeader>, paths: usize) -> Result<()> {
    match key {
        Some(key) if key.0.len() > paths => Err(Error::bad_request(format!(
            "The resourcePartitionKey {} has {} elements, the container's partition key can have {paths}",
            key.to_header_json(),
            key.0.len()
        ))),
        Some(_) | None => Ok(()),
    }
}

fn bad_link(link: &str) -> Error {
    Error::bad_request(format!(
        "The resource '{link}' of the permission is invalid: it must be the link of a container \
         (dbs/…/colls/…), of an item (dbs/…/colls/…/docs/…) or of a script"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<PermissionBody> {
        PermissionBody::parse(&Value::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn links_are_of_containers_items_and_scripts() {
        for link in ["dbs/d/colls/c", "/dbs/d/colls/c/"] {
            let parsed = ResourceLink::parse(link).unwrap();
            assert_eq!(parsed.container.database, "d");
            assert_eq!(parsed.inside, Inside::Everything);
        }
        let item = ResourceLink::parse("dbs/d/colls/c/docs/my id").unwrap();
        assert_eq!(item.inside, Inside::Item("my id".into()));
        for link in ["", "dbs/d", "dbs//colls/c", "dbs/d/colls/c/docs", "dbs/d/colls/c/x/a"] {
            let error = ResourceLink::parse(link).unwrap_err();
            assert_eq!(error.kind, partita_model::ErrorKind::BadRequest, "{link}");
        }
        let script = ResourceLink::parse("dbs/d/colls/c/sprocs/s").unwrap();
        assert_eq!(script.inside, Inside::Script(ScriptKind::Procedure, "s".into()));
    }

    #[test]
    fn bodies_say_what_is_wrong_with_them() {
        for (body, word) in [
            (r#"{"permissionMode":"All","resource":"dbs/d/colls/c"}"#, "'id; '"),
            (r#"{"id":"p","resource":"dbs/d/colls/c"}"#, "permissionMode"),
            (r#"{"id":"p","permissionMode":"none","resource":"dbs/d/colls/c"}"#, "'none'"),
            (r#"{"id":"p","permissionMode":1,"resource":"dbs/d/colls/c"}"#, "permissionMode"),
            (r#"{"id":"p","permissionMode":"All"}"#, "resource"),
            (
                r#"{"id":"p","permissionMode":"All","resource":"dbs/d/colls/c","resourcePartitionKey":[]}"#,
                "resourcePartitionKey",
            ),
            (
                r#"{"id":"p","permissionMode":"All","resource":"dbs/d/colls/c","resourcePartitionKey":"a"}"#,
                "resourcePartitionKey",
            ),
        ] {
            let error = parse(body).unwrap_err();
            assert!(error.message.contains(word), "{body}: {error}");
        }
    }
}

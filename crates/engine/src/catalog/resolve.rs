//! From a path as a client writes it to the resource it means.
//!
//! Every segment may be a name or a resource id, but a path is of one kind throughout. Names win: a
//! database that happens to be called like a resource id stays reachable by its name, and the
//! service behaves the same way.

use std::sync::Arc;

use partita_model::{ContainerRid, DatabaseRid, Error, ErrorKind, Result};

use super::{Catalog, Container, Contents, Database};
use crate::path::{ContainerPath, DatabasePath};

/// How a client addressed a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressedBy {
    Name,
    Rid,
}

/// A container that was found, and how.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    pub(crate) container: Arc<Container>,
    pub(crate) by: AddressedBy,
}

impl Catalog {
    pub(crate) fn database(&self, path: &DatabasePath) -> Result<Arc<Database>> {
        match self.contents(&path.0) {
            Some((contents, _)) => Ok(Arc::clone(&contents.database)),
            None => Err(absent(ErrorKind::NotFound, "database", &path.0)),
        }
    }

    /// A database that is the parent of what is asked for: its absence is another error.
    pub(crate) fn parent_database(&self, path: &DatabasePath) -> Result<Arc<Database>> {
        match self.contents(&path.0) {
            Some((contents, _)) => Ok(Arc::clone(&contents.database)),
            None => Err(absent(ErrorKind::OwnerNotFound, "database", &path.0)),
        }
    }

    pub(crate) fn container(&self, path: &ContainerPath) -> Result<Resolved> {
        self.resolve(path, ErrorKind::NotFound)
    }

    /// A container that is the parent of what is asked for: its absence is another error.
    pub(crate) fn parent_container(&self, path: &ContainerPath) -> Result<Resolved> {
        self.resolve(path, ErrorKind::OwnerNotFound)
    }

    fn resolve(&self, path: &ContainerPath, missing: ErrorKind) -> Result<Resolved> {
        let Some((contents, by)) = self.contents(&path.database) else {
            return Err(absent(ErrorKind::OwnerNotFound, "database", &path.database));
        };
        let rid = match by {
            AddressedBy::Name => contents.names.get(&path.container).copied(),
            AddressedBy::Rid => ContainerRid::parse(&path.container),
        };
        match rid.and_then(|rid| contents.containers.get(&rid)) {
            Some(container) => Ok(Resolved { container: Arc::clone(container), by }),
            None => Err(absent(missing, "container", &path.container)),
        }
    }

    pub(super) fn contents(&self, segment: &str) -> Option<(&Contents, AddressedBy)> {
        if let Some(rid) = self.names.get(segment) {
            return Some((self.databases.get(rid)?, AddressedBy::Name));
        }
        let rid = DatabaseRid::parse(segment)?;
        Some((self.databases.get(&rid)?, AddressedBy::Rid))
    }
}

pub(super) fn absent(kind: ErrorKind, what: &str, name: &str) -> Error {
    Error::new(kind, format!("Resource Not Found: there is no {what} '{name}'"))
}

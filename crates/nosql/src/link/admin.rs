//! The paths of the admin API, below `/_partita/`: a container's physical partitions.
//!
//! `request/admin.rs` says what requests on them do. The paths follow the management API of
//! Microsoft's open-source emulator, which has no keys; here the account's keys are needed as for
//! everything else. A client signs the type `_partita` and its path without the leading slash.

use partita_engine::ContainerPath;
use partita_model::Result;

use super::percent::decode;

/// The first segment of every path.
pub(crate) const ADMIN_ROOT: &str = "_partita";

/// What an admin request addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AdminLink {
    pub(crate) container: ContainerPath,
    pub(crate) resource: AdminResource,
    /// The query string, as it came.
    pub(crate) query: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AdminResource {
    Partitions,
    Split { range_id: String },
    Merge,
    Queries,
    ExplainKey,
}

/// Takes the part of a path behind [`ADMIN_ROOT`] apart. None: there is nothing of that kind.
pub(super) fn route(segments: &[&str], query: Option<&str>) -> Result<Option<AdminLink>> {
    let ["databases", database, "containers", container, inside @ ..] = segments else {
        return Ok(None);
    };
    let resource = match inside {
        ["partitions"] => AdminResource::Partitions,
        ["partitions", "merge"] => AdminResource::Merge,
        ["partitions", id, "split"] => AdminResource::Split { range_id: decode(id)?.into_owned() },
        ["queries"] => AdminResource::Queries,
        ["explain-key"] => AdminResource::ExplainKey,
        _ => return Ok(None),
    };
    let container = ContainerPath {
        database: decode(database)?.into_owned(),
        container: decode(container)?.into_owned(),
    };
    Ok(Some(AdminLink { container, resource, query: query.unwrap_or_default().to_owned() }))
}

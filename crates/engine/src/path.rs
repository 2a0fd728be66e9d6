//! How resources are addressed: by path segments that may each be a name or a resource id.
//!
//! The catalog decides which of the two a segment is (a name wins; the whole path is of one kind).

use partita_model::ScriptKind;

/// A database by name or resource id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabasePath(pub String);

/// A container by names or resource ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerPath {
    pub database: String,
    pub container: String,
}

/// A script by names or resource ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptPath {
    pub container: ContainerPath,
    pub kind: ScriptKind,
    pub script: String,
}

/// A user by names or resource ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserPath {
    pub database: String,
    pub user: String,
}

/// A permission by names or resource ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionPath {
    pub user: UserPath,
    pub permission: String,
}

/// A client encryption key by names or resource ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncryptionKeyPath {
    pub database: String,
    pub key: String,
}

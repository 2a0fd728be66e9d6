//! Every limit of the data model, once, with its unit in the name and its reason beside it.
//!
//! Where the cloud service has a limit ours is the same, so that what works here works there.
//! Limits of queues, pages and threads belong to the crates that own those.

/// Levels of arrays and objects in one JSON text, the outermost counted as one. The service's
/// limit; it also bounds the recursion of everything here that descends into a document.
pub const DEPTH_MAX: usize = 128;

/// Bytes of one item as the client sent it, 2 MiB: the service's limit.
pub const ITEM_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Bytes of one request's body: the service's limit, batches included.
pub const REQUEST_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Bytes of one response's body, 4 MiB: the service's limit on a page.
pub const RESPONSE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Bytes of an item's id: the service's limit; it also bounds the keys of the store.
pub const ITEM_ID_BYTES_MAX: usize = 1023;

/// Characters of the name of a database, container, script, user or permission.
pub const RESOURCE_NAME_CHARS_MAX: usize = 255;

/// Operations in one patch: the service's limit.
pub const PATCH_OPERATIONS_MAX: usize = 10;

/// Bytes of a partition key under hash version 2 ("large partition keys").
pub const KEY_BYTES_MAX_V2: usize = 2048;

/// Bytes of a partition key under hash version 1: longer strings would share one hash.
pub const KEY_BYTES_MAX_V1: usize = 101;

/// Unique keys of one container.
pub const UNIQUE_KEYS_MAX: usize = 10;

/// Paths of one unique key.
pub const UNIQUE_KEY_PATHS_MAX: usize = 16;

/// Bytes of a query's text.
pub const QUERY_TEXT_BYTES_MAX: usize = 512 * 1024;

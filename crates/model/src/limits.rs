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

/// Operations in one batch, transactional or bulk: the service's limit.
pub const BATCH_OPERATIONS_MAX: usize = 100;

/// Stored procedures of one container: the service's limit.
pub const PROCEDURES_MAX: usize = 100;

/// User-defined functions of one container: the service's limit.
pub const FUNCTIONS_MAX: usize = 50;

/// Triggers of one container. The service states no limit; ours keeps the catalog small.
pub const TRIGGERS_MAX: usize = 100;

/// Bytes of a string in a partition key: the service's limit for large keys. Under hash version 1
/// it documents 101, but takes longer strings and hashes their beginning, and so do we.
pub const PARTITION_KEY_BYTES_MAX: usize = 2048;

/// Paths of a hierarchical partition key.
pub const PARTITION_KEY_PATHS_MAX: usize = 3;

/// Unique keys of one container.
pub const UNIQUE_KEYS_MAX: usize = 10;

/// Paths of one unique key.
pub const UNIQUE_KEY_PATHS_MAX: usize = 16;

/// Paths in each list of an indexing policy: the service's limit.
pub const INDEX_PATHS_MAX: usize = 1500;

/// Composite indexes of one container: the service's limit.
pub const COMPOSITE_INDEXES_MAX: usize = 100;

/// Paths of one composite index: the service's limits. With fewer than two it would be an ordinary
/// index.
pub const COMPOSITE_INDEX_PATHS_MIN: usize = 2;
/// See [`COMPOSITE_INDEX_PATHS_MIN`].
pub const COMPOSITE_INDEX_PATHS_MAX: usize = 8;

/// Computed properties of one container: the service's limit.
pub const COMPUTED_PROPERTIES_MAX: usize = 20;

/// Elements of one vector: the service's limit.
pub const VECTOR_DIMENSIONS_MAX: u32 = 4096;

/// Elements of a vector whose policy states none.
pub const VECTOR_DIMENSIONS_DEFAULT: u32 = 1536;

/// Elements of a vector in a flat index: the service's limit.
pub const VECTOR_FLAT_DIMENSIONS_MAX: u32 = 505;

/// Bytes of one compressed vector; also never more than the vector has elements.
pub const VECTOR_QUANTIZED_BYTES_MAX: u32 = 512;

/// Candidates kept while a vector graph is built: the service's bounds.
pub const VECTOR_SEARCH_LIST_MIN: u32 = 25;
/// See [`VECTOR_SEARCH_LIST_MIN`].
pub const VECTOR_SEARCH_LIST_MAX: u32 = 500;

/// Request units per second one can provision at least, and in which steps.
pub const THROUGHPUT_MANUAL_RU_MIN: u32 = 400;
/// See [`THROUGHPUT_MANUAL_RU_MIN`].
pub const THROUGHPUT_RU_STEP: u32 = 100;

/// The lowest autoscale maximum, and the step of all others.
pub const THROUGHPUT_AUTOSCALE_RU_MIN: u32 = 1000;

/// Request units per second one can provision without asking: the service's default quota.
pub const THROUGHPUT_RU_MAX: u32 = 1_000_000;

/// Request units per second for which a new container gets one more partition. Clients' tests know
/// the number.
pub const INITIAL_PARTITION_RU: u32 = 6000;

/// Request units per second of one partition: the service's limit. A container with more has more
/// partitions.
pub const PARTITION_RU_MAX: u32 = 10_000;

/// Throughput buckets of one container: the service's limit.
pub const THROUGHPUT_BUCKETS_MAX: usize = 5;

/// Request units per second of a container without a partition key: the service's limit, as it
/// cannot be divided.
pub const FIXED_CONTAINER_RU_MAX: u32 = 10_000;

/// Bytes of all items of a container without a partition key: the service's limit.
pub const FIXED_CONTAINER_BYTES_MAX: u64 = 10 * 1024 * 1024 * 1024;

/// Containers that may share the throughput of a database before it needs more for each.
pub const SHARED_CONTAINERS_INCLUDED: usize = 25;

/// Bytes of one partition at which it is split: the service's limit.
pub const PARTITION_BYTES_MAX: u64 = 50 * 1024 * 1024 * 1024;

/// Bytes of all items under one partition key: the service's limit.
pub const LOGICAL_PARTITION_BYTES_MAX: u64 = 20 * 1024 * 1024 * 1024;

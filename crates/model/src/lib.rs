//! The data model: values, documents, ids, keys, and the policies of containers.
//!
//! Everything here is pure: no IO, no clock, no randomness but what is handed in. All other crates
//! speak in these words.
//!
//! # Glossary
//!
//! *account › database › container › item*
//!
//! - **Item**: what users store. Its *document* is its JSON text.
//! - **Partition key**: the value or values at the container's key paths.
//! - **Logical partition**: all items with one partition key.
//! - **EPK**: the effective partition key, the hash that orders logical partitions.
//! - **Partition** (physical): one half-open EPK range of one container, with one line of LSNs and
//!   one share of the throughput.
//! - **LSN**: the sequence number of a commit in its partition.
//! - **Rid**: the resource id that the system gives, as opposed to the name that users give.
//! - **Charge**: the request units (RU) of one request. **Usage**: the counts it is computed from.
//! - **Feed**: the change feed.
//! - **Door**: a protocol. Its synonyms (collection, document, shard key, graph, table, entity)
//!   live only inside it.

pub mod binary_json;
pub mod clock;
pub mod consistency;
pub mod document;
pub mod epk;
pub mod error;
pub mod id;
pub mod json;
pub mod keycode;
pub mod limits;
pub mod link;
pub mod memory;
mod murmur;
pub mod partition_key;
pub mod patch;
pub mod path;
pub mod policy;
pub mod usage;
pub mod value;

pub use clock::{Clock, Entropy, FixedClock, NoThreads, SeededEntropy, ShiftedClock, Threads};
pub use consistency::Consistency;
pub use document::{
    Document, Leaf, MemberName, Node, Raw, RawKind, SYSTEM_NAMES, Scalar, Step, SystemProperties,
    UNINDEXED_NAMES, stamp, unstamp, with_lsn,
};
pub use epk::{Epk, EpkRange, Portion};
pub use error::{Error, ErrorKind, Result};
pub use id::{
    ContainerRid, DatabaseRid, EncryptionKeyRid, Epoch, Etag, ItemRid, Lsn, OfferRid,
    PermissionRid, RangeRid, ScriptKind, ScriptRid, UserRid, check_item_id, check_resource_name,
};
pub use json::{JsonError, check_names, compact_array, compact_object, write_string};
pub use link::{ContainerLink, LinkedResource};
pub use memory::{MemoryBudget, MemoryFigures, MemoryShare, MemoryUse, Reservation};
pub use murmur::{murmur3_128, murmur3_128_seeded};
pub use partition_key::{
    HashVersion, KEY_MISMATCH, KeyKind, KeyPart, KeyWriting, PartitionKey, PartitionKeyDefinition,
    PartitionKeyHeader,
};
pub use patch::{Patch, PatchAction, PatchOperation, Pointer};
pub use path::{IndexEnd, IndexPath, IndexStep, PropertyPath};
pub use policy::{
    BoundingBox, ChangeFeedPolicy, ClientEncryptionPolicy, CompositeIndex, CompositePath,
    ComputedProperty, ConflictResolution, ContainerDefinition, EncryptedPath, FullTextPath,
    FullTextPolicy, Geospatial, IndexingMode, IndexingPolicy, Language, Quantizer, SpatialIndex,
    SpatialType, Throughput, ThroughputBucket, UniqueKey, VectorDistance, VectorElement,
    VectorEmbedding, VectorEmbeddingPolicy, VectorIndex, VectorIndexKind,
};
pub use usage::{Charge, Usage};
pub use value::{Number, Object, Value};

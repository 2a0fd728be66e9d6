//! Container definitions: everything a user may set on a container, checked and completed.
//!
//! A [`ContainerDefinition`] is made from the body of a create or replace request and is complete
//! from then on: what the user left out holds the service's default, and what could not work has
//! been refused with the name of the offending member. [`ContainerDefinition::to_value`] writes it
//! as clients see it, [`ContainerDefinition::from_stored`] reads that again.
//!
//! Members we do not know are ignored, as the service does, and so are the system properties that
//! clients send back after a read. A preview feature that would change what the container means
//! (a global secondary index, a materialized view) is refused instead.
//!
//! Each policy has its own file; `shape` holds the type checks they share.

mod change_feed;
mod composite;
mod computed;
mod conflict;
mod coverage;
mod encryption;
mod full_text;
mod geospatial;
mod indexing;
pub(crate) mod shape;
mod spatial;
mod throughput;
mod ttl;
mod unique;
mod vector;

pub use change_feed::ChangeFeedPolicy;
pub use composite::{CompositeIndex, CompositePath};
pub use computed::ComputedProperty;
pub use conflict::ConflictResolution;
pub use encryption::{ClientEncryptionPolicy, EncryptedPath};
pub use full_text::{FullTextPath, FullTextPolicy, Language};
pub use geospatial::Geospatial;
pub use indexing::{IndexingMode, IndexingPolicy};
pub use spatial::{BoundingBox, SpatialIndex, SpatialType};
pub use throughput::{Throughput, ThroughputBucket};
pub use unique::UniqueKey;
pub use vector::{
    Quantizer, VectorDistance, VectorElement, VectorEmbedding, VectorEmbeddingPolicy, VectorIndex,
    VectorIndexKind,
};

use crate::error::{Error, Result};
use crate::id::check_resource_name;
use crate::partition_key::PartitionKeyDefinition;
use crate::value::{Object, Value};

/// The service's words for a member of the wrong shape; clients look for them.
pub(crate) const INVALID_INPUT: &str = "One of the specified inputs is invalid";

/// Everything a user may set on a container.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerDefinition {
    /// The name users give: the member `id`.
    pub name: String,
    /// The partition key.
    pub partition_key: PartitionKeyDefinition,
    /// What is indexed.
    pub indexing: IndexingPolicy,
    /// What must be unique within a logical partition.
    pub unique_keys: Vec<UniqueKey>,
    /// When items expire: `None` never, -1 when they say so, else after so many seconds.
    pub default_ttl: Option<i32>,
    /// The time to live in an analytical store: kept and shown, there is no such store.
    pub analytical_ttl: Option<i32>,
    /// How conflicts between regions would be resolved.
    pub conflict_resolution: ConflictResolution,
    /// The meaning of coordinates.
    pub geospatial: Geospatial,
    /// What clients encrypt.
    pub client_encryption: Option<ClientEncryptionPolicy>,
    /// How long the change feed keeps all versions.
    pub change_feed: Option<ChangeFeedPolicy>,
    /// Properties that queries compute.
    pub computed_properties: Vec<ComputedProperty>,
    /// The vectors in items.
    pub vector_embeddings: Option<VectorEmbeddingPolicy>,
    /// The texts in items.
    pub full_text: Option<FullTextPolicy>,
}

impl ContainerDefinition {
    /// For so many minutes the change feed keeps all versions; 0: the latest only.
    pub fn retention_minutes(&self) -> u32 {
        self.change_feed.map_or(0, |policy| policy.retention_minutes)
    }

    /// The definition in the body of a create request. Without a partition key, the container gets
    /// a system key unless one is required.
    pub fn create(body: &Value, partition_key_required: bool) -> Result<ContainerDefinition> {
        let mut definition = ContainerDefinition::read(body, partition_key_required)?;
        definition.partition_key.check_new()?;
        definition.indexing = definition.indexing.made_automatic();
        Ok(definition)
    }

    fn read(body: &Value, partition_key_required: bool) -> Result<ContainerDefinition> {
        let body = container_object(body)?;
        let name = parse_name(body)?;
        let partition_key = match shape::present(body, "partitionKey") {
            Some(value) => PartitionKeyDefinition::parse(value)?,
            None if partition_key_required => {
                return Err(Error::bad_request(
                    "A container needs the member 'partitionKey', for example \
                     {\"paths\":[\"/pk\"],\"kind\":\"Hash\",\"version\":2}",
                ));
            }
            None => PartitionKeyDefinition::system(),
        };
        let mut definition = parse_changeable(body, name, partition_key)?;
        if let Some(value) = shape::present(body, "uniqueKeyPolicy") {
            definition.unique_keys = unique::parse(value)?;
        }
        if let Some(value) = shape::present(body, "conflictResolutionPolicy") {
            definition.conflict_resolution = ConflictResolution::parse(value)?;
        }
        if let Some(value) = shape::present(body, "clientEncryptionPolicy") {
            definition.client_encryption = Some(ClientEncryptionPolicy::parse(value)?);
        }
        definition.check()?;
        Ok(definition)
    }

    /// The definition after a replace request.
    ///
    /// The body states the whole container anew: an absent member takes its default. Only what
    /// cannot change may be left out without effect: unique keys and the conflict resolution, which
    /// not every SDK sends again.
    pub fn replace(&self, body: &Value) -> Result<ContainerDefinition> {
        let body = container_object(body)?;
        let name = parse_name(body)?;
        if name != self.name {
            return Err(Error::bad_request(format!(
                "The id of a container cannot be changed: it is '{}', the request says '{name}'",
                self.name
            )));
        }
        self.check_same_partition_key(body)?;
        let mut new = parse_changeable(body, name, self.partition_key.clone())?;
        new.indexing = new.indexing.made_automatic();
        new.unique_keys = self.replaced_unique_keys(body)?;
        new.conflict_resolution = match shape::present(body, "conflictResolutionPolicy") {
            None => self.conflict_resolution.clone(),
            Some(value) => self.conflict_resolution.replace(ConflictResolution::parse(value)?)?,
        };
        new.client_encryption = self.replaced_client_encryption(body)?;
        new.check()?;
        vector::check_replaced_indexes(self.indexing.vector(), new.indexing.vector())?;
        vector::check_replaced_embeddings(
            self.vector_embeddings.as_ref(),
            new.vector_embeddings.as_ref(),
        )?;
        Ok(new)
    }

    /// The definition as clients see it: with defaults, without system properties.
    pub fn to_value(&self) -> Value {
        let mut object = Object::new()
            .with("id", self.name.as_str())
            .with("indexingPolicy", self.indexing.to_value())
            .with("partitionKey", self.partition_key.to_value());
        let mut optional = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                object.insert(name, value);
            }
        };
        let computed = &self.computed_properties;
        let some = |value: Value| Some(value);
        optional("defaultTtl", self.default_ttl.map(Value::from));
        optional("analyticalStorageTtl", self.analytical_ttl.map(Value::from));
        optional("uniqueKeyPolicy", some(unique::to_value(&self.unique_keys)));
        optional("conflictResolutionPolicy", some(self.conflict_resolution.to_value()));
        optional("geospatialConfig", some(self.geospatial.to_value()));
        optional(
            "clientEncryptionPolicy",
            self.client_encryption.as_ref().map(ClientEncryptionPolicy::to_value),
        );
        optional("changeFeedPolicy", self.change_feed.map(ChangeFeedPolicy::to_value));
        // Clients take the absence of the member for the absence of computed properties.
        optional(
            "computedProperties",
            (!computed.is_empty()).then(|| computed::to_value(computed)),
        );
        optional(
            "vectorEmbeddingPolicy",
            self.vector_embeddings.as_ref().map(VectorEmbeddingPolicy::to_value),
        );
        optional("fullTextPolicy", self.full_text.as_ref().map(FullTextPolicy::to_value));
        Value::from(object)
    }

    /// Reads what [`to_value`](Self::to_value) wrote.
    pub fn from_stored(value: &Value) -> Result<ContainerDefinition> {
        ContainerDefinition::read(value, true)
    }

    /// What no member can check alone.
    fn check(&self) -> Result<()> {
        spatial::check_bounds(self.indexing.spatial(), self.geospatial)?;
        vector::check_indexes(self.indexing.vector(), self.vector_embeddings.as_ref())?;
        full_text::check_indexes(self.indexing.full_text(), self.full_text.as_ref())?;
        if self.default_ttl.is_some() && self.indexing.mode() == IndexingMode::None {
            return Err(Error::bad_request(
                "'defaultTtl' needs an index: set 'indexingMode' to consistent, or leave \
                 'defaultTtl' out",
            ));
        }
        Ok(())
    }

    /// A replace has to name the partition key as it is. A kind or version it leaves out counts as
    /// unchanged, not as the default of a new container.
    fn check_same_partition_key(&self, body: &Object) -> Result<()> {
        // Clients from before there were system keys do not see this one.
        if self.partition_key.is_keyless() && shape::present(body, "partitionKey").is_none() {
            return Ok(());
        }
        let given = shape::required(body, "partitionKey", "Replacing a container")?;
        let mut completed = shape::object(given, "partitionKey")?.clone();
        if let Value::Object(own) = self.partition_key.to_value() {
            for (name, value) in own {
                if shape::present(&completed, &name).is_none() {
                    completed.insert(name, value);
                }
            }
        }
        let parsed = PartitionKeyDefinition::parse(&Value::from(completed))?;
        if parsed.is_same(&self.partition_key) {
            return Ok(());
        }
        Err(Error::bad_request(format!(
            "The partition key of a container cannot be changed: it is {}, the request says \
             {given}",
            self.partition_key.to_value()
        )))
    }

    fn replaced_unique_keys(&self, body: &Object) -> Result<Vec<UniqueKey>> {
        match shape::present(body, "uniqueKeyPolicy") {
            Some(value) if unique::parse(value)? != self.unique_keys => Err(Error::bad_request(
                "The unique keys of a container cannot be changed; leave 'uniqueKeyPolicy' as it \
                 is",
            )),
            _ => Ok(self.unique_keys.clone()),
        }
    }

    fn replaced_client_encryption(&self, body: &Object) -> Result<Option<ClientEncryptionPolicy>> {
        let given = shape::present(body, "clientEncryptionPolicy");
        let given = given.map(ClientEncryptionPolicy::parse).transpose()?;
        if given == self.client_encryption {
            return Ok(given);
        }
        Err(Error::bad_request(
            "The client encryption of a container cannot be changed; leave \
             'clientEncryptionPolicy' as it is",
        ))
    }
}

/// The body as an object without features we would have to ignore.
fn container_object(body: &Value) -> Result<&Object> {
    let body = shape::object(body, "the container")?;
    for name in ["globalSecondaryIndexDefinition", "materializedViewDefinition"] {
        if shape::present(body, name).is_some() {
            return Err(Error::unsupported(format!("'{name}' is not supported")));
        }
    }
    Ok(body)
}

fn parse_name(body: &Object) -> Result<String> {
    let name = shape::string(shape::required(body, "id", "A container")?, "id")?;
    check_resource_name("container", name)?;
    Ok(name.to_owned())
}

/// The members that every create and replace states anew.
fn parse_changeable(
    body: &Object,
    name: String,
    partition_key: PartitionKeyDefinition,
) -> Result<ContainerDefinition> {
    // The languages of texts are looked at before the paths of their indexes.
    let full_text = optional(body, "fullTextPolicy", FullTextPolicy::parse)?;
    let default_ttl = ttl::parse_default(body)?;
    ttl::check_property_path(body, default_ttl)?;
    Ok(ContainerDefinition {
        name,
        partition_key,
        indexing: optional(body, "indexingPolicy", IndexingPolicy::parse)?.unwrap_or_default(),
        unique_keys: Vec::new(),
        default_ttl,
        analytical_ttl: ttl::parse_analytical(body)?,
        conflict_resolution: ConflictResolution::default(),
        geospatial: optional(body, "geospatialConfig", Geospatial::parse)?.unwrap_or_default(),
        client_encryption: None,
        change_feed: optional(body, "changeFeedPolicy", ChangeFeedPolicy::parse)?,
        computed_properties: optional(body, "computedProperties", computed::parse)?
            .unwrap_or_default(),
        vector_embeddings: optional(body, "vectorEmbeddingPolicy", VectorEmbeddingPolicy::parse)?,
        full_text,
    })
}

fn optional<T>(
    body: &Object,
    name: &str,
    parse: impl Fn(&Value) -> Result<T>,
) -> Result<Option<T>> {
    shape::present(body, name).map(parse).transpose()
}

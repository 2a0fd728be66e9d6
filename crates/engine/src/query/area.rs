//! The part of a container that a request names.

use partita_model::{Epk, EpkRange, Error, KeyPart, PartitionKeyHeader, Result};

use crate::catalog::Container;
use crate::op::Scope;

/// The part of a container that a query is about.
pub(crate) struct Area {
    pub(crate) range: EpkRange,
    /// The partition key, or the beginning of one, that all items must have.
    pub(crate) only: Vec<KeyPart>,
}

/// The part that the request names.
pub(crate) fn area(container: &Container, scope: &Scope) -> Result<Area> {
    let Scope::PartitionKey(header) = scope else {
        return Ok(Area { range: scope_epks(container, scope)?, only: Vec::new() });
    };
    let definition = &container.definition.partition_key;
    // Clients without partition keys name the key of containers without one like this.
    let only = match header.0.as_slice() {
        [] if definition.system_key => vec![KeyPart::Undefined],
        parts => parts.to_vec(),
    };
    Ok(Area { range: definition.range_of(&PartitionKeyHeader(only.clone()))?, only })
}

/// The EPKs that a feed covers.
fn scope_epks(container: &Container, scope: &Scope) -> Result<EpkRange> {
    match scope {
        Scope::All => Ok(EpkRange::all()),
        Scope::PartitionKey(header) => {
            container.definition.partition_key.range_of(&named_key(container, header))
        }
        Scope::Range { id, within } => {
            let partition = container.partitions.iter().find(|p| p.range_id.to_string() == *id);
            let partition = partition.ok_or_else(|| gone(id))?;
            match within {
                None => Ok(partition.epks.clone()),
                Some(within) => Ok(partition
                    .epks
                    .intersect(within)
                    .unwrap_or(EpkRange { min: Epk::max(), max: Epk::max() })),
            }
        }
        Scope::Epks(range) => {
            let touched = container.partitions.iter().filter(|p| p.epks.overlaps(range)).count();
            if touched > 1 {
                return Err(Error::range_gone(format!(
                    "The requested EPK range covers {touched} partition key ranges: read the ranges \
                     and ask each of them"
                )));
            }
            Ok(range.clone())
        }
    }
}

/// The key that a feed is restricted to. In a container without a key, none is one: that of the
/// items without a value for the system's.
fn named_key(container: &Container, header: &PartitionKeyHeader) -> PartitionKeyHeader {
    match header.0.is_empty() && container.definition.partition_key.system_key {
        true => PartitionKeyHeader(vec![KeyPart::Undefined]),
        false => header.clone(),
    }
}

pub(crate) fn gone(id: &str) -> Error {
    Error::range_gone(format!(
        "The requested partition key range '{id}' does not exist, or no longer: read the partition \
         key ranges again"
    ))
}

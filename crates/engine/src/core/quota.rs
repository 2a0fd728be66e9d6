//! How large a logical partition may become.
//!
//! A write that would take its logical partition beyond the limit is refused; deleting, and writing
//! something smaller, stay possible. The size is the logical partition's counter. It is read only
//! when it matters: while the whole physical partition is far below the limit, none of its logical
//! partitions can be near it. Writers that pass the check at the same time may together exceed the
//! limit by what they write.

use partita_model::{Error, ErrorKind, Result, limits};
use partita_storage::{Snapshot, Space, counter};

use super::Core;
use crate::catalog::Container;
use crate::changeset::ItemPlace;
use crate::keys::{self, Total};

/// From this share of its limit on a logical partition is watched, in percent.
const WATCHED_PERCENT: u64 = 80;

impl Core {
    /// Refuses a write by which a logical partition would grow too large.
    pub(crate) fn check_quota(
        &self,
        place: &ItemPlace,
        view: &dyn Snapshot,
        grows_by: i64,
    ) -> Result<()> {
        let ItemPlace { container, epk, key, .. } = place;
        let partition = place.live();
        let bytes_max = self.logical_bytes_max(container);
        let watched = bytes_max / 100 * WATCHED_PERCENT;
        let total = || -> Result<i64> {
            let record = view.get(Space::Meta, &keys::total(Total::Bytes))?;
            Ok(record.map_or(Ok(0), |record| counter(&record.value))?)
        };
        let whole = partition.meter.bytes_or(total)?;
        if grows_by <= 0 || bytes(whole + grows_by) < watched {
            return Ok(());
        }
        let head = view.get(Space::Meta, &keys::head(epk, key))?;
        let head = head.map_or(Ok(0), |record| counter(&record.value))?;
        let after = bytes(keys::head_parts(head).1 + grows_by);
        if after >= watched {
            partition.meter.note_large(epk, key, after.min(bytes_max));
        }
        if after > bytes_max {
            return Err(Error::new(
                ErrorKind::LogicalPartitionFull,
                format!(
                    "Partition key reached maximum size of {}. Learn more: \
                     https://aka.ms/CosmosDB/sql/errors/full-pk",
                    readable(bytes_max)
                ),
            ));
        }
        Ok(())
    }

    /// Bytes that a logical partition of a container may have.
    pub(crate) fn logical_bytes_max(&self, container: &Container) -> u64 {
        let bytes_max = self.settings.partitions.logical_bytes_max;
        if container.definition.partition_key.is_keyless() {
            bytes_max.min(limits::FIXED_CONTAINER_BYTES_MAX)
        } else {
            bytes_max
        }
    }
}

fn bytes(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

/// `20 GB`, `1 MB`, `1234567 bytes`: the largest unit that says it exactly.
fn readable(bytes: u64) -> String {
    for (unit, name) in [(1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")] {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{} {name}", bytes / unit);
        }
    }
    format!("{bytes} bytes")
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn sizes_are_told_in_the_largest_unit_that_fits() {
        let told = [20 << 30, 1 << 20, 1_500 << 10, 1_000_000].map(readable);
        assert_eq!(told, ["20 GB", "1 MB", "1500 KB", "1000000 bytes"]);
    }
}

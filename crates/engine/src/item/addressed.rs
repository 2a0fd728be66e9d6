//! Which item a request means, without touching it.

use partita_model::{PartitionKey, Result};

use super::Items;
use crate::context::Work;
use crate::op::ItemPath;

impl Items {
    /// The id and partition key that a path means. A resource id is looked up, so the answer is the
    /// item that the operation itself would find.
    pub(crate) fn addressed_item(
        &self,
        work: &mut Work<'_>,
        path: &ItemPath,
    ) -> Result<(String, PartitionKey)> {
        let place = self.place(work, path)?;
        Ok((place.id, place.key))
    }
}

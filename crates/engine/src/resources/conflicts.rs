//! The conflicts feed. Conflicts come from writing in several regions at once; there is one, so the
//! feed of every container is empty, and no conflict can be found.

use partita_model::{Error, Result};

use super::Resources;
use crate::context::Work;
use crate::op::{ContainerPath, Outcome};

impl Resources {
    pub(crate) fn list_conflicts(
        &self,
        work: &mut Work<'_>,
        path: &ContainerPath,
    ) -> Result<Outcome> {
        work.usage.metadata_reads = 1;
        self.core.item_container(work, path)?;
        Ok(Outcome::NoConflicts)
    }

    pub(crate) fn find_conflict(
        &self,
        work: &mut Work<'_>,
        path: &ContainerPath,
        id: &str,
    ) -> Result<Outcome> {
        work.usage.metadata_reads = 1;
        self.core.item_container(work, path)?;
        Err(Error::not_found(format!("Resource Not Found: there is no conflict '{id}'")))
    }
}

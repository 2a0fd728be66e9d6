//! How far the walks over containers are. In memory: after a restart a walk begins anew and runs
//! quickly over what was done.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use partita_model::{ContainerRid, Epoch};

use crate::catalog::Container;

/// A walk over all items of a container, partition by partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pass {
    /// The policy that it brings items to.
    pub(super) version: u32,
    /// The set of partitions that it walks over.
    epoch: Epoch,
    /// Index of the partition it is in; the number of partitions when it is through.
    pub(super) partition: usize,
    /// The last item that is done in that partition.
    pub(super) after: Option<Vec<u8>>,
    /// Items that were there when it began, and how many of them are behind it.
    pub(super) total: u64,
    pub(super) walked: u64,
}

impl Pass {
    pub(super) fn new(container: &Container, total: u64) -> Pass {
        Pass {
            version: container.policies.current,
            epoch: container.epoch,
            partition: 0,
            after: None,
            total,
            walked: 0,
        }
    }

    /// Is it about the container as it is now?
    fn fits(&self, container: &Container) -> bool {
        self.version == container.policies.current && self.epoch == container.epoch
    }

    /// 100 is for those who have finished.
    fn percent(&self) -> u8 {
        let percent = self.walked.saturating_mul(100).checked_div(self.total).unwrap_or(0);
        u8::try_from(percent.min(99)).unwrap_or(99)
    }
}

/// The walks under way.
#[derive(Debug, Default)]
pub(super) struct Passes(Mutex<HashMap<ContainerRid, Pass>>);

impl Passes {
    fn lock(&self) -> MutexGuard<'_, HashMap<ContainerRid, Pass>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the walks over all other containers.
    pub(super) fn keep(&self, containers: &[Arc<Container>]) {
        let is_kept = |rid: &ContainerRid| containers.iter().any(|container| container.rid == *rid);
        self.lock().retain(|rid, _| is_kept(rid));
    }

    /// Where the walk over a container goes on.
    pub(super) fn get(&self, container: &Container) -> Option<Pass> {
        self.lock().get(&container.rid).filter(|pass| pass.fits(container)).cloned()
    }

    pub(super) fn put(&self, container: &Container, pass: Pass) {
        self.lock().insert(container.rid, pass);
    }

    pub(super) fn progress(&self, container: &Container) -> u8 {
        self.get(container).map_or(0, |pass| pass.percent())
    }
}

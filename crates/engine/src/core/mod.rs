//! What all operations share, and nothing that is one.
//!
//! [`Core`] is the store, the catalog's copy in memory, clock and chance. On it stand the services
//! (`item/`, `query/`, `changes/`, `moves/`, `maintenance/`, `resources/`, `describe/`), each with
//! what it keeps of its own, and on them the `Database`. Here is what every one of them begins or
//! ends with: which container does a request mean and may it be meant (`mod.rs`), is the partition
//! to be asked (`admission.rs`), is the logical partition full (`quota.rs`), has the client seen
//! more than there is (`session.rs`), a change of the catalog (`change.rs`), and the bell that
//! wakes the background (`doorbell.rs`).

mod admission;
mod change;
mod doorbell;
mod quota;
mod session;

use std::sync::Arc;

use partita_model::{
    Clock, Consistency, ContainerRid, Entropy, Error, ErrorKind, Etag, Lsn, Result, ScriptKind,
};
use partita_storage::{Snapshot, Store};

pub(crate) use self::admission::{Debit, Share, is_for_what_is_there};
use self::change::fresh_etag;
use self::doorbell::Doorbell;
use crate::access;
use crate::catalog::{Budgets, CatalogStore, Container, Partition, Resolved};
use crate::context::{Context, Work};
use crate::op::{ContainerPath, Served};
use crate::script_runtime::ScriptRuntime;
use crate::settings::EngineSettings;

/// What the services of a database have in common.
pub(crate) struct Core {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) catalog: CatalogStore,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: EngineSettings,
    /// Tells this database from others that are open on the same store.
    pub(crate) process: u64,
    pub(crate) doorbell: Doorbell,
}

impl Core {
    /// Opens the catalog that a store holds, or makes one in an empty store.
    pub(crate) fn open(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        settings: EngineSettings,
    ) -> Result<Core> {
        let budgets = Budgets::new(settings.partitions.ru_max);
        let (kept, ticking) = (Arc::clone(&store), Arc::clone(&clock));
        let shown = settings.default_throughput;
        let catalog = CatalogStore::open(kept, ticking, budgets, shown, &*entropy)?;
        let process = entropy.next_u64();
        let doorbell = Doorbell::default();
        Ok(Core { store, catalog, entropy, clock, settings, process, doorbell })
    }

    /// Resolves the container of an operation on what is in it, and checks that it is the one the
    /// client means.
    pub(crate) fn item_container(
        &self,
        work: &mut Work<'_>,
        path: &ContainerPath,
    ) -> Result<Resolved> {
        let resolved = self.catalog.current().parent_container(path)?;
        work.container = Some(Arc::clone(&resolved.container));
        self.check_intended(work, &resolved.container)?;
        Ok(resolved)
    }

    /// Opens a partition as of now and notes how far it is, so that also an error can tell.
    pub(crate) fn open_partition(
        &self,
        work: &mut Work<'_>,
        partition: &Partition,
    ) -> Result<Box<dyn Snapshot>> {
        let snapshot = self.store.snapshot(partition.id)?;
        let served = Served { range_id: partition.range_id, lsn: snapshot.lsn(), item_lsn: None };
        work.served = Some(served);
        Ok(snapshot)
    }

    /// Fails if a client under session consistency has seen more of the partition than this.
    pub(crate) fn check_session(
        &self,
        work: &Work<'_>,
        partition: &Partition,
        lsn: Lsn,
    ) -> Result<()> {
        match &work.context.session {
            Some(token) if self.consistency(work.context) == Consistency::Session => {
                session::check(token, partition, lsn)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Refuses a write whose session token makes no sense, before anything is looked at.
    pub(crate) fn check_session_form(&self, context: &Context) -> Result<()> {
        match &context.session {
            Some(token) if self.consistency(context) == Consistency::Session => {
                session::check_form(token)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// For how many minutes a container's feed keeps all versions; 0: it does not.
    pub(crate) fn retention_minutes(&self, container: &Container) -> u32 {
        match container.definition.retention_minutes() {
            0 => self.settings.change_feed.retention_minutes,
            minutes => minutes,
        }
    }

    /// Who runs scripts of this kind.
    pub(crate) fn script_runtime(&self, kind: ScriptKind) -> Result<&dyn ScriptRuntime> {
        self.settings.scripts.runtime.as_deref().ok_or_else(|| {
            Error::unsupported(format!("Not supported by this server yet: {}s.", kind.name()))
        })
    }

    /// The consistency that a request is served with.
    pub(crate) fn consistency(&self, context: &Context) -> Consistency {
        context.consistency.unwrap_or(self.settings.default_consistency)
    }

    pub(crate) fn now_seconds(&self) -> u64 {
        self.clock.unix_millis() / 1_000
    }

    /// What every written resource gets: a new ETag and the time.
    pub(crate) fn fresh_stamp(&self) -> (Etag, u64) {
        let ts = self.now_seconds();
        (fresh_etag(&*self.entropy, ts), ts)
    }

    /// Refuses a request whose client knows the container under another resource id: the name was
    /// given to a new container since, and the client's idea of keys and ranges is outdated.
    pub(crate) fn check_intended(&self, work: &Work<'_>, container: &Container) -> Result<()> {
        access::check_container(&work.context.access, container)?;
        match &work.context.intended_container_rid {
            Some(rid) if ContainerRid::parse(rid) != Some(container.rid) => {
                return Err(Error::container_rid_mismatch(format!(
                    "The container's resource id is {}, not {rid} as the request says: it was \
                     re-created under the same name",
                    container.rid
                )));
            }
            Some(_) | None => {}
        }
        match work.context.range_container_rid {
            Some(rid) if rid != container.rid => Err(Error::new(
                ErrorKind::NameStale,
                format!(
                    "The container's resource id is {}, and the partition key range is named as \
                     one of {rid}: look the container's name up again",
                    container.rid
                ),
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// A container as it is now, if it is still there.
    pub(crate) fn container_by_rid(&self, rid: ContainerRid) -> Option<Arc<Container>> {
        self.catalog.current().container_by_rid(rid).map(Arc::clone)
    }

    /// A partition that vanishes under a request means that its container was deleted.
    pub(crate) fn explain(&self, work: &Work<'_>, error: Error) -> Error {
        let Some(container) = &work.container else { return error };
        if error.kind != ErrorKind::RetryWith {
            return error;
        }
        if self.container_by_rid(container.rid).is_some() {
            return error;
        }
        Error::owner_not_found(format!(
            "Resource Not Found: the container '{}' was deleted",
            container.definition.name
        ))
    }
}

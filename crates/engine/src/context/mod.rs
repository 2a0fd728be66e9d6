//! What travels with every operation: who asks, and what they have seen.

mod supervision;
mod tally;

use std::sync::Arc;

use partita_model::{Charge, Consistency, ContainerRid, MemoryShare, Reservation, Usage};
use partita_storage::PartitionId;

pub(crate) use self::supervision::Supervision;
pub use self::supervision::Supervisor;
pub(crate) use self::tally::{Spent, Tally};
use crate::access::Access;
use crate::catalog::Container;
use crate::op::Served;
use crate::throughput::Demand;

/// The circumstances of one operation, filled in by the door.
#[derive(Clone, Debug, Default)]
pub struct Context {
    pub access: Access,
    /// None: the account's default.
    pub consistency: Option<Consistency>,
    /// The client's session token, as sent.
    pub session: Option<String>,
    /// The container that the client believes it talks to: a name may have been given to another
    /// container since.
    pub intended_container_rid: Option<String>,
    /// The container whose ranges the client's range id is one of, if it says so.
    pub range_container_rid: Option<ContainerRid>,
    /// How the request is limited when throughput is short.
    pub demand: Demand,
    /// A query's limit of time, if it is to be lower than the database's.
    pub query_millis_max: Option<u64>,
    /// Who may end it early, or have it wait. None: nobody.
    pub supervisor: Option<Arc<dyn Supervisor>>,
}

/// An operation under way: its context, what it has used, and what its reply must tell even if it
/// fails.
#[derive(Debug)]
pub(crate) struct Work<'a> {
    pub(crate) context: &'a Context,
    pub(crate) usage: Usage,
    /// The charges of the operations that it is made of.
    pub(crate) parts: Charge,
    pub(crate) container: Option<Arc<Container>>,
    pub(crate) served: Option<Served>,
    /// The partitions that it was admitted to, if it may ask several.
    pub(crate) admitted: Vec<PartitionId>,
    /// What its scripts logged.
    pub(crate) log: Option<String>,
    /// What its queries did, if it is one.
    pub(crate) tally: Option<Arc<Tally>>,
    /// What its changes are held in until they are committed, if it is one of many.
    pub(crate) held_in: Option<MemoryShare>,
    /// What is reserved for what comes out.
    pub(crate) kept: Vec<Reservation>,
    /// There was no memory for them while others held theirs: nothing was done.
    pub(crate) lacks_memory: bool,
}

impl<'a> Work<'a> {
    pub(crate) fn new(context: &'a Context) -> Work<'a> {
        let (usage, parts) = (Usage::default(), Charge::default());
        let (container, served, admitted, log) = (None, None, Vec::new(), None);
        Work {
            context,
            usage,
            parts,
            container,
            served,
            admitted,
            log,
            tally: None,
            held_in: None,
            kept: Vec::new(),
            lacks_memory: false,
        }
    }
}

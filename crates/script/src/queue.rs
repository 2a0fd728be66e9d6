//! What a script asked for and did not get yet.
//!
//! An operation is queued with all that is needed to do it, and with what happens to its answer.
//! The queue is bounded in operations and bytes, since it lies outside of the script's heap; a
//! script is told that it is full in the same way as that its time is nearly over: the operation
//! is not accepted.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use partita_engine::{HostLink, HostTarget, Indexing};
use partita_model::Value;

use crate::bridge::SavedFunction;
use crate::transform::Transform;

const OPERATIONS_MAX: usize = 64 * 1024;
const BYTES_MAX: usize = 32 << 20;

/// An operation and what follows it.
pub(crate) struct Queued {
    pub(crate) operation: Operation,
    pub(crate) callback: Option<SavedFunction>,
}

/// What can be asked of a host.
pub(crate) enum Operation {
    Write {
        target: Target,
        document: String,
        indexing: Indexing,
        if_match: Option<String>,
    },
    Read {
        link: Link,
        if_none_match: Option<String>,
    },
    Delete {
        link: Link,
        if_match: Option<String>,
    },
    Query {
        text: Option<String>,
        parameters: Vec<(String, Value)>,
        bytes: usize,
        page: Page,
    },
    /// A query in JavaScript: all items, through these functions.
    Chain {
        steps: Vec<Transform>,
        page: Page,
    },
}

/// Which part of a query's rows is wanted.
pub(crate) struct Page {
    pub(crate) size: usize,
    pub(crate) continuation: Option<String>,
}

/// See [`HostTarget`].
pub(crate) enum Target {
    Create,
    Upsert,
    Replace(Link),
}

/// See [`HostLink`].
pub(crate) enum Link {
    Name(String),
    Rid(String),
}

impl Target {
    pub(crate) fn as_host(&self) -> HostTarget<'_> {
        match self {
            Target::Create => HostTarget::Create,
            Target::Upsert => HostTarget::Upsert,
            Target::Replace(link) => HostTarget::Replace(link.as_host()),
        }
    }

    /// The status of a success. An upsert is told apart by nobody here, so it is a plain 200.
    pub(crate) fn status(&self) -> u16 {
        if let Target::Create = self { 201 } else { 200 }
    }
}

impl Link {
    pub(crate) fn as_host(&self) -> HostLink<'_> {
        match self {
            Link::Name(id) => HostLink::Name(id),
            Link::Rid(rid) => HostLink::Rid(rid),
        }
    }
}

impl Operation {
    /// About as many bytes as it takes.
    fn bytes(&self) -> usize {
        size_of::<Queued>()
            + match self {
                Operation::Write { document, .. } => document.len(),
                Operation::Query { bytes, .. } => *bytes,
                Operation::Read { .. } | Operation::Delete { .. } | Operation::Chain { .. } => 0,
            }
    }
}

/// The operations in their order.
#[derive(Default)]
pub(crate) struct Queue {
    waiting: RefCell<VecDeque<Queued>>,
    bytes: Cell<usize>,
}

impl Queue {
    /// Is there room for one more?
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.borrow().len() < OPERATIONS_MAX && self.bytes.get() < BYTES_MAX
    }

    pub(crate) fn push(&self, queued: Queued) {
        self.bytes.set(self.bytes.get() + queued.operation.bytes());
        self.waiting.borrow_mut().push_back(queued);
    }

    pub(crate) fn pop(&self) -> Option<Queued> {
        let queued = self.waiting.borrow_mut().pop_front()?;
        self.bytes.set(self.bytes.get().saturating_sub(queued.operation.bytes()));
        Some(queued)
    }

    /// Forgets everything, so that nothing refers to a heap that is about to go.
    pub(crate) fn clear(&self) {
        let waiting = self.waiting.take();
        drop(waiting);
    }
}

//! What travels with every operation: who asks, and what they have seen.

use std::sync::Arc;

use partita_model::{Consistency, Usage};

use crate::catalog::Container;
use crate::op::Served;

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
}

/// What the caller's credentials allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    #[default]
    ReadWrite,
    ReadOnly,
}

/// An operation under way: its context, what it has used, and what its reply must tell even if it
/// fails.
#[derive(Debug)]
pub(crate) struct Work<'a> {
    pub(crate) context: &'a Context,
    pub(crate) usage: Usage,
    pub(crate) container: Option<Arc<Container>>,
    pub(crate) served: Option<Served>,
}

impl<'a> Work<'a> {
    pub(crate) fn new(context: &'a Context) -> Work<'a> {
        Work { context, usage: Usage::default(), container: None, served: None }
    }
}

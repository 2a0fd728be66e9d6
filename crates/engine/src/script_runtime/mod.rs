//! What the database asks of whoever can run scripts, and what scripts may ask of the database.
//!
//! The engine knows no JavaScript. It keeps the scripts of a container, decides when one runs and
//! what it may touch, and gives each run a [`ScriptHost`]: a transaction on one logical partition.
//! A [`ScriptRuntime`] runs the text and turns what it does into calls of the host. It is told
//! nothing that a script must not know, and a script reaches nothing that its host does not offer.
//!
//! A run may be repeated: when another commit was faster, the engine begins anew with a new host.
//! So a runtime must have no memory of its runs but what it compiled.

mod overruns;

use std::sync::Arc;

use partita_model::{Result, Value};
use partita_query::Functions;

pub(crate) use self::overruns::Overruns;
use crate::record::Indexing;

/// Runs scripts. Shared by all threads; one run stays on one thread.
pub trait ScriptRuntime: Send + Sync {
    /// Says (400) what is wrong with a text that is not a script. Such a text can be stored, and
    /// cannot run.
    fn check(&self, script: &Script) -> Result<()>;

    /// Runs a stored procedure or trigger to its end. Whatever the script does, this returns soon
    /// after `call.millis_max`.
    fn run(&self, call: &ScriptCall<'_>, host: &mut dyn ScriptHost) -> ScriptEnd;

    /// The user-defined functions that a query calls, ready to be called on any thread.
    fn functions(&self, functions: Vec<Script>) -> Arc<dyn Functions>;
}

/// A script as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The name it is called by; for messages and stack traces.
    pub name: String,
    pub source: Arc<str>,
    /// Different for every text that ever was: what a runtime may keep compiled texts under.
    pub version: u128,
}

/// One run of a script.
#[derive(Clone, Debug)]
pub struct ScriptCall<'a> {
    pub script: &'a Script,
    pub role: ScriptRole<'a>,
    /// Keep what the script logs.
    pub logs: bool,
    /// How long it may run. Shortly before, the host's operations are no longer accepted.
    pub millis_max: u64,
    /// The container's links, by resource ids (`dbs/…/colls/…/`) and by names.
    pub self_link: &'a str,
    pub alt_link: &'a str,
}

/// What a script runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptRole<'a> {
    /// The arguments are JSON: an array, or what the language's `apply` takes for one.
    Procedure { arguments: &'a str },
    /// Runs before a write and may change the document that is to be written. A delete has the item
    /// that is there, if there is one; what it makes of it is of no consequence.
    PreTrigger { operation: WriteKind, document: Option<&'a str> },
    /// Runs after a write and may change what the client is told. The document is that of the
    /// request, the answer the one that was stored; a delete has neither.
    PostTrigger { operation: WriteKind, document: Option<&'a str>, answer: Option<&'a str> },
}

/// The writes that triggers tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    Create,
    Upsert,
    Replace,
    Delete,
}

/// How a run ended.
#[derive(Debug)]
pub struct ScriptEnd {
    /// What the script made, as JSON text: a procedure its answer, a pre-trigger the document to be
    /// written, a post-trigger the answer. None: it set nothing, or what was there stays.
    pub result: Result<Option<String>>,
    /// What it logged, also when it failed.
    pub log: String,
}

/// What a running script can do: operations on the items of its logical partition, each on top of
/// those before it, all of them in one transaction. Errors are for the script to handle; they have
/// the kind that a client would get.
pub trait ScriptHost: Send {
    /// Writes a document; the stored one, with its system properties.
    fn write(&mut self, write: HostWrite<'_>) -> Result<HostItem>;

    /// None: the client has this version already.
    fn read(&mut self, item: HostLink<'_>, if_none_match: Option<&str>)
    -> Result<Option<HostItem>>;

    fn delete(&mut self, item: HostLink<'_>, if_match: Option<&str>) -> Result<()>;

    /// A page of a query; without a text, of all items.
    fn query(&mut self, query: HostQuery<'_>) -> Result<HostPage>;
}

/// How a script names an item: what follows `docs/` in a link below the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostLink<'a> {
    /// By id, in a link by names.
    Name(&'a str),
    /// By resource id, in a link by resource ids.
    Rid(&'a str),
}

/// A document that a script writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostWrite<'a> {
    pub target: HostTarget<'a>,
    /// JSON text.
    pub document: &'a str,
    pub indexing: Indexing,
    /// The ETag that the stored version must have.
    pub if_match: Option<&'a str>,
}

/// What becomes of a document that a script writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostTarget<'a> {
    /// A new item.
    Create,
    /// The item of its id, new or not.
    Upsert,
    /// The new version of this item.
    Replace(HostLink<'a>),
}

/// A stored document, with its system properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostItem {
    pub text: String,
}

/// A query of a script.
#[derive(Clone, Debug, PartialEq)]
pub struct HostQuery<'a> {
    /// None: all items.
    pub text: Option<&'a str>,
    /// Names with their `@`.
    pub parameters: &'a [(String, Value)],
    pub page_size: usize,
    pub continuation: Option<&'a str>,
}

/// A page of what a query found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostPage {
    /// JSON texts.
    pub rows: Vec<String>,
    pub continuation: Option<String>,
}

//! What is measured, for how long, with how many clients.

/// What is asked of the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Creates items.
    Write,
    /// Reads items by id and partition key.
    Read,
    /// Asks for some items of a partition key.
    Query,
    /// All three.
    Mixed,
}

impl Workload {
    pub fn name(self) -> &'static str {
        match self {
            Workload::Write => "write",
            Workload::Read => "read",
            Workload::Query => "query",
            Workload::Mixed => "mixed",
        }
    }

    /// Does it need items that are there before?
    pub(crate) fn needs_items(self) -> bool {
        self != Workload::Write
    }
}

/// When it is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Seconds(u64),
    Operations(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub database: String,
    pub container: String,
    /// Of the container, in request units per second; none: the account decides.
    pub throughput: Option<u32>,
    pub workload: Workload,
    /// Connections, each with one request at a time.
    pub clients: u16,
    pub limit: Limit,
    pub item_bytes: usize,
    /// Partition keys that items are spread over.
    pub keys: u64,
}

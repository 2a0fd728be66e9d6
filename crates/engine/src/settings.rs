//! What can be chosen about a database, with the service's numbers as the defaults.

use std::fmt;
use std::sync::Arc;

use partita_model::{Consistency, MemoryBudget, NoThreads, Threads, limits};

use crate::catalog::DefaultThroughput;
use crate::script_runtime::ScriptRuntime;
use crate::throughput::ThroughputMode;

/// What can be chosen about a database.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// The consistency of requests that ask for none.
    pub default_consistency: Consistency,
    pub query: QuerySettings,
    pub partitions: PartitionSettings,
    pub change_feed: ChangeFeedSettings,
    pub throughput: ThroughputMode,
    pub default_throughput: DefaultThroughput,
    pub scripts: ScriptSettings,
    /// Where helper threads of queries come from.
    pub threads: Arc<dyn Threads>,
    /// What operations draw their working memory from.
    pub memory: MemoryBudget,
}

/// Who runs scripts, and how long one may take.
#[derive(Clone)]
pub struct ScriptSettings {
    /// None: scripts can be neither stored nor run.
    pub runtime: Option<Arc<dyn ScriptRuntime>>,
    /// The time of one run: the service's limit by default.
    pub run_millis_max: u64,
    /// Are scripts that exceed their limits again and again refused for a while?
    pub blocks: bool,
}

impl Default for ScriptSettings {
    fn default() -> ScriptSettings {
        ScriptSettings { runtime: None, run_millis_max: 5_000, blocks: true }
    }
}

impl fmt::Debug for ScriptSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptSettings")
            .field("runtime", &self.runtime.is_some())
            .field("run_millis_max", &self.run_millis_max)
            .field("blocks", &self.blocks)
            .finish()
    }
}

/// How far a partition may grow. The service's numbers by default; tests make them small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionSettings {
    /// Bytes of items at which a partition is split.
    pub bytes_max: u64,
    /// Request units per second that a partition can give: more need more partitions.
    pub ru_max: u32,
    /// Bytes of items under one partition key.
    pub logical_bytes_max: u64,
    /// How long a split or merge is announced before it begins, in seconds. At the service clients
    /// have minutes to see ranges that are splitting; with 0 they may see none.
    pub announced_seconds: u64,
}

impl Default for PartitionSettings {
    fn default() -> PartitionSettings {
        PartitionSettings {
            bytes_max: limits::PARTITION_BYTES_MAX,
            ru_max: limits::PARTITION_RU_MAX,
            logical_bytes_max: limits::LOGICAL_PARTITION_BYTES_MAX,
            announced_seconds: 0,
        }
    }
}

/// How far a page of a query may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuerySettings {
    /// Rows of a page when the client does not say: as the service does.
    pub page_rows_default: usize,
    /// Bytes of a page's rows; a page has at least one row if there is one.
    pub page_bytes_max: usize,
    /// Entries that one partition may look at for a page. A page that found little by then is
    /// returned as it is, to be continued.
    pub page_entries_max: u64,
    /// The same in time.
    pub page_millis_max: u64,
    /// Entries that one partition may look at for a result that cannot be cut into pages before it
    /// is complete (a sort without an index, GROUP BY, DISTINCT). More is an error.
    pub whole_entries_max: u64,
    /// The time of any query, above all of one with such a result.
    pub whole_millis_max: u64,
    /// Bytes of rows that a sort may hold. It finds fewer rows at a time when they are larger.
    pub sort_bytes_max: usize,
    /// Up to so many items of a partition, or of a partition key, are given oldest first where a
    /// query says no order. More come in the order of their keys: the service's order would take
    /// several times as long there, since items do not lie in the order of their age.
    pub age_order_items_max: u64,
    /// So few items are looked at one by one rather than asking an index about them.
    pub scan_items: u64,
    /// So few items that an index found are loaded and sorted, rather than walking another index
    /// that has their order.
    pub sort_items: u64,
    /// So many items are looked at, at most, to see whether a filter that no index answers is
    /// better decided on columns of the index than in a scan. 0: it is, without a look.
    pub sample_items: u64,
    /// Different rows of a DISTINCT.
    pub distinct_rows_max: usize,
    /// Bytes of the result cache: sets of items, columns and the like that queries found.
    pub cache_bytes_max: usize,
    /// What took fewer entries of an index to find is not cached.
    pub cache_entries_min: u64,
    /// Partitions asked at once.
    pub parallelism: usize,
    /// A query runs on one thread for this long before it calls helper threads. To wake one up
    /// takes longer than most queries do.
    pub helpers_after_micros: u64,
    /// The deadline of an inline attempt: of running a query on the thread of its request before it
    /// is handed to the pool. 0: queries are not attempted inline.
    pub inline_micros: u64,
    /// The same while no other operation is answered in the meantime.
    pub inline_quiet_micros: u64,
    /// Bytes of a continuation when the client does not say.
    pub token_bytes_max: usize,
}

impl QuerySettings {
    /// The same with no more time for a query. Its pages end early enough to be returned by then.
    pub fn limited(&self, millis_max: u64) -> QuerySettings {
        let whole_millis_max = self.whole_millis_max.min(millis_max);
        let page_millis_max = self.page_millis_max.min(whole_millis_max / 2);
        QuerySettings { whole_millis_max, page_millis_max, ..self.clone() }
    }
}

impl Default for QuerySettings {
    fn default() -> QuerySettings {
        QuerySettings {
            page_rows_default: 100,
            page_bytes_max: limits::RESPONSE_BYTES_MAX,
            page_entries_max: 1_000_000,
            page_millis_max: 3_000,
            whole_entries_max: 20_000_000,
            whole_millis_max: 60_000,
            sort_bytes_max: 64 << 20,
            age_order_items_max: 100_000,
            scan_items: 200,
            sort_items: 2_000,
            sample_items: 256,
            distinct_rows_max: 1_000_000,
            cache_bytes_max: 96 << 20,
            cache_entries_min: 16,
            parallelism: 4,
            helpers_after_micros: 150,
            inline_micros: 1_000,
            inline_quiet_micros: 5_000,
            token_bytes_max: 4 << 10,
        }
    }
}

/// How far a page of the change feed may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeFeedSettings {
    /// Items of a page when the client does not say: as the service does.
    pub page_items_default: usize,
    /// Bytes of a page's items; what was committed together stays together all the same.
    pub page_bytes_max: usize,
    /// Records of the feed that a page may look at. One that found nothing by then is returned
    /// empty, to be continued.
    pub page_entries_max: u64,
    /// The same in time.
    pub page_millis_max: u64,
    /// Superfluous records are looked for after so many commits at the earliest.
    pub trim_commits_min: u64,
    /// For how many minutes the feeds of containers whose policy does not say keep all versions;
    /// 0: they do not.
    pub retention_minutes: u32,
}

impl Default for ChangeFeedSettings {
    fn default() -> ChangeFeedSettings {
        ChangeFeedSettings {
            page_items_default: 100,
            page_bytes_max: limits::RESPONSE_BYTES_MAX,
            page_entries_max: 1_000_000,
            page_millis_max: 3_000,
            trim_commits_min: 10_000,
            retention_minutes: 0,
        }
    }
}

impl Default for EngineSettings {
    fn default() -> EngineSettings {
        EngineSettings {
            default_consistency: Consistency::Session,
            query: QuerySettings::default(),
            partitions: PartitionSettings::default(),
            change_feed: ChangeFeedSettings::default(),
            throughput: ThroughputMode::default(),
            default_throughput: DefaultThroughput::default(),
            scripts: ScriptSettings::default(),
            threads: Arc::new(NoThreads),
            memory: MemoryBudget::default(),
        }
    }
}

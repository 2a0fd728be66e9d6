//! The memory of the server: one number, divided once.
//!
//! ```text
//!   --memory-mb      default: three quarters of what the cgroup or the machine has
//!   ├─ program       itself, its threads and connections, the indexes of tables: fixed
//!   ├─ cache         --cache-mb: items and blocks of the store
//!   └─ the rest
//!      ├─ found      what queries found and remember        at most 12 %
//!      ├─ changes    writes that are not in tables yet      at most 18 %
//!      ├─ bodies     of requests and answers                at most 14 %
//!      ├─ scripts    processes that run them, with heaps    at most 16 %, or two small ones
//!      └─ operations groups, sorts, pages, transactions     what is left
//! ```
//!
//! Every part has a most that it can use, so on a large machine the operations get nearly all of
//! it. What is over the number itself, a quarter by default, is for what nobody counts: what the
//! allocator keeps, pages of files, other programs. With `--store memory` the items come on top.

use std::fmt;

use partita_cli::Failure;
use partita_model::Object;

use crate::memory_limit::MemoryLimit;

const MB: u64 = 1 << 20;

/// Of what there is, so many quarters are the server's.
const QUARTERS: u64 = 3;
/// If the system does not tell how much there is.
const UNKNOWN_MB: u64 = 4 * 1024;

/// The program itself: measured with many connections and 2 GB of data, about.
const PROGRAM: u64 = 48 * MB;
/// With less, no page of a query fits into what one operation may have.
pub(crate) const LEAST_MB: u64 = 160;

/// What the cache gets if nobody says: so much, and not more than this part of all but the program.
const CACHE: u64 = 256 * MB;
const CACHE_PERCENT: u64 = 30;
/// The most that the cache may get, and what it has to leave: with less there would be too little
/// beside two processes for scripts.
const CACHE_PERCENT_MAX: u64 = 60;
const REST_MIN: u64 = 80 * MB;

/// What queries remember: so much, or so many eighths of the cache: with less, a query over ten
/// million items reads anew each time what it could remember.
const FOUND: u64 = 96 * MB;
const FOUND_EIGHTHS: u64 = 3;
const FOUND_PERCENT: u64 = 12;

/// Changes never take more for each lane of the store: its buffers have a size.
const CHANGES_OF_LANE: u64 = 256 * MB;
const LANES: u64 = 8;
const CHANGES_PERCENT: u64 = 18;

/// Bodies beyond this only serve clients that do not read.
const BODIES: u64 = 1024 * MB;
const BODIES_PERCENT: u64 = 14;

/// A heap of a script, and what its process takes besides.
const HEAP: u64 = 64 * MB;
const HEAP_MIN: u64 = 8 * MB;
const PROCESS: u64 = 6 * MB;
const SCRIPTS_PERCENT: u64 = 16;
/// One for procedures and triggers, one for functions of queries.
const GROUPS: u64 = 2;

/// What a query under way takes that nobody counts: pieces that the allocator keeps for its thread,
/// blocks of the store.
const BEGUN_JOB: u64 = 3 * MB;
/// So many are begun in any case, for each that runs at a time: a short one does not wait for the
/// end of long ones.
const BEGUN_JOBS_MIN: usize = 4;

/// Who gets how much, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemoryPlan {
    pub(crate) total: u64,
    /// Where the total comes from, for people.
    from: String,
    pub(crate) cache: u64,
    pub(crate) found: u64,
    pub(crate) changes: u64,
    pub(crate) bodies: u64,
    pub(crate) scripts: ScriptMemory,
    pub(crate) operations: u64,
    /// What is not as somebody may have thought.
    pub(crate) warnings: Vec<String>,
}

/// How many processes run scripts, and how large their heaps are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScriptMemory {
    /// In each of the two groups.
    pub(crate) workers: usize,
    pub(crate) heap_bytes: u64,
}

impl ScriptMemory {
    fn bytes(self) -> u64 {
        GROUPS * self.workers as u64 * (self.heap_bytes + PROCESS)
    }

    /// As many workers as are wanted with heaps as large as they may be, or fewer, or smaller ones.
    fn within(bytes: u64, wanted: usize) -> ScriptMemory {
        let of_group = bytes / GROUPS;
        let workers = (of_group / (HEAP + PROCESS)).clamp(1, wanted.max(1) as u64);
        let heap_bytes = (of_group / workers).saturating_sub(PROCESS).clamp(HEAP_MIN, HEAP);
        ScriptMemory { workers: usize::try_from(workers).unwrap_or(1), heap_bytes }
    }
}

/// What was asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) memory_mb: Option<u64>,
    pub(crate) cache_mb: Option<u64>,
    /// Processes for scripts in each group, if there is the memory.
    pub(crate) script_workers: usize,
}

impl MemoryPlan {
    /// Divides the memory.
    pub(crate) fn new(asked: Asked, limit: Option<&MemoryLimit>) -> Result<MemoryPlan, Failure> {
        let mut warnings = Vec::new();
        let (total, from) = total(asked.memory_mb, limit, &mut warnings)?;
        let beside_program = total - PROGRAM;
        let cache = cache(asked, beside_program, &mut warnings)?;
        let rest = beside_program - cache;
        let part = |percent: u64, most: u64| (rest / 100 * percent).min(most);
        let found = part(FOUND_PERCENT, FOUND.max(cache / 8 * FOUND_EIGHTHS));
        let changes = part(CHANGES_PERCENT, LANES * CHANGES_OF_LANE);
        let bodies = part(BODIES_PERCENT, BODIES);
        let scripts = part(SCRIPTS_PERCENT, u64::MAX);
        let scripts = ScriptMemory::within(scripts, asked.script_workers);
        let operations = rest - found - changes - bodies - scripts.bytes();
        let plan = MemoryPlan {
            total,
            from,
            cache,
            found,
            changes,
            bodies,
            scripts,
            operations,
            warnings,
        };
        Ok(plan)
    }

    /// How many long jobs may be begun at a time, if so many run.
    pub(crate) fn begun_jobs(&self, running_max: usize) -> usize {
        let fit = usize::try_from(self.operations / BEGUN_JOB).unwrap_or(usize::MAX);
        fit.max(running_max.saturating_mul(BEGUN_JOBS_MIN))
    }

    /// The parts and their bytes.
    fn parts(&self) -> [(&'static str, u64); 7] {
        [
            ("program", PROGRAM),
            ("cache", self.cache),
            ("found", self.found),
            ("changes", self.changes),
            ("bodies", self.bodies),
            ("scripts", self.scripts.bytes()),
            ("operations", self.operations),
        ]
    }

    /// For `/status`.
    pub(crate) fn to_object(&self) -> Object {
        let mb = |bytes: u64| i64::try_from(bytes / MB).unwrap_or(i64::MAX);
        let total = Object::new().with("total_mb", mb(self.total));
        self.parts()
            .into_iter()
            .fold(total, |object, (name, bytes)| object.with(format!("{name}_mb"), mb(bytes)))
    }
}

impl fmt::Display for MemoryPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} MB of memory ({}):", self.total / MB, self.from)?;
        for (at, (name, bytes)) in self.parts().into_iter().enumerate() {
            write!(f, "{} {name} {}", if at > 0 { "," } else { "" }, bytes / MB)?;
        }
        let ScriptMemory { workers, heap_bytes } = self.scripts;
        write!(f, " (2 × {workers} processes with heaps of {} MB)", heap_bytes / MB)
    }
}

/// How much there is to divide, and who says so.
fn total(
    asked_mb: Option<u64>,
    limit: Option<&MemoryLimit>,
    warnings: &mut Vec<String>,
) -> Result<(u64, String), Failure> {
    let Some(megabytes) = asked_mb else {
        let whole = limit.map_or(UNKNOWN_MB * MB, |limit| limit.bytes);
        let of = limit.map_or("a guess: the system does not tell".to_owned(), |limit| {
            format!("three quarters of {limit}")
        });
        let total = whole / 4 * QUARTERS;
        if total < LEAST_MB * MB {
            warnings.push(format!(
                "there is less memory than the {LEAST_MB} MB that the server needs: it may be \
                 ended by the system ({of})"
            ));
        }
        return Ok((total.max(LEAST_MB * MB), of));
    };
    if megabytes < LEAST_MB {
        return Err(Failure::usage(format!(
            "--memory-mb {megabytes}: the server needs {LEAST_MB} MB at least"
        )));
    }
    let bytes = megabytes.checked_mul(MB);
    let bytes =
        bytes.ok_or_else(|| Failure::usage(format!("--memory-mb {megabytes} is too much")))?;
    if let Some(limit) = limit.filter(|limit| limit.bytes < bytes) {
        warnings.push(format!("--memory-mb {megabytes} is more than there is: {limit}"));
    }
    Ok((bytes, "--memory-mb".to_owned()))
}

fn cache(asked: Asked, beside_program: u64, warnings: &mut Vec<String>) -> Result<u64, Failure> {
    let most = (beside_program / 100 * CACHE_PERCENT_MAX).min(beside_program - REST_MIN);
    let Some(megabytes) = asked.cache_mb else {
        return Ok(CACHE.min(beside_program / 100 * CACHE_PERCENT).min(most));
    };
    let bytes = megabytes.checked_mul(MB);
    let bytes =
        bytes.ok_or_else(|| Failure::usage(format!("--cache-mb {megabytes} is too much")))?;
    if bytes <= most {
        return Ok(bytes);
    }
    let fits = most / MB;
    if let Some(memory_mb) = asked.memory_mb {
        return Err(Failure::usage(format!(
            "--cache-mb {megabytes} is part of --memory-mb {memory_mb}, which has room for {fits}: \
             ask for less cache or more memory"
        )));
    }
    warnings.push(format!(
        "the cache gets {fits} MB, not the {megabytes} of --cache-mb: there is not more memory \
         (--memory-mb)"
    ));
    Ok(most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_limit::SetBy;

    fn asked(memory_mb: Option<u64>, cache_mb: Option<u64>) -> Asked {
        Asked { memory_mb, cache_mb, script_workers: 4 }
    }

    fn machine(megabytes: u64) -> MemoryLimit {
        MemoryLimit { bytes: megabytes * MB, set_by: SetBy::Machine }
    }

    fn plan(memory_mb: Option<u64>, cache_mb: Option<u64>, limit_mb: u64) -> MemoryPlan {
        MemoryPlan::new(asked(memory_mb, cache_mb), Some(&machine(limit_mb))).unwrap()
    }

    /// The largest cache that is accepted.
    fn most_cache(total_mb: u64) -> u64 {
        let beside_program = total_mb - 48;
        (beside_program / 100 * 60).min(beside_program - 80)
    }

    #[test]
    fn the_parts_are_the_whole() {
        for total_mb in [160, 180, 225, 512, 1_000, 3_000, 18_000, 500_000] {
            for cache_mb in [None, Some(1), Some(most_cache(total_mb))] {
                let plan = plan(Some(total_mb), cache_mb, 1 << 20);
                let sum: u64 = plan.parts().into_iter().map(|(_, bytes)| bytes).sum();
                assert_eq!(sum, plan.total, "{total_mb}: {plan}");
                assert!(plan.operations >= 16 * MB, "{total_mb}: {plan}");
            }
        }
    }

    #[test]
    fn a_machine_with_enough_has_what_it_always_had() {
        let plan = plan(None, None, 24_000);
        assert_eq!(plan.total, 18_000 * MB);
        assert_eq!((plan.cache, plan.found), (256 * MB, 96 * MB));
        assert_eq!(plan.scripts, ScriptMemory { workers: 4, heap_bytes: 64 * MB });
        assert_eq!(plan.bodies, BODIES);
        assert!(plan.operations > 13_000 * MB, "{plan}");
        assert!(plan.warnings.is_empty());
    }

    #[test]
    fn a_small_one_has_a_little_of_everything() {
        let plan = plan(None, Some(64), 300);
        assert_eq!((plan.total, plan.cache), (225 * MB, 64 * MB));
        assert_eq!(plan.scripts.workers, 1);
        assert!(plan.scripts.heap_bytes >= HEAP_MIN);
        // A page of 4 MB fits into the quarter that one operation may have.
        assert!(plan.operations / 4 > 8 * MB, "{plan}");
        let text = plan.to_string();
        assert!(text.starts_with("225 MB of memory (three quarters of 300 MB, the machine's"));
        assert!(text.contains(" cache 64,") && text.contains(" operations "), "{text}");
    }

    #[test]
    fn fewer_queries_are_begun_where_there_is_little_memory() {
        let of = |total_mb| plan(Some(total_mb), None, 1 << 20).begun_jobs(2);
        assert_eq!((of(160), of(225)), (8, 13));
        assert!(of(1_000) > 64, "more than there are threads");
    }

    #[test]
    fn queries_remember_more_where_the_cache_is_large() {
        for (cache_mb, found_mb) in [(1, 96), (256, 96), (4_096, 1_536)] {
            assert_eq!(plan(Some(65_536), Some(cache_mb), 1 << 20).found, found_mb * MB);
        }
    }

    #[test]
    fn a_cache_that_does_not_fit_is_refused_or_made_smaller() {
        let error = MemoryPlan::new(asked(Some(225), Some(200)), None).unwrap_err().to_string();
        assert!(error.contains("--cache-mb 200") && error.contains("room for 97"), "{error}");
        let plan = plan(None, Some(200), 300);
        assert_eq!(plan.cache / MB, 97);
        assert!(plan.warnings[0].contains("--cache-mb"), "{:?}", plan.warnings);
    }

    #[test]
    fn too_little_memory_is_refused_where_it_was_asked_for() {
        let error = MemoryPlan::new(asked(Some(100), None), None).unwrap_err().to_string();
        assert!(error.contains("160 MB at least"), "{error}");
        let small = plan(None, None, 100);
        assert_eq!((small.total, small.warnings.len()), (LEAST_MB * MB, 1));
        assert!(MemoryPlan::new(asked(Some(u64::MAX), None), None).is_err());
        let unknown = MemoryPlan::new(asked(None, None), None).unwrap();
        assert_eq!(unknown.total, 3 * 1024 * MB);
        assert_eq!(plan(Some(400), None, 300).warnings.len(), 1);
    }
}

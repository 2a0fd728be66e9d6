//! How a thread stands behind others whose work has taken long.

use rustix::process::nice;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// How far a thread stands back that may hold what others wait for: with that it still gets a tenth
/// of a processor that others keep busy.
const NICENESS: i32 = 10;

/// The processor time that this thread has had.
pub(crate) fn thread_nanos() -> u64 {
    nanos(clock_gettime(ClockId::ThreadCPUTime))
}

/// The processor time that the process has had.
pub(crate) fn process_nanos() -> u64 {
    nanos(clock_gettime(ClockId::ProcessCPUTime))
}

fn nanos(time: Timespec) -> u64 {
    let nanos = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
    u64::try_from(nanos).unwrap_or(0)
}

/// Has the system prefer others to this thread.
pub(crate) fn back() {
    // In Linux this is the priority of the calling thread; elsewhere it is the whole server's.
    if cfg!(target_os = "linux") {
        let _ = nice(NICENESS);
    }
}

/// Has a thread of this process run where nobody else wants to, and leave at once when somebody
/// does: a niced one is let go on for milliseconds. Beside others that never rest it gets a
/// hundredth of a processor, so it must hold nothing that others wait for.
#[cfg(target_os = "linux")]
pub(crate) fn last_of(thread: thread_priority::ThreadId) {
    use thread_priority::{
        NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
        set_thread_priority_and_policy,
    };
    // As far as the system lets it. What cannot be had is nobody's fault.
    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    let _ = set_thread_priority_and_policy(thread, ThreadPriority::Min, idle);
}

//! `partita script-worker`: the server's own process for scripts, started by it and by nobody else.

use std::fs::File;
use std::io::{self, BufReader, stdin, stdout};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::{env, thread};

use partita_cli::Failure;
use partita_script::{Courtesy, Limits, WorkerCommand, Workers};
use rustix::process::{getpid, setpriority_process};

use crate::args::ScriptWorkerArgs;
use crate::memory::ScriptMemory;
use crate::standing;
use crate::system::{SystemClock, SystemEntropy};

/// The command that starts a worker.
pub(crate) const COMMAND: &str = "script-worker";

/// Workers for each processor: a script waits for the database now and then.
const WORKERS_PER_PROCESSOR: usize = 2;
const WORKERS_MIN: usize = 4;

/// How far a worker's thread stands back that has computed for long, where the system knows nothing
/// lower.
const NICENESS: i32 = 19;

/// Runs scripts for the server at the other end of standard input and output.
pub(crate) fn run(clock: SystemClock, args: &ScriptWorkerArgs) -> Result<(), Failure> {
    let entropy = SystemEntropy::start()
        .map_err(|error| Failure::other(format!("the system has no random numbers: {error}")))?;
    let (clock, entropy) = (Arc::new(clock), Arc::new(entropy));
    let limits = Limits { memory_bytes_max: args.heap_bytes, ..Limits::default() };
    let serve = || {
        // As they are: frames come and go in one piece.
        let mut input = BufReader::new(File::from(stdin().as_fd().try_clone_to_owned()?));
        let mut output = File::from(stdout().as_fd().try_clone_to_owned()?);
        let courtesy = Arc::new(StandingBack::here());
        partita_script::serve(&mut input, &mut output, limits, clock, entropy, courtesy)
    };
    serve()
        .map_err(|error| Failure::other(format!("the script worker has lost its server: {error}")))
}

/// How the thread that it was made in stands back: the first one of the process.
struct StandingBack {
    #[cfg(target_os = "linux")]
    thread: thread_priority::ThreadId,
}

impl StandingBack {
    fn here() -> StandingBack {
        StandingBack {
            #[cfg(target_os = "linux")]
            thread: thread_priority::thread_native_id(),
        }
    }
}

impl Courtesy for StandingBack {
    fn processor_nanos(&self) -> u64 {
        standing::process_nanos()
    }

    /// As far as the system lets it. What cannot be had is no fault of the script.
    fn stand_back(&self) {
        // In Linux this is the priority of one thread, the process' first.
        let _ = setpriority_process(Some(getpid()), NICENESS);
        #[cfg(target_os = "linux")]
        standing::last_of(self.thread);
    }
}

/// How many workers each of the two groups gets, if there is the memory for their heaps.
pub(crate) fn workers_wanted() -> usize {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    (processors * WORKERS_PER_PROCESSOR).max(WORKERS_MIN)
}

/// Who runs the server's scripts. Their time is the real one, whatever time tests have set for the
/// database.
pub(crate) fn runtime(clock: SystemClock, memory: ScriptMemory) -> Result<Arc<Workers>, Failure> {
    let program = this_program()
        .map_err(|error| Failure::other(format!("this program does not find itself: {error}")))?;
    let heap = format!("--heap-bytes={}", memory.heap_bytes);
    let command = WorkerCommand { program, arguments: vec![COMMAND.into(), heap.into()] };
    // Not as far as the worker: it may hold what others wait for.
    let workers = Workers::new(command, memory.workers, Arc::new(clock), standing::back);
    Ok(Arc::new(workers))
}

/// The program that is running, also when its file was replaced by a newer one since: the two would
/// not understand each other.
fn this_program() -> io::Result<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    if running.exists() { Ok(running) } else { env::current_exe() }
}

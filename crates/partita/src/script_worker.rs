//! `partita script-worker`: the server's own process for scripts, started by it and by nobody else.

use std::io::{self, BufReader, stdin, stdout};
use std::path::PathBuf;
use std::sync::Arc;
use std::{env, thread};

use partita_engine::ScriptRuntime;
use partita_script::{Limits, WorkerCommand, Workers};

use crate::failure::Failure;
use crate::system::{SystemClock, SystemEntropy};

/// The command that starts a worker.
pub(crate) const COMMAND: &str = "script-worker";

/// Workers for each processor: a script waits for the database now and then.
const WORKERS_PER_PROCESSOR: usize = 2;
const WORKERS_MIN: usize = 4;

/// How much a worker stands back behind the server when processors are scarce: a script that
/// computes must not keep point reads waiting.
const NICENESS: i32 = 19;

/// Runs scripts for the server at the other end of standard input and output.
pub(crate) fn run(clock: SystemClock) -> Result<(), Failure> {
    if let Err(error) = rustix::process::nice(NICENESS) {
        eprintln!("partita: scripts run with the server's priority: {error}");
    }
    let entropy = SystemEntropy::start()
        .map_err(|error| Failure::other(format!("the system has no random numbers: {error}")))?;
    let mut input = BufReader::new(stdin().lock());
    let (clock, entropy) = (Arc::new(clock), Arc::new(entropy));
    partita_script::serve(&mut input, &mut stdout().lock(), Limits::default(), clock, entropy)
        .map_err(|error| Failure::other(format!("the script worker has lost its server: {error}")))
}

/// Who runs the server's scripts. Their time is the real one, whatever time tests have set for the
/// database.
pub(crate) fn runtime(clock: SystemClock) -> Result<Arc<dyn ScriptRuntime>, Failure> {
    let program = this_program()
        .map_err(|error| Failure::other(format!("this program does not find itself: {error}")))?;
    let command = WorkerCommand { program, arguments: vec![COMMAND.into()] };
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let workers_max = (processors * WORKERS_PER_PROCESSOR).max(WORKERS_MIN);
    Ok(Arc::new(Workers::new(command, workers_max, Arc::new(clock))))
}

/// The program that is running, also when its file was replaced by a newer one since: the two would
/// not understand each other.
fn this_program() -> io::Result<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    if running.exists() { Ok(running) } else { env::current_exe() }
}

//! The allocator, told to be thrifty where there is little memory.
//!
//! mimalloc keeps what was freed for a while before it gives it back to the system, which saves
//! time. Under pages of 4 MB for 16 clients at a time that was more than all that is counted: 294
//! MB of a server with `--memory-mb 180`, and 161 MB when it keeps nothing. It reads its settings
//! from the environment when the process starts; so a server with little memory starts itself
//! anew, once, as the same process.

#[cfg(unix)]
use std::env;

/// What the allocator keeps, in milliseconds.
#[cfg(unix)]
const VARIABLE: &str = "MIMALLOC_PURGE_DELAY";

/// With more than that, what it keeps matters less than time.
#[cfg(unix)]
const LITTLE: u64 = 2 << 30;

/// Replaces this process by itself, with an allocator that keeps nothing, if the server has little
/// memory and nobody has set it otherwise. It goes on as it is where that cannot be done.
#[cfg(unix)]
pub(crate) fn be_thrifty(memory_bytes: u64) {
    use std::os::unix::process::CommandExt;
    if memory_bytes >= LITTLE || env::var_os(VARIABLE).is_some() {
        return;
    }
    let Ok(program) = env::current_exe() else { return };
    let mut arguments = env::args_os();
    let name = arguments.next();
    let mut again = std::process::Command::new(program);
    if let Some(name) = name {
        again.arg0(name);
    }
    // It only comes back if it did not work.
    let error = again.args(arguments).env(VARIABLE, "0").exec();
    eprintln!("partita: the allocator keeps its defaults: cannot start anew: {error}");
}

#[cfg(not(unix))]
pub(crate) fn be_thrifty(_memory_bytes: u64) {}

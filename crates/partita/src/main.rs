//! The `partita` program: reads the command line, puts the parts together, and lets them run.
//!
//! - `args.rs`: the server's flags; `config.rs`: what they mean;
//! - `serve.rs`: the server's life from opening the store to closing it;
//! - `trust/`: keys and roles, read at the start and again on SIGHUP;
//! - `reports/`: what the server tells of itself;
//! - `script_worker.rs`: processes in which the server has scripts run;
//! - `memory_limit.rs`: how much memory there is; `memory.rs`: who gets how much of it;
//! - `governor.rs`: what all processes really take, and what is done when it is too much;
//! - `allocator.rs`: what is freed goes back to the system at once where there is little;
//! - `descriptors.rs`: how many files and connections may be open;
//! - `maintainer.rs`, `disk.rs`: threads that call the database again and again;
//! - `system.rs`: the real clock and the real randomness, which everything below is handed.
//!
//! All other commands are in `partita_cli`. Nothing here decides anything about data: this crate
//! only chooses and connects.

mod allocator;
mod args;
mod config;
mod descriptors;
mod disk;
mod governor;
mod maintainer;
mod memory;
mod memory_limit;
mod reports;
mod script_worker;
mod serve;
mod standing;
mod system;
mod trust;

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use partita_cli::Failure;

use crate::args::{Cli, Command};
use crate::config::Config;
use crate::system::{SystemClock, SystemEntropy};

// A point read allocates some forty small things and frees them on whichever worker is next.
// Measured with `partita-bench read`, this allocator takes a tenth off the server's processor time
// per read, and a quarter together with the release profile's link-time optimisation.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let clock = SystemClock::start();
    let cli = Cli::parse();
    let result = match cli.command {
        Some(Command::Tool(command)) => tool(&command, clock),
        Some(Command::ScriptWorker(args)) => script_worker::run(clock, &args),
        Some(Command::Serve(args)) => serve(*args, clock),
        None => serve(cli.serve, clock),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("partita: {failure}");
            failure.exit_code()
        }
    }
}

fn tool(command: &partita_cli::Command, clock: SystemClock) -> Result<(), Failure> {
    let entropy = SystemEntropy::start()
        .map_err(|error| Failure::other(format!("the system has no random numbers: {error}")))?;
    partita_cli::run(command, Arc::new(clock), Arc::new(entropy))
}

fn serve(args: args::ServeArgs, clock: SystemClock) -> Result<(), Failure> {
    let config = Config::from_args(args)?;
    allocator::be_thrifty(config.memory.total);
    serve::run(config, clock)
}

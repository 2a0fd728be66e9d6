//! The `partita` program: reads the command line, puts the parts together, and lets them run.
//!
//! - `args.rs`: what can be typed; `config.rs`: what it means;
//! - `serve.rs`: the server's life from opening the store to closing it;
//! - `banner.rs`: what a user sees when it is ready; `healthcheck.rs`: is it?
//! - `trust_guide.rs`: how to trust the certificate;
//! - `alerts.rs`: what should be told without being asked; `metrics.rs`: what is when asked;
//! - `check.rs`: is what is stored whole?
//! - `script_worker.rs`: processes in which the server has scripts run;
//! - `memory_limit.rs`: how much memory there is; `memory.rs`: who gets how much of it;
//! - `governor.rs`: what all processes really take, and what is done when it is too much;
//! - `allocator.rs`: what is freed goes back to the system at once where there is little;
//! - `cli/`: commands that ask a running server and print what it says; `bench/` measures one;
//! - `system.rs`: the real clock and the real randomness, which everything below is handed.
//!
//! Nothing here decides anything about data: this crate only chooses and connects.

mod access;
mod alerts;
mod allocator;
mod args;
mod banner;
mod bench;
mod check;
mod cli;
mod compat;
mod config;
mod declaration;
mod descriptors;
mod disk;
mod failure;
mod governor;
mod healthcheck;
mod init;
mod keys;
mod maintainer;
mod memory;
mod memory_limit;
mod metrics;
mod outgoing;
mod script_worker;
mod serve;
mod system;
mod trust;
mod trust_guide;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command, KeysCommand};
use crate::config::Config;
use crate::failure::Failure;
use crate::system::SystemClock;

// A point read allocates some forty small things and frees them on whichever worker is next.
// Measured with `partita-bench read`, this allocator takes a tenth off the server's processor time
// per read, and a quarter together with the release profile's link-time optimisation.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let clock = SystemClock::start();
    let cli = Cli::parse();
    let result = match cli.command {
        Some(Command::Healthcheck(args)) => healthcheck::run(&args),
        Some(Command::Check(args)) => check::run(&args, clock),
        Some(Command::Partitions(args)) => cli::partitions(&args, clock),
        Some(Command::ExplainKey(args)) => cli::explain_key(&args, clock),
        Some(Command::Admin(args)) => cli::admin(&args.command, clock),
        Some(Command::Bench(args)) => bench::run(&args, clock),
        Some(Command::Advise(args)) => cli::advise(&args, clock),
        Some(Command::Trust(args)) => trust_guide::run(&args),
        Some(Command::Keys(args)) => match &args.command {
            KeysCommand::Rotate(args) => keys::rotate(args),
        },
        Some(Command::DevToken(args)) => access::dev_token::run(&args, clock),
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

fn serve(args: args::ServeArgs, clock: SystemClock) -> Result<(), Failure> {
    let config = Config::from_args(args)?;
    allocator::be_thrifty(config.memory.total);
    serve::run(config, clock)
}

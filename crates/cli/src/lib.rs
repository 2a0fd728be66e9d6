//! Every command of the program but those that run the server.
//!
//! ```text
//!   args.rs       what can be typed                  failure.rs   messages and exit codes
//!   commands/     a file each                        output.rs    standard output
//!   bench/        shows the load generator's work    table.rs     columns, bars, sizes
//!   connect.rs    which account, with which key
//!   client.rs     a blocking client of it            response.rs  members of its responses
//! ```
//!
//! Invariants: commands that ask a server do it over its own wire and take no decision (with
//! `--json` they print the server's answer as it came), and no command changes a data directory.

mod args;
mod bench;
mod client;
mod commands;
mod connect;
mod container_name;
mod failure;
mod output;
mod response;
mod table;

use std::sync::Arc;

use partita_model::{Clock, Entropy};

pub use self::args::Command;
use self::commands::{
    advise, check, dev_token, explain_key, healthcheck, keys, moves, partitions, trust_guide,
};
pub use self::failure::{EXIT_INTERRUPTED, Failure, Kind};

/// Runs a command to its end.
pub fn run(
    command: &Command,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
) -> Result<(), Failure> {
    match command {
        Command::Healthcheck(args) => healthcheck::run(args),
        Command::Check(args) => check::run(args, clock, entropy),
        Command::Partitions(args) => partitions::run(args, clock),
        Command::ExplainKey(args) => explain_key::run(args, clock),
        Command::Advise(args) => advise::run(args, clock),
        Command::Admin(args) => moves::run(&args.command, clock),
        Command::Bench(args) => bench::run(args, clock),
        Command::Trust(args) => trust_guide::run(args),
        Command::Keys(args) => keys::run(&args.command),
        Command::DevToken(args) => dev_token::run(args, &*clock),
    }
}

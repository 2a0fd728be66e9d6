//! `partita bench`: how fast is an account, ours or the service's, from where this runs?
//!
//! ```text
//!   settings.rs   what was typed, and what it means
//!   place.rs      make a database and a container                         ─┐
//!   workload.rs   which requests; account.rs signs and sends them          │ remove them
//!   drive.rs      clients send them; tally.rs counts; progress.rs shows    │
//!   report.rs     say what came out                                       ─┘
//! ```
//!
//! It speaks the protocol that SDKs speak to a gateway and nothing of our own, so that what is
//! measured here can be measured there. What it made it removes, also when it is interrupted or
//! fails.

mod account;
mod drive;
mod place;
mod progress;
mod report;
mod settings;
mod tally;
mod workload;

use std::process;
use std::sync::Arc;

use partita_gateway::Signals;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use self::account::Account;
use self::drive::Drive;
use self::place::Place;
use self::progress::Progress;
use self::report::Report;
pub(crate) use self::settings::BenchArgs;
use self::settings::{Limit, Settings};
use self::workload::{Requests, Stage};
use crate::cli::{say, say_json};
use crate::failure::{EXIT_INTERRUPTED, Failure};
use crate::system::SystemClock;

pub(crate) fn run(args: &BenchArgs, clock: SystemClock) -> Result<(), Failure> {
    let settings = Settings::of(args)?;
    let account = Arc::new(Account::new(&settings, clock)?);
    let runtime =
        Runtime::new().map_err(|error| Failure::other(format!("cannot start threads: {error}")))?;
    runtime.block_on(bench(&settings, &account, args.json))
}

async fn bench(settings: &Settings, account: &Arc<Account>, json: bool) -> Result<(), Failure> {
    let stop = interrupted(settings)?;
    let mut place = Place::default();
    let measured = match place.make(account, settings).await {
        Ok(()) => measure(settings, account, stop).await,
        Err(failure) => Err(failure),
    };
    if let Ok(report) = &measured {
        match json {
            true => say_json(&report.json()),
            false => say(&report.text()),
        }
    }
    let removed = match settings.keep {
        true => Ok(()),
        false => place.remove(account, settings).await,
    };
    succeeded(&measured?)?;
    removed
}

/// Becomes true with the first Ctrl-C or SIGTERM; the second ends the process as it is.
fn interrupted(settings: &Settings) -> Result<watch::Receiver<bool>, Failure> {
    let (sender, receiver) = watch::channel(false);
    let mut signals = Signals::install()
        .map_err(|error| Failure::other(format!("cannot listen to signals: {error}")))?;
    let place = format!("{}/{}", settings.database, settings.container);
    tokio::spawn(async move {
        signals.next().await;
        sender.send_replace(true);
        signals.next().await;
        eprintln!("partita: interrupted twice; look whether {place} is still there");
        process::exit(EXIT_INTERRUPTED);
    });
    Ok(receiver)
}

async fn measure<'s>(
    settings: &'s Settings,
    account: &Arc<Account>,
    stop: watch::Receiver<bool>,
) -> Result<Report<'s>, Failure> {
    let requests = Arc::new(Requests::new(settings));
    let drive = |stage, limit| {
        Drive::new(account, &requests, (stage, limit), settings.clients, stop.clone())
    };
    if requests.items() > 0 {
        let load = drive(Stage::Load, Limit::Operations(requests.items()));
        follow("loading  ", &load).await;
        if let Some(seen) = load.tally().errors.values().next() {
            return Err(Failure::other(format!(
                "the items to measure with cannot be made: {}. Try again, with fewer --clients or \
                 smaller items (--item-size)",
                seen.example
            )));
        }
    }
    let drive = drive(Stage::Measure, settings.limit);
    follow("measuring", &drive).await;
    let (elapsed, tally) = (drive.elapsed(), drive.tally());
    Ok(Report { settings, tally, elapsed, is_interrupted: *stop.borrow() })
}

async fn follow(what: &'static str, drive: &Arc<Drive>) {
    let progress = Progress::new(what);
    tokio::select! {
        () = Arc::clone(drive).run() => {}
        () = progress.follow(drive) => {}
    }
    progress.end();
}

/// A run in which nothing succeeded has measured nothing.
fn succeeded(report: &Report<'_>) -> Result<(), Failure> {
    if report.tally.kinds().next().is_some() || report.is_interrupted {
        return Ok(());
    }
    let why = report.tally.errors.values().next().map(|seen| seen.example.as_str());
    Err(Failure::other(format!(
        "no operation succeeded: {}. The table above says what came instead",
        why.unwrap_or("the time was over before the first answer; raise --seconds")
    )))
}

//! `partita bench`: runs the load generator, shows its progress, and prints what it measured.
//!
//! What it created it deletes, also when it is interrupted or fails.

mod args;
mod progress;
mod report;

use std::process;
use std::sync::Arc;
use std::time::Duration;

use partita_gateway::Signals;
use partita_http_client::{Account, Limits};
use partita_load::{Settings, TestContainer, measure};
use partita_model::Clock;
use tokio::runtime::Runtime;
use tokio::sync::watch;

pub(crate) use self::args::BenchArgs;
use self::report::Report;
use crate::connect::account;
use crate::failure::{EXIT_INTERRUPTED, Failure};
use crate::output::{print, print_json};

/// A page of a query has 4 MB.
const LIMITS: Limits = Limits { timeout: Duration::from_secs(30), response_bytes_max: 16 << 20 };

pub(crate) fn run(args: &BenchArgs, clock: Arc<dyn Clock>) -> Result<(), Failure> {
    let settings = args.settings()?;
    let account = Arc::new(account(&args.connect, LIMITS, clock)?);
    let runtime =
        Runtime::new().map_err(|error| Failure::other(format!("cannot start threads: {error}")))?;
    runtime.block_on(bench(args, &settings, &account))
}

async fn bench(
    args: &BenchArgs,
    settings: &Settings,
    account: &Arc<Account>,
) -> Result<(), Failure> {
    let stop = interrupted(settings)?;
    let mut container = TestContainer::default();
    let measured = match container.create(account, settings).await {
        Ok(()) => measure(account, settings, stop, progress::show).await,
        Err(why) => Err(why),
    };
    let report = measured.map(|outcome| Report { settings, endpoint: account.endpoint(), outcome });
    match &report {
        Ok(report) if args.json => print_json(&report.json()),
        Ok(report) => print(&report.text()),
        Err(_) => {}
    }
    let deleted = if args.keep { Ok(()) } else { container.delete(account, settings).await };
    report.and_then(|report| succeeded(&report)).and(deleted).map_err(Failure::other)
}

/// Becomes true with the first Ctrl-C or SIGTERM; the second ends the process as it is.
fn interrupted(settings: &Settings) -> Result<watch::Receiver<bool>, Failure> {
    let (sender, receiver) = watch::channel(false);
    let mut signals = Signals::install()
        .map_err(|error| Failure::other(format!("cannot listen for signals: {error}")))?;
    let container = format!("{}/{}", settings.database, settings.container);
    tokio::spawn(async move {
        signals.next().await;
        sender.send_replace(true);
        signals.next().await;
        eprintln!("partita: interrupted twice; check whether {container} still exists");
        process::exit(EXIT_INTERRUPTED);
    });
    Ok(receiver)
}

/// A run in which nothing succeeded has measured nothing.
fn succeeded(report: &Report<'_>) -> Result<(), String> {
    let measurements = &report.outcome.measurements;
    if measurements.kinds().next().is_some() || report.outcome.is_interrupted {
        return Ok(());
    }
    let why = measurements.errors.values().next().map(|error| error.example.as_str());
    Err(format!(
        "no operation succeeded: {}. The table above says what came instead",
        why.unwrap_or("the time was over before the first answer; raise --seconds")
    ))
}

//! How far it is, while it runs: a line that is drawn over again on a terminal, lines one after
//! the other elsewhere. On standard error: standard output is for the result.

use std::io::{IsTerminal, Write, stderr};
use std::time::Duration;

use super::drive::Drive;
use crate::cli::table::{bar, count};

/// How often a terminal's line is drawn, and how often a line is written elsewhere.
const DRAW: Duration = Duration::from_millis(200);
const WRITE: Duration = Duration::from_secs(5);

/// Shows how far something is.
pub(crate) struct Progress {
    what: &'static str,
    on_terminal: bool,
}

impl Progress {
    pub(crate) fn new(what: &'static str) -> Progress {
        Progress { what, on_terminal: stderr().is_terminal() }
    }

    /// Shows it again and again; never returns.
    pub(crate) async fn follow(&self, drive: &Drive) {
        let mut ticks = tokio::time::interval(if self.on_terminal { DRAW } else { WRITE });
        ticks.tick().await;
        loop {
            ticks.tick().await;
            self.show(drive);
        }
    }

    /// Clears a terminal's line, for what comes now.
    pub(crate) fn end(&self) {
        if self.on_terminal {
            write("\r\x1b[K");
        }
    }

    fn show(&self, drive: &Drive) {
        let (line, tally) = (self.line(drive), drive.tally());
        let trouble = match (tally.throttled, tally.errors_count()) {
            (0, 0) => String::new(),
            (throttled, errors) => {
                format!("  {} throttled  {} errors", count(throttled as f64), count(errors as f64))
            }
        };
        match self.on_terminal {
            true => write(&format!("\r\x1b[K{line}{trouble}")),
            false => write(&format!("{line}{trouble}\n")),
        }
    }

    fn line(&self, drive: &Drive) -> String {
        let (total, seconds) = (drive.tally().total(), drive.elapsed().as_secs_f64().max(1e-9));
        let share = drive.share_done().min(1.0);
        let per_second = |number: f64| count(number / seconds);
        format!(
            "{} {} {:>3.0} %  {} op/s  {} RU/s  p50 {:.1} ms  p99 {:.1} ms",
            self.what,
            bar(share),
            share * 100.0,
            per_second(total.latencies.count() as f64),
            per_second(total.charge),
            total.latencies.percentile_ms(0.5),
            total.latencies.percentile_ms(0.99),
        )
    }
}

/// Whoever closed standard error does not want to know.
pub(crate) fn write(text: &str) {
    let mut out = stderr().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

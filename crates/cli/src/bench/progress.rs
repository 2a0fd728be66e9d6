//! Progress while it runs: one line that is drawn again and again on a terminal, a line every few
//! seconds elsewhere. On standard error: standard output is for the result.

use std::io::{IsTerminal, Write, stderr};
use std::time::Duration;

use partita_load::{Driver, Stage};

use crate::table::{bar, count};

/// How often a terminal's line is drawn, and how often a line is written elsewhere.
const DRAW: Duration = Duration::from_millis(200);
const WRITE: Duration = Duration::from_secs(5);

/// Shows progress again and again; never returns.
pub(crate) async fn show(stage: Stage, driver: &Driver) {
    let stage = match stage {
        Stage::Load => "loading  ",
        Stage::Measure => "measuring",
    };
    let progress = Progress { stage, on_terminal: stderr().is_terminal() };
    let mut ticks = tokio::time::interval(if progress.on_terminal { DRAW } else { WRITE });
    ticks.tick().await;
    loop {
        ticks.tick().await;
        progress.show(driver);
    }
}

struct Progress {
    stage: &'static str,
    on_terminal: bool,
}

/// Clears a terminal's line, for what comes next.
impl Drop for Progress {
    fn drop(&mut self) {
        if self.on_terminal {
            write("\r\x1b[K");
        }
    }
}

impl Progress {
    fn show(&self, driver: &Driver) {
        let (line, counts) = (self.line(driver), driver.measurements());
        let trouble = match (counts.throttled, counts.errors_count()) {
            (0, 0) => String::new(),
            (throttled, errors) => {
                format!("  {} throttled  {} errors", count(throttled as f64), count(errors as f64))
            }
        };
        if self.on_terminal {
            write(&format!("\r\x1b[K{line}{trouble}"));
        } else {
            write(&format!("{line}{trouble}\n"));
        }
    }

    fn line(&self, driver: &Driver) -> String {
        let total = driver.measurements().total();
        let seconds = driver.elapsed().as_secs_f64().max(1e-9);
        let share = driver.share_done().min(1.0);
        let per_second = |number: f64| count(number / seconds);
        format!(
            "{} {} {:>3.0} %  {} op/s  {} RU/s  p50 {:.1} ms  p99 {:.1} ms",
            self.stage,
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
fn write(text: &str) {
    let mut out = stderr().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

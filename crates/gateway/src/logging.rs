//! Where log lines go: standard error, as text for people or as JSON for machines.
//!
//! Standard output is kept for what a caller of the binary waits for (the banner, the ready line),
//! so the two never mix. No log line carries a key or a signature.

use std::io::{self, IsTerminal};

use tracing_subscriber::filter::{EnvFilter, ParseError};
use tracing_subscriber::fmt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::util::TryInitError;

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

/// Why logging could not start.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    #[error("{filter:?} is no log level or filter: {source}")]
    Filter { filter: String, source: ParseError },
    #[error("logging was started twice: {0}")]
    Twice(#[from] TryInitError),
}

/// Starts logging for the whole process. `filter` is a level (`info`) or directives
/// (`warn,partita_gateway=debug`).
pub fn start_logging(filter: &str, format: LogFormat) -> Result<(), LoggingError> {
    let directives = EnvFilter::try_new(filter)
        .map_err(|source| LoggingError::Filter { filter: filter.to_string(), source })?;
    let lines = fmt().with_env_filter(directives).with_writer(io::stderr);
    match format {
        LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).finish().try_init()?,
        LogFormat::Json => lines.json().flatten_event(true).finish().try_init()?,
    }
    Ok(())
}

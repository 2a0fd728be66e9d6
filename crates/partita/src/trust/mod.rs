//! Whose requests are served: keys from flags, variables and files, and the access file; and the
//! token of who scrapes metrics.
//!
//! It is read at the start and again on SIGHUP, so that keys and roles change without a pause. The
//! rule that matters most is here: the well-known key, which everybody knows, opens a server only
//! to its own machine.

pub(crate) mod renewal;

use std::env;
use std::fmt;
use std::fs;
use std::path::Path;

use partita_cli::Failure;
use partita_declaration::AccessFile;
use partita_executor::{MetricsAccess, Trust};
use partita_gateway::Listen;
use partita_gateway::auth::{Key, Keys, ScrapeToken, WELL_KNOWN_KEY};

use crate::args::{KeyArgs, MetricsKind};

/// Where the primary key comes from: decides whether it may be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PrimaryKey {
    WellKnown,
    /// By this flag or variable.
    SetBy(String),
}

/// Where to read it.
#[derive(Clone, Debug)]
pub(crate) struct TrustSource {
    pub(crate) keys: KeyArgs,
    pub(crate) listen: Vec<Listen>,
    pub(crate) metrics: MetricsKind,
}

impl TrustSource {
    /// Reads it, as it is now.
    pub(crate) fn read(&self) -> Result<(Trust, PrimaryKey), Failure> {
        let (keys, primary_key) = keys(&self.keys, &self.listen)?;
        let access = match &self.keys.access_file {
            Some(file) => AccessFile::read(file).map_err(|why| {
                Failure::usage(format!("--access-file {}: {why}", file.display()))
            })?,
            None => AccessFile::default(),
        };
        let metrics = match (self.metrics, &self.keys.metrics_token_file) {
            (MetricsKind::Restricted, None) => MetricsAccess::Restricted(None),
            (MetricsKind::Restricted, Some(file)) => {
                MetricsAccess::Restricted(Some(scrape_token(file)?))
            }
            (MetricsKind::Open, None) => MetricsAccess::Open,
            (MetricsKind::Open, Some(_)) => {
                return Err(Failure::usage(
                    "--metrics open shows all metrics to everybody: take it or \
                     --metrics-token-file away",
                ));
            }
        };
        let trust = Trust { keys, issuers: access.issuers, roles: access.roles, metrics };
        Ok((trust, primary_key))
    }
}

fn keys(args: &KeyArgs, listen: &[Listen]) -> Result<(Keys, PrimaryKey), Failure> {
    let (primary, source) = primary_key(args, listen)?;
    let secondary = match &args.secondary_key_file {
        Some(file) => Some(key_in("--secondary-key-file", file)?),
        None => key("--secondary-key", args.secondary_key.as_ref())?,
    };
    let keys = Keys {
        primary: Some(primary),
        secondary,
        primary_readonly: key("--readonly-key", args.readonly_key.as_ref())?,
        secondary_readonly: key("--secondary-readonly-key", args.secondary_readonly_key.as_ref())?,
    };
    Ok((keys, source))
}

fn primary_key(args: &KeyArgs, listen: &[Listen]) -> Result<(Key, PrimaryKey), Failure> {
    if let Some(key) = key("--key", args.key.as_ref())? {
        let variable = env::var("PARTITA_KEY").is_ok_and(|set| args.key.as_ref() == Some(&set));
        let source = if variable { "PARTITA_KEY" } else { "--key" };
        return Ok((key, PrimaryKey::SetBy(source.to_string())));
    }
    if let Some(path) = &args.key_file {
        let source = PrimaryKey::SetBy(format!("--key-file {}", path.display()));
        return Ok((key_in("--key-file", path)?, source));
    }
    if let Some(public) = listen.iter().find(|listen| !listen.is_loopback()) {
        return Err(Failure::usage(public_without_key(public)));
    }
    let key = Key::parse(WELL_KNOWN_KEY).expect("the well-known key is base64");
    Ok((key, PrimaryKey::WellKnown))
}

fn public_without_key(listen: &Listen) -> String {
    let address = match listen {
        Listen::Address(address) => address.to_string(),
        Listen::Loopback { port } => format!("localhost:{port}"),
    };
    format!(
        "--listen {address} can be reached by other machines, so a key of your own is needed: \
         the emulator's well-known key is public and serves loopback addresses only.\n\
         Set one, for example:\n  \
         export PARTITA_KEY=\"$(openssl rand -base64 64 | tr -d '\\n')\"\n\
         or keep it in a file and pass --key-file FILE."
    )
}

fn key(flag: &str, text: Option<&String>) -> Result<Option<Key>, Failure> {
    let parse = |text| Key::parse(text).map_err(|error| Failure::usage(format!("{flag}: {error}")));
    text.map(|text| parse(text)).transpose()
}

fn scrape_token(file: &Path) -> Result<ScrapeToken, Failure> {
    let flag = "--metrics-token-file";
    let text = text_in(flag, file)?;
    ScrapeToken::parse(&text).map_err(|error| Failure::usage(in_file(flag, file, &error)))
}

fn key_in(flag: &str, file: &Path) -> Result<Key, Failure> {
    let text = text_in(flag, file)?;
    Key::parse(&text).map_err(|error| Failure::usage(in_file(flag, file, &error)))
}

fn text_in(flag: &str, file: &Path) -> Result<String, Failure> {
    fs::read_to_string(file).map_err(|error| Failure::usage(in_file(flag, file, &error)))
}

fn in_file(flag: &str, file: &Path, why: &dyn fmt::Display) -> String {
    format!("{flag} {}: {why}", file.display())
}

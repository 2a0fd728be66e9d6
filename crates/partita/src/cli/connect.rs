//! Which server a command asks, and with which key: what was typed, understood.

use partita_gateway::auth::Key;

use crate::args::ConnectArgs;
use crate::failure::Failure;
use crate::outgoing::{Authorities, Endpoint};
use crate::trust::WELL_KNOWN_KEY;

/// A server and a key to it.
#[derive(Debug)]
pub(crate) struct Connect {
    pub(crate) endpoint: Endpoint,
    pub(crate) key: Key,
    /// Whom to believe over https.
    pub(crate) authorities: Authorities,
}

impl Connect {
    pub(crate) fn of(args: &ConnectArgs) -> Result<Connect, Failure> {
        let endpoint = Endpoint::parse(&args.endpoint)
            .map_err(|why| Failure::usage(format!("--endpoint: {why}")))?;
        let authorities = Authorities::read("--ca-file", args.ca_file.as_deref());
        Ok(Connect {
            key: key(args.key.as_deref(), &endpoint)?,
            authorities: authorities.map_err(Failure::usage)?,
            endpoint,
        })
    }
}

/// The given key; the well-known one only where a server can have been started with it.
fn key(given: Option<&str>, endpoint: &Endpoint) -> Result<Key, Failure> {
    let text = match given {
        Some(text) => text,
        None if endpoint.is_loopback() => WELL_KNOWN_KEY,
        None => {
            return Err(Failure::usage(format!(
                "a key of the account at {} is needed: pass --key, or set PARTITA_KEY, which does \
                 not show in the list of processes",
                endpoint.authority()
            )));
        }
    };
    Key::parse(text).map_err(|error| Failure::usage(format!("--key: {error}")))
}

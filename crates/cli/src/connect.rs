//! Which account a command asks, and with which key.

use std::sync::Arc;

use partita_gateway::auth::{Key, WELL_KNOWN_KEY};
use partita_http_client::{Account, Authorities, Endpoint, Limits};
use partita_model::Clock;

use crate::args::ConnectArgs;
use crate::failure::Failure;

/// The account that the arguments name.
pub(crate) fn account(
    args: &ConnectArgs,
    limits: Limits,
    clock: Arc<dyn Clock>,
) -> Result<Account, Failure> {
    let endpoint = Endpoint::parse(&args.endpoint)
        .map_err(|why| Failure::usage(format!("--endpoint: {why}")))?;
    let authorities = Authorities::read("--ca-file", args.ca_file.as_deref());
    let authorities = authorities.map_err(Failure::usage)?;
    let key = key(args.key.as_deref(), &endpoint)?;
    Account::new(endpoint, key, &authorities, limits, clock).map_err(Failure::other)
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

#[cfg(test)]
mod tests {
    use partita_model::FixedClock;

    use super::*;

    fn refused(endpoint: &str, key: Option<&str>, ca_file: Option<&str>) -> String {
        let args = ConnectArgs {
            endpoint: endpoint.to_owned(),
            key: key.map(str::to_owned),
            ca_file: ca_file.map(Into::into),
        };
        let limits = Limits { timeout: std::time::Duration::ZERO, response_bytes_max: 0 };
        let account = account(&args, limits, Arc::new(FixedClock::new(0)));
        account.err().map(|failure| failure.to_string()).unwrap_or_default()
    }

    #[test]
    fn this_machine_needs_no_key_and_others_do() {
        assert_eq!(refused("http://127.0.0.1:1", None, None), "");
        let there = refused("https://account.example", None, None);
        assert!(there.contains("--key") && there.contains("account.example"), "{there}");
        let wrong = refused("http://localhost", Some("short"), None);
        assert!(wrong.contains("--key: the key is not base64"), "{wrong}");
        assert!(refused("http://localhost", None, Some("/nowhere/at/all")).contains("--ca-file"));
    }
}

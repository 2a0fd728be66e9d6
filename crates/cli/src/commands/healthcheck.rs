//! `partita healthcheck`: is a server ready? For containers and scripts, which ask by exit code.
//!
//! Plain HTTP unless something else is asked for, because the server speaks it on the same port and
//! a check on the same machine has nothing to hide; that also spares the question which certificate
//! to trust.

use std::env;
use std::time::Duration;

use partita_gateway::{DEFAULT_PORT, Listen};
use partita_http_client::{Authorities, BlockingRuntime, Limits, OneShotRequest, Url};

use crate::args::HealthcheckArgs;
use crate::failure::Failure;

/// Longer than a healthy server takes, and shorter than a container runtime waits.
const LIMITS: Limits = Limits { timeout: Duration::from_secs(4), response_bytes_max: 1 << 20 };

/// Asks `/ready`.
pub(crate) fn run(args: &HealthcheckArgs) -> Result<(), Failure> {
    let url = ready_url(args.url.as_deref(), env::var("PARTITA_LISTEN").ok().as_deref())?;
    let request = OneShotRequest {
        url: Url::parse(&url).map_err(|why| Failure::usage(format!("--url: {why}")))?,
        authorities: Authorities::read("--ca-file", args.ca_file.as_deref())
            .map_err(Failure::usage)?,
        limits: LIMITS,
    };
    let failed = |why: String| Failure::other(format!("{url}: the server is not ready: {why}"));
    let runtime = BlockingRuntime::start().map_err(|error| failed(error.to_string()))?;
    runtime.block_on(request.get()).map(drop).map_err(failed)
}

/// Where to ask: the given server, or the one this environment would start.
fn ready_url(url: Option<&str>, listen: Option<&str>) -> Result<String, Failure> {
    let Some(url) = url else { return Ok(format!("http://{}/ready", local_host(listen)?)) };
    let base = url.trim_end_matches('/');
    Ok(if base.ends_with("/ready") { base.to_string() } else { format!("{base}/ready") })
}

fn local_host(listen: Option<&str>) -> Result<String, Failure> {
    let first = listen.and_then(|listen| listen.split(',').map(str::trim).next());
    let first = first.map_or(Ok(Listen::Loopback { port: DEFAULT_PORT }), Listen::parse);
    Ok(match first.map_err(|why| Failure::usage(format!("--listen {why}")))? {
        Listen::Loopback { port } => format!("127.0.0.1:{port}"),
        Listen::Address(address) if address.ip().is_unspecified() => {
            format!("localhost:{}", address.port())
        }
        Listen::Address(address) => address.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_is_completed_or_derived_from_the_listen_address() {
        let url = |url, listen| ready_url(url, listen).unwrap();
        assert_eq!(url(None, None), "http://127.0.0.1:8081/ready");
        assert_eq!(url(None, Some("9000,10.0.0.1:1")), "http://127.0.0.1:9000/ready");
        assert_eq!(url(None, Some("0.0.0.0:82")), "http://localhost:82/ready");
        assert_eq!(url(None, Some("[::1]:83")), "http://[::1]:83/ready");
        assert_eq!(url(Some("http://db:81/"), None), "http://db:81/ready");
        assert_eq!(url(Some("http://db:81/ready"), None), "http://db:81/ready");
    }
}

//! Keys of identity providers are fetched when the server starts, and again now and then.
//!
//! A key that its issuer took back counts until the next time. One that is new is fetched earlier,
//! by the first request that comes with it (`partita_gateway::auth::Issuer::renew`).

use std::sync::Arc;
use std::time::Duration;

use partita_executor::{Credentials, Trust};
use partita_model::Clock;

/// From one time to the next.
const INTERVAL: Duration = Duration::from_secs(900);

/// Keeps the keys of whoever is trusted fresh. Never ends.
pub(crate) async fn run(credentials: Arc<Credentials>, clock: Arc<dyn Clock>) {
    loop {
        renew(&credentials.current(), &*clock).await;
        tokio::time::sleep(INTERVAL).await;
    }
}

/// From now on these are trusted. Keys that were fetched before stay until others are.
pub(crate) async fn replace(credentials: &Credentials, trust: Trust, clock: &dyn Clock) {
    let before = credentials.current();
    for issuer in &trust.issuers {
        issuer.take_over(&before.issuers);
    }
    credentials.replace(trust);
    renew(&credentials.current(), clock).await;
}

async fn renew(trust: &Trust, clock: &dyn Clock) {
    for issuer in &trust.issuers {
        issuer.renew(clock.unix_millis() / 1_000).await;
    }
}

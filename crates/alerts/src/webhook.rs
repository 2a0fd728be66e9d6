//! Posts alerts to a webhook, each a few times if need be.
//!
//! Of the URL only scheme, host and port are logged: the rest is often a secret.

use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::thread;
use std::time::Duration;

use partita_http_client::{Authorities, BlockingRuntime, Limits, OneShotRequest, Url};

use crate::counts::Counts;
use crate::watcher::spawn;

/// Alerts that wait for the webhook.
const QUEUE_MAX: usize = 64;

/// How often an alert is tried, and the pause after the first try; each next one is twice as long.
const ATTEMPTS_MAX: u32 = 4;
const PAUSE: Duration = Duration::from_secs(1);

/// Of each try. Responses are read, though they say nothing of interest.
const LIMITS: Limits = Limits { timeout: Duration::from_secs(5), response_bytes_max: 1 << 20 };

/// The request that delivers an alert.
pub fn webhook(url: Url, authorities: Authorities) -> OneShotRequest {
    OneShotRequest { url, authorities, limits: LIMITS }
}

/// Starts the thread that posts what comes through the queue. It ends when the queue is closed; the
/// process does not wait for it.
pub(crate) fn start(
    request: OneShotRequest,
    counts: Arc<Counts>,
) -> Result<SyncSender<String>, String> {
    let (queue, alerts) = mpsc::sync_channel::<String>(QUEUE_MAX);
    let run = move || {
        for body in alerts {
            if let Err(why) = deliver(&request, &body) {
                counts.lose();
                let url = request.url.endpoint.url();
                tracing::warn!("the webhook at {url} did not take an alert: {why}");
            }
        }
    };
    spawn("partita-webhook", run)?;
    Ok(queue)
}

fn deliver(request: &OneShotRequest, body: &str) -> Result<(), String> {
    let runtime = BlockingRuntime::start().map_err(|error| error.to_string())?;
    let mut pause = PAUSE;
    let mut attempt = 1;
    loop {
        match runtime.block_on(request.post(body.to_owned())) {
            Ok(()) => return Ok(()),
            Err(why) if attempt == ATTEMPTS_MAX => return Err(why),
            Err(_) => {
                thread::sleep(pause);
                pause *= 2;
                attempt += 1;
            }
        }
    }
}

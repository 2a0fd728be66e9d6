//! Clients that send one request after the other until it is enough.
//!
//! A client takes the next number, makes the request with that number, sends it and counts the
//! outcome. If it is throttled (429) it waits as long as it is told and sends the same again; the
//! latency that counts is that of the attempt which succeeded.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use partita_http_client::{Account, AccountRequest, Connection, RequestError};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Stage;
use super::measurements::{ErrorClass, Measurements, OperationKind};
use super::requests::RequestGenerator;
use super::settings::Limit;

/// After how many requests in a row without any answer a client gives up.
const FAILURES_MAX: u32 = 10;

/// How long a client waits before it connects again.
const RECONNECT: Duration = Duration::from_millis(200);

/// How long it waits where it is told to, but not how long.
const PAUSE: Duration = Duration::from_millis(100);

/// What all clients share.
pub struct Driver {
    account: Arc<Account>,
    requests: Arc<RequestGenerator>,
    stage: Stage,
    limit: Limit,
    begun: Duration,
    next: AtomicU64,
    measurements: Vec<Mutex<Measurements>>,
    /// Becomes true when the user ends the run.
    stop: watch::Receiver<bool>,
}

impl Driver {
    pub(crate) fn new(
        account: &Arc<Account>,
        requests: &Arc<RequestGenerator>,
        stage: Stage,
        limit: Limit,
        clients: u16,
        stop: watch::Receiver<bool>,
    ) -> Arc<Driver> {
        Arc::new(Driver {
            account: Arc::clone(account),
            requests: Arc::clone(requests),
            stage,
            limit,
            begun: account.now(),
            next: AtomicU64::new(0),
            measurements: (0..clients).map(|_| Mutex::default()).collect(),
            stop,
        })
    }

    /// Runs the clients until they are done.
    pub(crate) async fn run(self: Arc<Driver>) {
        let mut clients = JoinSet::new();
        for client in 0..self.measurements.len() {
            let driver = Arc::clone(&self);
            clients.spawn(async move { driver.client(client).await });
        }
        drop(clients.join_all().await);
    }

    pub fn elapsed(&self) -> Duration {
        self.account.now().saturating_sub(self.begun)
    }

    /// What was counted so far.
    pub fn measurements(&self) -> Measurements {
        let mut sum = Measurements::default();
        for client in &self.measurements {
            sum.add(&client.lock().unwrap_or_else(PoisonError::into_inner));
        }
        sum
    }

    /// How much of it is done, 0 to 1.
    pub fn share_done(&self) -> f64 {
        match self.limit {
            Limit::Seconds(seconds) => self.elapsed().as_secs_f64() / seconds as f64,
            Limit::Operations(all) => {
                let taken = self.next.load(Ordering::Relaxed).min(all);
                taken as f64 / all.max(1) as f64
            }
        }
    }

    async fn client(&self, client: usize) {
        let mut stop = self.stop.clone();
        tokio::select! {
            () = self.send_requests(client) => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }

    async fn send_requests(&self, client: usize) {
        let mut connection = None;
        let mut failures = 0;
        while let Some(number) = self.take() {
            let (kind, request) = self.requests.request(self.stage, number);
            match self.until_answered(client, kind, &request, &mut connection).await {
                Ok(()) => failures = 0,
                Err(error) => {
                    let class = ErrorClass::from(&error);
                    self.count(client, |counts| counts.failed(class, error.to_string()));
                    connection = None;
                    failures += 1;
                    if failures >= FAILURES_MAX {
                        return;
                    }
                    tokio::time::sleep(RECONNECT).await;
                }
            }
        }
    }

    /// Sends a request until it is not throttled any more, or the time is over.
    async fn until_answered(
        &self,
        client: usize,
        kind: OperationKind,
        request: &AccountRequest,
        connection: &mut Option<Connection>,
    ) -> Result<(), RequestError> {
        loop {
            // A server may close a connection after an answer; that is no error.
            drop(connection.take_if(|known| known.is_closed()));
            let open = match connection {
                Some(open) => open,
                None => connection.insert(self.account.connect().await?),
            };
            let sent = self.account.now();
            let response = self.account.send(open, request).await?;
            let latency = self.account.now().saturating_sub(sent);
            match response.status {
                200..=299 => {
                    self.count(client, |counts| counts.succeeded(kind, latency, response.charge));
                    return Ok(());
                }
                429 => {
                    let pause = response.retry_after.unwrap_or(PAUSE).min(self.left());
                    self.count(client, |counts| {
                        counts.throttled += 1;
                        counts.throttled_wait += pause;
                    });
                    tokio::time::sleep(pause).await;
                    if self.left().is_zero() {
                        return Ok(());
                    }
                }
                status => {
                    let class = ErrorClass::Refused(status, response.substatus);
                    self.count(client, |counts| counts.failed(class, response.reason()));
                    return Ok(());
                }
            }
        }
    }

    /// The next number, if there is one.
    fn take(&self) -> Option<u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        match self.limit {
            Limit::Operations(all) => (number < all).then_some(number),
            Limit::Seconds(_) => (!self.left().is_zero()).then_some(number),
        }
    }

    /// How much time is left.
    fn left(&self) -> Duration {
        match self.limit {
            Limit::Operations(_) => Duration::MAX,
            Limit::Seconds(seconds) => Duration::from_secs(seconds).saturating_sub(self.elapsed()),
        }
    }

    fn count(&self, client: usize, change: impl FnOnce(&mut Measurements)) {
        if let Some(counts) = self.measurements.get(client) {
            change(&mut counts.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

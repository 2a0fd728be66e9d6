//! Clients that ask, one request after the other, until it has been enough.
//!
//! A client takes the next number, makes the request that belongs to it, sends it and counts what
//! becomes of it. Where it is told that it was too much (429), it waits as long as it is told and
//! sends the same again; the latency that counts is that of the attempt which got through.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::account::{Account, Ask, Connection, Unanswered};
use super::settings::Limit;
use super::tally::{Kind, Tally, Wrong};
use super::workload::{Requests, Stage};

/// After how many requests in a row without any answer a client gives up.
const UNANSWERED_MAX: u32 = 10;

/// How long a client waits before it connects again.
const RECONNECT: Duration = Duration::from_millis(200);

/// How long it waits where it is told to, but not how long.
const PAUSE: Duration = Duration::from_millis(100);

/// What all clients share.
pub(crate) struct Drive {
    account: Arc<Account>,
    requests: Arc<Requests>,
    stage: Stage,
    limit: Limit,
    begun: Duration,
    next: AtomicU64,
    tallies: Vec<Mutex<Tally>>,
    /// Becomes true when the user has had enough.
    stop: watch::Receiver<bool>,
}

impl Drive {
    pub(crate) fn new(
        account: &Arc<Account>,
        requests: &Arc<Requests>,
        (stage, limit): (Stage, Limit),
        clients: u16,
        stop: watch::Receiver<bool>,
    ) -> Arc<Drive> {
        Arc::new(Drive {
            account: Arc::clone(account),
            requests: Arc::clone(requests),
            stage,
            limit,
            begun: account.now(),
            next: AtomicU64::new(0),
            tallies: (0..clients).map(|_| Mutex::default()).collect(),
            stop,
        })
    }

    /// Lets the clients ask until they are done.
    pub(crate) async fn run(self: Arc<Drive>) {
        let mut clients = JoinSet::new();
        for client in 0..self.tallies.len() {
            let drive = Arc::clone(&self);
            clients.spawn(async move { drive.client(client).await });
        }
        drop(clients.join_all().await);
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.account.now().saturating_sub(self.begun)
    }

    /// What was counted so far.
    pub(crate) fn tally(&self) -> Tally {
        let mut sum = Tally::default();
        for tally in &self.tallies {
            sum.add(&tally.lock().unwrap_or_else(PoisonError::into_inner));
        }
        sum
    }

    /// How much of it is done, 0 to 1.
    pub(crate) fn share_done(&self) -> f64 {
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
            () = self.ask_on(client) => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }

    async fn ask_on(&self, client: usize) {
        let mut connection = None;
        let mut unanswered = 0;
        while let Some(number) = self.take() {
            let (kind, ask) = self.requests.request(self.stage, number);
            match self.until_answered(client, kind, &ask, &mut connection).await {
                Ok(()) => unanswered = 0,
                Err(Unanswered { wrong, why }) => {
                    self.count(client, |tally| tally.failed(wrong, why));
                    connection = None;
                    unanswered += 1;
                    if unanswered >= UNANSWERED_MAX {
                        return;
                    }
                    tokio::time::sleep(RECONNECT).await;
                }
            }
        }
    }

    /// Sends a request until it is answered with something else than that it is too much, or the
    /// time is over.
    async fn until_answered(
        &self,
        client: usize,
        kind: Kind,
        ask: &Ask,
        connection: &mut Option<Connection>,
    ) -> Result<(), Unanswered> {
        loop {
            // A server may close a connection after an answer; that is no error.
            drop(connection.take_if(|known| known.is_closed()));
            let open = match connection {
                Some(open) => open,
                None => connection.insert(self.account.connect().await?),
            };
            let sent = self.account.now();
            let answer = self.account.call(open, ask).await?;
            let latency = self.account.now().saturating_sub(sent);
            match answer.status {
                200..=299 => {
                    self.count(client, |tally| tally.succeeded(kind, latency, answer.charge));
                    return Ok(());
                }
                429 => {
                    let pause = answer.retry_after.unwrap_or(PAUSE).min(self.left());
                    self.count(client, |tally| {
                        tally.throttled += 1;
                        tally.waited += pause;
                    });
                    tokio::time::sleep(pause).await;
                    if self.left().is_zero() {
                        return Ok(());
                    }
                }
                status => {
                    let wrong = Wrong::Refused(status, answer.substatus);
                    self.count(client, |tally| tally.failed(wrong, answer.reason()));
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

    fn count(&self, client: usize, change: impl FnOnce(&mut Tally)) {
        if let Some(tally) = self.tallies.get(client) {
            change(&mut tally.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

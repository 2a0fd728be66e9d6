//! Alerts: a thread that looks at the partitions now and then, and tells what it sees.
//!
//! What is worth an alert is the engine's business. Here it becomes a line in the log, a counter
//! and, if there is a webhook, a POST. The webhook has a thread of its own behind a bounded queue:
//! one that is slow or gone delays nobody, and what does not fit is counted and dropped. Each alert
//! is tried a few times. What the URL has beside scheme, host and port is often a secret, and not
//! logged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use partita_engine::{Alert, AlertKind, Database, Watch};
use partita_gateway::{Sample, Series, SeriesKind};
use partita_model::{Clock, Object, Value};

use crate::failure::Failure;
use crate::outgoing::{Authorities, Errand, Target, Waiting};
use crate::system::SystemClock;

/// Alerts that wait for the webhook.
const QUEUE_MAX: usize = 64;

/// How often an alert is tried, and the pause after the first try; the next are twice as long each.
const ATTEMPTS_MAX: u32 = 4;
const PAUSE: Duration = Duration::from_secs(1);

/// How long a try may take, and how much of an answer is read: it says nothing of interest.
const TIMEOUT: Duration = Duration::from_secs(5);
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// What was raised, for metrics.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    sizes: AtomicU64,
    throttlings: AtomicU64,
    disks: AtomicU64,
    undelivered: AtomicU64,
}

impl Counts {
    /// The counters as series.
    pub(crate) fn series(&self) -> Vec<Series> {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        let sample = |kind: AlertKind, counter| Sample {
            labels: vec![("kind", kind.word().to_owned())],
            value: load(counter),
        };
        let series =
            |name, help, samples| Series { name, help, kind: SeriesKind::Counter, samples };
        let raised = vec![
            sample(AlertKind::LogicalPartitionSize, &self.sizes),
            sample(AlertKind::Throttling, &self.throttlings),
            sample(AlertKind::Disk, &self.disks),
        ];
        let lost = vec![Sample { labels: Vec::new(), value: load(&self.undelivered) }];
        vec![
            series("alerts", "Alerts raised", raised),
            series("alerts_undelivered", "Alerts that the webhook did not take", lost),
        ]
    }

    fn count(&self, kind: AlertKind) {
        let counter = match kind {
            AlertKind::LogicalPartitionSize => &self.sizes,
            AlertKind::Throttling => &self.throttlings,
            AlertKind::Disk => &self.disks,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn lose(&self) {
        self.undelivered.fetch_add(1, Ordering::Relaxed);
    }
}

/// The running threads; stopped by [`Watcher::stop`].
pub(crate) struct Watcher {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

/// What a watcher is told.
pub(crate) struct WatcherSettings {
    pub(crate) interval: Duration,
    /// Where alerts are posted.
    pub(crate) webhook: Option<Errand>,
}

impl Watcher {
    pub(crate) fn start(
        database: Arc<Database>,
        settings: WatcherSettings,
        counts: Arc<Counts>,
        clock: SystemClock,
    ) -> Result<Watcher, Failure> {
        let queue = match settings.webhook {
            Some(errand) => Some(start_webhook(errand, Arc::clone(&counts))?),
            None => None,
        };
        let (stop, stopped) = mpsc::channel();
        let interval = settings.interval;
        let run = move || {
            let mut watch = Watch::default();
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(interval) {
                for alert in database.watch(&mut watch) {
                    raise(&alert, &counts, queue.as_ref(), clock.unix_millis());
                }
            }
        };
        Ok(Watcher { stop, thread: spawn("partita-watch", run)? })
    }

    /// Ends the watching. What the webhook has not taken by now it will not get.
    pub(crate) fn stop(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            tracing::error!("the watching thread ended by a panic");
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Failure> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.map_err(|error| Failure::other(format!("cannot start a thread: {error}")))
}

fn raise(alert: &Alert, counts: &Counts, queue: Option<&SyncSender<String>>, unix_millis: u64) {
    tracing::warn!(
        kind = alert.kind.word(),
        database = alert.database,
        container = alert.container,
        range = alert.range_id,
        "{}",
        alert.message
    );
    counts.count(alert.kind);
    let is_lost = queue.is_some_and(|queue| queue.try_send(body(alert, unix_millis)).is_err());
    if is_lost {
        counts.lose();
        tracing::warn!("an alert was not sent: too many wait for the webhook");
    }
}

/// What is posted.
fn body(alert: &Alert, unix_millis: u64) -> String {
    let key = alert.key.as_ref().and_then(|key| Value::parse(key.as_bytes()).ok());
    let named = |text: &str| match alert.kind.is_of_partition() {
        true => Value::from(text),
        false => Value::Null,
    };
    let body = Object::new()
        .with("alert", alert.kind.word())
        .with("database", named(&alert.database))
        .with("container", named(&alert.container))
        .with("partition", named(&alert.range_id.to_string()))
        .with("key", key.unwrap_or(Value::Null))
        .with("share", alert.share)
        .with("message", alert.message.as_str())
        .with("unixMillis", i64::try_from(unix_millis).unwrap_or(i64::MAX));
    Value::from(body).to_json()
}

/// A thread that posts what comes through the queue. It ends when nobody can send any more; the
/// process does not wait for it.
fn start_webhook(errand: Errand, counts: Arc<Counts>) -> Result<SyncSender<String>, Failure> {
    let (queue, alerts) = mpsc::sync_channel::<String>(QUEUE_MAX);
    let run = move || {
        for body in alerts {
            if let Err(why) = deliver(&errand, &body) {
                counts.lose();
                let url = errand.target.endpoint.url();
                tracing::warn!("the webhook at {url} did not take an alert: {why}");
            }
        }
    };
    spawn("partita-webhook", run)?;
    Ok(queue)
}

/// Where alerts are posted.
pub(crate) fn webhook(target: Target, authorities: Authorities) -> Errand {
    Errand { target, authorities, timeout: TIMEOUT, bytes_max: ANSWER_BYTES_MAX }
}

fn deliver(errand: &Errand, body: &str) -> Result<(), String> {
    let waiting = Waiting::start().map_err(|error| error.to_string())?;
    let mut pause = PAUSE;
    let mut attempt = 1;
    loop {
        match waiting.wait(errand.post(body.to_owned())) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn some(kind: AlertKind, key: Option<&str>) -> Alert {
        Alert {
            kind,
            database: "d".into(),
            container: "c".into(),
            range_id: 3,
            key: key.map(str::to_owned),
            share: 0.85,
            message: "full".into(),
        }
    }

    #[test]
    fn an_alert_is_one_object() {
        let alert = some(AlertKind::LogicalPartitionSize, Some(r#"["a",1]"#));
        let expected = r#"{"alert":"logical_partition_size","database":"d","container":"c","partition":"3","key":["a",1],"share":0.85,"message":"full","unixMillis":5}"#;
        assert_eq!(body(&alert, 5), expected);
    }

    #[test]
    fn an_alert_about_the_disk_names_no_container() {
        let expected = r#"{"alert":"disk","database":null,"container":null,"partition":null,"key":null,"share":0.85,"message":"full","unixMillis":5}"#;
        assert_eq!(body(&some(AlertKind::Disk, None), 5), expected);
    }

    #[test]
    fn what_does_not_fit_the_queue_is_counted_and_nobody_waits() {
        let counts = Counts::default();
        let (queue, _waiting) = mpsc::sync_channel(1);
        for _ in 0..3 {
            raise(&some(AlertKind::Throttling, None), &counts, Some(&queue), 0);
        }
        let numbers: Vec<f64> = counts
            .series()
            .iter()
            .flat_map(|series| series.samples.iter().map(|sample| sample.value))
            .collect();
        assert_eq!(numbers, [0.0, 3.0, 0.0, 2.0]);
    }
}

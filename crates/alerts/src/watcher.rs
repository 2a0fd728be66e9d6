//! The thread that watches the partitions, and what becomes of an alert.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use partita_engine::{Alert, Database, Watch};
use partita_http_client::OneShotRequest;
use partita_model::{Clock, Object, Value};

use crate::counts::Counts;
use crate::webhook;

/// The running threads; stopped by [`Watcher::stop`].
pub struct Watcher {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

pub struct WatcherSettings {
    pub interval: Duration,
    /// Where alerts are posted.
    pub webhook: Option<OneShotRequest>,
}

impl Watcher {
    pub fn start(
        database: Arc<Database>,
        settings: WatcherSettings,
        counts: Arc<Counts>,
        clock: Arc<dyn Clock>,
    ) -> Result<Watcher, String> {
        let start = |request| webhook::start(request, Arc::clone(&counts));
        let queue = settings.webhook.map(start).transpose()?;
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

    /// Ends the watching. Alerts that the webhook has not taken yet are lost.
    pub fn stop(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            tracing::error!("the watching thread ended by a panic");
        }
    }
}

pub(crate) fn spawn(
    name: &str,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, String> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.map_err(|error| format!("cannot start a thread: {error}"))
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
    let named =
        |text: &str| if alert.kind.is_of_partition() { Value::from(text) } else { Value::Null };
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

#[cfg(test)]
mod tests {
    use partita_engine::AlertKind;

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

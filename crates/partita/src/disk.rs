//! The thread that looks at the disk of the data directory, and what the program tells of it.
//!
//! The store looks by itself while it writes. Nobody would notice that there is room again, or that
//! somebody else fills the disk, while it does not: so this looks all the time, which takes a
//! microsecond. The levels and what they mean are the store's.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use partita_cli::Failure;
use partita_engine::Database;
use partita_gateway::{Sample, Series, SeriesKind};
use partita_model::Object;
use partita_storage::{Disk, DiskLevel, Status};

/// At 500 MB a second a disk loses 50 MB in this time, less than half of the smallest reserve.
const LOOK: Duration = Duration::from_millis(100);

/// A running thread; stopped by [`DiskWatcher::stop`].
pub(crate) struct DiskWatcher {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl DiskWatcher {
    pub(crate) fn start(database: &Arc<Database>) -> Result<DiskWatcher, Failure> {
        let database = Arc::clone(database);
        let (stop, stopped) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("partita-disk".to_owned())
            .spawn(move || {
                while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(LOOK) {
                    database.look_at_disk();
                }
            })
            .map_err(|error| Failure::other(format!("cannot start a thread: {error}")))?;
        Ok(DiskWatcher { stop, thread })
    }

    pub(crate) fn stop(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            tracing::error!("the thread that watches the disk ended by a panic");
        }
    }
}

/// What is refused, in a few words: those who ask need no credentials.
pub(crate) fn trouble(store: &Status) -> Option<&'static str> {
    if !store.healthy {
        return Some("the store stopped after a failed write and is being opened again");
    }
    match store.disk.as_ref()?.level {
        DiskLevel::Roomy | DiskLevel::High => None,
        DiskLevel::Full => Some("disk full: new writes are refused"),
        DiskLevel::Exhausted => Some("disk full: writes and deletes are refused"),
    }
}

/// The disk as `/status` shows it.
pub(crate) fn details(disk: &Disk) -> Object {
    let number = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    let level = match disk.level {
        DiskLevel::Roomy => "roomy",
        DiskLevel::High => "high",
        DiskLevel::Full => "full",
        DiskLevel::Exhausted => "exhausted",
    };
    Object::new()
        .with("level", level)
        .with("total_bytes", number(disk.total_bytes))
        .with("free_bytes", number(disk.free_bytes))
        .with("held_bytes", number(disk.held_bytes))
        .with("reserve_bytes", number(disk.reserve_bytes))
}

/// The disk as `/metrics` shows it; nothing where nobody watches one.
pub(crate) fn series(database: &Database) -> Vec<Series> {
    let Some(disk) = database.disk() else { return Vec::new() };
    let gauge = |name, help, value: f64| {
        let samples = vec![Sample { labels: Vec::new(), value }];
        Series { name, help, kind: SeriesKind::Gauge, samples }
    };
    let refused = f64::from(u8::from(disk.level >= DiskLevel::Full));
    vec![
        gauge(
            "disk_total_bytes",
            "Bytes of the data directory's file system",
            disk.total_bytes as f64,
        ),
        gauge("disk_free_bytes", "Bytes free for this process", disk.free_bytes as f64),
        gauge("disk_held_bytes", "Bytes held in reserve in a file", disk.held_bytes as f64),
        gauge(
            "disk_reserve_bytes",
            "Bytes that must be left for new writes to be accepted",
            disk.reserve_bytes as f64,
        ),
        gauge("disk_used_ratio", "Share of the disk that is used, 0 to 1", disk.used_share()),
        gauge("disk_writes_refused", "1 while new writes are refused (507)", refused),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(level: DiskLevel) -> Status {
        let disk = Disk { level, ..Disk::default() };
        Status { healthy: true, disk: Some(disk), ..Status::default() }
    }

    #[test]
    fn what_is_refused_is_said_and_nothing_of_where() {
        assert_eq!(trouble(&status(DiskLevel::High)), None);
        assert_eq!(trouble(&status(DiskLevel::Full)), Some("disk full: new writes are refused"));
        let stopped = Status { healthy: false, ..status(DiskLevel::Full) };
        assert!(trouble(&stopped).is_some_and(|text| text.contains("being opened again")));
        assert_eq!(trouble(&Status { healthy: true, ..Status::default() }), None);
    }
}

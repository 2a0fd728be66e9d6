//! How the server is told to stop, and how far it is with that.
//!
//! Stopping has two steps. *Draining*: no new connections, running requests finish, idle
//! connections close. *Stopped*: what is still open is cut. A [`Shutdown`] is a handle to both; the
//! listener and every connection watch it. [`Signals`] turns SIGTERM and Ctrl-C into steps.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// A handle that stops the server. Clones are the same handle.
#[derive(Clone, Debug)]
pub struct Shutdown {
    sender: Arc<watch::Sender<Phase>>,
}

/// How far the server is on its way down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Running,
    Draining,
    Stopped,
}

impl Shutdown {
    /// A server that runs.
    pub fn new() -> Shutdown {
        Shutdown { sender: Arc::new(watch::Sender::new(Phase::Running)) }
    }

    /// Stop accepting, let running requests finish.
    pub fn drain(&self) {
        self.advance(Phase::Draining);
    }

    /// Cut what is still open.
    pub fn stop(&self) {
        self.advance(Phase::Stopped);
    }

    /// Was draining or stopping asked for?
    pub fn is_draining(&self) -> bool {
        *self.sender.borrow() >= Phase::Draining
    }

    /// Waits for something, but not longer than this, and not once the server is to stop: then the
    /// answer is false.
    pub async fn pause(&self, limit: Duration, awaited: impl Future<Output = ()>) -> bool {
        let mut watch = self.watch();
        tokio::select! {
            () = reached(&mut watch, Phase::Draining) => false,
            _ = tokio::time::timeout(limit, awaited) => true,
        }
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Phase> {
        self.sender.subscribe()
    }

    /// Resolves when nobody watches any more: all connections are closed.
    pub(crate) async fn all_gone(&self) {
        self.sender.closed().await;
    }

    /// Phases only go forward.
    fn advance(&self, to: Phase) {
        self.sender.send_if_modified(|phase| {
            let later = to > *phase;
            if later {
                *phase = to;
            }
            later
        });
    }
}

impl Default for Shutdown {
    fn default() -> Shutdown {
        Shutdown::new()
    }
}

/// Waits until the phase is at least `phase`, or for ever if the handle is gone.
pub(crate) async fn reached(watch: &mut watch::Receiver<Phase>, phase: Phase) {
    if watch.wait_for(|now| *now >= phase).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The signals that ask a process to end: Ctrl-C, and SIGTERM where it exists.
#[derive(Debug)]
pub struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    /// Starts to listen: from here on the signals no longer end the process by themselves.
    #[cfg(unix)]
    pub fn install() -> io::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The name of the next signal.
    #[cfg(unix)]
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "Ctrl-C",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }

    /// Starts to listen: from here on Ctrl-C no longer ends the process by itself.
    #[cfg(not(unix))]
    pub fn install() -> io::Result<Signals> {
        Ok(Signals {})
    }

    /// The name of the next signal.
    #[cfg(not(unix))]
    pub async fn next(&mut self) -> &'static str {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        "Ctrl-C"
    }
}

/// The signal that asks a process to read its settings again: SIGHUP, where it exists.
#[derive(Debug)]
pub struct Reloads {
    #[cfg(unix)]
    hangup: tokio::signal::unix::Signal,
}

impl Reloads {
    /// Starts to listen: from here on the signal no longer ends the process.
    #[cfg(unix)]
    pub fn install() -> io::Result<Reloads> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Reloads { hangup: signal(SignalKind::hangup())? })
    }

    /// Waits for the next one.
    #[cfg(unix)]
    pub async fn next(&mut self) {
        if self.hangup.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// There is no such signal here.
    #[cfg(not(unix))]
    pub fn install() -> io::Result<Reloads> {
        Ok(Reloads {})
    }

    /// Waits forever.
    #[cfg(not(unix))]
    pub async fn next(&mut self) {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn phases_only_go_forward() {
        let shutdown = Shutdown::new();
        let mut watch = shutdown.watch();
        assert!(!shutdown.is_draining());
        shutdown.stop();
        shutdown.drain();
        assert_eq!(*watch.borrow_and_update(), Phase::Stopped);
        assert!(shutdown.is_draining());
    }

    #[tokio::test]
    async fn all_gone_waits_for_the_last_watcher() {
        let shutdown = Shutdown::new();
        let watch = shutdown.watch();
        let gone = {
            let shutdown = shutdown.clone();
            tokio::spawn(async move { shutdown.all_gone().await })
        };
        tokio::task::yield_now().await;
        assert!(!gone.is_finished());
        drop(watch);
        gone.await.unwrap();
    }
}

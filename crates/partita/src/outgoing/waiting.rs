//! Requests from threads that have no runtime: the thread waits.

use std::future::Future;
use std::io;

use tokio::runtime::{Builder, Runtime};

/// Waits for futures, on the thread that asks.
pub(crate) struct Waiting(Option<Runtime>);

impl Waiting {
    pub(crate) fn start() -> io::Result<Waiting> {
        Builder::new_current_thread().enable_io().enable_time().build().map(Some).map(Waiting)
    }

    pub(crate) fn wait<T>(&self, awaited: impl Future<Output = T>) -> T {
        let runtime = self.0.as_ref().expect("it is there until it is dropped");
        runtime.block_on(awaited)
    }
}

/// The system's search for a host's address cannot be cut short; nobody waits for its end.
impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

//! Requests from threads that have no runtime: the thread blocks.

use std::future::Future;
use std::io;

use tokio::runtime::{Builder, Runtime};

/// Runs futures on the calling thread.
pub struct BlockingRuntime(Option<Runtime>);

impl BlockingRuntime {
    pub fn start() -> io::Result<BlockingRuntime> {
        Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map(Some)
            .map(BlockingRuntime)
    }

    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let runtime = self.0.as_ref().expect("it is there until it is dropped");
        runtime.block_on(future)
    }
}

/// The system's look-up of a host's address cannot be cancelled, so nobody waits for its end.
impl Drop for BlockingRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

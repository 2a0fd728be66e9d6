//! Waiting for the next change, for readers who would ask again at once.
//!
//! A reader of the change feed who is at its end learns that there is nothing new. One who is
//! willing to wait gets the next change when it happens, or that answer when the time is over.
//! Meanwhile the request holds its connection and nothing else: no thread, no view of the data.
//!
//! The database says when it is worth looking again. The executor looks at most every [`REST`],
//! whatever happens in the partition, and at least every [`LOOK`], as a ring of the bell may be
//! missing. Every look is a read of the feed: it is authorised and charged like one, by what is
//! trusted and what time it is then. Whoever held a good token when the waiting began, and holds
//! none any more, is refused like anybody else who comes now.

use std::time::Duration;

use partita_engine::{
    Access, ChangesRequest, ContainerPath, Context, NextChange, Op, Outcome, Reply,
};
use partita_model::Error;

use crate::executor::Executor;

/// Longer than this nobody waits: proxies and clients give up on silent connections.
pub const WAIT_SECONDS_MAX: u64 = 60;

const REST: Duration = Duration::from_millis(10);
const LOOK: Duration = Duration::from_secs(1);

impl Executor {
    /// Reads the change feed, again and again until there is something or the time is over.
    /// `authenticate` says what who asks may do by then, after having waited for so long.
    pub async fn wait_for_changes<E: From<Error>>(
        &self,
        container: &ContainerPath,
        request: &ChangesRequest,
        mut context: Context,
        wait: Duration,
        authenticate: impl Fn(Duration) -> Result<Access, E>,
    ) -> Result<Reply, E> {
        let started = self.nanos();
        let waited = || Duration::from_nanos(self.nanos().saturating_sub(started));
        let mut charged = 0.0;
        loop {
            let listening = Box::new(ChangesRequest { listen: true, ..request.clone() });
            let op = Op::ReadChanges { container: container.clone(), request: listening };
            let mut reply = self.execute(op, context.clone()).await?;
            reply.charge.0 += charged;
            charged = reply.charge.0;
            let left = wait.saturating_sub(waited());
            let Some(next) = next(&mut reply).filter(|_| !left.is_zero()) else { return Ok(reply) };
            if !self.rest(left, next).await {
                return Ok(reply);
            }
            context.access = authenticate(waited())?;
        }
    }

    /// Until it is worth looking again; not if the server is to stop.
    async fn rest(&self, left: Duration, next: NextChange) -> bool {
        let never = std::future::pending();
        let shutdown = self.shutdown();
        shutdown.pause(left.min(LOOK), next).await && shutdown.pause(left.min(REST), never).await
    }
}

/// What to wait with at the end of the feed.
fn next(reply: &mut Reply) -> Option<NextChange> {
    match reply.result.as_mut() {
        Ok(Outcome::Changes { changes, more: false, next, .. }) if changes.is_empty() => {
            next.take()
        }
        _ => None,
    }
}

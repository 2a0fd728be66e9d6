//! Where operations run: inline, in the pool, or in the pool up to their commit.
//!
//! To drop the future of an operation is to cancel it. One that was not begun in the pool is thrown
//! away; one that was asks its supervisor now and then, and ends.

use std::future::Future;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{self, Poll, Waker};

use partita_engine::{Context, Op, Reply, Supervisor, block_on};
use partita_gateway::{IfLeft, JobLength, Origin, PoolError, Task, Telemetry};
use partita_model::{Error, Result};

use super::Executor;
use crate::profile::{Profile, RunMode};
use crate::share::origin;

impl Executor {
    /// Does an operation where it runs.
    pub async fn execute(&self, op: Op, context: Context) -> Result<Reply> {
        let Profile { mode, if_left, .. } = Profile::of(&op);
        let length = match mode {
            RunMode::Inline => return Ok(self.0.database.execute(op, &context).await),
            RunMode::UntilCommit => return self.begin_in_pool(op, context).await,
            RunMode::BriefJob => JobLength::Brief,
            RunMode::LongJob => JobLength::Long,
            RunMode::InlineThenLong => match self.0.database.try_inline(&op, &context) {
                Some(reply) => return Ok(reply),
                None => JobLength::Long,
            },
            RunMode::ScriptJob => JobLength::Waiting,
        };
        let origin = origin(&context.access, &op);
        if if_left == IfLeft::Cancel {
            return self.execute_supervised(op, context, length, origin).await;
        }
        // Who runs a script waits for its turn before it takes a thread.
        let turn = self.0.database.turn(&op, &context).await?;
        let database = Arc::clone(&self.0.database);
        let work = move |_: &Arc<Task>| {
            let _turn = turn;
            block_on(database.execute(op, &context))
        };
        self.0.pool.run(length, origin, work).await.map_err(pool_error)
    }

    /// The same for what may take long, and ends when its client is gone.
    async fn execute_supervised(
        &self,
        op: Op,
        mut context: Context,
        length: JobLength,
        origin: Origin,
    ) -> Result<Reply> {
        let (database, telemetry) = (Arc::clone(&self.0.database), Arc::clone(&self.0.telemetry));
        let queued = self.0.telemetry.query_queued();
        let mut left = CountedIfLeft(Some(&self.0.telemetry));
        let work = move |task: &Arc<Task>| {
            let _running = telemetry.query_running();
            drop(queued);
            context.supervisor = Some(Arc::new(TaskSupervisor(Arc::clone(task))));
            block_on(database.execute(op, &context))
        };
        let reply = self.0.pool.run(length, origin, work).await.map_err(pool_error);
        left.0 = None;
        reply
    }

    /// Prepares in the pool, and waits for the commit here: a thread of the pool that waits for the
    /// disk, or for the end of a split, is missing there.
    async fn begin_in_pool(&self, op: Op, context: Context) -> Result<Reply> {
        let origin = origin(&context.access, &op);
        let database = Arc::clone(&self.0.database);
        let mut running = Box::pin(async move { database.execute(op, &context).await });
        let begin = move |_: &Arc<Task>| match running
            .as_mut()
            .poll(&mut task::Context::from_waker(Waker::noop()))
        {
            Poll::Ready(reply) => ControlFlow::Break(reply),
            Poll::Pending => ControlFlow::Continue(running),
        };
        match self.0.pool.run(JobLength::Brief, origin, begin).await.map_err(pool_error)? {
            ControlFlow::Break(reply) => Ok(reply),
            ControlFlow::Continue(running) => Ok(running.await),
        }
    }
}

/// The supervisor of an operation that is a job of the pool.
#[derive(Debug)]
struct TaskSupervisor(Arc<Task>);

impl Supervisor for TaskSupervisor {
    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    fn step_aside(&self) {
        self.0.step_aside();
    }

    fn help(&self, work: Box<dyn FnOnce() + Send>) -> bool {
        self.0.help(work)
    }

    fn wait_for_help(&self, wait: &mut dyn FnMut()) {
        self.0.wait_for_help(wait);
    }
}

/// Counts a query whose client leaves.
struct CountedIfLeft<'a>(Option<&'a Telemetry>);

impl Drop for CountedIfLeft<'_> {
    fn drop(&mut self) {
        if let Some(telemetry) = self.0 {
            telemetry.query_cancelled();
        }
    }
}

/// What a client is told when the pool did not do its job.
fn pool_error(error: PoolError) -> Error {
    match error {
        PoolError::Full { .. } => Error::unavailable(
            "The server has more requests than it can work on: retry after a moment.",
        ),
        PoolError::Panicked(_) => Error::internal(
            "An internal error stopped this request; the server's log has the details.",
        ),
    }
}

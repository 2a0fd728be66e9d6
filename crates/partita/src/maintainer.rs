//! The thread that does what the database has to do on its own account.
//!
//! It takes one bounded step after another while there is something to do, with rests in between
//! while there are clients, and sleeps otherwise: a change of an indexing policy wakes it. What
//! fails is told once and tried again after a while, for what is left undone costs speed and loses
//! nothing.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use partita_cli::Failure;
use partita_engine::{Database, Maintenance, MaintenanceBudget};

/// Operations under way take milliseconds.
const BLOCKED: Duration = Duration::from_millis(20);
/// What comes up with time is looked for so often.
const IDLE: Duration = Duration::from_secs(5);
const FAILED: Duration = Duration::from_secs(5);

/// A running thread; stopped by [`Maintainer::stop`].
pub(crate) struct Maintainer {
    database: Arc<Database>,
    thread: JoinHandle<()>,
}

impl Maintainer {
    pub(crate) fn start(database: &Arc<Database>) -> Result<Maintainer, Failure> {
        let database = Arc::clone(database);
        let own = Arc::clone(&database);
        let thread = thread::Builder::new()
            .name("partita-maintain".to_owned())
            .spawn(move || run(&own))
            .map_err(|error| Failure::other(format!("cannot start a thread: {error}")))?;
        Ok(Maintainer { database, thread })
    }

    /// Ends the thread after the step that it is taking.
    pub(crate) fn stop(self) {
        self.database.stop_maintenance();
        if self.thread.join().is_err() {
            tracing::error!("the maintenance thread ended by a panic");
        }
    }
}

fn run(database: &Database) {
    let budget = MaintenanceBudget::default();
    loop {
        let pause = match database.maintain(&budget) {
            Ok(Maintenance::Busy) => Some(Duration::ZERO),
            Ok(Maintenance::Resting(rest)) => Some(rest),
            Ok(Maintenance::Blocked) => Some(BLOCKED),
            Ok(Maintenance::Idle) => Some(IDLE),
            Err(error) => {
                tracing::warn!("maintenance failed and will be tried again: {error}");
                Some(FAILED)
            }
        };
        if !database.await_maintenance(pause) {
            return;
        }
    }
}

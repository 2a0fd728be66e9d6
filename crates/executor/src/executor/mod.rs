//! What all doors share: one database, one pool, one set of credentials, and the life of a request
//! around the operation that it asks for.

mod run;

use std::sync::Arc;
use std::time::Duration;

use partita_engine::{Access, Context, Database, Op, Reply};
use partita_gateway::{Pool, Shutdown, Telemetry};
use partita_model::{Clock, Entropy, Result};

use crate::audit;
use crate::controls::{Controls, FaultSubject, Strike};
use crate::credentials::Credentials;
use crate::profile::Profile;
use crate::record::{AnsweredRequest, RequestRecord};

/// What an executor is made with.
pub struct ExecutorSettings {
    pub database: Arc<Database>,
    /// The threads for what must not hold up those of connections.
    pub pool: Pool,
    pub telemetry: Arc<Telemetry>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    /// Whose requests are served.
    pub credentials: Arc<Credentials>,
    /// How far a request's date may be from the server's.
    pub clock_skew_seconds: u64,
    /// Controls for tests, if there are any.
    pub controls: Option<Arc<Controls>>,
    /// Tells requests that wait for something when to stop it.
    pub shutdown: Shutdown,
}

/// Runs operations for doors. See the crate's text.
pub struct Executor(ExecutorSettings);

/// When a signature counts.
#[derive(Clone, Copy, Debug)]
pub struct SignatureWindow {
    /// The database's time, which resource tokens end by.
    pub now_unix_seconds: u64,
    /// The time that clients sign with: another one only where the database's was put forward.
    pub signed_unix_seconds: u64,
    pub skew_seconds_max: u64,
}

impl Executor {
    pub fn new(settings: ExecutorSettings) -> Executor {
        Executor(settings)
    }

    pub fn credentials(&self) -> &Credentials {
        &self.0.credentials
    }

    pub fn clock(&self) -> &dyn Clock {
        &*self.0.clock
    }

    pub fn entropy(&self) -> &dyn Entropy {
        &*self.0.entropy
    }

    pub fn controls(&self) -> Option<&Controls> {
        self.0.controls.as_deref()
    }

    pub(crate) fn shutdown(&self) -> &Shutdown {
        &self.0.shutdown
    }

    /// The time that durations are measured with.
    pub fn nanos(&self) -> u64 {
        self.0.clock.monotonic_nanos()
    }

    pub fn unix_seconds(&self) -> u64 {
        self.0.clock.unix_millis() / 1_000
    }

    /// When the signature of a request counts that has waited for so long.
    pub fn signature_window(&self, waited: Duration) -> SignatureWindow {
        let now_unix_seconds = self.unix_seconds();
        SignatureWindow {
            now_unix_seconds,
            signed_unix_seconds: match self.controls() {
                Some(controls) => controls.real_unix_seconds(),
                None => now_unix_seconds,
            },
            skew_seconds_max: self.0.clock_skew_seconds.saturating_add(waited.as_secs()),
        }
    }

    /// A request has come in through this door.
    pub fn start(&self, door: &'static str) -> RequestRecord {
        RequestRecord::new(door, self.nanos())
    }

    /// How long ago that was.
    pub fn nanos_since_start(&self, record: &RequestRecord) -> u64 {
        self.nanos().saturating_sub(record.started_nanos)
    }

    /// The door knows who asks. Refuses credentials that are good for nothing any more.
    pub fn identify(&self, record: &mut RequestRecord, access: &Access) -> Result<()> {
        record.who = Some(access.clone());
        self.0.database.check_access(access)
    }

    /// The door knows what is asked for: names it, and looks whether a fault strikes it.
    pub fn admit<'a>(
        &self,
        record: &mut RequestRecord,
        op: &Op,
        subject: impl FnOnce() -> FaultSubject<'a>,
    ) -> Option<Strike> {
        let Profile { name, administers, .. } = Profile::of(op);
        (record.operation, record.administers) = (name, administers);
        let struck = self.controls()?.strike(name, &subject(), self.entropy())?;
        tracing::debug!(fault = struck.id, operation = name, "a fault strikes");
        record.delivery = struck.delivery;
        struck.strike
    }

    /// Does an operation that never waits: a point read. None for all others, which are not begun.
    pub fn execute_now(&self, op: &Op, context: &Context) -> Option<Reply> {
        self.0.database.execute_now(op, context)
    }

    /// The last station: counts the request, and writes the line of the audit log.
    pub fn conclude(&self, record: &RequestRecord, answered: &AnsweredRequest<'_>) {
        audit::note(record, answered);
        let RequestRecord { door, operation, charge, .. } = record;
        let seconds = answered.nanos as f64 / 1e9;
        self.0.telemetry.observe(door, operation, answered.status, seconds, charge.0);
    }
}

//! The load generator: how fast is an account, ours or the service's, from where this runs?
//!
//! ```text
//!   settings.rs      what is measured, for how long, with how many clients
//!   container.rs     creates a database and a container              ─┐
//!   requests.rs      which requests                                    │ deletes them
//!   driver.rs        clients send them; measurements.rs counts        ─┘
//! ```
//!
//! Invariants: it speaks the protocol that SDKs speak to a gateway and nothing of our own, so that
//! what is measured here can be measured there; and it deletes what it created and nothing else. It
//! prints nothing: who calls it shows progress and results.

mod container;
mod driver;
mod measurements;
mod requests;
mod settings;

use std::sync::Arc;
use std::time::Duration;

use partita_http_client::Account;
use tokio::sync::watch;

pub use self::container::TestContainer;
pub use self::driver::Driver;
pub use self::measurements::{
    ErrorClass, ErrorCount, Latencies, Measurements, OperationKind, Stats,
};
use self::requests::RequestGenerator;
pub use self::settings::{Limit, Settings, Workload};

/// What clients are doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Creating the items that reads and queries will find.
    Load,
    Measure,
}

/// A run that is over.
#[derive(Debug)]
pub struct Outcome {
    pub measurements: Measurements,
    pub elapsed: Duration,
    /// Did the user end it?
    pub is_interrupted: bool,
}

/// Loads items and measures, until it is enough or `stop` becomes true. `show` runs beside each
/// stage and is dropped when that is over.
pub async fn measure(
    account: &Arc<Account>,
    settings: &Settings,
    stop: watch::Receiver<bool>,
    show: impl AsyncFn(Stage, &Driver),
) -> Result<Outcome, String> {
    let requests = Arc::new(RequestGenerator::new(settings));
    let run = async |stage, limit| {
        let clients = settings.clients;
        let driver = Driver::new(account, &requests, stage, limit, clients, stop.clone());
        tokio::select! {
            () = Arc::clone(&driver).run() => {}
            () = show(stage, &driver) => {}
        }
        driver
    };
    if requests.items() > 0 {
        let driver = run(Stage::Load, Limit::Operations(requests.items())).await;
        if let Some(error) = driver.measurements().errors.values().next() {
            return Err(format!(
                "the items to measure with cannot be created: {}. Try again, with fewer --clients \
                 or smaller items (--item-size)",
                error.example
            ));
        }
    }
    let driver = run(Stage::Measure, settings.limit).await;
    let (elapsed, measurements) = (driver.elapsed(), driver.measurements());
    Ok(Outcome { measurements, elapsed, is_interrupted: *stop.borrow() })
}

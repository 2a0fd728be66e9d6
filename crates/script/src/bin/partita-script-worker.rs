//! A script worker alone, for tests and measurements. The server starts itself as worker instead.

use std::io::{self, stdin, stdout};
use std::sync::Arc;
use std::time::Instant;

use partita_model::{Clock, SeededEntropy};
use partita_script::{Limits, NoCourtesy, serve};

struct RealClock(Instant);

impl Clock for RealClock {
    fn unix_millis(&self) -> u64 {
        self.monotonic_nanos() / 1_000_000
    }

    fn monotonic_nanos(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

#[allow(clippy::disallowed_methods, reason = "this is the clock that everybody else is handed")]
fn main() -> io::Result<()> {
    let clock = Arc::new(RealClock(Instant::now()));
    let entropy = Arc::new(SeededEntropy::new(std::process::id().into()));
    let (limits, courtesy) = (Limits::default(), Arc::new(NoCourtesy));
    serve(&mut stdin(), &mut stdout(), limits, clock, entropy, courtesy)
}

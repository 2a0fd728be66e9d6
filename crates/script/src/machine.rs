//! A JavaScript heap with its limits.
//!
//! A machine is made for one run, which costs about a fifth of a millisecond, and thrown away with
//! everything in it. Reusing one would save little, and would leave what a script did to built-in
//! objects, and the memory it used, to the next one.
//!
//! Time: the engine asks the [`Watch`] every few thousand steps of a script, within regular
//! expressions too, and when it says stop the script ends with an exception that it cannot catch.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use partita_model::{Clock, Error, Result};
use rquickjs::{Context, Ctx, Runtime};

/// What a script may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one run's heap.
    pub memory_bytes_max: usize,
    /// Bytes of the thread's stack that one run may use.
    pub stack_bytes_max: usize,
    /// How long all calls of functions on one page of a query may take together.
    pub functions_millis_max: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            memory_bytes_max: 64 << 20,
            stack_bytes_max: 256 << 10,
            functions_millis_max: 5_000,
        }
    }
}

/// Says when a script must stop.
pub(crate) struct Watch {
    clock: Arc<dyn Clock>,
    deadline_nanos: Cell<u64>,
    expired: Cell<bool>,
    stopped: Cell<bool>,
}

impl Watch {
    /// Lets the script run for this long from now on.
    pub(crate) fn wind(&self, nanos: u64) {
        self.deadline_nanos.set(self.now_nanos().saturating_add(nanos));
        self.expired.set(false);
    }

    pub(crate) fn now_nanos(&self) -> u64 {
        self.clock.monotonic_nanos()
    }

    /// Is the time over? Once it is, it stays so until the watch is wound again.
    pub(crate) fn expired(&self) -> bool {
        if !self.expired.get() && self.now_nanos() >= self.deadline_nanos.get() {
            self.expired.set(true);
        }
        self.expired.get()
    }

    /// Stops the script at the next occasion, whatever the time.
    pub(crate) fn stop(&self) {
        self.stopped.set(true);
    }
}

/// A heap and its one global object.
pub(crate) struct Machine {
    // The order matters: what is in the heap goes before the heap.
    context: Context,
    _runtime: Runtime,
    pub(crate) watch: Rc<Watch>,
}

impl Machine {
    /// An empty heap, in which a script may run for `nanos` from now on.
    pub(crate) fn new(limits: &Limits, clock: &Arc<dyn Clock>, nanos: u64) -> Result<Machine> {
        let watch = Rc::new(Watch {
            clock: Arc::clone(clock),
            deadline_nanos: Cell::new(0),
            expired: Cell::new(false),
            stopped: Cell::new(false),
        });
        watch.wind(nanos);
        let runtime = Runtime::new().map_err(|_| no_memory())?;
        runtime.set_max_stack_size(limits.stack_bytes_max);
        let handler = Rc::clone(&watch);
        runtime.set_interrupt_handler(Some(Box::new(move || {
            handler.stopped.get() || handler.expired()
        })));
        let context = Context::full(&runtime).map_err(|_| no_memory())?;
        // Not before: a global object of which half is missing is nothing that QuickJS expects.
        runtime.set_memory_limit(limits.memory_bytes_max);
        Ok(Machine { context, _runtime: runtime, watch })
    }

    /// Works with what is in the heap.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&Ctx<'_>) -> R) -> R {
        self.context.with(|ctx| work(&ctx))
    }
}

fn no_memory() -> Error {
    Error::unavailable("There is no memory for running a script now.")
}

//! User-defined functions, as queries call them.
//!
//! A query's page calls a function for many rows, from several threads. Each thread has a machine
//! for it, made at the first call and kept in the thread until the page is done: heaps cannot go
//! from thread to thread. A thread keeps only a few, and forgets those whose query has gone.
//!
//! The functions see no collection, request or response. All calls of a page share one budget of
//! time.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use partita_engine::Script;
use partita_model::{Clock, Error, ErrorKind, Result, Value};
use partita_query::Functions;
use rquickjs::{Ctx, Persistent};

use crate::bridge::{JsResult, SavedFunction, call, from_js, to_js};
use crate::failure::Subject;
use crate::machine::{Limits, Machine};
use crate::{api, entry};

/// Machines that one thread keeps.
const MACHINES_MAX: usize = 4;

thread_local! {
    static MACHINES: RefCell<Vec<ThreadMachine>> = const { RefCell::new(Vec::new()) };
}

/// The functions of one page of a query.
pub(crate) struct UserFunctions {
    shared: Arc<Shared>,
}

struct Shared {
    limits: Limits,
    clock: Arc<dyn Clock>,
    scripts: Vec<Script>,
    used_nanos: AtomicU64,
}

/// A machine with the functions that were called so far.
struct ThreadMachine {
    owner: Weak<Shared>,
    // Before the machine: what is in a heap goes before the heap.
    loaded: Vec<(String, SavedFunction)>,
    machine: Machine,
}

impl UserFunctions {
    pub(crate) fn new(
        limits: Limits,
        clock: Arc<dyn Clock>,
        scripts: Vec<Script>,
        used_nanos: u64,
    ) -> UserFunctions {
        let used_nanos = AtomicU64::new(used_nanos);
        UserFunctions { shared: Arc::new(Shared { limits, clock, scripts, used_nanos }) }
    }
}

impl Functions for UserFunctions {
    fn call(&self, name: &str, arguments: &[Option<Value>]) -> Result<Option<Value>> {
        let shared = &self.shared;
        let Some(script) = shared.scripts.iter().find(|script| script.name == name) else {
            return Err(Error::bad_request(format!(
                "The query calls udf.{name}, and the container has no such function."
            )));
        };
        let started = shared.clock.monotonic_nanos();
        let mut machine = shared.take_machine()?;
        let result = machine.call(shared, script, arguments);
        let used = shared.clock.monotonic_nanos().saturating_sub(started);
        shared.used_nanos.fetch_add(used, Ordering::Relaxed);
        // A function that failed may have left anything behind.
        if result.is_ok() {
            put_back(machine);
        }
        result
    }
}

impl Shared {
    /// This thread's machine, out of its keeping: a function's query may call functions.
    fn take_machine(self: &Arc<Shared>) -> Result<ThreadMachine> {
        let kept = MACHINES.with_borrow_mut(|machines| {
            // Before another one is made: one heap more is memory that nobody counts on.
            machines.retain(|machine| machine.owner.strong_count() > 0);
            let owner = Arc::as_ptr(self);
            let at = machines.iter().position(|machine| machine.owner.as_ptr() == owner)?;
            Some(machines.swap_remove(at))
        });
        match kept {
            Some(machine) => Ok(machine),
            None => {
                let machine = Machine::new(&self.limits, &self.clock, self.nanos_left())?;
                Ok(ThreadMachine { owner: Arc::downgrade(self), loaded: Vec::new(), machine })
            }
        }
    }

    fn nanos_left(&self) -> u64 {
        let budget = self.limits.functions_millis_max.saturating_mul(1_000_000);
        budget.saturating_sub(self.used_nanos.load(Ordering::Relaxed))
    }
}

fn put_back(machine: ThreadMachine) {
    MACHINES.with_borrow_mut(|machines| {
        machines.retain(|machine| machine.owner.strong_count() > 0);
        if machines.len() == MACHINES_MAX {
            machines.remove(0);
        }
        machines.push(machine);
    });
}

impl ThreadMachine {
    fn call(
        &mut self,
        shared: &Shared,
        script: &Script,
        arguments: &[Option<Value>],
    ) -> Result<Option<Value>> {
        let ThreadMachine { loaded, machine, .. } = self;
        machine.watch.wind(shared.nanos_left());
        let subject = Subject {
            name: &script.name,
            watch: &machine.watch,
            memory_bytes_max: shared.limits.memory_bytes_max,
        };
        machine.with(|ctx| match apply(ctx, loaded, script, arguments) {
            Ok(result) => result.map_err(|error| named(script, error)),
            Err(error) => Err(named(script, subject.explain(ctx, &error))),
        })
    }
}

fn apply<'js>(
    ctx: &Ctx<'js>,
    loaded: &mut Vec<(String, SavedFunction)>,
    script: &Script,
    arguments: &[Option<Value>],
) -> JsResult<Result<Option<Value>>> {
    let known = loaded.iter().find(|(name, _)| *name == script.name);
    let function = match known {
        Some((_, function)) => function.clone().restore(ctx)?,
        None => {
            if loaded.is_empty() {
                api::add_errors(ctx)?;
            }
            let function = entry::load(ctx, &script.name, &script.source)?;
            loaded.push((script.name.clone(), Persistent::save(ctx, function.clone())));
            function
        }
    };
    let arguments: JsResult<Vec<_>> =
        arguments.iter().map(|argument| to_js(ctx, argument.as_ref())).collect();
    let result = call(ctx, &function, arguments?)?;
    from_js(ctx, &result)
}

/// The number of whatever a function throws that has none of its own: clients look for it.
const THROWN_IN_FUNCTION: u32 = 32_766;

/// A query may call several functions: the message says which one failed.
fn named(script: &Script, error: Error) -> Error {
    let kind = match error.kind {
        ErrorKind::BadRequest => ErrorKind::ScriptFailed { number: THROWN_IN_FUNCTION },
        kind => kind,
    };
    Error::new(kind, format!("udf.{}: {}", script.name, error.message))
}

//! The runtime that the engine is given: it makes a machine for each run, and takes it apart again.

use std::rc::Rc;
use std::sync::Arc;

use partita_engine::{
    Script, ScriptCall, ScriptEnd, ScriptHost, ScriptRole, ScriptRuntime, WriteKind,
};
use partita_model::limits::RESPONSE_BYTES_MAX;
use partita_model::{Clock, Entropy, Error, Result};
use partita_query::Functions;
use rquickjs::{Coerced, Ctx, Value};

use crate::bridge::{JsResult, call as call_function, parse, stringify, text, throw};
use crate::drive::drive;
use crate::failure::Subject;
use crate::functions::UserFunctions;
use crate::machine::{Limits, Machine};
use crate::run::{Message, Run};
use crate::{api, entry};

/// How long a text may take to be compiled when it is stored.
const CHECK_NANOS_MAX: u64 = 1_000_000_000;

/// Arguments that a call may have: what is not an array can claim any length.
const ARGUMENTS_MAX: f64 = 65_535.0;

/// Runs scripts with QuickJS.
pub struct QuickJs {
    limits: Limits,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
}

impl QuickJs {
    /// A runtime with these limits. The clock measures how long scripts run; ids of documents that
    /// have none come from `entropy`.
    pub fn new(limits: Limits, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> QuickJs {
        QuickJs { limits, clock, entropy }
    }
}

impl ScriptRuntime for QuickJs {
    fn check(&self, script: &Script) -> Result<()> {
        let machine = Machine::new(&self.limits, &self.clock, CHECK_NANOS_MAX)?;
        let subject = self.subject(script, &machine);
        machine.with(|ctx| {
            entry::check(ctx, &script.name, &script.source)
                .map_err(|error| not_a_script(&subject.explain(ctx, &error)))
        })
    }

    fn run(&self, call: &ScriptCall<'_>, host: &mut dyn ScriptHost) -> ScriptEnd {
        let nanos = call.millis_max.saturating_mul(1_000_000);
        match Machine::new(&self.limits, &self.clock, nanos) {
            Ok(machine) => machine.with(|ctx| self.run_in(ctx, &machine, call, host)),
            Err(error) => ScriptEnd { result: Err(error), log: String::new() },
        }
    }

    fn functions(&self, functions: Vec<Script>) -> Arc<dyn Functions> {
        self.functions_after(0, functions)
    }
}

/// Empties a run in any case, so that nothing refers to a heap that is about to go.
struct Ending(Rc<Run>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl QuickJs {
    /// Functions of a page that have used up some of their time already.
    pub(crate) fn functions_after(
        &self,
        used_nanos: u64,
        functions: Vec<Script>,
    ) -> Arc<dyn Functions> {
        let clock = Arc::clone(&self.clock);
        Arc::new(UserFunctions::new(self.limits, clock, functions, used_nanos))
    }

    fn subject<'a>(&self, script: &'a Script, machine: &'a Machine) -> Subject<'a> {
        Subject {
            name: &script.name,
            watch: &machine.watch,
            memory_bytes_max: self.limits.memory_bytes_max,
        }
    }

    fn run_in<'js>(
        &self,
        ctx: &Ctx<'js>,
        machine: &Machine,
        call: &ScriptCall<'_>,
        host: &mut dyn ScriptHost,
    ) -> ScriptEnd {
        let subject = self.subject(call.script, machine);
        let run = match messages(ctx, &call.role) {
            Ok((request, response)) => {
                Rc::new(Run::new(call, &machine.watch, &self.entropy, request, response))
            }
            Err(error) => {
                let result = Err(subject.explain(ctx, &error));
                return ScriptEnd { result, log: String::new() };
            }
        };
        let ending = Ending(Rc::clone(&run));
        let result = match execute(ctx, &run, call, host) {
            Ok(Some(text)) if text.len() > RESPONSE_BYTES_MAX => Err(too_large()),
            Ok(text) => Ok(text),
            Err(error) => Err(explain(ctx, &run, &subject, &error)),
        };
        let log = run.end();
        drop(ending);
        ScriptEnd { result, log }
    }
}

/// Loads the script, calls it, and does what it asks for; what it has set in the end.
fn execute<'js>(
    ctx: &Ctx<'js>,
    run: &Rc<Run>,
    call: &ScriptCall<'_>,
    host: &mut dyn ScriptHost,
) -> JsResult<Option<String>> {
    api::add(ctx, run)?;
    let function = entry::load(ctx, &call.script.name, &call.script.source)?;
    let arguments = match call.role {
        ScriptRole::Procedure { arguments } => parse(ctx, arguments)?,
        ScriptRole::PreTrigger { .. } | ScriptRole::PostTrigger { .. } => parse(ctx, "[]")?,
    };
    call_function(ctx, &function, listed(ctx, &arguments)?)?;
    drive(ctx, run, host)?;
    let message = run.response.as_ref().unwrap_or(&run.request);
    match message.written_body(ctx)? {
        Some(body) => stringify(ctx, &body),
        None => Ok(None),
    }
}

/// The arguments of a call as the language's `apply` takes them from what it is given: nothing, an
/// array, or an object with a length.
fn listed<'js>(ctx: &Ctx<'js>, given: &Value<'js>) -> JsResult<Vec<Value<'js>>> {
    if let Some(array) = given.as_array() {
        return array.iter().collect();
    }
    let Some(object) = given.as_object() else { return Ok(Vec::new()) };
    // Whatever can be a number is one here, "2" and true as well; the rest is none at all.
    let length = object.get::<_, Coerced<f64>>("length")?.0;
    if length > ARGUMENTS_MAX {
        let message = format!("A procedure takes {ARGUMENTS_MAX} arguments at most.");
        return Err(throw(ctx, 400, &message));
    }
    // Neither negative numbers nor fractions are lengths; casting rounds them down to one.
    (0..length.max(0.0) as u32).map(|at| object.get(at.to_string())).collect()
}

/// The request and the response of a run, before the script has touched them.
fn messages<'js>(ctx: &Ctx<'js>, role: &ScriptRole<'_>) -> JsResult<(Message, Option<Message>)> {
    let body = |text: Option<&str>| match text {
        Some(text) => parse(ctx, text),
        None => Ok(Value::new_undefined(ctx.clone())),
    };
    Ok(match *role {
        ScriptRole::Procedure { arguments } => (
            Message::new(ctx, false, None, body(Some(arguments))?),
            Some(Message::new(ctx, true, None, text(ctx, "")?)),
        ),
        ScriptRole::PreTrigger { operation, document } => {
            let writable = document.is_some();
            (Message::new(ctx, writable, Some(name(operation)), body(document)?), None)
        }
        ScriptRole::PostTrigger { operation, document, answer } => (
            Message::new(ctx, false, Some(name(operation)), body(document)?),
            Some(Message::new(ctx, true, None, body(answer)?)),
        ),
    })
}

fn name(operation: WriteKind) -> &'static str {
    match operation {
        WriteKind::Create => "Create",
        WriteKind::Upsert => "Upsert",
        WriteKind::Replace => "Replace",
        WriteKind::Delete => "Delete",
    }
}

/// Why a run failed: what was decided about it goes before what the script made of that.
fn explain(ctx: &Ctx<'_>, run: &Run, subject: &Subject<'_>, error: &rquickjs::Error) -> Error {
    if let Some(verdict) = run.verdict() {
        ctx.catch();
        return verdict;
    }
    if let Some(reason) = run.aborted() {
        ctx.catch();
        return match reason.restore(ctx) {
            Ok(reason) => subject.thrown(ctx, &reason),
            Err(error) => subject.explain(ctx, &error),
        };
    }
    let explained = subject.explain(ctx, error);
    if run.was_too_large() && explained.message.contains("\r\nNumber: 413\r\n") {
        return Error::too_large(explained.message);
    }
    explained
}

fn too_large() -> Error {
    Error::too_large(format!("The script's answer is larger than {RESPONSE_BYTES_MAX} bytes."))
}

fn not_a_script(error: &Error) -> Error {
    Error::bad_request(format!("The script cannot be compiled. {}", error.message))
}

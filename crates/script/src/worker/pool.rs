//! The server's side: keeps workers, gives them calls, and answers what they ask.
//!
//! There are two groups of workers, one for procedures and triggers and one for the functions of
//! queries: a procedure's query may call functions, and must never wait for a worker that waits for
//! it. Each group has a limit; who finds all of it busy waits for a while, and is then refused.
//! Workers are started when they are needed and kept when they are done.
//!
//! Who waits for a worker waits in a line. A query has one while it calls functions, and if others
//! wait gives it back after its turn: else those who compute for a minute would have all of them.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use partita_engine::{
    HostQuery, HostWrite, Script, ScriptCall, ScriptEnd, ScriptHost, ScriptRuntime,
};
use partita_model::{Clock, Error, Result, Value};
use partita_query::Functions;

use super::courtesy::SHORT_NANOS;
use super::message::{
    ASK, CALL, CHECK, END, LAST, LOAD, Reply, get_ask, get_end, get_result, get_value, put_call,
    put_reply, put_script, put_value,
};
use super::wire::{Decoder, Encoder, broken};
use crate::bridge::status;
use crate::queue::Operation;

/// How long a call waits for a worker.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// How long a query may keep a worker for which others wait: much longer than it takes to load its
/// functions into one, and not too long for some dozens that wait.
const TURN_NANOS: u64 = 100_000_000;

/// How a worker is started: a program that calls [`super::serve`] on its standard input and output.
#[derive(Clone, Debug)]
pub struct WorkerCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// Runs scripts in processes of their own.
pub struct Workers {
    runs: Arc<Group>,
    functions: Arc<Group>,
    clock: Arc<dyn Clock>,
    stand_back: fn(),
}

impl Workers {
    /// At most `workers_max` at a time for procedures and triggers, and as many for functions.
    /// `stand_back` has the thread that calls it stand behind the server's others.
    pub fn new(
        command: WorkerCommand,
        workers_max: usize,
        clock: Arc<dyn Clock>,
        stand_back: fn(),
    ) -> Workers {
        let processes = Processes::default();
        let group = || {
            Arc::new(Group {
                command: command.clone(),
                processes: processes.clone(),
                workers_max: workers_max.max(1),
                state: Mutex::default(),
                freed: Condvar::new(),
            })
        };
        Workers { runs: group(), functions: group(), clock, stand_back }
    }

    /// The numbers of the processes that there are.
    pub fn processes(&self) -> Vec<u32> {
        self.runs.processes.list().clone()
    }

    /// Ends those that have nothing to do. They are started again when they are needed.
    pub fn end_idle(&self) {
        for group in [&self.runs, &self.functions] {
            let idle = std::mem::take(&mut group.state().idle);
            drop(idle);
        }
    }
}

impl ScriptRuntime for Workers {
    fn check(&self, script: &Script) -> Result<()> {
        let mut worker = self.runs.take()?;
        let question = put_script(Encoder::default().byte(CHECK), script);
        let checked =
            worker.ask(&question).and_then(|mut frame| get_result(&mut frame, |_| Ok(())));
        self.runs.settle(worker, &script.name, checked, false)
    }

    fn run(&self, call: &ScriptCall<'_>, host: &mut dyn ScriptHost) -> ScriptEnd {
        let failed = |error| ScriptEnd { result: Err(error), log: String::new() };
        let mut worker = match self.runs.take() {
            Ok(worker) => worker,
            Err(error) => return failed(error),
        };
        let started = self.clock.monotonic_nanos();
        let end = worker.run(call, host, self);
        let nanos = self.clock.monotonic_nanos().saturating_sub(started);
        let late = nanos >= call.millis_max.saturating_mul(1_000_000);
        let settled = self.runs.settle(worker, &call.script.name, end.map(Ok), late);
        settled.unwrap_or_else(failed)
    }

    fn functions(&self, functions: Vec<Script>) -> Arc<dyn Functions> {
        Arc::new(RemoteFunctions {
            group: Arc::clone(&self.functions),
            scripts: functions,
            clock: Arc::clone(&self.clock),
            kept: Mutex::default(),
            millis: AtomicU64::new(0),
        })
    }
}

/// Workers for one purpose.
struct Group {
    command: WorkerCommand,
    /// Those of all groups.
    processes: Processes,
    workers_max: usize,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    idle: Vec<Worker>,
    /// Those that are busy.
    busy: usize,
    /// Who waits for one, in the order in which they came.
    line: VecDeque<u64>,
    next_place: u64,
}

impl Group {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in here can be left half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker for one call: one that is idle, or a new one if there may be more.
    fn take(&self) -> Result<Worker> {
        let mut state = self.state();
        let place = state.next_place;
        state.next_place += 1;
        state.line.push_back(place);
        let must_wait = |state: &mut State| {
            state.busy >= self.workers_max || state.line.front() != Some(&place)
        };
        let waited = self.freed.wait_timeout_while(state, WAIT_MAX, must_wait);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let is_refused = must_wait(&mut state);
        state.line.retain(|waiting| *waiting != place);
        if !state.line.is_empty() {
            // There may be one for the next.
            self.freed.notify_all();
        }
        if is_refused {
            return Err(Error::unavailable(
                "All that run scripts are busy. Try again in a while, or do less in each script.",
            ));
        }
        state.busy += 1;
        // One that ended while nobody looked is no fault of the next script.
        let idle = std::iter::from_fn(|| state.idle.pop()).find_map(Worker::if_alive);
        drop(state);
        match idle {
            Some(worker) => Ok(worker),
            None => Worker::start(&self.command, &self.processes).map_err(|error| {
                self.leave();
                Error::unavailable(format!("A script worker cannot be started: {error}"))
            }),
        }
    }

    fn leave(&self) {
        self.state().busy -= 1;
        // Only the first in the line may go on, and any of them may be that.
        self.freed.notify_all();
    }

    /// Does anybody wait for a worker?
    fn is_wanted(&self) -> bool {
        !self.state().line.is_empty()
    }

    /// Takes a worker back after a call. One that failed to answer is ended: `late` says whether
    /// that was because the script did not let itself be stopped.
    fn settle<T>(
        &self,
        worker: Worker,
        name: &str,
        answer: io::Result<Result<T>>,
        late: bool,
    ) -> Result<T> {
        let result = match answer {
            Ok(result) => {
                if !worker.is_spent {
                    self.state().idle.push(worker);
                }
                result
            }
            Err(_) if late => Err(Error::timeout(format!(
                "The script '{name}' ran longer than it may, and had to be ended."
            ))),
            Err(error) => Err(Error::internal(format!(
                "The worker that ran the script '{name}' ended: {error}"
            ))),
        };
        self.leave();
        result
    }
}

/// The numbers of processes that were started and have not ended. Clones are the same list.
#[derive(Clone, Default)]
struct Processes(Arc<Mutex<Vec<u32>>>);

impl Processes {
    fn list(&self) -> MutexGuard<'_, Vec<u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A process that runs scripts.
struct Worker {
    /// Where it is listed.
    processes: Processes,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// It stands back for good, and is not for the next call.
    is_spent: bool,
}

impl Drop for Worker {
    /// Whatever it does: nobody listens any more. Waiting for it is short, and leaves no zombie.
    fn drop(&mut self) {
        if self.child.kill().is_ok() {
            let _ = self.child.wait();
        }
        let process = self.child.id();
        self.processes.list().retain(|listed| *listed != process);
    }
}

impl Worker {
    fn start(command: &WorkerCommand, processes: &Processes) -> io::Result<Worker> {
        let mut worker = Command::new(&command.program);
        // The environment may hold keys, and a worker needs nothing of it.
        worker.args(&command.arguments).env_clear();
        // A Ctrl-C in a terminal is for the server, which lets scripts end before it does.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut worker, 0);
        let mut child = worker.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(broken());
        };
        processes.list().push(child.id());
        let (processes, output) = (processes.clone(), BufReader::new(output));
        Ok(Worker { processes, child, input, output, is_spent: false })
    }

    fn if_alive(mut self) -> Option<Worker> {
        matches!(self.child.try_wait(), Ok(None)).then_some(self)
    }

    fn receive(&mut self) -> io::Result<Decoder> {
        Decoder::receive(&mut self.output)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    fn exchange(&mut self, question: &Encoder) -> io::Result<Decoder> {
        question.send(&mut self.input)?;
        self.receive()
    }

    /// The answer to a question that no script asks back about.
    fn ask(&mut self, question: &Encoder) -> io::Result<Decoder> {
        let mut frame = self.exchange(question)?;
        match frame.byte()? {
            END => Ok(frame),
            LAST => {
                self.is_spent = true;
                Ok(frame)
            }
            _ => Err(broken()),
        }
    }

    /// Has a script run, and answers what it asks.
    fn run(
        &mut self,
        call: &ScriptCall<'_>,
        host: &mut dyn ScriptHost,
        workers: &Workers,
    ) -> io::Result<ScriptEnd> {
        let frame = self.exchange(&put_call(call))?;
        let mut talk = Talk { worker: self, host, clock: &*workers.clock, frame, verdict: None };
        if let Some(end) = talk.go_on(SHORT_NANOS)? {
            return Ok(end);
        }
        thread::scope(|scope| {
            let rest = thread::Builder::new().name("partita-script".to_owned());
            let rest = rest.spawn_scoped(scope, || {
                (workers.stand_back)();
                talk.go_on(u64::MAX)
            })?;
            let end = rest.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            end?.ok_or_else(broken)
        })
    }
}

/// What is said during a run.
struct Talk<'a> {
    worker: &'a mut Worker,
    host: &'a mut dyn ScriptHost,
    clock: &'a dyn Clock,
    /// What the worker said last.
    frame: Decoder,
    /// An error that ends the run: the worker says only that there was one.
    verdict: Option<Error>,
}

impl Talk<'_> {
    /// Answers until the run ends, or until the answers have taken so long.
    fn go_on(&mut self, nanos_max: u64) -> io::Result<Option<ScriptEnd>> {
        let mut nanos = 0_u64;
        while nanos <= nanos_max {
            match self.frame.byte()? {
                ASK => {
                    let asked = self.clock.monotonic_nanos();
                    let reply = self.reply()?;
                    nanos += self.clock.monotonic_nanos().saturating_sub(asked);
                    self.frame = self.worker.exchange(&put_reply(&reply))?;
                }
                tag @ (END | LAST) => {
                    self.worker.is_spent = tag == LAST;
                    let mut end = get_end(&mut self.frame)?;
                    if let Some(verdict) = self.verdict.take() {
                        end.result = Err(verdict);
                    }
                    return Ok(Some(end));
                }
                _ => return Err(broken()),
            }
        }
        Ok(None)
    }

    fn reply(&mut self) -> io::Result<Reply> {
        let reply = answer(self.host, &get_ask(&mut self.frame)?);
        Ok(reply.unwrap_or_else(|error| {
            if status(&error.kind).is_none() {
                self.verdict.get_or_insert_with(|| error.clone());
            }
            Reply::Failed(error)
        }))
    }
}

fn answer(host: &mut dyn ScriptHost, operation: &Operation) -> Result<Reply> {
    Ok(match operation {
        Operation::Write { target, document, indexing, if_match } => {
            Reply::Item(host.write(HostWrite {
                target: target.as_host(),
                document,
                indexing: *indexing,
                if_match: if_match.as_deref(),
            })?)
        }
        Operation::Read { link, if_none_match } => {
            let item = host.read(link.as_host(), if_none_match.as_deref())?;
            item.map_or(Reply::Nothing, Reply::Item)
        }
        Operation::Delete { link, if_match } => {
            host.delete(link.as_host(), if_match.as_deref())?;
            Reply::Nothing
        }
        Operation::Query { text, parameters, page, .. } => Reply::Page(host.query(HostQuery {
            text: text.as_deref(),
            parameters,
            page_size: page.size,
            continuation: page.continuation.as_deref(),
        })?),
        Operation::Chain { .. } => return Err(Error::internal("a worker asks for a chain")),
    })
}

/// The functions of one page of a query. All of its threads share one worker, from the first call
/// until the page is done, or until others wait for it.
struct RemoteFunctions {
    group: Arc<Group>,
    scripts: Vec<Script>,
    clock: Arc<dyn Clock>,
    kept: Mutex<SavedValue>,
    /// What nobody has asked for yet of the calls' processor time.
    millis: AtomicU64,
}

#[derive(Default)]
struct SavedValue {
    /// And since when it is kept.
    worker: Option<(Worker, u64)>,
    /// How long all calls took: they have a limit together, whichever worker they had.
    used_nanos: u64,
}

impl RemoteFunctions {
    /// The result, and how much of a processor it took.
    fn ask(
        &self,
        worker: &mut Worker,
        question: &Encoder,
    ) -> io::Result<(u64, Result<Option<Value>>)> {
        let mut frame = worker.ask(question)?;
        Ok((frame.number()?, get_result(&mut frame, get_value)?))
    }

    fn start(&self, used_nanos: u64) -> Result<Worker> {
        let mut worker = self.group.take()?;
        let frame = Encoder::default().byte(LOAD).number(used_nanos);
        let frame = frame.number(self.scripts.len() as u64);
        let frame = self.scripts.iter().fold(frame, put_script);
        match frame.send(&mut worker.input) {
            Ok(()) => Ok(worker),
            Err(error) => self.group.settle(worker, "functions", Err(error), false),
        }
    }

    fn spent(&self, processor_nanos: u64) {
        self.millis.fetch_add(processor_nanos / 1_000_000, Ordering::Relaxed);
    }
}

impl Functions for RemoteFunctions {
    fn call(&self, name: &str, arguments: &[Option<Value>]) -> Result<Option<Value>> {
        let frame = Encoder::default().byte(CALL).text(name).number(arguments.len() as u64);
        let put = |frame, argument: &Option<Value>| put_value(frame, argument.as_ref());
        let question = arguments.iter().fold(frame, put);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut worker, since) = match kept.worker.take() {
            Some(kept) => kept,
            None => (self.start(kept.used_nanos)?, self.clock.monotonic_nanos()),
        };
        let asked = self.clock.monotonic_nanos();
        let answer = self.ask(&mut worker, &question);
        let now = self.clock.monotonic_nanos();
        let took = now.saturating_sub(asked);
        kept.used_nanos = kept.used_nanos.saturating_add(took);
        match answer {
            Ok((nanos, result)) => {
                self.spent(nanos);
                if now.saturating_sub(since) >= TURN_NANOS && self.group.is_wanted() {
                    self.group.settle(worker, name, Ok(Ok(())), false)?;
                } else {
                    kept.worker = Some((worker, since));
                }
                result
            }
            // A worker ends during a call only if the function does not. Nobody can say what it
            // computed, which is most of the time that it took.
            Err(error) => {
                self.spent(took);
                self.group.settle(worker, name, Err(error), true)
            }
        }
    }

    fn take_millis(&self) -> u64 {
        self.millis.swap(0, Ordering::Relaxed)
    }
}

impl Drop for RemoteFunctions {
    fn drop(&mut self) {
        let kept = self.kept.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some((worker, _)) = kept.worker.take() {
            let _ = self.group.settle(worker, "functions", Ok(Ok(())), false);
        }
    }
}

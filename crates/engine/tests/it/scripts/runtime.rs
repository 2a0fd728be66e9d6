//! A runtime for tests: scripts are JSON lists of steps, each a list of a word and what it needs.
//!
//! ```text
//! ["create", document]   ["upsert", document]   ["replace", id, document]   ["delete", id]
//! ["read", id]           answers the document, or the kind of the error
//! ["query", text, page size]                    answers the rows of all pages
//! ["move", from, to, amount]                    changes the members `n` of two items
//! ["say", value]         answers the value      ["log", text]
//! ["throw", text]        ends with an error     ["try", step]   goes on after an error
//! ["overrun", text]      ends as one that took too long
//! ["document", members]  changes the document of a pre-trigger or the answer of a post-trigger
//! ["hook"]               calls the test
//! ```
//!
//! A text `$0` stands for the first argument, and so on. The answer of a procedure is the list of
//! all answers. A function is one step: `["add", number]`, `["fail"]`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use partita_engine::{
    HostLink, HostQuery, HostTarget, HostWrite, Indexing, Script, ScriptCall, ScriptEnd,
    ScriptHost, ScriptRole, ScriptRuntime,
};
use partita_model::{Error, Number, Object, Result, Value};
use partita_query::Functions;

type Hook = Box<dyn FnMut() + Send>;

#[derive(Default)]
pub(crate) struct Steps {
    hook: Mutex<Option<Hook>>,
}

impl Steps {
    /// What the step `hook` does.
    pub(crate) fn on_hook(&self, hook: impl FnMut() + Send + 'static) {
        *self.hook.lock().unwrap() = Some(Box::new(hook));
    }
}

/// What a run has done so far.
struct Run<'a> {
    steps: &'a Steps,
    arguments: Vec<Value>,
    answers: Vec<Value>,
    document: Option<Value>,
    log: String,
}

impl ScriptRuntime for Steps {
    fn check(&self, script: &Script) -> Result<()> {
        parse(&script.source).map(|_| ())
    }

    fn run(&self, call: &ScriptCall<'_>, host: &mut dyn ScriptHost) -> ScriptEnd {
        let mut run = Run {
            steps: self,
            arguments: Vec::new(),
            answers: Vec::new(),
            document: None,
            log: String::new(),
        };
        let text = match call.role {
            ScriptRole::Procedure { arguments } => {
                let given = Value::parse(arguments.as_bytes()).unwrap();
                run.arguments = given.as_array().unwrap().to_vec();
                None
            }
            ScriptRole::PreTrigger { document, .. } => document,
            ScriptRole::PostTrigger { answer, .. } => answer,
        };
        run.document = text.map(|text| Value::parse(text.as_bytes()).unwrap());
        let result = run.all(&call.script.source, host);
        let answer = match call.role {
            ScriptRole::Procedure { .. } => Some(Value::Array(run.answers)),
            ScriptRole::PreTrigger { .. } | ScriptRole::PostTrigger { .. } => run.document,
        };
        let log = if call.logs { run.log } else { String::new() };
        ScriptEnd { result: result.map(|()| answer.map(|answer| answer.to_json())), log }
    }

    fn functions(&self, functions: Vec<Script>) -> Arc<dyn Functions> {
        Arc::new(Called { scripts: functions, millis: AtomicU64::new(0) })
    }
}

impl Run<'_> {
    fn all(&mut self, source: &str, host: &mut dyn ScriptHost) -> Result<()> {
        for step in parse(source)? {
            self.step(&step, host)?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Value, host: &mut dyn ScriptHost) -> Result<()> {
        let parts: Vec<Value> =
            step.as_array().unwrap().iter().map(|part| self.filled(part)).collect();
        let text = |at: usize| parts[at].as_str().unwrap();
        match text(0) {
            "create" => self.write(host, HostTarget::Create, &parts[1]),
            "upsert" => self.write(host, HostTarget::Upsert, &parts[1]),
            "replace" => self.write(host, HostTarget::Replace(HostLink::Name(text(1))), &parts[2]),
            "delete" => host.delete(HostLink::Name(text(1)), None),
            "read" => {
                let read = host.read(HostLink::Name(text(1)), None);
                self.answers.push(match read {
                    Ok(item) => Value::parse(item.unwrap().text.as_bytes()).unwrap(),
                    Err(error) => Value::from(format!("{:?}", error.kind)),
                });
                Ok(())
            }
            "query" => self.query(host, text(1), parts[2].as_i64().unwrap()),
            "move" => {
                let amount = parts[3].as_i64().unwrap();
                change(host, text(1), -amount)?;
                change(host, text(2), amount)
            }
            "say" => {
                self.answers.push(parts[1].clone());
                Ok(())
            }
            "log" => {
                self.log.push_str(text(1));
                Ok(())
            }
            "throw" => Err(Error::bad_request(text(1))),
            "overrun" => Err(Error::timeout(text(1))),
            "try" => {
                let tried = self.step(&parts[1], host);
                self.answers.extend(tried.err().map(|e| Value::from(format!("{:?}", e.kind))));
                Ok(())
            }
            "document" => {
                let Some(Value::Object(document)) = &mut self.document else { return Ok(()) };
                for (name, value) in parts[1].as_object().unwrap().iter() {
                    document.insert(name, value.clone());
                }
                Ok(())
            }
            "hook" => {
                if let Some(hook) = &mut *self.steps.hook.lock().unwrap() {
                    hook();
                }
                Ok(())
            }
            other => Err(Error::bad_request(format!("no step {other}"))),
        }
    }

    fn write(
        &mut self,
        host: &mut dyn ScriptHost,
        target: HostTarget<'_>,
        document: &Value,
    ) -> Result<()> {
        let document = &document.to_json();
        let indexing = Indexing::ByPolicy;
        host.write(HostWrite { target, document, indexing, if_match: None }).map(|_| ())
    }

    fn query(&mut self, host: &mut dyn ScriptHost, text: &str, page_size: i64) -> Result<()> {
        let (text, mut rows, mut continuation) = (Some(text), Vec::new(), None);
        loop {
            let query = HostQuery {
                text: text.filter(|text| !text.is_empty()),
                parameters: &[],
                page_size: page_size as usize,
                continuation: continuation.as_deref(),
            };
            let page = host.query(query)?;
            assert!(page.rows.len() <= page_size as usize);
            rows.extend(page.rows.iter().map(|row| Value::parse(row.as_bytes()).unwrap()));
            continuation = page.continuation;
            if continuation.is_none() {
                self.answers.push(Value::Array(rows));
                return Ok(());
            }
        }
    }

    fn filled(&self, part: &Value) -> Value {
        match part {
            Value::String(text) => {
                let argument = text.strip_prefix('$').and_then(|at| at.parse::<usize>().ok());
                argument.and_then(|at| self.arguments.get(at)).unwrap_or(part).clone()
            }
            Value::Object(members) => Value::from(
                members.iter().fold(Object::new(), |all, (name, v)| all.with(name, self.filled(v))),
            ),
            other => other.clone(),
        }
    }
}

fn change(host: &mut dyn ScriptHost, id: &str, by: i64) -> Result<()> {
    let text = host.read(HostLink::Name(id), None)?.unwrap().text;
    let Value::Object(mut document) = Value::parse(text.as_bytes())? else { unreachable!() };
    let n = document.get("n").and_then(Value::as_i64).unwrap();
    document.insert("n", Value::Number(Number::Int(n + by)));
    let document = &Value::from(document).to_json();
    let target = HostTarget::Replace(HostLink::Name(id));
    let write = HostWrite { target, document, indexing: Indexing::ByPolicy, if_match: None };
    host.write(write).map(|_| ())
}

fn parse(source: &str) -> Result<Vec<Value>> {
    let value = Value::parse(source.as_bytes())?;
    value
        .as_array()
        .map(<[Value]>::to_vec)
        .ok_or_else(|| Error::bad_request("Syntax Error: the script is no list of steps"))
}

struct Called {
    scripts: Vec<Script>,
    millis: AtomicU64,
}

impl Functions for Called {
    fn call(&self, name: &str, arguments: &[Option<Value>]) -> Result<Option<Value>> {
        let script = self.scripts.iter().find(|script| script.name == name).unwrap();
        let steps = parse(&script.source)?;
        match steps[0].as_str().unwrap() {
            "add" => {
                let number = arguments[0].as_ref().and_then(Value::as_i64);
                let added = steps[1].as_i64().unwrap();
                Ok(number.map(|n| Value::Number(Number::Int(n + added))))
            }
            "compute" => {
                let millis = u64::try_from(steps[1].as_i64().unwrap()).unwrap();
                self.millis.fetch_add(millis, Ordering::Relaxed);
                Ok(arguments[0].clone())
            }
            "too long" => Err(Error::timeout("the function ran longer than it may")),
            other => Err(Error::bad_request(format!("the function says {other}"))),
        }
    }

    fn take_millis(&self) -> u64 {
        self.millis.swap(0, Ordering::Relaxed)
    }
}

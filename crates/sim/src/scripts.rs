//! Stored procedures of the simulation: closures instead of JavaScript.
//!
//! A procedure's text is its name here, and its arguments are a list of texts. Each does several
//! operations on its host, which are one transaction.

use std::sync::Arc;

use partita_engine::{
    HostLink, HostQuery, HostTarget, HostWrite, Indexing, Script, ScriptCall, ScriptEnd,
    ScriptHost, ScriptRole, ScriptRuntime,
};
use partita_model::{Error, ErrorKind, Result, Value};
use partita_query::Functions;

/// What a procedure does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Procedure {
    /// Reads two items, writes both, and answers what they were.
    Pair,
    /// Reads all items, page by page, writes one, and answers what they were.
    Tally,
    /// Writes two items, and fails.
    Rollback,
    /// Reads two items, and answers what they are.
    Look,
}

impl Procedure {
    pub const ALL: [Procedure; 4] =
        [Procedure::Pair, Procedure::Tally, Procedure::Rollback, Procedure::Look];

    pub fn name(self) -> &'static str {
        match self {
            Procedure::Pair => "pair",
            Procedure::Tally => "tally",
            Procedure::Rollback => "rollback",
            Procedure::Look => "look",
        }
    }
}

type Run = fn(&mut dyn ScriptHost, &[String]) -> Result<Vec<Value>>;

/// Runs the procedures.
#[derive(Debug)]
pub struct Closures;

impl ScriptRuntime for Closures {
    fn check(&self, _: &Script) -> Result<()> {
        Ok(())
    }

    fn run(&self, call: &ScriptCall<'_>, host: &mut dyn ScriptHost) -> ScriptEnd {
        let ScriptRole::Procedure { arguments } = call.role else {
            return ended(Err(Error::unsupported("the simulation has no triggers")));
        };
        let run: Run = match &*call.script.source {
            "pair" => pair,
            "tally" => tally,
            "rollback" => rollback,
            "look" => look,
            other => return ended(Err(Error::bad_request(format!("no procedure {other}")))),
        };
        let texts = Value::parse(arguments.as_bytes()).map(|list| {
            let texts = list.as_array().unwrap_or_default().iter();
            texts.map(|text| text.as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        });
        let answer = texts.and_then(|texts| run(host, &texts));
        ended(answer.map(|all| Some(Value::Array(all).to_json())))
    }

    fn functions(&self, _: Vec<Script>) -> Arc<dyn Functions> {
        Arc::new(NoFunctions)
    }
}

struct NoFunctions;

impl Functions for NoFunctions {
    fn call(&self, name: &str, _: &[Option<Value>]) -> Result<Option<Value>> {
        Err(Error::bad_request(format!("no function {name}")))
    }
}

fn ended(result: Result<Option<String>>) -> ScriptEnd {
    ScriptEnd { result, log: String::new() }
}

/// The version that an item has; null: it is not there.
fn seen(host: &mut dyn ScriptHost, id: &str) -> Result<Value> {
    match host.read(HostLink::Name(id), None) {
        Ok(Some(item)) => Ok(version(&item.text)),
        Ok(None) => Ok(Value::Null),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(Value::Null),
        Err(error) => Err(error),
    }
}

fn version(text: &str) -> Value {
    let item = Value::parse(text.as_bytes()).ok();
    item.and_then(|item| item.get("n").cloned()).unwrap_or(Value::Null)
}

fn upsert(host: &mut dyn ScriptHost, document: &str) -> Result<()> {
    let (target, indexing) = (HostTarget::Upsert, Indexing::ByPolicy);
    host.write(HostWrite { target, document, indexing, if_match: None }).map(|_| ())
}

fn at(texts: &[String], at: usize) -> &str {
    texts.get(at).map_or("", String::as_str)
}

fn pair(host: &mut dyn ScriptHost, texts: &[String]) -> Result<Vec<Value>> {
    let before = look(host, texts)?;
    upsert(host, at(texts, 2))?;
    upsert(host, at(texts, 3))?;
    Ok(before)
}

fn look(host: &mut dyn ScriptHost, texts: &[String]) -> Result<Vec<Value>> {
    Ok(vec![seen(host, at(texts, 0))?, seen(host, at(texts, 1))?])
}

fn rollback(host: &mut dyn ScriptHost, texts: &[String]) -> Result<Vec<Value>> {
    pair(host, texts)?;
    Err(Error::bad_request("on purpose"))
}

fn tally(host: &mut dyn ScriptHost, texts: &[String]) -> Result<Vec<Value>> {
    let (mut all, mut continuation) = (Vec::new(), None::<String>);
    loop {
        let continued = continuation.as_deref();
        let query =
            HostQuery { text: None, parameters: &[], page_size: 2, continuation: continued };
        let page = host.query(query)?;
        all.extend(page.rows.iter().map(|row| version(row)));
        continuation = page.continuation;
        if continuation.is_none() {
            break;
        }
    }
    upsert(host, at(texts, 2))?;
    Ok(all)
}

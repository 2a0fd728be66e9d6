//! Scripts: as resources, and run.

mod batches;
mod functions;
mod isolation;
mod procedures;
mod resources;
mod runtime;
mod triggers;

use std::sync::Arc;

use partita_engine::{
    EngineSettings, Op, Outcome, ProcedureCall, Reply, ScriptOp, ScriptPath, ScriptSettings,
    StoredScript,
};
use partita_model::{PartitionKeyHeader, ScriptKind, Value};
use partita_storage::{MemoryStore, Store};

use crate::harness::*;
use runtime::Steps;

/// A database that can run scripts, and who runs them.
pub(crate) fn scripted(settings: EngineSettings) -> (Bench, Arc<Steps>) {
    scripted_on(Arc::new(MemoryStore::new()), settings)
}

/// The same on this store.
pub(crate) fn scripted_on(store: Arc<dyn Store>, settings: EngineSettings) -> (Bench, Arc<Steps>) {
    let steps = Arc::new(Steps::default());
    let scripts = ScriptSettings { runtime: Some(Arc::clone(&steps) as _), ..settings.scripts };
    (Bench::with(store, EngineSettings { scripts, ..settings }).unwrap(), steps)
}

fn script_path(kind: ScriptKind, script: &str) -> ScriptPath {
    ScriptPath { container: path(), kind, script: script.into() }
}

fn body(id: &str, source: &str) -> String {
    let source = Value::from(source).to_json();
    format!(r#"{{"id":"{id}","body":{source},"triggerType":"Pre","triggerOperation":"All"}}"#)
}

pub(crate) fn create(bench: &Bench, kind: ScriptKind, id: &str, source: &str) -> Reply {
    let body = json(&body(id, source));
    bench.run(Op::Script(ScriptOp::Create { container: path(), kind, body }))
}

fn read(bench: &Bench, kind: ScriptKind, id: &str) -> Reply {
    let script = script_path(kind, id);
    bench.run(Op::Script(ScriptOp::Read { script, condition: None }))
}

#[track_caller]
fn script(reply: Reply) -> Arc<StoredScript> {
    match reply.result {
        Ok(Outcome::Script { script, .. }) => script,
        other => panic!("no script: {other:?}"),
    }
}

/// A run of a procedure under a partition key.
pub(crate) fn call(procedure: &str, key: &str, arguments: &str) -> Op {
    Op::ExecuteProcedure(ProcedureCall {
        container: path(),
        procedure: procedure.into(),
        partition_key: Some(PartitionKeyHeader::parse(key).unwrap()),
        arguments: arguments.into(),
        logs: true,
    })
}

/// Stores a procedure and runs it under the key `a`.
fn run(bench: &Bench, source: &str) -> Reply {
    let (kind, body) = (ScriptKind::Procedure, json(&body("p", source)));
    let op = ScriptOp::Upsert { container: path(), kind, body, condition: None };
    script(bench.run(Op::Script(op)));
    bench.run(call("p", r#"["a"]"#, "[]"))
}

#[track_caller]
fn answer(reply: &Reply) -> Value {
    match &reply.result {
        Ok(Outcome::ProcedureAnswer { answer: Some(answer) }) => json(answer),
        other => panic!("no answer: {other:?}"),
    }
}

//! Scripts: as resources, and run.

mod resources;
mod runtime;

use std::sync::Arc;

use partita_engine::{
    EngineSettings, Op, Outcome, Reply, ScriptOp, ScriptPath, ScriptSettings, StoredScript,
};
use partita_model::ScriptKind;

use crate::harness::*;
use runtime::Steps;

/// A database that can run scripts, and who runs them.
fn scripted(settings: EngineSettings) -> (Bench, Arc<Steps>) {
    let steps = Arc::new(Steps);
    let scripts = ScriptSettings { runtime: Some(Arc::clone(&steps) as _), ..settings.scripts };
    (Bench::with_settings(EngineSettings { scripts, ..settings }), steps)
}

fn script_path(kind: ScriptKind, script: &str) -> ScriptPath {
    ScriptPath { container: path(), kind, script: script.into() }
}

fn body(id: &str, source: &str) -> String {
    let source = partita_model::Value::from(source).to_json();
    format!(r#"{{"id":"{id}","body":{source},"triggerType":"Pre","triggerOperation":"All"}}"#)
}

fn create(bench: &Bench, kind: ScriptKind, id: &str, source: &str) -> Reply {
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

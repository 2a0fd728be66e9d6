//! Stored procedures.

use partita_model::{Result, ScriptKind};

use super::Home;
use crate::access;
use crate::context::Work;
use crate::item::Items;
use crate::item::key_of_request;
use crate::op::{Outcome, ProcedureCall};
use crate::script_runtime::{Script, ScriptRole};

impl Items {
    pub(crate) async fn execute_procedure(
        &self,
        work: &mut Work<'_>,
        call: ProcedureCall,
    ) -> Result<Outcome> {
        self.core.script_runtime(ScriptKind::Procedure)?;
        let resolved = self.core.item_container(work, &call.container)?;
        let kind = ScriptKind::Procedure;
        let script = match system_procedure(&call.procedure) {
            Some(script) => script,
            None => {
                let stored =
                    self.core.catalog.current().script(&resolved, kind, &call.procedure)?;
                access::check_script(&work.context.access, stored.rid)?;
                stored.to_script()
            }
        };
        let key = key_of_request(&resolved.container, call.partition_key.as_ref())?;
        let mut home = Home::new(resolved.container, key);
        let role = ScriptRole::Procedure { arguments: &call.arguments };
        let answer = self
            .transact(work, &mut home, |host, log| {
                self.run_script((kind, &script), role, call.logs, host, log)
            })
            .await?;
        Ok(Outcome::ProcedureAnswer { answer })
    }
}

/// Answers with what it is given: tools try with it whether scripts run.
const ECHO: &str = "function (input) { getContext().getResponse().setBody(input); }";

/// The procedures that every container has without storing them. Their names have dots where no
/// user's own would hide them: a stored procedure of such a name cannot be called.
fn system_procedure(name: &str) -> Option<Script> {
    let source = match name {
        "__.sys.echo" => ECHO,
        _ => return None,
    };
    // One text under one version for ever.
    Some(Script { name: name.to_owned(), source: source.into(), version: 0 })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use partita_model::{ErrorKind, FixedClock, PartitionKeyHeader, SeededEntropy, Value};
    use partita_query::Functions;
    use partita_storage::MemoryStore;

    use super::*;
    use crate::access::{Access, Grant};
    use crate::block_on;
    use crate::context::Context;
    use crate::database::Database;
    use crate::op::{
        ContainerPath, DatabasePath, KeyRequired, Op, PermissionOp, ScriptOp, ScriptPath, UserOp,
        UserPath,
    };
    use crate::script_runtime::{ScriptCall, ScriptEnd, ScriptHost, ScriptRuntime};
    use crate::settings::EngineSettings;

    /// Every procedure answers with its own text.
    struct Echo;

    impl ScriptRuntime for Echo {
        fn check(&self, _: &Script) -> Result<()> {
            Ok(())
        }

        fn run(&self, call: &ScriptCall<'_>, _: &mut dyn ScriptHost) -> ScriptEnd {
            ScriptEnd { result: Ok(Some(call.script.source.to_string())), log: String::new() }
        }

        fn functions(&self, _: Vec<Script>) -> Arc<dyn Functions> {
            unreachable!("no query is asked here")
        }
    }

    fn container() -> ContainerPath {
        ContainerPath { database: "d".into(), container: "c".into() }
    }

    fn json(text: &str) -> Value {
        Value::parse(text.as_bytes()).unwrap()
    }

    fn done(database: &Database, op: Op) -> Outcome {
        block_on(database.execute(op, &Context::default())).result.unwrap()
    }

    fn make_procedure(database: &Database, source: &str) {
        let (kind, body) = (ScriptKind::Procedure, format!(r#"{{"id":"p","body":"{source}"}}"#));
        let op = ScriptOp::Create { container: container(), kind, body: json(&body) };
        done(database, Op::Script(op));
    }

    /// A database with a procedure, and what a token for that opens.
    fn opened() -> (Arc<Database>, Context) {
        let mut settings = EngineSettings::default();
        settings.scripts.runtime = Some(Arc::new(Echo));
        let (clock, entropy) = (Arc::new(FixedClock::new(0)), Arc::new(SeededEntropy::new(1)));
        let store = Arc::new(MemoryStore::new());
        let database = Database::open(store, clock, entropy, settings).unwrap();
        done(&database, Op::CreateDatabase { name: "d".into(), throughput: None });
        let definition = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash"}}"#;
        done(
            &database,
            Op::CreateContainer {
                database: DatabasePath("d".into()),
                body: json(definition),
                throughput: None,
                key_required: KeyRequired::Yes,
            },
        );
        make_procedure(&database, "1");
        let (name, user) = ("u".to_owned(), "u".to_owned());
        let op = UserOp::Create { database: DatabasePath("d".into()), name };
        done(&database, Op::User(op));
        let body = r#"{"id":"p","permissionMode":"All","resource":"dbs/d/colls/c/sprocs/p"}"#;
        let user = UserPath { database: "d".into(), user };
        let op = Op::Permission(PermissionOp::Create { user, body: json(body) });
        let Outcome::Permission { permission, .. } = done(&database, op) else { panic!() };
        let (mode, target) = (permission.mode, permission.target.clone());
        let grant = Grant { permission: permission.rid, mode, target };
        (database, Context { access: Access::Grant(Arc::new(grant)), ..Context::default() })
    }

    #[test]
    fn a_name_that_changes_hands_after_the_check_does_not_run_the_other_procedure() {
        let (database, context) = opened();
        let call = ProcedureCall {
            container: container(),
            procedure: "p".into(),
            partition_key: Some(PartitionKeyHeader::parse(r#"["a"]"#).unwrap()),
            arguments: "[]".into(),
            logs: false,
        };
        let run = || {
            let mut work = Work::new(&context);
            block_on(database.items.execute_procedure(&mut work, call.clone()))
        };
        let checked = database.check_allowed(&context, &Op::ExecuteProcedure(call.clone()));
        checked.unwrap();
        let Ok(Outcome::ProcedureAnswer { answer: Some(answer) }) = run() else { panic!() };
        assert_eq!(answer, "1");
        // The check of a call is over; before it runs, its name is given to something else.
        let script =
            ScriptPath { container: container(), kind: ScriptKind::Procedure, script: "p".into() };
        done(&database, Op::Script(ScriptOp::Delete { script, condition: None }));
        make_procedure(&database, "2");
        assert_eq!(run().unwrap_err().kind, ErrorKind::Forbidden);
    }
}

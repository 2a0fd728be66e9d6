//! Stored procedures.

use partita_model::{Result, ScriptKind};

use super::Home;
use crate::access;
use crate::context::Work;
use crate::database::Database;
use crate::item::key_of_request;
use crate::op::{Outcome, ProcedureCall};
use crate::script_runtime::ScriptRole;

impl Database {
    pub(crate) async fn execute_procedure(
        &self,
        work: &mut Work<'_>,
        call: ProcedureCall,
    ) -> Result<Outcome> {
        self.script_runtime(ScriptKind::Procedure)?;
        let resolved = self.item_container(work, &call.container)?;
        let kind = ScriptKind::Procedure;
        let stored = self.catalog.current().script(&resolved, kind, &call.procedure)?;
        access::check_script(&work.context.access, stored.rid)?;
        let key = key_of_request(&resolved.container, call.partition_key.as_ref())?;
        let mut home = Home::new(resolved.container, key);
        let script = stored.to_script();
        let role = ScriptRole::Procedure { arguments: &call.arguments };
        let answer = self
            .transact(work, &mut home, |host, log| {
                self.run_script((kind, &script), role, call.logs, host, log)
            })
            .await?;
        Ok(Outcome::ProcedureAnswer { answer })
    }
}

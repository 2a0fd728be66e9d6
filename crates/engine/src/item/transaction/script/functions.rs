//! The user-defined functions that a query calls.

use std::sync::Arc;

use partita_model::{Error, Result, ScriptKind};
use partita_query::Functions;

use crate::catalog::Container;
use crate::database::Database;

impl Database {
    /// The functions of these names, ready to be called; None if a query calls none.
    pub(crate) fn functions(
        &self,
        container: &Container,
        names: &[String],
    ) -> Result<Option<Arc<dyn Functions>>> {
        if names.is_empty() {
            return Ok(None);
        }
        let runtime = self.script_runtime(ScriptKind::Function)?;
        let catalog = self.catalog.current();
        let script = |name: &String| {
            let found = catalog.script_by_name(container.rid, ScriptKind::Function, name);
            found.map(|script| script.to_script()).ok_or_else(|| {
                Error::bad_request(format!(
                    "The query calls the user-defined function '{name}', which the container does \
                     not have"
                ))
            })
        };
        let scripts = names.iter().map(script).collect::<Result<_>>()?;
        Ok(Some(runtime.functions(scripts)))
    }
}

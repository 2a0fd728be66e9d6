//! The user-defined functions that a query calls.

use std::sync::Arc;

use partita_model::{Error, Result, ScriptKind, Value};
use partita_query::Functions;

use crate::catalog::Container;
use crate::database::Database;

impl Database {
    /// The functions of these names, ready to be called; None if a query calls none. That one is
    /// missing shows when it is called: a query that has no item to call it for does without.
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
        let (mut scripts, mut missing) = (Vec::new(), Vec::new());
        for name in names {
            match catalog.script_by_name(container.rid, ScriptKind::Function, name) {
                Some(script) => scripts.push(script.to_script()),
                None => missing.push(name.clone()),
            }
        }
        let there = runtime.functions(scripts);
        Ok(Some(match missing.is_empty() {
            true => there,
            false => Arc::new(SomeMissing { there, missing }),
        }))
    }
}

/// The functions of a query of which the container does not have all.
struct SomeMissing {
    there: Arc<dyn Functions>,
    missing: Vec<String>,
}

impl Functions for SomeMissing {
    fn call(&self, name: &str, arguments: &[Option<Value>]) -> Result<Option<Value>> {
        if !self.missing.iter().any(|missing| missing == name) {
            return self.there.call(name, arguments);
        }
        Err(Error::bad_request(format!(
            "The query calls the user-defined function '{name}', which the container does not have"
        )))
    }
}

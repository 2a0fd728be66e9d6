//! The user-defined functions that a query calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use partita_model::{Clock, Error, Result, ScriptKind, Value};
use partita_query::Functions;

use super::Queries;
use crate::catalog::Container;
use crate::context::Supervision;
use crate::script_runtime::{Overruns, Script};

impl Queries {
    /// The functions of these names, ready to be called; None if a query calls none. That one is
    /// missing or blocked shows when it is called: a query that has no item to call it for does
    /// without.
    pub(crate) fn functions(
        &self,
        container: &Container,
        names: &[String],
        supervision: &Arc<Supervision>,
    ) -> Result<Option<Arc<dyn Functions>>> {
        if names.is_empty() {
            return Ok(None);
        }
        let runtime = self.core.script_runtime(ScriptKind::Function)?;
        let catalog = self.core.catalog.current();
        let (mut scripts, mut refused) = (Vec::new(), Vec::new());
        for name in names {
            match catalog.script_by_name(container.rid, ScriptKind::Function, name) {
                Some(script) => scripts.push(script.to_script()),
                None => refused.push((name.clone(), missing(name))),
            }
        }
        let mut functions = runtime.functions(scripts.clone());
        if self.core.settings.scripts.blocks {
            let now_millis = self.core.clock.unix_millis();
            for script in &scripts {
                if let Err(error) = self.overruns.check(script, now_millis) {
                    refused.push((script.name.clone(), error));
                }
            }
            functions = Arc::new(Watched {
                functions,
                scripts,
                overruns: Arc::clone(&self.overruns),
                clock: Arc::clone(&self.core.clock),
                overran: AtomicBool::new(false),
            });
        }
        if !refused.is_empty() {
            functions = Arc::new(SomeRefused { functions, refused });
        }
        let supervision = Arc::clone(supervision);
        Ok(Some(Arc::new(Supervised { functions, supervision })))
    }
}

fn missing(name: &str) -> Error {
    Error::bad_request(format!(
        "The query calls the user-defined function '{name}', which the container does not have"
    ))
}

/// The functions of a query of which some cannot be called.
struct SomeRefused {
    functions: Arc<dyn Functions>,
    refused: Vec<(String, Error)>,
}

impl Functions for SomeRefused {
    fn call(&self, name: &str, arguments: &[Option<Value>]) -> Result<Option<Value>> {
        match self.refused.iter().find(|(refused, _)| refused == name) {
            Some((_, error)) => Err(error.clone()),
            None => self.functions.call(name, arguments),
        }
    }

    fn take_millis(&self) -> u64 {
        self.functions.take_millis()
    }
}

/// The functions of one page of a query, whose overruns are noted.
struct Watched {
    functions: Arc<dyn Functions>,
    scripts: Vec<Script>,
    overruns: Arc<Overruns>,
    clock: Arc<dyn Clock>,
    /// Threads that share a page run out of its time together: that is one overrun, not several.
    overran: AtomicBool,
}

impl Functions for Watched {
    fn call(&self, name: &str, arguments: &[Option<Value>]) -> Result<Option<Value>> {
        let result = self.functions.call(name, arguments);
        if Overruns::is_one(&result) && !self.overran.swap(true, Ordering::Relaxed) {
            let script = self.scripts.iter().find(|script| script.name == name);
            let script = script.expect("what was called is one of them");
            self.overruns.note(script, &result, self.clock.unix_millis());
        }
        result
    }

    fn take_millis(&self) -> u64 {
        self.functions.take_millis()
    }
}

/// The functions of a query that somebody watches. They run elsewhere: while one does, or is waited
/// for, others may have the processor of the thread that called it.
struct Supervised {
    functions: Arc<dyn Functions>,
    supervision: Arc<Supervision>,
}

impl Functions for Supervised {
    fn call(&self, name: &str, arguments: &[Option<Value>]) -> Result<Option<Value>> {
        self.supervision.go_on()?;
        let mut result = Ok(None);
        self.supervision.wait_for_help(&mut || result = self.functions.call(name, arguments));
        result
    }

    fn take_millis(&self) -> u64 {
        self.functions.take_millis()
    }
}

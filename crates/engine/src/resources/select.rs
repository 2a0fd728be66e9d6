//! Queries over resources that do more than pick some: projections, orders, TOP, OFFSET, counts.
//!
//! There are never so many resources that an index would pay. All of them are listed as JSON, and
//! the language's own evaluator answers; a page is a part of its rows. The continuation says how
//! many rows were delivered: resources that come and go in between shift the rest, as in any list
//! without an order.

use std::sync::Arc;

use partita_model::{Error, Result, Value};
use partita_query::{Interrupt, Query, ScopeSettings, evaluate};

use super::Resources;
use super::{EVERYTHING, PAGE_RESOURCES_DEFAULT, PAGE_RESOURCES_MAX, invalid_continuation};
use crate::context::Supervision;
use crate::context::Work;
use crate::op::{EncryptionKeyOp, Op, Outcome, PageRequest, PermissionOp, ScriptOp, UserOp};

/// What a continuation begins with; the rest is a number of rows.
const DELIVERED: &str = "rows:";

impl Resources {
    /// A page of a query's rows over what `list` lists.
    pub(crate) fn query_resources(
        &self,
        work: &mut Work<'_>,
        list: &Op,
        query: &Query,
        request: &PageRequest,
    ) -> Result<Outcome> {
        let delivered = match &request.continuation {
            None => 0,
            Some(token) => token
                .strip_prefix(DELIVERED)
                .and_then(|rows| rows.parse::<usize>().ok())
                .ok_or_else(invalid_continuation)?,
        };
        let of = self.list_everything(work, list)?;
        let texts: Vec<String> = resources(list, &of).iter().map(Value::to_json).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let millis_max = self.queries.query_settings(work, None).whole_millis_max;
        let supervision =
            self.queries.supervision(work, self.core.clock.monotonic_nanos(), millis_max);
        let interrupt: Arc<dyn Interrupt> = Arc::<Supervision>::clone(&supervision);
        let memory = self.core.settings.memory.share();
        let scope =
            ScopeSettings { interrupt: Some(interrupt), memory, ..ScopeSettings::default() };
        let rows = evaluate(query, &texts, &scope);
        work.usage.long_steps += supervision.long_steps();
        let rows = rows?;
        let rows_max =
            request.items_max.unwrap_or(PAGE_RESOURCES_DEFAULT).clamp(1, PAGE_RESOURCES_MAX);
        let until = delivered.saturating_add(rows_max);
        let continuation = (until < rows.len()).then(|| format!("{DELIVERED}{until}"));
        let page = rows.iter().skip(delivered).take(rows_max);
        let rows = page.map(|row| Value::parse(row.as_bytes())).collect::<Result<_>>()?;
        Ok(Outcome::ResourceRows { of: Box::new(of), rows, continuation })
    }

    /// All that an operation lists, without its filter.
    fn list_everything(&self, work: &mut Work<'_>, list: &Op) -> Result<Outcome> {
        let all = &PageRequest { items_max: Some(EVERYTHING), continuation: None };
        work.usage.metadata_reads = 1;
        match list {
            Op::ListDatabases { .. } => self.list_databases(work, None, all),
            Op::ListContainers { database, key_required, .. } => {
                self.list_containers(work, database, (None, all), *key_required)
            }
            Op::ListOffers { .. } => self.list_offers(work, None, all),
            Op::User(UserOp::List { database, .. }) => self.list_users(database, None, all),
            Op::Permission(PermissionOp::List { user, .. }) => {
                self.list_permissions(user, None, all)
            }
            Op::EncryptionKey(EncryptionKeyOp::List { database, .. }) => {
                self.list_encryption_keys(database, None, all)
            }
            Op::Script(ScriptOp::List { container, kind, .. }) => {
                self.list_scripts(work, (container, *kind), None, all)
            }
            _ => Err(Error::internal("a query over resources names no list of them")),
        }
    }
}

/// The resources of a list as JSON, as those who asked for it see them.
fn resources(asked: &Op, list: &Outcome) -> Vec<Value> {
    match list {
        Outcome::Databases { databases, .. } => databases.iter().map(|d| d.to_value()).collect(),
        Outcome::Containers { containers, .. } => match asked {
            Op::ListContainers { key_required, .. } => {
                containers.iter().map(|c| c.shown_to(*key_required)).collect()
            }
            _ => containers.iter().map(|c| c.to_value()).collect(),
        },
        Outcome::Offers { offers, .. } => offers.iter().map(|o| o.to_value()).collect(),
        Outcome::Users { users, .. } => users.iter().map(|u| u.to_value()).collect(),
        Outcome::Permissions { permissions, .. } => {
            permissions.iter().map(|p| p.to_value()).collect()
        }
        Outcome::EncryptionKeys { keys, .. } => keys.iter().map(|k| k.to_value()).collect(),
        Outcome::Scripts { scripts, .. } => scripts.iter().map(|s| s.to_value()).collect(),
        _ => Vec::new(),
    }
}

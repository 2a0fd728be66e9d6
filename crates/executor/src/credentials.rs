//! Whose requests are served: the account's keys, the identity providers it trusts, and the roles
//! of their principals; and who sees all metrics.
//!
//! They can be exchanged while the server runs: a request sees those from before or those from
//! after, never a mixture. What a token says of a principal's groups counts as if it were said of
//! the principal.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use partita_engine::{RoleAssignment, Roles};
use partita_gateway::auth::{Bearer, Issuer, Keys, ScrapeToken};

/// What decides whose requests are served, at one time.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// The account's keys.
    pub keys: Keys,
    /// The identity providers whose tokens count.
    pub issuers: Vec<Issuer>,
    /// What principals and groups may do, by their id.
    pub roles: BTreeMap<String, Vec<RoleAssignment>>,
    /// Who sees the metrics that name databases and containers.
    pub metrics: MetricsAccess,
}

/// Who sees the metrics that name databases and containers. Those of the process are for everybody.
#[derive(Clone, Debug)]
pub enum MetricsAccess {
    /// Who signs with a key of the account, or shows this token.
    Restricted(Option<ScrapeToken>),
    /// Everybody.
    Open,
}

impl Default for MetricsAccess {
    fn default() -> MetricsAccess {
        MetricsAccess::Restricted(None)
    }
}

impl Trust {
    /// The account's keys, and nobody else.
    pub fn of_keys(keys: Keys) -> Trust {
        Trust { keys, ..Trust::default() }
    }

    /// What the bearer of a token may do.
    pub fn roles(&self, bearer: &Bearer) -> Roles {
        let given = bearer.ids.iter().filter_map(|id| self.roles.get(id));
        Roles {
            principal: bearer.ids.first().cloned().unwrap_or_default(),
            assignments: given.flatten().cloned().collect(),
        }
    }
}

/// What is trusted now.
#[derive(Debug)]
pub struct Credentials {
    current: ArcSwap<Trust>,
}

impl Credentials {
    /// Begins with these.
    pub fn new(trust: Trust) -> Credentials {
        Credentials { current: ArcSwap::from_pointee(trust) }
    }

    /// What is trusted at this moment.
    pub fn current(&self) -> Arc<Trust> {
        self.current.load_full()
    }

    /// The same for a moment: all requests look at it, and do not count themselves.
    pub fn glance(&self) -> Guard<Arc<Trust>> {
        self.current.load()
    }

    /// From now on these.
    pub fn replace(&self, trust: Trust) {
        self.current.store(Arc::new(trust));
    }
}

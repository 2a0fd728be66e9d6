//! Queries over the items of a container.

use partita_model::{Error, Result};

use crate::context::Work;
use crate::database::Database;
use crate::op::{ContainerPath, Outcome, PlanQueryRequest, QueryRequest};

impl Database {
    pub(crate) fn query(
        &self,
        work: &mut Work<'_>,
        path: &ContainerPath,
        request: &QueryRequest,
    ) -> Result<Outcome> {
        self.item_container(work, path)?;
        Err(Error::unsupported(format!("queries: {}", request.text)))
    }

    pub(crate) fn plan_query(
        &self,
        work: &mut Work<'_>,
        path: &ContainerPath,
        request: &PlanQueryRequest,
    ) -> Result<Outcome> {
        self.item_container(work, path)?;
        Err(Error::unsupported(format!("query plans: {}", request.text)))
    }
}

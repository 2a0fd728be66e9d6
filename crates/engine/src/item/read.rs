//! Reading one item: one lookup, no copy of its text, no parse.

use partita_model::{Consistency, Result};

use super::{check_match, matches, not_found};
use crate::context::Work;
use crate::database::Database;
use crate::op::{Change, Condition, ItemBody, ItemPath, Outcome};
use crate::session;

impl Database {
    pub(crate) fn read_item(
        &self,
        work: &mut Work<'_>,
        path: &ItemPath,
        condition: Option<&Condition>,
    ) -> Result<Outcome> {
        let place = self.place(work, path)?;
        work.usage.reads = 1;
        let view = self.open_view(work, &place)?;
        if let Some(token) = &work.context.session
            && self.consistency(work.context) == Consistency::Session
        {
            session::check(token, place.partition(), view.lsn())?;
        }
        let found = self.current(work, &*view, &place)?.filter(|current| current.live);
        let Some(current) = found else { return Err(not_found(&path.id)) };
        check_match(condition, &current.record)?;
        let etag = current.record.etag;
        if let Some(Condition::NoneMatch(pattern)) = condition
            && matches(pattern, &etag.to_string())
        {
            return Ok(Outcome::NotModified { etag: etag.to_string() });
        }
        work.usage.read_bytes = current.record.body.len() as u64;
        Ok(Outcome::Item { etag, body: ItemBody(current.record.body), change: Change::None })
    }
}

//! Reading one item: one lookup, no copy of its text, no parse.

use partita_model::{Result, Usage};

use super::Items;
use super::{ItemPlace, StoredItem, check_match, matches, not_found};
use crate::context::Work;
use crate::op::{Change, Condition, ItemBody, ItemPath, Outcome};

impl Items {
    pub(crate) fn read_item(
        &self,
        work: &mut Work<'_>,
        path: &ItemPath,
        condition: Option<&Condition>,
    ) -> Result<Outcome> {
        let place = self.place(work, path)?;
        self.read_place(work, &place, condition)
    }

    pub(super) fn read_place(
        &self,
        work: &mut Work<'_>,
        place: &ItemPlace,
        condition: Option<&Condition>,
    ) -> Result<Outcome> {
        self.core.admit(work, place.live())?;
        let read = self.read_admitted(work, place, condition);
        self.charge_item(work, place);
        read
    }

    fn read_admitted(
        &self,
        work: &mut Work<'_>,
        place: &ItemPlace,
        condition: Option<&Condition>,
    ) -> Result<Outcome> {
        work.usage.reads = 1;
        let view = self.open_view(work, place)?;
        self.core.check_session(work, place.partition(), view.lsn())?;
        let current = self.current(work, &*view, place)?;
        version(current, &place.id, condition, &mut work.usage)
    }
}

/// What a read tells of the stored version.
pub(super) fn version(
    current: Option<StoredItem>,
    id: &str,
    condition: Option<&Condition>,
    usage: &mut Usage,
) -> Result<Outcome> {
    let found = current.filter(|current| current.live);
    let Some(StoredItem { record, .. }) = found else { return Err(not_found(id)) };
    check_match(condition, &record)?;
    if let Some(Condition::NoneMatch(pattern)) = condition
        && matches(pattern, &record.etag.to_string())
    {
        return Ok(Outcome::NotModified { etag: record.etag.to_string() });
    }
    usage.read_bytes = record.body.len() as u64;
    Ok(Outcome::Item { etag: record.etag, body: ItemBody(record.body), change: Change::None })
}

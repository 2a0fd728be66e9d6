//! What a running script can do to the items of its logical partition.
//!
//! Every operation is prepared like a single write or an operation of a batch, on a view that shows
//! the operations before it, and joins the transaction's write set. Errors are for the script: it
//! may catch them and go on, and nothing of the operation is left. Errors that are the server's own
//! end the transaction, whatever the script does.

use std::sync::Arc;

use partita_model::{Charge, Error, ErrorKind, ItemRid, MemoryShare, Result, Usage};
use partita_storage::{Snapshot, Space};

use super::{Changed, Home, NANOS_PER_MILLI, Written};
use crate::catalog::Container;
use crate::changeset::Effects;
use crate::context::{Context, Work};
use crate::item::Items;
use crate::item::draft::Draft;
use crate::item::intent::{Intent, Patched};
use crate::item::read::version;
use crate::item::transaction::one_read;
use crate::item::transaction::overlay::Overlay;
use crate::item::{ItemPlace, check_match, not_found};
use crate::keys;
use crate::op::{
    Change, Condition, EtagPattern, ItemBody, NewItem, Outcome, PageRequest, QueryRequest, Scope,
};
use crate::pricing;
use crate::query::Inside;
use crate::script_runtime::{
    HostItem, HostLink, HostPage, HostQuery, HostTarget, HostWrite, ScriptHost,
};

/// The service's text for an item of another logical partition.
pub(in crate::item::transaction) const OTHER_KEY: &str = "Requests originating from scripts cannot reference partition keys other \
    than the one for which client request was submitted.";

/// Bytes of items that one transaction may write and delete: it is held in memory, and committed
/// at once.
pub(in crate::item::transaction) const WRITTEN_BYTES_MAX: u64 = 64 << 20;

/// A transaction under way.
pub(super) struct Host<'a> {
    items: &'a Items,
    home: &'a Home,
    work: Work<'a>,
    view: Arc<Overlay>,
    ends_nanos: u64,
    charge: Charge,
    effects: Effects,
    failure: Option<Error>,
    /// Its working memory, and that of its queries.
    memory: MemoryShare,
}

impl<'a> Host<'a> {
    pub(super) fn new(
        items: &'a Items,
        context: &'a Context,
        home: &'a Home,
        view: Box<dyn Snapshot>,
    ) -> Result<Host<'a>> {
        let memory = items.core.settings.memory.share();
        let mut view = Overlay::new(view, &memory);
        let head = view.begin_at(&home.epk, &home.key)?.map(|record| record.lsn);
        view.saw(Space::Meta, keys::head(&home.epk, &home.key), head);
        let mut work = Work::new(context);
        work.admitted.push(home.partition().id);
        let limit_nanos = items.core.settings.scripts.run_millis_max * NANOS_PER_MILLI;
        Ok(Host {
            items,
            home,
            work,
            view: Arc::new(view),
            ends_nanos: items.core.clock.monotonic_nanos().saturating_add(limit_nanos),
            charge: Charge::default(),
            effects: Effects::default(),
            failure: None,
            memory,
        })
    }

    pub(super) fn container(&self) -> &'a Arc<Container> {
        &self.home.container
    }

    /// The end of the transaction.
    pub(super) fn finish(self) -> Written {
        let Host { view, charge, effects, failure, .. } = self;
        let (failure, changes) = match Arc::try_unwrap(view) {
            Ok(view) if view.is_untouched() => (failure, None),
            Ok(view) => (failure, Some(Changed { batch: view.into_batch(), effects })),
            Err(_) => (Some(still_read()), None),
        };
        Written { charge, failure, changes }
    }

    /// Writes or deletes an item.
    pub(super) fn apply(&mut self, place: &ItemPlace, intent: &Intent) -> Result<Outcome> {
        let (items, view) = (self.items, Arc::clone(&self.view));
        let prepared = items.prepare(&mut self.work, &*view, place, intent, &mut None)?;
        let effects = self.effects.and(prepared.effects);
        items.core.check_quota(place, view.base(), effects.grown)?;
        if effects.bytes > WRITTEN_BYTES_MAX {
            return Err(Error::too_large(format!(
                "Request size is too large: the script writes more than {WRITTEN_BYTES_MAX} bytes \
                 of items. Do it in several runs"
            )));
        }
        drop(view);
        Arc::get_mut(&mut self.view).ok_or_else(still_read)?.absorb(prepared.batch)?;
        self.effects = effects;
        self.pay(&prepared.counts.usage());
        Ok(prepared.outcome)
    }

    /// Reads an item as a client would.
    pub(super) fn look(&mut self, id: &str, condition: Option<&Condition>) -> Result<Outcome> {
        let place = self.place(id.to_owned());
        let current = self.items.current(&mut self.work, &*self.view, &place)?;
        let mut usage = one_read();
        let read = version(current, &place.id, condition, &mut usage);
        self.pay(&usage);
        read
    }

    /// What was paid so far.
    pub(super) fn charge(&self) -> Charge {
        self.charge
    }

    /// Has the transaction had all of its time?
    pub(super) fn is_late(&self) -> bool {
        self.items.core.clock.monotonic_nanos() >= self.ends_nanos
    }

    /// What a patch makes of an item.
    pub(super) fn patched(
        &mut self,
        id: &str,
        patch: &Patched,
        condition: Option<&Condition>,
    ) -> Result<Draft> {
        let place = self.place(id.to_owned());
        let current = self.items.current(&mut self.work, &*self.view, &place)?;
        let live = current.filter(|current| current.live);
        let record = live.map(|current| current.record).ok_or_else(|| not_found(id))?;
        check_match(condition, &record)?;
        patch.apply(&place, &record)
    }

    /// Understands a document of this logical partition.
    pub(super) fn draft(&self, item: NewItem) -> Result<Draft> {
        let item = NewItem { partition_key: Some(self.home.header()), ..item };
        let draft = Draft::of(&self.home.container, &item)?;
        // The EPK is compared, not the key: 0 and -0 are equal and have different places.
        if draft.place(&self.home.container).epk == self.home.epk {
            Ok(draft)
        } else {
            Err(Error::key_mismatch(OTHER_KEY))
        }
    }

    /// The place of an id in this logical partition.
    pub(super) fn place(&self, id: String) -> ItemPlace {
        ItemPlace::new(Arc::clone(&self.home.container), self.home.key.clone(), id)
    }

    /// The item that a script names.
    fn addressed(&self, link: HostLink<'_>) -> Result<ItemPlace> {
        let text = match link {
            HostLink::Name(id) => return Ok(self.place(id.to_owned())),
            HostLink::Rid(rid) => rid,
        };
        let rid = ItemRid::parse(text).filter(|rid| rid.container == self.home.container.rid);
        let Some(rid) = rid else {
            return Err(Error::bad_request(format!("'{text}' is no resource id of an item here")));
        };
        let pointer = self.view.get(Space::Index, &keys::rid(rid.item))?;
        let Some(pointer) = pointer else { return Err(not_found(text)) };
        let components = self.home.container.definition.partition_key.paths.len();
        match keys::parse_item(&pointer.value, components) {
            Some(found) if found.epk == self.home.epk && found.key == self.home.key => {
                Ok(self.place(found.id))
            }
            Some(_) => Err(Error::bad_request(OTHER_KEY)),
            None => Err(Error::corrupt("a resource id leads to a damaged key")),
        }
    }

    fn write_document(&mut self, write: HostWrite<'_>) -> Result<HostItem> {
        let HostWrite { target, document, indexing, if_match } = write;
        let body = document.as_bytes().to_vec();
        let draft = self.draft(NewItem { body, partition_key: None, indexing });
        let draft = draft.map_err(|error| match error.kind {
            ErrorKind::PartitionKeyMismatch => Error::bad_request(OTHER_KEY),
            _ => error,
        });
        let condition = if_match.map(|etag| Condition::Match(pattern(etag)));
        let (place, intent) = match (target, draft) {
            (HostTarget::Replace(link), Err(misfit)) => {
                (self.addressed(link)?, Intent::Misfit(misfit))
            }
            (_, Err(error)) => return Err(error),
            (HostTarget::Create, Ok(draft)) => {
                (draft.place(self.container()), Intent::Create(draft))
            }
            (HostTarget::Upsert, Ok(draft)) => {
                (draft.place(self.container()), Intent::Upsert(draft, condition))
            }
            (HostTarget::Replace(link), Ok(draft)) => {
                (self.addressed(link)?, Intent::Replace(draft, condition))
            }
        };
        match self.apply(&place, &intent)? {
            Outcome::Item { body, .. } => host_item(body),
            other => Err(Error::internal(format!("a script's write answered with {other:?}"))),
        }
    }

    fn read_document(
        &mut self,
        link: HostLink<'_>,
        if_none_match: Option<&str>,
    ) -> Result<Option<HostItem>> {
        let place = self.addressed(link)?;
        let condition = if_none_match.map(|etag| Condition::NoneMatch(pattern(etag)));
        let current = self.items.current(&mut self.work, &*self.view, &place)?;
        let mut usage = one_read();
        let read = version(current, &place.id, condition.as_ref(), &mut usage);
        self.pay(&usage);
        match read? {
            Outcome::Item { body, change: Change::None, .. } => host_item(body).map(Some),
            _ => Ok(None),
        }
    }

    fn page(&mut self, query: HostQuery<'_>) -> Result<HostPage> {
        let HostQuery { text, parameters, page_size, continuation } = query;
        let page = PageRequest {
            items_max: Some(page_size.max(1)),
            continuation: continuation.map(str::to_owned),
        };
        let Some(text) = text else { return self.page_of_all(&page) };
        let request = QueryRequest {
            parameters: parameters.to_vec(),
            scope: Scope::PartitionKey(self.home.header()),
            cross_partition: false,
            page,
            explain: false,
            ..QueryRequest::new(text)
        };
        let inside = self.inside();
        self.work.usage = Usage::default();
        let container = self.container();
        let found = self.items.queries.query_container(
            &mut self.work,
            container,
            &request,
            Some(&inside),
            None,
        );
        let usage = std::mem::take(&mut self.work.usage);
        self.pay(&usage);
        match found? {
            Outcome::Query { rows, continuation, .. } => Ok(HostPage { rows, continuation }),
            other => Err(Error::internal(format!("a script's query answered with {other:?}"))),
        }
    }

    /// A page of all items, also of those that are kept out of the index.
    fn page_of_all(&mut self, page: &PageRequest) -> Result<HostPage> {
        let (inside, key) = (self.inside(), self.home.header());
        let container = Arc::clone(self.container());
        let (rows, continuation, usage) =
            self.items.list_logical(&mut self.work, &container, key, page, &inside)?;
        self.pay(&usage);
        Ok(HostPage { rows, continuation })
    }

    /// What a query of this transaction sees, and the time that it has.
    fn inside(&self) -> Inside {
        let now = self.items.core.clock.monotonic_nanos();
        Inside {
            view: Arc::clone(&self.view) as Arc<dyn Snapshot>,
            memory: self.memory.clone(),
            millis_left: self.ends_nanos.saturating_sub(now) / NANOS_PER_MILLI,
        }
    }

    fn pay(&mut self, usage: &Usage) {
        let consistency = self.items.core.consistency(self.work.context);
        self.charge = self.charge + pricing::charge(usage, consistency);
    }

    /// Does an operation of the script, unless the server has failed it before.
    fn guarded<T>(&mut self, operation: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let done = operation(self);
        if let Err(error) = &done
            && is_the_servers(&error.kind)
        {
            self.failure = Some(error.clone());
        }
        done
    }
}

impl ScriptHost for Host<'_> {
    fn write(&mut self, write: HostWrite<'_>) -> Result<HostItem> {
        self.guarded(|host| host.write_document(write))
    }

    fn read(
        &mut self,
        item: HostLink<'_>,
        if_none_match: Option<&str>,
    ) -> Result<Option<HostItem>> {
        self.guarded(|host| host.read_document(item, if_none_match))
    }

    fn delete(&mut self, item: HostLink<'_>, if_match: Option<&str>) -> Result<()> {
        self.guarded(|host| {
            let place = host.addressed(item)?;
            let condition = if_match.map(|etag| Condition::Match(pattern(etag)));
            host.apply(&place, &Intent::Remove(condition)).map(|_| ())
        })
    }

    fn query(&mut self, query: HostQuery<'_>) -> Result<HostPage> {
        self.guarded(|host| host.page(query))
    }
}

fn pattern(etag: &str) -> EtagPattern {
    match etag.trim_matches('"') {
        "*" => EtagPattern::Any,
        etag => EtagPattern::Exact(etag.to_owned()),
    }
}

fn host_item(body: ItemBody) -> Result<HostItem> {
    let text = String::from_utf8(body.0.into())
        .map_err(|_| Error::corrupt("the text of an item is not valid UTF-8"))?;
    Ok(HostItem { text })
}

fn still_read() -> Error {
    Error::internal("a script's query is still being answered")
}

pub(super) fn is_the_servers(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Corrupt
            | ErrorKind::Internal
            | ErrorKind::Unavailable
            | ErrorKind::DiskFull
            | ErrorKind::RetryWith
    )
}

//! The feed of a container's items, page by page.
//!
//! Items come in EPK order: partition after partition, and within one in the order of their keys. A
//! page ends on the number of items or bytes asked for. The continuation is the key of the last
//! item delivered and nothing else, so it is good for any partition that holds the EPKs after it:
//! it survives restarts and splits, and the server keeps nothing between two pages.

use std::ops::Bound;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use partita_model::{
    Epk, EpkRange, Error, KeyPart, PartitionKeyHeader, Result, Usage, keycode::Reader, limits,
};
use partita_storage::{Direction, KeyRange, ScanLimit, Snapshot, Space};

use crate::catalog::{Container, Partition};
use crate::context::Work;
use crate::database::Database;
use crate::keys;
use crate::op::{ContainerPath, ItemBody, Outcome, PageRequest, Scope};
use crate::pricing;
use crate::record::ItemRecord;
use crate::throughput::Share;

/// Items of a page when the client does not say: as the service does.
const PAGE_ITEMS_DEFAULT: usize = 100;
/// The most items of a page, whatever the client asks for.
const PAGE_ITEMS_MAX: usize = 1_000;
/// One read of the store within a page.
const SCAN_BYTES_MAX: usize = 1 << 20;
/// The most entries looked at for a page: expired items and those of other keys fill no page, and
/// one request must not walk through all of them. Such a page may be empty and still be continued.
const PAGE_SCANNED_MAX: usize = 10_000;
/// Marks our continuations, and their version.
const TOKEN_PREFIX: &str = "P1.";

/// A page under construction.
struct PageBuilder {
    items: Vec<ItemBody>,
    bytes: usize,
    scanned: usize,
    items_max: usize,
    last_key: Option<Vec<u8>>,
    /// Only items whose partition key begins like this: two keys may have one EPK.
    only: Vec<KeyPart>,
}

impl PageBuilder {
    fn new(items_max: usize, only: Vec<KeyPart>) -> PageBuilder {
        PageBuilder { items: Vec::new(), bytes: 0, scanned: 0, items_max, last_key: None, only }
    }

    fn is_full(&self) -> bool {
        self.items.len() >= self.items_max
            || self.bytes >= limits::RESPONSE_BYTES_MAX
            || self.scanned >= PAGE_SCANNED_MAX
    }

    fn usage(&self) -> Usage {
        Usage {
            reads: 1,
            read_bytes: self.bytes as u64,
            entries_scanned: self.scanned as u64,
            ..Usage::default()
        }
    }

    /// Is this the key of an item that was asked for?
    fn wants(&self, container: &Container, item_key: &[u8]) -> Result<bool> {
        if self.only.is_empty() {
            return Ok(true);
        }
        let components = container.definition.partition_key.paths.len();
        let key = keys::parse_item(item_key, components)
            .ok_or_else(|| Error::corrupt("the key of an item is damaged"))?;
        Ok(key.key.0.starts_with(&self.only))
    }
}

impl Database {
    pub(crate) fn list_items(
        &self,
        work: &mut Work<'_>,
        path: &ContainerPath,
        scope: &Scope,
        page: &PageRequest,
    ) -> Result<Outcome> {
        let container = self.item_container(work, path)?.container;
        let epks = scope_epks(&container, scope)?;
        let after = page.continuation.as_deref().map(parse_token).transpose()?;
        let items_max = items_max(page);
        let only = match scope {
            Scope::PartitionKey(header) => named_key(&container, header).0,
            Scope::All | Scope::Range { .. } | Scope::Epks(_) => Vec::new(),
        };
        let mut built = PageBuilder::new(items_max, only);
        let mut shares = Vec::new();
        let listed = self.fill(work, &container, (&epks, after), &mut built, &mut shares);
        if !shares.is_empty() {
            work.usage = built.usage();
            let charge = pricing::charge(&work.usage, self.consistency(work.context));
            self.settle_shares(work, charge, &shares, None);
        }
        let continuation = if listed? { built.last_key.as_deref().map(token) } else { None };
        Ok(Outcome::Items { items: built.items, continuation })
    }

    /// A page of the items of one logical partition as a view shows them, and what it took.
    pub(super) fn list_logical(
        &self,
        view: &dyn Snapshot,
        container: &Container,
        key: &PartitionKeyHeader,
        page: &PageRequest,
    ) -> Result<(Vec<ItemBody>, Option<String>, Usage)> {
        let epks = container.definition.partition_key.range_of(key)?;
        let after = page.continuation.as_deref().map(parse_token).transpose()?;
        let mut built = PageBuilder::new(items_max(page), key.0.clone());
        let more = match resume(&epks, after.as_deref())? {
            Some(range) => self.list_view(view, container, range, &mut built)?,
            None => false,
        };
        let continuation = if more { built.last_key.as_deref().map(token) } else { None };
        let usage = built.usage();
        Ok((built.items, continuation, usage))
    }

    /// Fills the page partition by partition; true if there is more than fitted. `shares` tells
    /// what each partition did, also if one failed.
    fn fill<'c>(
        &self,
        work: &mut Work<'_>,
        container: &'c Container,
        (epks, after): (&EpkRange, Option<Vec<u8>>),
        page: &mut PageBuilder,
        shares: &mut Vec<Share<'c>>,
    ) -> Result<bool> {
        for partition in &container.partitions {
            let Some(part) = partition.epks.intersect(epks) else { continue };
            let Some(range) = resume(&part, after.as_deref())? else { continue };
            if page.is_full() {
                return Ok(true);
            }
            match self.admit(work, partition) {
                // The page ends where the throughput does.
                Err(_) if page.last_key.is_some() => return Ok(true),
                admitted => admitted?,
            }
            let before = page.scanned;
            let more = self.list_partition(work, container, partition, range, page);
            shares.push(Share { partition, weight: (1 + page.scanned - before) as f64 });
            if more? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Adds a partition's items to the page; true if it holds more than fitted.
    fn list_partition(
        &self,
        work: &mut Work<'_>,
        container: &Container,
        partition: &Partition,
        range: KeyRange,
        page: &mut PageBuilder,
    ) -> Result<bool> {
        let view = self.open_partition(work, partition)?;
        self.check_session(work, partition, view.lsn())?;
        self.list_view(&*view, container, range, page)
    }

    /// The same from a view of it.
    fn list_view(
        &self,
        view: &dyn Snapshot,
        container: &Container,
        mut range: KeyRange,
        page: &mut PageBuilder,
    ) -> Result<bool> {
        let now = self.now_seconds();
        loop {
            let entries_max = page.items_max - page.items.len();
            let limit = ScanLimit { entries_max, bytes_max: SCAN_BYTES_MAX };
            let scanned = view.scan(Space::Items, &range, Direction::Forward, limit)?;
            page.scanned += scanned.entries.len();
            for entry in scanned.entries {
                let record = ItemRecord::decode(&entry.record.value)?;
                if !record.expired(container.definition.default_ttl, now)
                    && page.wants(container, &entry.key)?
                {
                    page.bytes += record.body.len();
                    page.items.push(ItemBody(record.body));
                }
                page.last_key = Some(entry.key.to_vec());
            }
            if !scanned.more || page.is_full() {
                return Ok(scanned.more);
            }
            if let Some(last) = &page.last_key {
                range.start = Bound::Excluded(last.clone());
            }
        }
    }
}

fn items_max(page: &PageRequest) -> usize {
    page.items_max.unwrap_or(PAGE_ITEMS_DEFAULT).clamp(1, PAGE_ITEMS_MAX)
}

/// The EPKs that a feed covers.
pub(crate) fn scope_epks(container: &Container, scope: &Scope) -> Result<EpkRange> {
    match scope {
        Scope::All => Ok(EpkRange::all()),
        Scope::PartitionKey(header) => {
            container.definition.partition_key.range_of(&named_key(container, header))
        }
        Scope::Range { id, within } => {
            let partition = container.partitions.iter().find(|p| p.range_id.to_string() == *id);
            let partition = partition.ok_or_else(|| gone(id))?;
            match within {
                None => Ok(partition.epks.clone()),
                Some(within) => Ok(partition
                    .epks
                    .intersect(within)
                    .unwrap_or(EpkRange { min: Epk::max(), max: Epk::max() })),
            }
        }
        Scope::Epks(range) => {
            let touched = container.partitions.iter().filter(|p| p.epks.overlaps(range)).count();
            if touched > 1 {
                return Err(Error::range_gone(format!(
                    "The requested EPK range covers {touched} partition key ranges: read the ranges \
                     and ask each of them"
                )));
            }
            Ok(range.clone())
        }
    }
}

/// The key that a feed is restricted to. In a container without a key, none is one: that of the
/// items without a value for the system's.
fn named_key(container: &Container, header: &PartitionKeyHeader) -> PartitionKeyHeader {
    match header.0.is_empty() && container.definition.partition_key.system_key {
        true => PartitionKeyHeader(vec![KeyPart::Undefined]),
        false => header.clone(),
    }
}

pub(super) fn gone(id: &str) -> Error {
    Error::range_gone(format!(
        "The requested partition key range '{id}' does not exist, or no longer: read the partition \
         key ranges again"
    ))
}

/// The keys of a part of a partition that come after the last one delivered; None if all were.
fn resume(part: &EpkRange, after: Option<&[u8]>) -> Result<Option<KeyRange>> {
    let range = keys::items_in(part);
    let Some(after) = after else { return Ok(Some(range)) };
    let epk = Reader::new(after).bytes().map(Epk::from_bytes).ok_or_else(invalid_token)?;
    if epk >= part.max {
        return Ok(None);
    }
    if epk < part.min {
        return Ok(Some(range));
    }
    Ok(Some(KeyRange { start: Bound::Excluded(after.to_vec()), end: range.end }))
}

fn token(key: &[u8]) -> String {
    format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(key))
}

fn parse_token(text: &str) -> Result<Vec<u8>> {
    let encoded = text.strip_prefix(TOKEN_PREFIX).ok_or_else(invalid_token)?;
    URL_SAFE_NO_PAD.decode(encoded).map_err(|_| invalid_token())
}

fn invalid_token() -> Error {
    Error::bad_request("Invalid Continuation Token: pass it on as the page before returned it")
}

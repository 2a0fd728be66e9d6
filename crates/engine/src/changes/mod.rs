//! The change feed as clients read it: what became of items, in the order of commits.
//!
//! Every partition has a line of LSNs, and its feed (`feed/`) names the items that each commit
//! changed. A reader says how far it got, a page follows from there, and the page's ETag says how
//! far it is now (`position.rs`). The server keeps nothing between two pages, and as the partitions
//! that a partition is split into keep its LSNs, a reader goes on with what it has.
//!
//! The *latest version* mode shows an item where it changed last and nowhere else: of the records
//! that name it only the one under the LSN of its stored version counts (`page.rs`). Deleted and
//! expired items are not shown. Changes that were committed together are on one page together.
//!
//! The mode of *all versions and deletes* shows every record with the item before and after, which
//! the records of containers with a `changeFeedPolicy` have for as long as that says. Who comes
//! later, or wants to begin before, is refused: something would be missing.
//!
//! A reader may send a query along, which says what of all that is told (`sieve.rs`).
//!
//! A page that finds nothing goes on looking, for clients take an empty answer for the end. Only
//! one that has looked at very much returns empty-handed before the end, and says that it is not
//! through.
//!
//! A reader who wants to wait at the end of the feed gets something to wait with (`live/bell.rs`).

#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod page;
mod position;
mod sieve;

use std::sync::Arc;

use partita_model::{EpkRange, Error, Lsn, Result};
use partita_storage::Snapshot;

pub(crate) use self::page::{commits_after, lsn_of};

use self::page::{FeedPart, Page};
use self::position::{Asked, Piece, Position};
use crate::catalog::{Container, Partition};
use crate::context::Work;
use crate::core::{Core, Share};
use crate::feed::FeedMark;
use crate::live::NextChange;
use crate::op::{ChangesFrom, ChangesMode, ChangesRequest, ContainerPath, Outcome, Scope};
use crate::pricing;
use crate::query::{Area, Queries, area};

/// The change feed of a database's containers.
pub(crate) struct Changes {
    core: Arc<Core>,
    queries: Arc<Queries>,
}

impl Changes {
    pub(crate) fn new(core: Arc<Core>, queries: Arc<Queries>) -> Changes {
        Changes { core, queries }
    }

    pub(crate) fn read_changes(
        &self,
        work: &mut Work<'_>,
        path: &ContainerPath,
        request: &ChangesRequest,
    ) -> Result<Outcome> {
        let container = self.core.item_container(work, path)?.container;
        let area = area(&container, &request.scope)?;
        self.check_mode(&container, request)?;
        let millis_max = self.queries.query_settings(work, None).whole_millis_max;
        let supervision =
            self.queries.supervision(work, self.core.clock.monotonic_nanos(), millis_max);
        let memory = self.core.settings.memory.share();
        let query = request.query.as_ref();
        let sieve = |query| self.sieve(&container, query, &supervision, &memory);
        let sieve = query.map(sieve).transpose()?;
        let after = match &request.from {
            ChangesFrom::Etag(etag) => Some(Position::parse(etag)?),
            ChangesFrom::Beginning | ChangesFrom::Now => None,
        };
        let parts = parts(&container, &request.scope, &area)?;
        for (partition, _) in &parts {
            self.core.admit_once(work, container.live_of(partition))?;
        }
        work.usage.reads = 1;
        let mut page = Page::new(&self.core, request, (sieve.as_ref(), &supervision), &memory);
        let mut asked = Vec::with_capacity(parts.len());
        let mut shares = Vec::with_capacity(parts.len());
        let mut next = request.listen.then(NextChange::default);
        let mut ended = Ok(());
        for (partition, epks) in parts {
            let live = container.live_of(partition);
            if let Some(next) = next.as_mut() {
                next.listen(&live.bell);
            }
            let view = self.core.open_partition(work, partition)?;
            self.core.check_session(work, partition, view.lsn())?;
            let pieces = match (&request.from, &after) {
                (ChangesFrom::Now, _) => vec![Piece { epks: epks.clone(), after: view.lsn() }],
                (_, Some(after)) => {
                    let pieces = after.pieces(partition, &epks, &container.former_ranges)?;
                    known(pieces, &*view, request.mode)?
                }
                (_, None) => vec![Piece { epks: epks.clone(), after: Lsn(0) }],
            };
            let part = FeedPart::new(&container, &pieces, &area.only);
            let before = page.changes.len();
            let (end, walked) = (view.lsn(), page.walk(&part, &*view));
            shares
                .push(Share { partition: live, weight: (1 + page.changes.len() - before) as f64 });
            match walked {
                Ok(reached) => asked.push(Asked { partition, epks, end, reached }),
                Err(error) => {
                    ended = Err(error);
                    break;
                }
            }
        }
        // Also a read that was ended in its midst pays for what it did.
        work.usage.entries_scanned = page.changes.len() as u64;
        work.usage.read_bytes = page.loaded_bytes;
        work.usage.long_steps = supervision.long_steps();
        let charge = pricing::charge(&work.usage, self.core.consistency(work.context));
        self.core.charge_shares(work, charge, &shares, None);
        ended?;
        let etag = Position::after_page(after.as_ref(), &asked, &container.former_ranges);
        let (changes, etag) = (page.changes, etag.to_string());
        work.kept.push(page.memory);
        Ok(Outcome::Changes { changes, etag, more: page.more, next })
    }

    /// All versions are told where they are kept, and from a moment on since they are.
    fn check_mode(&self, container: &Container, request: &ChangesRequest) -> Result<()> {
        if request.mode == ChangesMode::LatestVersion {
            return Ok(());
        }
        if self.core.retention_minutes(container) == 0 {
            return Err(Error::bad_request(
                "The change feed mode All Versions and Deletes must be enabled for the container: \
                 its changeFeedPolicy has no retentionDuration.",
            ));
        }
        match request.from {
            ChangesFrom::Beginning => Err(beyond_retention()),
            ChangesFrom::Now | ChangesFrom::Etag(_) => Ok(()),
        }
    }
}

/// The partitions that a reader asks, and which of their EPKs.
fn parts<'c>(
    container: &'c Container,
    scope: &Scope,
    area: &Area,
) -> Result<Vec<(&'c Partition, EpkRange)>> {
    let named = |partition: &Partition| match scope {
        // Also a range with none of the EPKs is asked: it knows how far it is.
        Scope::Range { id, .. } => partition.range_id.to_string() == *id,
        Scope::All | Scope::PartitionKey(_) | Scope::Epks(_) => {
            partition.epks.overlaps(&area.range)
        }
    };
    let parts: Vec<_> = container
        .partitions
        .iter()
        .filter(|partition| named(partition))
        .map(|partition| {
            let nothing = || EpkRange { min: area.range.min.clone(), max: area.range.min.clone() };
            (partition, partition.epks.intersect(&area.range).unwrap_or_else(nothing))
        })
        .collect();
    if parts.is_empty() {
        Err(Error::bad_request("The range of EPKs to read the change feed of is empty."))
    } else {
        Ok(parts)
    }
}

fn beyond_retention() -> Error {
    Error::bad_request("You must read the change feed from within the retention period.")
}

/// Where a reader goes on. One that is further than the partition, with an ETag of another
/// container or from before data was restored, has seen everything: were it to stay ahead, it would
/// miss what is written until then. Who wants all versions cannot begin where some are missing.
fn known(mut pieces: Vec<Piece>, view: &dyn Snapshot, mode: ChangesMode) -> Result<Vec<Piece>> {
    if mode == ChangesMode::AllVersions {
        let mark = FeedMark::read(view)?;
        if pieces.iter().any(|piece| piece.after < mark.horizon(&piece.epks)) {
            return Err(beyond_retention());
        }
    }
    for piece in &mut pieces {
        piece.after = piece.after.min(view.lsn());
    }
    Ok(pieces)
}

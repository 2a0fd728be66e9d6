//! Offers: the throughput of databases and containers.

use std::sync::Arc;

use partita_model::{Error, Lsn, OfferRid, Result, Throughput};
use partita_query::Filter;

use super::{check_unchanged, page};
use crate::catalog::{Changes, Offer};
use crate::context::Work;
use crate::database::Database;
use crate::op::{Change, Condition, Migrate, Outcome, PageRequest};

const OFFER_RID_BITS: u32 = 24;

impl Database {
    /// A new offer for a resource.
    pub(super) fn new_offer(
        &self,
        owner_link: String,
        owner_rid: String,
        throughput: Throughput,
    ) -> Offer {
        let (etag, ts) = self.fresh_stamp();
        let catalog = self.catalog.current();
        let make = |n: u32| OfferRid(n >> (u32::BITS - OFFER_RID_BITS));
        Offer {
            rid: self.fresh_rid(make, |rid| catalog.offer(*rid).is_some()),
            owner_link,
            owner_rid,
            highest_ever: throughput.provisioned(),
            throughput,
            replaced_at: ts,
            etag,
            ts,
            lsn: Lsn(0),
        }
    }

    pub(crate) fn read_offer(&self, work: &mut Work<'_>, rid: &str) -> Result<Outcome> {
        work.usage.metadata_reads = 1;
        Ok(Outcome::Offer { offer: self.offer(rid)?, change: Change::None })
    }

    pub(crate) async fn replace_offer(
        &self,
        work: &mut Work<'_>,
        rid: &str,
        throughput: Throughput,
        migrate: Migrate,
        condition: Option<Condition>,
    ) -> Result<Outcome> {
        work.usage.metadata_writes = 1;
        self.change(|| {
            let old = self.offer(rid)?;
            check_unchanged(condition.as_ref(), &old.etag)?;
            let throughput = changed_throughput(&old, &throughput, migrate)?;
            let (etag, ts) = self.fresh_stamp();
            let highest_ever = old.highest_ever.max(throughput.provisioned());
            let offer =
                Offer { throughput, highest_ever, replaced_at: ts, etag, ts, ..(*old).clone() };
            let mut changes = Changes::default();
            changes.replace_offer(&offer);
            Ok((changes, ()))
        })
        .await?;
        Ok(Outcome::Offer { offer: self.offer(rid)?, change: Change::Replaced })
    }

    pub(crate) fn list_offers(
        &self,
        work: &mut Work<'_>,
        filter: Option<&Filter>,
        request: &PageRequest,
    ) -> Result<Outcome> {
        work.usage.metadata_reads = 1;
        let catalog = self.catalog.current();
        let all = catalog.offers().map(Arc::clone);
        let (offers, continuation) =
            page(all, |o| o.rid, OfferRid::parse, |o| o.to_value(), (filter, request))?;
        Ok(Outcome::Offers { offers, continuation })
    }

    fn offer(&self, rid: &str) -> Result<Arc<Offer>> {
        let parsed = OfferRid::parse(rid).ok_or_else(|| {
            Error::bad_request(format!("'{rid}' is not the resource id of an offer"))
        })?;
        let catalog = self.catalog.current();
        let offer = catalog.offer(parsed).map(Arc::clone);
        offer.ok_or_else(|| {
            Error::not_found(format!("Resource Not Found: there is no offer '{rid}'"))
        })
    }
}

/// The throughput after a replacement. Manual and autoscale do not turn into each other unless the
/// client says so; then the service chooses the new value from the old one.
fn changed_throughput(old: &Offer, wanted: &Throughput, migrate: Migrate) -> Result<Throughput> {
    match (&old.throughput, migrate) {
        (Throughput::Manual(ru), Migrate::ToAutoscale) => {
            let max = ru.div_ceil(1_000).max(1) * 1_000;
            Ok(Throughput::Autoscale { max, increment_percent: None })
        }
        (Throughput::Autoscale { max, .. }, Migrate::ToManual) => Ok(Throughput::Manual(*max)),
        (Throughput::Manual(_), Migrate::No | Migrate::ToManual)
        | (Throughput::Autoscale { .. }, Migrate::No | Migrate::ToAutoscale) => {
            let same_kind =
                std::mem::discriminant(&old.throughput) == std::mem::discriminant(wanted);
            if !same_kind {
                return Err(Error::bad_request(
                    "An offer cannot change between manual and autoscale throughput in a plain \
                     replace: set x-ms-cosmos-migrate-offer-to-autopilot or \
                     x-ms-cosmos-migrate-offer-to-manual-throughput",
                ));
            }
            check_minimum(old, wanted)?;
            Ok(wanted.clone())
        }
    }
}

/// How far one may go down after having been high: a hundredth for manual, a tenth for autoscale.
fn check_minimum(old: &Offer, wanted: &Throughput) -> Result<()> {
    let minimum = match wanted {
        Throughput::Manual(_) => (old.highest_ever / 100).div_ceil(100) * 100,
        Throughput::Autoscale { .. } => (old.highest_ever / 10).div_ceil(1_000) * 1_000,
    };
    if wanted.provisioned() < minimum {
        return Err(Error::bad_request(format!(
            "Requested throughput {} is less than required minimum throughput {minimum}: this \
             resource had {} RU/s provisioned",
            wanted.provisioned(),
            old.highest_ever
        )));
    }
    Ok(())
}

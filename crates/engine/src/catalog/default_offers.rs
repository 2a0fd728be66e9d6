//! Offers that nobody asked for.
//!
//! A container that was made without throughput, in a database without any, has an offer at the
//! service: clients read it, show it, and replace it. Here it is made up of the container, as often
//! as the catalog's copy is made, and stored by the first who replaces it: so containers of older
//! stores have theirs, too, and a restart finds the same.
//!
//! Its resource id follows from the container's. Ids of offers are short, so two containers may be
//! meant to have the same; the later one takes the next then. Those that are stored from their
//! beginning have other ids ([`ASKED_FOR_BITS`]).

use std::sync::Arc;

use partita_model::{ContainerRid, Etag, Lsn, OfferRid, Throughput, limits};

use super::{Catalog, Container, Observed, Offer};

/// What becomes of containers that are made without throughput, in a database without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefaultThroughput {
    /// They have an offer of 400 RU/s, as at the service, which limits them.
    Enforced,
    /// They have it, but it limits nothing until somebody sets it.
    #[default]
    Shown,
    /// They are serverless: they have no offer.
    None,
}

/// Bits of the number of an offer that somebody asked for. One bit more is for those that nobody
/// did, so that no new offer takes the id that a container is about to show.
pub(crate) const ASKED_FOR_BITS: u32 = 23;

impl Catalog {
    /// Gives a container the offer that nobody asked for, unless it has one or shares its
    /// database's.
    pub(super) fn show_default_offer(&mut self, container: &Container) {
        if self.default_throughput == DefaultThroughput::None || self.offer_for(container).is_some()
        {
            return;
        }
        let is_free = |rid: &OfferRid| {
            !rid.to_string().contains(['+', '-']) && !self.offers.contains_key(rid)
        };
        let Some(rid) = (0..).map(|nth| offer_rid(container.rid, nth)).find(is_free) else {
            return;
        };
        let mut etag = [0; 16];
        etag[..8].copy_from_slice(&mixed(container.rid, u64::MAX).to_be_bytes());
        etag[8..].copy_from_slice(&mixed(container.rid, u64::MAX - 1).to_be_bytes());
        self.insert_offer(Arc::new(Offer {
            rid,
            owner_link: container.self_link(),
            owner_rid: container.rid.to_string(),
            throughput: Throughput::Manual(limits::THROUGHPUT_MANUAL_RU_MIN),
            buckets: Vec::new(),
            highest_ever: limits::THROUGHPUT_MANUAL_RU_MIN,
            storage_kb_ever: 0,
            observed: Observed::default(),
            replaced_at: container.ts,
            etag: Etag(etag),
            ts: container.ts,
            asked_for: false,
            lsn: Lsn(0),
        }));
    }

    /// The container is gone: so is the offer that nobody asked for.
    pub(super) fn hide_default_offer(&mut self, container: ContainerRid) {
        let owner = container.to_string();
        let made_up = self.offer_of(&owner).filter(|offer| !offer.asked_for);
        if let Some(rid) = made_up.map(|offer| offer.rid) {
            self.offers.remove(&rid);
            self.offer_of.remove(&owner);
        }
    }
}

/// The nth choice for the id of a container's offer.
fn offer_rid(container: ContainerRid, nth: u64) -> OfferRid {
    let number = mixed(container, nth) >> (u64::BITS - ASKED_FOR_BITS);
    OfferRid(1 << ASKED_FOR_BITS | number as u32)
}

/// A number that looks random and is the same after every restart (the mixing of SplitMix64).
fn mixed(container: ContainerRid, nth: u64) -> u64 {
    let number = u64::from(container.database.0) << 32 | u64::from(container.container);
    let mut z = number.wrapping_add(nth.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

//! Splits and merges: by themselves, under load, across restarts and failures.

mod basics;
mod concurrency;
mod continuing;
mod failing;
mod growing;
mod outgrowing;
mod property;
mod triggers;

use std::collections::BTreeMap;
use std::sync::Arc;

use partita_engine::{
    Container, EtagPattern, Maintenance, MaintenanceBudget, Migrate, Offer, OfferChange, Op,
    Outcome, PageRequest, Partition, Scope, SplitAt,
};
use partita_model::{Epk, Throughput, Value};

use crate::harness::*;

/// Small steps, so that a move has many.
pub(crate) const STEP: MaintenanceBudget = MaintenanceBudget { items_max: 3, bytes_max: 1 << 20 };

impl Bench {
    pub(crate) fn split(&self, range_id: u32, at: SplitAt) -> partita_engine::Reply {
        self.run(Op::SplitPartition { container: path(), range_id: range_id.to_string(), at })
    }

    pub(crate) fn offer(&self) -> Offer {
        let op = Op::ListOffers { filter: None, page: PageRequest::default() };
        match self.run(op).result {
            Ok(Outcome::Offers { offers, .. }) => (*offers[0]).clone(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn give_throughput(&self, throughput: u32) -> partita_engine::Reply {
        let throughput = Throughput::Manual(throughput);
        let change = OfferChange { throughput, migrate: Migrate::No, buckets: None };
        let rid = self.offer().rid.to_string();
        self.run(Op::ReplaceOffer { rid, change, condition: None })
    }

    pub(crate) fn merge(&self, ids: [u32; 2]) -> partita_engine::Reply {
        let range_ids = ids.iter().map(u32::to_string).collect();
        self.run(Op::MergePartitions { container: path(), range_ids })
    }

    /// Maintains until there is nothing to do.
    pub(crate) fn settle(&self) {
        for _ in 0..100_000 {
            if self.database.maintain(&STEP).unwrap() == Maintenance::Idle {
                return;
            }
        }
        panic!("maintenance does not come to an end");
    }

    /// The partitions, which cover everything once and in order.
    pub(crate) fn container(&self) -> Arc<Container> {
        let list = Op::ListPartitions { container: path(), known: None, incremental: false };
        self.run(list).container.unwrap()
    }

    pub(crate) fn partitions(&self) -> Vec<Partition> {
        let partitions = self.container().partitions.clone();
        assert_eq!(partitions.first().unwrap().epks.min, Epk::min());
        assert_eq!(partitions.last().unwrap().epks.max, Epk::max());
        for pair in partitions.windows(2) {
            assert_eq!(pair[0].epks.max, pair[1].epks.min);
            assert!(pair[0].epks.min < pair[0].epks.max);
        }
        partitions
    }

    pub(crate) fn range_ids(&self) -> Vec<u32> {
        self.partitions().iter().map(|partition| partition.range_id).collect()
    }

    /// The ETag of the ranges, and the ids of those that came after the ones of another ETag.
    pub(crate) fn news(&self, known: Option<&str>) -> (String, Vec<u32>) {
        let known = known.map(|etag| EtagPattern::Exact(etag.to_owned()));
        let reply = self.run(Op::ListPartitions { container: path(), known, incremental: true });
        let Ok(Outcome::Partitions { etag, unchanged, since }) = reply.result else { panic!() };
        let container = reply.container.unwrap();
        let is_news =
            |partition: &&Partition| since.is_none_or(|since| since.is_news(&container, partition));
        let news = container.partitions.iter().filter(is_news).map(|partition| partition.range_id);
        let news: Vec<u32> = news.collect();
        assert_eq!(unchanged, news.is_empty());
        (etag, news)
    }

    /// All items by id.
    pub(crate) fn everything(&self) -> BTreeMap<String, Value> {
        self.list(&Scope::All, 100).into_iter().map(|item| (text(&item, "id"), item)).collect()
    }
}

pub(crate) fn planned(reply: &partita_engine::Reply) -> (Vec<u32>, Vec<u32>) {
    match &reply.result {
        Ok(Outcome::MovePlanned { parents, children }) => (parents.clone(), children.clone()),
        other => panic!("no move: {other:?}"),
    }
}

//! Resources as JSON values: what a filter over a list of them sees, and what is served.

use partita_model::{Etag, Number, Object, Throughput, ThroughputBucket, Value};

use super::{Container, Database, Offer};

/// Must a new container name its partition key? Clients for whom it need not know no system keys:
/// they are shown none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRequired {
    Yes,
    No,
}

impl Database {
    /// The database as JSON, system properties included.
    pub fn to_value(&self) -> Value {
        let object = Object::new().with("id", Value::from(self.name.as_str()));
        let object = with_system(object, &self.rid.to_string(), self.self_link(), self.etag);
        let object = object
            .with("_colls", Value::from("colls/"))
            .with("_users", Value::from("users/"))
            .with("_ts", number(self.ts));
        Value::from(object)
    }
}

impl Container {
    /// The container as JSON, system properties included.
    pub fn to_value(&self) -> Value {
        let object = match self.definition.to_value() {
            Value::Object(object) => object,
            _ => Object::new(),
        };
        let object = with_system(object, &self.rid.to_string(), self.self_link(), self.etag);
        let links = ["docs", "sprocs", "triggers", "udfs", "conflicts"];
        let object = links.into_iter().fold(object, |object, link| {
            object.with(format!("_{link}"), Value::from(format!("{link}/")))
        });
        Value::from(object.with("_ts", number(self.ts)))
    }

    /// The container as its reader knows containers: clients from before there were system keys
    /// refuse to read items without a key where a key is shown.
    pub fn shown_to(&self, key_required: KeyRequired) -> Value {
        let mut value = self.to_value();
        let hides = key_required == KeyRequired::No && self.definition.partition_key.is_keyless();
        if let (true, Value::Object(members)) = (hides, &mut value) {
            members.remove("partitionKey");
        }
        value
    }
}

impl Offer {
    /// The offer as JSON, system properties included.
    pub fn to_value(&self) -> Value {
        let rid = self.rid.to_string();
        let object = Object::new()
            .with("resource", Value::from(self.owner_link.as_str()))
            .with("offerResourceId", Value::from(self.owner_rid.as_str()))
            .with("offerVersion", Value::from("V2"))
            .with("offerType", Value::from("Invalid"))
            .with("content", self.content())
            .with("id", Value::from(rid.as_str()));
        let object = with_system(object, &rid, format!("offers/{rid}/"), self.etag);
        Value::from(object.with("_ts", number(self.ts)))
    }

    fn content(&self) -> Value {
        let minimum = Object::new()
            .with("maxThroughputEverProvisioned", number(u64::from(self.highest_ever)))
            .with("maxConsumedStorageEverInKB", number(self.highest_storage_kb()));
        let content = Object::new()
            .with("offerThroughput", number(u64::from(self.current_ru())))
            .with("offerIsRUPerMinuteThroughputEnabled", Value::Bool(false))
            .with("offerMinimumThroughputParameters", Value::from(minimum))
            .with("offerLastReplaceTimestamp", number(self.replaced_at));
        let content = if self.observed.replace_pending {
            content.with("isOfferReplacePending", Value::Bool(true))
        } else {
            content
        };
        let content = if self.buckets.is_empty() {
            content
        } else {
            let buckets = self.buckets.iter().map(ThroughputBucket::to_value).collect();
            content.with("throughputBuckets", Value::Array(buckets))
        };
        let Throughput::Autoscale { max, increment_percent } = &self.throughput else {
            return Value::from(content);
        };
        let settings = Object::new()
            .with("tier", number(0))
            .with("maximumTierThroughput", number(u64::from(*max)))
            .with("autoUpgrade", Value::Bool(false))
            .with("maxThroughput", number(u64::from(*max)));
        let settings = match increment_percent {
            None => settings,
            Some(percent) => {
                let grows = Object::new().with("incrementPercent", number(u64::from(*percent)));
                let policy = Object::new().with("throughputPolicy", Value::from(grows));
                settings.with("autoUpgradePolicy", Value::from(policy))
            }
        };
        Value::from(content.with("offerAutopilotSettings", Value::from(settings)))
    }
}

pub(super) fn with_system(object: Object, rid: &str, self_link: String, etag: Etag) -> Object {
    object
        .with("_rid", Value::from(rid))
        .with("_self", Value::from(self_link))
        .with("_etag", Value::from(etag.quoted()))
}

pub(super) fn number(n: u64) -> Value {
    Value::Number(Number::Int(i64::try_from(n).unwrap_or(i64::MAX)))
}

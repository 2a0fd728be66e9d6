//! Catalog records as JSON texts, there and back.
//!
//! JSON because these records are few and small, because people who look into a store should be
//! able to read them, and because a container's definition is JSON anyway.

use std::sync::Arc;

use partita_model::{
    ComputedProperty, ContainerDefinition, ContainerRid, DatabaseRid, Epk, EpkRange, Epoch, Error,
    ErrorKind, Etag, IndexingPolicy, Object, OfferRid, Result, Throughput, ThroughputBucket, Value,
};
use partita_storage::{PartitionId, Record};

use super::{Container, Database, FormerRanges, Move, Observed, Offer, Partition, Policies};
use crate::index::{IndexedComputed, Terms};

pub(crate) fn encode_database(database: &Database) -> Vec<u8> {
    object()
        .with("rid", i64::from(database.rid.0))
        .with("name", database.name.as_str())
        .with("etag", database.etag.to_string())
        .with("ts", integer(database.ts))
        .into_bytes()
}

pub(crate) fn database(record: &Record) -> Result<Database> {
    let fields = Fields::of("database", record)?;
    Ok(Database {
        rid: DatabaseRid(fields.number("rid")?),
        name: fields.text("name")?.to_owned(),
        etag: fields.etag()?,
        ts: fields.number("ts")?,
        lsn: record.lsn,
    })
}

pub(crate) fn encode_container(container: &Container) -> Vec<u8> {
    let partitions = container.partitions.iter().map(encode_partition).collect::<Vec<Value>>();
    let former = container.policies.former.iter().map(|(version, policy)| {
        Value::from(
            Object::new().with("version", i64::from(*version)).with("policy", policy.to_value()),
        )
    });
    let moves = container.moves.iter().map(encode_move).collect::<Vec<Value>>();
    object()
        .with("rid", i64::from(container.rid.container))
        .with("definition", container.definition.to_value())
        .with("etag", container.etag.to_string())
        .with("ts", integer(container.ts))
        .with("epoch", integer(container.epoch.0))
        .with("partitions", partitions)
        .with("moves", moves)
        .with("formerRanges", encode_former_ranges(&container.former_ranges))
        .with("policyVersion", i64::from(container.policies.current))
        .with("formerPolicies", former.collect::<Vec<Value>>())
        .with("indexedComputed", encode_computed(&container.policies))
        .with("terms", terms_name(container.terms))
        .into_bytes()
}

pub(crate) fn container(database: &Arc<Database>, record: &Record) -> Result<Container> {
    let fields = Fields::of("container", record)?;
    let partitions = fields.list("partitions")?.iter().map(partition).collect::<Result<_>>()?;
    let former = fields.list("formerPolicies")?.iter().map(former_policy).collect::<Result<_>>()?;
    Ok(Container {
        database: Arc::clone(database),
        rid: ContainerRid { database: database.rid, container: fields.number("rid")? },
        definition: ContainerDefinition::from_stored(fields.value("definition")?)?,
        etag: fields.etag()?,
        ts: fields.number("ts")?,
        partitions,
        epoch: Epoch(fields.number("epoch")?),
        moves: moves(&fields)?,
        former_ranges: former_ranges(&fields)?,
        policies: Policies {
            current: fields.number("policyVersion")?,
            former,
            computed: indexed_computed(&fields)?,
        },
        terms: terms(&fields)?,
        lsn: record.lsn,
        live: Vec::new(),
    })
}

fn terms_name(terms: Terms) -> &'static str {
    match terms {
        Terms::Long => "long",
        Terms::Short => "short",
    }
}

/// Containers of older stores do not say.
fn terms(fields: &Fields) -> Result<Terms> {
    match fields.value.get("terms").map(Value::as_str) {
        None | Some(Some("long")) => Ok(Terms::Long),
        Some(Some("short")) => Ok(Terms::Short),
        Some(_) => Err(damaged("container", "terms")),
    }
}

pub(crate) fn encode_offer(offer: &Offer) -> Vec<u8> {
    let throughput = match &offer.throughput {
        Throughput::Manual(ru) => object().with("manual", i64::from(*ru)),
        Throughput::Autoscale { max, increment_percent } => {
            let autoscale = object().with("autoscaleMax", i64::from(*max));
            match increment_percent {
                Some(percent) => autoscale.with("incrementPercent", i64::from(*percent)),
                None => autoscale,
            }
        }
    };
    let buckets: Vec<Value> = offer.buckets.iter().map(ThroughputBucket::to_value).collect();
    object()
        .with("rid", i64::from(offer.rid.0))
        .with("ownerLink", offer.owner_link.as_str())
        .with("ownerRid", offer.owner_rid.as_str())
        .with("throughput", Value::from(throughput.0))
        .with("buckets", buckets)
        .with("highestEver", i64::from(offer.highest_ever))
        .with("storageKbEver", integer(offer.storage_kb_ever))
        .with("replacedAt", integer(offer.replaced_at))
        .with("etag", offer.etag.to_string())
        .with("ts", integer(offer.ts))
        .into_bytes()
}

pub(crate) fn offer(record: &Record) -> Result<Offer> {
    let fields = Fields::of("offer", record)?;
    let throughput = fields.value("throughput")?;
    let number = |name: &str| throughput.get(name).and_then(Value::as_i64);
    let narrow = |n: i64| u32::try_from(n).map_err(|_| damaged("offer", "throughput"));
    let throughput = match (number("manual"), number("autoscaleMax")) {
        (Some(ru), _) => Throughput::Manual(narrow(ru)?),
        (None, Some(max)) => Throughput::Autoscale {
            max: narrow(max)?,
            increment_percent: number("incrementPercent").map(narrow).transpose()?,
        },
        (None, None) => return Err(damaged("offer", "throughput")),
    };
    Ok(Offer {
        rid: OfferRid(fields.number("rid")?),
        owner_link: fields.text("ownerLink")?.to_owned(),
        owner_rid: fields.text("ownerRid")?.to_owned(),
        throughput,
        // Offers of older stores have neither of these.
        buckets: match fields.value.get("buckets") {
            Some(buckets) => ThroughputBucket::parse_all(buckets)?,
            None => Vec::new(),
        },
        storage_kb_ever: match fields.value.get("storageKbEver") {
            Some(_) => fields.number("storageKbEver")?,
            None => 0,
        },
        observed: Observed::default(),
        highest_ever: fields.number("highestEver")?,
        replaced_at: fields.number("replacedAt")?,
        etag: fields.etag()?,
        ts: fields.number("ts")?,
        asked_for: true,
        lsn: record.lsn,
    })
}

fn encode_partition(partition: &Partition) -> Value {
    let parents = partition.parents.iter().map(|id| Value::from(i64::from(*id)));
    let fields = object()
        .with("rangeId", i64::from(partition.range_id))
        .with("id", integer(partition.id.0))
        .with("min", partition.epks.min.to_string())
        .with("max", partition.epks.max.to_string())
        .with("parents", parents.collect::<Vec<Value>>())
        .with("since", integer(partition.since.0));
    Value::from(fields.0)
}

fn partition(value: &Value) -> Result<Partition> {
    let fields = Fields { what: "partition", value: value.clone() };
    let epks = fields.epks()?;
    let parents = fields.range_ids("parents")?;
    let id = PartitionId(fields.number("id")?);
    // Records from before this was kept say nothing of it: to any client their ranges are old.
    let since = match fields.value.get("since") {
        Some(_) => Epoch(fields.number("since")?),
        None => Epoch::default(),
    };
    Ok(Partition { since, ..Partition::new(fields.number("rangeId")?, id, epks, parents) })
}

fn encode_move(under_way: &Move) -> Value {
    let sources = under_way.sources.iter().map(|id| Value::from(i64::from(*id)));
    let targets = under_way.targets.iter().map(encode_partition);
    let fields = object()
        .with("sources", sources.collect::<Vec<Value>>())
        .with("targets", targets.collect::<Vec<Value>>());
    Value::from(fields.0)
}

/// Records from before there were moves say nothing of them.
fn moves(container: &Fields) -> Result<Vec<Move>> {
    if container.value.get("moves").is_none() {
        return Ok(Vec::new());
    }
    let under_way = |value: &Value| {
        let fields = Fields { what: "move", value: value.clone() };
        let targets = fields.list("targets")?.iter().map(partition).collect::<Result<_>>()?;
        Ok(Move { sources: fields.range_ids("sources")?, targets })
    };
    container.list("moves")?.iter().map(under_way).collect()
}

fn encode_former_ranges(former: &FormerRanges) -> Vec<Value> {
    let range = |(id, epks): &(u32, EpkRange)| {
        let fields = object()
            .with("rangeId", i64::from(*id))
            .with("min", epks.min.to_string())
            .with("max", epks.max.to_string());
        Value::from(fields.0)
    };
    former.iter().map(range).collect()
}

/// Records from before this was kept say nothing of it.
fn former_ranges(container: &Fields) -> Result<FormerRanges> {
    let mut former = FormerRanges::default();
    if container.value.get("formerRanges").is_none() {
        return Ok(former);
    }
    let range = |value: &Value| {
        let fields = Fields { what: "former range", value: value.clone() };
        Ok((fields.number("rangeId")?, fields.epks()?))
    };
    let ranges = container.list("formerRanges")?.iter().map(range);
    former.extend(ranges.collect::<Result<Vec<_>>>()?);
    Ok(former)
}

fn former_policy(value: &Value) -> Result<(u32, IndexingPolicy)> {
    let fields = Fields { what: "former policy", value: value.clone() };
    Ok((fields.number("version")?, IndexingPolicy::parse(fields.value("policy")?)?))
}

/// The computed properties that each version of the policy indexes.
fn encode_computed(policies: &Policies) -> Vec<Value> {
    let property = |property: &ComputedProperty| {
        let named = Object::new().with("name", property.name.as_str());
        Value::from(named.with("query", property.query.as_str()))
    };
    let version = |(version, computed): &(u32, IndexedComputed)| {
        let properties: Vec<Value> = computed.properties().iter().map(property).collect();
        let object = Object::new().with("version", i64::from(*version));
        Value::from(object.with("properties", properties))
    };
    let some = policies.computed.iter().filter(|(_, computed)| !computed.properties().is_empty());
    some.map(version).collect()
}

/// Records of containers that were written before computed properties were indexed do not have it.
fn indexed_computed(container: &Fields) -> Result<Vec<(u32, IndexedComputed)>> {
    if container.value.get("indexedComputed").is_none() {
        return Ok(Vec::new());
    }
    let property = |value: &Value| {
        let fields = Fields { what: "computed property", value: value.clone() };
        let (name, query) = (fields.text("name")?.to_owned(), fields.text("query")?.to_owned());
        Ok(ComputedProperty { name, query })
    };
    let version = |value: &Value| {
        let fields = Fields { what: "version of a policy", value: value.clone() };
        let properties = fields.list("properties")?.iter().map(property).collect::<Result<_>>()?;
        Ok((fields.number("version")?, IndexedComputed::new(properties)?))
    };
    container.list("indexedComputed")?.iter().map(version).collect()
}

/// Builds a JSON object field by field.
pub(super) struct Builder(Object);

pub(super) fn object() -> Builder {
    Builder(Object::new())
}

impl Builder {
    pub(super) fn with(self, name: &str, value: impl Into<Value>) -> Builder {
        Builder(self.0.with(name, value.into()))
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        Value::from(self.0).to_json().into_bytes()
    }
}

/// JSON integers are signed; times, counters and ids are far below 2^63.
pub(super) fn integer(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Reads a record's fields; what is missing or of another type is damage.
pub(super) struct Fields {
    what: &'static str,
    value: Value,
}

impl Fields {
    pub(super) fn of(what: &'static str, record: &Record) -> Result<Fields> {
        let value = Value::parse(&record.value).map_err(|e| {
            Error::new(ErrorKind::Corrupt, format!("the catalog's record of a {what}: {e}"))
        })?;
        Ok(Fields { what, value })
    }

    pub(super) fn value(&self, name: &str) -> Result<&Value> {
        self.value.get(name).ok_or_else(|| damaged(self.what, name))
    }

    pub(super) fn text(&self, name: &str) -> Result<&str> {
        self.value(name)?.as_str().ok_or_else(|| damaged(self.what, name))
    }

    pub(super) fn number<N: TryFrom<i64>>(&self, name: &str) -> Result<N> {
        let number = self.value(name)?.as_i64().and_then(|n| N::try_from(n).ok());
        number.ok_or_else(|| damaged(self.what, name))
    }

    fn list(&self, name: &str) -> Result<&[Value]> {
        match self.value(name)? {
            Value::Array(items) => Ok(items),
            _ => Err(damaged(self.what, name)),
        }
    }

    fn epks(&self) -> Result<EpkRange> {
        let epk = |name| Epk::parse_hex(self.text(name)?).ok_or_else(|| damaged(self.what, name));
        Ok(EpkRange { min: epk("min")?, max: epk("max")? })
    }

    fn range_ids(&self, name: &str) -> Result<Vec<u32>> {
        let id = |value: &Value| value.as_i64().and_then(|n| u32::try_from(n).ok());
        let ids = self.list(name)?.iter().map(id).collect::<Option<_>>();
        ids.ok_or_else(|| damaged(self.what, name))
    }

    pub(super) fn etag(&self) -> Result<Etag> {
        Etag::parse(self.text("etag")?).ok_or_else(|| damaged(self.what, "etag"))
    }
}

pub(super) fn damaged(what: &str, field: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("the catalog's record of a {what} has no valid '{field}'"),
    )
}

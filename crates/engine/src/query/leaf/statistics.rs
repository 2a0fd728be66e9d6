//! What `choose` may know of a partition before it decides.
//!
//! Counters say how many items there are, the policy what is indexed; a lookup says which items a
//! filter leaves, and gives up when they are too many; a look at a few items says how many pass a
//! filter that no index answers. What was found stays in the plan: nothing is looked up twice.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use partita_model::{Document, IndexStep, KeyPart, PartitionKey, RawKind, Result, Value};
use partita_query::access::{Access, Condition, Interval, Kinds, Test};
use partita_query::{Seen, sort_key};
use partita_storage::{Direction, Space, counter};

use super::Leaf;
use super::choose::cost;
use super::columns::{ColumnScan, LOAD, all_rids};
use super::items::{self, Loaded, fetch};
use super::key_rows::is_doubtful;
use super::lookup::{Effort, Found, look_up};
use super::plan::{ItemSet, Trace};
use super::reader::{IndexReader, Shapes, values_at};
use super::scan::{self, Sample};
use crate::index::{self, RidSet, ServedPolicy};
use crate::keys;

/// The logical partitions of a part of a partition are looked at up to this many, to count items.
const HEADS_MAX: usize = 64;

impl<'a> Leaf<'a> {
    /// What may be asked of the index.
    pub(super) fn served(&self) -> ServedPolicy<'a> {
        self.container.served_policy()
    }

    /// Asks the index which items an access describes.
    pub(super) fn look_up(&mut self, access: &Access, effort: Effort) -> Result<Found> {
        let begun = self.moment();
        let mut reader = IndexReader::of(self);
        let trace = self.explains.then(Trace::default);
        let served = self.container.served_policy();
        let found = look_up(&mut reader, &served, &mut self.run, (access, effort), trace)?;
        self.report.entries_scanned += reader.tell();
        self.report.lookup_nanos += self.since(begun);
        Ok(found)
    }

    /// What kinds of value items have at a path; None if the index does not tell.
    pub(super) fn shapes(&mut self, path: &[IndexStep]) -> Result<Option<Arc<Shapes>>> {
        let mut reader = IndexReader::of(self);
        let shapes = reader.shapes(path)?;
        self.report.entries_scanned += reader.tell();
        Ok(shapes)
    }

    /// May items have expired, although the index has them?
    pub(super) fn expires(&self) -> bool {
        self.container.definition.default_ttl.is_some()
    }

    /// Looks at the first items. What is loaded besides those that pass: items with something at
    /// one of these paths that no column has.
    pub(super) fn sample(&mut self, most: u64, paths: &[Vec<IndexStep>]) -> Result<Sample> {
        let terms = self.container.terms;
        let longest =
            |path: &[IndexStep]| index::string_bytes_max(&index::path_prefix(path, terms));
        let paths: Vec<(&[IndexStep], usize)> =
            paths.iter().map(|path| (path.as_slice(), longest(path))).collect();
        scan::sample(self, most, &|document| {
            paths.iter().any(|(path, longest)| has_no_cell(document, path, *longest))
        })
    }

    /// The filter, together with what the index says of who is in the leaf's area. None if it says
    /// nothing of that, or if the area has too few of the partition's items to ask about all of
    /// them.
    pub(super) fn access_of_area(&self) -> Result<Option<Access>> {
        let access = self.query.access();
        let share = self.items_in_reach()?.saturating_mul(cost::KEY_SHARE);
        if share < self.items_in_partition()? {
            return Ok(None);
        }
        if self.is_whole() {
            return Ok(Some(access.clone()));
        }
        let Some(key) = self.only_key() else { return Ok(None) };
        let served = self.served();
        let mut parts = vec![access.clone()];
        for (path, part) in self.container.definition.partition_key.paths.iter().zip(&key.0) {
            let path: Vec<IndexStep> = path.segments().iter().map(member).collect();
            let Some(value) = encoded(part).filter(|_| served.indexes(&path)) else {
                return Ok(None);
            };
            let intervals = [Interval::point(value)];
            if values_at(access, &path) != Some(&intervals) {
                let test = Test::Values(intervals.to_vec());
                parts.push(Access::Condition(Condition { path, test, exact: true }));
            }
        }
        Ok(Some(match parts.len() {
            1 => access.clone(),
            _ => Access::And(parts),
        }))
    }

    /// Takes out those that have expired; without a set, out of all. The index says who has, by
    /// when items were written and how long they live. None if it does not tell.
    pub(super) fn living(&mut self, set: Option<ItemSet>) -> Result<Option<ItemSet>> {
        let paths = [vec![member("_ts")], vec![member("ttl")]];
        let [written, lives] = &paths;
        let served = self.served();
        if !served.indexes(written) || !served.indexes(lives) {
            return Ok(None);
        }
        // Who may have expired: who has outlived the container's time, or has a time of its own.
        let test = Test::Kinds(Kinds { scalar: true, ..Kinds::NONE });
        let path = lives.clone();
        let mut parts = vec![Access::Condition(Condition { path, test, exact: true })];
        if let Some(seconds) = self.container.definition.default_ttl.filter(|seconds| *seconds > 0)
        {
            let latest = self.budget.now_seconds.saturating_sub(u64::from(seconds.unsigned_abs()));
            let latest = sort_key(Some(&Value::from(latest as f64)));
            let least = sort_key(Some(&Value::from(0.0)));
            let interval = Interval { low: Bound::Included(least), high: Bound::Included(latest) };
            let (path, test) = (written.clone(), Test::Values(vec![interval]));
            parts.push(Access::Condition(Condition { path, test, exact: true }));
        }
        let Found::Only(doubtful) = self.look_up(&Access::Or(parts), Effort::Exact)? else {
            return Ok(None);
        };
        let Some(expired) = self.expired_of(&doubtful.rids, &paths)? else { return Ok(None) };
        let mut set = match set {
            Some(set) => set,
            None => {
                let mut reader = IndexReader::of(self);
                let rids = all_rids(&mut reader)?.rids.clone();
                self.report.entries_scanned += reader.tell();
                ItemSet { rids, exact: true, ..ItemSet::default() }
            }
        };
        set.rids.subtract(&expired);
        if self.explains {
            set.trace.push(0, &format!("without {} that have expired", expired.len()));
            set.trace.add(doubtful.trace);
        }
        Ok(Some(set))
    }

    /// Which of these have expired: by columns if they are many, else by a look at each.
    fn expired_of(
        &mut self,
        doubtful: &RidSet,
        paths: &[Vec<IndexStep>],
    ) -> Result<Option<RidSet>> {
        let mut open: Vec<u64> = Vec::new();
        let mut expired = RidSet::default();
        let by_columns = cost::of_columns(paths.len(), self.items_in_partition()?);
        if doubtful.len().saturating_mul(cost::LOAD) <= by_columns {
            open.extend(doubtful.iter_from(0));
        } else {
            let Some(scan) = ColumnScan::read(self, paths, None)? else { return Ok(None) };
            self.report.entries_scanned += by_columns;
            let [written, lives] = scan.columns.as_slice() else { return Ok(None) };
            let default = self.container.definition.default_ttl.unwrap_or(-1);
            let now = self.budget.now_seconds as f64;
            let (mut written_of, mut lives_of) = (written.reader(), lives.reader());
            for rid in doubtful.iter_from(0) {
                let cells = (written_of.cell(rid), lives_of.cell(rid));
                let seconds = match lives.seen(cells.1) {
                    Seen::Number(seconds) if seconds.fract() == 0.0 && seconds != 0.0 => seconds,
                    _ => f64::from(default),
                };
                match written.seen(cells.0) {
                    Seen::Number(at) if cells.1 != LOAD => {
                        if seconds > 0.0 && at + seconds <= now {
                            expired.insert(rid);
                        }
                    }
                    _ => open.push(rid),
                }
            }
        }
        let mut left = open.as_slice();
        while !left.is_empty() {
            let Loaded { items, done, .. } = fetch(self, items::first(left))?;
            let living: RidSet = items.into_iter().map(|item| item.rid).collect();
            let (looked_at, rest) = left.split_at(done.min(left.len()));
            let gone = looked_at.iter().filter(|rid| !living.contains(**rid));
            gone.for_each(|rid| expired.insert(*rid));
            left = rest;
            self.check_whole()?;
        }
        Ok(Some(expired))
    }

    /// About how many items the leaf would have to go through in a scan.
    pub(super) fn items_in_reach(&self) -> Result<u64> {
        if let Some(items) = self.items_in_reach.get() {
            return Ok(*items);
        }
        let items = match self.whole_key() {
            Some(key) => {
                let epk = self.container.definition.partition_key.epk(&key);
                count_of(keys::head_parts(self.counter(&keys::head(&epk, &key))?).0)
            }
            None if self.restrict == self.partition.epks && self.parts.len() == 1 => {
                self.items_in_partition()?
            }
            None => match self.items_of_heads()? {
                Some(items) => items,
                None => self.items_in_partition()?,
            },
        };
        Ok(*self.items_in_reach.get_or_init(|| items))
    }

    /// How many items the partition has.
    pub(super) fn items_in_partition(&self) -> Result<u64> {
        let items = self.cache.items((self.partition.id, self.view.lsn()), || {
            self.counter(&keys::total(keys::Total::Items))
        })?;
        Ok(count_of(items))
    }

    /// The items of a part of the partition, if it has few logical partitions.
    fn items_of_heads(&self) -> Result<Option<u64>> {
        let (mut heads, mut items) = (0, 0);
        for part in self.parts {
            let range = keys::heads_in(part);
            self.view.walk(Space::Meta, &range, Direction::Forward, &mut |_, value| {
                heads += 1;
                items += counter(value).map_or(0, |count| count_of(keys::head_parts(count).0));
                if heads > HEADS_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
        }
        Ok((heads <= HEADS_MAX).then_some(items))
    }

    /// Are all items of the partition that pass the filter the leaf's?
    pub(super) fn is_whole(&self) -> bool {
        self.only.is_empty() && self.asks_all
    }

    /// The partition key, if the leaf is about one.
    fn whole_key(&self) -> Option<PartitionKey> {
        let is_whole = self.only.len() == self.container.definition.partition_key.paths.len();
        is_whole.then(|| PartitionKey(self.only.to_vec()))
    }

    /// The same, if all of its items are in reach.
    pub(super) fn only_key(&self) -> Option<PartitionKey> {
        let definition = &self.container.definition.partition_key;
        self.whole_key().filter(|key| self.restrict.contains(&definition.epk(key)))
    }

    /// May one page look at all items of the leaf?
    pub(super) fn may_be_held(&self) -> Result<bool> {
        let settings = self.budget.settings;
        let most = settings.age_order_items_max.min(settings.page_entries_max);
        Ok(self.items_in_reach()? <= most.min(settings.whole_entries_max))
    }

    fn counter(&self, key: &[u8]) -> Result<i64> {
        match self.view.get(Space::Meta, key)? {
            Some(record) => Ok(counter(&record.value)?),
            None => Ok(0),
        }
    }
}

/// Counters of a whole database are never below zero.
fn count_of(counter: i64) -> u64 {
    u64::try_from(counter).unwrap_or(0)
}

fn member(name: impl Into<String>) -> IndexStep {
    IndexStep::Member(name.into())
}

/// A component of a key as indexes have it. None if an index does not tell it from another: what is
/// no scalar is undefined as a key, and the two zeros are one number.
fn encoded(part: &KeyPart) -> Option<Vec<u8>> {
    let value = match part {
        KeyPart::Null => Value::Null,
        KeyPart::Bool(value) => Value::Bool(*value),
        KeyPart::Number(number) if *number != 0.0 => Value::from(*number),
        KeyPart::String(text) if !is_doubtful(text) => Value::from(text.as_str()),
        KeyPart::String(_) | KeyPart::Number(_) | KeyPart::Undefined => return None,
    };
    Some(sort_key(Some(&value)))
}

/// Does a document have something at a path that no column has: a tree, or a string that an index
/// cuts?
fn has_no_cell(document: Document<'_>, path: &[IndexStep], longest: usize) -> bool {
    let names = path.iter().filter_map(|step| match step {
        IndexStep::Member(name) => Some(name.as_str()),
        IndexStep::Element => None,
    });
    document.at(names).is_some_and(|found| match found.kind() {
        RawKind::Array | RawKind::Object => true,
        // With its quotes.
        RawKind::String => found.bytes().len() > longest + 2,
        RawKind::Null | RawKind::Bool | RawKind::Number => false,
    })
}

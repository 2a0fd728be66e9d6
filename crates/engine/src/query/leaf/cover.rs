//! Aggregates from the index alone.
//!
//! A grouped query looks at a few values of each item. If all of them are indexed, the index has
//! them as *columns*: the terms of a path, turned from "value → items" into "item → value". A small
//! document with just these values is made for each item, or once for many equal ones, and gathered
//! like the item itself; no item is loaded. The exceptions are items whose index does not tell
//! enough: those with an array or object at such a path, with a string that was cut, or with an
//! integer that its double does not tell from others. They are loaded after all.
//!
//! Index entries do not say which partition key their items have. So this works for whole
//! partitions, and for a partition key whose paths are indexed: these say who has it. Which items
//! have expired the index says, too, by when they were written and how long they live (`alive`).
//!
//! Groups come as they were first met, oldest item first, whatever order they are gathered in.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use partita_model::{Document, IndexStep, KeyPart, Result, Value};
use partita_query::access::{Access, Condition, Interval, Kinds, Test};
use partita_query::{Groups, Reads, Seen, sort_key};
use partita_storage::Direction;

use super::column::{Column, ColumnReader, LOAD, UNDEFINED, all_rids, column};
use super::composite::values_at;
use super::explain::{path_text, paths_text};
use super::indexed::{look_up, use_paths};
use super::items;
use super::lookup::{Effort, Found, Shapes, may_be_cut, scalars};
use super::reader::IndexReader;
use super::rid_set::RidSet;
use super::sift::Table;
use super::small_document::{Template, is_doubtful};
use super::{Leaf, cost};
use crate::index;
use crate::keys;
use crate::op::PlanHint;

/// Loads at a time.
const BATCH: usize = 256;

/// A partition key is asked of the index if it has one item or more of so many in its partition.
const KEY_SHARE_MIN: u64 = 16;

/// The groups of a query, if the index is a better way to them than the items; else None.
pub(super) fn groups(leaf: &mut Leaf<'_>) -> Result<Option<Groups>> {
    let facts = leaf.query.facts();
    let possible = leaf.hint == PlanHint::Best
        && !facts.joins
        && leaf.container.served_policy().indexes(&[IndexStep::Member("id".to_owned())]);
    if !possible {
        return Ok(None);
    }
    let expires = leaf.container.definition.default_ttl.is_some();
    if !expires && let Some(groups) = counted(leaf)? {
        return Ok(Some(groups));
    }
    // Lists are in the order of items, and here values are gathered one by one.
    let Some(access) = access_of_area(leaf)?.filter(|_| !facts.lists) else { return few(leaf) };
    if let (Some(path), false, true) = (&facts.extremes_of, expires, leaf.is_whole())
        && let Some(groups) = extremes(leaf, path)?
    {
        return Ok(Some(groups));
    }
    let reach = leaf.items_in_reach()?;
    let effort = match access.is_exact() {
        true => Effort::Exact,
        false => Effort::Selective((reach * cost::SCAN / cost::LOAD).max(256)),
    };
    let (rids, exact) = match look_up(leaf, &access, effort)? {
        Found::Everything { exact } => (None, exact),
        Found::Only { rids, exact } => (Some(rids), exact),
    };
    if !leaf.is_whole() && !exact {
        return few(leaf);
    }
    let rids = match expires {
        true => match alive(leaf, rids)? {
            Some(rids) => Some(rids),
            None => return few(leaf),
        },
        false => rids,
    };
    let paths = match if exact { &facts.selects } else { &facts.reads } {
        Reads::Whole => None,
        Reads::Paths(paths) => Some(paths),
    };
    let items = rids.as_ref().map_or(reach, RidSet::len);
    let in_partition = leaf.items_in_partition()?;
    let by_columns = paths.map_or(u64::MAX, |paths| paths.len() as u64 * in_partition);
    let (by_rid, by_scan) = (items.saturating_mul(cost::LOAD), reach.saturating_mul(cost::SCAN));
    if let Some(paths) = paths
        && by_columns <= by_rid.min(by_scan)
        && let Some(groups) = by_columns_of(leaf, paths, rids.as_ref(), exact)?
    {
        return Ok(Some(groups));
    }
    match rids {
        Some(rids) if by_rid <= by_scan => by_rid_of(leaf, &rids).map(Some),
        _ => Ok(None),
    }
}

/// The filter, together with what the index says of who is in the leaf's area. None if it says
/// nothing of that, or if the area has too few of the partition's items to ask about all of them.
fn access_of_area(leaf: &Leaf<'_>) -> Result<Option<Access>> {
    let access = leaf.query.access();
    let share = leaf.items_in_reach()?.saturating_mul(KEY_SHARE_MIN);
    if share < leaf.items_in_partition()? {
        return Ok(None);
    }
    if leaf.is_whole() {
        return Ok(Some(access.clone()));
    }
    let definition = &leaf.container.definition.partition_key;
    let Some(key) = leaf.whole_key() else { return Ok(None) };
    if !leaf.restrict.contains(&definition.epk(&key)) {
        return Ok(None);
    }
    let served = leaf.container.served_policy();
    let mut parts = vec![access.clone()];
    for (path, part) in definition.paths.iter().zip(&key.0) {
        let step = |name: &String| IndexStep::Member(name.clone());
        let path: Vec<IndexStep> = path.segments().iter().map(step).collect();
        let Some(value) = encoded(part).filter(|_| served.indexes(&path)) else { return Ok(None) };
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

/// Takes out those that have expired; without a set, out of all. None if the index does not tell.
fn alive(leaf: &mut Leaf<'_>, rids: Option<RidSet>) -> Result<Option<RidSet>> {
    let path = |name: &str| vec![IndexStep::Member(name.to_owned())];
    let (written, lives) = (path("_ts"), path("ttl"));
    let served = leaf.container.served_policy();
    if !served.indexes(&written) || !served.indexes(&lives) {
        return Ok(None);
    }
    // Who may have expired: who has outlived the container's time, or has a time of its own.
    let own = Kinds { scalar: true, ..Kinds::NONE };
    let test = Test::Kinds(own);
    let mut parts = vec![Access::Condition(Condition { path: lives.clone(), test, exact: true })];
    if let Some(seconds) = leaf.container.definition.default_ttl.filter(|seconds| *seconds > 0) {
        let latest = leaf.budget.now_seconds.saturating_sub(u64::from(seconds.unsigned_abs()));
        let latest = sort_key(Some(&Value::from(latest as f64)));
        let least = sort_key(Some(&Value::from(0.0)));
        let interval = Interval { low: Bound::Included(least), high: Bound::Included(latest) };
        let test = Test::Values(vec![interval]);
        let path = written.clone();
        parts.push(Access::Condition(Condition { path, test, exact: true }));
    }
    let Found::Only { rids: doubtful, .. } = look_up(leaf, &Access::Or(parts), Effort::Exact)?
    else {
        return Ok(None);
    };
    let expired = expired_of(leaf, &doubtful, &[written, lives])?;
    let Some(expired) = expired else { return Ok(None) };
    let mut rids = match rids {
        Some(rids) => rids,
        None => {
            let (view, budget, terms) = (leaf.view, leaf.budget, leaf.container.terms);
            let deadline = || budget.check_whole_time();
            let mut reader = IndexReader { view, deadline: &deadline, terms, scanned: 0 };
            let all = all_rids(leaf, &mut reader)?;
            leaf.report.entries_scanned += reader.scanned;
            all.rids.clone()
        }
    };
    leaf.note(|| format!("leave out {} that have expired", expired.len()));
    rids.subtract(&expired);
    Ok(Some(rids))
}

/// Which of these have expired: by columns if they are many, else by a look at each.
fn expired_of(
    leaf: &mut Leaf<'_>,
    doubtful: &RidSet,
    paths: &[Vec<IndexStep>],
) -> Result<Option<RidSet>> {
    let mut open: Vec<u64> = Vec::new();
    let mut expired = RidSet::default();
    let in_partition = leaf.items_in_partition()?;
    if doubtful.len().saturating_mul(cost::LOAD) <= in_partition * paths.len() as u64 {
        open.extend(doubtful.iter_from(0));
    } else {
        let Some(table) = Table::read(leaf, paths)? else { return Ok(None) };
        leaf.report.entries_scanned += in_partition * paths.len() as u64;
        let [written, lives] = table.columns.as_slice() else { return Ok(None) };
        let default = leaf.container.definition.default_ttl.unwrap_or(-1);
        let now = leaf.budget.now_seconds as f64;
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
    for batch in open.chunks(BATCH) {
        let living: RidSet = items::fetch_all(leaf, batch)?.into_iter().collect();
        batch.iter().filter(|rid| !living.contains(**rid)).for_each(|rid| expired.insert(*rid));
        leaf.check_whole()?;
    }
    Ok(Some(expired))
}

/// `SELECT VALUE COUNT(1)` of a partition or of one partition key: there are counters.
fn counted(leaf: &mut Leaf<'_>) -> Result<Option<Groups>> {
    let facts = leaf.query.facts();
    let counts = *leaf.query.access() == Access::All
        && matches!(&facts.selects, Reads::Paths(paths) if paths.is_empty());
    let is_one_key = leaf.whole_key().is_some_and(|key| {
        leaf.restrict.contains(&leaf.container.definition.partition_key.epk(&key))
    });
    if !counts || !(leaf.is_whole() || is_one_key) {
        return Ok(None);
    }
    let items = leaf.items_in_reach()?;
    leaf.note(|| format!("counter of items: {items}"));
    let mut groups = Groups::new(leaf.query);
    if items > 0 {
        leaf.run.gather_known(Document::new("{}"), items, &mut groups)?;
    }
    Ok(Some(groups))
}

/// The groups of items found by the index and loaded, if they are few.
fn few(leaf: &mut Leaf<'_>) -> Result<Option<Groups>> {
    if matches!(leaf.query.access(), Access::All | Access::Unknown) {
        return Ok(None);
    }
    let most = leaf.items_in_reach()? * cost::SCAN / cost::LOAD;
    match look_up(leaf, leaf.query.access(), Effort::Selective(most))? {
        Found::Only { rids, .. } => by_rid_of(leaf, &rids).map(Some),
        Found::Everything { .. } => Ok(None),
    }
}

fn by_rid_of(leaf: &mut Leaf<'_>, rids: &RidSet) -> Result<Groups> {
    leaf.note(|| format!("fetch {}, group", rids.len()));
    let mut groups = Groups::new(leaf.query);
    let rids: Vec<u64> = rids.iter_from(0).collect();
    gather_loaded(leaf, &rids, &mut groups)?;
    Ok(groups)
}

/// Loads items and gathers them.
fn gather_loaded(leaf: &mut Leaf<'_>, rids: &[u64], groups: &mut Groups) -> Result<()> {
    for batch in rids.chunks(BATCH) {
        for item in items::fetch(leaf, batch)? {
            leaf.report.rows_evaluated += 1;
            groups.turn_to(item.rid);
            leaf.run.gather(Document::new(item.text()?), groups)?;
        }
        leaf.check_whole()?;
    }
    Ok(())
}

/// Gathers from columns; None if the index does not have them all. If the set of items is not
/// exact, WHERE is asked of the small documents.
fn by_columns_of(
    leaf: &mut Leaf<'_>,
    paths: &[Vec<IndexStep>],
    rids: Option<&RidSet>,
    exact: bool,
) -> Result<Option<Groups>> {
    let reach = leaf.items_in_partition()?;
    let served = leaf.container.served_policy();
    if !paths.iter().all(|path| served.indexes(path)) {
        return Ok(None);
    }
    let (view, budget, terms) = (leaf.view, leaf.budget, leaf.container.terms);
    let deadline = || budget.check_whole_time();
    let mut reader = IndexReader { view, deadline: &deadline, terms, scanned: 0 };
    let mut columns = Vec::with_capacity(paths.len());
    for path in paths {
        match column(leaf, &mut reader, path, rids)? {
            Some(column) => columns.push(column),
            None => return Ok(None),
        }
    }
    let everyone = match rids {
        Some(_) => None,
        // A column that has a value for each item says as well who is there.
        None => match columns.iter().any(|column| column.rids.len() == reach) {
            true => None,
            false => Some(all_rids(leaf, &mut reader)?),
        },
    };
    leaf.report.entries_scanned += reader.scanned;
    let whole = columns.iter().map(|column| &column.rids).find(|column| column.len() == reach);
    let Some(rids) = rids.or(everyone.as_ref().map(|known| &known.rids)).or(whole) else {
        return Ok(None);
    };
    leaf.note(|| match paths {
        [] => format!("count {} rids", rids.len()),
        paths => {
            let names = paths_text(paths);
            format!("group {} items by columns of the index: {names}", rids.len())
        }
    });
    use_paths(leaf, paths);
    let mut gathering = Gathering { groups: Groups::new(leaf.query), exact, text: String::new() };
    let open = match columns.as_slice() {
        [] => {
            gathering.add(leaf, "{}", rids.len())?;
            Vec::new()
        }
        [one] => gathering.one_column(leaf, &Template::new(paths), one, rids)?,
        many => gathering.columns(leaf, paths, many, rids)?,
    };
    gather_loaded(leaf, &open, &mut gathering.groups)?;
    Ok(Some(gathering.groups))
}

/// Groups in the making.
struct Gathering {
    groups: Groups,
    exact: bool,
    text: String,
}

impl Gathering {
    fn add(&mut self, leaf: &mut Leaf<'_>, text: &str, times: u64) -> Result<()> {
        leaf.report.rows_evaluated += times;
        let document = Document::new(text);
        if times == 0 || !self.exact && !leaf.run.matches(document)? {
            return Ok(());
        }
        leaf.run.gather_known(document, times, &mut self.groups)
    }

    /// One column: equal values are counted first. Returns the items that have to be loaded.
    fn one_column(
        &mut self,
        leaf: &mut Leaf<'_>,
        template: &Template,
        column: &Column,
        rids: &RidSet,
    ) -> Result<Vec<u64>> {
        // How many items have each value, and the oldest of them.
        let mut counts = vec![(0_u64, 0_u64); column.values()];
        let mut reader = column.reader();
        let mut open = Vec::new();
        for rid in rids.iter_from(0) {
            match reader.cell(rid) {
                LOAD => open.push(rid),
                cell => {
                    if let Some((count, first)) = counts.get_mut(cell as usize) {
                        *first = if *count == 0 { rid } else { *first };
                        *count += 1;
                    }
                }
            }
        }
        for (cell, (times, first)) in counts.into_iter().enumerate() {
            self.groups.turn_to(first);
            let mut text = std::mem::take(&mut self.text);
            text.clear();
            template.write(&mut text, &mut |_| column.text(cell as u32));
            self.add(leaf, &text, times)?;
            self.text = text;
        }
        Ok(open)
    }

    /// Several columns, item by item. Returns the items that have to be loaded.
    fn columns(
        &mut self,
        leaf: &mut Leaf<'_>,
        paths: &[Vec<IndexStep>],
        columns: &[Arc<Column>],
        rids: &RidSet,
    ) -> Result<Vec<u64>> {
        let text = |column: usize, cell: usize| columns.get(column)?.text(cell as u32);
        let lengths: Vec<usize> = columns.iter().map(|column| column.values()).collect();
        let mut by_number = match self.exact {
            true => leaf.query.columns(paths, &text, &lengths),
            false => None,
        };
        let template = Template::new(paths);
        let mut readers: Vec<ColumnReader<'_>> =
            columns.iter().map(|column| column.reader()).collect();
        let mut cells = vec![UNDEFINED; columns.len()];
        let mut open = Vec::new();
        for (at, rid) in rids.iter_from(0).enumerate() {
            if at % 4_096 == 0 {
                leaf.check_whole()?;
            }
            for (cell, reader) in cells.iter_mut().zip(&mut readers) {
                *cell = reader.cell(rid);
            }
            self.groups.turn_to(rid);
            if cells.contains(&LOAD) {
                open.push(rid);
                continue;
            }
            if let Some(by_number) = &mut by_number {
                leaf.report.rows_evaluated += 1;
                by_number.gather(&cells, &mut self.groups)?;
                continue;
            }
            let mut document = std::mem::take(&mut self.text);
            document.clear();
            template.write(&mut document, &mut |column| {
                text(column, cells.get(column).map_or(0, |cell| *cell as usize))
            });
            self.add(leaf, &document, 1)?;
            self.text = document;
        }
        Ok(open)
    }
}

/// The least and the greatest value of a path, at the two ends of its terms.
fn extremes(leaf: &mut Leaf<'_>, path: &[IndexStep]) -> Result<Option<Groups>> {
    if !leaf.container.served_policy().indexes(path) {
        return Ok(None);
    }
    let (view, budget, terms) = (leaf.view, leaf.budget, leaf.container.terms);
    let deadline = || budget.check_whole_time();
    let mut reader = IndexReader { view, deadline: &deadline, terms, scanned: 0 };
    let encoded = index::path_prefix(path, terms);
    let Some(shapes) = Shapes::read(&mut reader, path, &encoded)? else { return Ok(None) };
    let mut found = Vec::new();
    for direction in [Direction::Forward, Direction::Backward] {
        reader.walk(&scalars(&encoded), direction, |key, _| {
            found.push((may_be_cut(key, &encoded), key.to_vec()));
            Ok(ControlFlow::Break(()))
        })?;
    }
    let trees = Kinds { array: true, object: true, ..Kinds::NONE };
    let mut open = Vec::new();
    for shape in shapes.with(trees).chain([index::UNKNOWN_SHAPE]) {
        reader.walk_rids(&keys::shape_range(shape), Direction::Forward, |rid, _| {
            open.push(rid);
            // One array or object spoils the result; of unknown shapes all have to be seen.
            match shape {
                index::UNKNOWN_SHAPE => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            }
        })?;
    }
    leaf.report.entries_scanned += reader.scanned;
    let mut gathering =
        Gathering { groups: Groups::new(leaf.query), exact: true, text: String::new() };
    let template = Template::new(&[path.to_vec()]);
    for (is_cut, key) in found {
        let mut column = Column::new();
        let value = keys::term_value(&key, &encoded).filter(|_| !is_cut);
        let cell = column.add_value(value.and_then(|value| value.scalar()));
        if cell == LOAD {
            return Ok(None);
        }
        let mut text = String::new();
        template.write(&mut text, &mut |_| column.text(cell));
        gathering.add(leaf, &text, 1)?;
    }
    gather_loaded(leaf, &open, &mut gathering.groups)?;
    leaf.note(|| format!("first and last value of index {}", path_text(path)));
    use_paths(leaf, &[path.to_vec()]);
    Ok(Some(gathering.groups))
}

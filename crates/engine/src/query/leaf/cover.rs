//! Aggregates from the index alone.
//!
//! A grouped query looks at a few values of each item. If all of them are indexed, the index has
//! them as *columns*: the terms of a path, turned from "value → items" into "item → value". A small
//! document with just these values is made for each item, or once for many equal ones, and gathered
//! like the item itself; no item is loaded. The exceptions are items whose index does not tell
//! enough: those with an array or object at such a path, with a string that was cut, or with an
//! integer that its double does not tell from others. They are loaded after all.
//!
//! This works for whole partitions only, since index entries do not say which partition key their
//! items have, and not if items expire, since the index does not say when.

use std::ops::ControlFlow;
use std::sync::Arc;

use partita_model::{Document, IndexStep, Result};
use partita_query::access::{Access, Kinds};
use partita_query::{Groups, Reads};
use partita_storage::Direction;

use super::Leaf;
use super::column::{Column, ColumnReader, LOAD, UNDEFINED, all_rids, column};
use super::explain::{path_text, paths_text};
use super::indexed::{look_up, use_paths};
use super::items;
use super::lookup::{Effort, Found, Shapes, may_be_cut, scalars};
use super::reader::IndexReader;
use super::rid_set::RidSet;
use super::small_document::Template;
use crate::index;
use crate::keys;
use crate::op::PlanHint;

/// What loading an item by its rid, and passing one in a scan, cost in index entries.
const LOAD_COST: u64 = 25;
const SCAN_COST: u64 = 5;
/// Loads at a time.
const BATCH: usize = 256;

/// The groups of a query, if the index is a better way to them than the items; else None.
pub(super) fn groups(leaf: &mut Leaf<'_>) -> Result<Option<Groups>> {
    let facts = leaf.query.facts();
    let possible = leaf.hint == PlanHint::Best
        && !facts.joins
        && leaf.container.served_policy().indexes(&[IndexStep::Member("id".to_owned())]);
    if !possible {
        return Ok(None);
    }
    let is_whole = leaf.only.is_empty()
        && leaf.restrict.min <= leaf.partition.epks.min
        && leaf.restrict.max >= leaf.partition.epks.max;
    let expires = leaf.container.definition.default_ttl.is_some();
    if !expires && let Some(groups) = counted(leaf, is_whole)? {
        return Ok(Some(groups));
    }
    if expires || !is_whole {
        return few(leaf);
    }
    if let Some(path) = &facts.extremes_of
        && let Some(groups) = extremes(leaf, path)?
    {
        return Ok(Some(groups));
    }
    let reach = leaf.items_in_reach()?;
    let access = leaf.query.access();
    let effort = match access.is_exact() {
        true => Effort::Exact,
        false => Effort::Selective((reach / LOAD_COST * SCAN_COST).max(256)),
    };
    let (rids, exact) = match look_up(leaf, access, effort)? {
        Found::Everything { exact } => (None, exact),
        Found::Only { rids, exact } => (Some(rids), exact),
    };
    let paths = match if exact { &facts.selects } else { &facts.reads } {
        Reads::Whole => None,
        Reads::Paths(paths) => Some(paths),
    };
    let items = rids.as_ref().map_or(reach, RidSet::len);
    let by_columns = paths.map_or(u64::MAX, |paths| paths.len() as u64 * reach);
    let (by_rid, by_scan) = (items.saturating_mul(LOAD_COST), reach.saturating_mul(SCAN_COST));
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

/// `SELECT VALUE COUNT(1)` of a partition or of one partition key: there are counters.
fn counted(leaf: &mut Leaf<'_>, is_whole: bool) -> Result<Option<Groups>> {
    let facts = leaf.query.facts();
    let counts = *leaf.query.access() == Access::All
        && matches!(&facts.selects, Reads::Paths(paths) if paths.is_empty());
    let is_one_key = leaf.whole_key().is_some_and(|key| {
        leaf.restrict.contains(&leaf.container.definition.partition_key.epk(&key))
    });
    if !counts || !(is_whole || is_one_key) {
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
    let most = leaf.items_in_reach()? / LOAD_COST * SCAN_COST;
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
    let reach = leaf.items_in_reach()?;
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
        let mut counts = vec![0_u64; column.values()];
        let mut reader = column.reader();
        let mut open = Vec::new();
        for rid in rids.iter_from(0) {
            match reader.cell(rid) {
                LOAD => open.push(rid),
                cell => {
                    if let Some(count) = counts.get_mut(cell as usize) {
                        *count += 1;
                    }
                }
            }
        }
        for (cell, times) in counts.into_iter().enumerate() {
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

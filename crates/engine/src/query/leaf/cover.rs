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

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use partita_model::{Document, IndexStep, Result, Scalar, Value, write_string};
use partita_query::access::{Access, Kinds};
use partita_query::{Groups, Reads};
use partita_storage::Direction;

use super::Leaf;
use super::explain::path_text;
use super::indexed::look_up;
use super::items;
use super::lookup::{Effort, Found, Shapes, may_be_cut, scalars};
use super::reader::{IndexReader, rid_of};
use super::rid_set::RidSet;
use crate::index;
use crate::keys;
use crate::op::{IndexUse, PlanHint};

/// What loading an item by its rid, and passing one in a scan, cost in index entries.
const LOAD_COST: u64 = 25;
const SCAN_COST: u64 = 5;
/// Loads at a time.
const BATCH: usize = 256;
/// From here on a double may stand for several integers.
const EXACT_NUMBER_MAX: f64 = 9_007_199_254_740_992.0;

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

/// `SELECT VALUE COUNT(1)` of a partition or of one partition key: there are counters. They count
/// all items, so nobody may have kept one out of the index.
fn counted(leaf: &mut Leaf<'_>, is_whole: bool) -> Result<Option<Groups>> {
    let facts = leaf.query.facts();
    let counts = *leaf.query.access() == Access::All
        && matches!(&facts.selects, Reads::Paths(paths) if paths.is_empty());
    let is_one_key = leaf.whole_key().is_some_and(|key| {
        leaf.restrict.contains(&leaf.container.definition.partition_key.epk(&key))
    });
    let former = &leaf.container.policies.former;
    let automatic = leaf.container.definition.indexing.automatic()
        && former.iter().all(|(_, policy)| policy.automatic());
    if !counts || !automatic || !(is_whole || is_one_key) || leaf.items_excluded()? > 0 {
        return Ok(None);
    }
    let items = leaf.items_in_reach()?;
    leaf.note(format!("counter of items: {items}"));
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
    leaf.note(format!("fetch {}, group", rids.len()));
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
    let (view, budget) = (leaf.view, leaf.budget);
    let deadline = || budget.check_whole_time();
    let mut reader = IndexReader { view, deadline: &deadline, scanned: 0 };
    let mut columns = Vec::with_capacity(paths.len());
    for path in paths {
        match Column::read(&mut reader, path, rids)? {
            Some(column) => columns.push(column),
            None => return Ok(None),
        }
    }
    let everyone = match rids {
        Some(_) => None,
        // A column that has a value for each item says as well who is there.
        None => match columns.iter().map(Column::rids).find(|column| column.len() == reach) {
            Some(column) => Some(column),
            None => Some(all_rids(&mut reader)?),
        },
    };
    leaf.report.entries_scanned += reader.scanned;
    let Some(rids) = rids.or(everyone.as_ref()) else { return Ok(None) };
    let names: Vec<String> = paths.iter().map(|path| path_text(path)).collect();
    leaf.note(match names.as_slice() {
        [] => format!("count {} rids", rids.len()),
        names => {
            format!("group {} items by columns of the index: {}", rids.len(), names.join(", "))
        }
    });
    for name in names {
        let used = IndexUse { paths: vec![format!("{name}/?")], composite: false, precise: true };
        if !leaf.report.indexes_used.contains(&used) {
            leaf.report.indexes_used.push(used);
        }
    }
    let mut gathering = Gathering { groups: Groups::new(leaf.query), exact, text: String::new() };
    let template = Template::new(paths);
    let open = match columns.as_slice() {
        [] => {
            gathering.add(leaf, "{}", rids.len())?;
            Vec::new()
        }
        [one] => gathering.one_column(leaf, &template, one, rids)?,
        many => gathering.columns(leaf, &template, many, rids)?,
    };
    gather_loaded(leaf, &open, &mut gathering.groups)?;
    Ok(Some(gathering.groups))
}

/// Every item that queries see.
fn all_rids(reader: &mut IndexReader<'_>) -> Result<RidSet> {
    let mut rids = RidSet::default();
    reader.walk_rids(&keys::all_shape_entries(), Direction::Forward, |rid, _| {
        rids.insert(rid);
        ControlFlow::Continue(())
    })?;
    Ok(rids)
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
        let mut open = Vec::new();
        for rid in rids.iter_from(0) {
            match column.cell(rid) {
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

    fn columns(
        &mut self,
        leaf: &mut Leaf<'_>,
        template: &Template,
        columns: &[Column],
        rids: &RidSet,
    ) -> Result<Vec<u64>> {
        let mut open = Vec::new();
        for (at, rid) in rids.iter_from(0).enumerate() {
            if at % 4_096 == 0 {
                leaf.check_whole()?;
            }
            if columns.iter().any(|column| column.cell(rid) == LOAD) {
                open.push(rid);
                continue;
            }
            let mut text = std::mem::take(&mut self.text);
            text.clear();
            template.write(&mut text, &mut |number| {
                columns.get(number).and_then(|column| column.text(column.cell(rid)))
            });
            self.add(leaf, &text, 1)?;
            self.text = text;
        }
        Ok(open)
    }
}

/// The item has no value.
const UNDEFINED: u32 = 0;
/// The item has to be loaded.
const LOAD: u32 = u32::MAX;
/// Items of one piece of a column.
const PIECE: u64 = 1 << 12;

/// The values at one path, item by item.
struct Column {
    /// For each item the number of its value, in pieces of neighbouring rids.
    cells: BTreeMap<u64, Box<[u32]>>,
    /// The values as JSON, one after another, and where each ends.
    texts: String,
    ends: Vec<usize>,
}

impl Column {
    /// The items that have something here.
    fn rids(&self) -> RidSet {
        let mut rids = RidSet::default();
        for (piece, cells) in &self.cells {
            for (rid, cell) in (piece * PIECE..).zip(cells.iter()) {
                if *cell != UNDEFINED {
                    rids.insert(rid);
                }
            }
        }
        rids
    }

    /// None if the index cannot tell which items have no scalar at the path.
    fn read(
        reader: &mut IndexReader<'_>,
        steps: &[IndexStep],
        only: Option<&RidSet>,
    ) -> Result<Option<Column>> {
        let path = index::path_prefix(steps);
        let Some(shapes) = Shapes::read(reader, steps, &path)? else { return Ok(None) };
        let mut column = Column { cells: BTreeMap::new(), texts: String::new(), ends: vec![0] };
        let mut last: Vec<u8> = Vec::new();
        let mut cell = UNDEFINED;
        reader.walk(&scalars(&path), Direction::Forward, |key, _| {
            let rid = rid_of(key)?;
            if only.is_none_or(|only| only.contains(rid)) {
                let Some(value) = keys::term_value(key, &path) else {
                    return Ok(ControlFlow::Continue(()));
                };
                if last != value.bytes() {
                    last.clear();
                    last.extend_from_slice(value.bytes());
                    cell = match may_be_cut(key, &path) {
                        true => LOAD,
                        false => column.add_value(value.scalar()),
                    };
                }
                column.set(rid, cell);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let trees = Kinds { array: true, object: true, ..Kinds::NONE };
        for shape in shapes.with(trees).chain([index::UNKNOWN_SHAPE]) {
            reader.walk_rids(&keys::shape_range(shape), Direction::Forward, |rid, _| {
                column.set(rid, LOAD);
                ControlFlow::Continue(())
            })?;
        }
        Ok(Some(column))
    }

    /// The number of a new value.
    fn add_value(&mut self, value: Option<Scalar<'_>>) -> u32 {
        match value {
            Some(Scalar::Null) => self.texts.push_str("null"),
            Some(Scalar::Bool(value)) => self.texts.push_str(if value { "true" } else { "false" }),
            Some(Scalar::Number(double)) if double.abs() < EXACT_NUMBER_MAX => {
                if double.fract() == 0.0 {
                    self.texts.push_str(&(double as i64).to_string());
                } else {
                    self.texts.push_str(&Value::from(double).to_string());
                }
            }
            Some(Scalar::String(text)) => write_string(&mut self.texts, &text),
            Some(Scalar::Number(_)) | None => return LOAD,
        }
        self.ends.push(self.texts.len());
        u32::try_from(self.ends.len() - 1).unwrap_or(LOAD)
    }

    fn set(&mut self, rid: u64, cell: u32) {
        let piece = self.cells.entry(rid / PIECE);
        let piece = piece.or_insert_with(|| vec![UNDEFINED; PIECE as usize].into_boxed_slice());
        if let Some(place) = piece.get_mut((rid % PIECE) as usize) {
            *place = cell;
        }
    }

    fn cell(&self, rid: u64) -> u32 {
        let piece = self.cells.get(&(rid / PIECE));
        piece.and_then(|piece| piece.get((rid % PIECE) as usize)).copied().unwrap_or(UNDEFINED)
    }

    /// How many values there are, undefined among them.
    fn values(&self) -> usize {
        self.ends.len()
    }

    fn text(&self, cell: u32) -> Option<&str> {
        let at = cell as usize;
        let start = self.ends.get(at.checked_sub(1)?)?;
        self.texts.get(*start..*self.ends.get(at)?)
    }
}

/// Where in a small document the values go.
#[derive(Default)]
struct Template {
    column: Option<usize>,
    /// Members as JSON strings.
    members: Vec<(String, Template)>,
}

impl Template {
    fn new(paths: &[Vec<IndexStep>]) -> Template {
        let mut root = Template::default();
        for (number, path) in paths.iter().enumerate() {
            let mut node = &mut root;
            for step in path {
                let IndexStep::Member(name) = step else { continue };
                node = node.member(name);
            }
            node.column = Some(number);
        }
        root
    }

    fn member(&mut self, name: &str) -> &mut Template {
        let mut quoted = String::new();
        write_string(&mut quoted, name);
        let at = match self.members.iter().position(|(known, _)| *known == quoted) {
            Some(at) => at,
            None => {
                self.members.push((quoted, Template::default()));
                self.members.len() - 1
            }
        };
        &mut self.members[at].1
    }

    /// Writes the document; a member without a value is left out.
    fn write<'v>(&self, out: &mut String, value: &mut dyn FnMut(usize) -> Option<&'v str>) {
        out.push('{');
        let start = out.len();
        for (name, member) in &self.members {
            // What has no value has nothing below it, and neither has a scalar; of what is an array
            // or object the item is loaded.
            let scalar = match member.column {
                Some(column) => match value(column) {
                    Some(text) => Some(text),
                    None => continue,
                },
                None => None,
            };
            if out.len() > start {
                out.push(',');
            }
            out.push_str(name);
            out.push(':');
            match scalar {
                Some(text) => out.push_str(text),
                None => member.write(out, value),
            }
        }
        out.push('}');
    }
}

/// The least and the greatest value of a path, at the two ends of its terms.
fn extremes(leaf: &mut Leaf<'_>, path: &[IndexStep]) -> Result<Option<Groups>> {
    if !leaf.container.served_policy().indexes(path) {
        return Ok(None);
    }
    let (view, budget) = (leaf.view, leaf.budget);
    let deadline = || budget.check_whole_time();
    let mut reader = IndexReader { view, deadline: &deadline, scanned: 0 };
    let encoded = index::path_prefix(path);
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
        let mut column = Column { cells: BTreeMap::new(), texts: String::new(), ends: vec![0] };
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
    let paths = vec![format!("{}/?", path_text(path))];
    leaf.note(format!("first and last value of index {}", path_text(path)));
    leaf.report.indexes_used.push(IndexUse { paths, composite: false, precise: true });
    Ok(Some(gathering.groups))
}

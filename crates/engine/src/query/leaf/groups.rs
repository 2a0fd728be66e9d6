//! Groups of the items of a leaf.
//!
//! A grouped query looks at a few values of each item. If all of them are indexed, the index has
//! them as columns (`columns.rs`): a small document with just these values is made for each item,
//! or once for many equal ones, and gathered like the item itself; no item is loaded. The
//! exceptions are items whose index does not tell enough: those with an array or object at such a
//! path, with a string that was cut, or with an integer that its double does not tell from others.
//! They are loaded after all.
//!
//! Groups come as they were first met, oldest item first, whatever order they are gathered in.

use std::ops::ControlFlow;

use partita_model::{Document, IndexStep, Result};
use partita_query::Groups;
use partita_storage::Direction;

use super::Leaf;
use super::columns::{Column, ColumnScan, LOAD, UNDEFINED};
use super::items::{self, Loaded, fetch};
use super::key_rows::{Template, Told};
use super::plan::ItemSet;
use super::reader::{IndexReader, TREES, may_be_cut, scalars};
use crate::index;
use crate::keys;

/// `SELECT VALUE COUNT(1)` where a counter has the answer.
pub(super) fn counted(leaf: &mut Leaf<'_>, items: u64) -> Result<Groups> {
    let mut groups = Groups::new(leaf.query, leaf.memory);
    if items > 0 {
        leaf.run.gather_known(Document::new("{}"), items, &mut groups)?;
    }
    Ok(groups)
}

/// The groups of the items of a set, which are loaded.
pub(super) fn of_items(leaf: &mut Leaf<'_>, set: &ItemSet) -> Result<Groups> {
    let mut groups = Groups::new(leaf.query, leaf.memory);
    let (rids, _memory) = items::listed(leaf, &set.rids)?;
    gather_loaded(leaf, &rids, &mut groups)?;
    Ok(groups)
}

/// The groups of values in columns. If the items are not exactly those that WHERE lets through, it
/// is asked of the small documents.
pub(super) fn of_columns(leaf: &mut Leaf<'_>, scan: &ColumnScan, is_exact: bool) -> Result<Groups> {
    let mut gathering = Gathering::new(leaf, is_exact);
    let open = match scan.columns.as_slice() {
        [] => {
            gathering.write(&Template::default(), &mut |_| None);
            gathering.add(leaf, scan.rids().len())?;
            Vec::new()
        }
        [one] => gathering.one_column(leaf, scan, one)?,
        _ => gathering.columns(leaf, scan)?,
    };
    gather_loaded(leaf, &open, &mut gathering.groups)?;
    Ok(gathering.groups)
}

/// Loads items and gathers them.
fn gather_loaded(leaf: &mut Leaf<'_>, rids: &[u64], groups: &mut Groups) -> Result<()> {
    let mut left = rids;
    while !left.is_empty() {
        let Loaded { items, done, memory: _held } = fetch(leaf, items::first(left))?;
        left = left.get(done..).unwrap_or_default();
        for item in items {
            leaf.report.rows_evaluated += 1;
            groups.turn_to(item.rid);
            leaf.run.gather(Document::new(item.text()?), groups)?;
        }
        leaf.check_whole()?;
    }
    Ok(())
}

/// Groups in the making.
struct Gathering {
    groups: Groups,
    /// WHERE is known to let all of the items through.
    is_exact: bool,
    /// The small document that stands for an item, or for many equal ones.
    text: String,
}

impl Gathering {
    fn new(leaf: &Leaf<'_>, is_exact: bool) -> Gathering {
        Gathering { groups: Groups::new(leaf.query, leaf.memory), is_exact, text: String::new() }
    }

    fn write<'v>(&mut self, template: &Template, value: &mut dyn FnMut(usize) -> Option<&'v str>) {
        self.text.clear();
        // Of items with a value that columns do not tell there is no document.
        template.write(&mut self.text, &mut |number, out| match value(number) {
            Some(text) => {
                out.push_str(text);
                Told::Written
            }
            None => Told::Undefined,
        });
    }

    /// Adds items with the small document that was written last.
    fn add(&mut self, leaf: &mut Leaf<'_>, times: u64) -> Result<()> {
        leaf.report.rows_evaluated += times;
        let document = Document::new(&self.text);
        if times == 0 || !self.is_exact && !leaf.run.matches(document)? {
            return Ok(());
        }
        leaf.run.gather_known(document, times, &mut self.groups)
    }

    /// One column: equal values are counted first. Returns the items that have to be loaded.
    fn one_column(
        &mut self,
        leaf: &mut Leaf<'_>,
        scan: &ColumnScan,
        column: &Column,
    ) -> Result<Vec<u64>> {
        // How many items have each value, and the oldest of them.
        let mut counts = vec![(0_u64, 0_u64); column.values()];
        let template = Template::new(&scan.paths);
        let mut reader = column.reader();
        let mut open = Vec::new();
        for rid in scan.rids().iter_from(0) {
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
            if cell % 1_024 == 1_023 {
                leaf.check_whole()?;
            }
            self.groups.turn_to(first);
            self.write(&template, &mut |_| column.text(cell as u32));
            self.add(leaf, times)?;
        }
        Ok(open)
    }

    /// Several columns, item by item. Returns the items that have to be loaded.
    fn columns(&mut self, leaf: &mut Leaf<'_>, scan: &ColumnScan) -> Result<Vec<u64>> {
        let columns = &scan.columns;
        let text = |column: usize, cell: usize| columns.get(column)?.text(cell as u32);
        let lengths: Vec<usize> = columns.iter().map(|column| column.values()).collect();
        let mut by_number = match self.is_exact {
            true => leaf.query.columns(&scan.paths, &text, &lengths),
            false => None,
        };
        let template = Template::new(&scan.paths);
        let mut readers = scan.readers();
        let mut cells = vec![UNDEFINED; columns.len()];
        let mut open = Vec::new();
        for (at, rid) in scan.rids().iter_from(0).enumerate() {
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
            self.write(&template, &mut |column| {
                text(column, cells.get(column).map_or(0, |cell| *cell as usize))
            });
            self.add(leaf, 1)?;
        }
        Ok(open)
    }
}

/// The least and the greatest value of a path, at the two ends of its terms.
pub(super) struct Extremes {
    pub(super) path: Vec<IndexStep>,
    /// As JSON.
    ends: Vec<String>,
    /// Items that have to be looked at: one array or object spoils the result; of unknown shapes
    /// all have to be seen.
    open: Vec<u64>,
}

impl Extremes {
    /// None if the index does not tell.
    pub(super) fn read(leaf: &mut Leaf<'_>, path: &[IndexStep]) -> Result<Option<Extremes>> {
        let mut reader = IndexReader::of(leaf);
        let encoded = index::path_prefix(path, reader.terms);
        let Some(shapes) = reader.shapes(path)? else { return Ok(None) };
        let (mut column, mut ends) = (Column::new(), Vec::new());
        for direction in [Direction::Forward, Direction::Backward] {
            reader.walk(&scalars(&encoded), direction, |key, _| {
                let value = keys::term_value(key, &encoded).filter(|_| !may_be_cut(key, &encoded));
                let cell = column.add_value(value.and_then(|value| value.scalar()));
                ends.push(column.text(cell).map(str::to_owned));
                Ok(ControlFlow::Break(()))
            })?;
        }
        let mut open = Vec::new();
        for shape in shapes.that_may_have(TREES) {
            reader.walk_rids(&keys::shape_range(shape), Direction::Forward, |rid, _| {
                open.push(rid);
                match shape {
                    index::UNKNOWN_SHAPE => ControlFlow::Continue(()),
                    _ => ControlFlow::Break(()),
                }
            })?;
        }
        leaf.report.entries_scanned += reader.tell();
        let ends: Option<Vec<String>> = ends.into_iter().collect();
        Ok(ends.map(|ends| Extremes { path: path.to_vec(), ends, open }))
    }

    pub(super) fn groups(&self, leaf: &mut Leaf<'_>) -> Result<Groups> {
        let mut gathering = Gathering::new(leaf, true);
        let template = Template::new(std::slice::from_ref(&self.path));
        for end in &self.ends {
            gathering.write(&template, &mut |_| Some(end));
            gathering.add(leaf, 1)?;
        }
        gather_loaded(leaf, &self.open, &mut gathering.groups)?;
        Ok(gathering.groups)
    }
}

//! A filter that no index answers, on columns.
//!
//! `c.amount * 3 + c.level = 7` names no range of an index, but the indexes of its paths have all
//! the values it looks at, as columns (`column.rs`). So the filter is decided on these, item by
//! item in the order of resource ids, and only items that pass are loaded, or not even those where
//! keys tell enough (`known.rs`). An item of which a column does not tell the value, or of which
//! values do not decide the filter, is loaded and looked at. The verdict on a combination of values
//! is remembered while it is of use.
//!
//! Filters that most items pass are better off with a scan, which has loaded what it looks at. So a
//! few items are looked at first, in the order of a scan. A column costs as many entries as were
//! looked at in it, whether it is remembered or has to be read: a query costs the same whoever
//! asked before.

use std::ops::ControlFlow;
use std::sync::Arc;

use partita_model::{Document, IndexStep, RawKind, Result};
use partita_query::{Judge, Run, Seen};

use super::column::{Column, ColumnReader, LOAD, UNDEFINED, all_rids, column};
use super::explain::paths_text;
use super::indexed::{BATCH_FIRST, BATCH_MAX, rows_by_rid, use_paths};
use super::known::Known;
use super::reader::IndexReader;
use super::rid_set::RidSet;
use super::scan::Sample;
use super::{Emit, End, Leaf, cost, items, scan};
use crate::index;
use crate::query::place_list::PlaceList;
use crate::query::position::{ALL_ROWS, LeafRow, Position};

/// More columns take longer to read than the items.
const PATHS_MAX: usize = 3;
/// Half of what it takes to read an entry of a column: that is done once for several queries.
const ENTRY_COST: u64 = 1;
/// One of so many items is looked at first, up to `QuerySettings::sample_items`.
const SAMPLE_SHARE: u64 = 32;
/// The cache holds several columns if it has this many bytes for each item.
const BYTES_PER_ITEM: u64 = 96;
/// After so many items the time is looked at.
const LOOKS_MAX: u64 = 4_096;

/// Gives the rows of a query without ORDER BY. `resumed`: the item to go on with, and how many of
/// its rows are done. None if a scan is the better way.
pub(super) fn stream(
    leaf: &mut Leaf<'_>,
    resumed: Option<(u64, u32)>,
    emit: &mut Emit<'_>,
) -> Result<Option<End>> {
    let Some(judge) = judge(leaf)? else { return Ok(None) };
    // Once rows came by rid they go on by rid, and no other way is shorter.
    let before = leaf.report.clone();
    if resumed.is_none() && !is_worthwhile(leaf, judge.paths())? {
        leaf.report = before;
        return Ok(None);
    }
    let Some(table) = Table::read(leaf, judge.paths())? else {
        leaf.report = before;
        return Ok(None);
    };
    let Some(rids) = table.rids() else { return Ok(None) };
    leaf.note(|| {
        let names = paths_text(judge.paths());
        format!("sift {} items by columns of the index: {names}", rids.len())
    });
    use_paths(leaf, judge.paths());
    let first = resumed.map_or(0, |(rid, rows)| if rows == 0 { rid } else { rid + 1 });
    let sieve = Sieve::new(&judge, &table.columns, rids.len());
    give(leaf, sieve, rids, first, emit).map(Some)
}

/// The judge of the filter, if columns may be the way to decide it.
fn judge(leaf: &Leaf<'_>) -> Result<Option<Judge>> {
    let settings = leaf.budget.settings;
    let reach = leaf.items_in_reach()?;
    if !leaf.is_whole() || reach < leaf.items_in_partition()? {
        return Ok(None);
    }
    let fits = reach.saturating_mul(BYTES_PER_ITEM) <= settings.cache_bytes_max as u64;
    if reach <= settings.scan_items || !fits {
        return Ok(None);
    }
    let Some(judge) = leaf.query.judge() else { return Ok(None) };
    let served = leaf.container.served_policy();
    let is_served = served.indexes(&[IndexStep::Member("id".to_owned())])
        && judge.paths().iter().all(|path| served.indexes(path));
    let few = (1..=PATHS_MAX).contains(&judge.paths().len());
    Ok((is_served && few).then_some(judge))
}

/// Is it less work to decide on columns and to load what passes, or is in doubt, than to scan, by a
/// sample?
fn is_worthwhile(leaf: &mut Leaf<'_>, paths: &[Vec<IndexStep>]) -> Result<bool> {
    let most = leaf.budget.settings.sample_items;
    if most == 0 {
        return Ok(true);
    }
    let reach = leaf.items_in_reach()?;
    let terms = leaf.container.terms;
    let has_no_cell = |document: Document<'_>| {
        paths.iter().any(|path| {
            let longest = index::string_bytes_max(&index::path_prefix(path, terms));
            has_no_cell(document, path, longest)
        })
    };
    let look = (reach / SAMPLE_SHARE).clamp(1, most);
    let Sample { seen, passed, loaded } = scan::sample(leaf, look, &has_no_cell)?;
    // Half an item more has passed: no sample is large enough to say that none does.
    let (part, whole) = (2 * passed + 1, 2 * seen + 2);
    let wanted = u64::try_from(leaf.want).unwrap_or(u64::MAX);
    let scanned = reach.min(wanted.saturating_mul(whole) / part);
    let loads = scanned * (2 * loaded + 1) / whole;
    let columns = paths.len() as u64 * reach * ENTRY_COST;
    Ok(columns + loads * cost::LOAD < scanned * cost::SCAN)
}

/// Does a document have something at a path that no column has: a tree, or a string that an index
/// cuts?
fn has_no_cell(document: Document<'_>, path: &[IndexStep], longest: usize) -> bool {
    let names = path.iter().filter_map(|step| match step {
        IndexStep::Member(name) => Some(name.as_str()),
        _ => None,
    });
    document.at(names).is_some_and(|found| match found.kind() {
        RawKind::Array | RawKind::Object => true,
        // With its quotes.
        RawKind::String => found.bytes().len() > longest + 2,
        RawKind::Null | RawKind::Bool | RawKind::Number => false,
    })
}

/// The columns of a filter, and who has a row in them.
pub(super) struct Table {
    pub(super) columns: Vec<Arc<Column>>,
    everyone: Option<Arc<crate::query::cache::Known>>,
    reach: u64,
}

impl Table {
    /// None if the index does not have them.
    pub(super) fn read(leaf: &Leaf<'_>, paths: &[Vec<IndexStep>]) -> Result<Option<Table>> {
        let reach = leaf.items_in_partition()?;
        let (view, budget, terms) = (leaf.view, leaf.budget, leaf.container.terms);
        let deadline = || budget.check_whole_time();
        let mut reader = IndexReader { view, deadline: &deadline, terms, scanned: 0 };
        let mut columns = Vec::with_capacity(paths.len());
        for path in paths {
            match column(leaf, &mut reader, path, None)? {
                Some(column) => columns.push(column),
                None => return Ok(None),
            }
        }
        // A column that has a value for each item says as well who is there.
        let everyone = match columns.iter().any(|column| column.rids.len() == reach) {
            true => None,
            false => Some(all_rids(leaf, &mut reader)?),
        };
        Ok(Some(Table { columns, everyone, reach }))
    }

    fn rids(&self) -> Option<&RidSet> {
        let whole = || self.columns.iter().map(|c| &c.rids).find(|rids| rids.len() == self.reach);
        self.everyone.as_ref().map(|known| &known.rids).or_else(whole)
    }
}

/// What is known of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Passes,
    Fails,
    /// It has to be looked at.
    Unsure,
}

/// Decides about items.
struct Sieve<'s> {
    judge: &'s Judge,
    columns: &'s [Arc<Column>],
    readers: Vec<ColumnReader<'s>>,
    cells: Vec<u32>,
    seen: Vec<Seen<'s>>,
    /// By combination of values, if these are fewer than the items; else empty.
    known: Vec<Option<Verdict>>,
}

impl<'s> Sieve<'s> {
    fn new(judge: &'s Judge, columns: &'s [Arc<Column>], items: u64) -> Sieve<'s> {
        let lengths = columns.iter().map(|column| column.values() as u64);
        let combinations = lengths.fold(1, u64::saturating_mul);
        let known = if combinations <= items { combinations } else { 0 };
        Sieve {
            judge,
            columns,
            readers: columns.iter().map(|column| column.reader()).collect(),
            cells: vec![UNDEFINED; columns.len()],
            seen: vec![Seen::Undefined; columns.len()],
            known: vec![None; usize::try_from(known).unwrap_or(0)],
        }
    }

    fn verdict(&mut self, run: &Run<'_>, rid: u64) -> Result<Verdict> {
        let mut place = 0;
        let columns = self.columns.iter().zip(&mut self.readers);
        for ((column, reader), cell) in columns.zip(&mut self.cells) {
            *cell = reader.cell(rid);
            if *cell == LOAD {
                return Ok(Verdict::Unsure);
            }
            place = place * column.values() + *cell as usize;
        }
        if let Some(Some(known)) = self.known.get(place) {
            return Ok(*known);
        }
        for ((column, cell), seen) in self.columns.iter().zip(&self.cells).zip(&mut self.seen) {
            *seen = column.seen(*cell);
        }
        let verdict = match self.judge.passes(run, &self.seen)? {
            Some(true) => Verdict::Passes,
            Some(false) => Verdict::Fails,
            None => Verdict::Unsure,
        };
        if let Some(known) = self.known.get_mut(place) {
            *known = Some(verdict);
        }
        Ok(verdict)
    }
}

/// Goes through items from one on, and gives the rows of those that pass.
fn give(
    leaf: &mut Leaf<'_>,
    mut sieve: Sieve<'_>,
    rids: &RidSet,
    first: u64,
    emit: &mut Emit<'_>,
) -> Result<End> {
    let mut known = Known::of_keys(leaf);
    let way = if known.is_some() { "make rows of keys" } else { "fetch by resource id" };
    leaf.note(|| way.to_owned());
    let mut left = rids.iter_from(first).peekable();
    let mut size = BATCH_FIRST;
    while left.peek().is_some() {
        let (mut batch, mut looks, mut last) = (Vec::with_capacity(size), 0, 0);
        for rid in left.by_ref() {
            (looks, last) = (looks + 1, rid);
            match sieve.verdict(&leaf.run, rid)? {
                Verdict::Fails => {}
                verdict => batch.push((rid, verdict)),
            }
            if batch.len() >= size || looks >= LOOKS_MAX {
                break;
            }
        }
        leaf.report.entries_scanned += looks * sieve.columns.len() as u64;
        leaf.report.rows_evaluated += looks;
        let is_last = left.peek().is_none();
        let flow = match &mut known {
            Some(known) => make(leaf, known, &batch, emit)?,
            None => load(leaf, &batch, emit)?,
        };
        if let ControlFlow::Break(is_done) = flow {
            return Ok(if is_last && is_done { End::Exhausted } else { End::Stopped });
        }
        if !is_last && leaf.page_is_over() {
            return Ok(End::OutOfBudget(Position::Rid { rid: last, row: ALL_ROWS }));
        }
        size = (size * 2).min(BATCH_MAX);
    }
    Ok(End::Exhausted)
}

/// Whether to go on; if not, whether the last row was that of the last item.
type Flow = ControlFlow<bool>;

/// Loads items and gives their rows.
fn load(leaf: &mut Leaf<'_>, batch: &[(u64, Verdict)], emit: &mut Emit<'_>) -> Result<Flow> {
    let rids: Vec<u64> = batch.iter().map(|(rid, _)| *rid).collect();
    let items = items::fetch(leaf, &rids)?;
    for (at, item) in items.iter().enumerate() {
        if rows_by_rid(leaf, item, 0, emit)?.is_break() {
            return Ok(ControlFlow::Break(at + 1 == items.len()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Gives the rows of items without loading those that their keys tell enough of.
fn make(
    leaf: &mut Leaf<'_>,
    known: &mut Known<'_>,
    batch: &[(u64, Verdict)],
    emit: &mut Emit<'_>,
) -> Result<Flow> {
    // Without an order a place is a resource id.
    let mut places = PlaceList::new(0);
    batch.iter().for_each(|(rid, _)| places.push([], *rid));
    let item_keys = items::keys_if(leaf, known.needs_item_key(), &places)?;
    let mut text = String::new();
    for (at, ((rid, verdict), place)) in batch.iter().zip(places.iter()).enumerate() {
        text.clear();
        let item_key = item_keys.get(at);
        let is_known = *verdict == Verdict::Passes && known.write(&mut text, place, item_key);
        let flow = match is_known {
            true => known_row(leaf, &text, *rid, emit)?,
            false => load(leaf, &[(*rid, *verdict)], emit)?.map_break(|_| ()),
        };
        if flow.is_break() {
            return Ok(ControlFlow::Break(at + 1 == batch.len()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn known_row(
    leaf: &mut Leaf<'_>,
    text: &str,
    rid: u64,
    emit: &mut Emit<'_>,
) -> Result<ControlFlow<()>> {
    let (run, report) = (&mut leaf.run, &mut leaf.report);
    let mut flow = ControlFlow::Continue(());
    run.rows_known(Document::new(text), &mut |row| {
        report.rows_out += 1;
        flow = emit(LeafRow { row, position: Position::Rid { rid, row: 1 } });
        flow
    })?;
    Ok(flow)
}

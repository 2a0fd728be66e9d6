//! How a leaf decides which way to take.
//!
//! [`choose`] is the only place where plans are made, and [`cost`] the only list of what things
//! cost. It weighs what the query is (its [`Facts`] and [`Access`]) against what is known of the
//! partition (`statistics.rs`). Roughly:
//!
//! - **Rows without an order.** Few items that an index finds are fetched. A filter that no index
//!   answers is decided on columns if a look at some items says that few pass. Else items are
//!   scanned: along their age until there are enough rows, or all of them as they lie.
//! - **Rows in an order.** Few items that an index finds are fetched and sorted. Else an index that
//!   has the order is walked, with the items that the filter leaves if those are worth knowing.
//! - **Groups.** A counter or the ends of an index where they are the answer; columns; few items
//!   that are fetched; else all.
//!
//! Items of small partitions are scanned in any case. Whatever the plan, the query is evaluated on
//! every item that is loaded, and rows come in the same order with the same positions.

use partita_model::{Error, IndexStep, Result};
use partita_query::access::{Access, Test};
use partita_query::{Facts, Judge, OrderFact, Reads};

use super::Leaf;
use super::columns::ColumnScan;
use super::groups::Extremes;
use super::key_rows::KeyRows;
use super::lookup::{Effort, Found};
use super::order_walk::{WalkPlan, WalkedIndex};
use super::plan::{ItemSet, LeafPlan};
use super::reader::{CompositePart, composite_for, values_at};
use crate::index::ServedPolicy;
use crate::op::PlanHint;
use crate::query::places::Position;

/// What things cost, in entries of an index that are passed.
pub(super) mod cost {
    use partita_query::access::{Access, Test};

    /// To pass an item in a scan.
    pub(in super::super) const SCAN: u64 = 4;
    /// To load an item by its resource id.
    pub(in super::super) const LOAD: u64 = 32;
    /// To begin a range.
    pub(in super::super) const RANGE: u64 = 16;

    /// A lookup may always bring this many items.
    pub(super) const LOOKUP_LEAST: u64 = 256;
    /// The effort of the first look at each of several conditions.
    pub(in super::super) const FIRST_TRY: u64 = 1_024;
    /// With so few items left, looking at them is cheaper than another condition.
    pub(in super::super) const FEW: u64 = 64;
    /// How many entries of another condition are worth it for an item that it may save.
    pub(in super::super) const ENTRIES_PER_LOAD: u64 = 25;
    /// After so many entries of a value that is done, a new search finds the next value sooner.
    pub(in super::super) const SKIP_AFTER: u64 = 128;
    /// A walk that loaded this many items, and few of them fit the filter, is given up for a scan.
    pub(in super::super) const WALK_LOADS: u64 = 4_096;
    /// A partition key is asked of the index if it has one or more of so many items.
    pub(in super::super) const KEY_SHARE: u64 = 16;

    /// More columns take longer to read than the items.
    pub(super) const COLUMNS_MAX: usize = 3;
    /// One of so many items is looked at before a filter is decided on columns.
    pub(super) const SAMPLE_SHARE: u64 = 32;
    /// The cache holds several columns if it has this many bytes for each item.
    pub(super) const COLUMN_BYTES: u64 = 96;

    /// To go through columns of all items. To read them takes twice as long, but is done once for
    /// several queries.
    pub(in super::super) fn of_columns(columns: usize, items: u64) -> u64 {
        (columns as u64).saturating_mul(items)
    }

    /// How many items a lookup may bring to be better than a scan of these.
    pub(super) fn lookup_max(items: u64) -> u64 {
        items.saturating_mul(SCAN) / LOAD
    }

    /// What an access is likely to cost; only the order counts.
    pub(in super::super) fn of_access(access: &Access) -> u64 {
        match access {
            Access::Nothing => 0,
            Access::Condition(condition) => match &condition.test {
                Test::Values(intervals) => {
                    let points = intervals.iter().filter(|interval| interval.as_point().is_some());
                    let (points, all) = (points.count() as u64, intervals.len() as u64);
                    points + (all - points) * 1_000
                }
                Test::Kinds(_) => 20_000,
                Test::Each(_) => 100_000,
            },
            Access::Or(parts) | Access::And(parts) => {
                parts.iter().map(of_access).fold(10, u64::saturating_add)
            }
            Access::All | Access::Unknown => u64::MAX,
        }
    }
}

/// What a leaf is asked for.
#[derive(Clone, Copy)]
pub(super) enum Goal<'g> {
    /// The rows behind a place. Without an order the place decides how they go on.
    Rows {
        after: Option<&'g Position>,
    },
    Groups,
}

/// The plan of a leaf.
pub(super) fn choose<'a>(
    goal: Goal<'_>,
    facts: &'a Facts,
    access: &'a Access,
    leaf: &mut Leaf<'a>,
) -> Result<LeafPlan<'a>> {
    match goal {
        Goal::Rows { .. } if facts.ordered => ordered(facts, access, leaf),
        Goal::Rows { after } => unordered(access, after, leaf),
        Goal::Groups => grouped(facts, access, leaf),
    }
}

fn unordered<'a>(
    access: &'a Access,
    after: Option<&Position>,
    leaf: &mut Leaf<'a>,
) -> Result<LeafPlan<'a>> {
    let may_be_held = leaf.may_be_held()?;
    let is_begun_by_key = matches!(after, Some(Position::Key { .. }));
    if leaf.hint == PlanHint::Best && !is_begun_by_key {
        // What began oldest first goes on like that, whatever it costs in a large partition.
        let is_bound = after.is_some() && !may_be_held;
        let most = if is_bound { Some(u64::MAX) } else { worthwhile(access, leaf)? };
        if let Some(most) = most
            && let Found::Only(set) = leaf.look_up(access, Effort::Selective(most))?
        {
            return Ok(LeafPlan::Fetch(set));
        }
        if let Some(plan) = filtered_on_columns(after.is_some(), leaf)? {
            return Ok(plan);
        }
    }
    if is_begun_by_key || after.is_none() && !may_be_held {
        return Ok(LeafPlan::ScanByKey);
    }
    if !may_be_held {
        return Ok(LeafPlan::ScanByAge { cost_max: u64::MAX });
    }
    // Along resource ids a scan ends with the last row that is wanted, but loads item by item, and
    // passes all items of the partition. Going through all items takes less for each.
    let reach = leaf.items_in_reach()?;
    let passed = leaf.items_in_partition()? / reach.max(1);
    let want = u64::try_from(leaf.want).unwrap_or(u64::MAX);
    let by_age = want.saturating_mul(cost::LOAD.saturating_add(passed));
    let by_key = reach.saturating_mul(cost::SCAN);
    Ok(match by_age < by_key && leaf.hint == PlanHint::Best {
        true => LeafPlan::ScanByAge { cost_max: by_key },
        false => LeafPlan::KeepOldest { want: leaf.want },
    })
}

/// How many items a lookup may bring to be better than a scan; None if it cannot be.
fn worthwhile(access: &Access, leaf: &Leaf<'_>) -> Result<Option<u64>> {
    if matches!(access, Access::All | Access::Unknown) {
        return Ok(None);
    }
    let items = leaf.items_in_reach()?;
    if items <= leaf.budget.settings.scan_items && *access != Access::Nothing {
        return Ok(None);
    }
    Ok(Some(cost::lookup_max(items).max(cost::LOOKUP_LEAST)))
}

/// Decides a filter that no index answers on columns, if that is less work than a scan.
fn filtered_on_columns<'a>(is_begun: bool, leaf: &mut Leaf<'a>) -> Result<Option<LeafPlan<'a>>> {
    let Some(judge) = judge(leaf)? else { return Ok(None) };
    // Once rows came by resource id they go on like that, and no other way is shorter.
    let before = leaf.report.clone();
    if (is_begun || few_pass(leaf, judge.paths())?)
        && let Some(scan) = ColumnScan::read(leaf, judge.paths(), None)?
    {
        let made_of_keys = KeyRows::of_passing(leaf).is_some();
        return Ok(Some(LeafPlan::FilterColumns { judge, scan, made_of_keys }));
    }
    // The look was in vain: the query pays for the way that it takes instead.
    leaf.report = before;
    Ok(None)
}

/// The judge of the filter, if columns may be the way to decide it.
fn judge(leaf: &Leaf<'_>) -> Result<Option<Judge>> {
    let settings = leaf.budget.settings;
    let reach = leaf.items_in_reach()?;
    let fits = reach.saturating_mul(cost::COLUMN_BYTES) <= settings.cache_bytes_max as u64;
    if !leaf.is_whole()
        || reach < leaf.items_in_partition()?
        || reach <= settings.scan_items
        || !fits
    {
        return Ok(None);
    }
    let Some(judge) = leaf.query.judge() else { return Ok(None) };
    let served = leaf.served();
    let is_served = has_all_ids(&served) && judge.paths().iter().all(|path| served.indexes(path));
    let few = (1..=cost::COLUMNS_MAX).contains(&judge.paths().len());
    Ok((is_served && few).then_some(judge))
}

/// Does the index tell of every item that it is there?
fn has_all_ids(served: &ServedPolicy<'_>) -> bool {
    served.indexes(&[IndexStep::Member("id".to_owned())])
}

/// Is it less work to decide on columns and to load what passes, or is in doubt, than to scan, by a
/// look at some items?
fn few_pass(leaf: &mut Leaf<'_>, paths: &[Vec<IndexStep>]) -> Result<bool> {
    let most = leaf.budget.settings.sample_items;
    if most == 0 {
        return Ok(true);
    }
    let reach = leaf.items_in_reach()?;
    let sample = leaf.sample((reach / cost::SAMPLE_SHARE).clamp(1, most), paths)?;
    // Half an item more has passed: no sample is large enough to say that none does.
    let (part, whole) = (2 * sample.passed + 1, 2 * sample.seen + 2);
    let wanted = u64::try_from(leaf.want).unwrap_or(u64::MAX);
    let scanned = reach.min(wanted.saturating_mul(whole) / part);
    let loads = scanned * (2 * sample.loaded + 1) / whole;
    let columns = cost::of_columns(paths.len(), reach);
    Ok(columns + loads * cost::LOAD < scanned * cost::SCAN)
}

fn ordered<'a>(facts: &'a Facts, access: &'a Access, leaf: &mut Leaf<'a>) -> Result<LeafPlan<'a>> {
    let sort = LeafPlan::Sort { want: leaf.want };
    let Some(paths) = paths_of(&facts.order) else { return Ok(sort) };
    let reach = leaf.items_in_reach()?;
    let settings = leaf.budget.settings;
    let once = gives_once(facts, leaf) && tells_places(facts, access, &paths, leaf);
    if leaf.hint == PlanHint::ScanOnly || reach <= settings.scan_items && !once {
        return Ok(sort);
    }
    let among = match is_answered_by_walk(access, &paths) {
        true => None,
        false => narrowed(access, &paths, leaf)?,
    };
    match among {
        Some(set) if set.rids.len() <= settings.sort_items => {
            Ok(LeafPlan::SortFetched { set, want: leaf.want })
        }
        // A key's items lie side by side; an index goes through all keys of the partition.
        _ if !leaf.only.is_empty() && reach <= settings.sort_items => Ok(sort),
        among => Ok(match walked(facts, access, &paths, among, leaf)? {
            Some(walk) => LeafPlan::Walk(walk),
            None => sort,
        }),
    }
}

/// The walk that tells the places of rows, for queries over several partitions. None where only
/// the items tell them, or where these are few.
pub(super) fn places<'a>(
    facts: &'a Facts,
    access: &'a Access,
    leaf: &mut Leaf<'a>,
) -> Result<Option<WalkPlan<'a>>> {
    let Some(paths) = paths_of(&facts.order) else { return Ok(None) };
    let is_small = leaf.items_in_reach()? <= leaf.budget.settings.scan_items;
    if !tells_places(facts, access, &paths, leaf) || is_small && !gives_once(facts, leaf) {
        return Ok(None);
    }
    walked(facts, access, &paths, None, leaf)
}

/// A walk along an index that has the order. None if no index tells of all items.
fn walked<'a>(
    facts: &'a Facts,
    access: &'a Access,
    paths: &[&'a [IndexStep]],
    among: Option<ItemSet>,
    leaf: &mut Leaf<'a>,
) -> Result<Option<WalkPlan<'a>>> {
    let index = match paths {
        [path] => match values_at(access, path) {
            Some(intervals) => WalkedIndex::Within { path, intervals },
            None => match leaf.shapes(path)? {
                Some(shapes) => WalkedIndex::Path { path, shapes },
                None => return Ok(None),
            },
        },
        _ => match composite_for(&leaf.served(), &facts.order, paths) {
            Some(index) => {
                WalkedIndex::Composite { index, range: CompositePart::of(index, access).range }
            }
            None => return Ok(None),
        },
    };
    let tells_places = tells_places(facts, access, paths, leaf);
    let is_answered = is_answered_by_walk(access, paths);
    Ok(Some(WalkPlan {
        index,
        among,
        is_answered,
        made_of_keys: tells_places && KeyRows::of_places(leaf, is_answered).is_some(),
        once: tells_places && gives_once(facts, leaf),
    }))
}

/// Do the places of a walk along these paths tell which items have rows?
fn tells_places(facts: &Facts, access: &Access, paths: &[&[IndexStep]], leaf: &Leaf<'_>) -> bool {
    leaf.hint == PlanHint::Best
        && !facts.joins
        && leaf.is_whole()
        && is_answered_by_walk(access, paths)
}

/// Is one place of those with equal keys enough: is each row, once, what it is ordered by? A scan
/// would bring all of them, page after page.
fn gives_once(facts: &Facts, leaf: &Leaf<'_>) -> bool {
    facts.distinct && facts.is_ordered_by_row() && !leaf.expires()
}

/// The items that the filter of an ordered query leaves, if finding them is worth it.
fn narrowed(
    access: &Access,
    paths: &[&[IndexStep]],
    leaf: &mut Leaf<'_>,
) -> Result<Option<ItemSet>> {
    let most = match tells_only_of(access, paths) {
        // The walk begins and ends where the filter says: a set of items would add little.
        true => cost::LOOKUP_LEAST,
        false => cost::lookup_max(leaf.items_in_reach()?).max(cost::LOOKUP_LEAST),
    };
    Ok(match leaf.look_up(access, Effort::Selective(most))? {
        Found::Everything { .. } => None,
        Found::Only(set) => Some(set),
    })
}

/// Does the walk along a path bring what a filter leaves, and nothing else?
pub(in crate::query) fn is_answered_by_walk(access: &Access, paths: &[&[IndexStep]]) -> bool {
    match (access, paths) {
        (Access::All, _) => true,
        (Access::Condition(condition), [path]) => {
            condition.exact && condition.path == *path && matches!(condition.test, Test::Values(_))
        }
        _ => false,
    }
}

/// Does a filter tell of nothing but values at these paths?
fn tells_only_of(access: &Access, paths: &[&[IndexStep]]) -> bool {
    let mut only = true;
    access.visit(&mut |condition| {
        let is_range = matches!(condition.test, Test::Values(_));
        only &= is_range && paths.contains(&condition.path.as_slice());
    });
    only && !matches!(access, Access::Or(_))
}

/// Would indexes find exactly the items that a filter leaves?
pub(super) fn is_answered(access: &Access, served: &ServedPolicy<'_>) -> bool {
    let mut all_served = true;
    access.visit(&mut |condition| all_served = all_served && served.indexes(&condition.path));
    let narrows = !matches!(access, Access::All | Access::Unknown | Access::Nothing);
    narrows && access.is_exact() && all_served
}

/// The paths of an order; None if a column is something else than a way through members.
pub(super) fn paths_of(order: &[OrderFact]) -> Option<Vec<&[IndexStep]>> {
    order.iter().map(|column| column.path.as_deref().filter(|path| !path.is_empty())).collect()
}

/// Refuses an order that no index has, as the service does. An index leads to items: it has no
/// order of what a JOIN or a subquery makes of them.
pub(super) fn check_order(facts: &Facts, served: &ServedPolicy<'_>) -> Result<()> {
    let refused = |message: &str| Err(Error::bad_request(format!(r#"{{"Errors":["{message}"]}}"#)));
    if facts.order.iter().any(|column| !column.is_of_item) {
        return refused("Order-by over correlated collections is not supported.");
    }
    match paths_of(&facts.order).as_deref() {
        None | Some([]) => Ok(()),
        Some([path]) if served.indexes(path) => Ok(()),
        Some([_]) => {
            refused("The index path corresponding to the specified order-by item is excluded.")
        }
        Some(paths) if composite_for(served, &facts.order, paths).is_some() => Ok(()),
        Some(_) => refused(
            "The order by query does not have a corresponding composite index that it can be \
             served from.",
        ),
    }
}

fn grouped<'a>(facts: &'a Facts, access: &'a Access, leaf: &mut Leaf<'a>) -> Result<LeafPlan<'a>> {
    let scan = LeafPlan::GroupScanned { by_age: facts.lists && leaf.may_be_held()? };
    let served = leaf.served();
    if leaf.hint == PlanHint::ScanOnly || facts.joins || !has_all_ids(&served) {
        return Ok(scan);
    }
    let (reach, expires) = (leaf.items_in_reach()?, leaf.expires());
    let only_counts = *access == Access::All && facts.selects == Reads::Paths(Vec::new());
    if only_counts && !expires && (leaf.is_whole() || leaf.only_key().is_some()) {
        return Ok(LeafPlan::Count { items: reach });
    }
    // In lists the order of items shows; from columns values are gathered one by one.
    let Some(of_area) = leaf.access_of_area()?.filter(|_| !facts.lists) else {
        return few_grouped(access, scan, leaf);
    };
    if let (Some(path), false, true) = (&facts.extremes_of, expires, leaf.is_whole())
        && served.indexes(path)
        && let Some(extremes) = Extremes::read(leaf, path)?
    {
        return Ok(LeafPlan::Extremes(extremes));
    }
    let effort = match of_area.is_exact() {
        true => Effort::Exact,
        false => Effort::Selective(cost::lookup_max(reach).max(cost::LOOKUP_LEAST)),
    };
    let (mut set, is_exact) = match leaf.look_up(&of_area, effort)? {
        Found::Everything { exact } => (None, exact),
        Found::Only(set) => {
            let exact = set.exact;
            (Some(set), exact)
        }
    };
    if !leaf.is_whole() && !is_exact {
        return few_grouped(access, scan, leaf);
    }
    if expires {
        match leaf.living(set)? {
            Some(living) => set = Some(living),
            None => return few_grouped(access, scan, leaf),
        }
    }
    let by_scan = reach.saturating_mul(cost::SCAN);
    let by_rid = set.as_ref().map_or(reach, |set| set.rids.len()).saturating_mul(cost::LOAD);
    if let Reads::Paths(paths) = if is_exact { &facts.selects } else { &facts.reads }
        && cost::of_columns(paths.len(), leaf.items_in_partition()?) <= by_rid.min(by_scan)
        && paths.iter().all(|path| served.indexes(path))
        && let Some(mut scan) = ColumnScan::read(leaf, paths, set.as_ref().map(|set| &set.rids))?
    {
        leaf.report.entries_scanned += scan.entries;
        scan.set = set;
        return Ok(LeafPlan::GroupColumns { scan, is_exact });
    }
    Ok(match set {
        Some(set) if by_rid <= by_scan => LeafPlan::GroupFetched(set),
        Some(_) | None => scan,
    })
}

/// Groups of items found by the index and loaded, if they are few.
fn few_grouped<'a>(
    access: &Access,
    scan: LeafPlan<'a>,
    leaf: &mut Leaf<'a>,
) -> Result<LeafPlan<'a>> {
    if matches!(access, Access::All | Access::Unknown) {
        return Ok(scan);
    }
    let most = cost::lookup_max(leaf.items_in_reach()?);
    Ok(match leaf.look_up(access, Effort::Selective(most))? {
        Found::Only(set) => LeafPlan::GroupFetched(set),
        Found::Everything { .. } => scan,
    })
}

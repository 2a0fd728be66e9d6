//! The rows of all partitions as one stream, in rounds.
//!
//! A stream knows how far it has come. Each round brings the next rows, in order, and the place
//! behind each; a page takes what it needs of them and remembers the place of the last.
//!
//! Without ORDER BY the units follow each other in EPK order. Without a filter the first one often
//! fills the page, so the first round asks it alone; otherwise as many are asked as it takes. What
//! was asked in vain because a unit before it filled the page is forgotten, its cost included: the
//! page is the same as if units had been asked one by one. Served as by the service, a page ends
//! with its partition, even if it has no rows: clients count on it.
//!
//! With ORDER BY every unit is asked for a little more than its share of the page, and the rows are
//! merged. A unit that stopped before its end sets a limit: rows behind its last place may have to
//! wait for rows that it did not give yet. If few rows are wanted, units are asked where they have
//! rows rather than for the rows, and only those are loaded that are left after merging.

use std::cmp::Ordering;
use std::collections::HashMap;

use partita_model::{Error, Result};
use partita_query::access::Access;
use partita_storage::Snapshot;

use super::Job;
use super::compact::Doubt;
use super::cursor::{self, Cursor, Unit};
use super::leaf::End;
use super::leaves::{Answer, Question, ask, ask_rows_at};
use super::position::{LeafRow, Order, Position, SortPosition};
use super::token;
use crate::context::Work;
use crate::op::{LeafReport, Serving};

/// A row, and the cursor behind it.
pub(super) struct StreamRow {
    pub(super) text: String,
    pub(super) hash: u128,
    place: Place,
    /// Only the place is known yet.
    waits: bool,
}

/// Where a row was found: in an unordered stream also the unit counts.
struct Place {
    unit: usize,
    position: Position,
}

impl Place {
    fn sorted(&self) -> Option<SortPosition> {
        match &self.position {
            Position::Sorted(at) => Some(at.clone()),
            Position::Key { .. } | Position::Rid { .. } => None,
        }
    }
}

/// A unit that may have to load rows of which it gave the places.
struct Waiting {
    unit: usize,
    view: Box<dyn Snapshot>,
    /// Which of the reports is the unit's.
    report: usize,
}

/// What a round brought.
pub(super) struct Round {
    pub(super) rows: Vec<StreamRow>,
    /// There is no more.
    pub(super) done: bool,
    /// A unit has used up its share of a page, or the page ends with its partition.
    pub(super) tired: bool,
}

/// All rows of a query, as far as FROM, WHERE, SELECT and ORDER BY decide.
pub(super) struct Stream {
    units: Vec<Unit>,
    /// Unordered: the first unit that is not done. Its start is kept up to date.
    next: usize,
    /// Unordered: units to ask in the next round.
    wave: usize,
    order: Option<Order>,
    /// Ordered: all before this place is done.
    sorted: Option<SortPosition>,
    /// Ordered: which units may have more.
    open: Vec<bool>,
    doubt: Option<Doubt>,
}

/// Units that are asked in one round at most: their rows are held until all before them are there.
const WAVE_MAX: usize = 16;
/// Rows of a unit beyond its share of a page.
const SPARE_ROWS: usize = 4;
/// If more rows are wanted than this, they may fill a page by their bytes: they are asked for at
/// once.
const PLACES_MAX: usize = 1_000;

impl Stream {
    pub(super) fn unordered(units: Vec<Unit>) -> Stream {
        Stream { units, next: 0, wave: 1, order: None, sorted: None, open: Vec::new(), doubt: None }
    }

    pub(super) fn ordered(
        units: Vec<Unit>,
        order: Order,
        after: Option<SortPosition>,
        doubt: Option<Doubt>,
    ) -> Stream {
        let open = vec![true; units.len()];
        Stream { units, next: 0, wave: 1, order: Some(order), sorted: after, open, doubt }
    }

    /// The next rows: about `want` of them, none if they are hard to find.
    pub(super) fn round(
        &mut self,
        job: &Job<'_>,
        work: &mut Work<'_>,
        want: usize,
        reports: &mut Vec<LeafReport>,
    ) -> Result<Round> {
        match self.order.clone() {
            None => self.spread_round(job, work, want, reports),
            Some(order) => self.sorted_round(job, work, &order, want, reports),
        }
    }

    /// The cursor behind a row.
    pub(super) fn cursor_at(&self, row: &StreamRow) -> Option<Cursor> {
        match &row.place.position {
            Position::Sorted(position) => Some(Cursor::Sorted(position.clone())),
            position => {
                let units = self.units.get(row.place.unit..).unwrap_or_default();
                cursor::spread(units, Some(position.clone()))
            }
        }
    }

    /// The cursor behind all rounds so far; None if all is done.
    pub(super) fn cursor(&self) -> Option<Cursor> {
        if self.order.is_some() {
            if !self.open.contains(&true) {
                return None;
            }
            return self.sorted.clone().map(Cursor::Sorted);
        }
        let units = self.units.get(self.next..).unwrap_or_default();
        cursor::spread(units, units.first().and_then(|unit| unit.start.clone()))
    }

    fn spread_round(
        &mut self,
        job: &Job<'_>,
        work: &mut Work<'_>,
        want: usize,
        reports: &mut Vec<LeafReport>,
    ) -> Result<Round> {
        let settings = job.budget.settings;
        let wave = self.next_wave(job);
        let next = self.units.get(self.next..).unwrap_or_default();
        // The page goes as far as the throughput does.
        let wave = job.admit_first(work, next.get(..wave).unwrap_or(next))?;
        let asked: Vec<(&Unit, Option<&Position>)> =
            self.units.iter().skip(self.next).take(wave).map(|u| (u, u.start.as_ref())).collect();
        let bytes_max = settings.page_bytes_max;
        let question = Question::Rows { want, bytes_max, in_turn: true };
        let answers = ask(job, work, &asked, question)?;
        let mut round = Round { rows: Vec::new(), done: false, tired: false };
        let mut bytes = 0;
        let ends_with_partition = job.request.serving == Serving::AsService;
        for answer in answers {
            let Answer { rows, end, report, .. } = answer;
            reports.push(report);
            let unit = self.next;
            let last = rows.last().map(|row| row.position.clone());
            bytes += rows.iter().map(|row| row.row.text.len()).sum::<usize>();
            round.rows.extend(rows.into_iter().map(|row| placed(row, unit)));
            let stopped_at = match end {
                End::Exhausted => None,
                End::Stopped => last,
                End::OutOfBudget(position) => {
                    round.tired = true;
                    Some(position)
                }
            };
            if let Some(position) = stopped_at {
                if let Some(unit) = self.units.get_mut(unit) {
                    unit.start = Some(position);
                }
                break;
            }
            self.next += 1;
            if ends_with_partition && self.enters_partition() {
                round.tired = true;
                break;
            }
            if round.rows.len() >= want || bytes >= settings.page_bytes_max {
                break;
            }
        }
        round.done = self.next >= self.units.len();
        Ok(round)
    }

    /// How many units to ask in the next round. Those behind one that time cuts off are asked in
    /// vain; so a unit that was begun on a page before, and units late in a page, are asked alone.
    fn next_wave(&mut self, job: &Job<'_>) -> usize {
        let wave = self.wave;
        if job.request.serving == Serving::AsService {
            self.wave = (wave * 2).min(WAVE_MAX);
            return wave;
        }
        self.wave = WAVE_MAX;
        let is_begun = self.units.get(self.next).is_some_and(|unit| unit.start.is_some());
        let has_filter = *job.query.access() != Access::All;
        match is_begun || job.budget.page_time_is_short() {
            true => 1,
            false if has_filter => WAVE_MAX,
            false => wave,
        }
    }

    /// Is the next unit in another partition than the one before?
    fn enters_partition(&self) -> bool {
        let of = |unit: usize| self.units.get(unit).map(|unit| unit.partition);
        of(self.next).is_some_and(|next| of(self.next.wrapping_sub(1)) != Some(next))
    }

    fn sorted_round(
        &mut self,
        job: &Job<'_>,
        work: &mut Work<'_>,
        order: &Order,
        want: usize,
        reports: &mut Vec<LeafReport>,
    ) -> Result<Round> {
        let after = self.sorted.clone().map(Position::Sorted);
        let open: Vec<usize> = (0..self.units.len()).filter(|at| self.open[*at]).collect();
        let asked: Vec<(&Unit, Option<&Position>)> = open
            .iter()
            .filter_map(|at| self.units.get(*at).map(|unit| (unit, after.as_ref())))
            .collect();
        let settings = job.budget.settings;
        let share = share_of(want, asked.len());
        let bytes_max = settings.sort_bytes_max / asked.len().max(1);
        let bytes_max = bytes_max.max(settings.page_bytes_max);
        let few = want <= PLACES_MAX && asked.len() > 1 && !job.query.facts().distinct;
        let question = match few {
            true => Question::Places { want: share, bytes_max },
            false => Question::Rows { want: share, bytes_max, in_turn: false },
        };
        let answers = ask(job, work, &asked, question)?;
        let mut limit: Option<SortPosition> = None;
        let mut tired = false;
        let mut rows: Vec<StreamRow> = Vec::new();
        let mut views = Vec::with_capacity(answers.len());
        for (answer, unit) in answers.into_iter().zip(open) {
            tired |= matches!(answer.end, End::OutOfBudget(_)) && answer.rows.len() < share;
            let last_place = answer.places.last().cloned().map(Position::Sorted);
            let last = answer.rows.last().map(|row| row.position.clone()).or(last_place);
            let stopped_at = match answer.end {
                End::Exhausted => None,
                End::Stopped => last,
                End::OutOfBudget(position) => Some(position),
            };
            if let Some(Position::Sorted(at)) = stopped_at {
                limit = Some(nearer(order, limit, at));
            } else {
                self.open[unit] = false;
            }
            if let Some(view) = answer.view {
                views.push(Waiting { unit, view, report: reports.len() });
            }
            reports.push(answer.report);
            rows.extend(answer.rows.into_iter().map(|row| placed(row, unit)));
            rows.extend(answer.places.into_iter().map(|place| waiting(place, unit)));
        }
        rows.sort_by(|a, b| compare(order, a, b));
        if let Some(last) = last_wanted(&rows, want) {
            limit = Some(nearer(order, limit, last));
        }
        if let Some(limit) = &limit {
            self.hold_back(order, limit, &mut rows);
        }
        self.load(job, views, &mut rows, reports)?;
        self.settle_doubt(&rows, limit.as_ref())?;
        self.sorted = limit;
        Ok(Round { rows, done: !self.open.contains(&true), tired })
    }

    /// Drops the rows behind the limit. Their units are asked again.
    fn hold_back(&mut self, order: &Order, limit: &SortPosition, rows: &mut Vec<StreamRow>) {
        let held = rows.partition_point(|row| match &row.place.position {
            Position::Sorted(at) => order.compare(at, limit).is_le(),
            Position::Key { .. } | Position::Rid { .. } => false,
        });
        for row in rows.drain(held..) {
            self.open[row.place.unit] = true;
        }
    }

    /// Brings the rows of which only the places are known. A place without a row is dropped.
    fn load(
        &self,
        job: &Job<'_>,
        views: Vec<Waiting>,
        rows: &mut Vec<StreamRow>,
        reports: &mut [LeafReport],
    ) -> Result<()> {
        let mut places: HashMap<usize, Vec<SortPosition>> = HashMap::new();
        for row in rows.iter_mut().filter(|row| row.waits) {
            if let Position::Sorted(at) = &mut row.place.position {
                // The place comes back with its row.
                let left = SortPosition { rid: at.rid, ..SortPosition::default() };
                places.entry(row.place.unit).or_default().push(std::mem::replace(at, left));
            }
        }
        let mut asked = Vec::new();
        let mut noted = Vec::new();
        for Waiting { unit, view, report } in views {
            if let (Some(places), Some(of)) = (places.remove(&unit), self.units.get(unit)) {
                asked.push((of, view, places));
                noted.push((unit, report));
            }
        }
        if asked.is_empty() {
            return Ok(());
        }
        let mut loaded = HashMap::new();
        for (answer, (unit, report)) in ask_rows_at(job, asked)?.into_iter().zip(noted) {
            loaded.insert(unit, answer.rows.into_iter().peekable());
            if let Some(report) = reports.get_mut(report) {
                report.add(answer.report);
            }
        }
        // The rows of a unit come in the order of its places.
        rows.retain_mut(|row| {
            if !row.waits {
                return true;
            }
            let rid = rid_of(&row.place.position);
            let of_unit = loaded.get_mut(&row.place.unit);
            let found = of_unit.and_then(|rows| rows.next_if(|row| rid_of(&row.position) == rid));
            let Some(LeafRow { row: found, position }) = found else { return false };
            row.text = found.text;
            row.place.position = position;
            row.waits = false;
            true
        });
        Ok(())
    }

    /// Fails if what comes after a place that was not certain may have been delivered before.
    fn settle_doubt(&mut self, rows: &[StreamRow], limit: Option<&SortPosition>) -> Result<()> {
        let Some(doubt) = &self.doubt else { return Ok(()) };
        let first = match rows.first().map(|row| &row.place.position) {
            Some(Position::Sorted(at)) => Some(at),
            Some(Position::Key { .. } | Position::Rid { .. }) => {
                return Err(Error::internal("an ordered query met an unordered row"));
            }
            None => limit,
        };
        if first.is_some_and(|at| doubt.concerns(at)) {
            return Err(token::lost());
        }
        self.doubt = None;
        Ok(())
    }
}

fn rid_of(position: &Position) -> u64 {
    match position {
        Position::Sorted(SortPosition { rid, .. })
        | Position::Key { rid, .. }
        | Position::Rid { rid, .. } => *rid,
    }
}

/// How many rows to ask of each of several units. Keys are spread over partitions by hash, so a
/// unit's part of the first rows is about its share, more by the square root of it; three times as
/// much more is nearly always enough, and where it is not there is another round.
fn share_of(want: usize, units: usize) -> usize {
    match units {
        0 | 1 => want,
        units => {
            let share = want / units;
            want.min(share.saturating_add(3 * share.isqrt()).saturating_add(SPARE_ROWS))
        }
    }
}

fn placed(row: LeafRow, unit: usize) -> StreamRow {
    let place = Place { unit, position: row.position };
    StreamRow { text: row.row.text, hash: row.row.hash, place, waits: false }
}

/// The place of the last row that is of use, if there are more and some of them wait to be loaded.
fn last_wanted(rows: &[StreamRow], want: usize) -> Option<SortPosition> {
    let waits = rows.iter().skip(want).any(|row| row.waits);
    let last = rows.get(want.checked_sub(1)?).filter(|_| waits)?;
    last.place.sorted()
}

fn waiting(place: SortPosition, unit: usize) -> StreamRow {
    let place = Place { unit, position: Position::Sorted(place) };
    StreamRow { text: String::new(), hash: 0, place, waits: true }
}

/// The first of two places, of which one may not be there.
fn nearer(order: &Order, limit: Option<SortPosition>, at: SortPosition) -> SortPosition {
    match limit {
        Some(limit) if order.compare(&limit, &at).is_le() => limit,
        Some(_) | None => at,
    }
}

fn compare(order: &Order, a: &StreamRow, b: &StreamRow) -> Ordering {
    match (&a.place.position, &b.place.position) {
        (Position::Sorted(a), Position::Sorted(b)) => order.compare(a, b),
        _ => Ordering::Equal,
    }
}

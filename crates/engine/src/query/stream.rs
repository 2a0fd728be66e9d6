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
//! rows rather than for the rows, and only those are loaded that are left after merging
//! (`places.rs`). Those that cannot tell give rows at once; if others can, all are asked for
//! rows.

use std::cmp::Ordering;

use partita_model::{Error, Reservation, Result};
use partita_query::Row;
use partita_query::access::Access;

use super::Job;
use super::cursor::{self, Cursor, Unit};
use super::leaf::{End, is_of_one_value};
use super::places::{self, LeafRow, Order, PlaceList, Position, SortPosition};
use super::scheduler::leaves::{Answer, Question, ask, ask_rows_at};
use super::token;
use super::token::compact::Doubt;
use crate::context::Work;
use crate::op::{LeafReport, Serving};

/// A row, and where it was found.
pub(super) struct StreamRow {
    pub(super) text: String,
    pub(super) hash: u128,
    /// The number of its unit.
    unit: usize,
    place: Place,
}

impl StreamRow {
    /// How old its item is, where rows come oldest first.
    pub(super) fn age(&self) -> u64 {
        match self.place {
            Place::At(Position::Rid { rid, .. }) => rid,
            Place::At(Position::Key { .. } | Position::Sorted(_)) | Place::Listed(_) => 0,
        }
    }
}

/// A row's place among those of its unit.
enum Place {
    At(Position),
    /// The place with this number in the list of the unit.
    Listed(usize),
}

impl Place {
    fn sorted(&self) -> Option<&SortPosition> {
        match self {
            Place::At(position) => position.sorted(),
            Place::Listed(_) => None,
        }
    }
}

/// What a round brought.
#[derive(Default)]
pub(super) struct Round {
    pub(super) rows: Vec<StreamRow>,
    /// There is no more.
    pub(super) done: bool,
    /// A unit has used up its share of a page, or the page ends with its partition.
    pub(super) tired: bool,
    /// Of the rows.
    pub(super) memory: Vec<Reservation>,
}

/// All rows of a query, as far as FROM, WHERE, SELECT and ORDER BY decide.
#[derive(Default)]
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
    /// Ordered: the places of the last round's rows, for each unit, if only places were asked for.
    lists: Vec<PlaceList>,
    doubt: Option<Doubt>,
    /// Ordered: the last row of the page before, where the stream had to go back.
    delivered: Option<SortPosition>,
    /// How many streams more are read together with this one.
    siblings: usize,
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
        Stream { units, wave: 1, ..Stream::default() }
    }

    /// Of several that are read together.
    pub(super) fn one_of(self, streams: usize) -> Stream {
        Stream { siblings: streams.saturating_sub(1), ..self }
    }

    pub(super) fn ordered(
        units: Vec<Unit>,
        order: Order,
        after: Option<SortPosition>,
        doubt: Option<Doubt>,
    ) -> Stream {
        let open = vec![true; units.len()];
        Stream { units, order: Some(order), sorted: after, open, doubt, ..Stream::default() }
    }

    /// The memory that the rows of one of so many units may take in a round: together half of what
    /// the query may have, so that the other half is there for the page.
    fn memory_max(&self, job: &Job<'_>, units: usize) -> usize {
        job.memory.bytes_max() / (2 * units.max(1) * (1 + self.siblings))
    }

    /// Lets a stream of rows that are what they are ordered by go on behind those that are equal to
    /// the last one. Where keys do not tell which are, it goes back to the first with these keys.
    pub(super) fn begin_with_keys(&mut self) {
        let (Some(order), Some(after)) = (&self.order, self.sorted.take()) else { return };
        self.sorted = Some(match after.keys.iter().all(|key| is_of_one_value(key)) {
            true => order.behind(after.keys),
            false => {
                let first = order.before(after.keys.clone());
                self.delivered = Some(after);
                first
            }
        });
    }

    /// Was a row delivered on a page before, as far as places tell?
    pub(super) fn was_delivered(&self, row: &StreamRow) -> bool {
        let (Some(order), Some(delivered)) = (&self.order, &self.delivered) else { return false };
        self.sorted_place(row).is_some_and(|at| order.compare(&at, delivered).is_le())
    }

    /// The sort keys of a row of an ordered stream.
    pub(super) fn keys_of(&self, row: &StreamRow) -> Vec<Vec<u8>> {
        self.sorted_place(row).map(|at| at.keys).unwrap_or_default()
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
        match &row.place {
            Place::At(position @ (Position::Key { .. } | Position::Rid { .. })) => {
                let units = self.units.get(row.unit..).unwrap_or_default();
                cursor::spread(units, Some(position.clone()))
            }
            Place::At(Position::Sorted(_)) | Place::Listed(_) => {
                self.sorted_place(row).map(Cursor::Sorted)
            }
        }
    }

    /// The place behind a row of an ordered stream.
    fn sorted_place(&self, row: &StreamRow) -> Option<SortPosition> {
        match &row.place {
            Place::At(position) => position.sorted().cloned(),
            Place::Listed(at) => Some(self.lists.get(row.unit)?.get(*at)?.position()),
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
        let wave = self.next_wave(job);
        let next = self.units.get(self.next..).unwrap_or_default();
        // The page goes as far as the throughput does.
        let wave = job.admit_first(work, next.get(..wave).unwrap_or(next))?;
        let asked: Vec<(&Unit, Option<&Position>)> =
            self.units.iter().skip(self.next).take(wave).map(|u| (u, u.start.as_ref())).collect();
        let bytes_max = job.budget.settings.page_bytes_max;
        let memory_max = self.memory_max(job, wave);
        let question = Question::Rows { want, bytes_max, memory_max, in_turn: true };
        let answers = ask(job, work, &asked, question)?;
        let mut round = Round::default();
        let mut bytes = 0;
        let ends_with_partition = job.request.serving == Serving::AsService;
        for answer in answers {
            let Answer { rows, end, report, memory, .. } = answer;
            reports.push(report);
            round.memory.push(memory);
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
            if round.rows.len() >= want || bytes >= bytes_max {
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
        let units = self.open.iter().filter(|open| **open).count();
        let settings = job.budget.settings;
        let share = share_of(want, units);
        let bytes_max = (settings.sort_bytes_max / units.max(1)).max(settings.page_bytes_max);
        let memory_max = self.memory_max(job, units);
        let rows = Question::Rows { want: share, bytes_max, memory_max, in_turn: false };
        let is_few = want <= PLACES_MAX && units > 1 && !job.query.facts().distinct;
        let places = Question::Places { want: share, bytes_max, memory_max };
        let mut answers = self.ask_open(job, work, if is_few { places } else { rows })?;
        let told = answers.iter().filter(|answer| answer.places.is_some()).count();
        let round = if told > 0 && told == answers.len() {
            self.round_of_places(job, order, want, answers, reports)?
        } else {
            // Places and rows are not merged with each other.
            if told > 0 {
                answers = self.ask_open(job, work, rows)?;
            }
            self.round_of_rows(order, share, answers, reports)
        };
        self.resolve_doubt(&round.rows)?;
        Ok(round)
    }

    /// The numbers of the units that may have more.
    fn open_units(&self) -> Vec<usize> {
        (0..self.units.len()).filter(|at| self.open[*at]).collect()
    }

    /// Asks all open units; each begins where the stream stands.
    fn ask_open(
        &self,
        job: &Job<'_>,
        work: &mut Work<'_>,
        ask_for: Question,
    ) -> Result<Vec<Answer>> {
        let after = self.sorted.clone().map(Position::Sorted);
        let unit = |at| (&self.units[at], after.as_ref());
        let asked: Vec<(&Unit, Option<&Position>)> =
            self.open_units().into_iter().map(unit).collect();
        ask(job, work, &asked, ask_for)
    }

    /// Merges places, and brings the rows of those that come first.
    fn round_of_places(
        &mut self,
        job: &Job<'_>,
        order: &Order,
        want: usize,
        answers: Vec<Answer>,
        reports: &mut Vec<LeafReport>,
    ) -> Result<Round> {
        let open = self.open_units();
        let first_report = reports.len();
        let mut units = Vec::with_capacity(answers.len());
        let mut memory = Vec::with_capacity(2 * answers.len());
        for Answer { places, view, end, report, memory: of_places, .. } in answers {
            units.push((places.unwrap_or_default(), end != End::Exhausted, view));
            reports.push(report);
            memory.push(of_places);
        }
        let lists: Vec<(&PlaceList, bool)> =
            units.iter().map(|(places, has_more, _)| (places, *has_more)).collect();
        let merged = places::merge(&lists, order, want);
        let mut used = vec![0; lists.len()];
        merged.iter().for_each(|list| used[*list] += 1);
        let (mut asked, mut noted) = (Vec::new(), Vec::new());
        for (at, (mut places, has_more, view)) in units.into_iter().enumerate() {
            self.open[open[at]] = has_more || used[at] < places.len();
            places.truncate(used[at]);
            if let (Some(view), false) = (view, places.is_empty()) {
                asked.push((&self.units[open[at]], view, places));
                noted.push(at);
            }
        }
        self.lists.resize_with(self.units.len(), PlaceList::default);
        let mut found: Vec<_> = used.iter().map(|_| Vec::new().into_iter().enumerate()).collect();
        let memory_max = self.memory_max(job, asked.len());
        for (answer, at) in ask_rows_at(job, asked, memory_max)?.into_iter().zip(noted) {
            reports[first_report + at].add(answer.report);
            memory.push(answer.memory);
            found[at] = answer.rows_at.into_iter().enumerate();
            self.lists[open[at]] = answer.places.unwrap_or_default();
        }
        let (mut rows, mut last) = (Vec::new(), None);
        for at in &merged {
            let Some((number, row)) = found[*at].next() else {
                // There was no memory for this one: it is asked for again.
                open.iter().for_each(|unit| self.open[*unit] = true);
                break;
            };
            last = self.lists[open[*at]].get(number);
            // A place without a row is passed over.
            if let Some(Row { text, hash, .. }) = row {
                rows.push(StreamRow { text, hash, unit: open[*at], place: Place::Listed(number) });
            }
        }
        let is_done = !self.open.contains(&true);
        self.sorted = match is_done {
            true => None,
            false => last.map(|place| place.position()).or(self.sorted.take()),
        };
        Ok(Round { rows, done: is_done, tired: false, memory })
    }

    /// Merges rows, of which each unit was asked for a share.
    fn round_of_rows(
        &mut self,
        order: &Order,
        share: usize,
        answers: Vec<Answer>,
        reports: &mut Vec<LeafReport>,
    ) -> Round {
        let open = self.open_units();
        let mut limit: Option<SortPosition> = None;
        let mut tired = false;
        let mut rows: Vec<StreamRow> = Vec::new();
        let mut memory = Vec::new();
        for (answer, unit) in answers.into_iter().zip(open) {
            tired |= matches!(answer.end, End::OutOfBudget(_)) && answer.rows.len() < share;
            let stopped_at = match answer.end {
                End::Exhausted => None,
                End::Stopped => answer.rows.last().map(|row| row.position.clone()),
                End::OutOfBudget(position) => Some(position),
            };
            if let Some(Position::Sorted(at)) = stopped_at {
                limit = Some(match limit {
                    Some(limit) if order.compare(&limit, &at).is_le() => limit,
                    Some(_) | None => at,
                });
            } else {
                self.open[unit] = false;
            }
            reports.push(answer.report);
            memory.push(answer.memory);
            rows.extend(answer.rows.into_iter().map(|row| placed(row, unit)));
        }
        rows.sort_by(|a, b| compare(order, a, b));
        if let Some(limit) = &limit {
            self.hold_back(order, limit, &mut rows);
        }
        self.sorted = limit;
        Round { rows, done: !self.open.contains(&true), tired, memory }
    }

    /// Drops the rows behind the limit. Their units are asked again.
    fn hold_back(&mut self, order: &Order, limit: &SortPosition, rows: &mut Vec<StreamRow>) {
        let is_due = |at: &SortPosition| order.compare(at, limit).is_le();
        let held = rows.partition_point(|row| row.place.sorted().is_some_and(is_due));
        for row in rows.drain(held..) {
            self.open[row.unit] = true;
        }
    }

    /// Fails if what comes after a place that was not certain may have been delivered before.
    fn resolve_doubt(&mut self, rows: &[StreamRow]) -> Result<()> {
        let Some(doubt) = &self.doubt else { return Ok(()) };
        let first = match rows.first() {
            Some(row) => {
                let unordered = || Error::internal("an ordered query met an unordered row");
                Some(self.sorted_place(row).ok_or_else(unordered)?)
            }
            None => self.sorted.clone(),
        };
        if first.is_some_and(|at| doubt.concerns(&at)) {
            return Err(token::lost());
        }
        self.doubt = None;
        Ok(())
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
    let LeafRow { row: Row { text, hash, .. }, position } = row;
    StreamRow { text, hash, unit, place: Place::At(position) }
}

fn compare(order: &Order, a: &StreamRow, b: &StreamRow) -> Ordering {
    let places = a.place.sorted().zip(b.place.sorted());
    places.map_or(Ordering::Equal, |(a, b)| order.compare(a, b))
}

//! Filling a page.
//!
//! A page ends when it has the rows or the bytes that were asked for, when TOP or LIMIT is reached,
//! or when looking for more would take too long; in the last case it may be short, even empty, and
//! is still continued. Rows that come one after another go straight into the page ([`plain`]).
//! DISTINCT and groups need to know what came before: they are computed from the beginning for
//! every page, in the order in which they are first met, and what was delivered is passed over
//! ([`distinct`], [`grouped`]). That order stays the same when partitions are split in between. If
//! items changed between two such pages, rows may come twice or not at all. Only a DISTINCT of what
//! rows are ordered by goes on where the page before it ended.

use std::collections::{HashSet, VecDeque};
use std::ops::ControlFlow;

use partita_model::{Error, ErrorKind, Reservation, Result};
use partita_query::{Facts, Groups, Row, SEEN_BYTES};

use super::Job;
use super::cursor::{Cursor, Progress, Unit};
use super::places::{Order, Position};
use super::scheduler::leaves::{Question, ask};
use super::stream::{Stream, StreamRow};
use crate::context::Work;
use crate::memory;
use crate::op::LeafReport;

/// Rows that a DISTINCT asks for at a time.
const DISTINCT_ROUND: usize = 1_000;

/// A page of a query's result, under construction and finished.
pub(super) struct Page {
    pub(super) rows: Vec<String>,
    pub(super) bytes: usize,
    /// Where to go on; None: this was the last page.
    pub(super) cursor: Option<Cursor>,
    rows_max: usize,
    bytes_max: usize,
    window: Window,
    pub(super) reports: Vec<LeafReport>,
    /// Of the rows.
    pub(super) memory: Reservation,
}

/// The rows that a DISTINCT has seen, by their hashes.
struct Seen {
    hashes: HashSet<u128>,
    memory: Reservation,
}

impl Seen {
    fn new(job: &Job<'_>) -> Seen {
        Seen { hashes: HashSet::new(), memory: job.memory.reservation(memory::SEEN) }
    }

    fn is_new(&mut self, hash: u128) -> Result<bool> {
        let is_new = self.hashes.insert(hash);
        if is_new {
            self.memory.grow(SEEN_BYTES)?;
        }
        Ok(is_new)
    }

    fn len(&self) -> usize {
        self.hashes.len()
    }

    fn clear(&mut self) {
        self.hashes.clear();
        self.memory.shrink(self.memory.bytes());
    }
}

/// A stream, and what it brought that was not taken yet.
struct Source {
    stream: Stream,
    rows: VecDeque<StreamRow>,
    is_done: bool,
    /// Of the rows.
    memory: Vec<Reservation>,
}

impl Source {
    fn new(stream: Stream) -> Source {
        Source { stream, rows: VecDeque::new(), is_done: false, memory: Vec::new() }
    }
}

/// What is left of OFFSET, LIMIT and TOP, and what was used of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    skip: u64,
    take: u64,
    skipped: u64,
    delivered: u64,
}

impl Window {
    /// What is left after the pages before.
    fn left(facts: &Facts, before: Option<&Progress>) -> Window {
        let (offset, limit) = match (facts.top, facts.offset_limit) {
            (Some(top), _) => (0, top),
            (None, Some((offset, limit))) => (offset, limit),
            (None, None) => (0, u64::MAX),
        };
        let (skipped, delivered) = before.map_or((0, 0), |p| (p.skipped, p.delivered));
        Window {
            skip: offset.saturating_sub(skipped),
            take: limit.saturating_sub(delivered),
            skipped,
            delivered,
        }
    }
}

/// What became of a row.
#[derive(Debug, PartialEq, Eq)]
enum Taken {
    /// Passed over by OFFSET, or put into the page.
    Yes,
    /// The page is full: it is for the next one.
    Full,
    /// TOP or LIMIT is reached: it is for none.
    Over,
}

impl Page {
    pub(super) fn new(job: &Job<'_>, before: Option<&Progress>) -> Page {
        let settings = job.budget.settings;
        let rows_max = job.request.page.items_max.unwrap_or(settings.page_rows_default).max(1);
        Page {
            rows: Vec::new(),
            bytes: 0,
            cursor: None,
            rows_max,
            bytes_max: settings.page_bytes_max,
            window: Window::left(job.query.facts(), before),
            reports: Vec::new(),
            memory: job.memory.reservation(memory::ROWS),
        }
    }

    /// What the next page has to know of this one.
    pub(super) fn progress(&self, started_ticks: u64) -> Option<Progress> {
        let Window { delivered, skipped, .. } = self.window;
        let cursor = self.cursor.clone()?;
        Some(Progress { cursor, delivered, skipped, started_ticks })
    }

    fn is_full(&self) -> bool {
        self.rows.len() >= self.rows_max || self.bytes >= self.bytes_max
    }

    /// Rows that would fill the page, those that OFFSET passes over included.
    fn want(&self) -> usize {
        let room = (self.rows_max - self.rows.len()) as u64;
        let rows = room.min(self.window.take).saturating_add(self.window.skip);
        usize::try_from(rows).unwrap_or(usize::MAX)
    }

    /// Offers the next row of the result.
    fn offer(&mut self, text: impl FnOnce() -> String, bytes: usize) -> Result<Taken> {
        if self.window.take == 0 {
            return Ok(Taken::Over);
        }
        if self.window.skip > 0 {
            self.window.skip -= 1;
            self.window.skipped += 1;
            return Ok(Taken::Yes);
        }
        let too_large = !self.rows.is_empty() && self.bytes + bytes > self.bytes_max;
        if self.is_full() || too_large {
            return Ok(Taken::Full);
        }
        let memory = bytes + 2 * size_of::<String>();
        if !self.memory.try_grow(memory) {
            if !self.rows.is_empty() {
                return Ok(Taken::Full);
            }
            self.memory.grow(memory)?;
        }
        self.window.take -= 1;
        self.window.delivered += 1;
        self.bytes += bytes;
        self.rows.push(text());
        Ok(Taken::Yes)
    }

    /// Fills the page with rows as they come.
    pub(super) fn plain(
        &mut self,
        job: &Job<'_>,
        work: &mut Work<'_>,
        stream: &mut Stream,
    ) -> Result<()> {
        while self.window.take > 0 {
            let before = stream.cursor();
            let mut round = match stream.round(job, work, self.want(), &mut self.reports) {
                // The page ends where the throughput of the next partition does.
                Err(Error { kind: ErrorKind::Throttled { .. }, .. })
                    if !self.reports.is_empty() =>
                {
                    self.cursor = before;
                    return Ok(());
                }
                round => round?,
            };
            let mut used = 0_usize;
            for row in &mut round.rows {
                let bytes = row.text.len();
                match self.offer(|| std::mem::take(&mut row.text), bytes)? {
                    Taken::Yes => used += 1,
                    Taken::Over => return Ok(()),
                    Taken::Full => {
                        let last = used.checked_sub(1).and_then(|last| round.rows.get(last));
                        self.cursor = match last {
                            Some(last) => stream.cursor_at(last),
                            None => before,
                        };
                        return Ok(());
                    }
                }
            }
            if round.done || self.window.take == 0 {
                return Ok(());
            }
            if self.is_full() || round.tired || job.budget.page_time_is_over()? {
                self.cursor = stream.cursor();
                return Ok(());
            }
        }
        Ok(())
    }

    /// Fills the page with rows that did not come before. Of streams that go together the oldest
    /// item comes first.
    pub(super) fn distinct(
        &mut self,
        job: &Job<'_>,
        work: &mut Work<'_>,
        stages: Vec<Vec<Stream>>,
    ) -> Result<()> {
        let before = self.before();
        let mut seen = Seen::new(job);
        for stage in stages {
            let mut sources: Vec<Source> = stage.into_iter().map(Source::new).collect();
            while let Some(row) = self.next_of(&mut sources, job, work)? {
                if !seen.is_new(row.hash)? {
                    continue;
                }
                check_distinct(job, seen.len())?;
                // Those of the pages before are seen again, but not kept.
                if seen.len() > before && self.deliver_one(job, row.text)?.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The next row of several streams: the oldest one, or that of the first stream.
    fn next_of(
        &mut self,
        sources: &mut [Source],
        job: &Job<'_>,
        work: &mut Work<'_>,
    ) -> Result<Option<StreamRow>> {
        for source in sources.iter_mut() {
            while source.rows.is_empty() && !source.is_done {
                source.memory.clear();
                let round = source.stream.round(job, work, DISTINCT_ROUND, &mut self.reports)?;
                (source.rows, source.is_done) = (round.rows.into(), round.done);
                source.memory = round.memory;
                if !source.is_done {
                    self.check_whole(job)?;
                }
            }
        }
        let next = sources.iter_mut().filter_map(|source| {
            let age = source.rows.front()?.age();
            Some((age, source))
        });
        Ok(next.min_by_key(|(age, _)| *age).and_then(|(_, source)| source.rows.pop_front()))
    }

    /// Rows that are nothing but what they are ordered by: equal ones follow each other, so that
    /// the page goes on behind the last of them.
    pub(super) fn distinct_in_order(
        &mut self,
        job: &Job<'_>,
        work: &mut Work<'_>,
        stream: &mut Stream,
    ) -> Result<()> {
        let (mut keys, mut seen) = (Vec::new(), Seen::new(job));
        let mut last = None;
        while self.window.take > 0 {
            let want = self.want().saturating_add(1).min(DISTINCT_ROUND);
            let mut round = stream.round(job, work, want, &mut self.reports)?;
            for row in &mut round.rows {
                let of_row = stream.keys_of(row);
                if keys != of_row {
                    keys = of_row;
                    seen.clear();
                }
                if !seen.is_new(row.hash)? || stream.was_delivered(row) {
                    continue;
                }
                let bytes = row.text.len();
                match self.offer(|| std::mem::take(&mut row.text), bytes)? {
                    Taken::Yes => last = stream.cursor_at(row),
                    Taken::Over => return Ok(()),
                    Taken::Full => {
                        self.cursor = last;
                        return Ok(());
                    }
                }
            }
            if round.done {
                return Ok(());
            }
            self.check_whole(job)?;
        }
        Ok(())
    }

    /// Fills the page with groups.
    pub(super) fn grouped(
        &mut self,
        job: &Job<'_>,
        work: &mut Work<'_>,
        units: &[Unit],
    ) -> Result<()> {
        let asked: Vec<(&Unit, Option<&Position>)> = units.iter().map(|u| (u, None)).collect();
        let answers = ask(job, work, &asked, Question::Groups)?;
        let mut groups = Groups::new(job.query, &job.memory);
        let mut run = job.query.start(&job.scope);
        for answer in answers {
            self.reports.push(answer.report);
            if let Some(more) = answer.groups {
                groups.merge(more, &run)?;
            }
        }
        let (rows, _until_then) = groups.finish(&mut run)?;
        let rows = finished(job, rows)?;
        for row in rows.into_iter().skip(self.before()) {
            if self.deliver_one(job, row.text)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Rows of the whole result that pages before have delivered or passed over.
    fn before(&self) -> usize {
        let before = self.window.skipped + self.window.delivered;
        usize::try_from(before).unwrap_or(usize::MAX)
    }

    /// Offers the next row of a whole result, of those that no page before has had.
    fn deliver_one(&mut self, job: &Job<'_>, text: String) -> Result<ControlFlow<()>> {
        let bytes = text.len();
        Ok(match self.offer(|| text, bytes)? {
            Taken::Yes => ControlFlow::Continue(()),
            Taken::Over => ControlFlow::Break(()),
            Taken::Full => {
                self.cursor = Some(Cursor::Counted { area: job.area.clone() });
                ControlFlow::Break(())
            }
        })
    }

    /// Fails when a result that is worth nothing in parts takes too much.
    fn check_whole(&self, job: &Job<'_>) -> Result<()> {
        let entries: u64 = self.reports.iter().map(|report| report.entries_scanned).sum();
        let entries_max = job.budget.settings.whole_entries_max;
        if entries > entries_max {
            return Err(Error::timeout(format!(
                "The query has to look at more than {entries_max} entries for one page. Narrow its \
                 filter, or leave out DISTINCT."
            )));
        }
        job.budget.check_whole_time()
    }
}

fn check_distinct(job: &Job<'_>, rows: usize) -> Result<()> {
    let rows_max = job.budget.settings.distinct_rows_max;
    if rows <= rows_max {
        return Ok(());
    }
    Err(Error::bad_request(format!(
        "The query has more than {rows_max} different rows, too many to tell new ones from those \
         before. Narrow its filter, or leave out DISTINCT."
    )))
}

/// The rows of groups with DISTINCT and ORDER BY applied.
fn finished(job: &Job<'_>, mut rows: Vec<Row>) -> Result<Vec<Row>> {
    let facts = job.query.facts();
    job.budget.check_whole_time()?;
    if facts.ordered {
        let order = Order::of(facts);
        // Of equal ones the first, or the last, comes first.
        if order.rids_descend() {
            rows.reverse();
        }
        rows.sort_by(|a, b| order.compare_keys(columns(a).zip(columns(b))));
    }
    if !facts.distinct {
        return Ok(rows);
    }
    let (mut different, mut seen) = (Vec::new(), Seen::new(job));
    for (at, row) in rows.into_iter().enumerate() {
        if at % 1_024 == 1_023 {
            job.budget.check_whole_time()?;
        }
        if seen.is_new(row.hash)? {
            different.push(row);
        }
    }
    Ok(different)
}

fn columns(row: &Row) -> impl Iterator<Item = &[u8]> {
    row.keys.iter().map(Vec::as_slice)
}

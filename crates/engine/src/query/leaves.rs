//! Asking partitions, several at a time.
//!
//! A round asks some units of work the same question. Each is answered from a view of its
//! partition that is taken when the round begins and let go when it ends. Up to
//! `QuerySettings::parallelism` threads share the units; the answers come back in the order of the
//! units, and the first error in that order wins, so the threads change nothing but the time.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use partita_model::{Error, Result};
use partita_query::{Groups, ScopeSettings};
use partita_storage::Snapshot;

use super::Job;
use super::cursor::Unit;
use super::leaf::{End, Leaf};
use super::position::{LeafRow, Position};
use crate::context::Work;
use crate::op::LeafReport;

/// What is asked of every unit.
#[derive(Clone, Copy)]
pub(super) enum Question {
    /// So many rows, and no more bytes.
    Rows {
        want: usize,
        bytes_max: usize,
    },
    Groups,
}

/// What a unit answered.
pub(super) struct Answer {
    pub(super) rows: Vec<LeafRow>,
    pub(super) end: End,
    pub(super) groups: Option<Groups>,
    pub(super) report: LeafReport,
}

/// A unit with the view that it is answered from.
struct Task<'a> {
    unit: &'a Unit,
    after: Option<&'a Position>,
    view: Box<dyn Snapshot>,
}

/// Asks all units. `after` is where each begins.
pub(super) fn ask(
    job: &Job<'_>,
    work: &mut Work<'_>,
    units: &[(&Unit, Option<&Position>)],
    question: Question,
) -> Result<Vec<Answer>> {
    let mut tasks = Vec::with_capacity(units.len());
    for (unit, after) in units {
        tasks.push(Task { unit, after: *after, view: job.open(work, unit.partition)? });
    }
    let threads = job.budget.settings.parallelism.min(tasks.len());
    if threads <= 1 {
        return tasks.iter().map(|task| answer(job, task, question)).collect();
    }
    let next = AtomicUsize::new(0);
    let answers: Vec<Mutex<Option<Result<Answer>>>> =
        tasks.iter().map(|_| Mutex::new(None)).collect();
    let share = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let (Some(task), Some(slot)) = (tasks.get(at), answers.get(at)) else { return };
            let answered = answer(job, task, question);
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(answered);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(share);
        }
        share();
    });
    let answers = answers.into_iter().map(|slot| {
        let answered = slot.into_inner().unwrap_or_else(PoisonError::into_inner);
        answered.unwrap_or_else(|| Err(Error::internal("a partition was not asked")))
    });
    answers.collect()
}

fn answer(job: &Job<'_>, task: &Task<'_>, question: Question) -> Result<Answer> {
    let partition = job
        .container
        .partitions
        .get(task.unit.partition)
        .ok_or_else(|| Error::internal("a query asks a partition that is not there"))?;
    let report = LeafReport {
        range_id: partition.range_id,
        epks: Some(task.unit.range.clone()),
        ..LeafReport::default()
    };
    // Every partition draws random numbers of its own.
    let random_seed = job.scope.random_seed.wrapping_add(u64::from(partition.range_id) << 32);
    let scope = ScopeSettings { random_seed, ..job.scope.clone() };
    let mut leaf = Leaf {
        container: job.container,
        partition,
        view: &*task.view,
        query: job.query,
        run: job.query.start(&scope),
        restrict: task.unit.range.clone(),
        only: &job.only,
        hint: job.request.plan_hint,
        want: usize::MAX,
        budget: job.budget,
        report,
    };
    match question {
        Question::Groups => {
            let groups = Some(leaf.groups()?);
            Ok(Answer { rows: Vec::new(), end: End::Exhausted, groups, report: leaf.report })
        }
        Question::Rows { want, bytes_max } => {
            leaf.want = want;
            let (mut rows, mut bytes) = (Vec::new(), 0);
            let end = leaf.stream(task.after, &mut |row: LeafRow| {
                bytes += row.row.text.len();
                rows.push(row);
                if rows.len() >= want || bytes >= bytes_max {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            })?;
            Ok(Answer { rows, end, groups: None, report: leaf.report })
        }
    }
}

//! Before a workload is measured: who takes part, and whether everybody answers the same.

use anyhow::{Context, Result, bail};

use super::measure::PATIENCE;
use super::results::Row;
use super::workload::{self, Step, Workload};
use super::{BARE, CompareOptions, WRONG};
use crate::system::{Action, Session, Space, System};

/// The bare server answers everything, but the answer is to a point read.
pub(super) fn takes_part(system: &System, workload: &Workload) -> bool {
    let reads = [workload::POINT_READ, workload::POINT_READ_TOGETHER];
    system.name != BARE || reads.contains(&workload.name)
}

/// Who answers otherwise than the others, or than was asked, is not measured.
pub(super) async fn answers(
    options: &CompareOptions,
    workload: &Workload,
    systems: &mut [(System, Vec<Session>)],
    row: &mut Row,
) -> Result<()> {
    question(workload, systems, row).await?;
    let steps = workload.steps(options.documents(), 0);
    let Some(Step::Together(reads)) = steps.first() else { return Ok(()) };
    // The bare server always answers with the same document.
    for (system, sessions) in systems.iter_mut().filter(|(system, _)| system.name != BARE) {
        let session = sessions.first_mut().context("a system without clients")?;
        let space = system.space(workload.space).await?;
        if let Err(error) = order(&space, session, reads).await {
            row.refuse(system.name, format!("{error:#}"));
        }
    }
    Ok(())
}

/// Reads that are sent together must be answered with the documents they are about, in order.
async fn order(space: &Space, session: &mut Session, reads: &[Action]) -> Result<()> {
    let together = space.prepare_together(reads)?;
    let answered = tokio::time::timeout(PATIENCE, session.ids(&together)).await;
    let ids = answered.context("requests in flight are not answered")??;
    for (id, read) in ids.iter().zip(reads) {
        match read {
            Action::Read { id: asked, .. } if asked == id => (),
            other => bail!("{WRONG}: {other:?} gets {id}"),
        }
    }
    Ok(())
}

/// A question must get the same answer everywhere; who answers otherwise is not measured.
async fn question(
    workload: &Workload,
    systems: &mut [(System, Vec<Session>)],
    row: &mut Row,
) -> Result<()> {
    let Some(question) = workload.checked() else { return Ok(()) };
    let mut first: Option<Vec<String>> = None;
    for (system, sessions) in systems.iter_mut().filter(|(system, _)| takes_part(system, workload))
    {
        let space = system.space(workload.space).await?;
        let session = sessions.first_mut().context("a system without clients")?;
        let asked = space.prepare(&Action::Ask(question.asked(1)))?;
        match (session.rows(&asked).await, &first) {
            (Ok(rows), None) => first = Some(rows),
            (Ok(rows), Some(first)) if rows == *first => (),
            (Ok(rows), Some(first)) => {
                let (is, should) = (rows.len(), first.len());
                let why = format!("{WRONG}: {is} rows, and not the same as the {should} of others");
                row.refuse(system.name, why);
            }
            (Err(error), _) => row.refuse(system.name, format!("{error:#}")),
        }
    }
    Ok(())
}

//! One round: clients that go through a workload's steps on one system for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use super::results::Sample;
use super::workload::Step;
use crate::client::percentiles;
use crate::data;
use crate::seen::Seen;
use crate::system::{Action, Prepared, Session, Space, System, Together};

/// Whoever has not answered so long after a round's end has refused. A clock for each request would
/// be work of the client.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Steps in one system's words.
pub(crate) struct Plan {
    steps: Vec<Ready>,
    space: Space,
    made: Arc<AtomicU64>,
}

enum Ready {
    Do(Vec<Prepared>),
    Together(Together),
    Make(fn(u64) -> Action),
    Latest(u64),
}

impl Plan {
    pub(crate) async fn new(system: &System, space: &str, steps: Vec<Step>) -> Result<Plan> {
        let space = system.space(space).await?;
        let ready = |step: Step| -> Result<Ready> {
            Ok(match step {
                Step::Do(actions) => Ready::Do(
                    actions.iter().map(|action| space.prepare(action)).collect::<Result<_>>()?,
                ),
                Step::Together(actions) => Ready::Together(space.prepare_together(&actions)?),
                Step::Make(make) => Ready::Make(make),
                Step::Latest(ago) => Ready::Latest(ago),
            })
        };
        let steps = steps.into_iter().map(ready).collect::<Result<_>>()?;
        Ok(Plan { steps, space, made: Arc::clone(&system.made) })
    }

    /// Does the n-th step of a client.
    pub(crate) async fn step(&self, session: &mut Session, n: usize, seen: &mut Seen) {
        match self.steps.get(n % self.steps.len().max(1)) {
            Some(Ready::Together(together)) => session.perform_together(together, seen).await,
            Some(Ready::Do(prepared)) => timed(session, prepared, seen).await,
            Some(Ready::Make(make)) => {
                let number = self.made.fetch_add(1, Ordering::Relaxed);
                self.timed(session, &make(number), seen).await;
            }
            Some(Ready::Latest(ago)) => {
                let last = self.made.load(Ordering::Relaxed);
                let document = match last.checked_sub(ago + 1) {
                    Some(number) => data::fresh(number),
                    None => data::document(*ago % 100),
                };
                self.timed(session, &Action::read(document), seen).await;
            }
            None => seen.failed(1, || "no steps".to_owned()),
        }
    }

    /// Something that could not be prepared before.
    async fn timed(&self, session: &mut Session, action: &Action, seen: &mut Seen) {
        match self.space.prepare(action) {
            Ok(prepared) => timed(session, &[prepared], seen).await,
            Err(error) => seen.failed(1, || format!("{error:#}")),
        }
    }
}

/// One operation, and how long the system took.
async fn timed(session: &mut Session, prepared: &[Prepared], seen: &mut Seen) {
    let sent = Instant::now();
    for prepared in prepared {
        if let Err(error) = session.perform(prepared).await {
            return seen.failed(1, || format!("{error:#}"));
        }
    }
    seen.answered(sent.elapsed());
}

/// Lets all sessions go through the plan for so long. Fails if most operations do.
pub(crate) async fn round(
    system: &System,
    plan: &Arc<Plan>,
    sessions: &mut Vec<Session>,
    length: Duration,
    documents: u64,
) -> Result<Sample> {
    let stop = Arc::new(AtomicBool::new(false));
    let before = system.cpu_seconds()?;
    let begun = Instant::now();
    let mut clients = Vec::new();
    for (client, session) in sessions.drain(..).enumerate() {
        let (plan, stop) = (Arc::clone(plan), Arc::clone(&stop));
        clients.push(tokio::spawn(run(client, session, plan, stop)));
    }
    tokio::time::sleep(length).await;
    stop.store(true, Ordering::Relaxed);
    let mut all = Seen::default();
    let late = tokio::time::Instant::now() + PATIENCE;
    for mut client in clients {
        let Ok(ended) = tokio::time::timeout_at(late, &mut client).await else {
            client.abort();
            sessions.push(system.session().await?);
            all.failed(1, || format!("no answer in {} s", PATIENCE.as_secs()));
            continue;
        };
        let (session, seen) = ended?;
        sessions.push(session);
        all.add(seen);
    }
    let elapsed = begun.elapsed().as_secs_f64();
    let cpu = system.cpu_seconds()? - before;
    sample(all, elapsed, cpu, documents)
}

async fn run(
    client: usize,
    mut session: Session,
    plan: Arc<Plan>,
    stop: Arc<AtomicBool>,
) -> (Session, Seen) {
    let mut seen = Seen::default();
    let mut n = client * 7_919;
    while !stop.load(Ordering::Relaxed) {
        plan.step(&mut session, n, &mut seen).await;
        if seen.latencies_ms.is_empty() && seen.errors > 3 {
            break;
        }
        n += 1;
    }
    (session, seen)
}

fn sample(mut seen: Seen, elapsed: f64, cpu: f64, documents: u64) -> Result<Sample> {
    let done = seen.latencies_ms.len() as u64;
    if done <= seen.errors {
        return Err(anyhow!(seen.first_error.unwrap_or_else(|| "nothing was answered".to_owned())));
    }
    Ok(Sample {
        value: (done * documents) as f64 / elapsed,
        operations: done + seen.errors,
        errors: seen.errors,
        latencies_ms: percentiles(&mut seen.latencies_ms),
        cpu_us: Some(cpu * 1e6 / (done * documents) as f64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_in_which_most_is_refused_is_a_refusal() {
        let seen = |done: usize, errors| Seen {
            latencies_ms: vec![1.0; done],
            errors,
            first_error: Some("404 no such thing".to_owned()),
        };
        let refused = sample(seen(1, 1), 1.0, 1.0, 1).unwrap_err();
        assert_eq!(refused.to_string(), "404 no such thing");
        let some = sample(seen(10, 1), 2.0, 1.0, 100).unwrap();
        assert_eq!((some.value, some.errors, some.operations), (500.0, 1, 11));
        assert_eq!(some.cpu_us, Some(1_000.0));
    }
}

//! The workloads, in the words that every system understands.
//!
//! Those that only read come first, as all of them see the same documents; then the mixes of YCSB,
//! then those that write to a space of their own.

use crate::data::{self, PER_KEY};
use crate::questions::{QUESTIONS, Question, SCAN};
use crate::random::{Random, Zipf};
use crate::system::Action;

/// The space that is loaded, and the one that is written to.
pub(crate) const LOADED: &str = "c";
pub(crate) const WRITTEN: &str = "w";

pub(crate) const POINT_READ: &str = "point read, 64 clients";
pub(crate) const POINT_READ_TOGETHER: &str = "point read, 16 clients, 16 in flight each";
pub(crate) const CREATE_ONE: &str = "create, 1 client";
pub(crate) const CREATE_MANY: &str = "create, 64 clients";

/// Steps that are prepared before a round and gone through again and again.
const STEPS: usize = 4_096;
const MANY: usize = 64;
/// Clients that send several requests at once, and how many of those. What is under way is four
/// times as much as with [`MANY`] clients that wait for each answer.
const PIPELINES: usize = 16;
const IN_FLIGHT: usize = 16;
/// Enough to keep every core busy, few enough that slow answers do not pile up.
const FEW: usize = 8;
/// Documents of a bulk: about a hundred for each of eight partitions, as SDKs gather them.
const BULK: u64 = 800;
const PROCEDURE: u64 = 10;
/// Documents that may still be on their way when others are known to be there.
const UNDER_WAY: u64 = 2 * MANY as u64;

/// What a client does next.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// These, one after the other, as one operation.
    Do(Vec<Action>),
    /// These reads, each an operation; all are sent before the first is answered.
    Together(Vec<Action>),
    /// Something with new documents, made from a number that nobody had before.
    Make(fn(u64) -> Action),
    /// A read of a document that was made this long ago.
    Latest(u64),
}

pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) clients: usize,
    pub(crate) space: &'static str,
    /// The value counts documents: so many for each operation.
    pub(crate) documents: u64,
    kind: Kind,
}

enum Kind {
    Reads,
    ReadsTogether,
    Question(&'static Question),
    Mix(Mix),
    Make(fn(u64) -> Action),
    Upserts,
}

/// Shares in hundredths; what is missing is reads.
#[derive(Default)]
struct Mix {
    updates: u64,
    inserts: u64,
    scans: u64,
    read_modify_writes: u64,
    latest: bool,
}

/// All of them, in the order in which they run.
pub(crate) fn all() -> Vec<Workload> {
    let mut all = vec![
        one(POINT_READ, MANY, LOADED, Kind::Reads),
        one(POINT_READ_TOGETHER, PIPELINES, LOADED, Kind::ReadsTogether),
    ];
    let question =
        |question: &'static Question| one(question.name, 1, LOADED, Kind::Question(question));
    all.extend(QUESTIONS.iter().map(question));
    let mix = |name, clients, mix| one(name, clients, LOADED, Kind::Mix(mix));
    let none = Mix::default;
    all.extend([
        mix("YCSB C: reads", MANY, none()),
        mix("YCSB E: short scans", FEW, Mix { scans: 95, inserts: 5, ..none() }),
        mix("YCSB B: 5 % updates", MANY, Mix { updates: 5, ..none() }),
        mix("YCSB A: 50 % updates", MANY, Mix { updates: 50, ..none() }),
        mix("YCSB F: read-modify-write", MANY, Mix { read_modify_writes: 50, ..none() }),
        mix("YCSB D: latest, 5 % inserts", MANY, Mix { inserts: 5, latest: true, ..none() }),
        one("upsert, 64 clients", MANY, LOADED, Kind::Upserts),
        one(CREATE_ONE, 1, WRITTEN, Kind::Make(create)),
        one(CREATE_MANY, MANY, WRITTEN, Kind::Make(create)),
        Workload {
            documents: PER_KEY as u64,
            ..one("batch of 100", FEW, WRITTEN, Kind::Make(batch))
        },
        Workload { documents: BULK, ..one("bulk import", FEW, WRITTEN, Kind::Make(bulk)) },
        Workload {
            documents: PROCEDURE,
            ..one("stored procedure of 10 creates", FEW, WRITTEN, Kind::Make(procedure))
        },
    ]);
    all
}

fn one(name: &'static str, clients: usize, space: &'static str, kind: Kind) -> Workload {
    Workload { name, clients, space, documents: 1, kind }
}

impl Workload {
    pub(crate) fn unit(&self) -> &'static str {
        if self.documents == 1 { "1/s" } else { "documents/s" }
    }

    /// The question that this is about, if it is about one.
    pub(crate) fn question(&self) -> Option<&'static Question> {
        match self.kind {
            Kind::Question(question) => Some(question),
            _ => None,
        }
    }

    /// The question whose answer must be the same everywhere.
    pub(crate) fn checked(&self) -> Option<&'static Question> {
        match &self.kind {
            Kind::Mix(mix) if mix.scans > 0 => Some(&SCAN),
            _ => self.question(),
        }
    }

    /// What clients go through; the same for every system.
    pub(crate) fn steps(&self, documents: u64, round: u64) -> Vec<Step> {
        let mut random = Random::new(round);
        match &self.kind {
            Kind::Reads => {
                let read = |n| Step::Do(vec![Action::read(data::document(n))]);
                (0..STEPS).map(|_| read(random.below(documents))).collect()
            }
            Kind::ReadsTogether => {
                let mut read = || Action::read(data::document(random.below(documents)));
                let mut some = || Step::Together((0..IN_FLIGHT).map(|_| read()).collect());
                (0..STEPS / IN_FLIGHT).map(|_| some()).collect()
            }
            Kind::Upserts => {
                let upsert = |n| Step::Do(vec![Action::Upsert(changed(n, round))]);
                (0..STEPS).map(|_| upsert(random.below(documents))).collect()
            }
            Kind::Question(question) => {
                let ask = |n| Step::Do(vec![Action::Ask(question.asked(n))]);
                (0..MANY as u64).map(ask).collect()
            }
            Kind::Make(make) => vec![Step::Make(*make)],
            Kind::Mix(mix) => mix.steps(documents, round, &mut random),
        }
    }
}

impl Mix {
    fn steps(&self, documents: u64, round: u64, random: &mut Random) -> Vec<Step> {
        let zipf = Zipf::new(documents);
        (0..STEPS).map(|_| self.step(&zipf, round, random)).collect()
    }

    fn step(&self, zipf: &Zipf, round: u64, random: &mut Random) -> Step {
        let share = random.below(100);
        let updates = self.updates;
        let inserts = updates + self.inserts;
        let scans = inserts + self.scans;
        let both = scans + self.read_modify_writes;
        let read = |n| Action::read(data::document(n));
        match share {
            share if share < updates => {
                Step::Do(vec![Action::Upsert(changed(zipf.scattered(random), round))])
            }
            share if share < inserts => Step::Make(create),
            share if share < scans => {
                Step::Do(vec![Action::Ask(SCAN.asked(random.number() >> 20))])
            }
            share if share < both => {
                let n = zipf.scattered(random);
                Step::Do(vec![read(n), Action::Upsert(changed(n, round))])
            }
            _ if self.latest => Step::Latest(UNDER_WAY + zipf.rank(random)),
            _ => Step::Do(vec![read(zipf.scattered(random))]),
        }
    }
}

/// The document with one property that says when it was changed: something to write.
fn changed(n: u64, round: u64) -> data::Document {
    let mut document = data::document(n);
    let level = format!(r#""level":{}"#, 100 + round);
    if let Some(at) = document.text.find(r#""level":"#) {
        let end = document.text[at..].find(',').map_or(document.text.len(), |end| at + end);
        document.text.replace_range(at..end, &level);
    }
    document
}

fn create(n: u64) -> Action {
    Action::Create(data::fresh(n))
}

fn batch(n: u64) -> Action {
    let first = n * PER_KEY as u64;
    let key = format!("batch-{n}");
    let documents = (first..first + PER_KEY as u64).map(|n| data::fresh_under(&key, n));
    Action::Batch(documents.collect())
}

fn bulk(n: u64) -> Action {
    let first = n * BULK;
    let document = |n: u64| data::fresh_under(&format!("bulk-{n}"), n);
    Action::Bulk((first..first + BULK).map(document).collect())
}

fn procedure(n: u64) -> Action {
    let first = n * PROCEDURE;
    let key = format!("procedure-{n}");
    let documents = (first..first + PROCEDURE).map(|n| data::fresh_under(&key, n));
    Action::Procedure(documents.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(name: &str) -> (usize, usize, usize, usize) {
        let all = all();
        let workload = all.iter().find(|workload| workload.name.starts_with(name)).unwrap();
        let steps = workload.steps(10_000, 1);
        let count = |fits: fn(&Step) -> bool| steps.iter().filter(|step| fits(step)).count() * 100;
        let reads = count(|step| {
            matches!(step, Step::Latest(_))
                || matches!(step, Step::Do(actions) if matches!(actions[..], [Action::Read { .. }]))
        });
        let updates = count(
            |step| matches!(step, Step::Do(actions) if matches!(actions[..], [Action::Upsert(_)])),
        );
        let scans = count(
            |step| matches!(step, Step::Do(actions) if matches!(actions[..], [Action::Ask(_)])),
        );
        let inserts = count(|step| matches!(step, Step::Make(_)));
        (reads / STEPS, updates / STEPS, scans / STEPS, inserts / STEPS)
    }

    #[test]
    fn the_mixes_are_those_of_ycsb() {
        let near = |is: (usize, usize, usize, usize), should: (usize, usize, usize, usize)| {
            let pairs = [(is.0, should.0), (is.1, should.1), (is.2, should.2), (is.3, should.3)];
            assert!(
                pairs.iter().all(|(is, should)| is.abs_diff(*should) <= 3),
                "{is:?} {should:?}"
            );
        };
        near(shares("YCSB A"), (50, 50, 0, 0));
        near(shares("YCSB B"), (95, 5, 0, 0));
        near(shares("YCSB C"), (100, 0, 0, 0));
        near(shares("YCSB D"), (95, 0, 0, 5));
        near(shares("YCSB E"), (0, 0, 95, 5));
        near(shares("YCSB F"), (50, 0, 0, 0));
    }

    #[test]
    fn every_system_and_every_run_gets_the_same_steps() {
        for workload in all() {
            let some = || format!("{:?}", workload.steps(1_000, 3).get(..30));
            assert_eq!(some(), some(), "{}", workload.name);
        }
    }

    #[test]
    fn a_changed_document_differs_in_its_level_only() {
        let (before, after) = (data::document(7), changed(7, 3));
        assert_eq!((before.id, before.key), (after.id, after.key));
        assert!(after.text.contains(r#""level":103,"#), "{}", after.text);
        assert_eq!(before.text.matches(':').count(), after.text.matches(':').count());
    }
}

//! The plan of a run: a list of events, drawn from a seed before anything happens.
//!
//! An event says all of itself, and what it refers to (a client, a lane, a partition) it names by a
//! number that is taken modulo what there is when its turn comes. So a plan stays a plan when
//! events are left out of it, which is how a failing one is made shorter.

use std::fmt;

use crate::kind::{Doc, IDS, KEYS, Kind};
use crate::model::Want;
use crate::random::Random;
use crate::scripts::Procedure;
use crate::store::Strike;

/// How a run is set up.
#[derive(Clone, Debug)]
pub struct Setup {
    pub seed: u64,
    pub lanes: u64,
    pub clients: usize,
    /// The containers, with the throughput that each begins with.
    pub containers: Vec<(Kind, u32)>,
    /// Bytes at which partitions are split, if not the usual.
    pub partition_bytes_max: Option<u64>,
    /// Items of one step of maintenance.
    pub budget_items: usize,
    /// Commits after which a feed is trimmed, if not the usual.
    pub trim_commits: Option<u64>,
}

/// What a client asks for.
#[derive(Clone, Debug)]
pub enum Ask {
    One { key: u8, want: Want },
    Batch { key: u8, wants: Vec<Want> },
    Bulk { wants: Vec<(u8, Want)> },
    Call { key: u8, procedure: Procedure, docs: [Doc; 2] },
    Clear { key: u8 },
    Split { which: u8, by_storage: bool },
    Merge { which: u8 },
    Policy { which: u8 },
}

/// Something that happens.
#[derive(Clone, Debug)]
pub enum Event {
    /// A client asks for something, unless it still waits for what it asked before.
    Ask {
        client: u8,
        container: u8,
        ask: Ask,
    },
    /// Somebody who can go on goes on: which of them is chosen by the number.
    Go(u64),
    /// Maintenance goes on, or begins a step.
    Maintain,
    Clock {
        millis: u64,
    },
    /// A client hangs up.
    HangUp {
        client: u8,
    },
    /// A query over everything, or a logical partition, in pages, all at this moment.
    Query {
        container: u8,
        key: Option<u8>,
        page: u8,
    },
    /// The next page of a query that goes on over many events.
    Cursor {
        which: u8,
    },
    /// A reader of a change feed reads a page.
    Follow {
        group: u8,
        member: u8,
        items: u8,
    },
    Crash {
        salt: u64,
    },
    /// The store crashes, or fails, at a write that is still to come.
    StrikeAt {
        writes: u8,
        strike: Strike,
    },
    FailRead {
        reads: u8,
    },
    Refuse,
    /// There is no room for so many batches.
    Fill {
        batches: u8,
    },
    Poison,
    /// Everything under way ends, and all is checked.
    Quiet,
}

/// An event with its place in the plan, which stays when others are left out.
#[derive(Clone, Debug)]
pub struct Planned {
    pub at: usize,
    pub event: Event,
}

/// A setup and what happens.
#[derive(Clone, Debug)]
pub struct Plan {
    pub setup: Setup,
    pub events: Vec<Planned>,
}

/// The policies that a container may get.
pub const POLICIES: [&str; 4] = [
    "{}",
    r#"{"indexingMode":"none","automatic":false}"#,
    r#"{"includedPaths":[{"path":"/n/?"}],"excludedPaths":[{"path":"/*"}]}"#,
    r#"{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/log/*"}]}"#,
];

impl Plan {
    /// The plan that belongs to a seed.
    pub fn new(seed: u64, steps: usize) -> Plan {
        let mut random = Random::new(seed);
        let setup = Setup::new(seed, &mut random);
        let mut draw = Draw::new(random);
        let events = (0..steps).map(|at| Planned { at, event: draw.event(&setup) }).collect();
        Plan { setup, events }
    }

    /// The same without some events.
    pub fn with(&self, events: Vec<Planned>) -> Plan {
        Plan { setup: self.setup.clone(), events }
    }
}

impl Setup {
    fn new(seed: u64, random: &mut Random) -> Setup {
        let throughputs = [400, 400, 12_000, 30_000];
        let container =
            |random: &mut Random| (*random.pick(&Kind::ALL), *random.pick(&throughputs));
        let count = 1 + random.below(2);
        Setup {
            seed,
            lanes: *random.pick(&[1, 2, 5]),
            clients: 2 + random.below(5),
            containers: (0..count).map(|_| container(random)).collect(),
            partition_bytes_max: random.one_in(4).then_some(4_096),
            budget_items: *random.pick(&[2, 3, 8, 64]),
            trim_commits: random.one_in(2).then_some(16),
        }
    }
}

/// Draws events. Each run has its own weights, so that some runs have much of what others have
/// none of.
struct Draw {
    random: Random,
    weights: Vec<u32>,
    asks: Vec<u32>,
    /// Fewer keys and ids mean more conflicts.
    keys: u8,
    ids: u8,
    values: u64,
    versions: u64,
}

impl Draw {
    fn new(mut random: Random) -> Draw {
        let mut weights = vec![300, 600, 120, 40, 6, 8, 10, 60, 3, 4, 3, 3, 1, 2, 2];
        for weight in weights.iter_mut().skip(3) {
            match random.below(4) {
                0 => *weight = 0,
                1 => *weight *= 3,
                _ => {}
            }
        }
        let mut asks = vec![100, 25, 10, 20, 2, 6, 4, 5];
        for weight in &mut asks {
            *weight *= [0, 1, 1, 3][random.below(4)];
        }
        asks[0] = asks[0].max(50);
        let keys = *random.pick(&[1, 2, KEYS, KEYS]);
        let ids = *random.pick(&[1, 2, IDS, IDS]);
        Draw { random, weights, asks, keys, ids, values: 4, versions: 0 }
    }

    fn event(&mut self, setup: &Setup) -> Event {
        let container = self.random.below(setup.containers.len()) as u8;
        let client = self.random.below(setup.clients) as u8;
        let random = &mut self.random;
        match random.weighted(&self.weights) {
            0 => {
                let kind = setup.containers[usize::from(container)].0;
                Event::Ask { client, container, ask: self.ask(kind) }
            }
            1 => Event::Go(random.bits()),
            2 => Event::Maintain,
            3 => Event::Clock { millis: [1, 700, 3_000, 9_000][random.below(4)] },
            4 => Event::HangUp { client },
            5 => {
                let key = random.one_in(2).then(|| random.small(KEYS));
                Event::Query { container, key, page: 1 + random.small(7) }
            }
            6 => Event::Cursor { which: random.small(4) },
            7 => {
                let (group, member) = (random.small(255), random.small(255));
                Event::Follow { group, member, items: 1 + random.small(4) }
            }
            8 => Event::Crash { salt: random.bits() },
            9 => {
                let (fails, lands) = (random.one_in(2), random.one_in(2));
                Event::StrikeAt { writes: 1 + random.small(12), strike: Strike { fails, lands } }
            }
            10 => Event::FailRead { reads: 1 + random.small(60) },
            11 => Event::Refuse,
            12 => Event::Poison,
            13 => Event::Quiet,
            _ => Event::Fill { batches: 1 + random.small(8) },
        }
    }

    fn ask(&mut self, kind: Kind) -> Ask {
        let key = self.random.small(self.keys);
        match self.random.weighted(&self.asks) {
            0 => Ask::One { key, want: self.want(kind, true) },
            1 => {
                let count = 1 + self.random.below(4);
                Ask::Batch { key, wants: (0..count).map(|_| self.want(kind, false)).collect() }
            }
            2 => Ask::Bulk { wants: self.bulk() },
            3 => {
                let procedure = *self.random.pick(&Procedure::ALL);
                let mut docs = [self.doc(kind), self.doc(kind)];
                // Unique values are not what these are about.
                docs.iter_mut().for_each(|doc| doc.u = 1_000 + doc.n);
                Ask::Call { key, procedure, docs }
            }
            4 => Ask::Clear { key },
            5 => Ask::Split { which: self.random.small(16), by_storage: self.random.one_in(2) },
            6 => Ask::Merge { which: self.random.small(16) },
            _ => Ask::Policy { which: self.random.small(POLICIES.len() as u8) },
        }
    }

    /// Each about another id, so that its commit tells which it was.
    fn bulk(&mut self) -> Vec<(u8, Want)> {
        let mut wants = Vec::new();
        for id in 0..IDS {
            if self.random.one_in(3) {
                continue;
            }
            let key = self.random.small(self.keys);
            let doc = Doc { id, ..self.doc(Kind::Plain) };
            let want = match self.random.below(4) {
                0 => Want::Create(doc),
                1 => Want::Upsert(doc, None),
                2 => Want::Patch { id, n: doc.n, u: None },
                _ => Want::Delete(id, None),
            };
            wants.push((key, want));
        }
        wants
    }

    fn want(&mut self, kind: Kind, single: bool) -> Want {
        let doc = self.doc(kind);
        let id = self.random.small(self.ids);
        // What the client knows by then takes the place of the text.
        let etag = (single && self.random.one_in(4)).then(String::new);
        match self.random.below(12) {
            0 | 1 => Want::Create(doc),
            2..5 => Want::Upsert(doc, etag),
            5 | 6 => {
                let renames = kind.default_ttl().is_none() && self.random.one_in(3);
                let id = if renames { id } else { doc.id };
                Want::Replace(id, doc, etag)
            }
            7 | 8 => {
                let u = (kind.is_unique() && self.random.one_in(3)).then_some(doc.u);
                Want::Patch { id, n: doc.n, u }
            }
            9 => Want::Delete(id, etag),
            _ => Want::Read(id),
        }
    }

    fn doc(&mut self, kind: Kind) -> Doc {
        self.versions += 1;
        let ttl = match kind.default_ttl() {
            Some(_) if self.random.one_in(3) => Some([-1, 2, 5, 30][self.random.below(4)]),
            _ => None,
        };
        let u = self.random.bits() % self.values;
        Doc { id: self.random.small(self.ids), n: self.versions, u, ttl }
    }
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>5}  ", self.at)?;
        match &self.event {
            Event::Ask { client, container, ask } => {
                write!(f, "client {client} asks container {container} for {ask:?}")
            }
            Event::Go(number) => write!(f, "go on ({})", number % 1_000),
            Event::Clock { millis } => write!(f, "{millis} ms pass"),
            Event::Crash { .. } => write!(f, "crash"),
            other => write!(f, "{other:?}"),
        }
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} lanes, {} clients, containers {:?}, partitions of {:?} bytes, steps of {} items, \
             feeds trimmed after {:?} commits",
            self.lanes,
            self.clients,
            self.containers,
            self.partition_bytes_max,
            self.budget_items,
            self.trim_commits
        )
    }
}

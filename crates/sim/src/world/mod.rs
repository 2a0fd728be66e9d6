//! A run: a database on the simulated store, its clients, and what must be true of them.
//!
//! Everything happens on one thread. Operations of clients and steps of maintenance are futures
//! that are polled here and nowhere else; the store does what it is told to; time passes when an
//! event says so. So the plan decides all that happens, and the same plan has the same trace.

mod ask;
mod commits;
mod feeds;
mod reads;
mod settle;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{self, Poll, Wake, Waker};

use partita_engine::{
    ChangeFeedSettings, Context, Database, DatabasePath, EngineSettings, KeyRequired, Maintenance,
    MaintenanceBudget, Op, Outcome, PartitionSettings, QuerySettings, Reply, ScriptOp,
    ScriptSettings, ThroughputMode,
};
use partita_model::{Clock, Error, FixedClock, ScriptKind, SeededEntropy, Throughput, Value};
use partita_storage::PartitionId;

use self::commits::Record;
use self::feeds::Group;
use self::reads::Cursor;
use crate::bug::Bug;
use crate::isolation::History;
use crate::kind::{KEYS, Kind, path};
use crate::model::Items;
use crate::plan::{Event, Plan, Setup};
use crate::random::Random;
use crate::scripts::{Closures, Procedure};
use crate::store::{Actor, Disk, StoreSettings, Strike};

/// What went wrong.
pub type Violation = String;
pub(crate) type Checked<T = ()> = Result<T, Violation>;

type Operation = Pin<Box<dyn Future<Output = Reply>>>;
type Step = Pin<Box<dyn Future<Output = Result<Maintenance, Error>>>>;

/// How a run ended well.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Events that happened, and futures that were polled.
    pub steps: u64,
    pub commits: u64,
    /// Operations that were begun, and those that succeeded.
    pub asked: u64,
    pub acknowledged: u64,
    pub crashes: u64,
    /// Splits and merges that were begun, and those that came to their end.
    pub moves: u64,
    pub moved: u64,
    /// Changes of an indexing policy.
    pub policies: u64,
    /// Items that were removed since their time was over.
    pub expiries: u64,
    /// Readers of all versions who came too late.
    pub latecomers: u64,
    /// Failed writes that the process lived through.
    pub reopenings: u64,
    /// Crashes in the middle of the recovery from one.
    pub recoveries_cut: u64,
    /// The same for two runs that are the same.
    pub trace: u64,
}

impl Report {
    /// Adds up what was counted.
    pub fn add(&mut self, other: &Report) {
        self.steps += other.steps;
        self.commits += other.commits;
        self.asked += other.asked;
        self.acknowledged += other.acknowledged;
        self.crashes += other.crashes;
        self.moves += other.moves;
        self.moved += other.moved;
        self.policies += other.policies;
        self.expiries += other.expiries;
        self.latecomers += other.latecomers;
        self.reopenings += other.reopenings;
        self.recoveries_cut += other.recoveries_cut;
    }
}

/// Runs a plan.
pub fn run(plan: &Plan, bug: Option<Bug>) -> Result<Report, Violation> {
    let mut world = World::new(&plan.setup, bug)?;
    for planned in &plan.events {
        world.happen(&planned.event)?;
    }
    world.settle()?;
    world.finish()
}

pub(crate) struct World {
    setup: Setup,
    bug: Option<Bug>,
    disk: Disk,
    clock: Arc<FixedClock>,
    database: Arc<Database>,
    clients: Vec<Client>,
    maintenance: Option<(Step, Arc<Flag>)>,
    /// Faults of the store before the step under way began.
    step_faults: u64,
    /// How the last step of maintenance ended.
    rested: Option<Maintenance>,
    containers: Vec<Contents>,
    /// Whose partitions these are.
    owners: BTreeMap<PartitionId, usize>,
    /// Operations whose end is not known yet, and those whose clients hung up.
    records: BTreeMap<u64, Record>,
    operations: u64,
    /// Commits so far.
    stamp: u64,
    /// Items that were changed since they were looked at: container, key, id.
    touched: BTreeSet<(usize, u8, u8)>,
    /// How often the store had been opened again when it was looked.
    reopenings: u64,
    groups: Vec<Group>,
    cursors: Vec<Cursor>,
    history: History,
    report: Report,
}

/// What a container holds, as the model has it.
#[derive(Default)]
struct Contents {
    kind: Option<Kind>,
    keys: BTreeMap<u8, Items>,
    /// All changes of each logical partition, in the order of commits.
    changes: BTreeMap<u8, Vec<Changed>>,
    /// The highest LSN that somebody was told, by logical partition.
    told: BTreeMap<u8, u64>,
    /// Which commits changed it, and when they were submitted, in Unix seconds.
    ages: Vec<(u64, u64)>,
    /// Its ranges at the last quiet point.
    ranges: BTreeSet<u32>,
}

impl Contents {
    /// Adds to what happened in a logical partition. Nothing happens earlier than what happened.
    fn change(&mut self, key: u8, lsn: u64, id: u8, (n, expired): (Option<u64>, bool)) {
        let changes = self.changes.entry(key).or_default();
        let last = changes.iter().rfind(|change| change.id == id);
        let previous = last.filter(|change| change.n.is_some()).map(|change| change.lsn);
        changes.push(Changed { lsn, id, n, expired, previous });
    }

    /// Is this LSN later than all that happened in a logical partition?
    fn check_order(&self, key: u8, lsn: u64) -> Checked {
        match self.changes.get(&key).and_then(|changes| changes.last()) {
            Some(last) if last.lsn >= lsn => Err(format!("LSN {lsn} is not later than {last:?}")),
            _ => Ok(()),
        }
    }
}

/// A change of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Changed {
    lsn: u64,
    id: u8,
    /// None: it was deleted.
    n: Option<u64>,
    /// It was, since its time was over.
    expired: bool,
    /// The change of the same item before, if that left it there.
    previous: Option<u64>,
}

#[derive(Default)]
struct Client {
    running: Option<Running>,
    /// The session token of each logical partition.
    tokens: HashMap<(usize, u8), String>,
    /// The ETags of items that it has seen.
    etags: HashMap<(usize, u8, u8), String>,
}

/// An operation under way.
struct Running {
    number: u64,
    operation: Operation,
    flag: Arc<Flag>,
}

/// Somebody who may go on.
struct Flag(AtomicBool);

impl Flag {
    fn raised() -> Arc<Flag> {
        Arc::new(Flag(AtomicBool::new(true)))
    }

    fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Polls a future whose flag says that it may go on.
fn poll<F: Future + ?Sized>(future: &mut Pin<Box<F>>, flag: &Arc<Flag>) -> Poll<F::Output> {
    flag.0.store(false, Ordering::Relaxed);
    let waker = Waker::from(Arc::clone(flag));
    future.as_mut().poll(&mut task::Context::from_waker(&waker))
}

/// Who or what may go on.
#[derive(Clone, Copy, Debug)]
enum Choice {
    Client(usize),
    Maintenance,
    Write(usize),
    Sync(usize),
    Tell(usize),
}

impl World {
    fn new(setup: &Setup, bug: Option<Bug>) -> Checked<World> {
        let disk = Disk::new(StoreSettings { lanes: setup.lanes, bug });
        let clock = Arc::new(FixedClock::new(1_700_000_000_000));
        let database = open(setup, &disk, &clock)?;
        let mut world = World {
            setup: setup.clone(),
            bug,
            disk,
            clock,
            database,
            clients: (0..setup.clients).map(|_| Client::default()).collect(),
            maintenance: None,
            step_faults: 0,
            rested: None,
            containers: Vec::new(),
            owners: BTreeMap::new(),
            records: BTreeMap::new(),
            operations: 0,
            stamp: 0,
            touched: BTreeSet::new(),
            reopenings: 0,
            groups: Vec::new(),
            cursors: Vec::new(),
            history: History::default(),
            report: Report::default(),
        };
        world.furnish()?;
        world.disk.hurry(false);
        world.disk.take_seen();
        Ok(world)
    }

    /// Makes the containers with their procedures, and the readers of their feeds.
    fn furnish(&mut self) -> Checked {
        self.must(Op::CreateDatabase { name: "db".into(), throughput: None })?;
        for (at, (kind, throughput)) in self.setup.containers.clone().into_iter().enumerate() {
            let body = format!(r#"{{"id":"c{at}",{}}}"#, kind.fields());
            self.must(Op::CreateContainer {
                database: DatabasePath("db".into()),
                body: value(&body)?,
                throughput: Some(Throughput::Manual(throughput)),
                key_required: KeyRequired::Yes,
            })?;
            for procedure in Procedure::ALL {
                let name = procedure.name();
                let body = value(&format!(r#"{{"id":"{name}","body":"{name}"}}"#))?;
                let kind = ScriptKind::Procedure;
                self.must(Op::Script(ScriptOp::Create { container: path(at), kind, body }))?;
            }
            let keys = (0..KEYS).map(|key| (key, Items::new())).collect();
            self.containers.push(Contents { kind: Some(kind), keys, ..Contents::default() });
            self.follow_all(at, kind)?;
        }
        self.count_moved()
    }

    fn kind(&self, container: usize) -> Kind {
        self.containers[container].kind.unwrap_or(Kind::Plain)
    }

    fn seconds(&self) -> u64 {
        self.clock.unix_millis() / 1_000
    }

    /// Does an operation that waits for nothing.
    fn now(&self, op: Op, context: &Context) -> Checked<Reply> {
        let mut operation: Operation = {
            let (database, context) = (Arc::clone(&self.database), context.clone());
            Box::pin(async move { database.execute(op, &context).await })
        };
        match poll(&mut operation, &Flag::raised()) {
            Poll::Ready(reply) => Ok(reply),
            Poll::Pending => Err("an operation that should wait for nothing waits".into()),
        }
    }

    fn must(&self, op: Op) -> Checked<Outcome> {
        let reply = self.now(op, &Context::default())?;
        reply.result.map_err(|error| format!("the scene cannot be set: {error}"))
    }

    /// Lets an event happen.
    fn happen(&mut self, event: &Event) -> Checked {
        self.report.steps += 1;
        // Time passes between any two events, and nowhere else.
        match event {
            Event::Ask { client, container, ask } => {
                let client = usize::from(*client) % self.clients.len();
                self.ask(client, usize::from(*container) % self.containers.len(), ask)?;
            }
            Event::Go(number) => drop(self.go(*number)?),
            Event::Maintain => self.maintain()?,
            Event::Clock { millis } => self.clock.advance_millis(*millis),
            Event::HangUp { client } => {
                let client = usize::from(*client) % self.clients.len();
                if let Some(running) = self.clients[client].running.take() {
                    self.end_record(running.number);
                }
            }
            Event::Query { container, key, page } => {
                let container = usize::from(*container) % self.containers.len();
                self.query_all(container, *key, usize::from(*page))?;
            }
            Event::Cursor { which } => self.go_on_reading(usize::from(*which))?,
            Event::Follow { group, member, items } => {
                let group = usize::from(*group) % self.groups.len().max(1);
                self.follow(group, usize::from(*member), usize::from(*items))?;
            }
            Event::Crash { salt } => self.restart(*salt)?,
            Event::StrikeAt { writes, strike } => {
                self.disk.strike_at(u64::from(*writes), *strike);
            }
            Event::Fill { batches } => self.disk.fill(u64::from(*batches)),
            Event::FailRead { reads } => self.disk.fail_read(u64::from(*reads)),
            Event::Refuse => self.disk.refuse(),
            Event::Poison => self.disk.poison(),
            Event::Quiet => self.settle()?,
        }
        self.absorb()?;
        if self.disk.is_down() {
            self.restart(self.disk.trace())?;
        }
        self.look_at_one()
    }

    /// All that could go on now.
    fn choices(&self) -> Vec<Choice> {
        let mut choices = Vec::new();
        for (at, client) in self.clients.iter().enumerate() {
            if client.running.as_ref().is_some_and(|running| running.flag.is_raised()) {
                choices.push(Choice::Client(at));
            }
        }
        if self.maintenance.as_ref().is_some_and(|(_, flag)| flag.is_raised()) {
            choices.push(Choice::Maintenance);
        }
        for lane in 0..self.disk.lanes() {
            let [write, sync, tell] = self.disk.stages(lane);
            choices.extend(write.then_some(Choice::Write(lane)));
            choices.extend(sync.then_some(Choice::Sync(lane)));
            choices.extend(tell.then_some(Choice::Tell(lane)));
        }
        choices
    }

    /// Lets one of those who can go on go on. False: nobody can.
    fn go(&mut self, number: u64) -> Checked<bool> {
        let choices = self.choices();
        let mut random = Random::new(number);
        let Some(choice) = choices.get(random.below(choices.len())) else { return Ok(false) };
        match *choice {
            Choice::Client(client) => self.go_on(client)?,
            Choice::Maintenance => self.maintain()?,
            Choice::Write(lane) => self.disk.write(lane, 1 + random.below(4)),
            Choice::Sync(lane) => self.disk.sync(lane),
            Choice::Tell(lane) => self.disk.tell(lane, random.below(4)),
        }
        self.absorb()?;
        Ok(true)
    }

    /// Begins a step of maintenance, or goes on with it if there is something to go on with.
    fn maintain(&mut self) -> Checked {
        if self.maintenance.is_none() {
            let database = Arc::clone(&self.database);
            let (items_max, bytes_max) = (self.setup.budget_items, 1 << 20);
            let step: Step = Box::pin(async move {
                database.maintain_step(&MaintenanceBudget { items_max, bytes_max }).await
            });
            self.maintenance = Some((step, Flag::raised()));
            self.step_faults = self.disk.faults();
        }
        let Some((mut step, flag)) = self.maintenance.take() else { return Ok(()) };
        if !flag.is_raised() {
            self.maintenance = Some((step, flag));
            return Ok(());
        }
        self.report.steps += 1;
        self.disk.note_actor(Actor::Maintenance, self.seconds());
        let polled = poll(&mut step, &flag);
        self.disk.note_actor(Actor::Nobody, self.seconds());
        match polled {
            Poll::Pending => self.maintenance = Some((step, flag)),
            Poll::Ready(Ok(maintenance)) => self.rested = Some(maintenance),
            Poll::Ready(Err(error)) => {
                self.rested = None;
                if !self.disk.has_failed_since(self.step_faults) {
                    return Err(format!("maintenance failed without a fault: {error}"));
                }
            }
        }
        self.absorb()
    }

    /// The process ends, and another one opens what is left.
    fn restart(&mut self, salt: u64) -> Checked {
        if self.bug == Some(Bug::EarlyAck) {
            // Who was told knows it: else nothing would be wrong with losing it.
            for client in 0..self.clients.len() {
                self.go_on(client)?;
            }
        }
        let mut random = Random::new(salt);
        self.crash(&mut random)?;
        self.records.clear();
        if random.one_in(4) {
            let strike = Strike { fails: false, lands: random.one_in(2) };
            self.disk.strike_at(1 + random.below(2) as u64, strike);
        }
        self.database = loop {
            match open(&self.setup, &self.disk, &self.clock) {
                Ok(database) => break database,
                Err(_) if self.disk.is_down() => {
                    self.report.recoveries_cut += 1;
                    self.crash(&mut random)?;
                }
                Err(what) => return Err(what),
            }
        };
        self.disk.calm();
        self.disk.take_seen();
        self.touched.clear();
        self.disk.hurry(false);
        self.check_contents("after a restart")
    }

    fn crash(&mut self, random: &mut Random) -> Checked {
        self.report.crashes += 1;
        let survivors = self.disk.crash(|waiting| match random.below(3) {
            0 => 0,
            1 => waiting,
            _ => random.below(waiting + 1),
        });
        self.clients.iter_mut().for_each(|client| client.running = None);
        self.maintenance = None;
        survivors.iter().try_for_each(|seen| self.take_note(seen))
    }

    fn finish(mut self) -> Result<Report, Violation> {
        self.history.check()?;
        self.report.trace = self.disk.trace();
        self.report.commits = self.stamp;
        Ok(self.report)
    }
}

fn open(setup: &Setup, disk: &Disk, clock: &Arc<FixedClock>) -> Checked<Arc<Database>> {
    let entropy = Arc::new(SeededEntropy::new(setup.seed ^ disk.trace()));
    let usual = EngineSettings::default();
    let settings = EngineSettings {
        throughput: ThroughputMode::Off,
        query: QuerySettings { cache_entries_min: 1, ..QuerySettings::default() },
        partitions: PartitionSettings {
            bytes_max: setup.partition_bytes_max.unwrap_or(usual.partitions.bytes_max),
            ..usual.partitions
        },
        change_feed: ChangeFeedSettings {
            trim_commits_min: setup.trim_commits.unwrap_or(usual.change_feed.trim_commits_min),
            ..usual.change_feed
        },
        scripts: ScriptSettings { runtime: Some(Arc::new(Closures)), ..ScriptSettings::default() },
        ..EngineSettings::default()
    };
    let store = Arc::new(disk.open());
    let (clock, entropy): (Arc<dyn Clock>, _) = (Arc::clone(clock) as _, entropy);
    disk.hurry(true);
    Database::open(store, clock, entropy, settings)
        .map_err(|error| format!("the database does not open: {error}"))
}

fn value(text: &str) -> Checked<Value> {
    Value::parse(text.as_bytes()).map_err(|error| format!("{text}: {error}"))
}

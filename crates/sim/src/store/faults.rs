//! What may go wrong with the simulated disk, when it is told to.

use partita_storage::{Result, StorageError, TicketSetter};

use super::{Disk, Seen, Stage, State, Waiting};
use crate::random::Random;

/// What happens at a write that was chosen for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strike {
    /// The write fails, and the process that has the store open lives on.
    pub fails: bool,
    /// It happens all the same.
    pub lands: bool,
}

impl Disk {
    /// Has the store crashed, at a write that was chosen for it?
    pub fn is_down(&self) -> bool {
        self.lock().opened == 0
    }

    /// Has a write failed?
    pub fn is_poisoned(&self) -> bool {
        self.lock().poisoned.is_some()
    }

    /// How often it was opened again after a failed write.
    pub fn reopenings(&self) -> u64 {
        self.lock().reopenings
    }

    /// Has the next crash or failed write come at the n-th write from now on.
    pub fn strike_at(&self, writes: u64, strike: Strike) {
        let mut state = self.lock();
        (state.writes_left, state.strike) = (Some(writes), strike);
    }

    /// The n-th read from now on fails.
    pub fn fail_read(&self, reads: u64) {
        self.lock().reads_left = Some(reads);
    }

    /// The next batch is refused, since too many wait.
    pub fn refuse(&self) {
        self.lock().refusals += 1;
    }

    /// There is no room for the next few batches that free none.
    pub fn fill(&self, batches: u64) {
        let mut state = self.lock();
        (state.full, state.faults) = (batches, state.faults + 1);
    }

    /// No fault strikes that has not struck yet.
    pub fn calm(&self) {
        self.lock().calm();
    }

    /// How many faults have struck.
    pub fn faults(&self) -> u64 {
        self.lock().faults
    }

    /// Has a fault struck since there were so many, or does one go on?
    pub fn has_failed_since(&self, faults: u64) -> bool {
        let state = self.lock();
        state.faults > faults || state.is_cut() || state.is_reopened || state.full > 0
    }

    /// A write fails, and nothing more is accepted.
    pub fn poison(&self) {
        let mut state = self.lock();
        state.faults += 1;
        state.fail();
    }

    /// Ends whoever has the store open. Of what was not synced in a lane the first `kept(waiting)`
    /// batches survive. Returns the commits that were not visible before and are now.
    pub fn crash(&self, kept: impl FnMut(usize) -> usize) -> Vec<Seen> {
        let mut state = self.lock();
        state.opened = 0;
        state.calm();
        let survivors = state.recover(kept);
        state.lanes.iter_mut().for_each(|lane| lane.clear());
        state.seen.clear();
        state.hurries = true;
        state.mix(0xdead);
        survivors
    }
}

impl State {
    pub(super) fn is_cut(&self) -> bool {
        self.opened == 0 || self.poisoned.is_some()
    }

    fn calm(&mut self) {
        (self.writes_left, self.reads_left) = (None, None);
        (self.refusals, self.full) = (0, 0);
    }

    /// A write is about to happen. Error: the store crashes at it or it fails, or the store had
    /// crashed before.
    pub(super) fn begin_write(&mut self) -> std::result::Result<(), Strike> {
        if self.opened == 0 {
            return Err(Strike::default());
        }
        match &mut self.writes_left {
            Some(left) if *left <= 1 => {
                self.writes_left = None;
                self.faults += 1;
                match self.strike.fails {
                    true => self.fail(),
                    false => self.opened = 0,
                }
                Err(self.strike)
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Stops at a failed write: of all that is not decided nobody knows the end.
    fn fail(&mut self) {
        self.poisoned = Some("a write was made to fail".to_owned());
        let undecided = self.lanes.iter_mut().flatten().filter(|waiting| waiting.is_open());
        let setters: Vec<TicketSetter> =
            undecided.filter_map(|waiting| waiting.setter.take()).collect();
        setters.into_iter().for_each(|setter| setter.set(Err(poisoned())));
    }

    /// Is this batch taken?
    pub(super) fn admit(&mut self, frees: bool) -> Result<()> {
        if self.poisoned.is_some() || self.is_reopened {
            return Err(stopped());
        }
        if self.full > 0 && !frees {
            (self.full, self.faults) = (self.full - 1, self.faults + 1);
            return Err(StorageError::DiskFull("the disk was made to be full".to_owned()));
        }
        if self.refusals > 0 {
            (self.refusals, self.faults) = (self.refusals - 1, self.faults + 1);
            return Err(StorageError::Overloaded(1 << 30));
        }
        Ok(())
    }

    /// Opens the store again after a failed write, for the process that has it.
    pub(super) fn reopen(&mut self) -> Result<()> {
        if self.poisoned.is_none() {
            return Ok(());
        }
        if self.full > 0 {
            self.full -= 1;
            return Err(StorageError::DiskFull("the disk was made to be full".to_owned()));
        }
        let mut random = Random::new(self.trace);
        let survivors = self.recover(|waiting| random.below(waiting + 1));
        self.seen.extend(survivors);
        (self.poisoned, self.is_reopened) = (None, true);
        // Who asked when it was stopped may be answered now.
        (self.reopenings, self.faults) = (self.reopenings + 1, self.faults + 1);
        self.mix(0xa1fe);
        Ok(())
    }

    /// Of what was not synced in a lane the first `kept(waiting)` batches are there, and nothing
    /// else. Answers that were decided before wait in the lanes as they did.
    fn recover(&mut self, mut kept: impl FnMut(usize) -> usize) -> Vec<Seen> {
        let mut survivors = Vec::new();
        for lane in 0..self.lanes.len() {
            let (open, decided): (Vec<Waiting>, Vec<Waiting>) =
                std::mem::take(&mut self.lanes[lane]).into_iter().partition(Waiting::is_open);
            self.lanes[lane].extend(decided);
            let count = kept(open.len());
            for waiting in open.into_iter().take(count) {
                survivors.extend(self.survive(waiting));
            }
        }
        for partition in self.partitions.values_mut() {
            let last = partition.synced;
            partition.cut(last);
        }
        survivors
    }

    /// A batch that reached the disk before a crash, though nobody was told.
    fn survive(&mut self, waiting: Waiting) -> Option<Seen> {
        let Waiting { partition: id, stage, mut seen, .. } = waiting;
        let lsn = match stage {
            Stage::Written(lsn) => lsn,
            Stage::Submitted(batch) => self.decide(id, seen.actor, &batch).ok()?,
            Stage::Decided(_) => return None,
        };
        self.partitions.get_mut(&id)?.synced = lsn;
        seen.lsn = lsn;
        Some(seen)
    }
}

impl Waiting {
    /// Is its end still to come?
    fn is_open(&self) -> bool {
        !matches!(self.stage, Stage::Decided(_))
    }
}

pub(super) fn poisoned() -> StorageError {
    StorageError::Poisoned("a write was made to fail".to_owned())
}

pub(super) fn stopped() -> StorageError {
    StorageError::Stopped("a write was made to fail".to_owned())
}

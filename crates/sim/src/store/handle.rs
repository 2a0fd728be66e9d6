//! The simulated store as the engine sees it: one opening of the disk.

use partita_model::Lsn;
use partita_storage::{
    Batch, Direction, KeyRange, Page, PartitionId, Record, Result, ScanLimit, Snapshot, Space,
    Status, StorageError, Store, Ticket,
};

use super::data::Partition;
use super::faults::{poisoned, stopped};
use super::{Disk, State};

/// A disk that is open.
pub struct SimStore {
    disk: Disk,
    opening: u64,
}

impl SimStore {
    pub(super) fn new(disk: Disk, opening: u64) -> SimStore {
        SimStore { disk, opening }
    }

    /// The disk, if this opening of it is the living one.
    fn state(&self) -> Result<std::sync::MutexGuard<'_, State>> {
        let state = self.disk.lock();
        if state.opened == self.opening { Ok(state) } else { Err(StorageError::Closed) }
    }

    /// The same for a write, which may be one at which the store crashes.
    fn write(&self, write: impl FnOnce(&mut State) -> Result<()>) -> Result<()> {
        let mut state = self.state()?;
        if state.poisoned.is_some() {
            return Err(stopped());
        }
        match state.begin_write() {
            Ok(()) => write(&mut state),
            Err(strike) => {
                if strike.lands {
                    write(&mut state)?;
                }
                Err(if strike.fails { poisoned() } else { StorageError::Closed })
            }
        }
    }
}

impl State {
    fn begin_read(&mut self) -> Result<()> {
        match &mut self.reads_left {
            Some(left) if *left <= 1 => {
                self.reads_left = None;
                self.faults += 1;
                Err(StorageError::Io("a read was made to fail".to_owned()))
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn living(&mut self, id: PartitionId) -> Result<&mut Partition> {
        self.partitions.get_mut(&id).ok_or(StorageError::PartitionGone(id))
    }

    fn create(&mut self, ids: &[PartitionId], start: Lsn) -> Result<()> {
        for (at, id) in ids.iter().enumerate() {
            let known = self.partitions.contains_key(id) || self.dropped.contains(id);
            if known || *id == PartitionId::RESERVED || ids[..at].contains(id) {
                return Err(StorageError::PartitionExists(*id));
            }
        }
        self.partitions.extend(ids.iter().map(|id| (*id, Partition::at(start))));
        Ok(())
    }
}

impl Store for SimStore {
    fn create_partitions(&self, ids: &[PartitionId], start: Lsn) -> Result<()> {
        self.state()?.admit(false)?;
        self.write(|state| state.create(ids, start))
    }

    fn drop_partitions(&self, ids: &[PartitionId]) -> Result<()> {
        self.write(|state| {
            for id in ids {
                if state.partitions.remove(id).is_some() {
                    state.dropped.insert(*id);
                }
            }
            Ok(())
        })
    }

    fn partitions(&self) -> Result<Vec<PartitionId>> {
        Ok(self.state()?.partitions.keys().copied().collect())
    }

    fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>> {
        let mut state = self.state()?;
        state.begin_read()?;
        let lsn = state.living(partition)?.hold();
        let opening = (self.opening, state.reopenings);
        Ok(Box::new(SimSnapshot { disk: self.disk.clone(), opening, partition, lsn }))
    }

    fn submit(&self, partition: PartitionId, batch: Batch) -> Ticket {
        let mut state = match self.state() {
            Ok(state) => state,
            Err(error) => return Ticket::resolved(Err(error)),
        };
        if let Err(error) = state.admit(batch.frees) {
            return Ticket::resolved(Err(error));
        }
        let (setter, ticket) = Ticket::new();
        state.submit(partition, batch, setter);
        if !state.hurries {
            return ticket;
        }
        let lane = state.lane_of(partition);
        while state.write_one(lane) {}
        if state.is_cut() {
            // Somebody waits for it, in the middle of a recovery.
            state.lanes[lane].iter_mut().for_each(|waiting| drop(waiting.setter.take()));
            return ticket;
        }
        state.sync(lane);
        while let Some((setter, answer)) = state.take_decided(lane, 0) {
            setter.set(answer);
        }
        ticket
    }

    fn seal(&self, partition: PartitionId) -> Result<Lsn> {
        let mut state = self.state()?;
        if state.poisoned.is_some() {
            return Err(stopped());
        }
        state.living(partition)?;
        let lane = state.lane_of(partition);
        while state.write_one(lane) {}
        if state.opened != self.opening {
            return Err(StorageError::Closed);
        }
        if state.poisoned.is_some() {
            return Err(stopped());
        }
        state.sync(lane);
        let partition = state.living(partition)?;
        partition.sealed = true;
        Ok(partition.visible)
    }

    fn unseal(&self, partition: PartitionId) -> Result<()> {
        let mut state = self.state()?;
        if state.poisoned.is_some() {
            return Err(stopped());
        }
        state.living(partition)?.sealed = false;
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.disk.lock().full > 0
    }

    fn is_stopped(&self) -> bool {
        let state = self.disk.lock();
        state.opened == self.opening && (state.poisoned.is_some() || state.is_reopened)
    }

    fn reopen(&self) -> Result<()> {
        self.state()?.reopen()
    }

    fn resume(&self) {
        if let Ok(mut state) = self.state() {
            state.is_reopened = false;
        }
    }

    fn status(&self) -> Status {
        let state = self.disk.lock();
        Status {
            kind: "simulated",
            healthy: state.poisoned.is_none(),
            trouble: state.poisoned.clone(),
            disk: None,
            reopenings: state.reopenings,
            partitions: state.partitions.len() as u64,
            lanes: state.lanes.len() as u64,
            disk_bytes: 0,
            commits: state.commits,
            groups: state.commits,
            durability: "sync",
        }
    }

    fn close(&self) -> Result<()> {
        let mut state = self.state()?;
        for lane in 0..state.lanes.len() {
            while state.write_one(lane) {}
            state.sync(lane);
            while let Some((setter, answer)) = state.take_decided(lane, 0) {
                setter.set(answer);
            }
        }
        state.opened = 0;
        for partition in state.partitions.values_mut() {
            partition.sealed = false;
        }
        Ok(())
    }
}

/// A partition at one LSN.
struct SimSnapshot {
    disk: Disk,
    /// Of which opening, and after how many reopenings.
    opening: (u64, u64),
    partition: PartitionId,
    lsn: Lsn,
}

impl SimSnapshot {
    fn read<T>(&self, read: impl FnOnce(&Partition) -> T) -> Result<T> {
        let mut state = self.disk.lock();
        if state.opened != self.opening.0 {
            return Err(StorageError::Closed);
        }
        if state.reopenings != self.opening.1 {
            return Err(StorageError::Reopened);
        }
        state.begin_read()?;
        Ok(read(state.living(self.partition)?))
    }
}

impl Snapshot for SimSnapshot {
    fn lsn(&self) -> Lsn {
        self.lsn
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Record>> {
        self.read(|partition| partition.get(space, key, self.lsn))
    }

    fn get_many(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<Record>>> {
        self.read(|partition| keys.iter().map(|key| partition.get(space, key, self.lsn)).collect())
    }

    fn scan(
        &self,
        space: Space,
        range: &KeyRange,
        direction: Direction,
        limit: ScanLimit,
    ) -> Result<Page> {
        self.read(|partition| partition.scan(space, range, direction, limit, self.lsn))
    }
}

impl Drop for SimSnapshot {
    fn drop(&mut self) {
        let mut state = self.disk.lock();
        if (state.opened, state.reopenings) == self.opening
            && let Some(partition) = state.partitions.get_mut(&self.partition)
        {
            partition.let_go(self.lsn);
        }
    }
}

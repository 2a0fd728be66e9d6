//! Threads that lend queries a hand.
//!
//! A query runs on the thread of its request. When it has several partitions to ask, hands of the
//! crew take some of them off it. The crew is small and shared by all queries: a hand that is busy
//! elsewhere is not waited for, the query does the work itself.
//!
//! Hands are kept from one query to the next, since a thread made for one round costs more than a
//! short round takes: most of that is memory that each new thread's allocator touches first.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

/// Calls that may wait for a hand. Those who find no room do their work alone.
const WAITING_MAX: usize = 64;

/// Work that several threads can share: each call takes a part, and returns when none is left.
pub(super) trait Shared: Send + Sync {
    fn work(&self);
}

/// The hands of a database. They end with it.
pub(crate) struct Crew {
    hands: usize,
    calls: OnceLock<SyncSender<Arc<dyn Shared>>>,
}

impl Crew {
    /// A crew of so many. Its threads start when they are first called.
    pub(crate) fn new(hands: usize) -> Crew {
        Crew { hands, calls: OnceLock::new() }
    }

    /// Lets up to so many hands share the work. Returns at once.
    pub(super) fn call(&self, hands: usize, work: &Arc<dyn Shared>) {
        let calls = self.calls.get_or_init(|| start(self.hands));
        for _ in 0..hands.min(self.hands) {
            if calls.try_send(Arc::clone(work)).is_err() {
                return;
            }
        }
    }
}

/// Starts the threads. A system that has none left makes queries slower, not impossible.
fn start(hands: usize) -> SyncSender<Arc<dyn Shared>> {
    let (sender, receiver) = sync_channel(WAITING_MAX);
    let receiver = Arc::new(Mutex::new(receiver));
    for at in 0..hands {
        let receiver = Arc::clone(&receiver);
        let named = thread::Builder::new().name(format!("partita-query-{at}"));
        if named.spawn(move || lend(&receiver)).is_err() {
            break;
        }
    }
    sender
}

fn lend(calls: &Mutex<Receiver<Arc<dyn Shared>>>) {
    loop {
        let call = calls.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(work) = call else { return };
        work.work();
    }
}

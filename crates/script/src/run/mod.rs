//! The state of one run of a procedure or trigger, outside of the script's heap.
//!
//! The API's functions share it with the driver. It refers into the heap (callbacks that wait,
//! bodies that were set), so it is emptied by [`Run::end`] before the heap goes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use partita_engine::ScriptCall;
use partita_model::{Entropy, Error};
use rquickjs::Ctx;

use crate::bridge::{JsResult, SavedFunction, SavedValue, throw};
use crate::machine::Watch;
use crate::queue::{Operation, Queue, Queued};
use crate::transform::Transform;

mod message;

pub(crate) use message::{BODY, Message, OPERATION_TYPE};

/// Bytes of a log: what fits into a response's header with room to spare, percent-encoded.
const LOG_BYTES_MAX: usize = 4096;

/// The part of a run's time, in percent, after which operations are no longer accepted.
const ACCEPTED_PERCENT: u64 = 85;

/// Chains that a run may begin, each step counted: they lie outside of the script's heap.
const CHAINS_MAX: usize = 10_000;

pub(crate) struct Run {
    pub(crate) watch: Rc<Watch>,
    pub(crate) queue: Queue,
    pub(crate) self_link: String,
    pub(crate) alt_link: String,
    pub(crate) request: Message,
    /// A pre-trigger has none.
    pub(crate) response: Option<Message>,
    accepted_until_nanos: u64,
    entropy: Arc<dyn Entropy>,
    /// None: nobody asked for it.
    log: Option<RefCell<String>>,
    /// Why the run must end, whatever the script makes of it.
    verdict: RefCell<Option<Error>>,
    /// The steps of the chains that the script has begun. They refer into the heap, and the heap to
    /// them by their place in here only: nothing could free a circle that goes through us.
    chains: RefCell<Vec<Vec<Transform>>>,
    /// What the script gave to `abort`.
    aborted: RefCell<Option<SavedValue>>,
    /// A message was refused as too large.
    too_large: Cell<bool>,
}

impl Run {
    pub(crate) fn new(
        call: &ScriptCall<'_>,
        watch: &Rc<Watch>,
        entropy: &Arc<dyn Entropy>,
        request: Message,
        response: Option<Message>,
    ) -> Run {
        let accepted_nanos = call.millis_max.saturating_mul(1_000_000 / 100 * ACCEPTED_PERCENT);
        Run {
            watch: Rc::clone(watch),
            queue: Queue::default(),
            self_link: call.self_link.to_owned(),
            alt_link: call.alt_link.to_owned(),
            request,
            response,
            accepted_until_nanos: watch.now_nanos().saturating_add(accepted_nanos),
            entropy: Arc::clone(entropy),
            log: call.logs.then(RefCell::default),
            verdict: RefCell::default(),
            chains: RefCell::default(),
            aborted: RefCell::default(),
            too_large: Cell::new(false),
        }
    }

    /// May the script ask for more?
    pub(crate) fn accepts(&self) -> bool {
        self.queue.has_room() && self.watch.now_nanos() < self.accepted_until_nanos
    }

    /// Queues an operation, if more are accepted.
    pub(crate) fn ask(&self, operation: Operation, callback: Option<SavedFunction>) -> bool {
        let accepted = self.accepts();
        if accepted {
            self.queue.push(Queued { operation, callback });
        }
        accepted
    }

    /// Notes a chain of these steps; its place. None: more are not accepted.
    pub(crate) fn begin_chain(&self, steps: Vec<Transform>) -> Option<usize> {
        let mut chains = self.chains.borrow_mut();
        if chains.len() >= CHAINS_MAX || !self.accepts() {
            return None;
        }
        chains.push(steps);
        Some(chains.len() - 1)
    }

    /// The steps of a chain.
    pub(crate) fn chain(&self, at: usize) -> Vec<Transform> {
        self.chains.borrow().get(at).cloned().unwrap_or_default()
    }

    /// An id for a document that has none.
    pub(crate) fn new_id(&self) -> String {
        let bits = u128::from(self.entropy.next_u64()) << 64 | u128::from(self.entropy.next_u64());
        // Version 4, variant 1.
        let bits = bits & !(0xF << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62;
        let hex = format!("{bits:032x}");
        let (a, rest) = hex.split_at(8);
        let (b, rest) = rest.split_at(4);
        let (c, rest) = rest.split_at(4);
        let (d, e) = rest.split_at(4);
        format!("{a}-{b}-{c}-{d}-{e}")
    }

    pub(crate) fn logs(&self) -> bool {
        self.log.is_some()
    }

    /// Adds to the log, if there is one.
    pub(crate) fn log(&self, ctx: &Ctx<'_>, text: &str) -> JsResult<()> {
        let Some(log) = &self.log else { return Ok(()) };
        let mut log = log.borrow_mut();
        if log.len() + text.len() > LOG_BYTES_MAX {
            let message = format!("The script's log would be longer than {LOG_BYTES_MAX} bytes.");
            return Err(throw(ctx, 413, &message));
        }
        log.push_str(text);
        Ok(())
    }

    /// Ends the run with this error, whatever the script makes of it.
    pub(crate) fn condemn(&self, error: Error) -> rquickjs::Error {
        self.verdict.borrow_mut().get_or_insert(error);
        self.watch.stop();
        rquickjs::Error::Unknown
    }

    pub(crate) fn verdict(&self) -> Option<Error> {
        self.verdict.borrow().clone()
    }

    /// Ends the run with what the script says.
    pub(crate) fn abort(&self, reason: SavedValue) {
        self.aborted.borrow_mut().get_or_insert(reason);
        self.watch.stop();
    }

    pub(crate) fn aborted(&self) -> Option<SavedValue> {
        self.aborted.borrow().clone()
    }

    /// Refuses a message for its size.
    pub(crate) fn refuse_size(&self, ctx: &Ctx<'_>, name: &str) -> rquickjs::Error {
        self.too_large.set(true);
        let message = format!(
            "Resulting message would be too large because of \"{name}\". Return from script with \
             current message and use continuation token to call the script again or modify your \
             script."
        );
        throw(ctx, 413, &message)
    }

    pub(crate) fn was_too_large(&self) -> bool {
        self.too_large.get()
    }

    /// Lets go of everything in the heap; what was logged.
    pub(crate) fn end(&self) -> String {
        self.queue.clear();
        self.aborted.take();
        self.chains.take();
        self.request.clear();
        if let Some(response) = &self.response {
            response.clear();
        }
        self.log.as_ref().map(RefCell::take).unwrap_or_default()
    }
}

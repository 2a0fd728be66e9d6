//! Standing back: who computes for long lets others go first.
//!
//! Most scripts are short, and their callers wait for them as others wait for a read: they get
//! processors as the server does. One that computes for longer must not keep those others waiting,
//! so from then on it gets what nobody else wants. A thread that has stood back cannot come forward
//! again, as systems allow that to administrators only; a worker that has is replaced after its
//! call. The same goes for what a script has the server do: the rest of a long run goes on in a
//! thread of its own that stands behind the server's others.

/// Processor time of a call that counts as short.
pub(super) const SHORT_NANOS: u64 = 20_000_000;

/// How a worker stands back. The ways differ between systems, and some need the thread that runs
/// scripts, so it is made there.
pub trait Courtesy: Send + Sync {
    /// The processor time that this process has had.
    fn processor_nanos(&self) -> u64;

    /// Has the thread that runs scripts stand back. Called from another one, once.
    fn stand_back(&self);
}

/// Never stands back: for workers that nobody shares a machine with.
#[derive(Clone, Copy, Debug)]
pub struct NoCourtesy;

impl Courtesy for NoCourtesy {
    fn processor_nanos(&self) -> u64 {
        0
    }

    fn stand_back(&self) {}
}

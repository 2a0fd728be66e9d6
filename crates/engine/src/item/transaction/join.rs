//! Waiting for several commits at once, without a runtime.
//!
//! All futures are started before any is waited for, so that the store can commit what they submit
//! as one group. Whoever is woken asks all that are left: they are at most as many as a request has
//! operations.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// A future on the heap.
pub(super) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

enum JoinPart<'a, T> {
    Waiting(Boxed<'a, T>),
    Done(T),
}

/// The outputs of all futures, in their order.
pub(super) async fn all<T: Unpin>(futures: Vec<Boxed<'_, T>>) -> Vec<T> {
    let mut parts: Vec<JoinPart<'_, T>> = futures.into_iter().map(JoinPart::Waiting).collect();
    poll_fn(|context| {
        let mut waiting = false;
        for part in &mut parts {
            if let JoinPart::Waiting(future) = part {
                match future.as_mut().poll(context) {
                    Poll::Ready(output) => *part = JoinPart::Done(output),
                    Poll::Pending => waiting = true,
                }
            }
        }
        if waiting { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    let done = |part| match part {
        JoinPart::Done(output) => Some(output),
        JoinPart::Waiting(_) => None,
    };
    parts.into_iter().filter_map(done).collect()
}

//! An answer that is waited for, and what becomes of it if the client does not wait.
//!
//! A client leaves in two ways. It may end its side of the connection and still read (a *half
//! close*): over HTTP/1.1 what it sends comes to an end. Or it is gone: the connection was reset
//! or broke, writing failed, of HTTP/2 the stream was reset. The door says with each answer what
//! either means for it; those who serve connections drop what is not to go on. To drop a future is
//! to cancel it: whoever does its work elsewhere sees to it that the work ends, too.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::runtime::Handle;

use crate::body::Held;
use crate::door::Response;

/// What becomes of a request whose client leaves before it has its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfLeft {
    /// It is cancelled, also by a half close: it may take long, and a client that reads on is rare.
    Cancel,
    /// It is answered after a half close, and cancelled if the client is gone.
    Answer,
    /// It is done, whoever hears of it: it changes something.
    Finish,
}

/// An answer that is waited for.
#[must_use]
pub struct Pending {
    /// None: it was answered.
    future: Option<Pin<Box<dyn Future<Output = Response> + Send>>>,
    if_left: IfLeft,
    /// What the request's body has of the memory for bodies: it is there until the future is gone,
    /// whoever runs it.
    pub(crate) held: Option<Held>,
    /// It panicked if this stays: it is not polled again.
    is_polled: bool,
}

impl Pending {
    pub fn new(
        if_left: IfLeft,
        future: impl Future<Output = Response> + Send + 'static,
    ) -> Pending {
        Pending { future: Some(Box::pin(future)), if_left, held: None, is_polled: false }
    }

    pub(crate) fn if_left(&self) -> IfLeft {
        self.if_left
    }
}

impl Future for Pending {
    type Output = Response;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Response> {
        self.is_polled = true;
        let future = self.future.as_mut().expect("an answer is not asked for again");
        let polled = future.as_mut().poll(cx);
        self.is_polled = false;
        let response = ready!(polled);
        self.future = None;
        self.held = None;
        Poll::Ready(response)
    }
}

/// What is to be done whoever hears of it goes on by itself.
impl Drop for Pending {
    fn drop(&mut self) {
        let is_left = self.if_left == IfLeft::Finish && !self.is_polled;
        let Some(future) = self.future.take().filter(|_| is_left) else { return };
        // Without a runtime the server has stopped, and what was not committed is lost with it.
        if let Ok(runtime) = Handle::try_current() {
            let held = self.held.take();
            runtime.spawn(async move {
                drop(future.await);
                drop(held);
            });
        }
    }
}

//! Reading a request's body whole, within bounds.
//!
//! Three bounds: the size of one body (checked against the announced length first, then while
//! reading), the time it may take, and the bytes of all bodies in memory over all connections
//! (`budget.rs`). Memory grows with what arrives, never with what is announced. Of a client that
//! nobody knows yet, only little is read before the door has looked at the request's head.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use crate::budget::BodyBudget;
use crate::door::Refusal;
use crate::settings::limits;

/// The bounds, and how much of the common one is in use.
#[derive(Debug)]
pub(crate) struct BodyLimits {
    pub(crate) bytes_max: u64,
    pub(crate) time_max: Duration,
    pub(crate) budget: Arc<BodyBudget>,
}

/// A body and its share of the common bound, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    budget: Arc<BodyBudget>,
    bytes_max: u64,
    bytes: u64,
}

impl BodyLimits {
    /// A share for a body that has not begun.
    pub(crate) fn hold(&self) -> Held {
        Held { budget: Arc::clone(&self.budget), bytes_max: self.bytes_max, bytes: 0 }
    }

    /// Must the door know who asks before a body of this length is read?
    pub(crate) fn is_for_known_clients(&self, announced: Option<u64>) -> bool {
        announced.is_none_or(|bytes| bytes > limits::UNKNOWN_BODY_BYTES_MAX)
            || self.budget.is_tight()
    }

    /// Reads a body of HTTP/2 whole.
    pub(crate) async fn read(&self, body: Incoming) -> Result<(Bytes, Held), Refusal> {
        let held = self.hold();
        if body.is_end_stream() {
            return Ok((Bytes::new(), held));
        }
        if let Some(announced) = body.size_hint().exact()
            && announced > self.bytes_max
        {
            let bytes_max = self.bytes_max;
            return Err(Refusal::BodyTooLarge { announced: Some(announced), bytes_max });
        }
        // The timer is set only if the body is not there yet.
        match tokio::time::timeout(self.time_max, collect(body, held)).await {
            Ok(result) => result,
            Err(_) => Err(Refusal::BodyTimeout { seconds: self.time_max.as_secs() }),
        }
    }
}

async fn collect(mut body: Incoming, mut held: Held) -> Result<(Bytes, Held), Refusal> {
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Refusal::BodyBroken { reason: error.to_string() })?;
        // Trailers carry nothing we know.
        let Ok(data) = frame.into_data() else { continue };
        held.grow(data.len() as u64)?;
        if first.is_empty() {
            // Most bodies are one frame, which is passed on as it is.
            first = data;
            continue;
        }
        if all.is_empty() {
            all.extend_from_slice(&first);
        }
        all.extend_from_slice(&data);
    }
    Ok((if all.is_empty() { first } else { all.freeze() }, held))
}

impl Held {
    /// So many bytes have arrived.
    pub(crate) fn grow(&mut self, bytes: u64) -> Result<(), Refusal> {
        self.bytes += bytes;
        self.budget.take(bytes);
        if self.bytes > self.bytes_max {
            return Err(self.too_large());
        }
        if !self.budget.has_room() {
            return Err(Refusal::Overloaded { bytes_max: self.budget.bytes_max() });
        }
        Ok(())
    }

    /// May the body have so many bytes more?
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        bytes <= self.bytes_max.saturating_sub(self.bytes)
    }

    /// The body is too large, and nobody announced it.
    pub(crate) fn too_large(&self) -> Refusal {
        Refusal::BodyTooLarge { announced: None, bytes_max: self.bytes_max }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

//! What is known of a request beside its answer.

use std::net::SocketAddr;

use partita_engine::{Access, Reply};
use partita_gateway::{AnswerMemory, Delivery};
use partita_model::Charge;

/// A request on its way through a door: see [`Executor::start`](crate::Executor::start).
#[derive(Debug)]
pub struct RequestRecord {
    /// The door's name in metrics.
    pub(crate) door: &'static str,
    pub(crate) started_nanos: u64,
    /// What is done, in the words of the metrics.
    pub operation: &'static str,
    pub charge: Charge,
    /// How the answer reaches its client. The door gives it to the gateway with the answer.
    pub delivery: Delivery,
    /// Who asked, once that is known.
    pub who: Option<Access>,
    /// It changes what is not data.
    pub administers: bool,
}

/// An answer, as the metrics and the audit log need it.
#[derive(Clone, Copy, Debug)]
pub struct AnsweredRequest<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub peer: SocketAddr,
    /// Of HTTP, or what the door's protocol has in its place.
    pub status: u16,
    pub activity_id: &'a str,
    /// How long it took.
    pub nanos: u64,
}

impl RequestRecord {
    pub(crate) fn new(door: &'static str, started_nanos: u64) -> RequestRecord {
        RequestRecord {
            door,
            started_nanos,
            operation: "Refused",
            charge: Charge::default(),
            delivery: Delivery::default(),
            who: None,
            administers: false,
        }
    }

    /// Notes what a reply cost, and takes what its memory was reserved from: the answer that is
    /// made of the reply is as long, and keeps it until it is sent.
    pub fn take_memory(&mut self, reply: &mut Reply) -> Option<AnswerMemory> {
        self.charge = reply.charge;
        let memory = std::mem::take(&mut reply.memory);
        (!memory.is_empty()).then(|| AnswerMemory::new(memory))
    }
}

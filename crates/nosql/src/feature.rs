//! What the protocol has and this door does not yet have, by name.
//!
//! A client that asks for one of these gets 501 and the name: a wrong or partial answer would cost
//! its user far more time than a clear refusal.

use partita_model::Error;

/// A feature that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feature {
    Addresses,
    Attachments,
    DistributedTransactions,
    Triggers,
}

impl Feature {
    /// The feature in the words of the service's documentation.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Feature::Addresses => "direct mode (address resolution)",
            Feature::Attachments => "attachments",
            Feature::DistributedTransactions => "distributed transactions",
            Feature::Triggers => "triggers",
        }
    }

    /// The answer to a request that needs the feature.
    pub(crate) fn refusal(self) -> Error {
        Error::unsupported(format!("Not supported by this server yet: {}.", self.name()))
    }
}

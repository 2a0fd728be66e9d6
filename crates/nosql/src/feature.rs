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
}

impl Feature {
    /// The feature in the words of the service's documentation, and the way around it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Feature::Addresses => {
                "Direct mode (address resolution). Choose gateway mode: .NET: new \
                 CosmosClientOptions { ConnectionMode = ConnectionMode.Gateway }; .NET v2: new \
                 ConnectionPolicy { ConnectionMode = ConnectionMode.Gateway }; Java: \
                 new CosmosClientBuilder().gatewayMode(); EF Core: UseCosmos(…, options => \
                 options.ConnectionMode(ConnectionMode.Gateway)); Spring Data: \
                 new CosmosClientBuilder().gatewayMode() in your AbstractCosmosConfiguration, or \
                 spring.cloud.azure.cosmos.connection-mode=gateway"
            }
            Feature::Attachments => "attachments",
            Feature::DistributedTransactions => "distributed transactions",
        }
    }

    /// The answer to a request that needs the feature.
    pub(crate) fn refusal(self) -> Error {
        Error::unsupported(format!("Not supported by this server yet: {}.", self.name()))
    }
}

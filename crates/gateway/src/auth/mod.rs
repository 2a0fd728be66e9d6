//! Who signed a request.
//!
//! The master keys are here, four of them, two that may do everything and two that may only read
//! ([`Keys`]), the resource tokens that an account hands out, whose contents are the door's
//! business, and the tokens of identity providers ([`Issuer`]). Other kinds of credentials are
//! recognised and refused by name ([`AuthError::UnknownKind`]), so that nobody searches for a wrong
//! key where the kind is the problem. Whether the principal may do what it asks for is not decided
//! here.

mod bearer;
mod date;
mod master_key;
mod own_issuer;
mod published_keys;
mod resource_token;
mod scrape_token;
mod usual;

pub use bearer::{Bearer, Issuer, is_bearer_token, unknown_key, verify_bearer, verify_emulator};
pub use date::parse_http_date;
pub use master_key::{Key, KeyError, Keys, Signed, WELL_KNOWN_KEY, string_to_sign};
pub use own_issuer::{OwnIssuer, TokenClaims};
pub use published_keys::{Fetching, PublishedKeys};
pub use resource_token::is_resource_token;
pub use scrape_token::{ScrapeToken, ScrapeTokenError, shown_token};

/// Who may do what: the strength of the key that signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Principal {
    ReadWrite,
    ReadOnly,
}

/// Why a request's signature was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// There is no `authorization` header.
    #[error("the required header authorization is missing")]
    Missing,
    /// The header is not of the form `type=…&ver=…&sig=…`.
    #[error("the authorization header is malformed: {0}")]
    Malformed(String),
    /// A kind of credential this server does not know.
    #[error("authorization of type {0:?} is not supported; use the account key (type=master)")]
    UnknownKind(String),
    /// No key of the account made this signature. The string is what the server would have signed.
    #[error(
        "the signature does not match; check the key and that this string is signed: \
         {string_to_sign:?}"
    )]
    Mismatch { string_to_sign: String },
    /// The signature is right, but the date it covers cannot be read.
    #[error("the date {0:?} is not of the form \"Thu, 27 Apr 2017 00:51:12 GMT\"")]
    BadDate(String),
    /// The signature is right, but too old or from the future.
    #[error(
        "the authorization token is not valid at the current time: it was signed {apart_seconds} \
         seconds away from the server's clock (date {date:?}), more than {skew_seconds_max} are \
         not accepted; check the client's clock"
    )]
    Expired { date: String, apart_seconds: u64, skew_seconds_max: u64 },
    /// A resource token that was good once.
    #[error(
        "the resource token is not valid at the current time: it ended {ago_seconds} seconds ago; \
         read its permission for a new one"
    )]
    TokenEnded { ago_seconds: u64 },
    /// A token for scraping metrics that is not the right one.
    #[error(
        "the token does not open the metrics: show the one in the file of --metrics-token-file"
    )]
    Scraper,
    /// A token of an identity provider, and this server trusts none.
    #[error(
        "AAD tokens are not accepted: this server was told of no identity provider (--access-file)"
    )]
    NoIssuers,
    /// A token of an identity provider that does not count.
    #[error("the AAD token cannot be used: {0}")]
    Bearer(String),
}

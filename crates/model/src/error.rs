//! One error for the whole database.
//!
//! A kind exists because somebody acts differently on it: a client retries, refreshes a cache, or
//! gives up. Lower layers have narrower errors of their own and turn them into this one where their
//! crate ends; each door maps the kinds to its wire in one exhaustive match. The message is for a
//! person: it names the offending thing, the limit, and where possible what to do.

/// A result that fails with the database's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, and what the caller can do about it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// How a caller should react.
    pub kind: ErrorKind,
    /// What a person should read.
    pub message: String,
}

/// The reactions that are open to a caller. HTTP status and sub-status of the NoSQL door are given
/// where they tell two kinds apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request is wrong in itself: correct it, do not retry.
    BadRequest,
    /// The partition key does not fit the container or the item (400/1001): refresh the container's
    /// definition, then correct the key.
    PartitionKeyMismatch,
    /// The container was deleted and made again since the client last looked (400/1024): refresh.
    ContainerRidMismatch,
    /// The query's parts in several partitions must be put together by the client (400/1004): ask
    /// for its plan, and run the parts.
    NotServedDirectly {
        /// The plan, as JSON.
        plan: String,
    },
    /// The plan of the query asks more of the client than it says it can do (400/1004): write the
    /// query differently, or use a client that can.
    PlanNotSupported,
    /// A script threw an error with a number (400, the number is the sub-status): it is the
    /// script's own way of telling its caller something.
    ScriptFailed {
        /// What the script, or whoever ran it for a query, says.
        number: u32,
    },
    /// Nobody known signed this request: sign it again with the right key and time.
    Unauthenticated,
    /// The signer is known and may not do this.
    Forbidden,
    /// Roles of an identity provider's principals never allow this (403/5300): use a key.
    NotForRoles,
    /// No role of the principal allows this action here (403/5301).
    ActionNotGranted,
    /// The resource is not there.
    NotFound,
    /// The parent of the resource is not there (404/1003).
    OwnerNotFound,
    /// This server has not yet seen the session's writes (404/1002): retry, here or elsewhere.
    SessionNotAvailable,
    /// The resource exists but not this operation on it.
    MethodNotAllowed,
    /// Another resource has the name, id or unique key already.
    Conflict,
    /// The resource is not in the state that the client's condition asks for: read it again.
    PreconditionFailed,
    /// Not done because another operation of the same batch failed (424): look at that one.
    FailedDependency,
    /// A body, item or batch over its limit: send less.
    TooLarge,
    /// The results of a batch are over the limit of a response (413/3402): ask for less at once.
    ResponseTooLarge,
    /// The client remembers another container under this name (410/1000): look the name up again.
    NameStale,
    /// The addressed range was split or merged (410/1002): refresh the ranges and retry.
    RangeGone,
    /// The addressed range is about to be replaced by others (410/1007): retry in a moment.
    RangeMoving,
    /// The logical partition has reached its size (403/1014): use more partition keys.
    LogicalPartitionFull,
    /// Over the provisioned throughput (429/3200): wait, then retry.
    Throttled {
        /// How long to wait.
        retry_after_ms: u64,
        /// The throughput bucket that is used up, if it is that (429/3212).
        bucket: Option<u8>,
    },
    /// Two writers met (449): retry at once.
    RetryWith,
    /// The request took longer than it may.
    Timeout,
    /// The client was gone before the request was done (499): nobody reads this.
    Cancelled,
    /// Partita does not have this feature (501); the message names it.
    Unsupported,
    /// The server cannot serve now: retry later.
    Unavailable,
    /// The server's disk has no room for what is written (507): free some, then retry.
    DiskFull,
    /// Stored bytes do not read back as what was written: restore them.
    Corrupt,
    /// A bug in Partita.
    Internal,
}

impl Error {
    /// An error of any kind; the constructors below are shorter for the common ones.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into() }
    }

    /// [`ErrorKind::BadRequest`].
    pub fn bad_request(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::BadRequest, message)
    }

    /// [`ErrorKind::PartitionKeyMismatch`].
    pub fn key_mismatch(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::PartitionKeyMismatch, message)
    }

    /// [`ErrorKind::ContainerRidMismatch`].
    pub fn container_rid_mismatch(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::ContainerRidMismatch, message)
    }

    /// [`ErrorKind::NotServedDirectly`], with the JSON of the plan.
    pub fn not_served_directly(plan: impl Into<String>) -> Error {
        let kind = ErrorKind::NotServedDirectly { plan: plan.into() };
        Error::new(
            kind,
            "The provided cross partition query can not be directly served by the gateway. This \
             is a first chance (internal) exception that all newer clients will know how to handle \
             gracefully. This exception is traced, but unless you see it bubble up as an exception \
             (which only happens on older SDK clients), then you can safely ignore this message.",
        )
    }

    /// [`ErrorKind::PlanNotSupported`].
    pub fn plan_not_supported(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::PlanNotSupported, message)
    }

    /// [`ErrorKind::Forbidden`].
    pub fn forbidden(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Forbidden, message)
    }

    /// [`ErrorKind::NotFound`].
    pub fn not_found(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::NotFound, message)
    }

    /// [`ErrorKind::OwnerNotFound`].
    pub fn owner_not_found(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::OwnerNotFound, message)
    }

    /// [`ErrorKind::MethodNotAllowed`].
    pub fn method_not_allowed(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::MethodNotAllowed, message)
    }

    /// [`ErrorKind::Conflict`].
    pub fn conflict(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Conflict, message)
    }

    /// [`ErrorKind::PreconditionFailed`].
    pub fn precondition_failed(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::PreconditionFailed, message)
    }

    /// [`ErrorKind::TooLarge`].
    pub fn too_large(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::TooLarge, message)
    }

    /// [`ErrorKind::ResponseTooLarge`].
    pub fn response_too_large(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::ResponseTooLarge, message)
    }

    /// [`ErrorKind::RangeGone`].
    pub fn range_gone(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::RangeGone, message)
    }

    /// [`ErrorKind::RetryWith`].
    pub fn retry_with(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::RetryWith, message)
    }

    /// [`ErrorKind::Timeout`].
    pub fn timeout(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Timeout, message)
    }

    /// [`ErrorKind::Cancelled`].
    pub fn cancelled(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Cancelled, message)
    }

    /// [`ErrorKind::Unsupported`].
    pub fn unsupported(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Unsupported, message)
    }

    /// [`ErrorKind::Unavailable`].
    pub fn unavailable(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Unavailable, message)
    }

    /// [`ErrorKind::Corrupt`].
    pub fn corrupt(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Corrupt, message)
    }

    /// [`ErrorKind::Internal`].
    pub fn internal(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Internal, message)
    }
}

//! One row per kind of error: status, sub-status and code of this wire.
//!
//! The match is exhaustive without a wildcard, so a new kind does not compile until this door has
//! answered for it. SDKs act on status and sub-status alone; the text is for people, in the shape
//! in which the service wraps it.
#![deny(clippy::wildcard_enum_match_arm)]

use http::StatusCode;
use partita_executor::OrderedError;
use partita_gateway::auth::AuthError;
use partita_model::{Error, ErrorKind, json};

const RETRY_WITH: u16 = 449;
const UNAVAILABLE: u16 = 503;

/// How long a client shall wait before it repeats a write that met another one.
const RACE_RETRY_AFTER_MS: u64 = 10;

/// How long a client shall wait before it comes back to an overloaded server.
const OVERLOAD_RETRY_AFTER_MS: u64 = 1_000;

/// The sub-status of a missing authorization header.
const AUTHORIZATION_MISSING: u32 = 5000;

/// The sub-status of an authorization header that makes no sense.
const AUTHORIZATION_INVALID: u32 = 5001;

/// The sub-status of a kind of authorization that the account has switched off.
const AUTHORIZATION_DISABLED: u32 = 5002;

/// The sub-status of a session that is ahead of this server.
const SESSION_NOT_AVAILABLE: u32 = 1002;

const NOT_FOUND_ADVICE: &str = ". Learn more: https://aka.ms/cosmosdb-tsg-not-found";

/// How the query language begins its lists of errors: with places in the text, and without.
const QUERY_ERRORS: [&str; 2] = ["{\"errors\":", "{\"Errors\":"];

/// How the service introduces the errors of a query that it could not plan.
const PLAN_FAILED: &str = "Gateway Failed to Retrieve Query Plan: ";

/// An error as this wire tells it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    /// 0: none.
    pub(crate) substatus: u32,
    pub(crate) code: &'static str,
    pub(crate) retry_after_ms: Option<u64>,
    pub(crate) message: String,
    /// The error answers a request for a query plan.
    pub(crate) planning: bool,
    /// The plan of a query that the client must run in parts.
    pub(crate) plan: Option<String>,
}

impl Failure {
    fn new((status, substatus, code): Row, message: String) -> Failure {
        Failure {
            status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            substatus,
            code,
            retry_after_ms: None,
            message,
            planning: false,
            plan: None,
        }
    }

    /// The body: `{"code":…,"message":"Message: {"Errors":[…]}\r\nActivityId: …, Request URI: …"}`.
    /// Query errors bring their own list, which says where in the text the error is. A query that
    /// must be run in parts has its message bare, and its plan beside it.
    pub(crate) fn body(&self, activity_id: &str, path: &str) -> String {
        let mut message = String::new();
        match self.plan {
            Some(_) => message.push_str(&self.message),
            None => self.write_wrapped(&mut message),
        }
        message.push_str("\r\nActivityId: ");
        message.push_str(activity_id);
        message.push_str(", Request URI: ");
        message.push_str(path);
        let mut body = String::with_capacity(message.len() + 64);
        body.push_str("{\"code\":");
        json::write_string(&mut body, self.code);
        body.push_str(",\"message\":");
        json::write_string(&mut body, &message);
        if let Some(plan) = &self.plan {
            body.push_str(",\"additionalErrorInfo\":");
            json::write_string(&mut body, plan);
        }
        body.push('}');
        body
    }

    /// Where to read on, if something is not there: the service says so, and clients look for it.
    fn with_advice(mut self) -> Failure {
        if self.status == StatusCode::NOT_FOUND && self.substatus != SESSION_NOT_AVAILABLE {
            self.message.push_str(NOT_FOUND_ADVICE);
        }
        self
    }

    fn write_wrapped(&self, message: &mut String) {
        if self.planning && self.status == StatusCode::BAD_REQUEST {
            message.push_str(PLAN_FAILED);
        }
        message.push_str("Message: ");
        if QUERY_ERRORS.iter().any(|start| self.message.starts_with(start)) {
            message.push_str(&self.message);
        } else {
            message.push_str("{\"Errors\":[");
            json::write_string(message, &self.message);
            message.push_str("]}");
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let row = row(&error.kind);
        let retry_after_ms = retry_after_ms(&error.kind, row.0);
        let plan =
            if let ErrorKind::NotServedDirectly { plan } = error.kind { Some(plan) } else { None };
        let failure = Failure::new(row, error.message);
        Failure { retry_after_ms, plan, ..failure }.with_advice()
    }
}

/// Status, sub-status and code.
type Row = (u16, u32, &'static str);

fn row(kind: &ErrorKind) -> Row {
    match kind {
        ErrorKind::BadRequest => (400, 0, "BadRequest"),
        ErrorKind::PartitionKeyMismatch => (400, 1001, "BadRequest"),
        ErrorKind::ContainerRidMismatch => (400, 1024, "BadRequest"),
        ErrorKind::NotServedDirectly { .. } => (400, 1004, "BadRequest"),
        ErrorKind::PlanNotSupported => (400, 1004, "BadRequest"),
        ErrorKind::ScriptFailed { number } => (400, *number, "BadRequest"),
        ErrorKind::Unauthenticated => (401, 0, "Unauthorized"),
        ErrorKind::Forbidden => (403, 0, "Forbidden"),
        ErrorKind::NotForRoles => (403, 5300, "Forbidden"),
        ErrorKind::ActionNotGranted => (403, 5301, "Forbidden"),
        ErrorKind::NotFound => (404, 0, "NotFound"),
        ErrorKind::OwnerNotFound => (404, 1003, "NotFound"),
        ErrorKind::SessionNotAvailable => (404, SESSION_NOT_AVAILABLE, "NotFound"),
        ErrorKind::MethodNotAllowed => (405, 0, "MethodNotAllowed"),
        ErrorKind::Conflict => (409, 0, "Conflict"),
        ErrorKind::PreconditionFailed => (412, 0, "PreconditionFailed"),
        ErrorKind::FailedDependency => (424, 0, "FailedDependency"),
        ErrorKind::TooLarge => (413, 0, "RequestEntityTooLarge"),
        ErrorKind::ResponseTooLarge => (413, 3402, "RequestEntityTooLarge"),
        ErrorKind::NameStale => (410, 1000, "Gone"),
        ErrorKind::RangeGone => (410, 1002, "Gone"),
        ErrorKind::RangeMoving => (410, 1007, "Gone"),
        ErrorKind::LogicalPartitionFull => (403, 1014, "Forbidden"),
        ErrorKind::Throttled { bucket: None, .. } => (429, 3200, "TooManyRequests"),
        ErrorKind::Throttled { bucket: Some(_), .. } => (429, 3212, "TooManyRequests"),
        ErrorKind::RetryWith => (RETRY_WITH, 0, "RetryWith"),
        ErrorKind::Timeout => (408, 0, "RequestTimeout"),
        ErrorKind::Cancelled => (499, 0, "ClientClosedRequest"),
        ErrorKind::Unsupported => (501, 0, "NotImplemented"),
        ErrorKind::Unavailable => (UNAVAILABLE, 0, "ServiceUnavailable"),
        ErrorKind::DiskFull => (507, 0, "InsufficientStorage"),
        ErrorKind::Corrupt => (500, 0, "InternalServerError"),
        ErrorKind::Internal => (500, 0, "InternalServerError"),
    }
}

/// How long a client shall wait before it comes back, if that is why it was refused.
fn retry_after_ms(kind: &ErrorKind, status: u16) -> Option<u64> {
    match (kind, status) {
        (ErrorKind::Throttled { retry_after_ms, .. }, _) => Some(*retry_after_ms),
        (_, RETRY_WITH) => Some(RACE_RETRY_AFTER_MS),
        (_, UNAVAILABLE) => Some(OVERLOAD_RETRY_AFTER_MS),
        (_, _) => None,
    }
}

impl From<OrderedError> for Failure {
    fn from(error: OrderedError) -> Failure {
        let OrderedError { status, substatus, code, retry_after_ms } = error;
        let failure = Failure::new((status, substatus, code), OrderedError::MESSAGE.to_owned());
        Failure { retry_after_ms, ..failure }
    }
}

impl From<AuthError> for Failure {
    fn from(error: AuthError) -> Failure {
        let row = match &error {
            AuthError::Missing => (401, AUTHORIZATION_MISSING, "Unauthorized"),
            AuthError::Malformed(_)
            | AuthError::UnknownKind(_)
            | AuthError::BadDate(_)
            | AuthError::Bearer(_)
            | AuthError::Scraper => (401, AUTHORIZATION_INVALID, "Unauthorized"),
            AuthError::NoIssuers => (401, AUTHORIZATION_DISABLED, "Unauthorized"),
            AuthError::Mismatch { .. } => (401, 0, "Unauthorized"),
            AuthError::Expired { .. } | AuthError::TokenEnded { .. } => (403, 0, "Forbidden"),
        };
        Failure::new(row, auth_message(error))
    }
}

/// What the service says too, word for word where tools look for it; else the gateway's text.
fn auth_message(error: AuthError) -> String {
    match error {
        AuthError::Missing => "Required Header authorization is missing. Ensure a valid \
                               Authorization token is passed."
            .to_owned(),
        AuthError::Mismatch { string_to_sign } => format!(
            "The input authorization token can't serve the request: the wrong key is used, or the \
             payload to sign was not built as the protocol says. The server used the following \
             payload to sign: '{string_to_sign}'"
        ),
        AuthError::Malformed(_)
        | AuthError::UnknownKind(_)
        | AuthError::BadDate(_)
        | AuthError::Expired { .. }
        | AuthError::TokenEnded { .. }
        | AuthError::NoIssuers
        | AuthError::Bearer(_)
        | AuthError::Scraper => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_kind() -> Vec<ErrorKind> {
        vec![
            ErrorKind::BadRequest,
            ErrorKind::PartitionKeyMismatch,
            ErrorKind::ContainerRidMismatch,
            ErrorKind::NotServedDirectly { plan: "{}".into() },
            ErrorKind::PlanNotSupported,
            ErrorKind::ScriptFailed { number: 409 },
            ErrorKind::Unauthenticated,
            ErrorKind::Forbidden,
            ErrorKind::NotForRoles,
            ErrorKind::ActionNotGranted,
            ErrorKind::NotFound,
            ErrorKind::OwnerNotFound,
            ErrorKind::SessionNotAvailable,
            ErrorKind::MethodNotAllowed,
            ErrorKind::Conflict,
            ErrorKind::PreconditionFailed,
            ErrorKind::FailedDependency,
            ErrorKind::TooLarge,
            ErrorKind::ResponseTooLarge,
            ErrorKind::NameStale,
            ErrorKind::RangeGone,
            ErrorKind::RangeMoving,
            ErrorKind::LogicalPartitionFull,
            ErrorKind::Throttled { retry_after_ms: 7, bucket: None },
            ErrorKind::Throttled { retry_after_ms: 7, bucket: Some(2) },
            ErrorKind::RetryWith,
            ErrorKind::Timeout,
            ErrorKind::Cancelled,
            ErrorKind::Unsupported,
            ErrorKind::Unavailable,
            ErrorKind::DiskFull,
            ErrorKind::Corrupt,
            ErrorKind::Internal,
        ]
    }

    #[test]
    fn every_kind_has_the_row_in_the_golden_file() {
        let mut matrix = String::new();
        for kind in every_kind() {
            let name = format!("{kind:?}");
            let failure = Failure::from(Error::new(kind, "x"));
            let retry = failure.retry_after_ms.map_or("-".to_owned(), |ms| ms.to_string());
            let (status, substatus, code) = (failure.status, failure.substatus, failure.code);
            matrix += &format!("{name}: {} {substatus} {code} {retry}\n", status.as_u16());
        }
        assert_eq!(matrix, include_str!("../tests/data/error-matrix.txt"), "actual:\n{matrix}");
    }

    #[test]
    fn the_body_wraps_the_message_as_the_service_does() {
        let failure = Failure::from(Error::too_large("Request size is too large"));
        assert_eq!(
            failure.body("a-b", "/dbs"),
            r#"{"code":"RequestEntityTooLarge","message":"Message: {\"Errors\":[\"Request size is too large\"]}\r\nActivityId: a-b, Request URI: /dbs"}"#
        );
    }

    #[test]
    fn query_errors_keep_their_own_list() {
        let failure = Failure::from(Error::bad_request(r#"{"errors":[{"code":"SC1001"}]}"#));
        let body = failure.body("a", "/");
        assert!(body.contains(r#"Message: {\"errors\":[{\"code\":\"SC1001\"}]}\r\n"#), "{body}");
        let failure = Failure::from(Error::bad_request(r#"{"Errors":["x"]}"#));
        assert!(failure.body("a", "/").contains(r#"Message: {\"Errors\":[\"x\"]}\r\n"#));
    }

    #[test]
    fn a_query_to_be_run_in_parts_comes_with_its_plan() {
        let failure = Failure::from(Error::not_served_directly(r#"{"queryRanges":[]}"#));
        assert_eq!((failure.status.as_u16(), failure.substatus), (400, 1004));
        let body = failure.body("a", "/");
        let start = "The provided cross partition query can not be directly served by the gateway.";
        assert!(body.contains(&format!(r#""message":"{start}"#)), "{body}");
        let end = r#","additionalErrorInfo":"{\"queryRanges\":[]}"}"#;
        assert!(body.ends_with(end), "{body}");
    }

    #[test]
    fn errors_of_a_plan_say_so() {
        let mut failure = Failure::from(Error::bad_request(r#"{"errors":[]}"#));
        failure.planning = true;
        let start = r#""Gateway Failed to Retrieve Query Plan: Message: {\"errors\":[]}\r\n"#;
        assert!(failure.body("a", "/").contains(start));
        failure.status = StatusCode::NOT_FOUND;
        assert!(!failure.body("a", "/").contains("Gateway"));
    }

    #[test]
    fn a_wrong_signature_is_told_what_to_sign() {
        let string_to_sign = "get\ndbs\n\nnow\n\n".to_owned();
        let failure = Failure::from(AuthError::Mismatch { string_to_sign });
        assert_eq!((failure.status.as_u16(), failure.code), (401, "Unauthorized"));
        assert!(failure.message.contains("'get\ndbs\n\nnow\n\n'"));
        let expired =
            AuthError::Expired { date: "x".into(), apart_seconds: 9, skew_seconds_max: 1 };
        assert_eq!(Failure::from(expired).status.as_u16(), 403);
        assert_eq!(Failure::from(AuthError::Missing).substatus, 5000);
    }
}

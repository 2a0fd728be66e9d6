//! Requests on users and permissions.

use http::Method;
use partita_engine::{DatabasePath, Op, PermissionOp, PermissionPath, UserOp, UserPath};
use partita_model::{Result, Value};

use super::metadata::{required_id, resource_body};
use super::query::{is_list, list};
use super::{Incoming, if_match, not_allowed, read_condition};
use crate::headers::{self, Headers, bad_value};

/// How long a token lives, in seconds, if the client does not say.
const TOKEN_SECONDS_DEFAULT: u64 = 3_600;
const TOKEN_SECONDS_MIN: u64 = 10;
const TOKEN_SECONDS_MAX: u64 = 86_400;

pub(super) fn users(database: DatabasePath, incoming: Incoming<'_>) -> Result<Op> {
    if is_list(&incoming)? {
        return list(&incoming, |filter, page| Op::User(UserOp::List { database, filter, page }));
    }
    let headers = incoming.headers;
    Ok(Op::User(match *incoming.method {
        Method::POST => {
            let name = required_id(&Value::parse(&incoming.body)?)?.to_owned();
            if headers.flag(&headers::IS_UPSERT)? {
                UserOp::Upsert { database, name, condition: if_match(headers)? }
            } else {
                UserOp::Create { database, name }
            }
        }
        _ => return Err(not_allowed(incoming.method, "the users of a database", "GET or POST")),
    }))
}

pub(super) fn user(user: UserPath, incoming: Incoming<'_>) -> Result<Op> {
    let headers = incoming.headers;
    Ok(Op::User(match *incoming.method {
        Method::GET => UserOp::Read { user, condition: read_condition(headers)? },
        Method::PUT => {
            let name = required_id(&Value::parse(&incoming.body)?)?.to_owned();
            UserOp::Replace { user, name, condition: if_match(headers)? }
        }
        Method::DELETE => UserOp::Delete { user, condition: if_match(headers)? },
        _ => return Err(not_allowed(incoming.method, "a user", "GET, PUT or DELETE")),
    }))
}

pub(super) fn permissions(user: UserPath, incoming: Incoming<'_>) -> Result<Op> {
    if is_list(&incoming)? {
        let list_of = |filter, page| Op::Permission(PermissionOp::List { user, filter, page });
        return list(&incoming, list_of);
    }
    let headers = incoming.headers;
    Ok(Op::Permission(match *incoming.method {
        Method::POST => {
            let body = resource_body(&incoming)?;
            if headers.flag(&headers::IS_UPSERT)? {
                PermissionOp::Upsert { user, body, condition: if_match(headers)? }
            } else {
                PermissionOp::Create { user, body }
            }
        }
        _ => return Err(not_allowed(incoming.method, "the permissions of a user", "GET or POST")),
    }))
}

pub(super) fn permission(permission: PermissionPath, incoming: Incoming<'_>) -> Result<Op> {
    let headers = incoming.headers;
    Ok(Op::Permission(match *incoming.method {
        Method::GET => PermissionOp::Read { permission, condition: read_condition(headers)? },
        Method::PUT => {
            let body = resource_body(&incoming)?;
            PermissionOp::Replace { permission, body, condition: if_match(headers)? }
        }
        Method::DELETE => PermissionOp::Delete { permission, condition: if_match(headers)? },
        _ => return Err(not_allowed(incoming.method, "a permission", "GET, PUT or DELETE")),
    }))
}

/// How long the tokens in the answer shall live.
pub(super) fn token_seconds(headers: Headers<'_>) -> Result<u64> {
    let Some(text) = headers.text(&headers::TOKEN_SECONDS)? else {
        return Ok(TOKEN_SECONDS_DEFAULT);
    };
    match text.parse() {
        Ok(seconds) if (TOKEN_SECONDS_MIN..=TOKEN_SECONDS_MAX).contains(&seconds) => Ok(seconds),
        _ => {
            let rule =
                format!("must be a number of {TOKEN_SECONDS_MIN} to {TOKEN_SECONDS_MAX} seconds");
            Err(bad_value(&headers::TOKEN_SECONDS, text, &rule))
        }
    }
}

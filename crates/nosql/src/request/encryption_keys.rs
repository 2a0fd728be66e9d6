//! Requests on client encryption keys.

use http::Method;
use partita_engine::{DatabasePath, EncryptionKeyOp, EncryptionKeyPath, Op};
use partita_model::{Result, Value};

use super::query::{is_list, list};
use super::{Incoming, if_match, not_allowed, read_condition};

pub(super) fn keys(database: DatabasePath, incoming: Incoming<'_>) -> Result<Op> {
    if is_list(&incoming)? {
        return list(&incoming, |filter, page| {
            Op::EncryptionKey(EncryptionKeyOp::List { database, filter, page })
        });
    }
    Ok(Op::EncryptionKey(match *incoming.method {
        Method::POST => EncryptionKeyOp::Create { database, body: Value::parse(&incoming.body)? },
        _ => {
            let what = "the client encryption keys of a database";
            return Err(not_allowed(incoming.method, what, "GET or POST"));
        }
    }))
}

pub(super) fn key(key: EncryptionKeyPath, incoming: Incoming<'_>) -> Result<Op> {
    let headers = incoming.headers;
    Ok(Op::EncryptionKey(match *incoming.method {
        Method::GET => EncryptionKeyOp::Read { key, condition: read_condition(headers)? },
        Method::PUT => {
            let body = Value::parse(&incoming.body)?;
            EncryptionKeyOp::Replace { key, body, condition: if_match(headers)? }
        }
        _ => return Err(not_allowed(incoming.method, "a client encryption key", "GET or PUT")),
    }))
}

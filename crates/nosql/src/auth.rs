//! Who asks: the signature of a request against the account's keys, a resource token, or the token
//! of an identity provider.
//!
//! The keys and the arithmetic are the gateway's; this file knows which verb, type and link this
//! protocol signs. A path that cannot be decoded has no link to check; its error is returned only
//! to requests that carried an authorization at all.

use std::sync::Arc;

use http::Method;
use partita_engine::Access;
use partita_executor::{SignatureWindow, Trust};
use partita_gateway::auth::{
    self, AuthError, Issuer, Principal, Signed, is_bearer_token, is_resource_token, verify_bearer,
    verify_emulator,
};
use partita_model::Result;

use crate::error::Failure;
use crate::headers::{self, Headers};
use crate::link::{Address, LINKS_MAX};
use crate::token;

/// What the signer of the request may do.
pub(crate) fn authenticate(
    trust: &Trust,
    method: &Method,
    headers: Headers<'_>,
    address: &Address<'_>,
    window: SignatureWindow,
) -> Result<Access, Failure> {
    let authorization = headers.ascii(&http::header::AUTHORIZATION);
    let keys = &trust.keys;
    if let Some(token) = authorization.filter(|text| is_resource_token(text)) {
        return token::read(&keys.verify_token(token, window.now_unix_seconds)?);
    }
    if let Some(token) = authorization.filter(|text| is_bearer_token(text)) {
        if let Some(known) = verify_emulator(keys, token, window.signed_unix_seconds) {
            return Ok(access_of(known?));
        }
        let bearer = verify_bearer(&trust.issuers, token, window.signed_unix_seconds)?;
        return Ok(Access::Roles(Arc::new(trust.roles(&bearer))));
    }
    let signing = match address.signing() {
        Err(_) if authorization.is_none() => return Err(AuthError::Missing.into()),
        signing => signing?,
    };
    let mut links = [""; LINKS_MAX];
    for (place, link) in links.iter_mut().zip(&signing.links) {
        *place = link;
    }
    let links = links.get(..signing.links.len()).unwrap_or_default();
    let mut refusal = None;
    for resource_type in signing.types.iter().flatten() {
        let signed = Signed {
            verb: method.as_str(),
            resource_type,
            links,
            date: headers.ascii(&headers::DATE).unwrap_or_default(),
            http_date: headers.ascii(&http::header::DATE).unwrap_or_default(),
        };
        let now = window.signed_unix_seconds;
        match keys.verify(authorization, &signed, now, window.skew_seconds_max) {
            Ok(principal) => return Ok(access_of(principal)),
            // Perhaps the other type was signed; the error names the usual one.
            Err(error @ AuthError::Mismatch { .. }) => refusal = refusal.or(Some(error)),
            Err(error) => return Err(error.into()),
        }
    }
    Err(refusal.unwrap_or(AuthError::Missing).into())
}

/// The issuer that may have signed the request's token with a key that is not known here yet.
pub(crate) fn unknown_key<'t>(trust: &'t Trust, headers: Headers<'_>) -> Option<&'t Issuer> {
    let authorization = headers.ascii(&http::header::AUTHORIZATION);
    let token = authorization.filter(|text| is_bearer_token(text))?;
    auth::unknown_key(&trust.issuers, token)
}

fn access_of(principal: Principal) -> Access {
    match principal {
        Principal::ReadWrite => Access::ReadWrite,
        Principal::ReadOnly => Access::ReadOnly,
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};
    use partita_gateway::Head;
    use partita_gateway::auth::{Key, Keys};
    use partita_model::Value;

    use super::*;

    /// The date of all vectors: Thu, 27 Apr 2017 00:51:12 GMT.
    const SIGNED_AT: u64 = 1_493_254_272;

    fn text<'a>(row: &'a Value, name: &str) -> &'a str {
        row.get(name).and_then(Value::as_str).unwrap()
    }

    fn check(row: &Value, keys: &Keys, window: SignatureWindow) -> Result<Access, Failure> {
        let mut headers = HeaderMap::new();
        for name in [headers::DATE, http::header::AUTHORIZATION] {
            let value = HeaderValue::from_str(text(row, name.as_str())).unwrap();
            headers.insert(name, value);
        }
        let method = text(row, "verb").parse().unwrap();
        let head = Head::new(&text(row, "path").parse().unwrap(), &headers);
        let trust = Trust::of_keys(keys.clone());
        authenticate(&trust, &method, Headers::new(&head), &Address::new(&head), window)
    }

    fn window(now: u64, skew_seconds_max: u64) -> SignatureWindow {
        SignatureWindow { now_unix_seconds: now, signed_unix_seconds: now, skew_seconds_max }
    }

    fn vectors() -> (String, Vec<Value>) {
        let file = Value::parse(include_bytes!("../tests/data/auth-vectors.json")).unwrap();
        let rows = file.get("vectors").and_then(Value::as_array).unwrap().to_vec();
        (text(&file, "key").to_owned(), rows)
    }

    #[test]
    fn every_recorded_signature_is_accepted() {
        let (key, rows) = vectors();
        let key = Some(Key::parse(&key).unwrap());
        let window = window(SIGNED_AT, 0);
        let primary = Keys { primary: key.clone(), ..Keys::default() };
        let readonly = Keys { secondary_readonly: key, ..Keys::default() };
        assert_eq!(rows.len(), 14);
        for row in &rows {
            assert_eq!(check(row, &primary, window).unwrap(), Access::ReadWrite, "{row}");
            assert_eq!(check(row, &readonly, window).unwrap(), Access::ReadOnly, "{row}");
        }
    }

    #[test]
    fn a_recorded_signature_is_refused_with_another_key_or_too_late() {
        let (key, rows) = vectors();
        let other = Keys { primary: Some(Key::parse(&"A".repeat(88)).unwrap()), ..Keys::default() };
        let window = window(SIGNED_AT + 901, 900);
        let right = Keys { primary: Some(Key::parse(&key).unwrap()), ..Keys::default() };
        for row in &rows {
            let failure = check(row, &other, window).unwrap_err();
            assert_eq!(failure.status.as_u16(), 401);
            assert!(failure.message.contains("payload to sign"), "{failure:?}");
            assert_eq!(check(row, &right, window).unwrap_err().status.as_u16(), 403);
        }
    }

    #[test]
    fn a_path_that_does_not_decode_tells_nothing_without_authorization() {
        let window = window(SIGNED_AT, 0);
        let keys = Trust::default();
        let refused = |headers: &HeaderMap| {
            let head = Head::new(&http::Uri::from_static("/dbs/%ff"), headers);
            let (headers, address) = (Headers::new(&head), Address::new(&head));
            let refused = authenticate(&keys, &Method::GET, headers, &address, window);
            refused.unwrap_err().status.as_u16()
        };
        let mut headers = HeaderMap::new();
        assert_eq!(refused(&headers), 401);
        headers.insert(http::header::AUTHORIZATION, HeaderValue::from_static("x"));
        assert_eq!(refused(&headers), 400);
    }
}

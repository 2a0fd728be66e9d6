//! Who sent a request: asked of its head alone, where its body is large; of `/metrics`; and of
//! every request.

use std::time::Duration;

use http::header;
use partita_engine::Access;
use partita_executor::{MetricsAccess, RequestRecord, Trust};
use partita_gateway::auth::{AuthError, Issuer as KeyIssuer, shown_token};
use partita_gateway::{Figures, Request, Response};
use partita_model::Error;

use super::Service;
use crate::auth;
use crate::controls;
use crate::error::Failure;
use crate::feature::Feature;
use crate::headers::Headers;
use crate::link::Address;
use crate::response::FailedRequest;

/// The error for credentials that are not the account's.
const METRICS_FORBIDDEN: &str = "Metrics that name databases and containers need a key of the account \
    or the token of --metrics-token-file. Without an authorization header there are those of the process.";

/// A request, for finding out who sent it.
#[derive(Clone, Copy)]
pub(super) struct SignedRequest<'a> {
    pub(super) request: &'a Request,
    pub(super) headers: Headers<'a>,
    pub(super) address: &'a Address<'a>,
}

/// Who sent a request.
pub(super) enum Identity {
    Known(Access),
    /// The issuer may have published the key since its keys were read.
    KeyUnknown(KeyIssuer),
}

/// Keys are asked for once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    First,
    Last,
}

impl Service {
    /// Who asks, if the head says so.
    pub(super) fn identify(
        &self,
        trust: &Trust,
        signed: SignedRequest<'_>,
        attempt: Attempt,
        record: &mut RequestRecord,
    ) -> Result<Identity, Box<FailedRequest>> {
        if signed.address.is_of_direct_mode() {
            // Such a request signs the resource that it looks for, not this path. Checked as any
            // other it would fail with a wrong key, and not say what is really wrong.
            record.operation = "ResolveAddresses";
            return Err(Feature::Addresses.refusal().into());
        }
        let access = match self.authenticate(trust, signed, Duration::ZERO) {
            Ok(access) => access,
            Err(refused) => match auth::unknown_key(trust, signed.headers) {
                Some(issuer) if attempt == Attempt::First => {
                    return Ok(Identity::KeyUnknown(issuer.clone()));
                }
                Some(_) | None => return Err(refused.into()),
            },
        };
        self.executor.identify(record, &access)?;
        Ok(Identity::Known(access))
    }

    /// Who asks, and what they may do. A request that waited was signed as much earlier.
    pub(super) fn authenticate(
        &self,
        trust: &Trust,
        SignedRequest { request, headers, address }: SignedRequest<'_>,
        waited: Duration,
    ) -> Result<Access, Failure> {
        let window = self.executor.signature_window(waited);
        auth::authenticate(trust, &request.method, headers, address, window)
    }

    /// May the body of a request with this head be read? The issuer, if that must be asked first;
    /// the answer, if not.
    pub(super) fn admit(
        &self,
        request: &Request,
        attempt: Attempt,
    ) -> Result<Option<KeyIssuer>, Response> {
        let headers = Headers::new(&request.head);
        let mut exchange = self.start(headers);
        let identity = match controls::route(request.head.path()) {
            // Nobody signs for those: they are there for tests only.
            Some(_) if self.executor.controls().is_some() => return Ok(None),
            Some(_) => Err(controls::switched_off().into()),
            None => {
                let address = Address::new(&request.head);
                let signed = SignedRequest { request, headers, address: &address };
                let trust = self.executor.credentials().glance();
                self.identify(&trust, signed, attempt, &mut exchange.record)
            }
        };
        match identity {
            Ok(Identity::Known(_)) => Ok(None),
            Ok(Identity::KeyUnknown(issuer)) => Ok(Some(issuer)),
            Err(failed) => Err(self.conclude(request, Err(failed), exchange)),
        }
    }

    /// Which metrics may who sent this request see? Without credentials those of the process.
    pub(super) fn figures(&self, request: &Request) -> Result<Figures, Response> {
        let headers = Headers::new(&request.head);
        let trust = self.executor.credentials().glance();
        let authorization = headers.ascii(&header::AUTHORIZATION);
        let token = match (&trust.metrics, authorization) {
            (MetricsAccess::Open, _) => return Ok(Figures::All),
            (MetricsAccess::Restricted(_), None) => return Ok(Figures::OfProcess),
            (MetricsAccess::Restricted(token), Some(_)) => token.as_ref(),
        };
        let mut exchange = self.start(headers);
        exchange.record.operation = "ReadMetrics";
        let access = match authorization.and_then(shown_token) {
            Some(shown) if token.is_some_and(|token| token.is(shown)) => return Ok(Figures::All),
            Some(_) => Err(AuthError::Scraper.into()),
            None => {
                let address = Address::new(&request.head);
                let signed = SignedRequest { request, headers, address: &address };
                self.authenticate(&trust, signed, Duration::ZERO)
            }
        };
        let refused = match access {
            Ok(Access::ReadWrite | Access::ReadOnly) => return Ok(Figures::All),
            Ok(who) => {
                exchange.record.who = Some(who);
                Error::forbidden(METRICS_FORBIDDEN).into()
            }
            Err(refused) => refused,
        };
        Err(self.conclude(request, Err(refused.into()), exchange))
    }
}

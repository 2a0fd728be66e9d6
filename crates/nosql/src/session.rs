//! Session tokens as clients carry them from one response to the next request.
//!
//! `<range>:-1#<lsn>`: the id of the partition key range, the version of the region set (−1: there
//! is only one region) and the partition's LSN. The older form without version, `<range>:<lsn>`, is
//! never written, since SDKs refuse it. Reading a token is the engine's: it alone knows which range
//! descends from which.

use http::HeaderValue;
use partita_engine::Served;

/// The token after a request that this partition served.
pub(crate) fn token(served: &Served) -> String {
    format!("{}:-1#{}", served.range_id, served.lsn)
}

/// The token as a header's value.
pub(crate) fn token_value(served: &Served) -> Option<HeaderValue> {
    HeaderValue::from_maybe_shared(bytes::Bytes::from(token(served))).ok()
}

#[cfg(test)]
mod tests {
    use partita_model::Lsn;

    use super::*;

    #[test]
    fn a_token_names_range_version_and_lsn() {
        let served = Served { range_id: 3, lsn: Lsn(42), item_lsn: None };
        assert_eq!(token(&served), "3:-1#42");
    }
}

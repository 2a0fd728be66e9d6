//! Session tokens as clients carry them from one response to the next request.
//!
//! `<range>:-1#<lsn>`: the id of the partition key range, the version of the region set (−1: there
//! is only one region) and the partition's LSN. The older form without version, `<range>:<lsn>`, is
//! never written, since SDKs refuse it. Reading a token is the engine's: it alone knows which range
//! descends from which.

use partita_engine::Served;

use crate::text::Text;

/// The token after a request that this partition served.
pub(crate) fn token(served: &Served) -> Text {
    Text::new().number(u64::from(served.range_id)).str(":-1#").number(served.lsn.0)
}

#[cfg(test)]
mod tests {
    use partita_model::Lsn;

    use super::*;

    #[test]
    fn a_token_names_range_version_and_lsn() {
        let served = |range_id, lsn| Served { range_id, lsn: Lsn(lsn), item_lsn: None };
        assert_eq!(token(&served(3, 42)).as_bytes(), b"3:-1#42");
        let last = token(&served(u32::MAX, u64::MAX));
        assert_eq!(last.as_bytes(), b"4294967295:-1#18446744073709551615");
    }
}

//! The id by which a request is found again, in the client's log and in ours.

use http::HeaderValue;
use partita_model::Entropy;

use crate::headers::{self, Headers};
use crate::text::Text;

/// The longest activity id that is repeated: a GUID, or what somebody uses instead.
const BYTES_MAX: usize = 128;

/// The client's activity id, or a new GUID for one that sent none. Visible ASCII in any case.
#[derive(Debug)]
pub(crate) enum ActivityId {
    Sent(HeaderValue),
    Made(Text),
}

impl ActivityId {
    pub(crate) fn of(headers: Headers<'_>, entropy: &dyn Entropy) -> ActivityId {
        match headers.value(&headers::ACTIVITY_ID) {
            Some(value)
                if !value.is_empty() && value.len() <= BYTES_MAX && value.to_str().is_ok() =>
            {
                ActivityId::Sent(value.clone())
            }
            _ => ActivityId::new(entropy),
        }
    }

    pub(crate) fn new(entropy: &dyn Entropy) -> ActivityId {
        let (high, low) = (entropy.next_u64(), entropy.next_u64());
        // Version 4, variant 1: random.
        let (high, low) = (high & !0xF000 | 0x4000, low & !(0b11 << 62) | 1 << 63);
        let guid = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
        ActivityId::Made(Text::new().guid(&guid))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            ActivityId::Sent(value) => value.as_bytes(),
            ActivityId::Made(text) => text.as_bytes(),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    pub(crate) fn value(&self) -> HeaderValue {
        match self {
            ActivityId::Sent(value) => value.clone(),
            ActivityId::Made(text) => text.value(),
        }
    }
}

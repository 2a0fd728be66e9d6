//! The id by which a request is found again, in the client's log and in ours.

use partita_model::Entropy;

use crate::headers::{self, Headers};
use crate::text::Text;

/// The longest activity id that is repeated: a GUID, or what somebody uses instead.
const BYTES_MAX: usize = 128;

/// The client's activity id, or a new GUID for one that sent none. Visible ASCII in any case.
#[derive(Debug)]
pub(crate) enum ActivityId {
    Short(Text),
    Long(String),
}

impl ActivityId {
    pub(crate) fn of(headers: Headers<'_>, entropy: &dyn Entropy) -> ActivityId {
        match headers.ascii(&headers::ACTIVITY_ID) {
            None | Some("") => ActivityId::new(entropy),
            Some(sent) if sent.len() <= Text::BYTES_MAX => ActivityId::Short(Text::new().str(sent)),
            Some(sent) if sent.len() <= BYTES_MAX => ActivityId::Long(sent.to_owned()),
            Some(_) => ActivityId::new(entropy),
        }
    }

    pub(crate) fn new(entropy: &dyn Entropy) -> ActivityId {
        let (high, low) = (entropy.next_u64(), entropy.next_u64());
        // Version 4, variant 1: random.
        let (high, low) = (high & !0xF000 | 0x4000, low & !(0b11 << 62) | 1 << 63);
        let guid = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
        ActivityId::Short(Text::new().guid(&guid))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            ActivityId::Short(text) => text.as_bytes(),
            ActivityId::Long(text) => text.as_bytes(),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

//! The five consistency levels, strongest first.
//!
//! An account has a default level; a request may ask for the same or a weaker one.

use std::fmt;

use crate::error::{Error, Result};

/// How fresh a read must be. Ordered from the strongest to the weakest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Consistency {
    /// Every read sees the latest write.
    Strong,
    /// Reads lag by no more than a bound.
    BoundedStaleness,
    /// A session sees its own writes.
    Session,
    /// Reads see writes in order, possibly late.
    ConsistentPrefix,
    /// Reads see writes some time.
    Eventual,
}

impl Consistency {
    /// All levels, strongest first.
    pub const ALL: [Consistency; 5] = [
        Consistency::Strong,
        Consistency::BoundedStaleness,
        Consistency::Session,
        Consistency::ConsistentPrefix,
        Consistency::Eventual,
    ];

    /// Reads a level by its name on the wire, in any case.
    pub fn parse(text: &str) -> Result<Consistency> {
        let found =
            Consistency::ALL.into_iter().find(|level| level.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| {
            Error::bad_request(format!(
                "'{text}' is no consistency level: use Strong, BoundedStaleness, Session, \
                 ConsistentPrefix or Eventual"
            ))
        })
    }

    /// May a request ask for `requested` on an account whose default is this level?
    pub fn allows(self, requested: Consistency) -> bool {
        requested >= self
    }

    fn name(self) -> &'static str {
        match self {
            Consistency::Strong => "Strong",
            Consistency::BoundedStaleness => "BoundedStaleness",
            Consistency::Session => "Session",
            Consistency::ConsistentPrefix => "ConsistentPrefix",
            Consistency::Eventual => "Eventual",
        }
    }
}

impl fmt::Display for Consistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_may_only_weaken_the_default() {
        assert!(Consistency::Session.allows(Consistency::Session));
        assert!(Consistency::Session.allows(Consistency::Eventual));
        assert!(!Consistency::Session.allows(Consistency::BoundedStaleness));
        assert!(Consistency::Strong.allows(Consistency::Strong));
    }

    #[test]
    fn names_read_back_in_any_case() {
        for level in Consistency::ALL {
            assert_eq!(Consistency::parse(&level.to_string()), Ok(level));
            assert_eq!(Consistency::parse(&level.to_string().to_lowercase()), Ok(level));
        }
        assert!(Consistency::parse("Linear").unwrap_err().message.contains("'Linear'"));
    }
}

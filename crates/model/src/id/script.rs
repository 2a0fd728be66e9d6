//! Resource ids of scripts: stored procedures, triggers and user-defined functions.
//!
//! They are made like those of items, with another kind in the top nibble of the last byte: 6 for a
//! user-defined function, 7 for a trigger, 8 for a stored procedure.

use std::fmt;

use super::{ContainerRid, child_text, parse_child};

/// The kinds of scripts that a container holds. Each kind has names of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ScriptKind {
    /// Called by queries.
    Function,
    /// Runs with a write that names it.
    Trigger,
    /// Run by a request of its own.
    Procedure,
}

impl ScriptKind {
    /// All of them.
    pub const ALL: [ScriptKind; 3] =
        [ScriptKind::Function, ScriptKind::Trigger, ScriptKind::Procedure];

    /// The kind in words, for messages.
    pub fn name(self) -> &'static str {
        match self {
            ScriptKind::Function => "user-defined function",
            ScriptKind::Trigger => "trigger",
            ScriptKind::Procedure => "stored procedure",
        }
    }

    /// The segment of links that leads to scripts of this kind.
    pub fn segment(self) -> &'static str {
        match self {
            ScriptKind::Function => "udfs",
            ScriptKind::Trigger => "triggers",
            ScriptKind::Procedure => "sprocs",
        }
    }

    /// The kind that a segment of a link leads to.
    pub fn of_segment(segment: &str) -> Option<ScriptKind> {
        ScriptKind::ALL.into_iter().find(|kind| kind.segment() == segment)
    }

    fn nibble(self) -> u64 {
        match self {
            ScriptKind::Function => 6,
            ScriptKind::Trigger => 7,
            ScriptKind::Procedure => 8,
        }
    }
}

/// A script's resource id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScriptRid {
    /// The container it is in.
    pub container: ContainerRid,
    /// What it is.
    pub kind: ScriptKind,
    /// Its number there: 60 bits.
    pub script: u64,
}

impl ScriptRid {
    /// The inverse of `Display`.
    pub fn parse(text: &str) -> Option<ScriptRid> {
        ScriptKind::ALL.into_iter().find_map(|kind| {
            let (container, script) = parse_child(text, kind.nibble())?;
            Some(ScriptRid { container, kind, script })
        })
    }
}

impl fmt::Display for ScriptRid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&child_text(self.container, self.script, self.kind.nibble()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DatabaseRid, ItemRid, RangeRid};
    use super::*;

    #[test]
    fn scripts_come_back_from_their_texts_and_are_nothing_else() {
        let container = ContainerRid { database: DatabaseRid(0x0102_0304), container: 7 };
        for kind in ScriptKind::ALL {
            for script in [0, 1, (1 << 60) - 1] {
                let rid = ScriptRid { container, kind, script };
                let text = rid.to_string();
                assert_eq!(text.len(), 24);
                assert_eq!(ScriptRid::parse(&text), Some(rid));
                assert_eq!((ItemRid::parse(&text), RangeRid::parse(&text)), (None, None));
            }
            assert_eq!(ScriptKind::of_segment(kind.segment()), Some(kind));
        }
        let item = ItemRid { container, item: 1 };
        assert_eq!(ScriptRid::parse(&item.to_string()), None);
        assert_eq!(ScriptKind::of_segment("docs"), None);
    }
}

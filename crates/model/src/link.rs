//! The links of a container and of what lies in it: `dbs/{database}/colls/{container}/…`.
//!
//! Resources name each other by such links (`_self`, the `resource` of a permission), so they are
//! more than one door's paths, and here is the one grammar for whoever meets them. It works on the
//! pieces between the slashes and takes them as they are: who percent-decodes does so afterwards.

use crate::id::ScriptKind;

/// A link of a container, or of something in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerLink<'p, 'a> {
    pub database: &'a str,
    pub container: &'a str,
    /// What follows.
    inside: &'p [&'a str],
}

/// What a link names in its container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkedResource<'p, 'a> {
    Container,
    Items,
    Item(&'a str),
    Scripts(ScriptKind),
    Script(ScriptKind, &'a str),
    /// Something that only a protocol knows.
    Other(&'p [&'a str]),
}

impl<'p, 'a> ContainerLink<'p, 'a> {
    /// None: the pieces lead into no container.
    pub fn parse(pieces: &'p [&'a str]) -> Option<ContainerLink<'p, 'a>> {
        match pieces {
            ["dbs", database, "colls", container, inside @ ..] => {
                Some(ContainerLink { database, container, inside })
            }
            _ => None,
        }
    }

    pub fn resource(&self) -> LinkedResource<'p, 'a> {
        match self.inside {
            [] => LinkedResource::Container,
            ["docs"] => LinkedResource::Items,
            ["docs", id] => LinkedResource::Item(id),
            [segment] | [segment, _] => match (ScriptKind::of_segment(segment), self.inside) {
                (Some(kind), [_, script]) => LinkedResource::Script(kind, script),
                (Some(kind), _) => LinkedResource::Scripts(kind),
                (None, inside) => LinkedResource::Other(inside),
            },
            inside => LinkedResource::Other(inside),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_names_a_container_or_what_is_in_it() {
        let resource = |pieces: &[&str]| match ContainerLink::parse(pieces) {
            Some(link) => format!("{} {} {:?}", link.database, link.container, link.resource()),
            None => "none".to_owned(),
        };
        let container = ["dbs", "d", "colls", "c"];
        for (inside, expected) in [
            (&[][..], "Container"),
            (&["docs"], "Items"),
            (&["docs", "x"], r#"Item("x")"#),
            (&["sprocs"], "Scripts(Procedure)"),
            (&["udfs", "f"], r#"Script(Function, "f")"#),
            (&["udfs", "f", "x"], r#"Other(["udfs", "f", "x"])"#),
            (&["docs", "x", "attachments"], r#"Other(["docs", "x", "attachments"])"#),
            (&["pkranges"], r#"Other(["pkranges"])"#),
        ] {
            assert_eq!(resource(&[&container, inside].concat()), format!("d c {expected}"));
        }
        for other in [&[][..], &["dbs", "d"], &["dbs", "d", "colls"], &["dbs", "d", "users", "u"]] {
            assert_eq!(resource(other), "none");
        }
    }
}

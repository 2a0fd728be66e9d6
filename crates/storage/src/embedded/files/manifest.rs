//! What belongs to a store, written down when it is made: the file `STORE`.
//!
//! ```text
//! partita store
//! format = 4                                              the frozen settings (see `settings.rs`)
//! lanes = 2 …
//! id = 00c0ffee00c0ffee                                   tells this store's files from another's
//! lane-0 = items 1, index 2, feed 3, meta 4, pending 5    the engine's keyspaces and their numbers
//! lane-1 = …
//! checksum = …
//! ```
//!
//! The engine makes anew what it does not find and removes what it does not know, without a word.
//! So the files are compared with this before the engine sees them (`files/inventory.rs`).
//!
//! **Badges.** Each lane's directory and each keyspace's has a small file that says whose it is, so
//! that directories which changed places, or came from another store, are noticed.
//!
//! Stores from before this have a `STORE` without `id` and checksum. They are read once more; when
//! they have been opened, all of this is written down.

use std::fmt::Write as _;
use std::path::Path;

use crate::contract::Result;
use crate::contract::StorageError;
use crate::embedded::files::checked::{verified, with_checksum};
use crate::embedded::settings::Frozen;

const FIRST_LINE: &str = "partita store\n";

const FORMER_FIRST_LINE: &str = "partita embedded store\n";

/// The engine's keyspace for its own notes about the others. It is there before any of ours.
pub(in crate::embedded) const ENGINES_OWN: u64 = 0;
pub(in crate::embedded) const ENGINES_OWN_NAME: &str = "engine";

/// What is written down about a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Manifest {
    pub(in crate::embedded) frozen: Frozen,
    pub(in crate::embedded) id: u64,
    /// The keyspaces of each lane.
    pub(in crate::embedded) lanes: Vec<Keyspaces>,
    /// Read from a file of the former form, which says only what is frozen.
    pub(in crate::embedded) is_former: bool,
}

/// The names and numbers of a lane's keyspaces, without the engine's own.
pub(in crate::embedded) type Keyspaces = Vec<(String, u64)>;

/// Whose a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Owner {
    pub(in crate::embedded) store: u64,
    pub(in crate::embedded) lane: usize,
}

impl Manifest {
    pub(in crate::embedded) fn owner(&self, lane: usize) -> Owner {
        Owner { store: self.id, lane }
    }

    /// Compares with what the engine opened.
    pub(in crate::embedded) fn expect_keyspaces(&self, opened: &Manifest) -> Result<()> {
        match (0..).zip(&self.lanes).zip(&opened.lanes).find(|((_, known), found)| known != found) {
            None => Ok(()),
            Some(((lane, known), found)) => Err(StorageError::Corrupt(format!(
                "lane {lane} was made with the keyspaces {known:?} and has {found:?}"
            ))),
        }
    }

    pub(in crate::embedded) fn to_text(&self) -> String {
        let mut text = format!("{FIRST_LINE}{}id = {:016x}\n", self.frozen.to_text(), self.id);
        for (lane, keyspaces) in self.lanes.iter().enumerate() {
            let named: Vec<String> =
                keyspaces.iter().map(|(name, number)| format!("{name} {number}")).collect();
            writeln!(text, "lane-{lane} = {}", named.join(", ")).expect("a string takes all text");
        }
        with_checksum(text)
    }

    /// The inverse of [`Manifest::to_text`]; reads the former form too.
    pub(in crate::embedded) fn parse(text: &str, path: &Path) -> Result<Manifest> {
        let damaged = |why: &str| {
            StorageError::Corrupt(format!("{} does not describe a store: {why}", path.display()))
        };
        if let Some(body) = text.strip_prefix(FORMER_FIRST_LINE) {
            let frozen = Frozen::parse(body, path)?;
            // All stores had their keyspaces made in this order.
            let names = frozen.keyspace_names().into_iter().map(str::to_owned);
            let keyspaces: Keyspaces = names.zip(1..).collect();
            let lanes = vec![keyspaces; frozen.lanes];
            return Ok(Manifest { frozen, id: 0, lanes, is_former: true });
        }
        if !text.starts_with(FIRST_LINE) {
            return Err(damaged("its first line is wrong"));
        }
        let body = verified(text, path)?;
        let frozen = Frozen::parse(body, path)?;
        let value = |name: &str| {
            let mut pairs = body.lines().filter_map(|line| line.split_once(" = "));
            pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        let id = value("id").and_then(|id| u64::from_str_radix(id, 16).ok());
        let id = id.ok_or_else(|| damaged("id"))?;
        let keyspaces = |lane: usize| {
            let name = format!("lane-{lane}");
            value(&name).and_then(parse_keyspaces).ok_or_else(|| damaged(&name))
        };
        let lanes = (0..frozen.lanes).map(keyspaces).collect::<Result<_>>()?;
        Ok(Manifest { frozen, id, lanes, is_former: false })
    }
}

fn parse_keyspaces(text: &str) -> Option<Keyspaces> {
    let one = |text: &str| {
        let (name, number) = text.split_once(' ')?;
        Some((name.to_owned(), number.parse().ok()?))
    };
    text.split(", ").map(one).collect()
}

impl Owner {
    /// The badge of the lane's own directory.
    pub(in crate::embedded) fn lane_badge(self) -> String {
        with_checksum(format!("partita lane\nstore = {:016x}\nlane = {}\n", self.store, self.lane))
    }

    /// The badge of a keyspace's directory.
    pub(in crate::embedded) fn keyspace_badge(self, name: &str, number: u64) -> String {
        with_checksum(format!(
            "partita keyspace\nstore = {:016x}\nlane = {}\nkeyspace = {number}\nname = {name}\n",
            self.store, self.lane
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::settings::EmbeddedSettings;

    fn manifest() -> Manifest {
        let settings = EmbeddedSettings { lanes: Some(2), ..EmbeddedSettings::default() };
        let frozen = Frozen::choose(&settings).unwrap();
        let keyspaces: Keyspaces =
            frozen.keyspace_names().into_iter().map(str::to_owned).zip(1..).collect();
        Manifest { lanes: vec![keyspaces; 2], frozen, id: 0xabcd, is_former: false }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let text = manifest().to_text();
        assert_eq!(Manifest::parse(&text, Path::new("STORE")), Ok(manifest()));
        assert!(text.contains("lane-1 = items 1, index 2, feed 3, meta 4, pending 5\n"), "{text}");
    }

    #[test]
    fn an_edited_file_is_damage() {
        let text = manifest().to_text().replace("lanes = 2", "lanes = 1");
        let error = Manifest::parse(&text, Path::new("STORE")).unwrap_err();
        assert!(error.to_string().contains("its checksum is wrong"), "{error}");
    }

    #[test]
    fn a_file_of_the_former_form_is_read() {
        let frozen = manifest().frozen;
        let text = format!("{FORMER_FIRST_LINE}{}", frozen.to_text());
        let former = Manifest::parse(&text, Path::new("STORE")).unwrap();
        assert!(former.is_former);
        assert_eq!((former.frozen, former.lanes), (frozen, manifest().lanes));
    }

    #[test]
    fn a_foreign_file_is_damage() {
        for text in ["", "something else", "partita store\nformat = 4\nlanes = 2\n"] {
            let parsed = Manifest::parse(text, Path::new("STORE"));
            assert!(matches!(parsed, Err(StorageError::Corrupt(_))), "{text:?}");
        }
    }
}

//! Is everything there that belongs to the store, and nothing else? Looked at before the engine is.
//!
//! The engine is forgiving where a database must not be. A keyspace whose file `current` is missing
//! it takes for one that was never finished, and makes it anew, empty; without that of its own
//! notes it removes all the others; tables that no list names it removes; a lane without `version`
//! is a new one to it. Each of these is right after a crash in the middle of making something, and
//! none can happen to a store that is complete: there each file is written before it is named, and
//! what names it is replaced whole. So in a complete store whatever is missing was lost, and
//! whatever is new came from elsewhere. Both are told, and nothing is opened or changed.
//!
//! What crashes do leave behind, and what is therefore no damage: tables that no list names, lists
//! of versions that are not the current one, drafts (`.tmp…`, `….new`).
//!
//! **Which bytes are read.** Small files are read whole, and of tables, beginning with the
//! smallest, as much as takes no time that anybody would notice at a start ([`Depth::Start`]); all
//! of them for `partita check` ([`Depth::Whole`]). A list of tables that belongs to another time or
//! place is found out by the first table that is not what the list says. Blocks of other tables
//! have sums of their own, which the engine verifies when it reads them.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::contract::Result;
use crate::contract::StorageError;
use crate::embedded::files::directory::{Directory, failed};
use crate::embedded::files::durable;
use crate::embedded::files::engine_files::{Table, read_version};
use crate::embedded::files::journal;
use crate::embedded::files::manifest::{ENGINES_OWN, ENGINES_OWN_NAME, Manifest, Owner};

/// The badge of a lane and of a keyspace: see `files/manifest.rs`.
pub(in crate::embedded) const LANE_BADGE: &str = "LANE";
pub(in crate::embedded) const KEYSPACE_BADGE: &str = "KEYSPACE";

/// The engine's mark of a complete database, of the version that is pinned.
const ENGINE_VERSION: &[u8] = b"FJL\x03";

/// So much of a lane's tables is read at a start: some milliseconds of memory, a tenth of a second
/// of a common disk.
const START_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Damage of one kind tends to come in numbers; so many pieces of it are told at a start.
const TOLD_MAX: usize = 3;

/// How much is read, and what becomes of files that cannot be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::embedded) enum Depth {
    /// What cannot be read ends the start: nobody knows whether it is damaged.
    #[default]
    Start,
    /// What cannot be read is told, and the rest is looked at.
    Whole,
}

/// What was looked at, and what is wrong with it.
#[derive(Debug, Default)]
pub(in crate::embedded) struct Inventory {
    pub(in crate::embedded) tables: usize,
    /// Tables of which every byte was read.
    pub(in crate::embedded) tables_read: usize,
    pub(in crate::embedded) problems: Vec<String>,
    depth: Depth,
}

/// Refuses a store that is not complete.
pub(in crate::embedded) fn verify(directory: &Directory, manifest: &Manifest) -> Result<Inventory> {
    let inventory = take(directory, manifest, Depth::Start)?;
    if inventory.problems.is_empty() {
        return Ok(inventory);
    }
    let told: Vec<&str> = inventory.problems.iter().take(TOLD_MAX).map(String::as_str).collect();
    let more = match inventory.problems.len().saturating_sub(TOLD_MAX) {
        0 => String::new(),
        more => format!("; and {more} more, which `partita check` lists"),
    };
    Err(StorageError::Corrupt(format!(
        "{}{more}. Nothing was changed: put back what is missing and take away what does not \
         belong there, or restore a backup",
        told.join("; ")
    )))
}

/// Compares all files with what was written down.
pub(in crate::embedded) fn take(
    directory: &Directory,
    manifest: &Manifest,
    depth: Depth,
) -> Result<Inventory> {
    let mut inventory = Inventory { depth, ..Inventory::default() };
    inventory.look_at_top(directory, manifest)?;
    for (lane, keyspaces) in manifest.lanes.iter().enumerate() {
        let owner = (!manifest.is_former).then(|| manifest.owner(lane));
        let path = directory.lane(lane);
        if !path.is_dir() {
            inventory.missing(&path);
            continue;
        }
        inventory.look_at_lane(&path, owner)?;
        let mut known = vec![(ENGINES_OWN_NAME.to_owned(), ENGINES_OWN)];
        known.extend(keyspaces.iter().cloned());
        inventory.look_at_keyspaces(&path.join("keyspaces"), &known, owner)?;
    }
    Ok(inventory)
}

impl Inventory {
    /// What was read; none where it could not be and that was told.
    fn readable<T>(&mut self, read: Result<T>) -> Result<Option<T>> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(StorageError::Io(problem)) if self.depth == Depth::Whole => {
                self.problems.push(problem);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// What a directory has; nothing where that could not be read and was told.
    fn list(&mut self, path: &Path) -> Result<Vec<(String, PathBuf)>> {
        Ok(self.readable(list(path))?.unwrap_or_default())
    }

    fn missing(&mut self, path: &Path) {
        self.problems.push(format!("{} is missing", path.display()));
    }

    fn foreign(&mut self, path: &Path) {
        self.problems.push(format!("{} does not belong to the store", path.display()));
    }

    /// The files of lanes beside each other. Other files are others' business.
    fn look_at_top(&mut self, directory: &Directory, manifest: &Manifest) -> Result<()> {
        let lanes = manifest.frozen.lanes;
        for (name, path) in self.list(directory.path())? {
            let Some(rest) = name.strip_prefix("lane-").filter(|_| !is_draft(&name)) else {
                continue;
            };
            let (number, kind) = rest.split_once('.').map_or((rest, ""), |(n, kind)| (n, kind));
            let is_known = matches!(kind, "" | "mark" | "unreadable-journal");
            if !is_known || canonical(number).is_none_or(|lane| lane >= lanes as u64) {
                self.foreign(&path);
            }
        }
        Ok(())
    }

    fn look_at_lane(&mut self, lane: &Path, owner: Option<Owner>) -> Result<()> {
        // Without them everything would look as if it were missing.
        let Some(files) = self.readable(list(lane))? else { return Ok(()) };
        let mut journals = BTreeSet::new();
        for (name, path) in &files {
            let journal = name.strip_suffix(journal::SUFFIX).and_then(canonical);
            match journal {
                Some(number) => drop(journals.insert(number)),
                None if matches!(name.as_str(), "lock" | "version" | "keyspaces" | LANE_BADGE) => {}
                None if is_draft(name) => {}
                None => self.foreign(path),
            }
        }
        for name in ["lock", "keyspaces"] {
            if !files.iter().any(|(there, _)| there == name) {
                self.missing(&lane.join(name));
            }
        }
        self.expect_content(&lane.join("version"), ENGINE_VERSION)?;
        if let Some(owner) = owner {
            self.expect_content(&lane.join(LANE_BADGE), owner.lane_badge().as_bytes())?;
        }
        // The engine removes them from the oldest on, and always has one to write to.
        match (journals.first(), journals.last()) {
            (Some(first), Some(last)) => (*first..*last)
                .filter(|number| !journals.contains(number))
                .for_each(|number| self.missing(&lane.join(format!("{number}.jnl")))),
            _ => self.problems.push(format!("{} has no journal", lane.display())),
        }
        Ok(())
    }

    fn look_at_keyspaces(
        &mut self,
        keyspaces: &Path,
        known: &[(String, u64)],
        owner: Option<Owner>,
    ) -> Result<()> {
        if !keyspaces.is_dir() {
            return Ok(());
        }
        for (name, path) in self.list(keyspaces)? {
            if !known.iter().any(|(_, number)| number.to_string() == name) {
                self.foreign(&path);
            }
        }
        let mut tables = Vec::new();
        for (name, number) in known {
            let path = keyspaces.join(number.to_string());
            if !path.is_dir() {
                self.missing(&path);
                continue;
            }
            if let Some(owner) = owner {
                let badge = owner.keyspace_badge(name, *number);
                self.expect_content(&path.join(KEYSPACE_BADGE), badge.as_bytes())?;
            }
            self.look_at_keyspace(&path, &mut tables)?;
        }
        self.tables += tables.len();
        self.read_tables(tables)
    }

    /// Compares a keyspace's files with its list of tables, and adds these to `tables`.
    fn look_at_keyspace(
        &mut self,
        keyspace: &Path,
        tables: &mut Vec<(u64, Table, PathBuf)>,
    ) -> Result<()> {
        for (name, path) in self.list(keyspace)? {
            let is_version = name.strip_prefix('v').and_then(canonical).is_some();
            let is_known = matches!(name.as_str(), "current" | "tables" | KEYSPACE_BADGE);
            if !is_version && !is_known && !is_draft(&name) {
                self.foreign(&path);
            }
        }
        let version = match self.readable(read_version(keyspace))? {
            Some(Ok(version)) => version,
            Some(Err(problem)) => {
                self.problems.push(problem);
                return Ok(());
            }
            None => return Ok(()),
        };
        let directory = keyspace.join("tables");
        if !directory.is_dir() {
            self.missing(&directory);
            return Ok(());
        }
        for (name, path) in self.list(&directory)? {
            if canonical(&name).is_none() && !name.starts_with("._") && name != ".DS_Store" {
                self.foreign(&path);
            }
        }
        for table in version.tables {
            let path = directory.join(table.number.to_string());
            match fs::metadata(&path) {
                Ok(metadata) if metadata.len() > 0 => tables.push((metadata.len(), table, path)),
                Ok(_) => self.problems.push(format!("{} is empty", path.display())),
                Err(error) if error.kind() == ErrorKind::NotFound => self.missing(&path),
                Err(error) => drop(self.readable::<()>(Err(failed("look at", &path, &error)))?),
            }
        }
        Ok(())
    }

    fn read_tables(&mut self, mut tables: Vec<(u64, Table, PathBuf)>) -> Result<()> {
        tables.sort_by_key(|(bytes, table, _)| (*bytes, table.number));
        let mut read_bytes = 0;
        for (bytes, table, path) in tables {
            read_bytes += bytes;
            if self.depth == Depth::Start && read_bytes > START_BYTES_MAX {
                break;
            }
            self.tables_read += 1;
            let is_in = table.is_in(&path);
            if self.readable(is_in)? == Some(false) {
                self.problems.push(format!(
                    "{} is damaged, or is not the table that belongs there",
                    path.display()
                ));
            }
        }
        Ok(())
    }

    fn expect_content(&mut self, path: &Path, content: &[u8]) -> Result<()> {
        match fs::read(path) {
            Ok(found) if found == content => {}
            Ok(_) => self.problems.push(format!(
                "{} is damaged, or is that of another lane, keyspace or store",
                path.display()
            )),
            Err(error) if error.kind() == ErrorKind::NotFound => self.missing(path),
            Err(error) => drop(self.readable::<()>(Err(failed("read", path, &error)))?),
        }
        Ok(())
    }
}

/// What the engine and we call a file that is to become another one; a crash leaves it.
fn is_draft(name: &str) -> bool {
    name.starts_with('.') || name.ends_with(durable::DRAFT)
}

/// A number as it is written in names: without signs or leading zeros.
fn canonical(text: &str) -> Option<u64> {
    let number = text.parse::<u64>().ok()?;
    (number.to_string() == text).then_some(number)
}

/// What a directory has, by name.
pub(in crate::embedded) fn list(path: &Path) -> Result<Vec<(String, PathBuf)>> {
    let listed = || -> std::io::Result<Vec<(String, PathBuf)>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            entries.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
        }
        entries.sort();
        Ok(entries)
    };
    listed().map_err(|error| failed("list", path, &error))
}

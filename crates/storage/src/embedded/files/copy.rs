//! A copy of a store that may be written to, so that the store itself need not be.
//!
//! The engine cannot open a database for reading only: it cuts a torn end off the journal, writes
//! what it replays into tables and removes what it takes for left-overs. A check must do none of
//! that to data that may be damaged. So it gets a directory of its own among the system's temporary
//! files, in which small files and journals are copies, at most a few hundred megabytes. Tables are
//! only linked to: the engine never changes one. It removes them, and then a link goes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::contract::Result;
use crate::contract::StorageError;
use crate::embedded::files::directory::{Directory, failed};
use crate::embedded::files::engine_files::read_version;
use crate::embedded::files::inventory::{KEYSPACE_BADGE, LANE_BADGE, list};
use crate::embedded::files::journal;
use crate::embedded::files::manifest::{ENGINES_OWN, Manifest};

/// So many names are tried: what somebody else has put there is left alone.
const ATTEMPTS: u32 = 1_000;

/// The copy's directory, which goes with the value.
#[derive(Debug)]
pub(in crate::embedded) struct Scratch(PathBuf);

impl Scratch {
    /// Copies a store whose files are whole.
    pub(in crate::embedded) fn of(directory: &Directory, manifest: &Manifest) -> Result<Scratch> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let scratch = Scratch::make(&std::env::temp_dir(), |attempt| {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            format!("partita-check-{}-{number}-{attempt}", process::id())
        })?;
        copy(&directory.store_file(), scratch.path())?;
        for (lane, keyspaces) in manifest.lanes.iter().enumerate() {
            copy(&directory.mark(lane), scratch.path())?;
            let from = directory.lane(lane);
            let to = scratch.path().join(format!("lane-{lane}"));
            copy_lane(&from, &to)?;
            let numbers = keyspaces.iter().map(|(_, number)| *number);
            for number in std::iter::once(ENGINES_OWN).chain(numbers) {
                let name = Path::new("keyspaces").join(number.to_string());
                copy_keyspace(&from.join(&name), &to.join(&name))?;
            }
        }
        Ok(scratch)
    }

    /// Makes a directory that nobody else may look into or has made: anybody can write to the place
    /// for temporary files, and could have put a directory or a link of their own there.
    fn make(place: &Path, name: impl Fn(u32) -> String) -> Result<Scratch> {
        for attempt in 0..ATTEMPTS {
            let path = place.join(name(attempt));
            match private_directory(&path) {
                Ok(()) => return Ok(Scratch(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(no_room(&path, &error)),
            }
        }
        let place = place.display();
        Err(StorageError::Io(format!("{place} has directories of all names that were tried")))
    }

    pub(in crate::embedded) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!("cannot remove {}: {error}", self.0.display());
        }
    }
}

#[cfg(unix)]
fn private_directory(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().mode(0o700).create(path)
}

#[cfg(not(unix))]
fn private_directory(path: &Path) -> io::Result<()> {
    fs::create_dir(path)
}

fn copy_lane(from: &Path, to: &Path) -> Result<()> {
    make(to)?;
    for (name, path) in list(from)? {
        if matches!(name.as_str(), "lock" | "version" | LANE_BADGE) {
            copy(&path, to)?;
        } else if name.ends_with(journal::SUFFIX) {
            copy_journal(&path, &to.join(name))?;
        }
    }
    Ok(())
}

fn copy_keyspace(from: &Path, to: &Path) -> Result<()> {
    let version = read_version(from)?.map_err(StorageError::Corrupt)?;
    make(&to.join("tables"))?;
    copy(&from.join("current"), to)?;
    copy(&from.join(format!("v{}", version.number)), to)?;
    if from.join(KEYSPACE_BADGE).exists() {
        copy(&from.join(KEYSPACE_BADGE), to)?;
    }
    let whole = fs::canonicalize(from).map_err(|error| failed("find", from, &error))?;
    for table in version.tables {
        let name = Path::new("tables").join(table.number.to_string());
        link(&whole.join(&name), &to.join(name))?;
    }
    Ok(())
}

/// Most of a journal is zeros that wait to be written over; they are left out.
fn copy_journal(from: &Path, to: &Path) -> Result<()> {
    let mut bytes = fs::read(from).map_err(|error| failed("read", from, &error))?;
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes.truncate(used);
    fs::write(to, bytes).map_err(|error| no_room(to, &error))
}

fn copy(file: &Path, to: &Path) -> Result<()> {
    let to = to.join(file.file_name().unwrap_or_default());
    // Not its rights: they may forbid to write to the copy.
    let bytes = fs::read(file).map_err(|error| failed("read", file, &error))?;
    fs::write(&to, bytes).map_err(|error| no_room(&to, &error))
}

fn make(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| no_room(path, &error))
}

fn no_room(path: &Path, error: &io::Error) -> StorageError {
    let error = failed("write", path, error);
    StorageError::Io(format!(
        "{error}. A check copies the journals into the directory for temporary files, which TMPDIR \
         can name"
    ))
}

#[cfg(unix)]
fn link(table: &Path, name: &Path) -> Result<()> {
    std::os::unix::fs::symlink(table, name).map_err(|error| no_room(name, &error))
}

#[cfg(not(unix))]
fn link(table: &Path, name: &Path) -> Result<()> {
    fs::copy(table, name).map(drop).map_err(|error| no_room(name, &error))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_copy_is_nobody_elses_and_nowhere_else() {
        let place = std::env::temp_dir().join(format!("partita-copy-test-{}", process::id()));
        fs::create_dir_all(place.join("elsewhere")).unwrap();
        fs::create_dir(place.join("name-0")).unwrap();
        symlink(place.join("elsewhere"), place.join("name-1")).unwrap();
        let scratch = Scratch::make(&place, |attempt| format!("name-{attempt}")).unwrap();
        assert_eq!(scratch.path(), place.join("name-2"));
        let mode = fs::metadata(scratch.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{mode:o}");
        drop(scratch);
        assert!(place.join("name-0").exists() && place.join("elsewhere").exists());
        fs::remove_dir_all(&place).unwrap();
    }
}

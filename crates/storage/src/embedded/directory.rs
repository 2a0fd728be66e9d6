//! The data directory: who may use it, and whether what is in it is a complete store.
//!
//! ```text
//! LOCK            held exclusively by the process that uses the store
//! CREATING        only while the store is being made
//! STORE           the frozen settings; its appearance is the moment the store exists
//! lane-0/         one engine database per lane
//! lane-0.mark     how far this lane has acknowledged (see `mark.rs`)
//! lane-1/ …
//! ```
//!
//! A store whose making was cut off (`CREATING` without `STORE`) has never acknowledged anything
//! and is made again. Lanes without either file are somebody's data in a damaged directory: that is
//! an error, never a reason to delete.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::settings::{EmbeddedSettings, Frozen};
use crate::contract::Result;
use crate::error::StorageError;

/// A locked data directory. The lock goes with the value, and with the process.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    _lock: File,
}

impl Directory {
    /// Makes the directory if need be and takes it for this process.
    pub(super) fn lock(path: &Path) -> Result<Directory> {
        fs::create_dir_all(path).map_err(|error| failed("create", path, &error))?;
        let lock_path = path.join("LOCK");
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .map_err(|error| failed("open", &lock_path, &error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Directory { path: path.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(StorageError::Settings(format!(
                "the data directory {} is in use by another process: stop it first, or choose \
                 another directory",
                path.display()
            ))),
            Err(TryLockError::Error(error)) => Err(failed("lock", &lock_path, &error)),
        }
    }

    pub(super) fn lane(&self, lane: usize) -> PathBuf {
        self.path.join(format!("lane-{lane}"))
    }

    pub(super) fn mark(&self, lane: usize) -> PathBuf {
        self.path.join(format!("lane-{lane}.mark"))
    }

    fn store_file(&self) -> PathBuf {
        self.path.join("STORE")
    }

    fn creating_file(&self) -> PathBuf {
        self.path.join("CREATING")
    }

    /// The frozen settings of the store in here; none if there is no store yet.
    pub(super) fn read_frozen(&self, settings: &EmbeddedSettings) -> Result<Option<Frozen>> {
        let path = self.store_file();
        match fs::read_to_string(&path) {
            Ok(text) => {
                let frozen = Frozen::parse(&text, &path)?;
                frozen.check(settings, &self.path)?;
                Ok(Some(frozen))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("read", &path, &error)),
        }
    }

    /// Begins to make a store: clears away an unfinished attempt, refuses anything else.
    pub(super) fn begin_creating(&self) -> Result<()> {
        let creating = self.creating_file();
        let unfinished = creating.exists();
        for entry in fs::read_dir(&self.path).map_err(|e| failed("list", &self.path, &e))? {
            let entry = entry.map_err(|error| failed("list", &self.path, &error))?;
            if !entry.file_name().to_string_lossy().starts_with("lane-") {
                continue;
            }
            let path = entry.path();
            if !unfinished {
                return Err(StorageError::Corrupt(format!(
                    "{} is there but the file STORE is not: restore it, or choose an empty \
                     directory",
                    path.display()
                )));
            }
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { remove(&path) };
            removed.map_err(|error| failed("remove", &path, &error))?;
        }
        write_durably(&creating, b"")?;
        self.sync()
    }

    /// The store is complete: from now on it exists.
    pub(super) fn finish_creating(&self, frozen: &Frozen) -> Result<()> {
        let draft = self.path.join("STORE.new");
        write_durably(&draft, frozen.to_text().as_bytes())?;
        let path = self.store_file();
        fs::rename(&draft, &path).map_err(|error| failed("rename to", &path, &error))?;
        self.sync()?;
        let creating = self.creating_file();
        remove(&creating).map_err(|error| failed("remove", &creating, &error))
    }

    /// Makes the directory's own entries durable.
    fn sync(&self) -> Result<()> {
        let synced = File::open(&self.path).and_then(|directory| directory.sync_all());
        synced.map_err(|error| failed("sync", &self.path, &error))
    }
}

fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
}

fn write_durably(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|error| failed("write", path, &error))
}

pub(super) fn failed(doing: &str, path: &Path, error: &io::Error) -> StorageError {
    StorageError::io(format!("cannot {doing} {}", path.display()), error)
}

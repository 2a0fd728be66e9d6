//! The data directory: who may use it, and whether what is in it is a complete store.
//!
//! ```text
//! LOCK            held exclusively by the process that uses the store
//! CREATING        only while the store is being made
//! STORE           what belongs to the store; its appearance is the moment the store exists
//! lane-0/         one engine database per lane
//! lane-0.mark     how far this lane has acknowledged (see `mark.rs`)
//! lane-1/ …
//! ```
//!
//! A store whose making was cut off (`CREATING` without `STORE`) has never acknowledged anything
//! and is made again. Lanes without either file are somebody's data in a damaged directory: that is
//! an error, never a reason to delete. So `CREATING` must not be left lying about: if `STORE` were
//! lost one day, it would be a reason.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::contract::Result;
use crate::contract::StorageError;
use crate::embedded::files::durable;
use crate::embedded::files::inventory::list;
use crate::embedded::files::manifest::Manifest;
use crate::embedded::files::mark::Mark;
use crate::embedded::settings::EmbeddedSettings;

/// A locked data directory. The lock goes with the value, and with the process.
#[derive(Debug)]
pub(in crate::embedded) struct Directory {
    path: PathBuf,
    _lock: Option<File>,
}

impl Directory {
    /// Makes the directory if need be and takes it for this process.
    pub(in crate::embedded) fn lock(path: &Path) -> Result<Directory> {
        durable::make_directory(path)?;
        let lock_path = path.join("LOCK");
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .map_err(|error| failed("open", &lock_path, &error))?;
        taken(lock.try_lock(), path)?;
        Ok(Directory { path: path.to_owned(), _lock: Some(lock) })
    }

    /// Keeps processes away that would write, and changes nothing. Where there is no `LOCK`, nobody
    /// has it: who opens a store makes one.
    pub(in crate::embedded) fn lock_for_reading(path: &Path) -> Result<Directory> {
        let lock_path = path.join("LOCK");
        let lock = match File::open(&lock_path) {
            Ok(lock) => Some(lock),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed("open", &lock_path, &error)),
        };
        if let Some(lock) = &lock {
            taken(lock.try_lock_shared(), path)?;
        }
        Ok(Directory { path: path.to_owned(), _lock: lock })
    }

    pub(in crate::embedded) fn path(&self) -> &Path {
        &self.path
    }

    pub(in crate::embedded) fn lane(&self, lane: usize) -> PathBuf {
        self.path.join(format!("lane-{lane}"))
    }

    pub(in crate::embedded) fn mark(&self, lane: usize) -> PathBuf {
        self.path.join(format!("lane-{lane}.mark"))
    }

    pub(in crate::embedded) fn store_file(&self) -> PathBuf {
        self.path.join("STORE")
    }

    fn creating_file(&self) -> PathBuf {
        self.path.join("CREATING")
    }

    /// What belongs to the store in here; none if there is no store yet.
    pub(in crate::embedded) fn read_manifest(
        &self,
        settings: &EmbeddedSettings,
    ) -> Result<Option<Manifest>> {
        let path = self.store_file();
        match fs::read(&path) {
            Ok(bytes) => {
                let manifest = Manifest::parse(&String::from_utf8_lossy(&bytes), &path)?;
                manifest.frozen.check(settings, &self.path)?;
                Ok(Some(manifest))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("read", &path, &error)),
        }
    }

    /// What is written down about a store that must be there.
    pub(in crate::embedded) fn expect_manifest(
        &self,
        settings: &EmbeddedSettings,
    ) -> Result<Manifest> {
        if let Some(manifest) = self.read_manifest(settings)? {
            return Ok(manifest);
        }
        let names = list(&self.path)?;
        let lane = names.iter().find(|(name, _)| name.starts_with("lane-"));
        match lane {
            Some((_, path)) if !self.creating_file().exists() => Err(without_store(path)),
            _ => {
                let path = self.path.display();
                Err(StorageError::Settings(format!("there is no store in {path}")))
            }
        }
    }

    /// Begins to make a store: clears away an unfinished attempt, refuses anything else.
    pub(in crate::embedded) fn begin_creating(&self) -> Result<()> {
        let creating = self.creating_file();
        let unfinished = creating.exists();
        let mut lanes = list(&self.path)?;
        lanes.retain(|(name, _)| name.starts_with("lane-"));
        let lanes: Vec<PathBuf> = lanes.into_iter().map(|(_, path)| path).collect();
        if let Some(path) = lanes.iter().find(|path| !unfinished || Mark::says_acknowledged(path)) {
            return Err(without_store(path));
        }
        lanes.iter().try_for_each(|path| durable::remove(path))?;
        durable::write(&creating, b"")
    }

    /// The store is complete: from now on it exists.
    pub(in crate::embedded) fn finish_creating(&self, manifest: &Manifest) -> Result<()> {
        durable::sync_directory(&self.path)?;
        self.write_manifest(manifest)?;
        self.end_creating()
    }

    /// Writes down what belongs to the store.
    pub(in crate::embedded) fn write_manifest(&self, manifest: &Manifest) -> Result<()> {
        durable::write(&self.store_file(), manifest.to_text().as_bytes())
    }

    /// Takes away what says that the store is not complete; it is.
    pub(in crate::embedded) fn end_creating(&self) -> Result<()> {
        let creating = self.creating_file();
        if creating.exists() { durable::remove(&creating) } else { Ok(()) }
    }
}

fn taken(result: std::result::Result<(), TryLockError>, path: &Path) -> Result<()> {
    match result {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(StorageError::Settings(format!(
            "the data directory {} is in use by another process: stop it first, or choose another \
             directory",
            path.display()
        ))),
        Err(TryLockError::Error(error)) => Err(failed("lock", &path.join("LOCK"), &error)),
    }
}

pub(in crate::embedded) fn failed(doing: &str, path: &Path, error: &io::Error) -> StorageError {
    StorageError::io(format!("cannot {doing} {}", path.display()), error)
}

fn without_store(lane: &Path) -> StorageError {
    StorageError::Corrupt(format!(
        "{} is there but the file STORE is not: restore it, or choose an empty directory",
        lane.display()
    ))
}

//! Directories of their own for tests, gone afterwards, and stores in them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use partita_storage::{Durability, EmbeddedSettings, EmbeddedStore};

pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub(crate) fn new() -> TempDir {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("partita-storage-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        TempDir(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Settings with this many lanes.
pub(crate) fn lanes(lanes: usize) -> EmbeddedSettings {
    EmbeddedSettings { lanes: Some(lanes), ..EmbeddedSettings::default() }
}

pub(crate) fn relaxed(settings: EmbeddedSettings) -> EmbeddedSettings {
    EmbeddedSettings { durability: Durability::Relaxed, ..settings }
}

pub(crate) fn open(path: &Path) -> EmbeddedStore {
    EmbeddedStore::open(path, EmbeddedSettings::default()).unwrap()
}

/// Copies a store.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, target).unwrap();
        }
    }
}

/// The bytes of a journal up to the last that is not zero.
pub(crate) fn used(journal: &Path) -> Vec<u8> {
    let mut bytes = fs::read(journal).unwrap();
    // By blocks: most of a journal is empty.
    const BLOCK: usize = 4096;
    while bytes.ends_with(&[0; BLOCK]) {
        bytes.truncate(bytes.len() - BLOCK);
    }
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    bytes
}

//! The file that keeps a part of the disk for the store.
//!
//! A threshold alone, writes refused while less than so much is free, keeps the store itself from
//! filling the disk and nobody else: when a log or another program takes the rest, there is no room
//! left to delete anything in. So a part of the reserve is a file without contents, and what is
//! missing for deletes, merges or a recovery is cut off its end. It grows back when there is room.
//!
//! Where the file system cannot set blocks aside for a file there is none, and the threshold has to
//! do; so it is, in effect, where it compresses or copies on write.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// The file, which may not be there.
#[derive(Debug)]
pub(in crate::embedded) struct ReserveFile {
    path: PathBuf,
    held_bytes: u64,
    /// The file system does not set blocks aside; told once.
    is_impossible: bool,
}

impl ReserveFile {
    /// The one in this directory, as it was left.
    pub(in crate::embedded) fn open(directory: &Path) -> ReserveFile {
        let path = directory.join("RESERVE");
        let held_bytes = fs::metadata(&path).map_or(0, |metadata| held_bytes(&metadata));
        ReserveFile { path, held_bytes, is_impossible: false }
    }

    pub(in crate::embedded) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Makes it this large, if the file system can. A failure leaves it as it was: there is just
    /// less room than it seemed.
    pub(in crate::embedded) fn grow_to(&mut self, bytes: u64) {
        if bytes <= self.held_bytes || self.is_impossible {
            return;
        }
        match set_aside(&self.path, bytes) {
            Ok(()) => self.held_bytes = bytes,
            Err(error) => {
                if error.kind() == io::ErrorKind::Unsupported {
                    self.is_impossible = true;
                    tracing::info!(%error, "the file system sets no blocks aside for a reserve");
                }
                // It may have got some of what was asked for.
                self.shrink_to(self.held_bytes);
            }
        }
    }

    /// Gives back what it has beyond this size.
    pub(in crate::embedded) fn shrink_to(&mut self, bytes: u64) {
        let shrink = || match bytes {
            0 => fs::remove_file(&self.path),
            _ => OpenOptions::new().write(true).open(&self.path)?.set_len(bytes),
        };
        match shrink() {
            Ok(()) => self.held_bytes = bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.held_bytes = 0,
            Err(error) => {
                let path = self.path.display();
                tracing::warn!(%error, %path, "the reserve cannot be made smaller");
            }
        }
    }
}

/// What is really set aside: a copy of the file may be as long without having a block.
#[cfg(unix)]
fn held_bytes(metadata: &fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    metadata.len().min(metadata.blocks().saturating_mul(512))
}

#[cfg(not(unix))]
fn held_bytes(metadata: &fs::Metadata) -> u64 {
    metadata.len()
}

#[cfg(unix)]
fn set_aside(path: &Path, bytes: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
    Ok(fallocate(&file, FallocateFlags::empty(), 0, bytes)?)
}

#[cfg(not(unix))]
fn set_aside(_: &Path, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_blocks_holds_nothing() {
        let name = format!("partita-reserve-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        fs::File::create(directory.join("RESERVE")).unwrap().set_len(1 << 30).unwrap();
        assert_eq!(ReserveFile::open(&directory).held_bytes(), 0);
        fs::remove_dir_all(&directory).unwrap();
    }
}

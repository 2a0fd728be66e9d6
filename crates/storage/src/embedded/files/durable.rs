//! Making files, and the names of files, outlast a loss of power.
//!
//! A sync of a file says nothing about its name: that is in the directory, which must be synced
//! itself, and the directory's own name in the one above it. Everything that this adapter writes
//! beside the engine goes through here; what the engine leaves out, callers sync around it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::contract::Result;
use crate::embedded::files::directory::failed;

/// What the name of a file ends with that is to become another one.
pub(in crate::embedded) const DRAFT: &str = ".new";

/// Writes a file so that there is, whatever happens, either what was there before or all of this.
pub(in crate::embedded) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(DRAFT);
    let draft = path.with_file_name(name);
    let written = || {
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).open(&draft)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&draft, path)
    };
    written().map_err(|error| failed("write", path, &error))?;
    sync_parent(path)
}

/// Removes a file, or a directory with all that is in it, and its name. What is not there any more
/// is no error.
pub(in crate::embedded) fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed("remove", path, &error))
        }
        _ => sync_parent(path),
    }
}

/// Makes the names in a directory durable.
pub(in crate::embedded) fn sync_directory(path: &Path) -> Result<()> {
    let synced =
        if cfg!(unix) { File::open(path).and_then(|file| file.sync_all()) } else { Ok(()) };
    synced.map_err(|error| failed("sync", path, &error))
}

fn sync_parent(path: &Path) -> Result<()> {
    path.parent().map_or(Ok(()), sync_directory)
}

/// Makes a directory and those above it where they are missing, and their names durable.
///
/// The directory above is synced also when there is nothing to make: a process that made this one
/// may have ended before it came to that.
pub(in crate::embedded) fn make_directory(path: &Path) -> Result<()> {
    let made: Vec<PathBuf> =
        path.ancestors().take_while(|path| !path.exists()).map(Path::to_path_buf).collect();
    fs::create_dir_all(path).map_err(|error| failed("create", path, &error))?;
    let whole = fs::canonicalize(path).map_err(|error| failed("find", path, &error))?;
    for path in whole.ancestors().skip(1).take(made.len().max(1)) {
        match sync_directory(path) {
            Ok(()) => {}
            // We may be allowed to use a directory and not to look into the one above it.
            Err(error) => tracing::warn!(
                "{error}: until the system has written it by itself, a loss of power may take the \
                 data directory's name"
            ),
        }
    }
    Ok(())
}

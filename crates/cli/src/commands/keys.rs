//! `partita keys rotate`: a new primary key, without a pause.
//!
//! The old primary key becomes the secondary one, so clients that still sign with it go on; the one
//! that was secondary before ends. A server that was started with the two files takes them over on
//! SIGHUP. Clients get the new key at leisure, and before the next rotation.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use partita_gateway::auth::Key;

use crate::args::{KeysCommand, RotateArgs};
use crate::failure::Failure;

/// As many as the service's keys have.
const KEY_BYTES: usize = 64;

pub(crate) fn run(command: &KeysCommand) -> Result<(), Failure> {
    match command {
        KeysCommand::Rotate(args) => rotate(args),
    }
}

/// Rotates the keys in two files.
fn rotate(args: &RotateArgs) -> Result<(), Failure> {
    let (primary, secondary) = (&args.key_file, &args.secondary_key_file);
    let failed =
        |file: &Path, error: io::Error| Failure::usage(format!("{}: {error}", file.display()));
    let old = match fs::read_to_string(primary) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(primary, error)),
    };
    let mut bytes = [0; KEY_BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::other(format!("the system has no random numbers: {error}")))?;
    let new = STANDARD.encode(bytes);
    if let Some(old) = &old {
        Key::parse(old)
            .map_err(|error| Failure::usage(format!("{}: {error}", primary.display())))?;
        // First this one: should the other fail, the old key is in both and works on.
        write_secret(secondary, old.trim().as_bytes()).map_err(|error| failed(secondary, error))?;
    }
    write_secret(primary, new.as_bytes()).map_err(|error| failed(primary, error))?;
    let said = match old {
        Some(_) => format!(
            "The new primary key is in {}, the old one in {}.\nTell the server: kill -HUP PID. Then \
             give the new key to the clients; the old one works until the next rotation.",
            primary.display(),
            secondary.display()
        ),
        None => format!(
            "A primary key was made in {}. Start the server with --key-file {0} \
             --secondary-key-file {}.",
            primary.display(),
            secondary.display()
        ),
    };
    writeln!(io::stdout(), "{said}").map_err(|error| Failure::other(error.to_string()))
}

/// Writes a file that only its owner may read, all of it or nothing.
pub(crate) fn write_secret(file: &Path, contents: &[u8]) -> io::Result<()> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let draft = file.with_file_name(name);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut written = options.open(&draft)?;
    written.write_all(contents)?;
    written.sync_all()?;
    fs::rename(&draft, file)?;
    // The new name must outlast a loss of power, too: clients are given the new key now.
    let directory = file.parent().filter(|directory| !directory.as_os_str().is_empty());
    if cfg!(unix) {
        fs::File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

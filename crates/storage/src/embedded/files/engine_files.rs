//! Which tables a keyspace of the engine has, read from its files without the engine.
//!
//! ```text
//! current  = version u64 · checksum of that version's file u128 · 00
//! v7       = sections · table of contents · trailer
//! contents = "TOC!" · sections u32 · (position u64 · bytes u64 · name u16 + bytes)*
//! trailer  = "SFA!" 01 00 · checksum u128 · position of the contents u64 · bytes u64
//! tables   = levels u8 · (runs u8 · (tables u32 · (number u64 · 00 · checksum u128 · u64)*)*)*
//! ```
//!
//! Numbers are little-endian. Checksums are XXH3 with 128 bits, each of a whole file. The engine
//! verifies neither that of a version nor those of tables, so a table from elsewhere, or a list of
//! other tables, would be served; and whatever the list does not name it removes.
//!
//! This knows a private format of the engine, whose version is pinned for that and other reasons.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::contract::Result;
use crate::embedded::files::directory::failed;

const TRAILER_BYTES: usize = 38;

const READ_BYTES: usize = 256 * 1024;

/// A table that a keyspace has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Table {
    pub(in crate::embedded) number: u64,
    checksum: u128,
}

/// What a keyspace consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Version {
    pub(in crate::embedded) number: u64,
    pub(in crate::embedded) tables: Vec<Table>,
}

/// Reads the version that a keyspace's directory has; `Err` within says what is wrong with it.
pub(in crate::embedded) fn read_version(
    keyspace: &Path,
) -> Result<std::result::Result<Version, String>> {
    let current = keyspace.join("current");
    let bytes = match read(&current)? {
        Some(bytes) => bytes,
        None => return Ok(Err(format!("{} is missing", current.display()))),
    };
    let Some((number, checksum)) = parse_current(&bytes) else {
        return Ok(Err(format!("{} is damaged", current.display())));
    };
    let path = keyspace.join(format!("v{number}"));
    let Some(bytes) = read(&path)? else {
        return Ok(Err(format!("{} is missing", path.display())));
    };
    let tables = (xxh3_128(&bytes) == checksum).then(|| parse_tables(&bytes)).flatten();
    let damaged = || format!("{} is damaged, or {} is", path.display(), current.display());
    Ok(tables.map(|tables| Version { number, tables }).ok_or_else(damaged))
}

impl Table {
    /// Whether a file is this table: reads all of it.
    pub(in crate::embedded) fn is_in(self, path: &Path) -> Result<bool> {
        let sum = || -> io::Result<u128> {
            let mut file = File::open(path)?;
            let mut buffer = vec![0; READ_BYTES];
            let mut sum = Xxh3::new();
            loop {
                match file.read(&mut buffer)? {
                    0 => return Ok(sum.digest128()),
                    bytes => sum.update(buffer.get(..bytes).unwrap_or_default()),
                }
            }
        };
        Ok(sum().map_err(|error| failed("read", path, &error))? == self.checksum)
    }
}

fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", path, &error)),
    }
}

fn parse_current(bytes: &[u8]) -> Option<(u64, u128)> {
    let mut bytes = Bytes(bytes);
    let current = (bytes.u64()?, bytes.u128()?);
    (bytes.0 == [0]).then_some(current)
}

fn parse_tables(file: &[u8]) -> Option<Vec<Table>> {
    let trailer = file.len().checked_sub(TRAILER_BYTES)?;
    let mut trailer = Bytes(file.get(trailer..)?);
    if trailer.take(4)? != b"SFA!" {
        return None;
    }
    trailer.take(2 + 16)?;
    let contents = usize::try_from(trailer.u64()?).ok()?;
    let mut tables = Bytes(section(file, contents, b"tables")?);
    let mut found = Vec::new();
    for _level in 0..tables.u8()? {
        for _run in 0..tables.u8()? {
            for _table in 0..tables.u32()? {
                let number = tables.u64()?;
                if tables.u8()? != 0 {
                    return None;
                }
                found.push(Table { number, checksum: tables.u128()? });
                tables.u64()?;
            }
        }
    }
    Some(found)
}

fn section<'a>(file: &'a [u8], contents: usize, wanted: &[u8]) -> Option<&'a [u8]> {
    let mut contents = Bytes(file.get(contents..)?);
    if contents.take(4)? != b"TOC!" {
        return None;
    }
    for _section in 0..contents.u32()? {
        let start = usize::try_from(contents.u64()?).ok()?;
        let bytes = usize::try_from(contents.u64()?).ok()?;
        let name_bytes = usize::from(contents.u16()?);
        if contents.take(name_bytes)? == wanted {
            return file.get(start..)?.get(..bytes);
        }
    }
    None
}

/// What is left to read.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.0.split_at_checked(bytes)?;
        self.0 = left;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_le_bytes)
    }
}

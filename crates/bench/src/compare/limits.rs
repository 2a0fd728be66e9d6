//! What the machine itself can do: no system is faster than that.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::client::Connection;
use crate::data;
use crate::server::Server;
use crate::system::{Action, Host, Prepared, Space, System};

const BLOCK: usize = 4_096;
/// The file is overwritten from its beginning after so many blocks, as a journal is.
const BLOCKS: u64 = 4_096;

/// Writes of 4 KB that the disk has confirmed, per second.
pub(crate) fn fdatasync(directory: &Path, length: Duration) -> Result<f64> {
    let path = directory.join("fdatasync");
    let mut file = File::create(&path)?;
    file.write_all(&vec![0; BLOCK * BLOCKS as usize])?;
    file.sync_all()?;
    let begun = Instant::now();
    let mut count = 0;
    while begun.elapsed() < length {
        file.seek(SeekFrom::Start(count % BLOCKS * BLOCK as u64))?;
        file.write_all(&[1; BLOCK])?;
        file.sync_data()?;
        count += 1;
    }
    let rate = count as f64 / begun.elapsed().as_secs_f64();
    std::fs::remove_file(path)?;
    Ok(rate)
}

/// A server that does nothing but answer, with what Partita answers to a point read.
pub(crate) async fn bare(
    name: &'static str,
    partita: &System,
    space: &str,
    scratch: &Path,
) -> Result<System> {
    let (Host::Rest(server), Space::Rest(container)) = (&partita.host, partita.space(space).await?)
    else {
        anyhow::bail!("Partita speaks HTTP");
    };
    let read = Space::Rest(container).prepare(&Action::read(data::document(0)))?;
    let Prepared::Requests(requests) = read else { anyhow::bail!("a read is a request") };
    let request = requests.first().context("a read is one request")?;
    let answer = Connection::open(server.address).await?.must(request).await?;
    let recorded = scratch.join("response");
    std::fs::write(&recorded, &answer)?;
    Ok(System::new(name, Host::Rest(Server::bare(&recorded)?)))
}

//! Servers as child processes.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// A running server; ends with this value.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Partita on a free port with its default settings.
    pub(crate) fn partita(binary: &Path, data_dir: &Path) -> Result<Server> {
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut child = Command::new(binary)
            .args(["serve", "--listen", &address.to_string(), "--log-format", "json"])
            .args(["--log-level", "warn"])
            .arg("--data-dir")
            .arg(data_dir)
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| {
                format!("{}: build it with cargo build --release", binary.display())
            })?;
        let line = first_line(&mut child)?;
        anyhow::ensure!(line.contains("\"ready\""), "the server said: {line}");
        Ok(Server { child, address })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The bare server that answers with what the file holds.
    pub(crate) fn bare(response: &Path) -> Result<Server> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("bare")
            .arg(response)
            .stdout(Stdio::piped())
            .spawn()?;
        let address = first_line(&mut child)?.trim().parse()?;
        Ok(Server { child, address })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn first_line(child: &mut Child) -> Result<String> {
    let stdout = child.stdout.take().context("the child's output is piped")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    Ok(line)
}

//! Servers as child processes.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use crate::process;

/// A running server; ends with this value.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Partita on a free port with its default settings, but for the throughput, which is not
    /// enforced: what it can do is measured, not what it may.
    pub(crate) fn partita(binary: &Path, data_dir: &Path) -> Result<Server> {
        Server::partita_with(binary, data_dir, &["--throughput", "off"])
    }

    /// Partita on a free port with these arguments besides.
    pub(crate) fn partita_with(
        binary: &Path,
        data_dir: &Path,
        arguments: &[&str],
    ) -> Result<Server> {
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut child = Command::new(binary)
            .args(["serve", "--listen", &address.to_string(), "--log-format", "json"])
            .args(["--log-level", "warn"])
            .args(arguments)
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

    /// The processor time it and its children have used.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        process::cpu_seconds(self.pid())
    }

    /// The memory it and its children hold.
    pub(crate) fn memory_mb(&self) -> Result<f64> {
        process::memory_mb(self.pid())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Any program that serves on this address; it is not waited for.
    pub(crate) fn other(command: &mut Command, address: SocketAddr) -> Result<Server> {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("{:?}", command.get_program()))?;
        Ok(Server { child, address })
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn end(mut self) -> Result<()> {
        let status = Command::new("kill").arg(self.pid().to_string()).status()?;
        anyhow::ensure!(status.success(), "it could not be told to end");
        self.child.wait()?;
        Ok(())
    }

    /// Whether it runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
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

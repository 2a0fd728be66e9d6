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

    /// The processor time it has used.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid()))?;
        let after_name = stat.rsplit_once(')').context("no name in the process status")?.1;
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        let field = |n: usize| fields.get(n).and_then(|field| field.parse::<f64>().ok());
        let ticks = field(11).context("no user time")? + field(12).context("no system time")?;
        // Linux counts in hundredths of a second on every architecture we run on.
        Ok(ticks / 100.0)
    }

    /// The memory it holds.
    pub(crate) fn rss_mb(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        let kilobytes: f64 = kilobytes.context("no VmRSS in the process status")?.trim().parse()?;
        Ok(kilobytes / 1_024.0)
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

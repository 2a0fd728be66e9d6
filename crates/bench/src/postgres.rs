//! PostgreSQL as a peer: a private cluster that lives as long as this value.
//!
//! The server's programs come from the system's package. The cluster is made with the usual advice
//! for a machine that runs nothing else (a quarter of the memory as shared buffers, enough work
//! memory that no query of the bench spills), so that the peer is not beaten by its defaults.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio_postgres::{Client, NoTls};

/// Where Debian puts the programs of PostgreSQL 15.
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// A server that is not ready after so long will not be.
const START_MAX: Duration = Duration::from_secs(60);

/// A running cluster.
pub(crate) struct Postgres {
    directory: PathBuf,
    port: u16,
}

impl Postgres {
    /// The cluster in this directory; made if there is none.
    pub(crate) fn start(directory: &Path) -> Result<Postgres> {
        Postgres::program("initdb")?;
        std::fs::create_dir_all(directory)?;
        let directory = directory.canonicalize()?;
        give_away(&directory)?;
        let data = directory.join("data");
        if !data.exists() {
            run("initdb", &["-D", text(&data)?, "-U", "bench", "-A", "trust", "-E", "UTF8"])?;
        }
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let settings = format!(
            "-p {port} -k {} -c listen_addresses=127.0.0.1 -c shared_buffers=4GB \
             -c effective_cache_size=12GB -c work_mem=256MB -c maintenance_work_mem=1GB \
             -c max_wal_size=8GB -c max_connections=200 -c jit=off -c random_page_cost=1.1",
            text(&directory)?
        );
        let log = directory.join("log");
        run("pg_ctl", &["-D", text(&data)?, "-l", text(&log)?, "-W", "-o", &settings, "start"])?;
        let started = Postgres { directory, port };
        started.wait()?;
        Ok(started)
    }

    /// A connection over TCP, as a client of the other side has it.
    pub(crate) async fn connect(&self) -> Result<Client> {
        let settings = format!("host=127.0.0.1 port={} user=bench dbname=postgres", self.port);
        let (client, connection) = tokio_postgres::connect(&settings, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }
}

impl Postgres {
    /// The path of one of its programs, if PostgreSQL is installed.
    pub(crate) fn program(name: &str) -> Result<PathBuf> {
        let path = Path::new(PROGRAMS).join(name);
        if !path.exists() {
            bail!("PostgreSQL 15 is not installed: apt-get install postgresql-15");
        }
        Ok(path)
    }

    /// Waits until the server says in its file that it takes connections. The usual way,
    /// `pg_ctl -w`, looks ten times a second, which is too seldom to time a start.
    fn wait(&self) -> Result<()> {
        let begun = Instant::now();
        let file = self.directory.join("data/postmaster.pid");
        while begun.elapsed() < START_MAX {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            if text.lines().any(|line| line.trim() == "ready") {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        bail!("PostgreSQL does not start; see {}", self.directory.join("log").display())
    }

    /// Ends it with everything written down.
    pub(crate) fn end(self) -> Result<()> {
        let data = self.directory.join("data");
        run("pg_ctl", &["-D", text(&data)?, "-m", "fast", "-w", "stop"])
    }

    /// The process that all others of the cluster descend from.
    pub(crate) fn pid(&self) -> Result<u32> {
        let file = self.directory.join("data/postmaster.pid");
        let text = std::fs::read_to_string(file)?;
        Ok(text.lines().next().context("an empty postmaster.pid")?.trim().parse()?)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let data = self.directory.join("data");
        if let Ok(data) = text(&data) {
            // A cluster that does not stop is left to its user; the bench is over.
            let _ = run("pg_ctl", &["-D", data, "-m", "immediate", "stop"]);
        }
    }
}

/// PostgreSQL refuses to run as root: then its own user runs it.
fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let path = format!("{PROGRAMS}/{program}");
    let mut command = match is_root() {
        true => {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--", &path]);
            command
        }
        false => Command::new(&path),
    };
    let status = command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let status = status.with_context(|| path.clone())?;
    anyhow::ensure!(status.success(), "{path} {} ended with {status}", arguments.join(" "));
    Ok(())
}

fn give_away(directory: &Path) -> Result<()> {
    if is_root() {
        let status = Command::new("chown").arg("postgres").arg(directory).status()?;
        anyhow::ensure!(status.success(), "{} could not be given to postgres", directory.display());
    }
    Ok(())
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self")
        .is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is no text")
}

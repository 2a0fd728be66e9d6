//! The systems that a user would pick instead, installed and started.
//!
//! PostgreSQL comes from the system's package. The two open emulators are installed once, in fixed
//! versions so that runs can be compared, into `${XDG_CACHE_HOME:-~/.cache}/partita/peers`. A peer
//! that cannot be installed or started is absent, with the reason; nothing is assumed about it.
//!
//! Both emulators keep documents in memory, and both are told to serve plain HTTP on connections
//! that are kept, as Partita and PostgreSQL do.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::results::PARTITA;
use crate::client::{Connection, Template};
use crate::postgres::Postgres;
use crate::server::Server;
use crate::system::{Host, System};

/// Another build of Partita, usually an older one.
pub(crate) const BEFORE: &str = "before";
pub(crate) const POSTGRES: &str = "postgres";
pub(crate) const VERCEL: &str = "vercel";
pub(crate) const COSMIUM: &str = "cosmium";
/// In the order in which they are shown.
pub(crate) const ALL: [&str; 5] = [PARTITA, BEFORE, POSTGRES, VERCEL, COSMIUM];

const VERCEL_PACKAGE: &str = "@vercel/cosmosdb-server@1.0.1";
const VERCEL_MAIN: &str = "require('@vercel/cosmosdb-server')\
    .createHttpServer({ keepAlive: true }).listen(+process.argv[1], '127.0.0.1')";
const COSMIUM_MODULE: &str = "github.com/pikami/cosmium";
const COSMIUM_VERSION: &str = "v0.1.20";

/// A server that does not answer for so long after its start has not started.
const START_MAX: Duration = Duration::from_secs(30);
/// Between two attempts to reach a server that starts.
const RETRY: Duration = Duration::from_millis(1);

/// How a system is started, and what it is.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    /// Its version, and how durable it is.
    pub(crate) description: String,
    program: PathBuf,
}

/// Installs what is missing.
pub(crate) fn install(name: &'static str, binary: &Path) -> Result<Peer> {
    let (program, description) = match name {
        PARTITA | BEFORE => {
            let version = said(Command::new(binary).arg("--version"))
                .context("build it with cargo build --release")?;
            (binary.to_path_buf(), format!("{version}, durable"))
        }
        POSTGRES => {
            let version = said(Command::new(Postgres::program("postgres")?).arg("--version"))?;
            (PathBuf::new(), format!("{version}, jsonb with GIN, durable"))
        }
        VERCEL => (install_vercel()?, format!("{VERCEL_PACKAGE}, in memory")),
        COSMIUM => (install_cosmium()?, format!("{COSMIUM_MODULE} {COSMIUM_VERSION}, in memory")),
        _ => bail!("unknown; there are {}", ALL.join(", ")),
    };
    Ok(Peer { name, description, program })
}

impl Peer {
    /// Starts it on this directory and waits until it answers.
    pub(crate) async fn start(&self, directory: &Path) -> Result<System> {
        let data = directory.join(self.name);
        let host = match self.name {
            PARTITA | BEFORE => Host::Rest(Server::partita_with(&self.program, &data, &ARGUMENTS)?),
            POSTGRES => Host::Postgres(Postgres::start(&data)?),
            VERCEL => {
                let address = free_address()?;
                let mut command = Command::new("node");
                let port = address.port().to_string();
                command.current_dir(&self.program).args(["-e", VERCEL_MAIN, &port]);
                Host::Rest(answering(Server::other(&mut command, address)?).await?)
            }
            _ => {
                let address = free_address()?;
                let mut command = Command::new(&self.program);
                let port = address.port().to_string();
                command.args(["-Host", "127.0.0.1", "-Port", &port, "-DisableTls"]);
                command.args(["-LogLevel", "silent"]);
                Host::Rest(answering(Server::other(&mut command, address)?).await?)
            }
        };
        Ok(System::new(self.name, host))
    }

    /// Whether documents can be loaded in batches, all or nothing.
    pub(crate) fn takes_batches(&self) -> bool {
        matches!(self.name, PARTITA | BEFORE | POSTGRES)
    }
}

/// As much memory for data as PostgreSQL's shared buffers; what it can do is measured, not what it
/// may.
const ARGUMENTS: [&str; 4] = ["--cache-mb", "4096", "--throughput", "off"];

fn free_address() -> Result<SocketAddr> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Waits until a server answers a request.
async fn answering(mut server: Server) -> Result<Server> {
    let begun = Instant::now();
    let list = Template::new("GET", "/dbs", "dbs", "", "")?.bytes("");
    while begun.elapsed() < START_MAX {
        if let Ok(mut connection) = Connection::open(server.address).await
            && connection.call(&list).await.is_ok()
        {
            return Ok(server);
        }
        ensure!(server.is_alive(), "it ended as soon as it was started");
        tokio::time::sleep(RETRY).await;
    }
    bail!("no answer {} s after its start", START_MAX.as_secs())
}

/// The directory in which the package is installed.
fn install_vercel() -> Result<PathBuf> {
    let directory = cache("vercel")?;
    if !directory.join("node_modules/@vercel/cosmosdb-server").exists() {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--no-save", "--prefix", "."]);
        must(npm.arg(VERCEL_PACKAGE).current_dir(&directory))?;
    }
    said(Command::new("node").arg("--version"))?;
    Ok(directory)
}

/// The program.
fn install_cosmium() -> Result<PathBuf> {
    let directory = cache("cosmium")?;
    let program = directory.join(format!("cosmium-{COSMIUM_VERSION}"));
    if !program.exists() {
        // A module of our own that needs theirs: only this version is asked for, not a list of all.
        let module =
            format!("module peer\n\ngo 1.21\n\nrequire {COSMIUM_MODULE} {COSMIUM_VERSION}\n");
        std::fs::write(directory.join("go.mod"), module)?;
        let mut go = Command::new("go");
        go.args(["build", "-mod=mod", "-o"]).arg(&program);
        must(go.arg(format!("{COSMIUM_MODULE}/cmd/server")).current_dir(&directory))?;
    }
    Ok(program)
}

fn cache(name: &str) -> Result<PathBuf> {
    let base = match std::env::var_os("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(std::env::var_os("HOME").context("no HOME")?).join(".cache"),
    };
    let directory = base.join("partita/peers").join(name);
    std::fs::create_dir_all(&directory)?;
    Ok(directory)
}

/// Runs a command to its end; its last words are the reason if it fails.
fn must(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| program.clone())?;
    let words = String::from_utf8_lossy(&output.stderr);
    let last = words.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no reason");
    ensure!(output.status.success(), "{program}: {}", last.trim());
    Ok(())
}

/// The first line that a command prints.
fn said(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| program.clone())?;
    ensure!(output.status.success(), "{program}: {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned())
}

//! Systems that documents can be stored in, behind one set of actions.
//!
//! An [`Action`] says what shall happen in words that every system understands. A [`Space`] (a
//! container, a table) turns it into what goes over the wire, a [`Session`] (a connection) sends
//! that and waits for the answer. So the same workload runs on all of them, and preparing can be
//! kept out of what is timed.

pub(crate) mod rest;
pub(crate) mod sql;

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, bail};

use crate::data::{self, Document, PER_KEY};
use crate::postgres::Postgres;
use crate::process;
use crate::questions::Asked;
use crate::seen::Seen;
use crate::server::Server;

/// Throughput that gives a container eight partitions.
const EIGHT_PARTITIONS: u32 = 48_000;
const LOADERS: usize = 16;

/// Something to do.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Read {
        key: String,
        id: String,
    },
    Create(Document),
    Upsert(Document),
    Ask(Asked),
    /// All or nothing, under one partition key.
    Batch(Vec<Document>),
    /// Each for itself, under any partition keys.
    Bulk(Vec<Document>),
    /// Created by code that runs in the server.
    Procedure(Vec<Document>),
}

impl Action {
    pub(crate) fn read(document: Document) -> Action {
        Action::Read { key: document.key, id: document.id }
    }
}

/// An action in one system's words, ready to be sent.
pub(crate) enum Prepared {
    Requests(Vec<Vec<u8>>),
    Batches(Vec<Vec<u8>>),
    Query(rest::Query),
    Statement(sql::Statement),
}

/// Reads in one system's words, to be sent before the first of them is answered.
pub(crate) enum Together {
    Requests(rest::Flight),
    Statements(Vec<sql::Statement>),
}

/// Where documents are: a container or a table.
pub(crate) enum Space {
    Rest(rest::Container),
    Sql(sql::Table),
}

impl Space {
    pub(crate) fn prepare(&self, action: &Action) -> Result<Prepared> {
        match self {
            Space::Rest(container) => container.prepare(action),
            Space::Sql(table) => table.prepare(action),
        }
    }

    /// The same for several reads at once.
    pub(crate) fn prepare_together(&self, actions: &[Action]) -> Result<Together> {
        let mut together = match self {
            Space::Rest(_) => Together::Requests(rest::Flight::default()),
            Space::Sql(_) => Together::Statements(Vec::new()),
        };
        for action in actions {
            match (&mut together, self.prepare(action)?) {
                (Together::Requests(flight), Prepared::Requests(requests)) => {
                    requests.iter().for_each(|request| flight.add(request));
                }
                (Together::Statements(all), Prepared::Statement(one)) => all.push(one),
                _ => bail!("only single requests can be sent together"),
            }
        }
        Ok(together)
    }
}

/// One client's connection.
pub(crate) enum Session {
    Rest(rest::Client),
    Sql(sql::Client),
}

impl Session {
    /// Sends it and waits until it is done.
    pub(crate) async fn perform(&mut self, prepared: &Prepared) -> Result<()> {
        match (self, prepared) {
            (Session::Rest(client), Prepared::Requests(requests)) => client.send(requests).await,
            (Session::Rest(client), Prepared::Batches(requests)) => {
                client.send_batches(requests).await
            }
            (Session::Rest(client), Prepared::Query(query)) => client.ask(query, None).await,
            (Session::Sql(client), Prepared::Statement(statement)) => {
                client.run(statement).await.map(drop)
            }
            _ => bail!("prepared for another system"),
        }
    }

    /// Sends all of it, and notes when each answer comes.
    pub(crate) async fn perform_together(&mut self, together: &Together, seen: &mut Seen) {
        match (self, together) {
            (Session::Rest(client), Together::Requests(flight)) => {
                client.send_together(flight, seen).await;
            }
            (Session::Sql(client), Together::Statements(statements)) => {
                client.run_together(statements, seen).await;
            }
            _ => seen.failed(1, || "prepared for another system".to_owned()),
        }
    }

    /// The ids of documents that are read together, in the order of their answers.
    pub(crate) async fn ids(&mut self, together: &Together) -> Result<Vec<String>> {
        match (self, together) {
            (Session::Rest(client), Together::Requests(flight)) => client.ids(flight).await,
            (Session::Sql(client), Together::Statements(all)) => client.ids(all).await,
            _ => bail!("prepared for another system"),
        }
    }

    /// The rows of a question, as what identifies them, in order.
    pub(crate) async fn rows(&mut self, prepared: &Prepared) -> Result<Vec<String>> {
        let mut rows = Vec::new();
        match (self, prepared) {
            (Session::Rest(client), Prepared::Query(query)) => {
                client.ask(query, Some(&mut rows)).await?;
            }
            (Session::Sql(client), Prepared::Statement(statement)) => {
                for row in client.run(statement).await? {
                    rows.push(sql::identity(&row)?);
                }
            }
            _ => bail!("not a question for this system"),
        }
        rows.sort();
        Ok(rows)
    }
}

/// A document's id; of anything else, what it says, with sums rounded as additions may be in any
/// order.
fn identity(row: &partita_model::Value) -> String {
    if let Some(id) = row.get("id").and_then(|id| id.as_str()) {
        return id.to_owned();
    }
    let total = row.get("total").and_then(|total| total.as_f64());
    match (row.get("category").and_then(|name| name.as_str()), total) {
        (Some(category), Some(total)) => format!("{category} {total:.3}"),
        _ => row.as_str().map_or_else(|| row.to_string(), str::to_owned),
    }
}

/// The process behind a system.
pub(crate) enum Host {
    /// Speaks the protocol of the service.
    Rest(Server),
    Postgres(Postgres),
}

/// A running system.
pub(crate) struct System {
    pub(crate) name: &'static str,
    pub(crate) host: Host,
    /// Numbers of documents that were made while measuring.
    pub(crate) made: Arc<AtomicU64>,
}

impl System {
    pub(crate) fn new(name: &'static str, host: Host) -> System {
        System { name, host, made: Arc::new(AtomicU64::new(0)) }
    }

    pub(crate) fn pid(&self) -> Result<u32> {
        match &self.host {
            Host::Rest(server) => Ok(server.pid()),
            Host::Postgres(postgres) => postgres.pid(),
        }
    }

    /// Ends it in good order, so that it has nothing to repair when it is started again.
    pub(crate) fn end(self) -> Result<()> {
        match self.host {
            Host::Rest(server) => server.end(),
            Host::Postgres(postgres) => postgres.end(),
        }
    }

    /// Processor time of all its processes.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        process::cpu_seconds(self.pid()?)
    }

    pub(crate) async fn session(&self) -> Result<Session> {
        Ok(match &self.host {
            Host::Rest(server) => Session::Rest(rest::Client::open(server.address).await?),
            Host::Postgres(postgres) => Session::Sql(sql::Client::new(postgres.connect().await?)),
        })
    }

    pub(crate) async fn sessions(&self, count: usize) -> Result<Vec<Session>> {
        let mut sessions = Vec::with_capacity(count);
        for _ in 0..count {
            sessions.push(self.session().await?);
        }
        Ok(sessions)
    }

    /// Makes the database that all spaces are in.
    pub(crate) async fn make_database(&self) -> Result<()> {
        match &self.host {
            Host::Rest(server) => crate::client::make_database(server.address).await,
            Host::Postgres(_) => Ok(()),
        }
    }

    /// Makes an empty space; a container has eight partitions where there are partitions.
    pub(crate) async fn make_space(&self, name: &str) -> Result<()> {
        match &self.host {
            Host::Rest(server) => {
                crate::client::make_named(server.address, name, EIGHT_PARTITIONS).await
            }
            Host::Postgres(postgres) => sql::make_table(&postgres.connect().await?, name).await,
        }
    }

    /// Signatures last for minutes: a space is asked for when it is needed.
    pub(crate) async fn space(&self, name: &str) -> Result<Space> {
        Ok(match &self.host {
            Host::Rest(server) => Space::Rest(rest::Container::open(server.address, name).await?),
            Host::Postgres(_) => Space::Sql(sql::Table::new(name)),
        })
    }

    /// Lets the system index what has been loaded, where that is a step of its own.
    pub(crate) async fn index(&self, name: &str) -> Result<()> {
        match &self.host {
            Host::Rest(_) => Ok(()),
            Host::Postgres(postgres) => sql::index(&postgres.connect().await?, name).await,
        }
    }

    /// The same for a space that is only written to: every property, and nothing for queries.
    pub(crate) async fn index_properties(&self, name: &str) -> Result<()> {
        match &self.host {
            Host::Rest(_) => Ok(()),
            Host::Postgres(postgres) => {
                sql::index_properties(&postgres.connect().await?, name).await
            }
        }
    }

    /// Bytes on disk: of a table with its indexes, or of everything in a server's directory, both
    /// without journals.
    pub(crate) async fn bytes(&self, name: &str, directory: &Path) -> Result<f64> {
        match &self.host {
            Host::Rest(_) => Ok(bytes_under(directory, &|name| !is_journal(name))? as f64),
            Host::Postgres(postgres) => sql::bytes(&postgres.connect().await?, name).await,
        }
    }

    /// What the system has on disk to recover from: it is used again and again, and how much there
    /// is of it does not depend on the documents.
    pub(crate) async fn journal_bytes(&self, directory: &Path) -> Result<f64> {
        match &self.host {
            Host::Rest(_) => Ok(bytes_under(directory, &is_journal)? as f64),
            Host::Postgres(postgres) => sql::journal_bytes(&postgres.connect().await?).await,
        }
    }

    /// Stores the procedure that creates documents; a system without procedures refuses.
    pub(crate) async fn make_procedure(&self, name: &str) -> Result<()> {
        match &self.host {
            Host::Rest(server) => rest::make_procedure(server.address, name).await,
            Host::Postgres(_) => Ok(()),
        }
    }

    /// Fills a space with the documents up to this number, a hundred of one partition key at a time
    /// if the system takes batches.
    pub(crate) async fn fill(&self, name: &str, documents: u64, in_batches: bool) -> Result<()> {
        let space = Arc::new(self.space(name).await?);
        let next = Arc::new(AtomicU64::new(0));
        let groups = documents.div_ceil(PER_KEY as u64);
        let mut loaders = Vec::new();
        for mut session in self.sessions(LOADERS).await? {
            let (space, next) = (Arc::clone(&space), Arc::clone(&next));
            loaders.push(tokio::spawn(async move {
                loop {
                    let group = next.fetch_add(1, Ordering::Relaxed);
                    if group >= groups {
                        return anyhow::Ok(());
                    }
                    let first = group * PER_KEY as u64;
                    let last = (first + PER_KEY as u64).min(documents);
                    let all: Vec<Document> = (first..last).map(data::document).collect();
                    match in_batches {
                        true => session.perform(&space.prepare(&Action::Batch(all))?).await?,
                        false => {
                            for document in all {
                                session.perform(&space.prepare(&Action::Create(document))?).await?;
                            }
                        }
                    }
                }
            }));
        }
        for loader in loaders {
            loader.await??;
        }
        Ok(())
    }
}

/// The bytes of files with such names.
fn bytes_under(directory: &Path, counts: &dyn Fn(&str) -> bool) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        // The engine may have removed the file in the meantime.
        let Ok(meta) = entry.metadata() else { continue };
        if meta.is_dir() {
            bytes += bytes_under(&entry.path(), counts)?;
        } else if counts(&entry.file_name().to_string_lossy()) {
            // Blocks, as a file may be longer than what is in it.
            bytes += meta.blocks() * 512;
        }
    }
    Ok(bytes)
}

fn is_journal(name: &str) -> bool {
    name.ends_with(".jnl")
}

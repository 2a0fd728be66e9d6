//! PostgreSQL: a table of `jsonb` with a GIN index, over its own protocol with prepared statements.
//!
//! Statements that are begun before others have ended go over the connection in one piece, and are
//! answered in order: the protocol's own pipelining, as `tokio-postgres` has it.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::Instant;

use anyhow::{Context, Result};
use partita_model::Value;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::{Action, Prepared};
use crate::data::Document;
use crate::seen::Seen;

/// A table.
pub(crate) struct Table {
    name: String,
}

/// A statement with its values.
pub(crate) struct Statement {
    text: String,
    values: Vec<Parameter>,
}

enum Parameter {
    Text(String),
    Texts(Vec<String>),
}

impl Parameter {
    fn as_sql(&self) -> &(dyn ToSql + Sync) {
        match self {
            Parameter::Text(text) => text,
            Parameter::Texts(texts) => texts,
        }
    }
}

impl Table {
    pub(crate) fn new(name: &str) -> Table {
        Table { name: table_name(name) }
    }

    pub(super) fn prepare(&self, action: &Action) -> Result<Prepared> {
        let name = &self.name;
        let insert = format!("INSERT INTO {name} VALUES ($1, $2, ($3::text)::jsonb)");
        let (text, values) = match action {
            Action::Read { key, id } => (
                format!("SELECT doc::text FROM {name} WHERE pk = $1 AND id = $2"),
                vec![Parameter::Text(key.clone()), Parameter::Text(id.clone())],
            ),
            Action::Create(document) => (insert, one(document)),
            Action::Upsert(document) => {
                let update = "ON CONFLICT (pk, id) DO UPDATE SET doc = excluded.doc";
                (format!("{insert} {update}"), one(document))
            }
            Action::Ask(asked) => (asked.sql(name), Vec::new()),
            Action::Batch(documents) | Action::Bulk(documents) => (
                format!(
                    "INSERT INTO {name} SELECT pk, id, doc::jsonb \
                     FROM unnest($1::text[], $2::text[], $3::text[]) AS new (pk, id, doc)"
                ),
                many(documents),
            ),
            Action::Procedure(documents) => {
                (format!("SELECT {name}_create($1, $2::text[])"), procedure(documents))
            }
        };
        Ok(Prepared::Statement(Statement { text, values }))
    }
}

/// A name that is never a word of the language.
fn table_name(name: &str) -> String {
    format!("docs_{name}")
}

fn one(document: &Document) -> Vec<Parameter> {
    let Document { key, id, text } = document.clone();
    vec![Parameter::Text(key), Parameter::Text(id), Parameter::Text(text)]
}

fn many(documents: &[Document]) -> Vec<Parameter> {
    let texts = |part: fn(&Document) -> &String| {
        Parameter::Texts(documents.iter().map(|document| part(document).clone()).collect())
    };
    vec![
        texts(|document| &document.key),
        texts(|document| &document.id),
        texts(|document| &document.text),
    ]
}

fn procedure(documents: &[Document]) -> Vec<Parameter> {
    let key = documents.first().map_or_else(String::new, |document| document.key.clone());
    let texts = documents.iter().map(|document| document.text.clone()).collect();
    vec![Parameter::Text(key), Parameter::Texts(texts)]
}

/// Makes a table with a GIN index, and the procedure that creates documents in it.
pub(super) async fn make_table(client: &tokio_postgres::Client, name: &str) -> Result<()> {
    let name = table_name(name);
    let definition = format!(
        "CREATE TABLE {name} (pk text, id text, doc jsonb, PRIMARY KEY (pk, id));
         CREATE FUNCTION {name}_create(key text, documents text[]) RETURNS void AS $$
         DECLARE document jsonb;
         BEGIN
             FOREACH document IN ARRAY documents LOOP
                 INSERT INTO {name} VALUES (key, document->>'id', document);
             END LOOP;
         END $$ LANGUAGE plpgsql"
    );
    Ok(client.batch_execute(&definition).await?)
}

/// An index for everything that queries compare or sort by.
pub(super) async fn index(client: &tokio_postgres::Client, name: &str) -> Result<()> {
    let name = table_name(name);
    let indexes = format!(
        "CREATE INDEX ON {name} USING gin (doc jsonb_path_ops);
         CREATE INDEX ON {name} (((doc->>'at')::float8));
         CREATE INDEX ON {name} ((doc->>'category'));
         CREATE INDEX ON {name} ((doc->>'city'));
         CREATE INDEX ON {name} ((doc->>'device'))"
    );
    client.batch_execute(&indexes).await?;
    Ok(client.batch_execute(&format!("VACUUM ANALYZE {name}")).await?)
}

/// The index that every property is in, and no other.
pub(super) async fn index_properties(client: &tokio_postgres::Client, name: &str) -> Result<()> {
    let name = table_name(name);
    let index = format!("CREATE INDEX ON {name} USING gin (doc jsonb_path_ops)");
    Ok(client.batch_execute(&index).await?)
}

/// Bytes on disk of a table with its indexes.
pub(crate) async fn bytes(client: &tokio_postgres::Client, name: &str) -> Result<f64> {
    let name = table_name(name);
    let size = format!("SELECT pg_total_relation_size('{name}')::text");
    Ok(client.query_one(&size, &[]).await?.try_get::<_, &str>(0)?.parse()?)
}

pub(crate) async fn journal_bytes(client: &tokio_postgres::Client) -> Result<f64> {
    let size = "SELECT COALESCE(SUM(size), 0)::text FROM pg_ls_waldir()";
    Ok(client.query_one(size, &[]).await?.try_get::<_, &str>(0)?.parse()?)
}

/// A connection, and the statements that it has prepared.
pub(crate) struct Client {
    client: tokio_postgres::Client,
    prepared: HashMap<String, tokio_postgres::Statement>,
}

impl Client {
    pub(super) fn new(client: tokio_postgres::Client) -> Client {
        Client { client, prepared: HashMap::new() }
    }

    pub(super) async fn run(&mut self, statement: &Statement) -> Result<Vec<Row>> {
        let prepared = self.prepared(statement).await?;
        Ok(query(&self.client, &prepared, statement).await?)
    }

    /// All of them are sent before the first is answered; an answer is timed when it is whole.
    pub(super) async fn run_together(&mut self, statements: &[Statement], seen: &mut Seen) {
        let prepared = match self.prepare_all(statements).await {
            Ok(prepared) => prepared,
            Err(error) => return seen.failed(statements.len() as u64, || format!("{error:#}")),
        };
        let sent = Instant::now();
        let each = |ended: Ended| match ended {
            Ok(_) => seen.answered(sent.elapsed()),
            Err(error) => seen.failed(1, || format!("{error:#}")),
        };
        together(&self.client, &prepared, statements, each).await;
    }

    pub(super) async fn ids(&mut self, statements: &[Statement]) -> Result<Vec<String>> {
        let prepared = self.prepare_all(statements).await?;
        let mut ids = Vec::new();
        let each = |ended: Ended| {
            let id = ended
                .map_err(anyhow::Error::from)
                .and_then(|rows| identity(rows.first().context("a document is not there")?));
            ids.push(id);
        };
        together(&self.client, &prepared, statements, each).await;
        ids.into_iter().collect()
    }

    async fn prepare_all(
        &mut self,
        statements: &[Statement],
    ) -> Result<Vec<tokio_postgres::Statement>> {
        let mut prepared = Vec::with_capacity(statements.len());
        for statement in statements {
            prepared.push(self.prepared(statement).await?);
        }
        Ok(prepared)
    }

    async fn prepared(&mut self, statement: &Statement) -> Result<tokio_postgres::Statement> {
        let text = &statement.text;
        if let Some(prepared) = self.prepared.get(text) {
            return Ok(prepared.clone());
        }
        let prepared = self.client.prepare(text).await?;
        self.prepared.insert(text.clone(), prepared.clone());
        Ok(prepared)
    }
}

/// How a statement ended.
type Ended = Result<Vec<Row>, tokio_postgres::Error>;

async fn query(
    client: &tokio_postgres::Client,
    prepared: &tokio_postgres::Statement,
    statement: &Statement,
) -> Ended {
    let values: Vec<&(dyn ToSql + Sync)> = statement.values.iter().map(Parameter::as_sql).collect();
    client.query(prepared, &values).await
}

/// Lets statements run without waiting in between, and tells of each when it has ended. They end in
/// the order in which they were sent.
async fn together(
    client: &tokio_postgres::Client,
    prepared: &[tokio_postgres::Statement],
    statements: &[Statement],
    mut tell: impl FnMut(Ended),
) {
    let all = prepared.iter().zip(statements);
    let query = |(prepared, statement)| Box::pin(query(client, prepared, statement));
    let mut running: Vec<_> = all.map(query).collect();
    // One is sent when it is polled for the first time; an answer could be there at once.
    let mut early: Vec<Option<Ended>> = Vec::with_capacity(running.len());
    poll_fn(|cx| {
        early.extend(running.iter_mut().map(|query| match query.as_mut().poll(cx) {
            Poll::Ready(ended) => Some(ended),
            Poll::Pending => None,
        }));
        Poll::Ready(())
    })
    .await;
    for (query, ended) in running.into_iter().zip(early) {
        tell(match ended {
            Some(ended) => ended,
            None => query.await,
        });
    }
}

pub(super) fn identity(row: &Row) -> Result<String> {
    let text: &str = row.try_get(0)?;
    let value = Value::parse(text.as_bytes());
    Ok(value.map_or_else(|_| text.to_owned(), |value| super::identity(&value)))
}

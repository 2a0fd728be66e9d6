//! PostgreSQL: a table of `jsonb` with a GIN index, over its own protocol with prepared statements.

use std::collections::HashMap;

use anyhow::Result;
use partita_model::Value;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::{Action, Prepared};
use crate::data::Document;

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
        let Statement { text, values } = statement;
        let prepared = match self.prepared.get(text) {
            Some(prepared) => prepared.clone(),
            None => {
                let prepared = self.client.prepare(text).await?;
                self.prepared.insert(text.clone(), prepared.clone());
                prepared
            }
        };
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(Parameter::as_sql).collect();
        Ok(self.client.query(&prepared, &values).await?)
    }
}

pub(super) fn identity(row: &Row) -> Result<String> {
    let text: &str = row.try_get(0)?;
    let value = Value::parse(text.as_bytes());
    Ok(value.map_or_else(|_| text.to_owned(), |value| super::identity(&value)))
}

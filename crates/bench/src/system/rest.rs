//! Systems that speak the REST protocol of the service: Partita, and the emulators.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use partita_model::{Epk, EpkRange, PartitionKeyDefinition, PartitionKeyHeader, Value};

use super::{Action, Prepared};
use crate::answer::Answer;
use crate::client::{Connection, JSON, Template};
use crate::data::Document;
use crate::seen::Seen;

/// A procedure that creates what it is given, one after the other.
const PROCEDURE: &str = "function (documents) { \
    var at = 0; \
    function next() { \
        if (at === documents.length) { __.response.setBody(at); return; } \
        var accepted = __.createDocument(__.getSelfLink(), documents[at++], function (error) { \
            if (error) throw error; \
            next(); \
        }); \
        if (!accepted) throw new Error('no time left'); \
    } \
    next(); }";

/// Headers of a question: all partitions, all rows, merged by the server.
pub(crate) const QUERY: &str = "content-type: application/query+json\r\nx-ms-documentdb-isquery: True\r\n\
                     x-ms-documentdb-query-enablecrosspartition: True\r\n\
                     x-ms-max-item-count: -1\r\nx-partita-query-serving: global\r\n";
const UPSERT: &str = "content-type: application/json\r\nx-ms-documentdb-is-upsert: true\r\n";
const BATCH: &str = "content-type: application/json\r\nx-ms-cosmos-is-batch-request: True\r\n\
                     x-ms-cosmos-batch-atomic: True\r\nprefer: return=minimal\r\n";
const BULK: &str = "content-type: application/json\r\nx-ms-cosmos-is-batch-request: True\r\n\
                    x-ms-cosmos-batch-atomic: False\r\n\
                    x-ms-cosmos-batch-continue-on-error: True\r\nprefer: return=minimal\r\n";

/// What the service takes in one batch.
const OPERATIONS_MAX: usize = 100;

/// Signed requests to a container, and its partitions as they were.
pub(crate) struct Container {
    link: String,
    create: Template,
    upsert: Template,
    query: Template,
    batch: Template,
    bulk: Template,
    procedure: Template,
    ranges: Vec<(String, EpkRange)>,
    definition: PartitionKeyDefinition,
}

/// A question that may be answered in several pages.
pub(crate) struct Query {
    template: Template,
    body: String,
}

/// Requests that are sent with one write.
#[derive(Default)]
pub(crate) struct Flight {
    bytes: Vec<u8>,
    requests: usize,
}

impl Flight {
    pub(super) fn add(&mut self, request: &[u8]) {
        self.bytes.extend_from_slice(request);
        self.requests += 1;
    }
}

impl Container {
    pub(crate) async fn open(address: SocketAddr, name: &str) -> Result<Container> {
        let link = format!("dbs/bench/colls/{name}");
        let path = format!("/{link}/docs");
        let post = |headers: &str| Template::new("POST", &path, "docs", &link, headers);
        let procedure = format!("{link}/sprocs/create");
        let procedure =
            Template::new("POST", &format!("/{procedure}"), "sprocs", &procedure, JSON)?;
        let definition = r#"{"paths":["/pk"],"kind":"Hash","version":2}"#;
        let definition = Value::parse(definition.as_bytes()).map_err(anyhow::Error::msg)?;
        Ok(Container {
            create: post(JSON)?,
            upsert: post(UPSERT)?,
            query: post(QUERY)?,
            batch: post(BATCH)?,
            bulk: post(BULK)?,
            procedure,
            ranges: ranges(address, &link).await?,
            definition: PartitionKeyDefinition::parse(&definition).map_err(anyhow::Error::msg)?,
            link,
        })
    }

    pub(super) fn prepare(&self, action: &Action) -> Result<Prepared> {
        let requests = match action {
            Action::Read { key, id } => {
                let link = format!("{}/docs/{id}", self.link);
                let read = Template::new("GET", &format!("/{link}"), "docs", &link, "")?;
                vec![read.bytes_for_key(key, "")]
            }
            Action::Create(document) => vec![one(&self.create, document)],
            Action::Upsert(document) => vec![one(&self.upsert, document)],
            Action::Ask(asked) => {
                let body = format!(r#"{{"query":"{}"}}"#, asked.ours.replace('"', "\\\""));
                return Ok(Prepared::Query(Query { template: self.query.clone(), body }));
            }
            Action::Batch(documents) => {
                let operation = |document: &Document| {
                    format!(r#"{{"operationType":"Create","resourceBody":{}}}"#, document.text)
                };
                let body = array(documents, operation);
                let request = self.batch.bytes_for_key(key_of(documents)?, &body);
                return Ok(Prepared::Batches(vec![request]));
            }
            Action::Bulk(documents) => return Ok(Prepared::Batches(self.bulk(documents)?)),
            Action::Procedure(documents) => {
                let body = format!("[{}]", array(documents, |document| document.text.clone()));
                vec![self.procedure.bytes_for_key(key_of(documents)?, &body)]
            }
        };
        Ok(Prepared::Requests(requests))
    }

    /// A request for each partition with the documents that belong there, as SDKs do it.
    fn bulk(&self, documents: &[Document]) -> Result<Vec<Vec<u8>>> {
        let mut sorted: Vec<Vec<&Document>> = self.ranges.iter().map(|_| Vec::new()).collect();
        for document in documents {
            let epk = self.epk(&document.key)?;
            let at = self.ranges.iter().position(|(_, range)| range.contains(&epk));
            let at = at.filter(|_| self.ranges.len() > 1).unwrap_or(0);
            sorted.get_mut(at).context("a container without partitions")?.push(document);
        }
        let parts = self.ranges.iter().zip(sorted).filter(|(_, part)| !part.is_empty());
        let requests = |((id, _), part): (&(String, EpkRange), Vec<&Document>)| {
            let operation = |document: &&Document| {
                format!(
                    r#"{{"operationType":"Create","partitionKey":"[\"{}\"]","resourceBody":{}}}"#,
                    document.key, document.text
                )
            };
            let request = |some: &[&Document]| {
                let template = self.bulk.with_header("x-ms-documentdb-partitionkeyrangeid", id);
                template.bytes(&array(some, operation))
            };
            part.chunks(OPERATIONS_MAX).map(request).collect::<Vec<_>>()
        };
        Ok(parts.flat_map(requests).collect())
    }

    fn epk(&self, key: &str) -> Result<Epk> {
        let header = PartitionKeyHeader::parse(&format!(r#"["{key}"]"#));
        let key = self.definition.resolve(&header.map_err(anyhow::Error::msg)?);
        Ok(self.definition.epk(&key.map_err(anyhow::Error::msg)?))
    }
}

fn one(template: &Template, document: &Document) -> Vec<u8> {
    template.bytes_for_key(&document.key, &document.text)
}

fn key_of(documents: &[Document]) -> Result<&str> {
    Ok(&documents.first().context("a batch of nothing")?.key)
}

fn array<T>(elements: &[T], text: impl Fn(&T) -> String) -> String {
    format!("[{}]", elements.iter().map(text).collect::<Vec<_>>().join(","))
}

/// The container's partitions: their ids and what they hold. A server that does not tell has one.
async fn ranges(address: SocketAddr, link: &str) -> Result<Vec<(String, EpkRange)>> {
    let request = Template::new("GET", &format!("/{link}/pkranges"), "pkranges", link, "")?;
    let mut connection = Connection::open(address).await?;
    let answer = connection.call(&request.bytes("")).await?;
    let told = if answer.is_success() { read_ranges(&answer.body()) } else { None };
    Ok(told.unwrap_or_else(|| vec![("0".to_owned(), EpkRange::all())]))
}

fn read_ranges(body: &[u8]) -> Option<Vec<(String, EpkRange)>> {
    let value = Value::parse(body).ok()?;
    let range = |range: &Value| {
        let text = |name: &str| range.get(name).and_then(|text| text.as_str());
        let end = |name: &str| text(name).and_then(Epk::parse_hex);
        let range = EpkRange::new(end("minInclusive")?, end("maxExclusive")?);
        Some((text("id")?.to_owned(), range))
    };
    value.get("PartitionKeyRanges")?.as_array()?.iter().map(range).collect()
}

/// Stores the procedure in a container.
pub(crate) async fn make_procedure(address: SocketAddr, name: &str) -> Result<()> {
    let link = format!("dbs/bench/colls/{name}");
    let template = Template::new("POST", &format!("/{link}/sprocs"), "sprocs", &link, JSON)?;
    let body = format!(r#"{{"id":"create","body":"{PROCEDURE}"}}"#);
    Connection::open(address).await?.must(&template.bytes(&body)).await?;
    Ok(())
}

/// A connection.
pub(crate) struct Client(Connection);

impl Client {
    pub(crate) async fn open(address: SocketAddr) -> Result<Client> {
        Ok(Client(Connection::open(address).await?))
    }

    pub(super) async fn send(&mut self, requests: &[Vec<u8>]) -> Result<()> {
        for request in requests {
            let answer = self.0.call(request).await?;
            if !answer.is_success() {
                bail!("{}", refusal(answer.status(), &answer.body()));
            }
        }
        Ok(())
    }

    /// The same for requests that do not wait for each other; an answer is timed when it is whole.
    pub(super) async fn send_together(&mut self, flight: &Flight, seen: &mut Seen) {
        let expected = seen.operations() + flight.requests as u64;
        let sent = Instant::now();
        let each = |answer: &Answer<'_>| match answer.is_success() {
            true => seen.answered(sent.elapsed()),
            false => seen.failed(1, || refusal(answer.status(), &answer.body())),
        };
        let ended = self.0.call_together(&flight.bytes, flight.requests, each).await;
        if let Err(error) = ended {
            let left = expected.saturating_sub(seen.operations()).max(1);
            seen.failed(left, || format!("{error:#}"));
        }
    }

    pub(super) async fn ids(&mut self, flight: &Flight) -> Result<Vec<String>> {
        let mut ids = Vec::new();
        let each = |answer: &Answer<'_>| {
            let document = Value::parse(&answer.body()).ok().filter(|_| answer.is_success());
            ids.push(document.map_or_else(
                || refusal(answer.status(), &answer.body()),
                |document| super::identity(&document),
            ));
        };
        self.0.call_together(&flight.bytes, flight.requests, each).await?;
        Ok(ids)
    }

    /// The same for batches, which may be answered with success and hold failures.
    pub(super) async fn send_batches(&mut self, requests: &[Vec<u8>]) -> Result<()> {
        for request in requests {
            let answer = self.0.call(request).await?;
            if !answer.is_success() {
                bail!("{}", refusal(answer.status(), &answer.body()));
            }
            if let Some(status) = failure_within(&answer.body()) {
                bail!("{status} within a batch");
            }
        }
        Ok(())
    }

    /// Asks page after page; answers are looked into only if somebody wants to see rows, as that is
    /// work of the client.
    pub(super) async fn ask(
        &mut self,
        query: &Query,
        mut wanted: Option<&mut Vec<String>>,
    ) -> Result<()> {
        let mut template = query.template.clone();
        loop {
            let answer = self.0.call(&template.bytes(&query.body)).await?;
            if !answer.is_success() {
                bail!("{}", refusal(answer.status(), &answer.body()));
            }
            if let Some(wanted) = &mut wanted {
                let value = Value::parse(&answer.body()).map_err(anyhow::Error::msg)?;
                let rows = value.get("Documents").and_then(|rows| rows.as_array());
                let rows = rows.context("an answer without rows")?;
                wanted.extend(rows.iter().map(super::identity));
            }
            match answer.header("x-ms-continuation").filter(|token| !token.is_empty()) {
                Some(token) => template = query.template.with_header("x-ms-continuation", token),
                None => return Ok(()),
            }
        }
    }
}

/// The status and the beginning of what the server said.
fn refusal(status: &str, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let words: Vec<&str> = text.split_whitespace().collect();
    let said: String = words.join(" ").chars().take(120).collect();
    format!("{status} {said}")
}

/// The status of the first operation of a batch that failed.
fn failure_within(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let mut codes = text.split("\"statusCode\":").skip(1).map(str::trim_start);
    let code = codes.find(|code| !code.starts_with('2'))?;
    Some(code.chars().take(3).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_inside_a_batch_is_found() {
        let body = br#"[{"statusCode":201},{"statusCode": 409,"x":1}]"#;
        assert_eq!(failure_within(body).as_deref(), Some("409"));
        assert_eq!(failure_within(br#"[{"statusCode":201},{"statusCode":200}]"#), None);
        assert_eq!(failure_within(br#"{"id":"x"}"#), None);
    }
}

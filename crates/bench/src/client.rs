//! The load: connections that send a prepared request and wait for its answer, again and again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use partita_gateway::auth::{Key, Signed, string_to_sign};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The key of the emulators, which a server on loopback accepts by default.
const KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

/// A request as bytes. The body may differ from one sending to the next.
#[derive(Clone)]
pub(crate) struct Template {
    head: String,
}

impl Template {
    /// A signed request. The signature covers verb, link and date, so it can be sent many times.
    pub(crate) fn new(
        verb: &str,
        path: &str,
        kind: &str,
        link: &str,
        headers: &str,
    ) -> Result<Template> {
        let date = httpdate::fmt_http_date(SystemTime::now());
        let signed =
            Signed { verb, resource_type: kind, links: &[link], date: &date, http_date: "" };
        let key = Key::parse(KEY).map_err(|error| anyhow::anyhow!("{error}"))?;
        let signature = key.sign(string_to_sign(&signed, link).as_bytes());
        let token = format!("type=master&ver=1.0&sig={signature}");
        let token: String = token.bytes().map(|b| format!("%{b:02X}")).collect();
        let head = format!(
            "{verb} {path} HTTP/1.1\r\nhost: localhost\r\nx-ms-version: 2020-07-15\r\n\
             x-ms-date: {date}\r\nauthorization: {token}\r\n{headers}"
        );
        Ok(Template { head })
    }

    pub(crate) fn bytes(&self, body: &str) -> Vec<u8> {
        format!("{}content-length: {}\r\n\r\n{body}", self.head, body.len()).into_bytes()
    }

    /// The same with the header that names the item's partition key.
    pub(crate) fn bytes_for_key(&self, key: &str, body: &str) -> Vec<u8> {
        let head = format!("{}x-ms-documentdb-partitionkey: [\"{key}\"]\r\n", self.head);
        Template { head }.bytes(body)
    }
}

/// A kept-alive connection.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Connection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, buffer: Vec::with_capacity(16 << 10) })
    }

    /// Sends a request and reads the whole response.
    pub(crate) async fn call(&mut self, request: &[u8]) -> Result<&[u8]> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                bail!("the server closed the connection");
            }
            if let Some(length) = whole(&self.buffer)
                && self.buffer.len() >= length
            {
                return Ok(&self.buffer);
            }
        }
    }

    /// The same, and the answer must be a success.
    pub(crate) async fn must(&mut self, request: &[u8]) -> Result<Vec<u8>> {
        let answer = self.call(request).await?;
        if !is_success(answer) {
            bail!("{}", String::from_utf8_lossy(answer));
        }
        Ok(answer.to_vec())
    }
}

/// The length of the response that begins here, if its headers are complete.
fn whole(buffer: &[u8]) -> Option<usize> {
    let end = buffer.windows(4).position(|w| w == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(buffer.get(..end)?).ok()?;
    let length = head.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    Some(end + length.unwrap_or(0))
}

fn is_success(answer: &[u8]) -> bool {
    answer.starts_with(b"HTTP/1.1 2")
}

/// Makes the n-th request of a connection.
pub(crate) type MakeRequest = Arc<dyn Fn(usize, u64) -> Vec<u8> + Send + Sync>;

/// What a load achieved.
pub(crate) struct Rate {
    pub(crate) per_second: f64,
    pub(crate) answered: usize,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

/// Calls as fast as the answers come, over this many connections.
pub(crate) async fn load(
    address: SocketAddr,
    connections: usize,
    length: Duration,
    request: MakeRequest,
) -> Result<Rate> {
    let stop = Arc::new(AtomicBool::new(false));
    let done = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::new();
    let start = Instant::now();
    for connection in 0..connections {
        let (stop, done, request) = (Arc::clone(&stop), Arc::clone(&done), Arc::clone(&request));
        tasks.push(tokio::spawn(async move {
            let mut channel = Connection::open(address).await?;
            let mut latencies = Vec::new();
            let mut n = 0;
            while !stop.load(Ordering::Relaxed) {
                let bytes = request(connection, n);
                let sent = Instant::now();
                let answer = channel.call(&bytes).await?;
                if !is_success(answer) {
                    bail!("{}", String::from_utf8_lossy(answer));
                }
                latencies.push(sent.elapsed().as_secs_f64() * 1e3);
                done.fetch_add(1, Ordering::Relaxed);
                n += 1;
            }
            Ok(latencies)
        }));
    }
    tokio::time::sleep(length).await;
    let counted = done.load(Ordering::Relaxed);
    let elapsed = start.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await??);
    }
    latencies.sort_by(f64::total_cmp);
    let at = |share: f64| latencies.get((latencies.len() as f64 * share) as usize).copied();
    Ok(Rate {
        per_second: counted as f64 / elapsed,
        answered: latencies.len(),
        p50_ms: at(0.5).context("no request was answered")?,
        p99_ms: at(0.99).context("no request was answered")?,
    })
}

/// Makes a database and a container with this throughput, partitioned by `/pk`.
pub(crate) async fn make_container(address: SocketAddr, throughput: u32) -> Result<()> {
    let mut connection = Connection::open(address).await?;
    let json = "content-type: application/json\r\n";
    let database = Template::new("POST", "/dbs", "dbs", "", json)?;
    connection.must(&database.bytes(r#"{"id":"bench"}"#)).await?;
    let headers = format!("{json}x-ms-offer-throughput: {throughput}\r\n");
    let container = Template::new("POST", "/dbs/bench/colls", "colls", "dbs/bench", &headers)?;
    let body = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
    connection.must(&container.bytes(body)).await?;
    Ok(())
}

/// A document of about 1 KB with 15 properties.
pub(crate) fn document(id: &str) -> String {
    document_for(id, id)
}

/// The same under another partition key than its id.
pub(crate) fn document_for(id: &str, key: &str) -> String {
    let filler = "x".repeat(55);
    let fields: String = (0..10).map(|n| format!(r#","field{n}":"{n}{filler}""#)).collect();
    format!(r#"{{"id":"{id}","pk":"{key}","count":42,"price":12.5,"active":true{fields}}}"#)
}

//! The load: connections that send a prepared request and wait for its answer, again and again.
//!
//! Requests are signed once and sent as bytes, so that the client's own work is small and the same
//! for every server. Any server that speaks the protocol can be asked: answers may come in chunks,
//! and a connection that the server closes after an answer is opened anew for the next request.
//!
//! Several requests may be sent at once, before the first of them is answered (pipelining). Then
//! one write carries all of them, and one read as many answers as have come.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use partita_gateway::auth::{Key, Signed, string_to_sign};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::answer::{self, Answer, Extent};

/// The key of the emulators, which a server on loopback accepts by default.
pub(crate) const KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

/// The header of a body that is a document, or several.
pub(crate) const JSON: &str = "content-type: application/json\r\n";

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
        let token = escaped(&token);
        let head = format!(
            "{verb} {path} HTTP/1.1\r\nhost: localhost\r\nx-ms-version: 2020-07-15\r\n\
             x-ms-date: {date}\r\nauthorization: {token}\r\n{headers}"
        );
        Ok(Template { head })
    }

    pub(crate) fn bytes(&self, body: &str) -> Vec<u8> {
        format!("{}content-length: {}\r\n\r\n{body}", self.head, body.len()).into_bytes()
    }

    /// The same with one more header.
    pub(crate) fn with_header(&self, name: &str, value: &str) -> Template {
        Template { head: format!("{}{name}: {value}\r\n", self.head) }
    }

    /// The bytes with the header that names the item's partition key.
    pub(crate) fn bytes_for_key(&self, key: &str, body: &str) -> Vec<u8> {
        self.with_header("x-ms-documentdb-partitionkey", &format!("[\"{key}\"]")).bytes(body)
    }
}

/// As the authorization header wants it.
fn escaped(token: &str) -> String {
    let mut escaped = String::with_capacity(token.len() + 16);
    for character in token.chars() {
        match character {
            '=' => escaped.push_str("%3D"),
            '&' => escaped.push_str("%26"),
            '+' => escaped.push_str("%2B"),
            '/' => escaped.push_str("%2F"),
            _ => escaped.push(character),
        }
    }
    escaped
}

/// Room for what comes at once: some twenty answers to point reads.
const READ_BYTES: usize = 32 << 10;

/// A connection that is kept as long as the server keeps it.
pub(crate) struct Connection {
    address: SocketAddr,
    stream: TcpStream,
    buffer: Vec<u8>,
    closed: bool,
    /// It has carried a request before.
    is_used: bool,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Connection> {
        let stream = connect(address).await?;
        let buffer = Vec::with_capacity(READ_BYTES);
        Ok(Connection { address, stream, buffer, closed: false, is_used: false })
    }

    /// Sends a request and reads the whole response. A server may have closed a connection that was
    /// not used for a while: then it has not seen the request, and gets it on a new one.
    pub(crate) async fn call(&mut self, request: &[u8]) -> Result<Answer<'_>> {
        let may_be_stale = self.begin().await?;
        let mut answered = self.exchange(request).await;
        if answered.is_err() && may_be_stale && self.buffer.is_empty() {
            self.reopen().await?;
            answered = self.exchange(request).await;
        }
        let extent = answered?;
        (self.closed, self.is_used) = (extent.closes, true);
        Ok(Answer::new(&self.buffer, &extent))
    }

    /// Sends so many requests at once and hands over their answers, in order, as they come. Fails
    /// if there are fewer answers than requests, or more. The requests must be small enough for a
    /// socket to take all of them while nobody reads, or both sides could wait for each other.
    pub(crate) async fn call_together(
        &mut self,
        requests: &[u8],
        count: usize,
        mut each: impl FnMut(&Answer<'_>),
    ) -> Result<()> {
        let may_be_stale = self.begin().await?;
        let mut has_answered = false;
        let first = self.exchange_together(requests, count, |answer| {
            has_answered = true;
            each(answer);
        });
        let mut answered = first.await;
        if answered.is_err() && may_be_stale && !has_answered && self.buffer.is_empty() {
            self.reopen().await?;
            answered = self.exchange_together(requests, count, each).await;
        }
        (self.closed, self.is_used) = (answered?, true);
        Ok(())
    }

    /// Opens the connection if it is closed; else the server may have closed it in the meantime.
    async fn begin(&mut self) -> Result<bool> {
        let may_be_stale = !self.closed && self.is_used;
        if self.closed {
            self.reopen().await?;
        }
        // Until the answer is whole: whoever gives up in between must not read the rest of it.
        self.closed = true;
        Ok(may_be_stale)
    }

    async fn reopen(&mut self) -> Result<()> {
        self.stream = connect(self.address).await?;
        Ok(())
    }

    async fn exchange(&mut self, request: &[u8]) -> Result<Extent> {
        self.buffer.clear();
        self.stream.write_all(request).await?;
        loop {
            if !self.read().await? {
                bail!("the server closed the connection");
            }
            if let Some(extent) = answer::extent(&self.buffer)? {
                return Ok(extent);
            }
        }
    }

    /// Whether the server closes the connection after the last answer.
    async fn exchange_together(
        &mut self,
        requests: &[u8],
        count: usize,
        mut each: impl FnMut(&Answer<'_>),
    ) -> Result<bool> {
        self.buffer.clear();
        self.stream.write_all(requests).await?;
        let (mut answers, mut closes) = (0, false);
        while answers < count {
            if closes || !self.read().await? {
                bail!("the server closed the connection after {answers} of {count} answers");
            }
            let mut at = 0;
            while let Some(rest) = self.buffer.get(at..).filter(|rest| !rest.is_empty())
                && !closes
                && let Some(extent) = answer::extent(rest)?
            {
                ensure!(answers < count, "more than {count} answers to {count} requests");
                each(&Answer::new(rest, &extent));
                (at, answers, closes) = (at + extent.end, answers + 1, extent.closes);
            }
            self.buffer.drain(..at);
        }
        ensure!(self.buffer.is_empty(), "more than {count} answers to {count} requests");
        Ok(closes)
    }

    /// Reads what has come, and whether anything will.
    async fn read(&mut self) -> Result<bool> {
        self.buffer.reserve(READ_BYTES);
        Ok(self.stream.read_buf(&mut self.buffer).await? > 0)
    }

    /// The same, and the answer must be a success; then it is the answer's bytes.
    pub(crate) async fn must(&mut self, request: &[u8]) -> Result<Vec<u8>> {
        let answer = self.call(request).await?;
        if !answer.is_success() {
            bail!("{}", String::from_utf8_lossy(answer.bytes));
        }
        Ok(answer.bytes.to_vec())
    }
}

async fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Makes the n-th request of a connection.
pub(crate) type MakeRequest = Arc<dyn Fn(usize, u64) -> Vec<u8> + Send + Sync>;

/// What a load achieved.
pub(crate) struct Rate {
    pub(crate) per_second: f64,
    pub(crate) answered: usize,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// At the percentiles 50, 90, 99, 99.9 and 100.
    pub(crate) percentiles_ms: [f64; 5],
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
                if !answer.is_success() {
                    bail!("{}", String::from_utf8_lossy(answer.bytes));
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
    let percentiles_ms = percentiles(&mut latencies).context("no request was answered")?;
    let [p50_ms, _, p99_ms, ..] = percentiles_ms;
    let (per_second, answered) = (counted as f64 / elapsed, latencies.len());
    Ok(Rate { per_second, answered, p50_ms, p99_ms, percentiles_ms })
}

/// The parts of the latencies that are kept.
pub(crate) const PERCENTILES: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 100.0];

/// The latencies at [`PERCENTILES`], if there are any.
pub(crate) fn percentiles(latencies_ms: &mut [f64]) -> Option<[f64; 5]> {
    latencies_ms.sort_by(f64::total_cmp);
    let last = latencies_ms.len().checked_sub(1)?;
    let at = |percent: f64| {
        let index = (latencies_ms.len() as f64 * percent / 100.0) as usize;
        latencies_ms.get(index.min(last)).copied().unwrap_or_default()
    };
    Some(PERCENTILES.map(at))
}

/// Makes a database and a container with this throughput, partitioned by `/pk`.
pub(crate) async fn make_container(address: SocketAddr, throughput: u32) -> Result<()> {
    make_database(address).await?;
    make_named(address, "c", throughput).await
}

/// Makes the database that all containers are in.
pub(crate) async fn make_database(address: SocketAddr) -> Result<()> {
    let database = Template::new("POST", "/dbs", "dbs", "", JSON)?;
    let mut connection = Connection::open(address).await?;
    connection.must(&database.bytes(r#"{"id":"bench"}"#)).await?;
    Ok(())
}

/// Makes a container in it, partitioned by `/pk`.
pub(crate) async fn make_named(address: SocketAddr, name: &str, throughput: u32) -> Result<()> {
    let headers = format!("{JSON}x-ms-offer-throughput: {throughput}\r\n");
    let container = Template::new("POST", "/dbs/bench/colls", "colls", "dbs/bench", &headers)?;
    let body = format!(
        r#"{{"id":"{name}","partitionKey":{{"paths":["/pk"],"kind":"Hash","version":2}}}}"#
    );
    Connection::open(address).await?.must(&container.bytes(&body)).await?;
    Ok(())
}

/// A document of about 1 KB with 15 properties.
pub(crate) fn document(id: &str) -> String {
    document_for(id, id)
}

/// The same under another partition key than its id.
pub(crate) fn document_for(id: &str, key: &str) -> String {
    // The load shares the processors with the server: making it must cost little.
    static FIELDS: LazyLock<String> = LazyLock::new(|| {
        let filler = "x".repeat(55);
        (0..10).map(|n| format!(r#","field{n}":"{n}{filler}""#)).collect()
    });
    let fields = &*FIELDS;
    format!(r#"{{"id":"{id}","pk":"{key}","count":42,"price":12.5,"active":true{fields}}}"#)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

    #[tokio::test]
    async fn a_connection_that_the_server_closed_meanwhile_is_opened_anew() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 64];
                assert!(stream.read(&mut request).await.unwrap() > 0);
                stream.write_all(ANSWER).await.unwrap();
            }
        });
        let mut connection = Connection::open(address).await.unwrap();
        for _ in 0..2 {
            let answer = connection.call(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
            assert_eq!(&*answer.body(), b"ok");
        }
        server.await.unwrap();
        assert!(connection.call(b"GET / HTTP/1.1\r\n\r\n").await.is_err());
    }

    const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
                             1\r\no\r\n1\r\nk\r\n0\r\n\r\n";
    const CLOSING: &[u8] = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";

    /// A server that reads what came and answers with these pieces, each in a segment of its own,
    /// connection after connection.
    async fn server(connections: Vec<Vec<Vec<u8>>>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            for pieces in connections {
                let (mut stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                assert!(stream.read(&mut [0; 64]).await.unwrap() > 0);
                for piece in pieces {
                    stream.write_all(&piece).await.unwrap();
                    // The client runs on this thread, and reads before the next piece comes.
                    for _ in 0..4 {
                        tokio::task::yield_now().await;
                    }
                }
            }
        });
        address
    }

    /// The bodies of three requests' answers, and how it ended.
    async fn three(connection: &mut Connection) -> (Vec<String>, Result<(), String>) {
        let mut bodies = Vec::new();
        let each = |answer: &Answer<'_>| {
            bodies.push(String::from_utf8(answer.body().into_owned()).unwrap());
        };
        let ended = connection.call_together(b"three requests", 3, each).await;
        (bodies, ended.map_err(|error| error.to_string()))
    }

    #[tokio::test]
    async fn answers_to_requests_in_flight_may_be_split_anywhere() {
        let all = [ANSWER, CHUNKED, ANSWER].concat();
        for cut in 1..all.len() {
            let (one, two) = all.split_at(cut);
            let address = server(vec![vec![one.to_vec(), two.to_vec()]]).await;
            let mut connection = Connection::open(address).await.unwrap();
            let (bodies, ended) = three(&mut connection).await;
            assert_eq!((bodies.concat(), ended), ("okokok".to_owned(), Ok(())), "{cut}");
        }
    }

    #[tokio::test]
    async fn a_server_that_closes_in_the_middle_has_left_requests_without_an_answer() {
        for (sent, why) in [
            ([ANSWER, &ANSWER[..20]].concat(), "closed the connection after 1 of 3 answers"),
            ([ANSWER, CLOSING].concat(), "closed the connection after 2 of 3 answers"),
            ([ANSWER, b"oops\r\n"].concat(), "not a response: oops"),
            ([ANSWER, ANSWER, ANSWER, ANSWER].concat(), "more than 3 answers to 3 requests"),
        ] {
            let whole = vec![[ANSWER, ANSWER, CLOSING].concat()];
            let address = server(vec![vec![sent], whole.clone(), whole]).await;
            let mut connection = Connection::open(address).await.unwrap();
            let (bodies, ended) = three(&mut connection).await;
            assert!(ended.clone().unwrap_err().contains(why), "{ended:?}");
            assert!((1..=3).contains(&bodies.len()), "{bodies:?}");
            // The rest of that is not taken for an answer to what is asked next, and an answer that
            // ends the connection ends it.
            for _ in 0..2 {
                let (bodies, ended) = three(&mut connection).await;
                assert_eq!((bodies.concat(), ended), ("okokok".to_owned(), Ok(())));
            }
        }
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_latencies() {
        let mut latencies: Vec<f64> = (0..1_000).rev().map(f64::from).collect();
        assert_eq!(percentiles(&mut latencies), Some([500.0, 900.0, 990.0, 999.0, 999.0]));
        assert_eq!(percentiles(&mut [2.0]), Some([2.0; 5]));
        assert_eq!(percentiles(&mut []), None);
    }
}

//! A world to test in: a door, and a client that signs as SDKs do.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use partita_engine::{
    Database, EngineSettings, Maintenance, MaintenanceBudget, ThroughputMode, block_on,
};
use partita_executor::{Controls, Credentials, Executor, ExecutorSettings, Trust};
use partita_gateway::auth::{Key, Keys, Signed, string_to_sign};
use partita_gateway::{Delivery, Door, Head, Pool, Request, Response, Scheme, Shutdown, Telemetry};
use partita_model::{Consistency, FixedClock, SeededEntropy, ShiftedClock, Value};
use partita_nosql::{NoSqlDoor, NoSqlSettings};
use partita_script::{Limits, QuickJs};
use partita_storage::{MemoryStore, Store};

const DATE: &str = "Thu, 27 Apr 2017 00:51:12 GMT";
const NOW_MILLIS: u64 = 1_493_254_272_000;

pub(crate) const PRIMARY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
pub(crate) const READONLY: &str = "cmVhZG9ubHktcmVhZG9ubHktcmVhZG9ubHktcmVhZG8=";

/// Throughputs that give a container one partition, and five.
pub(crate) const PARTITIONS: [(&str, usize); 2] = [("400", 1), ("30000", 5)];

pub(crate) struct World {
    door: NoSqlDoor,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) clock: Arc<FixedClock>,
    pub(crate) credentials: Arc<Credentials>,
    store: Arc<dyn Store>,
    pub(crate) database: Arc<Database>,
}

/// What a world is made with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Build {
    Plain,
    Controlled,
    Scriptless,
    Strict,
}

/// A request in the making.
pub(crate) struct Ask<'w> {
    world: &'w World,
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
    key: Option<&'static str>,
    link: Option<(String, String)>,
    peer: IpAddr,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) delivery: Delivery,
}

/// Time stands still here: nobody would ever be admitted again.
fn unthrottled(default_consistency: Consistency) -> EngineSettings {
    let throughput = ThroughputMode::Off;
    EngineSettings { default_consistency, throughput, ..EngineSettings::default() }
}

fn pool() -> Pool {
    Pool::new(1, 16).unwrap()
}

impl World {
    pub(crate) fn new() -> World {
        World::with_consistency(Consistency::Session)
    }

    pub(crate) fn with_consistency(default_consistency: Consistency) -> World {
        World::on(Arc::new(MemoryStore::new()), 7, PRIMARY, unthrottled(default_consistency))
    }

    /// One with these settings.
    pub(crate) fn with_settings(settings: EngineSettings) -> World {
        World::on(Arc::new(MemoryStore::new()), 7, PRIMARY, settings)
    }

    /// One with a container, and so many processors for what takes long.
    pub(crate) fn with_processors(processors: usize, mut settings: EngineSettings) -> World {
        settings.throughput = ThroughputMode::Off;
        let store = Arc::new(MemoryStore::new());
        let pool = Pool::new(processors, 16).unwrap();
        let world = World::build((store, pool), 7, PRIMARY, settings, Build::Plain);
        world.make_container("400");
        world
    }

    /// Lets the background do all that there is to do.
    pub(crate) fn settle(&self) {
        let budget = MaintenanceBudget::default();
        while self.database.maintain(&budget).unwrap() != Maintenance::Idle {}
    }

    /// One in which time stands still until it is told to move, and throughput is what it is.
    pub(crate) fn throttled() -> World {
        let throughput = ThroughputMode::Enforced;
        let settings = EngineSettings { throughput, ..unthrottled(Consistency::Session) };
        World::on(Arc::new(MemoryStore::new()), 7, PRIMARY, settings)
    }

    /// What a restart leaves, with this primary key.
    pub(crate) fn restarted(self, key: &str) -> World {
        World::on(self.store, 8, key, unthrottled(Consistency::Session))
    }

    /// One that has nobody to run scripts.
    pub(crate) fn without_scripts() -> World {
        let store = Arc::new(MemoryStore::new());
        let settings = unthrottled(Consistency::Session);
        World::build((store, pool()), 7, PRIMARY, settings, Build::Scriptless)
    }

    /// One that refuses duplicate names, with a container.
    pub(crate) fn strict() -> World {
        let store = Arc::new(MemoryStore::new());
        let settings = unthrottled(Consistency::Session);
        let world = World::build((store, pool()), 7, PRIMARY, settings, Build::Strict);
        world.make_container("400");
        world
    }

    /// One with controls for tests.
    pub(crate) fn controlled() -> World {
        let settings = unthrottled(Consistency::Session);
        let store = Arc::new(MemoryStore::new());
        World::build((store, pool()), 7, PRIMARY, settings, Build::Controlled)
    }

    fn on(store: Arc<dyn Store>, seed: u64, key: &str, settings: EngineSettings) -> World {
        World::build((store, pool()), seed, key, settings, Build::Plain)
    }

    fn build(
        (store, pool): (Arc<dyn Store>, Pool),
        seed: u64,
        key: &str,
        mut settings: EngineSettings,
        build: Build,
    ) -> World {
        let fixed = Arc::new(FixedClock::new(NOW_MILLIS));
        let clock = Arc::new(ShiftedClock::new(Arc::clone(&fixed) as _));
        let entropy = Arc::new(SeededEntropy::new(seed));
        if build != Build::Scriptless && settings.scripts.runtime.is_none() {
            let (clock, entropy) = (Arc::clone(&clock) as _, Arc::clone(&entropy) as _);
            let runtime = QuickJs::new(Limits::default(), clock, entropy);
            settings.scripts.runtime = Some(Arc::new(runtime));
        }
        let default_consistency = settings.default_consistency;
        let own_store = Arc::clone(&store);
        let database =
            Database::open(store, Arc::clone(&clock) as _, Arc::clone(&entropy) as _, settings)
                .unwrap();
        let telemetry = Arc::new(Telemetry::new("test"));
        let keys = Keys {
            primary: Some(Key::parse(key).unwrap()),
            primary_readonly: Some(Key::parse(READONLY).unwrap()),
            ..Keys::default()
        };
        let credentials = Arc::new(Credentials::new(Trust::of_keys(keys)));
        let own = Arc::clone(&database);
        let executor = Executor::new(ExecutorSettings {
            database,
            pool,
            telemetry: Arc::clone(&telemetry),
            clock: Arc::clone(&clock) as _,
            entropy,
            credentials: Arc::clone(&credentials),
            clock_skew_seconds: 900,
            controls: (build == Build::Controlled).then(|| Arc::new(Controls::new(clock))),
            shutdown: Shutdown::new(),
        });
        let settings = NoSqlSettings {
            default_consistency,
            strict_json: build == Build::Strict,
            public_endpoint: None,
        };
        let door = NoSqlDoor::new(Arc::new(executor), settings);
        World { door, telemetry, clock: fixed, credentials, store: own_store, database: own }
    }

    pub(crate) fn set_public_endpoint(&mut self, endpoint: &str) {
        self.door.set_public_endpoint(endpoint);
    }

    /// A world with database `d` and container `c` (partition key `/pk`) of this throughput.
    pub(crate) fn with_container(throughput: &str) -> World {
        let world = World::new();
        world.make_container(throughput);
        world
    }

    pub(crate) fn make_container(&self, throughput: &str) {
        let world = self;
        world.post("/dbs", r#"{"id":"d"}"#).expect(201);
        world
            .post(
                "/dbs/d/colls",
                r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#,
            )
            .header("x-ms-offer-throughput", throughput)
            .expect(201);
    }

    pub(crate) fn ask(&self, method: Method, path: &str, body: impl Into<Bytes>) -> Ask<'_> {
        Ask {
            world: self,
            method,
            path: path.to_owned(),
            headers: HeaderMap::new(),
            body: body.into(),
            key: Some(PRIMARY),
            link: None,
            peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
        }
        .header("x-ms-version", "2020-07-15")
        .header("x-ms-date", DATE)
    }

    pub(crate) fn get(&self, path: &str) -> Ask<'_> {
        self.ask(Method::GET, path, "")
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Ask<'_> {
        self.ask(Method::POST, path, body.to_owned())
    }

    pub(crate) fn put(&self, path: &str, body: &str) -> Ask<'_> {
        self.ask(Method::PUT, path, body.to_owned())
    }

    pub(crate) fn patch(&self, path: &str, body: &str) -> Ask<'_> {
        self.ask(Method::PATCH, path, body.to_owned())
    }

    pub(crate) fn delete(&self, path: &str) -> Ask<'_> {
        self.ask(Method::DELETE, path, "")
    }

    pub(crate) fn door(&self) -> &NoSqlDoor {
        &self.door
    }
}

impl<'w> Ask<'w> {
    pub(crate) fn header(mut self, name: &str, value: &str) -> Ask<'w> {
        let name: HeaderName = name.parse().unwrap();
        self.headers.insert(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Ask<'w> {
        self.headers.remove(name);
        self
    }

    /// The partition key header.
    pub(crate) fn key(self, json: &str) -> Ask<'w> {
        self.header("x-ms-documentdb-partitionkey", json)
    }

    pub(crate) fn signed_by(mut self, key: &'static str) -> Ask<'w> {
        self.key = Some(key);
        self
    }

    /// Authorized by a resource token, escaped as SDKs do it.
    pub(crate) fn token(self, token: &str) -> Ask<'w> {
        let escape = |c: char| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' => c.to_string(),
            other => format!("%{:02X}", u32::from(other)),
        };
        let escaped: String = token.chars().map(escape).collect();
        self.unsigned().header("authorization", &escaped)
    }

    pub(crate) fn from(mut self, peer: &str) -> Ask<'w> {
        self.peer = peer.parse().unwrap();
        self
    }

    pub(crate) fn unsigned(mut self) -> Ask<'w> {
        self.key = None;
        self
    }

    /// Signs this type and link instead of the path's.
    pub(crate) fn signing(mut self, resource_type: &str, link: &str) -> Ask<'w> {
        self.link = Some((resource_type.to_owned(), link.to_owned()));
        self
    }

    pub(crate) fn send(self) -> Answer {
        let door = &self.world.door;
        Answer::of(block_on(door.handle(self.request()).response()))
    }

    /// The request as it arrives at the door.
    pub(crate) fn request(mut self) -> Request {
        if let Some(key) = self.key {
            let date = self.headers.get("x-ms-date").map_or("", |value| value.to_str().unwrap());
            let value = authorization(&self.method, &self.path, self.link.as_ref(), date, key);
            self = self.header("authorization", &value);
        }
        let address: SocketAddr = "127.0.0.1:8081".parse().unwrap();
        let peer = SocketAddr::new(self.peer, 50_000);
        #[allow(clippy::disallowed_methods, reason = "the gateway's requests carry their time")]
        let received = Instant::now();
        Request {
            method: self.method,
            head: Head::new(&self.path.parse().unwrap(), &self.headers),
            body: self.body,
            scheme: Scheme::Http,
            received,
            local: address,
            peer,
        }
    }

    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Answer {
        let what = format!("{} {}", self.method, self.path);
        let answer = self.send();
        assert_eq!(answer.status, status, "{what}: {}", answer.text());
        answer
    }

    /// Expects a failure whose message contains this text.
    #[track_caller]
    pub(crate) fn refused(self, status: u16, substatus: &str, text: &str) -> Answer {
        let answer = self.expect(status);
        assert_eq!(answer.header("x-ms-substatus"), Some(substatus), "{}", answer.text());
        let message = answer.member("message");
        assert!(message.starts_with("Message: {\""), "{message}");
        assert!(message.contains("\r\nActivityId: "), "{message}");
        assert!(message.contains(text), "'{text}' is not in: {message}");
        answer
    }
}

impl Answer {
    pub(crate) fn of(response: Response) -> Answer {
        let Response { status, headers, body, delivery, .. } = response;
        Answer { status: status.as_u16(), headers: headers.to_map(), body, delivery }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        Value::parse(&self.body).unwrap()
    }

    /// A string member of the body.
    #[track_caller]
    pub(crate) fn member(&self, name: &str) -> String {
        self.json().get(name).and_then(Value::as_str).unwrap().to_owned()
    }

    /// The elements of a feed, with its envelope checked.
    #[track_caller]
    pub(crate) fn feed(&self, kind: &str) -> Vec<Value> {
        let body = self.json();
        let rows = body.get(kind).and_then(Value::as_array).unwrap().to_vec();
        let count = i64::try_from(rows.len()).unwrap();
        assert_eq!(body.get("_count").and_then(Value::as_i64), Some(count));
        assert_eq!(self.header("x-ms-item-count"), Some(count.to_string().as_str()));
        assert!(body.get("_rid").and_then(Value::as_str).is_some());
        rows
    }
}

/// Signs a path in the way of the SDKs: pairs of kind and id, a single kind belongs to its parent.
fn authorization(
    method: &Method,
    path: &str,
    link: Option<&(String, String)>,
    date: &str,
    key: &str,
) -> String {
    let path = path.split('?').next().unwrap();
    let parts: Vec<String> =
        path.split('/').filter(|part| !part.is_empty()).map(percent_decoded).collect();
    let linked = parts.len() / 2 * 2;
    let kind = if parts.len() % 2 == 1 { parts.len() - 1 } else { parts.len().saturating_sub(2) };
    let own = (parts.get(kind).cloned().unwrap_or_default(), parts[..linked].join("/"));
    let (resource_type, link) = link.unwrap_or(&own);
    let signed = Signed { verb: method.as_str(), resource_type, links: &[], date, http_date: "" };
    let signature = Key::parse(key).unwrap().sign(string_to_sign(&signed, link).as_bytes());
    format!("type=master&ver=1.0&sig={signature}")
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((byte, tail)) = rest.split_first() {
        match (byte, tail) {
            (b'%', [high, low, tail @ ..]) => {
                let pair = [*high, *low];
                let digits = std::str::from_utf8(&pair).unwrap();
                bytes.push(u8::from_str_radix(digits, 16).unwrap_or(b'?'));
                rest = tail;
            }
            _ => {
                bytes.push(*byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

//! Signed requests to a real server, for what the program's own commands do not do.

use std::time::{SystemTime, UNIX_EPOCH};

use partita_gateway::auth::{Key, Signed, string_to_sign};

use crate::process::Process;

const KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

/// The account of a server with the well-known key.
pub(crate) struct Account {
    address: String,
    key: String,
}

impl Account {
    pub(crate) fn of(server: &Process) -> Account {
        Account::with_key(server, KEY)
    }

    /// The account of a server with this key.
    pub(crate) fn with_key(server: &Process, key: &str) -> Account {
        Account { address: server.address().to_owned(), key: key.trim().to_owned() }
    }

    /// Tries to make a database: the status.
    pub(crate) fn try_database(&self, name: &str) -> u16 {
        self.post("dbs", "", "dbs", &format!(r#"{{"id":"{name}"}}"#), &[]).0
    }

    pub(crate) fn create_database(&self, name: &str) {
        let body = format!(r#"{{"id":"{name}"}}"#);
        assert_eq!(self.post("dbs", "", "dbs", &body, &[]).0, 201);
    }

    /// `paths` is a JSON array.
    pub(crate) fn create_container(&self, database: &str, name: &str, paths: &str, ru: u32) {
        let ru = ru.to_string();
        self.make_container(database, name, paths, &[("x-ms-offer-throughput", ru.as_str())]);
    }

    /// The same, of which nobody says what throughput it has.
    pub(crate) fn create_container_without_throughput(
        &self,
        database: &str,
        name: &str,
        paths: &str,
    ) {
        self.make_container(database, name, paths, &[]);
    }

    fn make_container(&self, database: &str, name: &str, paths: &str, headers: &[(&str, &str)]) {
        let kind = if paths.contains(',') { "MultiHash" } else { "Hash" };
        let key = format!(r#"{{"paths":{paths},"kind":"{kind}","version":2}}"#);
        let body = format!(r#"{{"id":"{name}","partitionKey":{key}}}"#);
        let link = format!("dbs/{database}");
        let (status, text) = self.post("colls", &link, &format!("{link}/colls"), &body, headers);
        assert_eq!(status, 201, "{text}");
    }

    /// All offers of the account.
    pub(crate) fn offers(&self) -> Vec<serde_json::Value> {
        let (status, _, text) = self.get("offers", "", "offers", &[]);
        assert_eq!(status, 200, "{text}");
        let mut feed: serde_json::Value = serde_json::from_str(&text).unwrap();
        feed["Offers"].as_array_mut().map(std::mem::take).unwrap()
    }

    /// `key` is the partition key header.
    pub(crate) fn create_item(&self, database: &str, container: &str, body: &str, key: &str) {
        let (status, text) =
            self.post_item(database, container, body, &[("x-ms-documentdb-partitionkey", key)]);
        assert_eq!(status, 201, "{text}");
    }

    /// A POST to a container's items: status and body.
    pub(crate) fn post_item(
        &self,
        database: &str,
        container: &str,
        body: &str,
        headers: &[(&str, &str)],
    ) -> (u16, String) {
        let link = format!("dbs/{database}/colls/{container}");
        self.post("docs", &link, &format!("{link}/docs"), body, headers)
    }

    /// The metrics of a query under a partition key, each with its number.
    pub(crate) fn query_metrics(
        &self,
        database: &str,
        container: &str,
        text: &str,
        key: &str,
    ) -> Vec<(String, f64)> {
        let link = format!("dbs/{database}/colls/{container}");
        let (url, signed) = self.signed("POST", "docs", &link, &format!("{link}/docs"));
        let mut request = agent()
            .post(&url)
            .header("content-type", "application/query+json")
            .header("x-ms-documentdb-isquery", "True")
            .header("x-ms-documentdb-populatequerymetrics", "True")
            .header("x-ms-documentdb-partitionkey", key);
        for (name, value) in &signed {
            request = request.header(*name, value.as_str());
        }
        let body = serde_json::json!({ "query": text }).to_string();
        let response = request.send(&body).unwrap();
        assert_eq!(response.status().as_u16(), 200);
        let metrics = response.headers().get("x-ms-documentdb-query-metrics").unwrap();
        let pairs = metrics.to_str().unwrap().split(';').map(|pair| pair.split_once('=').unwrap());
        pairs.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect()
    }

    pub(crate) fn create_procedure(&self, database: &str, container: &str, id: &str, text: &str) {
        let link = format!("dbs/{database}/colls/{container}");
        let body = serde_json::json!({ "id": id, "body": text }).to_string();
        let (status, text) = self.post("sprocs", &link, &format!("{link}/sprocs"), &body, &[]);
        assert_eq!(status, 201, "{text}");
    }

    /// Runs a procedure with a JSON array of arguments: status and body.
    pub(crate) fn execute(
        &self,
        database: &str,
        container: &str,
        procedure: &str,
        arguments: &str,
        headers: &[(&str, &str)],
    ) -> (u16, String) {
        let link = format!("dbs/{database}/colls/{container}/sprocs/{procedure}");
        self.post("sprocs", &link, &link, arguments, headers)
    }

    /// Reads the change feed of a container from now on or from an ETag: status, ETag, body. It is
    /// that of the latest versions, unless the headers say otherwise.
    pub(crate) fn changes(
        &self,
        database: &str,
        container: &str,
        headers: &[(&str, &str)],
    ) -> (u16, String, String) {
        let link = format!("dbs/{database}/colls/{container}");
        let incremental = [("a-im", "Incremental Feed")];
        let says_itself = headers.iter().any(|(name, _)| *name == "a-im");
        let kind = if says_itself { &[][..] } else { &incremental };
        self.get("docs", &link, &format!("{link}/docs"), &[kind, headers].concat())
    }

    /// All metrics: status and body.
    pub(crate) fn metrics(&self) -> (u16, String) {
        let (status, _, text) = self.get("_partita", "metrics", "metrics", &[]);
        (status, text)
    }

    /// A GET: status, ETag, body.
    fn get(
        &self,
        kind: &str,
        link: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> (u16, String, String) {
        let (url, signed) = self.signed("GET", kind, link, path);
        let mut request = agent().get(&url);
        for (name, value) in
            signed.iter().map(|(n, v)| (*n, v.as_str())).chain(headers.iter().copied())
        {
            request = request.header(name, value);
        }
        let mut response = request.call().unwrap();
        let etag = response.headers().get("etag").map(|etag| etag.to_str().unwrap().to_owned());
        let body = response.body_mut().read_to_string().unwrap();
        (response.status().as_u16(), etag.unwrap_or_default(), body)
    }

    /// The URL of a path, and the headers that open it.
    fn signed(
        &self,
        verb: &str,
        kind: &str,
        link: &str,
        path: &str,
    ) -> (String, [(&'static str, String); 3]) {
        #[allow(clippy::disallowed_methods, reason = "the server compares it with its own clock")]
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let date = httpdate::fmt_http_date(UNIX_EPOCH + now);
        let signed = Signed { verb, resource_type: kind, links: &[], date: &date, http_date: "" };
        let signature =
            Key::parse(&self.key).unwrap().sign(string_to_sign(&signed, link).as_bytes());
        let headers = [
            ("authorization", format!("type=master&ver=1.0&sig={signature}")),
            ("x-ms-date", date),
            ("x-ms-version", "2020-07-15".to_owned()),
        ];
        (format!("http://{}/{}", self.address, path.replace(' ', "%20")), headers)
    }

    /// A signed request as it goes over the wire.
    pub(crate) fn raw(
        &self,
        verb: &str,
        kind: &str,
        link: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Vec<u8> {
        let (_, signed) = self.signed(verb, kind, link, path);
        let mut text = format!("{verb} /{path} HTTP/1.1\r\nhost: {}\r\n", self.address);
        let signed = signed.iter().map(|(name, value)| (*name, value.as_str()));
        for (name, value) in signed.chain(headers.iter().copied()) {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
        text.into_bytes()
    }

    fn post(
        &self,
        kind: &str,
        link: &str,
        path: &str,
        body: &str,
        headers: &[(&str, &str)],
    ) -> (u16, String) {
        let (url, signed) = self.signed("POST", kind, link, path);
        let mut request = agent().post(&url);
        for (name, value) in
            signed.iter().map(|(n, v)| (*n, v.as_str())).chain(headers.iter().copied())
        {
            request = request.header(name, value);
        }
        let mut response = request.send(body).unwrap();
        (response.status().as_u16(), response.body_mut().read_to_string().unwrap())
    }
}

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder().http_status_as_error(false).build().into()
}

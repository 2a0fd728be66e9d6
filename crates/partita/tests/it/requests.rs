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
        let kind = if paths.contains(',') { "MultiHash" } else { "Hash" };
        let key = format!(r#"{{"paths":{paths},"kind":"{kind}","version":2}}"#);
        let body = format!(r#"{{"id":"{name}","partitionKey":{key}}}"#);
        let link = format!("dbs/{database}");
        let ru = ru.to_string();
        let headers = [("x-ms-offer-throughput", ru.as_str())];
        let (status, text) = self.post("colls", &link, &format!("{link}/colls"), &body, &headers);
        assert_eq!(status, 201, "{text}");
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

    /// Reads the change feed of a container from now on or from an ETag: status, ETag, body.
    pub(crate) fn changes(
        &self,
        database: &str,
        container: &str,
        headers: &[(&str, &str)],
    ) -> (u16, String, String) {
        let link = format!("dbs/{database}/colls/{container}");
        let (url, signed) = self.signed("GET", "docs", &link, &format!("{link}/docs"));
        let mut request = agent().get(&url).header("a-im", "Incremental Feed");
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

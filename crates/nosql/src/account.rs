//! `GET /`: the account, as SDKs read it before anything else.
//!
//! Clients send all further requests to the endpoints named here, so they are built from the
//! scheme, host and port that the client itself used: behind a port mapping or under another name
//! the server still is where the client found it. Where that is not so, the endpoint can be
//! configured.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use partita_gateway::{Head, Lines, Request, Scheme};
use partita_model::{Consistency, Object, Value};

use crate::headers;

/// The one region. The classic emulator's name for it, which tests of applications may know.
const LOCATION: &str = "South Central US";

/// The account's id where the host is no name. JavaScript clients of an account with this id stay
/// on the endpoint that they were given.
const LOCAL_ACCOUNT: &str = "localhost";

/// The limits of the query engine, for clients that plan queries themselves.
const QUERY_ENGINE: &str = concat!(
    r#"{"allowNewKeywords":true,"enableSpatialIndexing":true,"maxInExpressionItemsCount":16000,"#,
    r#""maxJoinsPerSqlQuery":10,"maxLogicalAndPerSqlQuery":2000,"maxLogicalOrPerSqlQuery":2000,"#,
    r#""maxQueryRequestTimeoutFraction":0.9,"maxSpatialQueryCells":12,"#,
    r#""maxSqlQueryInputLength":524288,"maxUdfRefPerSqlQuery":10,"#,
    r#""queryMaxInMemorySortDocumentCount":500,"spatialMaxGeometryPointCount":256,"#,
    r#""sqlAllowAggregateFunctions":true,"sqlAllowGroupByClause":true,"sqlAllowLike":true,"#,
    r#""sqlAllowNonFiniteNumbers":false,"sqlAllowScalarSubQuery":true,"sqlAllowSubQuery":true,"#,
    r#""sqlAllowTop":true,"sqlDisableFilterPlanOptimization":false,"#,
    r#""sqlDisableOptimizationFlags":0,"sqlDisableQueryILOptimization":false}"#,
);

/// Where clients find the account, in parts.
pub(crate) struct Endpoint<'a> {
    scheme: &'static str,
    /// Or the whole URL, if one was configured.
    host: Cow<'a, str>,
    end: &'static str,
}

impl<'a> Endpoint<'a> {
    /// Where this client came, unless an endpoint was configured.
    pub(crate) fn new(configured: Option<&'a str>, request: &'a Request) -> Endpoint<'a> {
        if let Some(url) = configured {
            return Endpoint { scheme: "", host: Cow::Borrowed(url), end: "" };
        }
        let scheme = match request.scheme {
            Scheme::Http => "http://",
            Scheme::Https => "https://",
        };
        let host = host(&request.head, request.local);
        Endpoint { scheme, host, end: "/" }
    }

    pub(crate) fn parts(&self) -> [&str; 3] {
        [self.scheme, &self.host, self.end]
    }
}

impl fmt::Display for Endpoint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts().into_iter().try_for_each(|part| f.write_str(part))
    }
}

/// Host and port as the client named them, or those of the socket for one that named none.
fn host(head: &Head, local: SocketAddr) -> Cow<'_, str> {
    match head.host() {
        Some(host) => Cow::Borrowed(host),
        None => Cow::Owned(local.to_string()),
    }
}

/// The account's document.
pub(crate) fn document(endpoint: &str, consistency: Consistency) -> String {
    let location = Object::new().with("name", LOCATION).with("databaseAccountEndpoint", endpoint);
    let locations = vec![Value::from(location)];
    let host = endpoint.split_once("://").map_or(endpoint, |(_, host)| host);
    let id = account_id(host.trim_end_matches('/'));
    let replicas = Object::new().with("minReplicaSetSize", 3i64).with("maxReplicasetSize", 4i64);
    let read_policy =
        Object::new().with("primaryReadCoefficient", 1i64).with("secondaryReadCoefficient", 1i64);
    let account = Object::new()
        .with("_self", "")
        .with("id", id)
        .with("_rid", format!("{id}.sql.cosmos.azure.com"))
        .with("media", "//media/")
        .with("addresses", "//addresses/")
        .with("_dbs", "//dbs/")
        .with("writableLocations", locations.clone())
        .with("readableLocations", locations)
        .with("enableMultipleWriteLocations", false)
        .with("continuousBackupEnabled", false)
        .with("enableNRegionSynchronousCommit", false)
        .with("enablePerPartitionFailoverBehavior", false)
        .with("disableCrossRegionalHedging", false)
        .with("userReplicationPolicy", replicas.clone().with("asyncReplication", false))
        .with("userConsistencyPolicy", consistency_policy(consistency))
        .with("systemReplicationPolicy", replicas)
        .with("readPolicy", read_policy)
        .with("queryEngineConfiguration", QUERY_ENGINE);
    Value::from(account).to_json()
}

/// What attachments could take and do take, in MB. There are none here, and old clients read both
/// with the account.
pub(crate) fn media_headers() -> Lines {
    let mut headers = Lines::new();
    headers.push(&headers::MEDIA_MB_MAX, "0");
    headers.push(&headers::MEDIA_MB, "0");
    headers
}

fn consistency_policy(consistency: Consistency) -> Object {
    let policy = Object::new().with("defaultConsistencyLevel", consistency.to_string());
    if consistency != Consistency::BoundedStaleness {
        return policy;
    }
    policy.with("maxStalenessPrefix", 100i64).with("maxIntervalInSeconds", 5i64)
}

/// The text before the first dot or colon.
fn account_id(host: &str) -> &str {
    let is_address = host.parse::<SocketAddr>().is_ok()
        || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    if is_address {
        return LOCAL_ACCOUNT;
    }
    match host.split(['.', ':']).next() {
        None | Some("") => LOCAL_ACCOUNT,
        Some(id) => id,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    #[test]
    fn the_account_is_where_the_client_found_it() {
        let text = document("https://localhost:8081/", Consistency::Session);
        let account = Value::parse(text.as_bytes()).unwrap();
        assert_eq!(account.get("id").and_then(Value::as_str), Some("localhost"));
        for list in ["writableLocations", "readableLocations"] {
            let first = account.get(list).and_then(Value::as_array).and_then(<[_]>::first).unwrap();
            let endpoint = first.get("databaseAccountEndpoint").and_then(Value::as_str);
            assert_eq!(endpoint, Some("https://localhost:8081/"));
        }
        let engine = account.get("queryEngineConfiguration").and_then(Value::as_str).unwrap();
        assert!(Value::parse(engine.as_bytes()).is_ok());
    }

    #[test]
    fn account_ids_come_from_the_host() {
        for (host, id) in [
            ("localhost", "localhost"),
            ("localhost:8081", "localhost"),
            ("mine.documents.example:443", "mine"),
            ("127.0.0.1:8081", "localhost"),
            ("[::1]:8081", "localhost"),
            ("[::1]", "localhost"),
            ("", "localhost"),
        ] {
            assert_eq!(account_id(host), id, "{host}");
        }
    }

    #[test]
    fn the_host_header_wins_over_the_socket() {
        let local: SocketAddr = "127.0.0.1:8081".parse().unwrap();
        let mut headers = HeaderMap::new();
        let head = |uri: &str, headers: &HeaderMap| Head::new(&uri.parse().unwrap(), headers);
        assert_eq!(host(&head("/", &headers), local), "127.0.0.1:8081");
        assert_eq!(host(&head("https://db.example:9/", &headers), local), "db.example:9");
        headers.insert(http::header::HOST, http::HeaderValue::from_static("a.example"));
        assert_eq!(host(&head("/", &headers), local), "a.example");
    }
}

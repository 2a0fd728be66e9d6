//! A URL taken apart.
//!
//! A password in a URL would end up in logs and lists of processes, and is refused.

use std::net::IpAddr;

use http::Uri;
use http::uri::Scheme;

/// A server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub host: String,
    pub port: u16,
    pub is_https: bool,
}

/// A resource on a server.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    pub endpoint: Endpoint,
    /// Path and query, encoded. They may be secret.
    pub path: String,
}

impl Url {
    /// Reads a URL. The error says how to write one, and does not repeat it.
    pub fn parse(text: &str) -> Result<Url, String> {
        let wrong = || "write http://HOST:PORT/PATH or https://HOST:PORT/PATH".to_owned();
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let is_https = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            _ => return Err(wrong()),
        };
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err("a URL with a user name or a password is not used".to_owned());
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = uri.port_u16().unwrap_or(if is_https { 443 } else { 80 });
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Url { endpoint: Endpoint { host, port, is_https }, path })
    }
}

/// Without the path, which may be a secret.
impl std::fmt::Debug for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.endpoint.url())
    }
}

impl Endpoint {
    /// Reads the URL of an account, which has no path.
    pub fn parse(text: &str) -> Result<Endpoint, String> {
        let wrong =
            "write http://HOST:PORT or https://HOST:PORT, for example http://localhost:8081";
        match Url::parse(text) {
            Ok(url) if url.path == "/" => Ok(url.endpoint),
            _ => Err(wrong.to_owned()),
        }
    }

    /// The `host` header of requests.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    pub fn url(&self) -> String {
        let scheme = if self.is_https { "https" } else { "http" };
        format!("{scheme}://{}", self.authority())
    }

    /// Is it on this machine?
    pub fn is_loopback(&self) -> bool {
        match self.host.parse::<IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => self.host.eq_ignore_ascii_case("localhost"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_and_how() {
        let parse = |text| Endpoint::parse(text).unwrap();
        let service = parse("https://account.documents.example:443/");
        assert_eq!((service.port, service.is_https), (443, true));
        assert_eq!(service.authority(), "account.documents.example:443");
        assert!(!service.is_loopback());
        assert_eq!(parse("http://h").port, 80);
        assert_eq!(parse("https://h").port, 443);
        let six = parse("http://[::1]:8081");
        assert_eq!((six.url().as_str(), six.is_loopback()), ("http://[::1]:8081", true));
        assert!(parse("http://LOCALHOST:1").is_loopback());
        let keys = Url::parse("https://login.example/tenant/keys?v=2").unwrap();
        assert_eq!(keys.path, "/tenant/keys?v=2");
        assert_eq!(format!("{keys:?}"), "https://login.example:443");
    }

    #[test]
    fn what_is_no_url_of_an_account_is_refused_with_an_example() {
        for text in ["", "localhost:8081", "ftp://h", "http://", "http://h/dbs", "http://h/?a=b"] {
            let refused = Endpoint::parse(text).unwrap_err();
            assert!(refused.contains("http://localhost:8081"), "{text}: {refused}");
        }
    }

    #[test]
    fn a_url_with_a_password_is_refused_and_not_repeated() {
        let refused = Url::parse("https://me:hunter2@h/hook").unwrap_err();
        assert!(refused.contains("password") && !refused.contains("hunter2"), "{refused}");
    }
}

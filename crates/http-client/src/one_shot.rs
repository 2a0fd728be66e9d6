//! One request on a connection of its own, for what is asked rarely.

use bytes::Bytes;
use http::{Method, StatusCode};
use http_body_util::Full;
use tokio::task::spawn_blocking;

use super::{Authorities, Connector, Limits, Url};

/// A URL that is asked rarely.
#[derive(Clone, Debug)]
pub struct OneShotRequest {
    pub url: Url,
    pub authorities: Authorities,
    /// The timeout holds for connection and response together.
    pub limits: Limits,
}

impl OneShotRequest {
    /// Fetches what is there.
    pub async fn get(&self) -> Result<Bytes, String> {
        self.run(Method::GET, Bytes::new()).await
    }

    /// Posts a JSON text.
    pub async fn post(&self, json: String) -> Result<(), String> {
        self.run(Method::POST, json.into()).await.map(drop)
    }

    async fn run(&self, method: Method, body: Bytes) -> Result<Bytes, String> {
        let timeout = self.limits.timeout;
        let late = |_| format!("there was no answer within {} seconds", timeout.as_secs());
        tokio::time::timeout(timeout, self.exchange(method, body)).await.map_err(late)?
    }

    /// Reading trusted certificates takes milliseconds, in which the runtime's thread could serve
    /// others.
    async fn connector(&self) -> Result<Connector, String> {
        let (endpoint, limits) = (self.url.endpoint.clone(), self.limits);
        let authorities = self.authorities.clone();
        let made = spawn_blocking(move || Connector::new(endpoint, &authorities, limits)).await;
        made.unwrap_or_else(|error| Err(error.to_string()))
    }

    async fn exchange(&self, method: Method, body: Bytes) -> Result<Bytes, String> {
        let request = http::Request::builder()
            .method(method)
            .uri(&self.url.path)
            .header("host", self.url.endpoint.authority())
            .header("user-agent", concat!("partita/", env!("CARGO_PKG_VERSION")))
            .header("accept", "application/json")
            .header("content-type", "application/json")
            .body(Full::new(body))
            .map_err(|error| error.to_string())?;
        let connector = self.connector().await?;
        let mut connection = connector.connect().await.map_err(|error| error.to_string())?;
        let response = connection.send(request).await.map_err(|error| error.to_string())?;
        match response.status() {
            status if status.is_success() => Ok(response.into_body()),
            status if status.is_redirection() => Err(redirected(status, &response)),
            status => Err(format!("it answers {}", status.as_u16())),
        }
    }
}

fn redirected(status: StatusCode, response: &http::Response<Bytes>) -> String {
    let location = response.headers().get("location").and_then(|value| value.to_str().ok());
    let target = location.and_then(|url| Url::parse(url).ok());
    let target = target.map_or("elsewhere".to_owned(), |url| format!("{url:?}"));
    format!(
        "it answers {} and redirects to {target}: redirects are not followed, so configure the final \
         URL",
        status.as_u16()
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Asks a server that answers so, or not at all.
    async fn ask(answer: Option<&'static str>, scheme: &str) -> Result<Bytes, String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            match answer {
                Some(answer) => {
                    drop(stream.read(&mut [0; 4096]).await);
                    drop(stream.write_all(answer.as_bytes()).await);
                }
                None => std::future::pending().await,
            }
        });
        let authority = rcgen::generate_simple_self_signed(vec!["x".to_owned()]).unwrap();
        let file = std::env::temp_dir().join(format!("partita-one-shot-{port}.pem"));
        std::fs::write(&file, authority.cert.pem()).unwrap();
        let authorities = Authorities::read("--ca-file", Some(Path::new(&file)));
        std::fs::remove_file(&file).unwrap();
        let timeout = Duration::from_secs(if answer.is_some() { 60 } else { 1 });
        let request = OneShotRequest {
            url: Url::parse(&format!("{scheme}://127.0.0.1:{port}/secret")).unwrap(),
            authorities: authorities.unwrap(),
            limits: Limits { timeout, response_bytes_max: 10 },
        };
        request.get().await
    }

    #[tokio::test]
    async fn an_answer_is_taken_if_it_is_one() {
        let fine = ask(Some("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n0123456789"), "http");
        assert_eq!(fine.await.unwrap(), "0123456789");
        for (answer, reason) in [
            ("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", "it answers 404"),
            ("HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n01234567890", "more than 10 bytes"),
            (
                "HTTP/1.1 302 Found\r\nlocation: https://there/secret\r\ncontent-length: 0\r\n\r\n",
                "302 and redirects to https://there:443: redirects are not followed",
            ),
            ("HTTP/1.1 307 Hm\r\nlocation: /secret\r\ncontent-length: 0\r\n\r\n", "to elsewhere"),
            ("nonsense\r\n\r\n", "invalid HTTP"),
        ] {
            let why = ask(Some(answer), "http").await.unwrap_err();
            assert!(why.contains(reason) && !why.contains("secret"), "{reason}: {why}");
        }
        let plain = ask(Some("HTTP/1.1 400 Bad Request\r\n\r\n"), "https").await.unwrap_err();
        assert!(plain.contains("does not speak TLS"), "{plain}");
    }

    #[tokio::test]
    async fn nobody_waits_for_ever() {
        for scheme in ["http", "https"] {
            let why = ask(None, scheme).await.unwrap_err();
            assert!(why.contains("within 1 seconds") || why.contains("more than 1"), "{why}");
        }
    }
}

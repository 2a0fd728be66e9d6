//! One request on a connection of its own, for what is asked now and then.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use http_body_util::Full;

use super::{Authorities, Dialer, Target};

/// Somewhere to ask now and then.
#[derive(Clone, Debug)]
pub(crate) struct Errand {
    pub(crate) target: Target,
    pub(crate) authorities: Authorities,
    /// How long all of it may take.
    pub(crate) timeout: Duration,
    /// How large an answer may be.
    pub(crate) bytes_max: usize,
}

impl Errand {
    /// Fetches what is there.
    pub(crate) async fn get(&self) -> Result<Bytes, String> {
        self.run(Method::GET, Bytes::new()).await
    }

    /// Posts a JSON text.
    pub(crate) async fn post(&self, json: String) -> Result<(), String> {
        self.run(Method::POST, json.into()).await.map(drop)
    }

    async fn run(&self, method: Method, body: Bytes) -> Result<Bytes, String> {
        let seconds = self.timeout.as_secs();
        let late = |_| format!("there was no answer within {seconds} seconds");
        tokio::time::timeout(self.timeout, self.ask(method, body)).await.map_err(late)?
    }

    async fn dialer(&self) -> Result<Dialer, String> {
        let (endpoint, timeout) = (self.target.endpoint.clone(), self.timeout);
        let authorities = self.authorities.clone();
        match endpoint.is_https {
            true => aside(move || Dialer::new(endpoint, &authorities, timeout)).await,
            false => Dialer::new(endpoint, &authorities, timeout),
        }
    }

    async fn ask(&self, method: Method, body: Bytes) -> Result<Bytes, String> {
        let request = http::Request::builder()
            .method(method)
            .uri(&self.target.path)
            .header("host", self.target.endpoint.authority())
            .header("user-agent", concat!("partita/", env!("CARGO_PKG_VERSION")))
            .header("accept", "application/json")
            .header("content-type", "application/json")
            .body(Full::new(body))
            .map_err(|error| error.to_string())?;
        let dialer = self.dialer().await?;
        let mut connection = dialer.connect().await.map_err(|error| error.to_string())?;
        let sent = connection.send(request, self.bytes_max).await;
        let answer = sent.map_err(|error| error.to_string())?;
        match answer.status() {
            status if status.is_success() => Ok(answer.into_body()),
            status if status.is_redirection() => Err(redirected(status, &answer)),
            status => Err(format!("it answers {}", status.as_u16())),
        }
    }
}

/// Reading trusted certificates takes milliseconds, which nobody else shall wait for.
async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(error.to_string()))
}

fn redirected(status: StatusCode, answer: &http::Response<Bytes>) -> String {
    let location = answer.headers().get("location").and_then(|value| value.to_str().ok());
    let there = location.and_then(|url| Target::parse(url).ok());
    let there = there.map_or("elsewhere".to_owned(), |there| format!("{there:?}"));
    format!(
        "it answers {} and points to {there}: redirects are not followed, write the URL where it \
         really is",
        status.as_u16()
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

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
        let file = std::env::temp_dir().join(format!("partita-errand-{port}.pem"));
        std::fs::write(&file, authority.cert.pem()).unwrap();
        let authorities = Authorities::read("--ca-file", Some(Path::new(&file)));
        std::fs::remove_file(&file).unwrap();
        let errand = Errand {
            target: Target::parse(&format!("{scheme}://127.0.0.1:{port}/secret")).unwrap(),
            authorities: authorities.unwrap(),
            timeout: Duration::from_secs(if answer.is_some() { 60 } else { 1 }),
            bytes_max: 10,
        };
        errand.get().await
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
                "302 and points to https://there:443: redirects are not followed",
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

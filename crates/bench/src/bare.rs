//! A hyper server without anything: every request gets the same response.

use std::path::Path;

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// Serves on a free port, which it prints.
pub(crate) async fn serve(response: &Path) -> Result<()> {
    let raw = std::fs::read(response).context("the response to serve")?;
    let (headers, body) = parse(&raw)?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (headers, body) = (headers.clone(), body.clone());
        tokio::spawn(async move {
            let service = service_fn(|_request| {
                let mut response = Response::new(Full::new(body.clone()));
                *response.headers_mut() = headers.clone();
                async { Ok::<_, std::convert::Infallible>(response) }
            });
            // A client that goes away is the normal end of a connection here.
            let _ = hyper::server::conn::http1::Builder::new()
                // Answers to requests that came together go out together.
                .pipeline_flush(true)
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// Takes a recorded response apart.
fn parse(raw: &[u8]) -> Result<(HeaderMap, Bytes)> {
    let end = raw.windows(4).position(|w| w == b"\r\n\r\n").context("no end of the headers")?;
    let head = std::str::from_utf8(&raw[..end])?;
    let mut headers = HeaderMap::new();
    for line in head.split("\r\n").skip(1) {
        let (name, value) = line.split_once(':').context("a header without a colon")?;
        headers.append(HeaderName::try_from(name)?, HeaderValue::try_from(value.trim())?);
    }
    Ok((headers, Bytes::copy_from_slice(&raw[end + 4..])))
}

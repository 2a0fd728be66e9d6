//! `partita trust`: how to trust the server's certificate, system by system.
//!
//! It only says so: what a machine trusts is its owner's to change, mostly as an administrator.

use std::io::{self, Write as _};

use crate::args::TrustArgs;
use crate::failure::Failure;

const GUIDE: &str = r#"The server's certificate is self-signed. To trust it, get it first (it holds no secret):

  curl -k URL_explorer/emulator.pem -o partita.pem

It stays the same over restarts: it is kept in the data directory (partita-data/tls/cert.pem), or with
--store memory in your cache directory (on Linux ~/.cache/partita/tls/cert.pem; each set of --tls-san
has a certificate of its own beside it). Then, for the system:

  Debian, Ubuntu   sudo cp partita.pem /usr/local/share/ca-certificates/partita.crt
                   sudo update-ca-certificates
  Fedora, RHEL     sudo cp partita.pem /etc/pki/ca-trust/source/anchors/
                   sudo update-ca-trust
  Windows          certutil -user -addstore Root partita.pem
  macOS            security add-trusted-cert -p ssl -k ~/Library/Keychains/login.keychain-db partita.pem

Or for one program:

  Java             keytool -importcert -noprompt -alias partita -file partita.pem \
                     -keystore partita.p12 -storetype PKCS12 -storepass changeit
                   java -Djavax.net.ssl.trustStore=partita.p12 \
                     -Djavax.net.ssl.trustStorePassword=changeit ...
  Node             NODE_EXTRA_CA_CERTS=partita.pem node app.js
  Python           CosmosClient(url, key, connection_verify="partita.pem")
  .NET             trusts what the system does (above); on Linux also: SSL_CERT_FILE=partita.pem dotnet run
                   or in the connection string: DisableServerCertificateValidation=True;

Without TLS there is nothing to trust: the same port speaks http, HTTP_URL
"#;

pub(crate) fn run(args: &TrustArgs) -> Result<(), Failure> {
    let text = guide(&args.url)?;
    let mut out = io::stdout().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
    Ok(())
}

/// The guide for the server at this URL, whichever scheme that has.
fn guide(url: &str) -> Result<String, Failure> {
    let host = ["https://", "http://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    let host = host.map(|rest| rest.trim_end_matches('/')).filter(|host| !host.is_empty());
    let Some(host) = host else {
        return Err(Failure::usage(format!("--url {url}: write https://HOST:PORT/")));
    };
    let http = format!("http://{host}/");
    Ok(GUIDE.replace("HTTP_URL", &http).replace("URL_", &format!("https://{host}/_")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_is_about_the_server_that_was_named() {
        for url in ["https://db.example:9/", "http://db.example:9", "https://db.example:9"] {
            let text = guide(url).unwrap();
            assert!(
                text.contains("curl -k https://db.example:9/_explorer/emulator.pem -o"),
                "{text}"
            );
            assert!(text.ends_with("http, http://db.example:9/\n"), "{text}");
        }
        for wrong in ["", "localhost:8081", "https://", "ftp://x/"] {
            guide(wrong).unwrap_err();
        }
    }
}

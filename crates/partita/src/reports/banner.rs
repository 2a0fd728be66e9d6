//! What a user sees when the server is ready.
//!
//! On standard output, so that it can be told from the log, which is on standard error: a few lines
//! for people, or one line of JSON for programs that wait for the server. A key is shown only if it
//! is the well-known one; a key of the user's own is never printed.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};

use partita_gateway::LogFormat;
use partita_gateway::auth::WELL_KNOWN_KEY;
use partita_model::{Object, Value};

use crate::trust::PrimaryKey;

/// The facts.
pub(crate) struct Banner<'a> {
    pub(crate) version: &'static str,
    pub(crate) addresses: &'a [SocketAddr],
    pub(crate) key: &'a PrimaryKey,
    /// None for a store in memory.
    pub(crate) data_dir: Option<String>,
    pub(crate) durability: &'static str,
    /// None for a certificate in memory.
    pub(crate) certificate: Option<String>,
    pub(crate) startup_ms: u64,
}

impl Banner<'_> {
    /// Prints it. A closed standard output is no reason not to serve.
    pub(crate) fn print(&self, format: LogFormat) {
        let text = match format {
            LogFormat::Text => self.text(),
            LogFormat::Json => format!("{}\n", self.json()),
        };
        let mut out = io::stdout().lock();
        drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
    }

    fn json(&self) -> Value {
        let text = |text: Option<&String>| text.map_or(Value::Null, |t| Value::from(t.as_str()));
        let listen = self.addresses.iter().map(|address| Value::from(address.to_string()));
        let ready = Object::new()
            .with("event", "ready")
            .with("endpoint", self.endpoint("https"))
            .with("listen", listen.collect::<Vec<_>>())
            .with("data_dir", text(self.data_dir.as_ref()))
            .with("certificate", text(self.certificate.as_ref()))
            .with("pid", std::process::id())
            .with("startup_ms", u32::try_from(self.startup_ms).unwrap_or(u32::MAX))
            .with("version", self.version);
        Value::from(ready)
    }

    fn text(&self) -> String {
        let (https, http) = (self.endpoint("https"), self.endpoint("http"));
        let (key, key_shown) = match self.key {
            PrimaryKey::WellKnown => {
                (WELL_KNOWN_KEY, format!("{WELL_KNOWN_KEY} (the emulator's well-known key)"))
            }
            PrimaryKey::SetBy(source) => ("<your key>", format!("set by {source}")),
        };
        let data = match &self.data_dir {
            Some(path) => format!("{path} (durability: {})", self.durability),
            None => "in memory: gone when the server stops".to_string(),
        };
        let certificate = match &self.certificate {
            Some(path) => format!("{path} (also at {http}_explorer/emulator.pem)"),
            None => format!("in memory (at {http}_explorer/emulator.pem)"),
        };
        let listen: Vec<String> = self.addresses.iter().map(SocketAddr::to_string).collect();
        let lines = [
            ("Endpoint", format!("{https} and {http}")),
            ("Listening on", listen.join(", ")),
            ("Key", key_shown),
            ("Connection", format!("AccountEndpoint={https};AccountKey={key};")),
            ("Data", data),
            ("Certificate", certificate),
            ("Trust it", "partita trust says how".to_string()),
            ("Stop", format!("Ctrl-C, or kill {}", std::process::id())),
        ];
        let mut text = format!("Partita {} is ready ({} ms)\n", self.version, self.startup_ms);
        for (name, value) in lines {
            writeln!(text, "  {name:<13} {value}").expect("a String takes every write");
        }
        text
    }

    /// The address a client on this machine would use; `localhost` where that works.
    fn endpoint(&self, scheme: &str) -> String {
        let Some(address) = self.addresses.first() else { return String::new() };
        let host = match address.ip() {
            ip if ip.is_unspecified() => "localhost".to_string(),
            IpAddr::V4(ip) if ip.octets() == [127, 0, 0, 1] => "localhost".to_string(),
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        format!("{scheme}://{host}:{}/", address.port())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn banner<'a>(addresses: &'a [SocketAddr], key: &'a PrimaryKey) -> Banner<'a> {
        Banner {
            version: "1.2.3",
            addresses,
            key,
            data_dir: Some("/data".to_string()),
            durability: "sync",
            certificate: None,
            startup_ms: 12,
        }
    }

    #[test]
    fn the_well_known_key_is_shown_in_a_connection_string() {
        let addresses = ["127.0.0.1:8081".parse().unwrap(), "[::1]:8081".parse().unwrap()];
        let text = banner(&addresses, &PrimaryKey::WellKnown).text();
        let line = format!("AccountEndpoint=https://localhost:8081/;AccountKey={WELL_KNOWN_KEY};");
        assert!(text.contains(&line), "{text}");
        assert!(text.contains("127.0.0.1:8081, [::1]:8081"), "{text}");
    }

    #[test]
    fn a_key_of_the_users_own_is_not_shown() {
        let addresses = ["[2001:db8::1]:443".parse().unwrap()];
        let key = PrimaryKey::SetBy("PARTITA_KEY".to_string());
        let text = banner(&addresses, &key).text();
        assert!(text.contains("set by PARTITA_KEY"), "{text}");
        assert!(text.contains("https://[2001:db8::1]:443/"), "{text}");
        assert!(!text.contains(WELL_KNOWN_KEY), "{text}");
    }

    #[test]
    fn the_ready_line_is_one_line_of_json() {
        let addresses = ["0.0.0.0:9".parse().unwrap()];
        let json = banner(&addresses, &PrimaryKey::WellKnown).json().to_string();
        let ready: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(ready["event"], "ready");
        assert_eq!(ready["endpoint"], "https://localhost:9/");
        assert_eq!(ready["data_dir"], "/data");
        assert_eq!(ready["certificate"], serde_json::Value::Null);
        assert_eq!(ready["pid"], std::process::id());
        assert_eq!(ready["startup_ms"], 12);
        assert!(!json.contains('\n'));
    }
}

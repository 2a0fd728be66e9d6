//! The containers of a run, and the documents in them.

use partita_engine::ContainerPath;
use partita_model::{PartitionKeyHeader, Value};

/// How many logical partitions a container has, and items under each.
pub const KEYS: u8 = 6;
pub const IDS: u8 = 4;

/// A sort of container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Plain,
    /// Keys of two levels.
    Hierarchical,
    /// Unique values of `u`, and items that expire.
    Unique,
    /// The feed keeps all versions.
    Versions,
    /// The same, not for long, and items expire.
    ExpiringVersions,
}

impl Kind {
    pub const ALL: [Kind; 5] =
        [Kind::Plain, Kind::Hierarchical, Kind::Unique, Kind::Versions, Kind::ExpiringVersions];

    /// The container's properties beside its id and indexing policy.
    pub fn fields(self) -> &'static str {
        match self {
            Kind::Plain => r#""partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}"#,
            Kind::Hierarchical => {
                r#""partitionKey":{"paths":["/pk","/sub"],"kind":"MultiHash","version":2}"#
            }
            Kind::Unique => {
                r#""partitionKey":{"paths":["/pk"],"kind":"Hash","version":1},
                "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]},"defaultTtl":20"#
            }
            Kind::Versions => {
                r#""partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
                "changeFeedPolicy":{"retentionDuration":1000}"#
            }
            Kind::ExpiringVersions => {
                r#""partitionKey":{"paths":["/pk","/sub"],"kind":"MultiHash","version":2},
                "changeFeedPolicy":{"retentionDuration":1},"defaultTtl":15"#
            }
        }
    }

    /// How long items live that say nothing.
    pub fn default_ttl(self) -> Option<u64> {
        match self {
            Kind::Unique => Some(20),
            Kind::ExpiringVersions => Some(15),
            Kind::Plain | Kind::Hierarchical | Kind::Versions => None,
        }
    }

    /// For how many seconds the feed keeps all versions, if that is shorter than a run.
    pub fn retention_seconds(self) -> Option<u64> {
        (self == Kind::ExpiringVersions).then_some(60)
    }

    pub fn is_unique(self) -> bool {
        self == Kind::Unique
    }

    pub fn keeps_versions(self) -> bool {
        matches!(self, Kind::Versions | Kind::ExpiringVersions)
    }

    fn is_hierarchical(self) -> bool {
        matches!(self, Kind::Hierarchical | Kind::ExpiringVersions)
    }

    /// A partition key as JSON.
    pub fn key_json(self, key: u8) -> String {
        match self.is_hierarchical() {
            true => format!(r#"["p{}","s{}"]"#, key / 3, key % 3),
            false => format!(r#"["p{key}"]"#),
        }
    }

    pub fn key(self, key: u8) -> PartitionKeyHeader {
        PartitionKeyHeader::parse(&self.key_json(key)).expect("it is a list of strings")
    }

    /// Is this the key of an item of that logical partition?
    pub fn is_key_of(self, key: u8, item_key: &[u8]) -> bool {
        let parts = match self.is_hierarchical() {
            true => vec![format!("p{}\0", key / 3), format!("s{}\0", key % 3)],
            false => vec![format!("p{key}\0")],
        };
        // Each part of a partition key has its sort before it, and an end.
        let holds = |part: &String| {
            let part = [&[8], part.as_bytes()].concat();
            item_key.windows(part.len()).any(|here| here == part)
        };
        parts.iter().all(holds)
    }

    /// Which logical partition a document belongs to.
    pub fn key_of(self, document: &Value) -> Option<u8> {
        let number = |name: &str, prefix: char| {
            let text = document.get(name).and_then(Value::as_str)?;
            text.strip_prefix(prefix)?.parse::<u8>().ok()
        };
        match self.is_hierarchical() {
            true => Some(number("pk", 'p')? * 3 + number("sub", 's')?),
            false => number("pk", 'p'),
        }
    }

    /// The text of a document.
    pub fn document(self, key: u8, doc: &Doc) -> String {
        let place = match self.is_hierarchical() {
            true => format!(r#""pk":"p{}","sub":"s{}""#, key / 3, key % 3),
            false => format!(r#""pk":"p{key}""#),
        };
        let ttl = doc.ttl.map_or(String::new(), |ttl| format!(r#","ttl":{ttl}"#));
        let Doc { id, n, u, .. } = doc;
        let id = id_text(*id);
        format!(r#"{{"id":"{id}",{place},"n":{n},"u":{u},"c":0,"log":[{n}]{ttl}}}"#)
    }
}

/// What a write wants to store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doc {
    pub id: u8,
    /// Tells this version from all others of the run.
    pub n: u64,
    pub u: u64,
    pub ttl: Option<i32>,
}

/// An id that is found in the key of its item, and is part of no other one.
pub fn id_text(id: u8) -> String {
    format!("item-{id}.")
}

/// The number of an id.
pub fn id_number(text: &str) -> Option<u8> {
    text.strip_prefix("item-")?.strip_suffix('.')?.parse().ok()
}

pub fn path(container: usize) -> ContainerPath {
    ContainerPath { database: "db".into(), container: format!("c{container}") }
}

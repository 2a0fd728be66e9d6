//! The documents that systems are filled with: readings of devices, profiles of users, events of
//! tenants.
//!
//! Each is about 1 KB in 15 properties, and everything about it follows from its number, so that
//! every system in every run has the same. A hundred documents in a row share a partition key and
//! are of one kind. All kinds have the properties that questions are about (`device`, `category`,
//! `city`, `at`, `amount`, `level`); the rest differs.

use crate::random::scatter;

/// Documents of one partition key.
pub(crate) const PER_KEY: usize = 100;

/// A document as a client has it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Document {
    pub(crate) key: String,
    pub(crate) id: String,
    pub(crate) text: String,
}

/// The document with this number.
pub(crate) fn document(n: u64) -> Document {
    let group = n / PER_KEY as u64;
    made(n, format!("doc-{n}"), format!("pk-{group}"), group)
}

/// A new document whose partition key is its own, as those of different users are.
pub(crate) fn fresh(n: u64) -> Document {
    let id = format!("new-{n}");
    made(n, id.clone(), id, n)
}

/// A new document under this partition key.
pub(crate) fn fresh_under(key: &str, n: u64) -> Document {
    made(n, format!("new-{n}"), key.to_owned(), n)
}

fn made(n: u64, id: String, key: String, kind: u64) -> Document {
    let number = |salt: u64, below: u64| scatter(n.wrapping_mul(64).wrapping_add(salt)) % below;
    let common = format!(
        r#""id":"{id}","pk":"{key}","device":"device-{}","category":"category-{}","city":"city-{}","at":{},"amount":{},"level":{}"#,
        number(1, 10_000),
        number(2, 50),
        number(3, 200),
        // Every number once among a million: what is first by it is the same everywhere.
        n.wrapping_mul(611_953) % 1_000_000,
        number(6, 1_000),
        number(7, 100),
    );
    let own = match kind % 3 {
        0 => reading(&number),
        1 => profile(&number),
        _ => event(&number),
    };
    Document { text: format!("{{{common},{own}}}"), id, key }
}

/// Seven more properties, of a measurement.
fn reading(number: &impl Fn(u64, u64) -> u64) -> String {
    let status = ["new", "open", "held", "done", "gone"][number(4, 5) as usize];
    format!(
        r#""kind":"reading","status":"{status}","active":{},"place":{{"room":{},"floor":{}}},"tags":["t{}","u{}"],"unit":"celsius","note":"{}""#,
        number(8, 2) == 1,
        number(9, 100),
        number(10, 10),
        number(11, 50),
        number(12, 500),
        filler(number, 42),
    )
}

/// Seven more, of a person.
fn profile(number: &impl Fn(u64, u64) -> u64) -> String {
    let plan = ["free", "basic", "pro"][number(4, 3) as usize];
    format!(
        r#""kind":"profile","plan":"{plan}","verified":{},"address":{{"street":"{} Long Street","zip":"{:05}"}},"interests":["i{}","i{}"],"mail":"user{}@example.com","about":"{}""#,
        number(8, 2) == 1,
        number(9, 500),
        number(10, 100_000),
        number(11, 50),
        number(12, 500),
        number(13, 100_000),
        filler(number, 41),
    )
}

/// Seven more, of something that happened to a tenant.
fn event(number: &impl Fn(u64, u64) -> u64) -> String {
    let action = ["created", "changed", "shared", "removed"][number(4, 4) as usize];
    format!(
        r#""kind":"event","action":"{action}","tenant":"tenant-{}","actor":{{"user":"user-{}","role":"role-{}"}},"targets":["x{}","x{}"],"trace":"{:016x}","detail":"{}""#,
        number(8, 1_000),
        number(9, 100_000),
        number(10, 8),
        number(11, 50),
        number(12, 500),
        number(13, u64::MAX),
        filler(number, 41),
    )
}

/// Text that does not compress well, sixteen characters for each word.
fn filler(number: &impl Fn(u64, u64) -> u64, words: u64) -> String {
    (0..words).map(|word| format!("{:016x}", number(20 + word, u64::MAX))).collect()
}

#[cfg(test)]
mod tests {
    use partita_model::Value;

    use super::*;

    #[test]
    fn a_number_always_gives_the_same_document() {
        for n in [0, 100, 200, 12_345] {
            assert_eq!(document(n), document(n));
            assert_ne!(document(n).text, document(n + 1).text);
        }
        let head: String = document(0).text.chars().take(117).collect();
        assert_eq!(
            head,
            r#"{"id":"doc-0","pk":"pk-0","device":"device-7535","category":"category-0","city":"city-79","at":0,"amount":90,"level":"#
        );
    }

    #[test]
    fn all_kinds_have_fifteen_properties_in_about_a_kilobyte() {
        for n in [0, 150, 299, 12_345] {
            let document = document(n);
            let value = Value::parse(document.text.as_bytes()).unwrap();
            assert_eq!(value.as_object().unwrap().len(), 15, "{value}");
            assert!((900..1_150).contains(&document.text.len()), "{}", document.text.len());
            assert_eq!(value.get("id").unwrap().as_str().unwrap(), document.id);
            assert_eq!(value.get("pk").unwrap().as_str().unwrap(), document.key);
        }
    }

    #[test]
    fn a_hundred_documents_share_a_key_and_new_ones_have_their_own() {
        assert_eq!(document(100).key, document(199).key);
        assert_ne!(document(199).key, document(200).key);
        assert_ne!(fresh(1).key, fresh(2).key);
        assert_eq!(fresh_under("k", 1).key, "k");
    }
}

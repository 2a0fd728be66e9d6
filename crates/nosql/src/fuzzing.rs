//! What the fuzz targets do with their input. Compiled for fuzzing only: what they try is private.

use partita_engine::{Access, ContainerPath, DatabasePath, PermissionPath, UserPath};
use partita_gateway::auth::{Key, Keys};
use partita_model::ScriptKind;

use crate::hybrid_row;
use crate::link::{Address, Link, decode, encode};
use crate::token;

/// Reads a batch in HybridRow, which ends with operations or an error. The same bytes are read as a
/// row, too, as a fuzzer seldom guesses a checksum.
pub fn hybrid_row(body: &[u8]) {
    let refused = [hybrid_row::read(body).err(), hybrid_row::read_row(body).err()];
    for error in refused.into_iter().flatten() {
        assert!(error.message.ends_with(")."), "{error}");
    }
}

/// Reads a path. What it addresses has one path of its own, which addresses the same and is signed
/// the same; slashes that say nothing change nothing.
pub fn link(path: &str) {
    assert_eq!(decode(&encode(path)).as_deref(), Ok(path));
    let address = Address::of_path(path);
    let _ = (address.signing(), address.names(), address.raw_container());
    let slashes = format!("//{path}/");
    let slashed = Address::of_path(&slashes);
    let link = match (address.link(), slashed.link()) {
        (Ok(link), Ok(same)) if same == link => link,
        (Err(error), Err(same)) if same == error => {
            assert!(path.contains('%'), "{path}: {error}");
            return;
        }
        (link, other) => panic!("{path} is {link:?}, with more slashes {other:?}"),
    };
    let Some(own) = written(&link) else { return };
    let again = Address::of_path(&own);
    assert_eq!(again.link(), Ok(link), "{path} as {own}");
    assert_eq!(again.signing(), address.signing(), "{path} as {own}");
}

/// The path of a link; None for those that keep nothing to write.
fn written(link: &Link) -> Option<String> {
    let database = |DatabasePath(name): &DatabasePath| format!("dbs/{}", encode(name));
    let container = |ContainerPath { database, container }: &ContainerPath| {
        format!("dbs/{}/colls/{}", encode(database), encode(container))
    };
    let user = |UserPath { database, user }: &UserPath| {
        format!("dbs/{}/users/{}", encode(database), encode(user))
    };
    let kind = |kind: &ScriptKind| kind.segment();
    Some(match link {
        Link::Account => String::new(),
        Link::Databases => "dbs".into(),
        Link::Database(path) => database(path),
        Link::Containers(path) => format!("{}/colls", database(path)),
        Link::Container(path) => container(path),
        Link::Items(path) => format!("{}/docs", container(path)),
        Link::Item { container: path, id } => format!("{}/docs/{}", container(path), encode(id)),
        Link::Ranges(path) => format!("{}/pkranges", container(path)),
        Link::Conflicts(path) => format!("{}/conflicts", container(path)),
        Link::Conflict { container: path, id } => {
            format!("{}/conflicts/{}", container(path), encode(id))
        }
        Link::PartitionKeyDelete(path) => {
            format!("{}/operations/partitionkeydelete", container(path))
        }
        Link::Scripts(path, of) => format!("{}/{}", container(path), kind(of)),
        Link::Script(path) => {
            let inside = (kind(&path.kind), encode(&path.script));
            format!("{}/{}/{}", container(&path.container), inside.0, inside.1)
        }
        Link::Offers => "offers".into(),
        Link::Offer(rid) => format!("offers/{}", encode(rid)),
        Link::EncryptionKeys(path) => format!("{}/clientencryptionkeys", database(path)),
        Link::EncryptionKey(path) => {
            format!("dbs/{}/clientencryptionkeys/{}", encode(&path.database), encode(&path.key))
        }
        Link::Users(path) => format!("{}/users", database(path)),
        Link::User(path) => user(path),
        Link::Permissions(path) => format!("{}/permissions", user(path)),
        Link::Permission(PermissionPath { user: path, permission }) => {
            format!("{}/permissions/{}", user(path), encode(permission))
        }
        Link::Admin(_) | Link::Later(_) | Link::Unknown => return None,
    })
}

/// Reads a text as a resource token: nobody can write one. Then has a token made of the same bytes
/// and changes it: what is accepted says what was signed. Its contents mean the same when they are
/// written again.
pub fn resource_token(input: &[u8]) {
    const NOW: u64 = 1_700_000_000;
    let keys = Keys { primary: Key::parse(&"QUJD".repeat(22)).ok(), ..Keys::default() };
    let others = Keys { primary: Key::parse(&"QUJE".repeat(22)).ok(), ..Keys::default() };
    let text = String::from_utf8_lossy(input);
    assert!(keys.verify_token(&text, NOW).is_err(), "{text}");
    let [at, at_more, byte, contents @ ..] = input else { return };
    if let Ok(Access::Grant(grant)) = token::read(contents) {
        let written = token::write(grant.permission, grant.mode, &grant.target);
        assert_eq!(token::read(&written).ok(), Some(Access::Grant(grant)));
    }
    let made = keys.issue_token(contents, NOW + 10).expect("there is a key");
    assert_eq!(keys.verify_token(&made, NOW + 9).as_deref(), Ok(contents));
    assert!(keys.verify_token(&made, NOW + 10).is_err(), "it has ended");
    assert!(others.verify_token(&made, NOW).is_err(), "of another account");
    let mut changed = made.clone().into_bytes();
    let at = usize::from(u16::from_be_bytes([*at, *at_more])) % changed.len();
    if let Some(there) = changed.get_mut(at) {
        *there = byte & 0x7F;
    }
    let changed = String::from_utf8(changed).expect("it is ASCII");
    match keys.verify_token(&changed, NOW) {
        Ok(found) => {
            assert_eq!(found, contents, "{changed}");
            // Its name may be in capitals, and its last semicolon is dispensable.
            let dispensable = |token: &str| token.trim_end().trim_end_matches(';').to_lowercase();
            assert_eq!(dispensable(&changed), dispensable(&made));
        }
        Err(_) => assert_ne!(changed, made),
    }
}

//! Any bytes as continuations of queries.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use partita_model::{ContainerRid, DatabaseRid, EpkRange};
use partita_query::{Facts, Query};

use super::token::codec::Input;
use super::token::compact::Compact;
use super::token::{Binding, Decoded, decode, encode, read_progress};
use crate::op::QueryRequest;

const TEXT: &str = "SELECT * FROM c";

/// Texts that were not made here are refused. A position that the bytes mean comes back from its
/// token, for its query and container only, and unchanged only.
pub fn continuation(input: &[u8]) {
    static FACTS: LazyLock<Facts> =
        LazyLock::new(|| Query::parse(TEXT, &[], &[]).expect("it is a query").facts().clone());
    static ALL: LazyLock<EpkRange> = LazyLock::new(EpkRange::all);
    let request = QueryRequest::new(TEXT);
    let rid = |container| ContainerRid { database: DatabaseRid(7), container };
    let binding = |container, request, secret| Binding {
        secret,
        container: rid(container),
        request,
        facts: &FACTS,
        area: &ALL,
    };
    let ours = binding(9, &request, b"secret");
    let text = String::from_utf8_lossy(input);
    let forged = [text.to_string(), format!("Q3.{text}"), forge(input)];
    // A secret that signs nothing here: the fuzzer sees what is compared below, and tries that.
    let unseen = binding(9, &request, b"signs nothing");
    assert!(forged.iter().all(|token| decode(&unseen, token).is_err()), "{forged:?}");
    let [at, at_more, byte, limit, bytes @ ..] = input else { return };
    read_compact(bytes);
    let mut reader = Input::new(bytes);
    let Some(progress) = read_progress(&mut reader).filter(|_| reader.is_empty()) else { return };
    let token = encode(&ours, 1, &progress, usize::MAX);
    assert_eq!(decode(&ours, &token), Ok(Decoded::Whole(progress.clone())));
    let other = QueryRequest::new("SELECT c.id FROM c");
    for strange in [
        binding(8, &request, b"secret"),
        binding(9, &other, b"secret"),
        binding(9, &request, b"another"),
    ] {
        assert!(decode(&strange, &token).is_err());
    }
    let short = encode(&ours, 1, &progress, 512 + usize::from(*limit));
    assert!(decode(&ours, &short).is_ok(), "{short}");
    for token in [token, short] {
        let mut changed = token.clone().into_bytes();
        let at = usize::from(u16::from_be_bytes([*at, *at_more])) % changed.len();
        if let Some(there) = changed.get_mut(at) {
            *there = byte & 0x7F;
        }
        let changed = String::from_utf8(changed).expect("it is ASCII");
        assert_eq!(decode(&ours, &changed).is_ok(), changed == token, "{changed}");
    }
}

fn forge(bytes: &[u8]) -> String {
    format!("Q3.{}", URL_SAFE_NO_PAD.encode(bytes))
}

fn read_compact(bytes: &[u8]) {
    let Some(compact) = Compact::read(&mut Input::new(bytes)) else { return };
    let mut written = Vec::new();
    compact.put(&mut written);
    let mut reader = Input::new(&written);
    assert_eq!(Compact::read(&mut reader), Some(compact));
    assert!(reader.is_empty());
}

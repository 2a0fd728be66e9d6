//! Any bytes as what a client sends: the answers do not depend on how the bytes arrive, and say
//! whatever they say in HTTP.

use std::collections::VecDeque;
use std::sync::LazyLock;

use tokio::runtime::{Builder, Runtime};

use super::{Random, heard, heard_at_once};

/// The first byte says how the others are cut.
pub fn http1(input: &[u8]) {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        Builder::new_current_thread().enable_time().build().expect("a runtime needs nothing")
    });
    let Some((cuts, bytes)) = input.split_first() else { return };
    RUNTIME.block_on(async {
        let expected = heard_at_once(bytes).await;
        assert!(expected.is_empty() || expected.starts_with("HTTP/1."), "{expected}");
        // What was refused as no request is the end: who goes on after it reads something else as
        // the next request than a proxy before us.
        let refused = "HTTP/1.1 400 ";
        if let Some(at) = expected.find(refused) {
            let after = expected.get(at + refused.len()..).unwrap_or_default();
            assert!(!after.contains("\r\n\r\nHTTP/1."), "{expected}");
        }
        let pieces = Random(u64::from(*cuts) << 8 | 1).pieces(bytes);
        assert_eq!(heard(pieces.clone()).await, expected, "{pieces:?}");
        let single: VecDeque<Vec<u8>> = bytes.iter().map(|byte| vec![*byte]).collect();
        assert_eq!(heard(single).await, expected, "byte by byte");
    });
}

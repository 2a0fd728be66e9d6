//! The keys that an issuer publishes, and how they are renewed.
//!
//! Issuers change their keys: a new one is published, then tokens are signed with it, later the old
//! one is taken away. So keys that were fetched are fetched again, now and then, and when a token
//! names one that is not known. Anybody can write such a token, hence at most one fetch is under
//! way and there is a rest after each; whoever comes meanwhile waits for the same answer, or gets
//! none. A fetch that fails changes nothing.
//!
//! How keys are fetched is handed in: this crate asks nobody.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use partita_model::Value;
use tokio::sync::Mutex;

/// Seconds from one fetch to the next: so long a new key may be unknown at most while somebody
/// writes tokens of nonsense, and so often an issuer may be bothered.
const REST_SECONDS: u64 = 10;

/// A fetch under way: a JWK set, or why there is none.
pub type Fetching = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;

/// The keys of an issuer as they are known now. Clones share them.
#[derive(Clone)]
pub struct PublishedKeys {
    shared: Arc<Shared>,
}

struct Shared {
    known: RwLock<Arc<[PublicKey]>>,
    source: Option<Source>,
}

/// Where keys are fetched from.
struct Source {
    /// Tells sources apart; may be secret.
    url: String,
    fetch: Box<dyn Fn() -> Fetching + Send + Sync>,
    /// When it was asked last. Locked while it is being asked.
    asked_unix_seconds: Mutex<Option<u64>>,
}

/// One of the keys.
#[derive(Clone, Debug)]
pub(super) struct PublicKey {
    pub(super) id: Option<String>,
    pub(super) material: Material,
}

#[derive(Clone, Debug)]
pub(super) enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
}

impl PublishedKeys {
    /// Keys that stay as they are: a JWK set. The error says what is wrong with it.
    pub fn fixed(jwks: &str) -> Result<PublishedKeys, String> {
        Ok(PublishedKeys::with(parse(jwks)?, None))
    }

    /// Keys that are fetched from a URL; none are known until the first time.
    pub fn fetched(
        url: &str,
        fetch: impl Fn() -> Fetching + Send + Sync + 'static,
    ) -> PublishedKeys {
        let source = Source {
            url: url.to_owned(),
            fetch: Box::new(fetch),
            asked_unix_seconds: Mutex::new(None),
        };
        PublishedKeys::with(Arc::new([]), Some(source))
    }

    fn with(known: Arc<[PublicKey]>, source: Option<Source>) -> PublishedKeys {
        PublishedKeys { shared: Arc::new(Shared { known: RwLock::new(known), source }) }
    }

    pub(super) fn known(&self) -> Arc<[PublicKey]> {
        Arc::clone(&self.shared.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Can there be others than those that are known?
    pub(super) fn is_fetched(&self) -> bool {
        self.shared.source.is_some()
    }

    /// Begins with what others know, if they are fetched from the same place.
    pub(super) fn take_over(&self, others: &PublishedKeys) {
        let url = |keys: &PublishedKeys| keys.shared.source.as_ref().map(|own| own.url.clone());
        if url(self).is_some() && url(self) == url(others) {
            self.learn(others.known());
        }
    }

    /// Fetches them, unless that was done just now. The answer is why it failed.
    ///
    /// It goes on when the caller does not: whoever gives up does not take the answer from others.
    pub(super) async fn renew(&self, now_unix_seconds: u64) -> Result<(), String> {
        let keys = self.clone();
        let fetching = tokio::spawn(async move { keys.fetch(now_unix_seconds).await });
        fetching.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    async fn fetch(&self, now_unix_seconds: u64) -> Result<(), String> {
        let Some(source) = &self.shared.source else { return Ok(()) };
        let mut asked = source.asked_unix_seconds.lock().await;
        if asked.is_some_and(|asked| asked.abs_diff(now_unix_seconds) < REST_SECONDS) {
            return Ok(());
        }
        *asked = Some(now_unix_seconds);
        self.learn(parse(&(source.fetch)().await?)?);
        Ok(())
    }

    fn learn(&self, keys: Arc<[PublicKey]>) {
        *self.shared.known.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }
}

/// They are public, but where they come from may not be.
impl fmt::Debug for PublishedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PublishedKeys").field(&self.known()).finish()
    }
}

/// The keys of a JWK set that can be used.
fn parse(jwks: &str) -> Result<Arc<[PublicKey]>, String> {
    let jwks = Value::parse(jwks.as_bytes()).map_err(|error| error.message)?;
    let listed = jwks.get("keys").and_then(Value::as_array);
    let listed = listed.ok_or("a JWK set has a list 'keys'")?;
    let keys: Arc<[PublicKey]> = listed.iter().filter_map(PublicKey::of).collect();
    if keys.is_empty() {
        return Err("none of its keys can be used: RSA of 2048 bits and more, P-256 and P-384 can"
            .to_owned());
    }
    Ok(keys)
}

impl PublicKey {
    /// A key of a JWK set; None if it is of a kind that is not used here, or not for signatures.
    fn of(jwk: &Value) -> Option<PublicKey> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str);
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?.trim_end_matches('=')).ok();
        if text("use").is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let point = |length: usize| {
            let (x, y) = (bytes("x")?, bytes("y")?);
            (x.len() == length && y.len() == length).then(|| [&[4], &x[..], &y[..]].concat())
        };
        let material = match (text("kty")?, text("crv")) {
            ("RSA", _) => Material::Rsa { n: bytes("n")?, e: bytes("e")? },
            ("EC", Some("P-256")) => Material::P256(point(32)?),
            ("EC", Some("P-384")) => Material::P384(point(48)?),
            _ => return None,
        };
        Some(PublicKey { id: text("kid").map(str::to_owned), material })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex as Lock;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn jwks(id: &str) -> String {
        let half = URL_SAFE_NO_PAD.encode([7; 32]);
        format!(
            r#"{{"keys":[{{"kty":"EC","crv":"P-256","kid":"{id}","x":"{half}","y":"{half}"}}]}}"#
        )
    }

    fn ids(keys: &PublishedKeys) -> Vec<String> {
        keys.known().iter().filter_map(|key| key.id.clone()).collect()
    }

    /// Keys that are fetched with these answers, and how often that was done.
    fn fetched(answers: &[Result<&str, &str>]) -> (PublishedKeys, Arc<AtomicUsize>) {
        let owned = |answer: &Result<&str, &str>| answer.map(str::to_owned).map_err(str::to_owned);
        let answers: Lock<VecDeque<_>> = Lock::new(answers.iter().map(owned).collect());
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let keys = PublishedKeys::fetched("https://issuer/keys", move || {
            counted.fetch_add(1, Ordering::Relaxed);
            let answer = answers.lock().unwrap().pop_front().unwrap();
            Box::pin(async move {
                tokio::task::yield_now().await;
                answer
            })
        });
        (keys, count)
    }

    #[tokio::test]
    async fn many_who_ask_at_once_wait_for_one_fetch_and_there_is_a_rest_after_it() {
        let (keys, count) = fetched(&[Ok(&jwks("first")), Ok(&jwks("second"))]);
        assert!(ids(&keys).is_empty());
        let (one, two, three) = tokio::join!(keys.renew(100), keys.renew(100), keys.renew(101));
        assert_eq!((one, two, three), (Ok(()), Ok(()), Ok(())));
        assert_eq!((ids(&keys), count.load(Ordering::Relaxed)), (vec!["first".to_owned()], 1));
        keys.renew(109).await.unwrap();
        assert_eq!((ids(&keys), count.load(Ordering::Relaxed)), (vec!["first".to_owned()], 1));
        keys.renew(110).await.unwrap();
        assert_eq!((ids(&keys), count.load(Ordering::Relaxed)), (vec!["second".to_owned()], 2));
    }

    #[tokio::test]
    async fn a_fetch_that_fails_changes_nothing_and_is_not_repeated_at_once() {
        let (keys, count) =
            fetched(&[Ok(&jwks("first")), Err("nobody is there"), Ok("{}"), Ok(&jwks("second"))]);
        keys.renew(100).await.unwrap();
        assert_eq!(keys.renew(200).await, Err("nobody is there".to_owned()));
        assert_eq!(keys.renew(201).await, Ok(()), "it rests");
        assert!(keys.renew(300).await.unwrap_err().contains("a JWK set"));
        assert_eq!((ids(&keys), count.load(Ordering::Relaxed)), (vec!["first".to_owned()], 3));
        // A clock that was put back is no reason to rest for ever.
        keys.renew(50).await.unwrap();
        assert_eq!(ids(&keys), ["second"]);
    }

    #[tokio::test]
    async fn whoever_gives_up_waiting_does_not_stop_the_fetch() {
        let (keys, _) = fetched(&[Ok(&jwks("first"))]);
        let mut waiting = Box::pin(keys.renew(100));
        tokio::select! {
            biased;
            _ = &mut waiting => panic!("it cannot be done at once"),
            () = std::future::ready(()) => {}
        }
        drop(waiting);
        keys.renew(101).await.unwrap();
        assert_eq!(ids(&keys), ["first"]);
    }

    #[tokio::test]
    async fn keys_are_taken_over_from_the_same_place_only() {
        let (old, _) = fetched(&[Ok(&jwks("first"))]);
        old.renew(100).await.unwrap();
        let (same, _) = fetched(&[]);
        same.take_over(&old);
        assert_eq!(ids(&same), ["first"]);
        let other =
            PublishedKeys::fetched("https://other/keys", || unreachable!("nobody asks for it"));
        other.take_over(&old);
        assert!(ids(&other).is_empty());
        let fixed = PublishedKeys::fixed(&jwks("own")).unwrap();
        fixed.take_over(&old);
        assert_eq!(ids(&fixed), ["own"]);
        assert_eq!(fixed.renew(200).await, Ok(()));
    }
}

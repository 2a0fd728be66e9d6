//! Tokens of identity providers: somebody else says who a principal is, and signs it.
//!
//! Clients send `authorization: type=aad&ver=1.0&sig=<JWT>`. A token counts if an [`Issuer`] that
//! this server was told about signed it with one of its published keys (RS256, RS384, RS512, ES256
//! or ES384; nothing else, and never what the token alone asks for), if it is meant for this
//! server, and if it is valid now. It says who the principal is; what the principal may do is
//! decided elsewhere.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use partita_model::Value;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use subtle::ConstantTimeEq;

use super::master_key::percent_decode;
use super::published_keys::{Material, PublicKey, PublishedKeys};
use super::{AuthError, Key, Keys, Principal};

/// How far the clocks of an issuer and of this server may be apart.
const LEEWAY_SECONDS: i64 = 300;

/// A token has a handful of claims, and perhaps many groups.
const TOKEN_BYTES_MAX: usize = 48 * 1024;

/// The key id in tokens for an emulator.
const EMULATOR_KEY_ID: &str = "CosmosEmulatorPrimaryMaster";

/// How these authorizations begin.
const PREFIX: &str = "type=aad&ver=1.0&sig=";

/// Somebody whose word on who a principal is counts.
#[derive(Clone, Debug)]
pub struct Issuer {
    name: String,
    audiences: Vec<String>,
    keys: PublishedKeys,
}

/// Who an issuer says it is: the ids of a principal and of its groups, the principal's own first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bearer {
    pub ids: Vec<String>,
}

/// Is this authorization header a token of an identity provider, valid or not?
pub fn is_bearer_token(authorization: &str) -> bool {
    let authorization = authorization.trim_start().as_bytes();
    ["type=aad", "type%3Daad"].iter().any(|kind| {
        let start = authorization.get(..kind.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(kind.as_bytes()))
    })
}

impl Issuer {
    /// An issuer by the name that its tokens carry, those whom it may write tokens for this server
    /// to, and its published keys. The error says what is wrong with them.
    pub fn new(name: &str, audiences: Vec<String>, keys: PublishedKeys) -> Result<Issuer, String> {
        if audiences.is_empty() {
            return Err("it needs an audience: the 'aud' of tokens for this server".to_owned());
        }
        Ok(Issuer { name: name.to_owned(), audiences, keys })
    }

    /// The name that its tokens carry.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Begins with the keys that others know, where they are the same issuers.
    pub fn take_over(&self, others: &[Issuer]) {
        for other in others.iter().filter(|other| other.name == self.name) {
            self.keys.take_over(&other.keys);
        }
    }

    /// Fetches its keys, if they are fetched at all and not just now. It goes on when the caller
    /// does not, and a failure is logged: what is known stays.
    pub async fn renew(&self, now_unix_seconds: u64) {
        if let Err(why) = self.keys.renew(now_unix_seconds).await {
            tracing::warn!("the keys of the issuer '{}' cannot be fetched: {why}", self.name);
        }
    }

    fn verifies(&self, token: &Token<'_>) -> bool {
        self.keys.known().iter().any(|key| key.fits(token) && key.verifies(token))
    }
}

/// Who the bearer of a token is.
pub fn verify_bearer(
    issuers: &[Issuer],
    authorization: &str,
    now_unix_seconds: u64,
) -> Result<Bearer, AuthError> {
    if issuers.is_empty() {
        return Err(AuthError::NoIssuers);
    }
    let authorization = percent_decode(authorization.trim())?;
    let token = Token::of_header(&authorization)?;
    let issuer = token.issuer(issuers).ok_or_else(|| refused("its issuer is not known here"))?;
    if !issuer.verifies(&token) {
        return Err(refused(match issuer.keys.known().is_empty() {
            true => "its issuer's keys are not here yet; the server's log tells of them",
            false => "its signature is not one of its issuer's",
        }));
    }
    token.check_time(now_unix_seconds)?;
    if !token.audiences().any(|audience| issuer.audiences.iter().any(|ours| ours == audience)) {
        return Err(refused("it is meant for another audience"));
    }
    token.bearer().ok_or_else(|| refused("it names no principal: 'oid' or 'sub'"))
}

/// The issuer that may have signed a token with a key which is not known here yet.
pub fn unknown_key<'i>(issuers: &'i [Issuer], authorization: &str) -> Option<&'i Issuer> {
    let authorization = percent_decode(authorization.trim()).ok()?;
    let token = Token::of_header(&authorization).ok()?;
    let issuer = token.issuer(issuers).filter(|issuer| issuer.keys.is_fetched())?;
    let names_known = |key: &PublicKey| key.id.is_some() && key.id == token.key_id;
    let is_known = issuer.keys.known().iter().any(names_known) || issuer.verifies(&token);
    (!is_known).then_some(issuer)
}

fn refused(reason: impl Into<String>) -> AuthError {
    AuthError::Bearer(reason.into())
}

/// A part of a token. Programs that make tokens for an emulator may use the other alphabet, and
/// padding.
fn decode(part: &str) -> Option<Vec<u8>> {
    let part = part.trim_end_matches('=');
    match part.contains(['+', '/']) {
        true => STANDARD_NO_PAD.decode(part).ok(),
        false => URL_SAFE_NO_PAD.decode(part).ok(),
    }
}

/// A token taken apart, nothing believed yet.
struct Token<'a> {
    algorithm: String,
    key_id: Option<String>,
    claims: Value,
    signed: &'a str,
    signature: Vec<u8>,
}

/// Is this the kind of token that programs make for an emulator? In place of a signature it has the
/// account's key itself, so whoever made it knows that key, whatever its header calls it. One that
/// names the emulator's key and has another is refused; all others may be somebody else's.
pub fn verify_emulator(
    keys: &Keys,
    authorization: &str,
    now_unix_seconds: u64,
) -> Option<Result<Principal, AuthError>> {
    let authorization = percent_decode(authorization.trim()).ok()?;
    let token = Token::of_header(&authorization).ok()?;
    let sent = std::str::from_utf8(&token.signature).ok().and_then(|text| Key::parse(text).ok());
    // What two keys make of one message tells whether they are the same, and nothing about them.
    let mark = |key: &Key| key.mac(EMULATOR_KEY_ID.as_bytes());
    let is_same = |(sent, own): (Key, &Key)| bool::from(mark(&sent).ct_eq(&mark(own)));
    let same = sent.zip(keys.primary.as_ref()).is_some_and(is_same);
    if !same && token.key_id.as_deref() != Some(EMULATOR_KEY_ID) {
        return None;
    }
    if !same {
        return Some(Err(refused("its signature is not the account's primary key")));
    }
    Some(token.check_time(now_unix_seconds).map(|()| Principal::ReadWrite))
}

impl<'a> Token<'a> {
    /// The token in an authorization header.
    fn of_header(authorization: &'a str) -> Result<Token<'a>, AuthError> {
        let start = authorization.get(..PREFIX.len());
        let token = start
            .filter(|start| start.eq_ignore_ascii_case(PREFIX))
            .and_then(|_| authorization.get(PREFIX.len()..))
            .ok_or_else(|| refused(format!("it begins with {PREFIX}")))?;
        if token.len() > TOKEN_BYTES_MAX {
            return Err(refused("it is too long"));
        }
        Token::parse(token).ok_or_else(|| refused("it is no JWT"))
    }

    fn parse(text: &'a str) -> Option<Token<'a>> {
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let json = |part: &str| Value::parse(&decode(part)?).ok();
        let header = json(header)?;
        let owned = |name: &str| header.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Token {
            algorithm: owned("alg")?,
            key_id: owned("kid"),
            claims: json(claims)?,
            signed,
            signature: decode(signature)?,
        })
    }

    /// Who it says has signed it.
    fn issuer<'i>(&self, issuers: &'i [Issuer]) -> Option<&'i Issuer> {
        issuers.iter().find(|issuer| self.text("iss") == Some(&issuer.name))
    }

    fn text(&self, claim: &str) -> Option<&str> {
        self.claims.get(claim).and_then(Value::as_str)
    }

    fn audiences(&self) -> impl Iterator<Item = &str> {
        let claim = self.claims.get("aud");
        let several = claim.and_then(Value::as_array).unwrap_or_default();
        claim.into_iter().chain(several).filter_map(Value::as_str)
    }

    fn check_time(&self, now_unix_seconds: u64) -> Result<(), AuthError> {
        let now = i64::try_from(now_unix_seconds).unwrap_or(i64::MAX);
        let number = |claim: &str| self.claims.get(claim).and_then(Value::as_f64);
        let ends = number("exp").ok_or_else(|| refused("it has no end: 'exp'"))? as i64;
        if now >= ends.saturating_add(LEEWAY_SECONDS) {
            return Err(refused(format!("it ended {} seconds ago", now.saturating_sub(ends))));
        }
        match number("nbf") {
            Some(begins) if now < (begins as i64).saturating_sub(LEEWAY_SECONDS) => {
                Err(refused("it is not valid yet: compare the clocks"))
            }
            _ => Ok(()),
        }
    }

    fn bearer(&self) -> Option<Bearer> {
        let own = ["oid", "sub"].iter().filter_map(|claim| self.text(claim));
        let own: Vec<String> = own.filter(|id| !id.is_empty()).map(str::to_owned).collect();
        if own.is_empty() {
            return None;
        }
        let groups = self.claims.get("groups").and_then(Value::as_array).unwrap_or_default();
        let groups = groups.iter().filter_map(Value::as_str).map(str::to_owned);
        Some(Bearer { ids: own.into_iter().chain(groups).collect() })
    }
}

impl PublicKey {
    /// May the token have been signed by this key? Only a key without a name fits all.
    fn fits(&self, token: &Token<'_>) -> bool {
        self.id.is_none() || token.key_id.is_none() || self.id == token.key_id
    }

    fn verifies(&self, token: &Token<'_>) -> bool {
        let (message, signature) = (token.signed.as_bytes(), &token.signature[..]);
        match (&self.material, token.algorithm.as_str()) {
            (Material::Rsa { n, e }, algorithm) => {
                let parameters = match algorithm {
                    "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
                    "RS384" => &signature::RSA_PKCS1_2048_8192_SHA384,
                    "RS512" => &signature::RSA_PKCS1_2048_8192_SHA512,
                    _ => return false,
                };
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature).is_ok()
            }
            (Material::P256(point), "ES256") => {
                let key = UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point);
                key.verify(message, signature).is_ok()
            }
            (Material::P384(point), "ES384") => {
                let key = UnparsedPublicKey::new(&signature::ECDSA_P384_SHA384_FIXED, point);
                key.verify(message, signature).is_ok()
            }
            (Material::P256(_) | Material::P384(_), _) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};

    use super::*;

    const NOW: u64 = 1_700_000_000;

    struct Provider {
        pair: EcdsaKeyPair,
    }

    impl Provider {
        fn new() -> Provider {
            let (kind, chance) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
            let pkcs8 = EcdsaKeyPair::generate_pkcs8(kind, &chance).unwrap();
            Provider { pair: EcdsaKeyPair::from_pkcs8(kind, pkcs8.as_ref(), &chance).unwrap() }
        }

        fn jwks(&self) -> String {
            let point = self.pair.public_key().as_ref();
            let (x, y) = point[1..].split_at(32);
            let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
            format!(r#"{{"keys":[{{"kty":"EC","crv":"P-256","kid":"k1","x":"{x}","y":"{y}"}}]}}"#)
        }

        fn issuer(&self) -> Issuer {
            let audiences = vec!["https://partita".to_owned()];
            let keys = PublishedKeys::fixed(&self.jwks()).unwrap();
            Issuer::new("https://issuer", audiences, keys).unwrap()
        }

        fn token(&self, header: &str, claims: &str) -> String {
            let encoded = |text: &str| URL_SAFE_NO_PAD.encode(text);
            let signed = format!("{}.{}", encoded(header), encoded(claims));
            let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
            format!("{PREFIX}{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
        }
    }

    const HEADER: &str = r#"{"alg":"ES256","kid":"k1"}"#;

    fn claims(change: &str) -> String {
        let mut claims = Value::parse(
            br#"{"iss":"https://issuer","aud":"https://partita","sub":"alice","exp":1700000100}"#,
        )
        .unwrap();
        let Value::Object(members) = &mut claims else { panic!() };
        let Value::Object(changes) = Value::parse(change.as_bytes()).unwrap() else { panic!() };
        for (name, value) in changes.iter() {
            members.insert(name, value.clone());
        }
        claims.to_json()
    }

    #[test]
    fn a_token_says_who_its_bearer_is() {
        let provider = Provider::new();
        let issuers = [provider.issuer()];
        let verify = |claims: &str| {
            verify_bearer(&issuers, &provider.token(HEADER, claims), NOW).unwrap().ids
        };
        assert_eq!(verify(&claims("{}")), ["alice"]);
        assert_eq!(verify(&claims(r#"{"oid":"o","groups":["g","h"]}"#)), ["o", "alice", "g", "h"]);
        assert_eq!(verify(&claims(r#"{"aud":["x","https://partita"]}"#)), ["alice"]);
        // Escaped, as clients send it.
        let escaped = provider.token(HEADER, &claims("{}")).replace('=', "%3D").replace('&', "%26");
        assert!(is_bearer_token(&escaped));
        assert_eq!(verify_bearer(&issuers, &escaped, NOW).unwrap().ids, ["alice"]);
    }

    #[test]
    fn what_is_not_right_is_refused() {
        let (provider, other) = (Provider::new(), Provider::new());
        let issuers = [provider.issuer()];
        let good = provider.token(HEADER, &claims("{}"));
        let mut cases = vec![
            (other.token(HEADER, &claims("{}")), "signature"),
            (provider.token(r#"{"alg":"none"}"#, &claims("{}")), "signature"),
            (provider.token(r#"{"alg":"HS256","kid":"k1"}"#, &claims("{}")), "signature"),
            (provider.token(r#"{"alg":"ES256","kid":"k2"}"#, &claims("{}")), "signature"),
            (provider.token("[]", &claims("{}")), "no JWT"),
            (format!("{PREFIX}a.b"), "no JWT"),
            (format!("type=aad&ver=2.0&sig={}", &good[PREFIX.len()..]), "begins with"),
            (format!("{PREFIX}{}", "a".repeat(TOKEN_BYTES_MAX + 1)), "too long"),
        ];
        for (change, reason) in [
            (r#"{"iss":"https://elsewhere"}"#, "issuer"),
            (r#"{"aud":"https://other"}"#, "audience"),
            (r#"{"aud":17}"#, "audience"),
            (r#"{"exp":1699999699}"#, "ended 301"),
            (r#"{"exp":"later"}"#, "no end"),
            (r#"{"nbf":1700000301}"#, "not valid yet"),
            (r#"{"sub":""}"#, "names no principal"),
        ] {
            cases.push((provider.token(HEADER, &claims(change)), reason));
        }
        for (token, reason) in cases {
            match verify_bearer(&issuers, &token, NOW) {
                Err(AuthError::Bearer(text)) => assert!(text.contains(reason), "{reason}: {text}"),
                other => panic!("{reason}: {other:?}"),
            }
        }
        // Changed after it was signed.
        let at = good.len() - 90;
        for replacement in ["A", "B"] {
            let forged = format!("{}{replacement}{}", &good[..at], &good[at + 1..]);
            assert!(forged == good || verify_bearer(&issuers, &forged, NOW).is_err());
        }
        assert_eq!(verify_bearer(&[], &good, NOW), Err(AuthError::NoIssuers));
    }

    #[test]
    fn keys_that_cannot_be_used_are_told() {
        for jwks in ["{", "{}", r#"{"keys":[]}"#, r#"{"keys":[{"kty":"oct","k":"AA"}]}"#] {
            assert!(PublishedKeys::fixed(jwks).is_err(), "{jwks}");
        }
        let keys = PublishedKeys::fixed(&Provider::new().jwks()).unwrap();
        assert!(Issuer::new("i", Vec::new(), keys).is_err(), "it has no audience");
    }

    #[tokio::test]
    async fn only_a_key_that_is_not_known_is_a_reason_to_fetch() {
        let provider = Provider::new();
        let jwks = provider.jwks();
        let keys = PublishedKeys::fetched("https://issuer/keys", move || {
            let jwks = jwks.clone();
            Box::pin(async move { Ok(jwks) })
        });
        let issuers =
            [Issuer::new("https://issuer", vec!["https://partita".into()], keys).unwrap()];
        let asks = |token: &str| unknown_key(&issuers, token).is_some();
        let good = provider.token(HEADER, &claims("{}"));
        let early = verify_bearer(&issuers, &good, NOW).unwrap_err().to_string();
        assert!(early.contains("not here yet") && asks(&good), "{early}");
        issuers[0].renew(NOW).await;
        assert_eq!(verify_bearer(&issuers, &good, NOW).unwrap().ids, ["alice"]);
        assert!(!asks(&good));
        assert!(!asks(&Provider::new().token(HEADER, &claims("{}"))), "that key is known");
        assert!(!asks(&provider.token(HEADER, &claims(r#"{"iss":"https://elsewhere"}"#))));
        assert!(!asks("type=aad&ver=1.0&sig=x"));
        let next = r#"{"alg":"ES256","kid":"k2"}"#;
        assert!(asks(&provider.token(next, &claims("{}"))));
        assert!(asks(&Provider::new().token(r#"{"alg":"ES256"}"#, &claims("{}"))), "nameless");
        let fixed = [provider.issuer()];
        assert!(unknown_key(&fixed, &provider.token(next, &claims("{}"))).is_none());
    }

    fn for_emulator(key_id: &str, signature: &str, ends: u64) -> String {
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        let header = part(&format!(r#"{{"typ":"JWT","alg":"RS256","kid":"{key_id}"}}"#));
        let claims = part(&format!(r#"{{"oid":"o","nbf":{NOW},"exp":{ends}}}"#));
        format!("{PREFIX}{header}.{claims}.{}", part(signature))
    }

    #[test]
    fn a_token_for_an_emulator_is_signed_with_the_key_itself() {
        let key = "a".repeat(88);
        let keys = Keys { primary: Some(Key::parse(&key).unwrap()), ..Keys::default() };
        let verify = |token: &str| verify_emulator(&keys, token, NOW);
        let good = for_emulator(EMULATOR_KEY_ID, &key, NOW + 60);
        assert_eq!(verify(&good), Some(Ok(Principal::ReadWrite)));
        assert_eq!(verify_emulator(&Keys::default(), &good, NOW).map(|r| r.is_err()), Some(true));
        let other_name = for_emulator("x_9KSusKU5YcHf4", &key, NOW + 60);
        assert_eq!(verify(&other_name), Some(Ok(Principal::ReadWrite)));
        let ended = verify(&for_emulator("another", &key, NOW - 3_600));
        assert!(matches!(ended, Some(Err(AuthError::Bearer(_)))), "{ended:?}");
        assert_eq!(verify(&for_emulator("another", &"b".repeat(88), NOW + 60)), None);
        // In the other alphabet, with padding.
        let signed = other_name.rsplit_once('.').unwrap().0;
        let padded = format!("{signed}.{}==", STANDARD_NO_PAD.encode("a".repeat(88)));
        assert_eq!(verify(&padded), Some(Ok(Principal::ReadWrite)));
        for bad in [
            for_emulator(EMULATOR_KEY_ID, &"b".repeat(88), NOW + 60),
            for_emulator(EMULATOR_KEY_ID, "", NOW + 60),
            for_emulator(EMULATOR_KEY_ID, &key, NOW - 3_600),
        ] {
            assert!(verify(&bad).unwrap().is_err(), "{bad}");
        }
        assert_eq!(verify("type=aad&ver=1.0&sig=x"), None);
    }
}

//! An identity provider of one's own, for trying roles without a real one.
//!
//! It is a key pair: the public half goes where a real provider's published keys would go, the
//! private half signs tokens. Who has it can be anybody, so it belongs on a developer's machine.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use partita_model::{Object, Value};
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};

/// A key pair that signs tokens (P-256, ES256).
pub struct OwnIssuer {
    pair: EcdsaKeyPair,
}

/// What a token says.
#[derive(Clone, Copy, Debug)]
pub struct TokenClaims<'a> {
    pub issuer: &'a str,
    pub audience: &'a str,
    pub principal: &'a str,
    pub issued_unix_seconds: u64,
    pub ends_unix_seconds: u64,
}

impl OwnIssuer {
    /// A new key pair, as PKCS#8.
    pub fn generate() -> Result<Vec<u8>, String> {
        let kind = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(kind, &SystemRandom::new());
        pkcs8.map(|pkcs8| pkcs8.as_ref().to_vec()).map_err(|error| error.to_string())
    }

    /// The issuer with this key pair.
    pub fn of_pkcs8(pkcs8: &[u8]) -> Result<OwnIssuer, String> {
        let kind = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pair = EcdsaKeyPair::from_pkcs8(kind, pkcs8, &SystemRandom::new());
        pair.map(|pair| OwnIssuer { pair }).map_err(|error| error.to_string())
    }

    /// What it publishes: a JWK set.
    pub fn jwks(&self) -> String {
        // An uncompressed point: a byte that says so, and two halves.
        let point = self.pair.public_key().as_ref().get(1..).unwrap_or_default();
        let (x, y) = point.split_at(point.len() / 2);
        let key = Object::new()
            .with("kty", "EC")
            .with("crv", "P-256")
            .with("use", "sig")
            .with("kid", self.key_id())
            .with("x", URL_SAFE_NO_PAD.encode(x))
            .with("y", URL_SAFE_NO_PAD.encode(y));
        Value::from(Object::new().with("keys", vec![Value::from(key)])).to_json()
    }

    /// A name that no other key pair has.
    fn key_id(&self) -> String {
        URL_SAFE_NO_PAD.encode(digest(&SHA256, self.pair.public_key().as_ref()))
    }

    /// A signed token (JWT).
    pub fn token(&self, claims: &TokenClaims<'_>) -> Result<String, String> {
        let seconds = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
        let header =
            Object::new().with("alg", "ES256").with("typ", "JWT").with("kid", self.key_id());
        let body = Object::new()
            .with("iss", claims.issuer)
            .with("aud", claims.audience)
            .with("sub", claims.principal)
            .with("oid", claims.principal)
            .with("iat", seconds(claims.issued_unix_seconds))
            .with("nbf", seconds(claims.issued_unix_seconds))
            .with("exp", seconds(claims.ends_unix_seconds));
        let encoded = |object: Object| URL_SAFE_NO_PAD.encode(Value::from(object).to_json());
        let signed = format!("{}.{}", encoded(header), encoded(body));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes());
        let signature = signature.map_err(|error| error.to_string())?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{Issuer, PublishedKeys, verify_bearer};

    #[test]
    fn its_tokens_are_believed_where_its_keys_are_known() {
        let issuer = OwnIssuer::of_pkcs8(&OwnIssuer::generate().unwrap()).unwrap();
        let token = issuer.token(&TokenClaims {
            issuer: "own",
            audience: "here",
            principal: "alice",
            issued_unix_seconds: 1_000,
            ends_unix_seconds: 2_000,
        });
        let keys = PublishedKeys::fixed(&issuer.jwks()).unwrap();
        let known = [Issuer::new("own", vec!["here".to_owned()], keys).unwrap()];
        let header = format!("type=aad&ver=1.0&sig={}", token.unwrap());
        assert_eq!(verify_bearer(&known, &header, 1_500).unwrap().ids, ["alice", "alice"]);
        assert!(verify_bearer(&known, &header, 2_300).is_err());
        assert!(OwnIssuer::of_pkcs8(b"nonsense").is_err());
    }
}

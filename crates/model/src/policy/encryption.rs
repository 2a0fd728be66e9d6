//! Which properties clients encrypt before they send them.
//!
//! The server never sees the keys: it keeps the policy and hands it out, and the SDKs act on it.
//! So the checks here are those that keep clients from a policy they could not follow.

use crate::error::{Error, Result};
use crate::path::PropertyPath;
use crate::policy::shape;
use crate::value::{Object, Value};

/// A container's client encryption policy.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientEncryptionPolicy {
    /// The encrypted paths.
    pub paths: Vec<EncryptedPath>,
    /// 1, or 2 which also allows `/id` and the partition key.
    pub format_version: u32,
}

/// One encrypted path.
#[derive(Clone, Debug, PartialEq)]
pub struct EncryptedPath {
    /// A top-level property.
    pub path: PropertyPath,
    /// The id of the client encryption key in the database.
    pub key_id: String,
    /// Equal plain texts give equal cipher texts, so that equality can be queried.
    pub deterministic: bool,
}

/// The one algorithm there is.
const ALGORITHM: &str = "AEAD_AES_256_CBC_HMAC_SHA256";

impl ClientEncryptionPolicy {
    /// Reads the member `clientEncryptionPolicy`.
    pub(super) fn parse(value: &Value) -> Result<ClientEncryptionPolicy> {
        let policy = shape::object(value, "clientEncryptionPolicy")?;
        let version = match shape::present(policy, "policyFormatVersion") {
            None => 1,
            Some(value) => shape::integer(value, "policyFormatVersion")?,
        };
        let format_version = match version {
            1 => 1,
            2 => 2,
            other => {
                return Err(Error::bad_request(format!(
                    "'policyFormatVersion' must be 1 or 2, it is {other}"
                )));
            }
        };
        let mut paths: Vec<EncryptedPath> = Vec::new();
        for entry in shape::array_or_empty(policy, "includedPaths")? {
            let entry = EncryptedPath::parse(entry, format_version)?;
            if paths.iter().any(|other| other.path.segments() == entry.path.segments()) {
                return Err(Error::bad_request(format!(
                    "'clientEncryptionPolicy' names the path {} twice",
                    entry.path.text()
                )));
            }
            paths.push(entry);
        }
        Ok(ClientEncryptionPolicy { paths, format_version })
    }

    /// The policy as clients see it.
    pub(super) fn to_value(&self) -> Value {
        let paths: Vec<Value> = self.paths.iter().map(EncryptedPath::to_value).collect();
        Value::from(
            Object::new()
                .with("includedPaths", paths)
                .with("policyFormatVersion", Value::from(i64::from(self.format_version))),
        )
    }
}

impl EncryptedPath {
    fn parse(value: &Value, format_version: u32) -> Result<EncryptedPath> {
        let entry = shape::object(value, "clientEncryptionPolicy.includedPaths")?;
        let text = |name: &str| -> Result<&str> {
            shape::string(shape::required(entry, name, "A path of 'clientEncryptionPolicy'")?, name)
        };
        let path = PropertyPath::parse(text("path")?)?;
        let [name] = path.segments() else {
            return Err(Error::bad_request(format!(
                "'clientEncryptionPolicy' names {}; only top-level properties can be encrypted",
                path.text()
            )));
        };
        let kind = text("encryptionType")?;
        let kinds = [("Deterministic", true), ("Randomized", false)];
        let deterministic = shape::one_of(kind, &kinds).ok_or_else(|| {
            Error::bad_request(format!(
                "'encryptionType' is '{kind}'; it must be Deterministic or Randomized"
            ))
        })?;
        if name == "id" && (format_version < 2 || !deterministic) {
            return Err(Error::bad_request(
                "The path /id can only be encrypted with policyFormatVersion 2 and the \
                 encryptionType Deterministic",
            ));
        }
        let algorithm = text("encryptionAlgorithm")?;
        if algorithm != ALGORITHM {
            return Err(Error::bad_request(format!(
                "'encryptionAlgorithm' is '{algorithm}'; it must be {ALGORITHM}"
            )));
        }
        let key_id = text("clientEncryptionKeyId")?.to_owned();
        Ok(EncryptedPath { path, key_id, deterministic })
    }

    fn to_value(&self) -> Value {
        let kind = if self.deterministic { "Deterministic" } else { "Randomized" };
        Value::from(
            Object::new()
                .with("path", self.path.text())
                .with("clientEncryptionKeyId", self.key_id.as_str())
                .with("encryptionType", kind)
                .with("encryptionAlgorithm", ALGORITHM),
        )
    }
}

//! `partita dev-token`: roles can be tried without an identity provider.
//!
//! The first call makes an access file with an issuer of one's own, whose private key lies beside
//! it, and gives the principal the contributor's role; every call prints a token for a principal.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use partita_gateway::auth::{OwnIssuer, TokenClaims};
use partita_model::Clock;

use crate::args::DevTokenArgs;
use crate::failure::Failure;

const ISSUER: &str = "partita-dev";
const AUDIENCE: &str = "partita";

/// Prints a token.
pub(crate) fn run(args: &DevTokenArgs, clock: &dyn Clock) -> Result<(), Failure> {
    let file = &args.file;
    if file.extension().and_then(|ending| ending.to_str()) != Some("toml") {
        return Err(Failure::usage("the access file's name must end with .toml"));
    }
    let key_file = file.with_extension("issuer.p8");
    let issuer = match fs::read(&key_file) {
        Ok(pkcs8) => OwnIssuer::of_pkcs8(&pkcs8),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !file.exists() => {
            make(file, &key_file, &args.principal)
        }
        Err(error) => Err(error.to_string()),
    };
    let issuer = issuer.map_err(|why| Failure::usage(format!("{}: {why}", key_file.display())))?;
    let now = clock.unix_millis() / 1_000;
    let token = issuer.token(&TokenClaims {
        issuer: ISSUER,
        audience: AUDIENCE,
        principal: &args.principal,
        issued_unix_seconds: now,
        ends_unix_seconds: now.saturating_add(args.hours.saturating_mul(3_600)),
    });
    let token = token.map_err(Failure::other)?;
    writeln!(io::stdout(), "{token}").map_err(|error| Failure::other(error.to_string()))
}

/// Makes the issuer and a file that trusts it.
fn make(file: &Path, key_file: &Path, principal: &str) -> Result<OwnIssuer, String> {
    let pkcs8 = OwnIssuer::generate()?;
    let issuer = OwnIssuer::of_pkcs8(&pkcs8)?;
    super::keys::write_secret(key_file, &pkcs8).map_err(|error| error.to_string())?;
    let quoted = |text: &str| partita_model::Value::from(text).to_json();
    let text = format!(
        "# An identity provider of your own, for trying roles: whoever has {} can be anybody.\n\
         [[issuer]]\nissuer = \"{ISSUER}\"\naudience = [\"{AUDIENCE}\"]\njwks = '{}'\n\n\
         [[role_assignment]]\nprincipal_id = {}\n\
         role_definition = \"Cosmos DB Built-in Data Contributor\"\nscope = \"/\"\n",
        key_file.display(),
        issuer.jwks(),
        quoted(principal),
    );
    fs::write(file, text).map_err(|error| error.to_string())?;
    Ok(issuer)
}

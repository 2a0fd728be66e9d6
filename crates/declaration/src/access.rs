//! `--access-file`: which identity providers are trusted, and which roles their principals have.
//!
//! ```toml
//! [[issuer]]
//! issuer = "https://login.example/tenant/v2.0"   # the `iss` of its tokens
//! audience = ["https://cosmos.azure.com"]        # the `aud` of tokens for this server
//! jwks_file = "keys.json"                        # or jwks_url = "https://…", or jwks = "{…}"
//!
//! [[role_definition]]
//! name = "clerk"
//! data_actions = ["Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/*"]
//!
//! [[role_assignment]]
//! principal_id = "6f1c…"                         # `oid` or `sub` of a token, or one of its groups
//! role_definition = "clerk"                      # or a built-in role, by name or id
//! scope = "/dbs/shop/colls/orders"               # or /dbs/shop; without one the whole account
//! ```
//!
//! The file is read at the start and again on SIGHUP. Keys behind a URL are not fetched by reading
//! it: that is done once the server runs, so that an identity provider which is slow or down does
//! not hold it up.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use partita_engine::{DataAction, RoleAssignment, RoleScope};
use partita_gateway::auth::{Issuer, PublishedKeys};
use partita_http_client::{Authorities, Limits, OneShotRequest, Url};
use partita_model::Value;

use crate::file::{self, Block, Read};

/// Answers of identity providers are small, and those who wait for them are clients.
const JWKS_LIMITS: Limits = Limits { timeout: Duration::from_secs(5), response_bytes_max: 1 << 20 };

/// The service's own roles: names, the end of the id, actions.
const BUILT_IN: [(&str, &str, &[&str]); 2] = [
    (
        "Cosmos DB Built-in Data Reader",
        "00000000-0000-0000-0000-000000000001",
        &[
            "Microsoft.DocumentDB/databaseAccounts/readMetadata",
            "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/read",
            "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/executeQuery",
            "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/readChangeFeed",
        ],
    ),
    (
        "Cosmos DB Built-in Data Contributor",
        "00000000-0000-0000-0000-000000000002",
        &[
            "Microsoft.DocumentDB/databaseAccounts/readMetadata",
            "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/*",
        ],
    ),
];

/// What a file says.
#[derive(Debug, Default)]
pub struct AccessFile {
    pub issuers: Vec<Issuer>,
    pub roles: BTreeMap<String, Vec<RoleAssignment>>,
}

impl AccessFile {
    /// Reads it, and what it refers to.
    pub fn read(path: &Path) -> Read<AccessFile> {
        let folder = path.parent().unwrap_or(Path::new("."));
        AccessFile::of(&file::read(path)?, folder)
    }

    fn of(value: &Value, folder: &Path) -> Read<AccessFile> {
        let members = ["issuer", "role_definition", "role_assignment"];
        let file = Block::of("the file", value, &members)?;
        let issuer = |value: &Value| issuer(value, folder);
        let issuers = file.blocks("issuer")?.iter().map(issuer).collect::<Read<Vec<Issuer>>>()?;
        let definitions = definitions(&file)?;
        let mut roles: BTreeMap<String, Vec<RoleAssignment>> = BTreeMap::new();
        for value in file.blocks("role_assignment")? {
            let (principal, assignment) = assignment(value, &definitions)?;
            roles.entry(principal).or_default().push(assignment);
        }
        Ok(AccessFile { issuers, roles })
    }
}

fn issuer(value: &Value, folder: &Path) -> Read<Issuer> {
    let members = ["issuer", "audience", "jwks", "jwks_file", "jwks_url", "jwks_ca_file"];
    let block = Block::of("an issuer", value, &members)?;
    let name = text(&block, "issuer")?;
    let audiences = match block.get("audience") {
        Some(Value::String(one)) => vec![one.to_string()],
        _ => texts(&block, "audience")?,
    };
    let keys = keys(&block, folder).map_err(|why| format!("the issuer '{name}': {why}"))?;
    Issuer::new(&name, audiences, keys).map_err(|why| format!("the issuer '{name}': {why}"))
}

fn keys(block: &Block<'_>, folder: &Path) -> Read<PublishedKeys> {
    let sources = ["jwks", "jwks_file", "jwks_url"].map(|source| block.get(source));
    let authorities = block.get("jwks_ca_file").and_then(Value::as_str);
    match (sources.map(|source| source.and_then(Value::as_str)), authorities) {
        ([None, None, Some(url)], _) => fetched(url, authorities.map(|file| folder.join(file))),
        (_, Some(_)) => Err("jwks_ca_file is for keys behind a jwks_url".to_owned()),
        ([Some(jwks), None, None], _) => PublishedKeys::fixed(jwks),
        ([None, Some(file), None], _) => {
            let failed = |why: String| format!("jwks_file '{file}': {why}");
            let jwks = fs::read_to_string(folder.join(file));
            PublishedKeys::fixed(&jwks.map_err(|error| failed(error.to_string()))?).map_err(failed)
        }
        _ => Err("it needs one of jwks, jwks_file, jwks_url".to_owned()),
    }
}

/// Keys behind a URL, to be fetched later.
fn fetched(url: &str, ca_file: Option<PathBuf>) -> Read<PublishedKeys> {
    let request = Arc::new(OneShotRequest {
        url: Url::parse(url).map_err(|why| format!("jwks_url: {why}"))?,
        authorities: Authorities::read("jwks_ca_file", ca_file.as_deref())?,
        limits: JWKS_LIMITS,
    });
    Ok(PublishedKeys::fetched(url, move || {
        let request = Arc::clone(&request);
        Box::pin(async move {
            let failed = |why: String| format!("{}: {why}", request.url.endpoint.url());
            let jwks = request.get().await.map_err(failed)?;
            String::from_utf8(jwks.into()).map_err(|error| failed(error.to_string()))
        })
    }))
}

/// Roles by name, the built-in ones also by id.
fn definitions(file: &Block<'_>) -> Read<BTreeMap<String, BTreeSet<DataAction>>> {
    let mut definitions = BTreeMap::new();
    for (name, id, actions) in BUILT_IN {
        let actions = actions_of(name, actions.iter().copied())?;
        definitions.insert(name.to_owned(), actions.clone());
        definitions.insert(id.to_owned(), actions);
    }
    for value in file.blocks("role_definition")? {
        let block = Block::of("a role_definition", value, &["name", "data_actions"])?;
        let name = block.name()?;
        let actions = texts(&block, "data_actions")?;
        let actions = actions_of(&name, actions.iter().map(String::as_str))?;
        if definitions.insert(name.clone(), actions).is_some() {
            return Err(format!("there are two roles '{name}'"));
        }
    }
    Ok(definitions)
}

fn actions_of<'a>(role: &str, names: impl Iterator<Item = &'a str>) -> Read<BTreeSet<DataAction>> {
    let mut actions = BTreeSet::new();
    for name in names {
        let known = DataAction::ALL.map(DataAction::name).join(", ");
        let named = DataAction::named(name);
        actions.extend(named.ok_or_else(|| {
            format!("the role '{role}': there is no action '{name}'; there are: {known}")
        })?);
    }
    Ok(actions)
}

fn assignment(
    value: &Value,
    definitions: &BTreeMap<String, BTreeSet<DataAction>>,
) -> Read<(String, RoleAssignment)> {
    let members = ["principal_id", "role_definition", "scope"];
    let block = Block::of("a role_assignment", value, &members)?;
    let role = text(&block, "role_definition")?;
    // The service's ids are paths that end with the role's own.
    let own = role.rsplit('/').next().unwrap_or(&role);
    let actions = definitions.get(&role).or_else(|| definitions.get(own));
    let actions = actions.ok_or_else(|| format!("there is no role '{role}'"))?.clone();
    let scope = match block.get("scope") {
        Some(_) => scope(&text(&block, "scope")?)?,
        None => RoleScope::Account,
    };
    Ok((text(&block, "principal_id")?, RoleAssignment { scope, actions }))
}

fn scope(text: &str) -> Read<RoleScope> {
    let segments: Vec<&str> = text.split('/').filter(|segment| !segment.is_empty()).collect();
    match segments.as_slice() {
        [] => Ok(RoleScope::Account),
        ["dbs", database] => Ok(RoleScope::Database((*database).to_owned())),
        ["dbs", database, "colls", container] => Ok(RoleScope::Container {
            database: (*database).to_owned(),
            container: (*container).to_owned(),
        }),
        _ => Err(format!("the scope '{text}' is none: /, /dbs/NAME or /dbs/NAME/colls/NAME")),
    }
}

fn text(block: &Block<'_>, name: &str) -> Read<String> {
    let text = block.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    text.map(str::to_owned).ok_or_else(|| format!("{} needs '{name}', a text", block.what))
}

fn texts(block: &Block<'_>, name: &str) -> Read<Vec<String>> {
    let list = block.get(name).and_then(Value::as_array);
    let texts = list.map(|list| list.iter().map(|text| text.as_str().map(str::to_owned)).collect());
    let texts: Option<Vec<String>> = texts.flatten();
    texts.ok_or_else(|| format!("'{name}' of {} must be a list of texts", block.what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::from_toml;

    fn read(text: &str) -> Read<AccessFile> {
        AccessFile::of(&from_toml(text)?, Path::new("."))
    }

    #[test]
    fn roles_are_given_where_the_file_says() {
        let file = read(
            r#"
            [[role_definition]]
            name = "clerk"
            data_actions = ["Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/*"]
            [[role_assignment]]
            principal_id = "a"
            role_definition = "clerk"
            scope = "/dbs/shop/colls/orders"
            [[role_assignment]]
            principal_id = "a"
            role_definition = "/x/sqlRoleDefinitions/00000000-0000-0000-0000-000000000001"
            scope = "/dbs/shop"
            [[role_assignment]]
            principal_id = "b"
            role_definition = "Cosmos DB Built-in Data Contributor"
            "#,
        )
        .unwrap();
        let (database, container) = ("shop".to_owned(), "orders".to_owned());
        let a = &file.roles["a"];
        assert_eq!(a[0].scope, RoleScope::Container { database: database.clone(), container });
        assert_eq!(a[0].actions.len(), 5);
        assert_eq!(a[1].scope, RoleScope::Database(database));
        assert_eq!(a[1].actions.len(), 4);
        assert_eq!(file.roles["b"][0].scope, RoleScope::Account);
        assert_eq!(file.roles["b"][0].actions.len(), DataAction::ALL.len());
    }

    #[test]
    fn nobody_is_asked_for_keys_while_the_file_is_read() {
        let text = "[[issuer]]\nissuer='i'\naudience='a'\njwks_url='https://nowhere.invalid/'";
        assert_eq!(read(text).unwrap().issuers[0].name(), "i");
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (text, reason) in [
            ("[[issuer]]\nissuer='i'\naudience='a'", "the issuer 'i': it needs one of jwks"),
            ("[[issuer]]\nissuer='i'\naudience='a'\njwks='{}'", "the issuer 'i'"),
            ("[[issuer]]\nissuer='i'\naudience='a'\njwks_url='ftp://x'", "jwks_url: write http"),
            (
                "[[issuer]]\nissuer='i'\naudience='a'\njwks_url='https://x'\njwks_ca_file='/none'",
                "jwks_ca_file /none",
            ),
            (
                "[[issuer]]\nissuer='i'\naudience='a'\njwks='{}'\njwks_ca_file='/none'",
                "is for keys behind a jwks_url",
            ),
            ("[[issuer]]\nissuer='i'\naudience='a'\njwks_file='/nowhere'", "/nowhere"),
            ("[[role_definition]]\nname='x'\ndata_actions=['drop']", "there is no action 'drop'"),
            ("[[role_assignment]]\nprincipal_id='x'\nrole_definition='y'", "no role 'y'"),
            ("[[role_assignment]]\nprincipal_id='x'", "role_definition"),
            (
                "[[role_assignment]]\nprincipal_id='x'\nscope='/colls/c'\n\
                 role_definition='Cosmos DB Built-in Data Reader'",
                "is none",
            ),
            ("[[role]]\nname='x'", "has no 'role'"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}

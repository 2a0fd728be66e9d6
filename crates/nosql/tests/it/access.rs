//! Every route with every kind of credential that does not open it: refused with the service's
//! status, and nothing is changed.
//!
//! The routes are written down here; that none is missing is checked against the names of the
//! operations in the door's own source.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::Method;
use partita_engine::{DataAction, RoleAssignment, RoleScope, block_on};
use partita_executor::Trust;
use partita_gateway::auth::{Issuer, Key, Keys, OwnIssuer, PublishedKeys, TokenClaims};
use partita_gateway::{Door, Figures, Request};

use crate::support::{Ask, PRIMARY, READONLY, World};

pub(crate) const WRONG: &str = "d3Jvbmctd3Jvbmctd3Jvbmctd3Jvbmctd3Jvbmctd3I=";
const QUERY: (&str, &str) = ("content-type", "application/query+json");
const IS_QUERY: (&str, &str) = ("x-ms-documentdb-isquery", "True");
const UPSERT: (&str, &str) = ("x-ms-documentdb-is-upsert", "True");
const KEY: (&str, &str) = ("x-ms-documentdb-partitionkey", r#"["a"]"#);
const SELECT: &str = r#"{"query":"SELECT * FROM c"}"#;
const BATCH: &str = r#"[{"operationType":"Create","resourceBody":{"id":"9","pk":"a"}}]"#;
const BULK: &str =
    r#"[{"operationType":"Create","partitionKey":"[\"a\"]","resourceBody":{"id":"9","pk":"a"}}]"#;
const IMPORT: &str = r#"[[{"id":"7","pk":"a"}],{"enableUpsert":true}]"#;
const DEFINITION: &str =
    r#"{"id":"c2","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
const SAME: &str = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
const PERMISSION: &str = r#"{"id":"p2","permissionMode":"Read","resource":"dbs/d/colls/other"}"#;
const PERMISSION_1: &str = r#"{"id":"p","permissionMode":"Read","resource":"dbs/d/colls/c"}"#;
const SCRIPT: &str = r#"{"id":"s","body":"function f() {}"}"#;
const ENCRYPTION_KEY: &str = r#"{"id":"k","encryptionAlgorithm":"AEAD_AES_256_CBC_HMAC_SHA256",
    "wrappedDataEncryptionKey":"AAEC","keyWrapMetadata":{"type":"t","name":"n","value":"v",
    "algorithm":"RSA-OAEP"}}"#;
const ADMIN: &str = "/_partita/databases/d/containers/c";

/// A request to a route.
struct Route {
    method: Method,
    path: String,
    body: String,
    headers: Vec<(&'static str, &'static str)>,
    /// It changes nothing: a read-only key opens it.
    reads: bool,
}

fn reads(method: Method, path: &str, body: &str) -> Route {
    let (path, body) = (path.to_owned(), body.to_owned());
    Route { method, path, body, headers: Vec::new(), reads: true }
}

fn writes(method: Method, path: &str, body: &str) -> Route {
    Route { reads: false, ..reads(method, path, body) }
}

impl Route {
    fn with(mut self, header: (&'static str, &'static str)) -> Route {
        self.headers.push(header);
        self
    }

    fn ask<'w>(&self, world: &'w World) -> Ask<'w> {
        let ask = world.ask(self.method.clone(), &self.path, self.body.clone());
        let ask = self.headers.iter().fold(ask, |ask, (name, value)| ask.header(name, value));
        match self.path.strip_prefix('/') {
            Some(path) if path.starts_with("_partita") => {
                ask.signing("_partita", path.split('?').next().unwrap())
            }
            Some("dbs/d/colls/c/operations/partitionkeydelete") => {
                ask.signing("colls", "dbs/d/colls/c")
            }
            _ => ask,
        }
    }

    fn name(&self) -> String {
        format!("{} {} {:?}", self.method, self.path, self.headers)
    }
}

/// All routes, in an order in which an account's key can walk them. `offer` is the container's.
fn routes(offer: &str) -> Vec<Route> {
    let (get, post, put) = (Method::GET, Method::POST, Method::PUT);
    let (patch, delete) = (Method::PATCH, Method::DELETE);
    let (docs, item) = ("/dbs/d/colls/c/docs", "/dbs/d/colls/c/docs/1");
    let changed_offer =
        format!(r#"{{"id":"{offer}","_rid":"{offer}","content":{{"offerThroughput":500}}}}"#);
    let read_all = [
        "/dbs",
        "/dbs/d",
        "/dbs/d/colls",
        "/dbs/d/colls/c",
        "/dbs/d/colls/c/pkranges",
        "/dbs/d/colls/c/conflicts",
        "/dbs/d/colls/c/conflicts/x",
        "/offers",
    ];
    let mut routes: Vec<Route> = read_all.iter().map(|path| reads(get.clone(), path, "")).collect();
    routes.extend([
        reads(get.clone(), &format!("/offers/{offer}"), ""),
        reads(get.clone(), "/dbs/d/colls/c", "")
            .with(("x-ms-documentdb-populatequotainfo", "True")),
        reads(get.clone(), item, "").with(KEY),
        reads(get.clone(), docs, "").with(KEY),
        reads(get.clone(), docs, "").with(("a-im", "Incremental feed")).with(KEY),
        reads(post.clone(), docs, SELECT).with(IS_QUERY).with(QUERY).with(KEY),
        reads(post.clone(), docs, SELECT)
            .with(("x-ms-cosmos-is-query-plan-request", "True"))
            .with(QUERY),
        reads(get.clone(), &format!("{ADMIN}/partitions"), ""),
        reads(get.clone(), &format!("{ADMIN}/queries"), ""),
        reads(get.clone(), &format!("{ADMIN}/explain-key?key=%5B%22a%22%5D"), ""),
        writes(post.clone(), "/dbs", r#"{"id":"d2"}"#),
        writes(post.clone(), "/dbs/d/colls", DEFINITION),
        writes(put.clone(), "/dbs/d/colls/c", SAME),
        writes(put.clone(), &format!("/offers/{offer}"), &changed_offer),
        writes(post.clone(), docs, r#"{"id":"3","pk":"a"}"#).with(KEY),
        writes(post.clone(), docs, r#"{"id":"3","pk":"a"}"#).with(KEY).with(UPSERT),
        writes(put.clone(), item, r#"{"id":"1","pk":"a","v":2}"#).with(KEY),
        writes(patch, item, r#"[{"op":"set","path":"/v","value":3}]"#)
            .with(KEY)
            .with(("content-type", "application/json_patch+json")),
        writes(post.clone(), docs, BATCH)
            .with(KEY)
            .with(("x-ms-cosmos-is-batch-request", "True"))
            .with(("x-ms-cosmos-batch-atomic", "True")),
        writes(post.clone(), docs, BULK)
            .with(("x-ms-cosmos-is-batch-request", "True"))
            .with(("x-ms-documentdb-partitionkeyrangeid", "0")),
        writes(delete.clone(), item, "").with(KEY),
        writes(post.clone(), "/dbs/d/colls/c/operations/partitionkeydelete", "").with(KEY),
        writes(post.clone(), &format!("{ADMIN}/partitions/0/split"), ""),
        writes(post.clone(), &format!("{ADMIN}/partitions/merge"), r#"{"ids":["0","1"]}"#),
    ]);
    routes.extend(routes_of_resources());
    routes
}

/// Users, permissions and scripts, and the ends of everything.
fn routes_of_resources() -> Vec<Route> {
    let (get, post, put, delete) = (Method::GET, Method::POST, Method::PUT, Method::DELETE);
    let permissions = "/dbs/d/users/u/permissions";
    let mut routes = Vec::new();
    let users = [("/dbs/d/users", r#"{"id":"u2"}"#, r#"{"id":"u"}"#, "/dbs/d/users/u")];
    let under = [(permissions, PERMISSION, PERMISSION_1, "/dbs/d/users/u/permissions/p")];
    let scripts = ["sprocs", "triggers", "udfs"].map(|kind| format!("/dbs/d/colls/c/{kind}"));
    for (all, new, same, one) in users.into_iter().chain(under) {
        routes.extend([
            writes(get.clone(), all, ""),
            writes(get.clone(), one, ""),
            writes(post.clone(), all, new),
            writes(post.clone(), all, new).with(UPSERT),
            writes(put.clone(), one, same),
        ]);
    }
    for all in &scripts {
        let one = format!("{all}/s");
        routes.extend([
            reads(get.clone(), all, ""),
            reads(get.clone(), &one, ""),
            writes(post.clone(), all, SCRIPT),
            writes(post.clone(), all, SCRIPT).with(UPSERT),
            writes(put.clone(), &one, SCRIPT),
            writes(delete.clone(), &one, ""),
        ]);
    }
    routes.push(writes(post.clone(), "/dbs/d/colls/c/sprocs/s", "[]").with(KEY));
    routes.push(
        writes(post.clone(), "/dbs/d/colls/c/sprocs/__.sys.commonBulkInsert", IMPORT)
            .with(("x-ms-documentdb-partitionkeyrangeid", "0")),
    );
    let keys = "/dbs/d/clientencryptionkeys";
    routes.extend([
        reads(get.clone(), keys, ""),
        reads(get.clone(), &format!("{keys}/k"), ""),
        writes(post.clone(), keys, ENCRYPTION_KEY),
        writes(put.clone(), &format!("{keys}/k"), ENCRYPTION_KEY),
    ]);
    for last in ["/dbs/d/users/u/permissions/p", "/dbs/d/users/u", "/dbs/d/colls/other", "/dbs/d"] {
        routes.push(writes(delete.clone(), last, ""));
    }
    routes
}

pub(crate) struct Scene {
    pub(crate) world: World,
    routes: Vec<Route>,
    provider: OwnIssuer,
}

impl Scene {
    pub(crate) fn new() -> Scene {
        let world = World::with_container("400");
        world.post("/dbs/d/colls", &SAME.replace("\"c\"", "\"other\"")).expect(201);
        for container in ["c", "other"] {
            let docs = format!("/dbs/d/colls/{container}/docs");
            world.post(&docs, r#"{"id":"1","pk":"a"}"#).with_key().expect(201);
        }
        world.post("/dbs/d/users", r#"{"id":"u"}"#).expect(201);
        world.post("/dbs/d/users/u/permissions", PERMISSION_1).expect(201);
        let offer = world.get("/offers").expect(200).feed("Offers")[0].clone();
        let offer = offer.get("_rid").and_then(partita_model::Value::as_str).unwrap().to_owned();
        let provider = OwnIssuer::of_pkcs8(&OwnIssuer::generate().unwrap()).unwrap();
        let scene = Scene { routes: routes(&offer), world, provider };
        scene.trust(&[]);
        scene
    }

    /// The account's keys, and what the principal `alice` may do.
    pub(crate) fn trust(&self, roles: &[(RoleScope, &[DataAction])]) {
        let keys = Keys {
            primary: Some(Key::parse(PRIMARY).unwrap()),
            primary_readonly: Some(Key::parse(READONLY).unwrap()),
            ..Keys::default()
        };
        let keys_of_issuer = PublishedKeys::fixed(&self.provider.jwks()).unwrap();
        let issuer = Issuer::new("own", vec!["here".into()], keys_of_issuer).unwrap();
        let assignment = |(scope, actions): &(RoleScope, &[DataAction])| RoleAssignment {
            scope: scope.clone(),
            actions: actions.iter().copied().collect(),
        };
        let roles = [("alice".to_owned(), roles.iter().map(assignment).collect())];
        let trust = Trust { keys, issuers: vec![issuer], roles: roles.into(), ..Trust::default() };
        self.world.credentials.replace(trust);
    }

    pub(crate) fn alice(&self) -> String {
        let token = self.provider.token(&TokenClaims {
            issuer: "own",
            audience: "here",
            principal: "alice",
            issued_unix_seconds: 1_493_254_272,
            ends_unix_seconds: 1_493_257_872,
        });
        format!("type=aad&ver=1.0&sig={}", token.unwrap())
    }

    /// A token that lives ten seconds, of a user of its own: a user has one permission for a
    /// resource.
    pub(crate) fn token(&self, user: &str, resource: &str, more: &str) -> String {
        self.world.post("/dbs/d/users", &format!(r#"{{"id":"{user}"}}"#)).expect(201);
        let body = format!(r#"{{"id":"p","permissionMode":"All","resource":"{resource}"{more}}}"#);
        let asked = self.world.post(&format!("/dbs/d/users/{user}/permissions"), &body);
        asked.header("x-ms-documentdb-expiry-seconds", "10").expect(201).member("_token")
    }

    /// Everything there is, as the account's key sees it.
    fn everything(&self) -> Vec<String> {
        let paths = [
            "/dbs",
            "/dbs/d/colls",
            "/dbs/d/colls/c/docs",
            "/dbs/d/colls/other/docs",
            "/offers",
            "/dbs/d/users",
            "/dbs/d/colls/c/pkranges",
            "/dbs/d/colls/c/sprocs",
            "/dbs/d/colls/c/triggers",
            "/dbs/d/colls/c/udfs",
        ];
        let answers = paths.iter().map(|path| self.world.get(path).send());
        // Without a script runtime there are no scripts to list: 501, never the same text twice.
        let there = answers.filter(|answer| answer.status != 501);
        there
            .map(|answer| {
                assert_eq!(answer.status, 200, "{}", answer.text());
                answer.text()
            })
            .collect()
    }

    /// Walks all routes with a credential: each is refused with one of these, and nothing changes.
    fn all_refused(
        &self,
        who: &str,
        statuses: &[u16],
        with: impl for<'w> Fn(Ask<'w>) -> Ask<'w>,
        open: impl Fn(&Route) -> bool,
    ) {
        let before = self.everything();
        for route in self.routes.iter().filter(|route| !open(route)) {
            let answer = with(route.ask(&self.world)).send();
            let name = route.name();
            assert!(statuses.contains(&answer.status), "{who}: {name}: {}", answer.text());
        }
        assert_eq!(self.everything(), before, "{who} changed something");
    }
}

impl<'w> Ask<'w> {
    fn with_key(self) -> Ask<'w> {
        self.key(r#"["a"]"#)
    }

    pub(crate) fn bearing(self, token: &str) -> Ask<'w> {
        self.unsigned().header("authorization", token)
    }
}

fn none(_: &Route) -> bool {
    false
}

#[test]
fn the_routes_are_all_there_are() {
    let table = include_str!("../../../executor/src/profile.rs");
    let table = table.split("#[cfg(test)]").next().unwrap();
    let named: BTreeSet<&str> = table.split('"').skip(1).step_by(2).collect();
    assert!(named.len() > 40, "{named:?}");
    let scene = Scene::new();
    for route in &scene.routes {
        let answer = route.ask(&scene.world).send();
        assert!(![401, 403].contains(&answer.status), "{}: {}", route.name(), answer.text());
    }
    let metrics = scene.world.telemetry.render(Figures::All);
    let seen = metrics.split("operation=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let mut seen: BTreeSet<&str> = seen.collect();
    // Not a route of its own: it is asked along with a container.
    seen.insert("ContainerStatistics");
    let missing: Vec<&&str> = named.difference(&seen).collect();
    assert!(missing.is_empty(), "add a route to this file for {missing:?}");
}

#[test]
fn who_cannot_sign_gets_nowhere() {
    let scene = Scene::new();
    scene.all_refused("nobody", &[401], |ask| ask.unsigned(), none);
    scene.all_refused("a wrong key", &[401], |ask| ask.signed_by(WRONG), none);
    scene.all_refused("nonsense", &[401], |ask| ask.bearing("type=master&sig=x"), none);
    let old = "Thu, 27 Apr 2017 00:31:12 GMT";
    scene.all_refused("an old signature", &[403], |ask| ask.header("x-ms-date", old), none);
}

#[test]
fn the_head_alone_tells_whether_a_body_is_worth_reading() {
    let scene = Scene::new();
    let old = "Thu, 27 Apr 2017 00:31:12 GMT";
    let admitted = |ask: Ask<'_>| {
        let request = Request { body: Bytes::new(), ..ask.request() };
        let refusal = block_on(scene.world.door().admit(&request).refusal());
        refusal.map(|response| response.status.as_u16())
    };
    for route in &scene.routes {
        let ask = || route.ask(&scene.world);
        let name = route.name();
        assert_eq!(admitted(ask()), None, "{name}");
        assert_eq!(admitted(ask().signed_by(READONLY)), None, "{name}: rights are looked at later");
        assert_eq!(admitted(ask().unsigned()), Some(401), "{name}");
        assert_eq!(admitted(ask().signed_by(WRONG)), Some(401), "{name}");
        assert_eq!(admitted(ask().header("x-ms-date", old)), Some(403), "{name}");
        assert_eq!(admitted(ask().bearing(&scene.alice())), Some(403), "{name}: no roles");
    }
    let token = scene.token("reader", "dbs/d/colls/c", "");
    let write = || scene.world.post("/dbs/d/colls/c/docs", "{}").token(&token);
    assert_eq!(admitted(write()), None);
    scene.world.clock.advance_millis(11_000);
    assert_eq!(admitted(write()), Some(403), "the token has ended");
    let controls = scene.world.post("/_partita/faults", "{}");
    assert_eq!(admitted(controls), Some(403), "the controls are switched off");
}

#[test]
fn a_read_only_key_changes_nothing() {
    let scene = Scene::new();
    scene.all_refused("read-only", &[403], |ask| ask.signed_by(READONLY), |route| route.reads);
    for route in scene.routes.iter().filter(|route| route.reads) {
        let status = route.ask(&scene.world).signed_by(READONLY).send().status;
        assert!(![401, 403].contains(&status), "{}: {status}", route.name());
    }
}

#[test]
fn a_token_for_something_else_opens_nothing() {
    let scene = Scene::new();
    let foreign = scene.token("f", "dbs/d/colls/other", "");
    let other_container = |route: &Route| route.path == "/dbs/d/colls/other" && route.reads;
    scene.all_refused("a foreign token", &[403], |ask| ask.token(&foreign), other_container);
    let other_key = scene.token("k", "dbs/d/colls/c", r#","resourcePartitionKey":["b"]"#);
    // What every client must know of its container.
    let known = |route: &Route| {
        route.headers.iter().any(|(name, _)| *name == "x-ms-cosmos-is-query-plan-request")
            || route.reads
                && ["/dbs/d/colls/c", "/dbs/d/colls/c/pkranges"].contains(&&*route.path)
                && route.headers.is_empty()
    };
    let quota = |route: &Route| {
        route.headers.iter().any(|(name, _)| *name == "x-ms-documentdb-populatequotainfo")
    };
    let open = |route: &Route| known(route) || quota(route);
    scene.all_refused("a token for another key", &[403], |ask| ask.token(&other_key), open);
    let ended = scene.token("e", "dbs/d/colls/c", "");
    scene.world.clock.advance_millis(10_000);
    scene.all_refused("a token that ended", &[403], |ask| ask.token(&ended), none);
    scene.all_refused("no token", &[401], |ask| ask.token("type=resource&ver=1&sig=x;x;"), none);
}

#[test]
fn roles_open_what_they_name() {
    let scene = Scene::new();
    let token = scene.alice();
    scene.all_refused("a principal without roles", &[403], |ask| ask.bearing(&token), none);
    let account = || RoleScope::Account;
    // Only one action, and another one than any route needs but for conflicts.
    scene.trust(&[(account(), &[DataAction::ManageConflicts])]);
    let conflicts = |route: &Route| route.path.contains("/conflicts");
    scene.all_refused("no action", &[403], |ask| ask.bearing(&token), conflicts);
    // Everything, elsewhere.
    scene.trust(&[(RoleScope::Database("elsewhere".into()), &DataAction::ALL)]);
    scene.all_refused("another database", &[403], |ask| ask.bearing(&token), none);
    let container = RoleScope::Container { database: "d".into(), container: "other".into() };
    scene.trust(&[(container, &DataAction::ALL)]);
    scene.all_refused("another container", &[403], |ask| ask.bearing(&token), none);
}

#[test]
fn a_reader_reads_and_a_contributor_writes_items_and_nothing_else() {
    let scene = Scene::new();
    let token = scene.alice();
    let reader = [
        DataAction::ReadMetadata,
        DataAction::ReadItem,
        DataAction::ExecuteQuery,
        DataAction::ReadChangeFeed,
    ];
    scene.trust(&[(RoleScope::Account, &reader)]);
    let world = &scene.world;
    let get = |path: &str| world.get(path).with_key().bearing(&token);
    for path in ["/", "/dbs", "/dbs/d", "/dbs/d/colls", "/dbs/d/colls/c", "/dbs/d/colls/c/docs"] {
        get(path).expect(200);
    }
    get("/dbs/d/colls/c/docs/1").expect(200);
    let post = |body: &str| world.post("/dbs/d/colls/c/docs", body).with_key().bearing(&token);
    post(SELECT).header(IS_QUERY.0, IS_QUERY.1).header(QUERY.0, QUERY.1).expect(200);
    post(r#"{"id":"3","pk":"a"}"#).refused(403, "5301", "items/create");
    post(BATCH)
        .header("x-ms-cosmos-is-batch-request", "True")
        .header("x-ms-cosmos-batch-atomic", "True")
        .refused(403, "5301", "items/create");
    world.post("/dbs", r#"{"id":"x"}"#).bearing(&token).refused(403, "5300", "AAD token");
    get("/offers").refused(403, "5300", "AAD token");

    let here = RoleScope::Container { database: "d".into(), container: "c".into() };
    scene.trust(&[(here, &DataAction::ALL)]);
    post(r#"{"id":"3","pk":"a"}"#).expect(201);
    get("/dbs/d/colls/c/docs/3").expect(200);
    get("/dbs/d/colls/other/docs/1").refused(403, "5301", "/dbs/d/colls/other");
    get("/dbs/d/colls/nowhere/docs/1").refused(403, "5301", "");
    // By resource ids it is the same container.
    let rid = world.get("/dbs/d/colls/other").expect(200).member("_self");
    get(&format!("/{rid}docs")).refused(403, "5301", "/dbs/d/colls/other");
    scene.trust(&[]);
    get("/dbs/d/colls/c/docs/3").refused(403, "5301", "has no role");
}

#[test]
fn keys_can_be_exchanged_without_a_pause() {
    let scene = Scene::new();
    let token = scene.token("e", "dbs/d/colls/c", "");
    let rotate = |primary: &str, secondary: Option<&str>| {
        let keys = Keys {
            primary: Some(Key::parse(primary).unwrap()),
            secondary: secondary.map(|key| Key::parse(key).unwrap()),
            ..Keys::default()
        };
        scene.world.credentials.replace(Trust::of_keys(keys));
    };
    let ask = |key: &'static str| scene.world.get("/dbs/d").signed_by(key).send().status;
    let with_token = || scene.world.get("/dbs/d/colls/c").token(&token).send().status;
    rotate(WRONG, Some(PRIMARY));
    assert_eq!((ask(WRONG), ask(PRIMARY), with_token()), (200, 200, 200));
    rotate(WRONG, None);
    assert_eq!((ask(WRONG), ask(PRIMARY), with_token()), (200, 401, 401));
}

//! Random credentials, random operations: what is allowed equals a model of who may see what, and
//! nothing outside a credential's scope appears in any answer.

use std::collections::BTreeSet;

use partita_engine::{DataAction, RoleAssignment, RoleScope};
use partita_gateway::auth::{Issuer, Key, Keys, OwnIssuer, TokenClaims};
use partita_model::{Entropy, SeededEntropy};
use partita_nosql::Trust;

use crate::support::{Answer, Ask, PRIMARY, World};

const DOCS: &str = "/dbs/d/colls/c/docs";
const DEFINITION: &str =
    r#"{"id":"c","partitionKey":{"paths":["/t","/u"],"kind":"MultiHash","version":2}}"#;

/// Two levels of keys with three values each, and two items under each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Item {
    t: u64,
    u: u64,
    id: u64,
}

impl Item {
    fn secret(self) -> String {
        format!("S-{}-{}-{}-E", self.t, self.u, self.id)
    }

    fn body(self) -> String {
        let (Item { t, u, id }, secret) = (self, self.secret());
        format!(r#"{{"id":"i{id}","t":"t{t}","u":"u{u}","secret":"{secret}"}}"#)
    }
}

/// The keys that a request names: both levels, the first one, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Key(u64, u64),
    Prefix(u64),
    Everywhere,
}

impl Where {
    fn json(self) -> Option<String> {
        match self {
            Where::Key(t, u) => Some(format!(r#"["t{t}","u{u}"]"#)),
            Where::Prefix(t) => Some(format!(r#"["t{t}"]"#)),
            Where::Everywhere => None,
        }
    }

    fn holds(self, other: Where) -> bool {
        match (self, other) {
            (Where::Everywhere, _) => true,
            (Where::Prefix(t), Where::Key(of, _) | Where::Prefix(of)) => t == of,
            (mine, other) => mine == other,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Read(Item),
    Create(Item),
    Upsert(Item),
    Replace(Item),
    Patch(Item),
    Delete(Item),
    Query(Where),
    List(Where),
    Feed(Where),
    BatchRead(Item),
    BatchWrite(Item),
}

/// What a credential opens.
#[derive(Clone, Debug)]
enum Holds {
    Token { place: Where, item: Option<Item>, writes: bool },
    Roles(BTreeSet<DataAction>),
}

impl Holds {
    fn allows(&self, act: Act) -> bool {
        use Act::Upsert;
        use Act::{BatchRead, BatchWrite, Create, Delete, Feed, List, Patch, Query, Read, Replace};
        match self {
            Holds::Token { place, item, writes } => {
                let (wanted, of, changes) = match act {
                    Read(of) => (Where::Key(of.t, of.u), Some(of), false),
                    Replace(of) | Patch(of) | Delete(of) => {
                        (Where::Key(of.t, of.u), Some(of), true)
                    }
                    Create(of) | Upsert(of) | BatchWrite(of) => {
                        (Where::Key(of.t, of.u), None, true)
                    }
                    BatchRead(of) => (Where::Key(of.t, of.u), None, false),
                    Query(place) | List(place) | Feed(place) => (place, None, false),
                };
                (*writes || !changes)
                    && match item {
                        Some(item) => of == Some(*item),
                        None => place.holds(wanted),
                    }
            }
            Holds::Roles(actions) => actions.contains(&match act {
                Read(_) | List(_) | BatchRead(_) => DataAction::ReadItem,
                Create(_) => DataAction::CreateItem,
                Upsert(_) | BatchWrite(_) => DataAction::UpsertItem,
                Replace(_) | Patch(_) => DataAction::ReplaceItem,
                Delete(_) => DataAction::DeleteItem,
                Query(_) => DataAction::ExecuteQuery,
                Feed(_) => DataAction::ReadChangeFeed,
            }),
        }
    }

    /// May this item appear in an answer?
    fn shows(&self, found: Item) -> bool {
        match self {
            Holds::Token { item: Some(item), .. } => found == *item,
            Holds::Token { place, .. } => place.holds(Where::Key(found.t, found.u)),
            Holds::Roles(_) => true,
        }
    }
}

struct Chance(SeededEntropy);

impl Chance {
    fn below(&self, end: u64) -> u64 {
        self.0.next_u64() % end
    }

    fn item(&self) -> Item {
        Item { t: self.below(3), u: self.below(3), id: self.below(2) }
    }

    fn place(&self) -> Where {
        match self.below(3) {
            0 => Where::Everywhere,
            1 => Where::Prefix(self.below(3)),
            _ => Where::Key(self.below(3), self.below(3)),
        }
    }

    fn act(&self) -> Act {
        match self.below(11) {
            0 => Act::Read(self.item()),
            1 => Act::Create(self.item()),
            2 => Act::Upsert(self.item()),
            3 => Act::Replace(self.item()),
            4 => Act::Patch(self.item()),
            5 => Act::Delete(self.item()),
            6 => Act::Query(self.place()),
            7 => Act::List(self.place()),
            8 => Act::Feed(self.place()),
            9 => Act::BatchRead(self.item()),
            _ => Act::BatchWrite(self.item()),
        }
    }
}

fn placed<'w>(place: Where, ask: Ask<'w>) -> Ask<'w> {
    match place.json() {
        Some(key) => ask.key(&key),
        None => ask,
    }
}

fn ask(world: &World, act: Act) -> Ask<'_> {
    let path = |item: Item| format!("{DOCS}/i{}", item.id);
    let at = |item: Item| Where::Key(item.t, item.u).json().unwrap();
    let batch = |item: Item, operation: String| {
        world
            .post(DOCS, &format!("[{operation}]"))
            .key(&at(item))
            .header("x-ms-cosmos-is-batch-request", "True")
            .header("x-ms-cosmos-batch-atomic", "True")
    };
    match act {
        Act::Read(item) => world.get(&path(item)).key(&at(item)),
        Act::Create(item) => world.post(DOCS, &item.body()).key(&at(item)),
        Act::Upsert(item) => world
            .post(DOCS, &item.body())
            .key(&at(item))
            .header("x-ms-documentdb-is-upsert", "True"),
        Act::Replace(item) => world.put(&path(item), &item.body()).key(&at(item)),
        Act::Patch(item) => world
            .patch(&path(item), r#"[{"op":"set","path":"/v","value":1}]"#)
            .header("content-type", "application/json_patch+json")
            .key(&at(item)),
        Act::Delete(item) => world.delete(&path(item)).key(&at(item)),
        Act::Query(place) => {
            let ask = world
                .post(DOCS, r#"{"query":"SELECT * FROM c"}"#)
                .header("x-ms-documentdb-isquery", "True")
                .header("content-type", "application/query+json")
                .header("x-ms-documentdb-query-enablecrosspartition", "True");
            placed(place, ask)
        }
        Act::List(place) => placed(place, world.get(DOCS)),
        Act::Feed(place) => placed(place, world.get(DOCS).header("a-im", "Incremental feed")),
        Act::BatchRead(item) => {
            batch(item, format!(r#"{{"operationType":"Read","id":"i{}"}}"#, item.id))
        }
        Act::BatchWrite(item) => {
            batch(item, format!(r#"{{"operationType":"Upsert","resourceBody":{}}}"#, item.body()))
        }
    }
}

/// Every item whose secret is somewhere in an answer.
fn shown(answer: &Answer) -> Vec<Item> {
    let headers: String = answer.headers.values().map(|value| format!("{value:?} ")).collect();
    let text = answer.text() + &headers;
    let parts = text.split("S-").skip(1).filter_map(|rest| {
        let (numbers, _) = rest.split_once("-E")?;
        let numbers: Vec<u64> = numbers.split('-').map(|n| n.parse().unwrap()).collect();
        Some(Item { t: *numbers.first()?, u: *numbers.get(1)?, id: *numbers.get(2)? })
    });
    parts.collect()
}

/// A world with every item, in one partition or several, and a user.
fn world(throughput: &str) -> World {
    let world = World::new();
    world.post("/dbs", r#"{"id":"d"}"#).expect(201);
    world.post("/dbs/d/colls", DEFINITION).header("x-ms-offer-throughput", throughput).expect(201);
    for number in 0..18 {
        let item = Item { t: number / 6, u: number / 2 % 3, id: number % 2 };
        ask(&world, Act::Upsert(item)).expect(201);
    }
    world
}

fn check(world: &World, holds: &Holds, act: Act, answer: &Answer) {
    let refused = answer.status == 403;
    assert_eq!(refused, !holds.allows(act), "{holds:?} {act:?}: {}", answer.text());
    assert!([200, 201, 204, 207, 304, 403, 404, 409].contains(&answer.status), "{}", answer.text());
    for item in shown(answer) {
        assert!(holds.shows(item), "{holds:?} {act:?} shows {item:?}: {}", answer.text());
    }
    // What a delete took is put back, so that there is always something to see.
    if let Act::Delete(item) = act {
        ask(world, Act::Upsert(item)).send();
    }
}

#[test]
fn a_token_opens_what_its_permission_names_whatever_is_asked() {
    for (throughput, seed) in [("400", 1), ("30000", 2)] {
        let (world, chance) = (world(throughput), Chance(SeededEntropy::new(seed)));
        let mut seen = [0, 0];
        for user in 0..40 {
            let users = "/dbs/d/users";
            world.post(users, &format!(r#"{{"id":"u{user}"}}"#)).expect(201);
            let writes = chance.below(2) == 0;
            let (place, item) = match chance.below(4) {
                0 => {
                    let item = chance.item();
                    (Where::Key(item.t, item.u), Some(item))
                }
                _ => (chance.place(), None),
            };
            let mode = if writes { "All" } else { "Read" };
            let resource = match item {
                Some(item) => format!("dbs/d/colls/c/docs/i{}", item.id),
                None => "dbs/d/colls/c".to_owned(),
            };
            let key = place.json().map(|key| format!(r#","resourcePartitionKey":{key}"#));
            let body = format!(
                r#"{{"id":"p","permissionMode":"{mode}","resource":"{resource}"{}}}"#,
                key.unwrap_or_default()
            );
            let permissions = format!("{users}/u{user}/permissions");
            let token = world.post(&permissions, &body).expect(201).member("_token");
            let holds = Holds::Token { place, item, writes };
            for _ in 0..60 {
                let act = chance.act();
                check(&world, &holds, act, &ask(&world, act).token(&token).send());
                seen[usize::from(holds.allows(act))] += 1;
            }
        }
        assert!(seen.iter().all(|count| *count > 300), "{seen:?}");
    }
}

#[test]
fn roles_open_what_they_name_whatever_is_asked() {
    let (world, chance) = (world("30000"), Chance(SeededEntropy::new(3)));
    let provider = OwnIssuer::of_pkcs8(&OwnIssuer::generate().unwrap()).unwrap();
    let token = provider.token(&TokenClaims {
        issuer: "own",
        audience: "here",
        principal: "alice",
        issued_unix_seconds: 1_493_254_272,
        ends_unix_seconds: 1_493_257_872,
    });
    let token = format!("type=aad&ver=1.0&sig={}", token.unwrap());
    let (here, elsewhere) = (
        RoleScope::Container { database: "d".into(), container: "c".into() },
        RoleScope::Container { database: "d".into(), container: "x".into() },
    );
    for _ in 0..60 {
        let some = |_: &DataAction| chance.below(2) == 0;
        let actions: BTreeSet<DataAction> = DataAction::ALL.into_iter().filter(some).collect();
        let given = vec![
            RoleAssignment { scope: here.clone(), actions: actions.clone() },
            RoleAssignment { scope: elsewhere.clone(), actions: DataAction::ALL.into() },
        ];
        let issuer = Issuer::new("own", vec!["here".into()], &provider.jwks()).unwrap();
        world.credentials.replace(Trust {
            keys: Keys { primary: Some(Key::parse(PRIMARY).unwrap()), ..Keys::default() },
            issuers: vec![issuer],
            roles: [("alice".to_owned(), given)].into(),
        });
        let holds = Holds::Roles(actions);
        for _ in 0..40 {
            let act = chance.act();
            let asked = ask(&world, act).unsigned().header("authorization", &token);
            check(&world, &holds, act, &asked.send());
        }
    }
}

//! Random credentials, random operations: what is allowed equals a model of who may see what, and
//! nothing outside a credential's scope appears in any answer.
//!
//! `model.rs` is the model, `asking.rs` makes requests of its acts and looks into their answers.
//! Operations include pages of queries, feeds and the change feed behind continuations that other
//! credentials took, and scripts, which look wherever they can.

mod asking;
mod model;

use std::collections::BTreeSet;

use http::Method;
use partita_engine::{
    DataAction, EngineSettings, QuerySettings, RoleAssignment, RoleScope, ThroughputMode,
};
use partita_executor::Trust;
use partita_gateway::Figures;
use partita_gateway::auth::{Issuer, Key, Keys, OwnIssuer, PublishedKeys, TokenClaims};

use self::asking::{Taken, ask, furnish, marked, restore, shown};
use self::model::{Act, Chance, Holds, Item, Opens};
use crate::support::{Answer, PRIMARY, World};

/// A world in which queries go through the index, and end after so many entries.
fn world(throughput: &str, page_entries_max: u64) -> World {
    let query = QuerySettings {
        scan_items: 0,
        sort_items: 1,
        page_entries_max,
        ..QuerySettings::default()
    };
    let settings =
        EngineSettings { query, throughput: ThroughputMode::Off, ..EngineSettings::default() };
    let world = World::with_settings(settings);
    furnish(&world, throughput);
    world
}

/// Compares an answer with the model. With long pages, what can be seen must be seen.
fn check(world: &World, holds: &Holds, (act, answer): (Act, &Answer), long_pages: bool) {
    let about = || format!("{holds:?} {act:?}: {} {}", answer.status, answer.text());
    let is_refused = match act {
        // Who asks for a resource id under another key is not told whether it is there.
        Act::ReadByRid(..) if !holds.allows(act) => [403, 404].contains(&answer.status),
        _ => answer.status == 403,
    };
    assert_eq!(is_refused, !holds.allows(act), "{}", about());
    let is_known = match act {
        Act::Page { resumed: true, .. } => [200, 304, 400, 403].contains(&answer.status),
        _ => [200, 201, 204, 207, 304, 403, 404, 409].contains(&answer.status),
    };
    assert!(is_known, "{}", about());
    let [secrets, names] = shown(answer);
    for item in &secrets {
        assert!(holds.shows(act, *item), "it shows {item:?}: {}", about());
    }
    for item in names {
        assert!(holds.shows(act, item) || act.names(item), "it names {item:?}: {}", about());
    }
    let is_whole = answer.status < 300 && answer.header("x-ms-continuation").is_none();
    if act.is_complete() && is_whole && long_pages {
        let there: BTreeSet<Item> = secrets.into_iter().collect();
        let due: BTreeSet<Item> = Item::all().filter(|item| act.reaches(*item)).collect();
        assert_eq!(there, due, "{}", about());
    }
    put_back(world, act);
}

/// Puts back what an act took, so that there is always everything to see.
fn put_back(world: &World, act: Act) {
    if let Act::Delete(item) = act {
        restore(world, item);
    }
}

/// A new permission's token.
fn token(world: &World, user: &str, opens: Opens, writes: bool) -> String {
    let users = "/dbs/d/users";
    world.post(users, &format!(r#"{{"id":"{user}"}}"#)).expect(201);
    let (resource, place) = match opens {
        Opens::Place(place) => ("dbs/d/colls/c".to_owned(), place),
        Opens::Item(item) => (format!("dbs/d/colls/c/docs/{}", item.name()), item.place()),
        Opens::Procedure(procedure, place) => {
            (format!("dbs/d/colls/c/sprocs/{}", procedure.name()), place)
        }
    };
    let mode = if writes { "All" } else { "Read" };
    let key = place.json().map(|key| format!(r#","resourcePartitionKey":{key}"#));
    let body = format!(
        r#"{{"id":"p","permissionMode":"{mode}","resource":"{resource}"{}}}"#,
        key.unwrap_or_default()
    );
    world.post(&format!("{users}/{user}/permissions"), &body).expect(201).member("_token")
}

/// Splits the container's first partition.
fn split(world: &World) {
    let ranges = world.get("/dbs/d/colls/c/pkranges").expect(200).feed("PartitionKeyRanges");
    let id = ranges[0].get("id").and_then(partita_model::Value::as_str).unwrap().to_owned();
    let path = format!("_partita/databases/d/containers/c/partitions/{id}/split");
    let ask = world.ask(Method::POST, &format!("/{path}"), r#"{"mode":"midpoint"}"#);
    let answer = ask.signing("_partita", &path).send();
    assert!((200..300).contains(&answer.status), "{}", answer.text());
    world.settle();
    let now = world.get("/dbs/d/colls/c/pkranges").expect(200).feed("PartitionKeyRanges");
    assert_eq!(now.len(), ranges.len() + 1);
}

/// Nothing of any item is in the metrics.
fn check_metrics(world: &World) {
    let metrics = world.telemetry.render(Figures::All);
    assert!(metrics.contains("ExecuteProcedure"), "{metrics}");
    assert!(marked(&metrics, "S-").is_empty() && marked(&metrics, "N-").is_empty(), "{metrics}");
}

#[test]
fn a_token_opens_what_its_permission_names_whatever_is_asked() {
    for (throughput, entries, seed) in [("400", 1, 1), ("400", 1_000, 2), ("30000", 20, 3)] {
        let world = world(throughput, entries);
        let (chance, mut taken) = (Chance::new(seed), Taken::default());
        let mut seen = [0, 0];
        for user in 0..40 {
            let (opens, writes) = (chance.opens(), chance.is_heads());
            let token = token(&world, &format!("u{user}"), opens, writes);
            let holds = Holds::Token { opens, writes };
            let near = match opens {
                Opens::Item(item) => item,
                Opens::Place(_) | Opens::Procedure(..) => chance.item(),
            };
            for _ in 0..60 {
                let act = chance.act(near);
                let answer = ask(&world, act, &chance, &taken).token(&token).send();
                check(&world, &holds, (act, &answer), entries > 1);
                taken.keep(act, &answer);
                seen[usize::from(holds.allows(act))] += 1;
                // The account's own key asks, too: its continuations reach everything.
                if chance.below(8) == 0 {
                    let paged = chance.act(near);
                    taken.keep(paged, &ask(&world, paged, &chance, &taken).send());
                    put_back(&world, paged);
                }
            }
            if user % 20 == 10 {
                split(&world);
            }
        }
        assert!(seen.iter().all(|count| *count > 300), "{seen:?}");
        check_metrics(&world);
    }
}

#[test]
fn roles_open_what_they_name_whatever_is_asked() {
    let (world, chance, mut taken) = (world("30000", 20), Chance::new(4), Taken::default());
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
    for round in 0..60 {
        let some = |_: &DataAction| chance.is_heads();
        let actions: BTreeSet<DataAction> = DataAction::ALL.into_iter().filter(some).collect();
        let given = vec![
            RoleAssignment { scope: here.clone(), actions: actions.clone() },
            RoleAssignment { scope: elsewhere.clone(), actions: DataAction::ALL.into() },
        ];
        let published = PublishedKeys::fixed(&provider.jwks()).unwrap();
        let issuer = Issuer::new("own", vec!["here".into()], published).unwrap();
        world.credentials.replace(Trust {
            keys: Keys { primary: Some(Key::parse(PRIMARY).unwrap()), ..Keys::default() },
            issuers: vec![issuer],
            roles: [("alice".to_owned(), given)].into(),
            ..Trust::default()
        });
        let holds = Holds::Roles(actions);
        for _ in 0..40 {
            let act = chance.act(chance.item());
            let asked = ask(&world, act, &chance, &taken).unsigned();
            let answer = asked.header("authorization", &token).send();
            check(&world, &holds, (act, &answer), true);
            taken.keep(act, &answer);
        }
        if round == 30 {
            split(&world);
        }
    }
    check_metrics(&world);
}

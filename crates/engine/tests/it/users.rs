//! Users and permissions: their lives, their names, and what goes with what.

use std::sync::Arc;

use partita_engine::{
    Access, Change, Context, DatabasePath, Grant, Op, Outcome, PageRequest, Permission,
    PermissionMode, PermissionOp, PermissionPath, Reply, User, UserOp, UserPath,
};
use partita_model::{ErrorKind, PermissionRid};
use partita_query::Filter;

use crate::harness::*;

fn database() -> DatabasePath {
    DatabasePath("db".into())
}

fn user_path(user: &str) -> UserPath {
    UserPath { database: "db".into(), user: user.into() }
}

fn permission_path(user: &str, permission: &str) -> PermissionPath {
    PermissionPath { user: user_path(user), permission: permission.into() }
}

fn create_user(bench: &Bench, name: &str) -> Reply {
    bench.run(Op::User(UserOp::Create { database: database(), name: name.into() }))
}

fn read_user(bench: &Bench, name: &str) -> Reply {
    bench.run(Op::User(UserOp::Read { user: user_path(name), condition: None }))
}

fn delete_user(bench: &Bench, name: &str) -> Reply {
    bench.run(Op::User(UserOp::Delete { user: user_path(name), condition: None }))
}

fn create_permission(bench: &Bench, user: &str, name: &str, resource: &str) -> Reply {
    let body = format!(r#"{{"id":"{name}","permissionMode":"All","resource":"{resource}"}}"#);
    bench.run(Op::Permission(PermissionOp::Create { user: user_path(user), body: json(&body) }))
}

fn read_permission(bench: &Bench, user: &str, name: &str) -> Reply {
    let permission = permission_path(user, name);
    bench.run(Op::Permission(PermissionOp::Read { permission, condition: None }))
}

#[track_caller]
fn user(reply: Reply) -> Arc<User> {
    match reply.result {
        Ok(Outcome::User { user, .. }) => user,
        other => panic!("no user: {other:?}"),
    }
}

#[track_caller]
fn permission(reply: Reply) -> Arc<Permission> {
    match reply.result {
        Ok(Outcome::Permission { permission, .. }) => permission,
        other => panic!("no permission: {other:?}"),
    }
}

fn permissions(bench: &Bench, user: &str, items_max: usize) -> Vec<String> {
    let mut all = Vec::new();
    let mut continuation = None;
    loop {
        let page = PageRequest { items_max: Some(items_max), continuation };
        let op = PermissionOp::List { user: user_path(user), filter: None, page };
        let Ok(Outcome::Permissions { permissions, continuation: next, .. }) =
            bench.run(Op::Permission(op)).result
        else {
            panic!("no permissions of {user}");
        };
        assert!(permissions.len() <= items_max);
        all.extend(permissions.iter().map(|permission| permission.name.clone()));
        continuation = next;
        if continuation.is_none() {
            all.sort();
            return all;
        }
    }
}

fn holding(permission: &Permission) -> Context {
    let grant = Grant {
        permission: permission.rid,
        mode: permission.mode,
        target: permission.target.clone(),
    };
    Context { access: Access::Grant(Arc::new(grant)), ..Context::default() }
}

fn read_item(bench: &Bench, context: &Context) -> Reply {
    bench.run_with(Op::ReadItem { path: item_path("1", "[1]"), condition: None }, context)
}

#[test]
fn users_and_permissions_survive_a_restart() {
    for (_, throughput) in PARTITIONS {
        let bench = Bench::new();
        bench.make_container(throughput, KEY_PK);
        let user_before = user(create_user(&bench, "u"));
        let permission_before = permission(create_permission(&bench, "u", "p", "dbs/db/colls/c"));
        create_permission(&bench, "u", "q", "dbs/db/colls/c/docs/1").result.unwrap();
        let bench = bench.reopened();
        assert_eq!(user(read_user(&bench, "u")), user_before);
        assert_eq!(permission(read_permission(&bench, "u", "p")), permission_before);
        assert_eq!(permissions(&bench, "u", 1), ["p", "q"]);
        let again = create_permission(&bench, "u", "r", "dbs/db/colls/c");
        assert_eq!(error(&again), ErrorKind::Conflict);
        bench.run(Op::DeleteDatabase { database: database(), condition: None }).result.unwrap();
        let bench = bench.reopened();
        assert_eq!(error(&read_user(&bench, "u")), ErrorKind::OwnerNotFound);
    }
}

#[test]
fn a_database_takes_its_users_along_and_a_user_its_permissions() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    create_user(&bench, "u").result.unwrap();
    create_permission(&bench, "u", "p", "dbs/db/colls/c").result.unwrap();
    delete_user(&bench, "u").result.unwrap();
    assert_eq!(error(&delete_user(&bench, "u")), ErrorKind::NotFound);
    create_user(&bench, "u").result.unwrap();
    assert!(permissions(&bench, "u", 10).is_empty());
    // Nothing of the first permission is left in the way of the second.
    create_permission(&bench, "u", "p", "dbs/db/colls/c").result.unwrap();

    let delete = || bench.run(Op::DeleteDatabase { database: database(), condition: None });
    delete().result.unwrap();
    bench.make_database("db");
    assert_eq!(error(&read_user(&bench, "u")), ErrorKind::NotFound);
    create_user(&bench, "u").result.unwrap();
    assert!(permissions(&bench, "u", 10).is_empty());
    delete().result.unwrap();
}

#[test]
fn a_renamed_user_keeps_its_permissions() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    let before = user(create_user(&bench, "u"));
    create_permission(&bench, "u", "p", "dbs/db/colls/c").result.unwrap();
    let rename = |from: &str, to: &str| {
        let (user, name) = (user_path(from), to.to_owned());
        bench.run(Op::User(UserOp::Replace { user, name, condition: None }))
    };
    let after = user(rename("u", "v"));
    assert_eq!((after.rid, after.name.as_str()), (before.rid, "v"));
    assert_eq!(error(&read_user(&bench, "u")), ErrorKind::NotFound);
    assert_eq!(permissions(&bench, "v", 10), ["p"]);
    create_user(&bench, "u").result.unwrap();
    assert_eq!(error(&rename("u", "v")), ErrorKind::Conflict);
    let bench = bench.reopened();
    assert_eq!(permissions(&bench, "v", 10), ["p"]);
    delete_user(&bench, "v").result.unwrap();
}

#[test]
fn upserts_create_and_replace() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    let upsert = |name: &str| {
        let (database, name) = (database(), name.to_owned());
        bench.run(Op::User(UserOp::Upsert { database, name, condition: None }))
    };
    let changed = |reply: Reply| match reply.result {
        Ok(Outcome::User { change, .. } | Outcome::Permission { change, .. }) => change,
        other => panic!("nothing written: {other:?}"),
    };
    assert_eq!(changed(upsert("u")), Change::Created);
    assert_eq!(changed(upsert("u")), Change::Replaced);
    let upsert = |mode: &str, resource: &str| {
        let body =
            json(&format!(r#"{{"id":"p","permissionMode":"{mode}","resource":"{resource}"}}"#));
        let op = PermissionOp::Upsert { user: user_path("u"), body, condition: None };
        bench.run(Op::Permission(op))
    };
    assert_eq!(changed(upsert("Read", "dbs/db/colls/c")), Change::Created);
    assert_eq!(changed(upsert("All", "dbs/db/colls/c")), Change::Replaced);
    assert_eq!(permission(read_permission(&bench, "u", "p")).mode, PermissionMode::All);
    // The resource it had is free again.
    assert_eq!(changed(upsert("All", "dbs/db/colls/c/docs/1")), Change::Replaced);
    create_permission(&bench, "u", "q", "dbs/db/colls/c").result.unwrap();
    assert_eq!(error(&upsert("All", "dbs/db/colls/c")), ErrorKind::Conflict);
}

#[test]
fn lists_are_filtered() {
    let bench = Bench::new();
    bench.make_database("db");
    for n in 0..20 {
        create_user(&bench, &format!("u{n}")).result.unwrap();
    }
    let filter = Some(Filter::parse_query("SELECT * FROM r WHERE r.id='u7'", &[]).unwrap());
    let page = PageRequest::default();
    let reply = bench.run(Op::User(UserOp::List { database: database(), filter, page }));
    let Ok(Outcome::Users { users, .. }) = reply.result else { panic!("no users") };
    assert_eq!(users.len(), 1);
    assert_eq!(users[0].name, "u7");
}

#[test]
fn one_of_many_at_once_gets_the_name() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    create_user(&bench, "u").result.unwrap();
    let count = |create: &(dyn Fn(usize) -> Reply + Sync)| {
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|n| scope.spawn(move || create(n).result.is_ok())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).filter(|ok| *ok).count()
        })
    };
    assert_eq!(count(&|_| create_user(&bench, "v")), 1);
    let resource = "dbs/db/colls/c";
    assert_eq!(count(&|n| create_permission(&bench, "u", &format!("p{n}"), resource)), 1);
    assert_eq!(permissions(&bench, "u", 10).len(), 1);
    let bench = bench.reopened();
    assert_eq!(permissions(&bench, "u", 10).len(), 1);
}

#[test]
fn a_grant_is_good_while_its_permission_stands() {
    for (_, throughput) in PARTITIONS {
        let bench = Bench::new();
        bench.make_container(throughput, KEY_PK);
        bench.create(r#"{"id":"1","pk":1}"#).result.unwrap();
        create_user(&bench, "u").result.unwrap();
        let given = permission(create_permission(&bench, "u", "p", "dbs/db/colls/c"));
        let context = holding(&given);
        read_item(&bench, &context).result.unwrap();
        bench.database.check_access(&context.access).unwrap();

        let mut stranger = (*given).clone();
        stranger.rid = PermissionRid { permission: given.rid.permission ^ 1, ..given.rid };
        let forged = holding(&stranger);
        assert_eq!(error(&read_item(&bench, &forged)), ErrorKind::Forbidden);

        let (permission, condition) = (permission_path("u", "p"), None);
        bench.run(Op::Permission(PermissionOp::Delete { permission, condition })).result.unwrap();
        assert_eq!(error(&read_item(&bench, &context)), ErrorKind::Forbidden);
        bench.database.check_access(&context.access).unwrap_err();
    }
}

#[test]
fn a_grant_does_not_open_a_container_of_the_same_name() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    create_user(&bench, "u").result.unwrap();
    let context = holding(&permission(create_permission(&bench, "u", "p", "dbs/db/colls/c")));
    bench.run(Op::DeleteContainer { container: path(), condition: None }).result.unwrap();
    bench.make_container(400, KEY_PK);
    bench.create(r#"{"id":"1","pk":1}"#).result.unwrap();
    assert_eq!(error(&read_item(&bench, &context)), ErrorKind::Forbidden);
    // For the new one there is room.
    create_permission(&bench, "u", "q", "dbs/db/colls/c").result.unwrap();
}

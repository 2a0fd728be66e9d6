//! Scripts as resources: their lives, their names, and what goes with what.

use partita_engine::{
    Change, Condition, ContainerPath, DatabasePath, EtagPattern, Op, Outcome, PageRequest,
    PermissionOp, ScriptOp, ScriptPath, UserOp, UserPath,
};
use partita_model::{ErrorKind, ScriptKind, limits};
use partita_query::Filter;

use super::*;

fn names(bench: &Bench, kind: ScriptKind, filter: Option<&str>, items_max: usize) -> Vec<String> {
    let (mut all, mut continuation) = (Vec::new(), None);
    loop {
        let filter = filter.map(|text| Filter::parse_query(text, &[]).unwrap());
        let page = PageRequest { items_max: Some(items_max), continuation };
        let op = ScriptOp::List { container: path(), kind, filter, page };
        let Ok(Outcome::Scripts { scripts, continuation: next, .. }) =
            bench.run(Op::Script(op)).result
        else {
            panic!("no scripts");
        };
        assert!(scripts.len() <= items_max);
        all.extend(scripts.iter().map(|script| script.name.clone()));
        continuation = next;
        if continuation.is_none() {
            all.sort();
            return all;
        }
    }
}

fn delete(bench: &Bench, kind: ScriptKind, id: &str, condition: Option<Condition>) -> Reply {
    bench.run(Op::Script(ScriptOp::Delete { script: script_path(kind, id), condition }))
}

#[test]
fn a_script_is_created_read_replaced_and_deleted_by_name_and_by_rid() {
    for kind in ScriptKind::ALL {
        let (bench, _) = scripted(unthrottled());
        bench.make_container(400, KEY_PK);
        let created = script(create(&bench, kind, "s", "[]"));
        assert_eq!((created.name.as_str(), &*created.source), ("s", "[]"));
        assert_eq!(created.trigger.is_some(), kind == ScriptKind::Trigger);
        assert_eq!(*script(read(&bench, kind, "s")), *created);
        let container = created.rid.container;
        let by_rid = ScriptPath {
            container: ContainerPath {
                database: container.database.to_string(),
                container: container.to_string(),
            },
            kind,
            script: created.rid.to_string(),
        };
        let replace = |script, source: &str, condition| {
            let body = json(&body("s", source));
            bench.run(Op::Script(ScriptOp::Replace { script, body, condition }))
        };
        let replaced = script(replace(by_rid.clone(), r#"[["hook"]]"#, None));
        assert_eq!(replaced.rid, created.rid);
        assert_ne!(replaced.etag, created.etag);
        let old = Some(Condition::Match(EtagPattern::Exact(created.etag.to_string())));
        let stale = replace(script_path(kind, "s"), "[]", old.clone());
        assert_eq!(error(&stale), ErrorKind::PreconditionFailed);
        assert_eq!(error(&delete(&bench, kind, "s", old)), ErrorKind::PreconditionFailed);
        let deleted = delete(&bench, kind, "s", None);
        assert!(matches!(deleted.result, Ok(Outcome::Deleted)), "{deleted:?}");
        assert_eq!(error(&read(&bench, kind, "s")), ErrorKind::NotFound);
        let again = script(create(&bench, kind, "s", "[]"));
        assert_ne!(again.rid, created.rid);
    }
}

#[test]
fn every_kind_has_names_of_its_own_and_each_name_once() {
    let (bench, _) = scripted(unthrottled());
    bench.make_container(400, KEY_PK);
    for kind in ScriptKind::ALL {
        script(create(&bench, kind, "s", "[]"));
        assert_eq!(error(&create(&bench, kind, "s", "[]")), ErrorKind::Conflict);
        script(create(&bench, kind, "t", "[]"));
        let rename = json(&body("t", "[]"));
        let op =
            ScriptOp::Replace { script: script_path(kind, "s"), body: rename, condition: None };
        assert_eq!(error(&bench.run(Op::Script(op))), ErrorKind::Conflict);
        let rename = json(&body("u", "[]"));
        let op =
            ScriptOp::Replace { script: script_path(kind, "s"), body: rename, condition: None };
        script(bench.run(Op::Script(op)));
        assert_eq!(names(&bench, kind, None, 1), ["t", "u"]);
        assert_eq!(error(&read(&bench, kind, "s")), ErrorKind::NotFound);
        assert_eq!(names(&bench, kind, Some("SELECT * FROM c WHERE c.id = 'u'"), 9), ["u"]);
    }
}

#[test]
fn an_upsert_creates_and_replaces() {
    let (bench, _) = scripted(unthrottled());
    bench.make_container(400, KEY_PK);
    let upsert = |source: &str| {
        let (kind, body) = (ScriptKind::Procedure, json(&body("s", source)));
        bench.run(Op::Script(ScriptOp::Upsert { container: path(), kind, body, condition: None }))
    };
    let Ok(Outcome::Script { script: first, change: Change::Created, .. }) = upsert("[]").result
    else {
        panic!("not created");
    };
    let Ok(Outcome::Script { script: second, change: Change::Replaced, .. }) =
        upsert(r#"[["hook"]]"#).result
    else {
        panic!("not replaced");
    };
    assert_eq!((first.rid, &*second.source), (second.rid, r#"[["hook"]]"#));
}

#[test]
fn what_the_runtime_cannot_read_is_stored_and_cannot_run_and_without_one_nothing_is() {
    let (bench, _) = scripted(unthrottled());
    bench.make_container(400, KEY_PK);
    script(create(&bench, ScriptKind::Procedure, "p", "prose"));
    assert_eq!(error(&bench.run(call("p", r#"["a"]"#, "[]"))), ErrorKind::BadRequest);
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    for kind in ScriptKind::ALL {
        assert_eq!(error(&create(&bench, kind, "s", "[]")), ErrorKind::Unsupported);
    }
}

#[test]
fn a_container_holds_as_many_scripts_as_the_service_allows() {
    let (bench, _) = scripted(unthrottled());
    bench.make_container(400, KEY_PK);
    for (kind, count_max) in [
        (ScriptKind::Procedure, limits::PROCEDURES_MAX),
        (ScriptKind::Function, limits::FUNCTIONS_MAX),
    ] {
        for n in 0..count_max {
            script(create(&bench, kind, &format!("s{n}"), "[]"));
        }
        assert_eq!(error(&create(&bench, kind, "one more", "[]")), ErrorKind::Forbidden);
    }
}

#[test]
fn scripts_survive_a_restart_and_go_with_their_container() {
    for whole_database in [false, true] {
        let (bench, _) = scripted(unthrottled());
        bench.make_container(30_000, KEY_PK);
        for kind in ScriptKind::ALL {
            script(create(&bench, kind, "s", "[]"));
        }
        let before = script(read(&bench, ScriptKind::Trigger, "s"));
        let bench = bench.reopened();
        assert_eq!(*script(read(&bench, ScriptKind::Trigger, "s")), *before);
        if whole_database {
            let database = DatabasePath("db".into());
            bench.run(Op::DeleteDatabase { database, condition: None }).result.unwrap();
        } else {
            bench.run(Op::DeleteContainer { container: path(), condition: None }).result.unwrap();
        }
        assert_eq!(error(&read(&bench, ScriptKind::Trigger, "s")), ErrorKind::OwnerNotFound);
        bench.make_container(400, KEY_PK);
        let bench = bench.reopened();
        for kind in ScriptKind::ALL {
            assert!(names(&bench, kind, None, 9).is_empty());
        }
    }
}

#[test]
fn a_permission_for_a_script_names_that_script_only() {
    let (bench, _) = scripted(unthrottled());
    bench.make_container(400, KEY_PK);
    let created = script(create(&bench, ScriptKind::Procedure, "s", "[]"));
    let user = UserPath { database: "db".into(), user: "u".into() };
    let database = DatabasePath("db".into());
    bench.run(Op::User(UserOp::Create { database, name: "u".into() })).result.unwrap();
    let permit = |id: &str, link: &str| {
        let body = format!(r#"{{"id":"{id}","permissionMode":"All","resource":"{link}"}}"#);
        let op = PermissionOp::Create { user: user.clone(), body: json(&body) };
        bench.run(Op::Permission(op))
    };
    let Ok(Outcome::Permission { permission, .. }) = permit("p", "dbs/db/colls/c/sprocs/s").result
    else {
        panic!("no permission");
    };
    assert_eq!(permission.target.script, Some(created.rid));
    let missing = permit("q", "dbs/db/colls/c/sprocs/t");
    assert_eq!(error(&missing), ErrorKind::NotFound);
    let second = permit("q", "dbs/db/colls/c/sprocs/s");
    assert_eq!(error(&second), ErrorKind::Conflict, "one permission for one resource");
    let bench = bench.reopened();
    let permission = partita_engine::PermissionPath { user: user.clone(), permission: "p".into() };
    let op = PermissionOp::Read { permission, condition: None };
    let Ok(Outcome::Permission { permission, .. }) = bench.run(Op::Permission(op)).result else {
        panic!("no permission");
    };
    assert_eq!(permission.target.script, Some(created.rid));
}

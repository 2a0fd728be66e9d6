//! Stored procedures: what they see, what they leave, and what they cost.

use std::sync::Arc;

use partita_engine::{
    Access, Context, DatabasePath, Grant, KeyRequired, PartitionSettings, Permission, PermissionOp,
    Scope, SplitAt, ThroughputMode, UserOp, UserPath, block_on,
};
use partita_model::{ErrorKind, ItemRid};

use super::*;

fn member(value: &Value, at: usize, name: &str) -> String {
    value.as_array().unwrap()[at].get(name).unwrap().to_json()
}

#[test]
fn a_procedure_sees_its_own_writes_and_all_of_it_is_one_commit() {
    for (_, throughput) in PARTITIONS {
        let (bench, _) = scripted(unthrottled());
        bench.make_container(throughput, KEY_PK);
        bench.create(r#"{"id":"old","pk":"a","n":1}"#).result.unwrap();
        bench.create(r#"{"id":"other","pk":"b","n":100}"#).result.unwrap();
        let before = bench.read("old", r#"["a"]"#).served.unwrap().lsn;
        let reply = run(
            &bench,
            r#"[["create",{"id":"x","pk":"a","n":2}],
                ["upsert",{"id":"y","pk":"a","n":3}],
                ["replace","old",{"id":"old","pk":"a","n":4}],
                ["query","SELECT VALUE c.n FROM c WHERE c.n > 1 ORDER BY c.n",2],
                ["query","SELECT VALUE COUNT(1) FROM c",10],
                ["delete","x"],
                ["read","x"], ["read","y"],
                ["query","SELECT VALUE c.id FROM c WHERE c.n >= 2",1],
                ["query","",1]]"#,
        );
        let said = answer(&reply);
        let said = said.as_array().unwrap();
        assert_eq!(said[0].to_json(), "[2,3,4]");
        assert_eq!(said[1].to_json(), "[3]");
        assert_eq!(said[2].as_str(), Some("NotFound"));
        assert_eq!(said[3].get("n").unwrap().to_json(), "3");
        assert!(text(&said[3], "_etag").len() > 30);
        let mut ids: Vec<String> =
            said[4].as_array().unwrap().iter().map(|id| id.to_json()).collect();
        ids.sort();
        assert_eq!(ids, [r#""old""#, r#""y""#]);
        assert_eq!(said[5].as_array().unwrap().len(), 2);
        let served = reply.served.unwrap();
        assert_eq!(served.lsn.0, before.0 + 1, "one commit");
        assert_eq!(bench.read("x", r#"["a"]"#).result.unwrap_err().kind, ErrorKind::NotFound);
        let stored = harness_body(&bench.read("y", r#"["a"]"#));
        assert_eq!(stored, said[3], "what the script saw is what was stored");
        bench.assert_whole();
    }
}

fn harness_body(reply: &Reply) -> Value {
    crate::harness::body(reply)
}

#[test]
fn a_procedure_that_throws_leaves_nothing_behind() {
    for (_, throughput) in PARTITIONS {
        let (bench, _) = scripted(unthrottled());
        bench.make_container(throughput, KEY_PK);
        bench.create(r#"{"id":"old","pk":"a","n":1}"#).result.unwrap();
        let feed = bench.feed_records();
        let reply = run(
            &bench,
            r#"[["create",{"id":"x","pk":"a"}], ["delete","old"], ["log","so far"],
                ["throw","enough"]]"#,
        );
        let failed = reply.result.unwrap_err();
        assert_eq!((failed.kind, failed.message.as_str()), (ErrorKind::BadRequest, "enough"));
        assert_eq!(reply.log.as_deref(), Some("so far"), "the log is told also of a failure");
        assert!(reply.charge.0 > 10.0, "what was done was done: {:?}", reply.charge);
        assert_eq!(bench.feed_records(), feed);
        assert_eq!(error(&bench.read("x", r#"["a"]"#)), ErrorKind::NotFound);
        bench.read("old", r#"["a"]"#).result.unwrap();
        bench.assert_whole();
    }
}

#[test]
fn errors_are_the_scripts_to_handle_and_leave_nothing_of_their_operation() {
    let (bench, _) = scripted(unthrottled());
    bench.make_container(30_000, KEY_PK);
    bench.create(r#"{"id":"old","pk":"a","n":1}"#).result.unwrap();
    let reply = run(
        &bench,
        r#"[["try",["create",{"id":"old","pk":"a"}]],
            ["try",["create",{"id":"z","pk":"b"}]],
            ["try",["create",{"pk":"a"}]],
            ["try",["delete","nobody"]],
            ["try",["query","SELECT * FROM",5]],
            ["create",{"id":"x","pk":"a"}]]"#,
    );
    let kinds: Vec<String> =
        answer(&reply).as_array().unwrap().iter().map(|kind| kind.to_json()).collect();
    let bad = r#""BadRequest""#;
    assert_eq!(kinds, [r#""Conflict""#, bad, bad, r#""NotFound""#, bad]);
    assert_eq!(bench.list(&Scope::All, 10).len(), 2);
    bench.assert_whole();
}

#[test]
fn a_procedure_that_only_reads_commits_nothing() {
    let (bench, _) = scripted(unthrottled());
    bench.make_container(400, KEY_PK);
    bench.create(r#"{"id":"1","pk":"a","n":1}"#).result.unwrap();
    let before = bench.read("1", r#"["a"]"#).served.unwrap().lsn;
    let reply = run(&bench, r#"[["read","1"]]"#);
    assert_eq!(member(&answer(&reply), 0, "n"), "1");
    assert_eq!(reply.served.unwrap().lsn, before);
    assert_eq!(reply.charge.0, 2.0, "a run and a read");
    assert_eq!(bench.read("1", r#"["a"]"#).served.unwrap().lsn, before);
}

#[test]
fn a_procedure_needs_its_name_and_a_whole_partition_key() {
    let (bench, _) = scripted(unthrottled());
    bench.make_container(
        30_000,
        r#""partitionKey":{"paths":["/t","/u"],"kind":"MultiHash","version":2}"#,
    );
    script(create(&bench, ScriptKind::Procedure, "p", r#"[["create",{"id":"1","t":1,"u":2}]]"#));
    let unknown = bench.run(call("q", "[1,2]", "[]"));
    assert_eq!(error(&unknown), ErrorKind::NotFound);
    let prefix = bench.run(call("p", "[1]", "[]"));
    assert_eq!(error(&prefix), ErrorKind::PartitionKeyMismatch);
    let Op::ExecuteProcedure(keyless) = call("p", "[1,2]", "[]") else { unreachable!() };
    let keyless = Op::ExecuteProcedure(ProcedureCall { partition_key: None, ..keyless });
    assert_eq!(error(&bench.run(keyless)), ErrorKind::BadRequest);
    assert_eq!(answer(&bench.run(call("p", "[1,2]", "[]"))).to_json(), "[]");
    bench.assert_whole();
}

#[test]
fn arguments_reach_the_script() {
    let (bench, _) = scripted(unthrottled());
    bench.make_container(400, KEY_PK);
    let source = r#"[["create",{"id":"$0","pk":"a","n":"$1"}],["read","$0"],["say","$2"]]"#;
    script(create(&bench, ScriptKind::Procedure, "p", source));
    let reply = bench.run(call("p", r#"["a"]"#, r#"["one",[1,2],null]"#));
    assert_eq!(member(&answer(&reply), 0, "n"), "[1,2]");
    assert_eq!(answer(&reply).as_array().unwrap()[1], Value::Null);
}

#[test]
fn a_container_without_a_key_runs_procedures_without_one() {
    let (bench, _) = scripted(unthrottled());
    bench.make_database("db");
    let created = bench.run(Op::CreateContainer {
        database: DatabasePath("db".into()),
        body: json(r#"{"id":"c"}"#),
        throughput: None,
        key_required: KeyRequired::No,
    });
    created.result.unwrap();
    script(create(&bench, ScriptKind::Procedure, "p", r#"[["create",{"id":"1"}],["read","1"]]"#));
    let Op::ExecuteProcedure(run) = call("p", "[]", "[]") else { unreachable!() };
    for partition_key in [None, Some(PartitionKeyHeader::parse("[]").unwrap())] {
        let run = ProcedureCall { partition_key, ..run.clone() };
        let reply = bench.run(Op::ExecuteProcedure(run));
        match reply.result {
            Ok(_) => assert_eq!(member(&answer(&reply), 0, "id"), r#""1""#),
            Err(error) => assert_eq!(error.kind, ErrorKind::Conflict),
        }
    }
    assert_eq!(bench.list(&Scope::All, 10).len(), 1);
    bench.assert_whole();
}

#[test]
fn a_logical_partition_that_is_full_refuses_the_scripts_write() {
    let partitions =
        PartitionSettings { logical_bytes_max: 20_000, ..PartitionSettings::default() };
    let (bench, _) = scripted(EngineSettings { partitions, ..unthrottled() });
    bench.make_container(400, KEY_PK);
    let filler = "x".repeat(5_000);
    let one = |id: u32| format!(r#"["create",{{"id":"{id}","pk":"a","f":"{filler}"}}]"#);
    let few: Vec<String> = (0..3).map(one).collect();
    run(&bench, &format!("[{}]", few.join(","))).result.unwrap();
    let many: Vec<String> = (10..13).map(one).collect();
    let reply = run(&bench, &format!("[{}]", many.join(",")));
    assert_eq!(error(&reply), ErrorKind::LogicalPartitionFull);
    assert_eq!(bench.list(&Scope::All, 10).len(), 3);
}

#[test]
fn unique_keys_hold_inside_a_procedure() {
    let (bench, _) = scripted(unthrottled());
    let unique = r#","uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]}"#;
    bench.make_container(30_000, &format!("{KEY_PK}{unique}"));
    let reply = run(
        &bench,
        r#"[["create",{"id":"1","pk":"a","u":1}], ["try",["create",{"id":"2","pk":"a","u":1}]],
            ["delete","1"], ["create",{"id":"3","pk":"a","u":1}]]"#,
    );
    assert_eq!(answer(&reply).to_json(), r#"["Conflict"]"#);
    bench.assert_whole();
}

#[test]
fn what_a_run_costs_is_charged_to_its_partition() {
    let settings = EngineSettings { throughput: ThroughputMode::Enforced, ..unthrottled() };
    let (bench, _) = scripted(settings);
    bench.make_container(400, KEY_PK);
    let single = bench.create(r#"{"id":"0","pk":"a","n":1}"#);
    bench.clock.advance_millis(60_000);
    let creates: Vec<String> =
        (1..60).map(|n| format!(r#"["create",{{"id":"{n}","pk":"a","n":1}}]"#)).collect();
    let reply = run(&bench, &format!("[{}]", creates.join(",")));
    reply.result.as_ref().unwrap();
    let expected = 1.0 + 59.0 * single.charge.0;
    assert!((reply.charge.0 - expected).abs() < 59.0 * 0.2, "{:?} of {expected}", reply.charge);
    for _ in 0..100 {
        run(&bench, &format!("[{}]", creates.join(",").replace("create", "upsert")));
    }
    let refused = bench.run(call("p", r#"["a"]"#, "[]"));
    assert!(matches!(error(&refused), ErrorKind::Throttled { .. }), "{refused:?}");
    assert_eq!(refused.charge.0, 0.0);
}

#[test]
fn who_may_only_read_runs_nothing() {
    let (bench, _) = scripted(unthrottled());
    bench.make_container(30_000, KEY_PK);
    script(create(&bench, ScriptKind::Procedure, "p", r#"[["say",1]]"#));
    let read_only = Context { access: Access::ReadOnly, ..Context::default() };
    let refused = bench.run_with(call("p", r#"["a"]"#, "[]"), &read_only);
    assert_eq!(error(&refused), ErrorKind::Forbidden);
    let script = script_path(ScriptKind::Procedure, "p");
    let read = ScriptOp::Read { script, condition: None };
    bench.run_with(Op::Script(read), &read_only).result.unwrap();
}

/// A permission of a new user, and what its token allows.
fn permit(bench: &Bench, mode: &str, resource: &str, key: Option<&str>) -> Context {
    let name = format!("user of {}", bench.database.status().databases);
    let user = UserPath { database: "db".into(), user: name.clone() };
    let database = DatabasePath("db".into());
    let op = UserOp::Upsert { database, name, condition: None };
    bench.run(Op::User(op)).result.unwrap();
    let key = key.map_or(String::new(), |key| format!(r#","resourcePartitionKey":{key}"#));
    let body = format!(r#"{{"id":"p","permissionMode":"{mode}","resource":"{resource}"{key}}}"#);
    let body = json(&body);
    let op = PermissionOp::Upsert { user, body, condition: None };
    let Ok(Outcome::Permission { permission, .. }) = bench.run(Op::Permission(op)).result else {
        panic!("no permission for {resource}");
    };
    let Permission { rid, mode, target, .. } = (*permission).clone();
    let access = Access::Grant(Arc::new(Grant { permission: rid, mode, target }));
    Context { access, ..Context::default() }
}

#[test]
fn a_token_for_a_procedure_runs_that_one_and_opens_nothing_else() {
    let (bench, _) = scripted(unthrottled());
    bench.make_container(30_000, KEY_PK);
    bench.create(r#"{"id":"1","pk":"a"}"#).result.unwrap();
    for id in ["p", "q"] {
        script(create(&bench, ScriptKind::Procedure, id, r#"[["read","1"]]"#));
    }
    let run = |id: &str, key: &str, context: &Context| {
        bench.run_with(call(id, key, "[]"), context).result.map(|_| ()).map_err(|e| e.kind)
    };
    let (a, b) = (r#"["a"]"#, r#"["b"]"#);
    let refused = Err(ErrorKind::Forbidden);
    let link = "dbs/db/colls/c/sprocs/p";
    let one = permit(&bench, "All", link, None);
    assert_eq!([run("p", a, &one), run("p", b, &one)], [Ok(()), Ok(())]);
    assert_eq!(run("q", a, &one), refused);
    let item = Op::ReadItem { path: item_path("1", a), condition: None };
    assert_eq!(error(&bench.run_with(item, &one)), ErrorKind::Forbidden);
    let list = Op::ListItems { container: path(), scope: Scope::All, page: Default::default() };
    assert_eq!(error(&bench.run_with(list, &one)), ErrorKind::Forbidden);
    let delete = |id: &str, context: &Context| {
        let script = script_path(ScriptKind::Procedure, id);
        let op = Op::Script(ScriptOp::Delete { script, condition: None });
        bench.run_with(op, context).result.map(|_| ()).map_err(|error| error.kind)
    };
    assert_eq!(delete("q", &one), refused);

    let keyed = permit(&bench, "All", link, Some(a));
    assert_eq!([run("p", a, &keyed), run("p", b, &keyed)], [Ok(()), refused.clone()]);
    assert_eq!(delete("p", &keyed), refused, "it runs under other keys, too");
    let reader = permit(&bench, "Read", link, None);
    assert_eq!(run("p", a, &reader), refused);
    let script = script_path(ScriptKind::Procedure, "p");
    let read = Op::Script(ScriptOp::Read { script, condition: None });
    bench.run_with(read, &reader).result.unwrap();
    let whole = permit(&bench, "All", "dbs/db/colls/c", Some(a));
    assert_eq!([run("q", a, &whole), run("q", b, &whole)], [Ok(()), refused.clone()]);
    let item = permit(&bench, "All", "dbs/db/colls/c/docs/1", None);
    assert_eq!(run("q", a, &item), refused);
    let reader = permit(&bench, "Read", link, None);
    assert_eq!(delete("p", &reader), refused);
    let one = permit(&bench, "All", link, None);
    assert_eq!(delete("p", &one), Ok(()));
}

#[test]
fn a_split_in_the_middle_of_a_run_is_followed() {
    let (bench, steps) = scripted(unthrottled());
    bench.make_container(400, KEY_PK);
    for n in 0..40 {
        let body = format!(r#"{{"id":"1","pk":"k{n}","n":{n}}}"#);
        bench.create(&body).result.unwrap();
    }
    bench.create(r#"{"id":"1","pk":"a","n":5}"#).result.unwrap();
    let database = Arc::clone(&bench.database);
    let mut splits = 0;
    steps.on_hook(move || {
        splits += 1;
        if splits == 1 {
            let op = Op::SplitPartition {
                container: path(),
                range_id: "0".into(),
                at: SplitAt::Midpoint,
            };
            block_on(database.execute(op, &Context::default())).result.unwrap();
            while database.status().partitions < 2 {
                database.maintain(&crate::moves::STEP).unwrap();
            }
        }
    });
    let source = r#"[["create",{"id":"2","pk":"a","n":1}],["hook"],["move","1","2",2],
        ["read","2"]]"#;
    let reply = run(&bench, source);
    assert_eq!(member(&answer(&reply), 0, "n"), "3");
    assert_ne!(reply.served.unwrap().range_id, 0);
    let found = bench.read("2", r#"["a"]"#);
    assert_eq!(harness_body(&found).get("n").unwrap().to_json(), "3");
    bench.assert_whole();
}

#[test]
fn resource_ids_that_failing_runs_took_are_not_given_out_again() {
    let (bench, _) = scripted(unthrottled());
    bench.make_container(400, KEY_PK);
    let creates: String =
        (0..3_000).map(|n| format!(r#"["create",{{"id":"{n}","pk":"a"}}],"#)).collect();
    for _ in 0..3 {
        run(&bench, &format!(r#"[{creates}["throw","in vain"]]"#)).result.unwrap_err();
    }
    let rid = |reply: &Reply| {
        let rid = text(&crate::harness::body(reply), "_rid");
        ItemRid::parse(&rid).unwrap().item
    };
    let before = rid(&bench.create(r#"{"id":"1","pk":"a"}"#));
    bench.delete("1", r#"["a"]"#).result.unwrap();
    let bench = bench.reopened();
    let after = rid(&bench.create(r#"{"id":"1","pk":"a"}"#));
    assert!(before > 9_000 && after > before, "{after} after {before}");
}

#[test]
fn a_token_for_a_procedure_does_not_follow_its_name_while_it_waits_for_a_turn() {
    let (bench, _) = scripted(unthrottled());
    bench.make_container(30_000, KEY_PK);
    let make = || script(create(&bench, ScriptKind::Procedure, "p", r#"[["query","",1]]"#));
    make();
    let token = permit(&bench, "All", "dbs/db/colls/c/sprocs/p", None);
    let op = || call("p", r#"["a"]"#, "[]");
    let turn = block_on(bench.database.turn(&op(), &token)).unwrap();
    assert!(turn.is_some(), "it may run, and has the turn");
    let gone = script_path(ScriptKind::Procedure, "p");
    bench.run(Op::Script(ScriptOp::Delete { script: gone, condition: None })).result.unwrap();
    make();
    assert_eq!(error(&bench.run_with(op(), &token)), ErrorKind::Forbidden);
    drop(turn);
    assert!(block_on(bench.database.turn(&op(), &token)).unwrap().is_none(), "nor has it a turn");
}

#[test]
fn a_script_that_takes_too_long_again_and_again_is_not_run_for_a_while() {
    for blocks in [true, false] {
        let mut settings = unthrottled();
        settings.scripts.blocks = blocks;
        let (bench, _) = scripted(settings);
        bench.make_container(400, KEY_PK);
        script(create(&bench, ScriptKind::Procedure, "slow", r#"[["overrun","slow"]]"#));
        script(create(&bench, ScriptKind::Procedure, "fine", r#"[["say",1]]"#));
        let run = |name: &str| bench.run(call(name, r#"["a"]"#, "[]"));
        for _ in 0..3 {
            assert_eq!(error(&run("slow")), ErrorKind::Timeout);
            bench.clock.advance_millis(60_000);
        }
        let expected = if blocks { ErrorKind::Forbidden } else { ErrorKind::Timeout };
        assert_eq!(error(&run("slow")), expected);
        answer(&run("fine"));
        let replace = |source: &str| {
            let (script_path, body) =
                (script_path(ScriptKind::Procedure, "slow"), json(&body("slow", source)));
            let op = ScriptOp::Replace { script: script_path, body, condition: None };
            script(bench.run(Op::Script(op)));
        };
        replace(r#"[["say",2]]"#);
        answer(&run("slow"));
        replace(r#"[["overrun","slow"]]"#);
        assert_eq!(error(&run("slow")), ErrorKind::Timeout, "another text, which may run");
    }
}

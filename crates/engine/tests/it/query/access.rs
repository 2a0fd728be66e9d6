//! What resource tokens and read-only keys may ask.

use std::sync::Arc;

use partita_engine::{
    Access, Context, Grant, PermissionOp, PlanQueryRequest, QueryRequest, Serving, UserOp, UserPath,
};
use partita_model::ErrorKind;

use super::*;

fn holder(bench: &Bench, name: &str, fields: &str) -> Context {
    let user = UserPath { database: "db".into(), user: name.into() };
    let op =
        UserOp::Create { database: partita_engine::DatabasePath("db".into()), name: name.into() };
    bench.run(Op::User(op)).result.unwrap();
    let body = format!(r#"{{"id":"p","permissionMode":"Read",{fields}}}"#);
    let op = PermissionOp::Create { user, body: json(&body) };
    let Ok(Outcome::Permission { permission, .. }) = bench.run(Op::Permission(op)).result else {
        panic!("no permission {body}");
    };
    let grant = Grant {
        permission: permission.rid,
        mode: permission.mode,
        target: permission.target.clone(),
    };
    Context { access: Access::Grant(Arc::new(grant)), ..Context::default() }
}

fn outcome(bench: &Bench, context: &Context, scope: Scope) -> Result<usize, ErrorKind> {
    let serving = Serving::Global;
    let query = QueryRequest { scope, serving, ..as_service("SELECT * FROM c") };
    let op = Op::Query { container: path(), query: Box::new(query) };
    match bench.run_with(op, context).result {
        Ok(Outcome::Query { rows, .. }) => Ok(rows.len()),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.kind),
    }
}

#[test]
fn a_token_for_a_container_opens_all_of_it() {
    let bench = filled(30_000);
    let context = holder(&bench, "u", r#""resource":"dbs/db/colls/c""#);
    assert_eq!(outcome(&bench, &context, Scope::All), Ok(60));
    assert_eq!(outcome(&bench, &context, key(r#"["k1"]"#)), Ok(5));
    assert!(outcome(&bench, &context, range(0)).is_ok());
}

#[test]
fn a_token_for_a_partition_key_opens_what_is_under_it() {
    let bench = filled(30_000);
    let fields = r#""resource":"dbs/db/colls/c","resourcePartitionKey":["k1"]"#;
    let context = holder(&bench, "u", fields);
    assert_eq!(outcome(&bench, &context, key(r#"["k1"]"#)), Ok(5));
    for scope in [Scope::All, range(0), key(r#"["k2"]"#), key("[]")] {
        assert_eq!(outcome(&bench, &context, scope), Err(ErrorKind::Forbidden));
    }
    // Not even a filter on the key helps: the request has to name it.
    let pinned =
        QueryRequest { cross_partition: false, ..as_service("SELECT * FROM c WHERE c.pk = 'k1'") };
    let op = Op::Query { container: path(), query: Box::new(pinned) };
    assert_eq!(error(&bench.run_with(op, &context)), ErrorKind::Forbidden);
}

#[test]
fn a_token_for_an_item_opens_no_query() {
    let bench = filled(400);
    let fields = r#""resource":"dbs/db/colls/c/docs/i1","resourcePartitionKey":["k1"]"#;
    let context = holder(&bench, "u", fields);
    assert_eq!(outcome(&bench, &context, key(r#"["k1"]"#)), Err(ErrorKind::Forbidden));
}

#[test]
fn plans_and_read_only_keys() {
    let bench = filled(30_000);
    let fields = r#""resource":"dbs/db/colls/c","resourcePartitionKey":["k1"]"#;
    let token = holder(&bench, "u", fields);
    let read_only = Context { access: Access::ReadOnly, ..Context::default() };
    for context in [token, read_only.clone()] {
        let op = Op::PlanQuery {
            container: path(),
            query: Box::new(PlanQueryRequest {
                text: "SELECT * FROM c".into(),
                parameters: Vec::new(),
                features: None,
                partition_key: None,
            }),
        };
        assert!(bench.run_with(op, &context).result.is_ok(), "a plan tells nothing of the items");
    }
    assert_eq!(outcome(&bench, &read_only, Scope::All), Ok(60));
}

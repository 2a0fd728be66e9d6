//! The admin API: partitions described, keys located, and who may ask.

use http::Method;
use partita_model::Value;

use crate::support::{Ask, PARTITIONS, READONLY, World};

const CONTAINER: &str = "/_partita/databases/d/containers/c";

/// A request that is signed as the admin API wants it.
fn admin<'w>(world: &'w World, method: Method, path: &str, body: &str) -> Ask<'w> {
    let signed = path.split('?').next().unwrap().trim_start_matches('/');
    world.ask(method, path, body.to_owned()).signing("_partita", signed)
}

fn get<'w>(world: &'w World, inside: &str) -> Ask<'w> {
    admin(world, Method::GET, &format!("{CONTAINER}{inside}"), "")
}

fn texts(rows: &Value, name: &str) -> Vec<String> {
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| row.get(name).and_then(Value::as_str).unwrap().to_owned()).collect()
}

#[test]
fn partitions_are_described() {
    for (throughput, count) in PARTITIONS {
        let world = World::with_container(throughput);
        for (id, key) in [("1", "a"), ("2", "a"), ("1", "b")] {
            let body = format!(r#"{{"id":"{id}","pk":"{key}"}}"#);
            world.post("/dbs/d/colls/c/docs", &body).key(&format!(r#"["{key}"]"#)).expect(201);
        }
        let body = get(&world, "/partitions").expect(200).json();
        assert_eq!(body.get("database").and_then(Value::as_str), Some("d"));
        assert_eq!(body.get("container").and_then(Value::as_str), Some("c"));
        let partitions = body.get("partitions").unwrap();
        let ids: Vec<String> = (0..count).map(|id| id.to_string()).collect();
        assert_eq!(texts(partitions, "id"), ids);
        let sum = |name| -> i64 {
            let rows = partitions.as_array().unwrap().iter();
            rows.map(|row| row.get(name).and_then(Value::as_i64).unwrap()).sum()
        };
        assert_eq!((sum("items"), sum("logicalPartitions")), (3, 2));
        let largest = body.get("largest").unwrap().as_array().unwrap();
        assert_eq!(largest.len(), 2);
        assert_eq!(largest[0].get("key").unwrap().to_json(), r#"["a"]"#);
        assert_eq!(largest[0].get("items").and_then(Value::as_i64), Some(2));
        let first = get(&world, "/partitions?top=1").expect(200).json();
        assert_eq!(first.get("largest").unwrap().as_array().unwrap().len(), 1);
    }
}

#[test]
fn a_key_is_explained() {
    let world = World::with_container("30000");
    let body = get(&world, "/explain-key?key=%5B%22a%22%5D").expect(200).json();
    assert_eq!(body.get("key").unwrap().to_json(), r#"["a"]"#);
    let epk = body.get("epk").and_then(Value::as_str).unwrap();
    assert_eq!(epk.len(), 32);
    let homes = body.get("partitions").unwrap();
    let (min, max) = (&texts(homes, "minInclusive")[0], &texts(homes, "maxExclusive")[0]);
    assert!(min.as_str() <= epk && epk < max.as_str(), "{min} {epk} {max}");
    assert_eq!(body.get("items").and_then(Value::as_i64), Some(0));
}

#[test]
fn who_asks_wrongly_is_told_what_to_do() {
    let world = World::with_container("400");
    get(&world, "/explain-key").refused(400, "0", "?key=[");
    get(&world, "/explain-key?key=a").refused(400, "0", "partition key a");
    get(&world, "/explain-key?key=[%22a%22,1]").refused(400, "1001", "Partition key provided");
    get(&world, "/partitions?top=many").refused(400, "0", "give a number");
    get(&world, "/nothing").refused(404, "0", "no resource with this path");
    admin(&world, Method::PUT, &format!("{CONTAINER}/partitions"), "").refused(405, "0", "use GET");
    admin(&world, Method::GET, "/_partita/databases/d/containers/x/partitions", "")
        .refused(404, "1003", "x");
}

#[test]
fn only_the_accounts_keys_open_it() {
    let world = World::with_container("400");
    get(&world, "/partitions").signed_by(READONLY).expect(200);
    get(&world, "/partitions").unsigned().expect(401);
    let signed_otherwise = world.get(&format!("{CONTAINER}/partitions"));
    signed_otherwise.signing("docs", "dbs/d/colls/c").expect(401);
    world.post("/dbs/d/users", r#"{"id":"u"}"#).expect(201);
    let permission = r#"{"id":"p","permissionMode":"All","resource":"dbs/d/colls/c"}"#;
    let answer = world.post("/dbs/d/users/u/permissions", permission).expect(201);
    let token = answer.member("_token");
    get(&world, "/partitions").token(&token).refused(403, "0", "resource token");
}

#[test]
fn recent_queries_are_told_without_values() {
    let world = World::with_container("400");
    let query = r#"{"query":"SELECT * FROM c WHERE c.pk = @p","parameters":[{"name":"@p","value":"hush"}]}"#;
    for _ in 0..2 {
        world
            .post("/dbs/d/colls/c/docs", query)
            .header("x-ms-documentdb-isquery", "true")
            .header("content-type", "application/query+json")
            .key(r#"["hush"]"#)
            .expect(200);
    }
    let answer = get(&world, "/queries").expect(200);
    let expected = r#"[{"query":"SELECT * FROM c WHERE c.pk = @p","parameters":[{"name":"@p","type":"string"}],"keyParts":1,"count":2}]"#;
    assert_eq!(answer.json().get("queries").unwrap().to_json(), expected);
    assert!(!answer.text().contains("hush"));
}

fn post<'w>(world: &'w World, inside: &str, body: &str) -> Ask<'w> {
    admin(world, Method::POST, &format!("{CONTAINER}{inside}"), body)
}

#[test]
fn a_split_is_begun_and_shown() {
    let world = World::with_container("400");
    for key in ["a", "b", "c"] {
        let body = format!(r#"{{"id":"1","pk":"{key}"}}"#);
        world.post("/dbs/d/colls/c/docs", &body).key(&format!(r#"["{key}"]"#)).expect(201);
    }
    let planned = post(&world, "/partitions/0/split", r#"{"mode":"midpoint"}"#).expect(202);
    assert_eq!(planned.text(), r#"{"parents":["0"],"children":["1","2"]}"#);
    let body = get(&world, "/partitions").expect(200).json();
    let partition = &body.get("partitions").unwrap().as_array().unwrap()[0];
    assert_eq!(partition.get("status").and_then(Value::as_str), Some("splitting"));
    assert_eq!(partition.get("move").unwrap().to_json(), r#"{"into":["1","2"],"copied":0}"#);
    post(&world, "/partitions/0/split", "").refused(409, "0", "");
}

#[test]
fn a_move_that_makes_no_sense_is_refused_with_what_to_do() {
    let world = World::with_container("30000");
    post(&world, "/partitions/0/split", r#"{"mode":"epk"}"#).refused(400, "0", "needs the EPK");
    let wrong = r#"{"mode":"epk","epk":"xyz"}"#;
    post(&world, "/partitions/0/split", wrong).refused(400, "0", "hexadecimal");
    post(&world, "/partitions/0/split", r#"{"mode":"half"}"#).refused(400, "0", "midpoint");
    post(&world, "/partitions/0/split", "{").refused(400, "0", "");
    post(&world, "/partitions/9/split", "").refused(404, "0", "9");
    post(&world, "/partitions/merge", "{}").refused(400, "0", "ids");
    post(&world, "/partitions/merge", r#"{"ids":["0","2"]}"#).refused(400, "0", "");
    get(&world, "/partitions/merge").refused(405, "0", "use POST");
    post(&world, "/partitions/merge", r#"{"ids":["0","1"]}"#).signed_by(READONLY).expect(403);
}

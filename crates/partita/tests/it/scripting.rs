//! Scripts in a server: run by processes of its own, which end when a script does not.

use crate::process::{Directory, Process};
use crate::requests::Account;

const KEY: [(&str, &str); 1] = [("x-ms-documentdb-partitionkey", r#"["a"]"#)];

#[test]
fn a_script_that_cannot_be_stopped_ends_alone() {
    let directory = Directory::new("scripting");
    let server = Process::start(&directory, &["--store", "memory"]);
    let account = Account::of(&server);
    account.create_database("shop");
    account.create_container("shop", "orders", r#"["/customer"]"#, 12_000);
    let create = "function (id) { __.createDocument(__.getSelfLink(), { id: id, customer: 'a' }, \
                  (error, item) => { if (error) throw error; __.response.setBody(item.id); }); }";
    // QuickJS never asks in between whether it must stop.
    let stuck = "function (id) { __.createDocument(__.getSelfLink(), { id: id, customer: 'a' }, \
                 () => [].reverse.call({ length: 2 ** 53 - 1 })); }";
    account.create_procedure("shop", "orders", "create", create);
    account.create_procedure("shop", "orders", "stuck", stuck);

    let run =
        |name, id: &str| account.execute("shop", "orders", name, &format!("[\"{id}\"]"), &KEY);
    assert_eq!(run("create", "1"), (200, "\"1\"".to_owned()));
    let (status, text) = run("stuck", "2");
    assert_eq!(status, 408, "{text}");
    assert!(text.contains("'stuck'"), "{text}");
    // What it wrote is not there, and the next one runs.
    assert_eq!(run("create", "2"), (200, "\"2\"".to_owned()));
    server.signal("TERM");
    server.end();
}

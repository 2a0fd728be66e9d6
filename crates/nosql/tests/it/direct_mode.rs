//! What clients in Direct mode are told, which is the default of some SDKs.

use crate::support::World;

const ASKED: &str =
    "?$resolveFor=dbs%2fd%2fcolls%2fc%2fdocs&$filter=protocol%20eq%20rntbd&$partitionKeyRangeIds=0";

#[test]
fn addresses_are_refused_with_the_way_to_gateway_mode_before_the_signature_is_looked_at() {
    let world = World::with_container("400");
    for path in ["//addresses/", "//addresses", "/addresses/", "/addresses"] {
        let get = || world.get(&format!("{path}{ASKED}"));
        // Signed as what is looked for, as what it is, and not at all.
        for ask in [get().signing("docs", "AAAAAA=="), get(), get().unsigned()] {
            let answer = ask.refused(501, "0", "Direct mode");
            assert_eq!(answer.member("code"), "NotImplemented");
            let message = answer.member("message");
            for way in [
                ".NET: new CosmosClientOptions { ConnectionMode = ConnectionMode.Gateway }",
                "Java: new CosmosClientBuilder().gatewayMode()",
                "EF Core: UseCosmos(",
                "options.ConnectionMode(ConnectionMode.Gateway)",
                "Spring",
            ] {
                assert!(message.contains(way), "'{way}' is not in: {message}");
            }
        }
    }
    // A database of that name is no such thing.
    world.post("/dbs", r#"{"id":"addresses"}"#).expect(201);
    world.get("/dbs/addresses").unsigned().refused(401, "5000", "");
    world.get("/dbs/addresses").expect(200);
}

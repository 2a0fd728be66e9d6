// The account: what it says about itself, and whom it refuses.
import { CosmosClient } from "@azure/cosmos";
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { KEYS, client, describeInEachSize, endpoint, key, refused } from "../account.js";

describe("the account", () => {
  it("describes itself", async () => {
    const { resource } = await client.getDatabaseAccount();
    assert.equal(resource.consistencyPolicy, "Session");
  });

  it("refuses a wrong key", async () => {
    const wrong = Buffer.from("not the key of this account").toString("base64");
    const stranger = new CosmosClient({ endpoint, key: wrong });
    await refused(stranger.databases.readAll().fetchAll(), 401);
  });

  it("is reached with a connection string", async () => {
    const other = new CosmosClient(`AccountEndpoint=${endpoint}/;AccountKey=${key};`);
    assert.ok((await other.databases.readAll().fetchAll()).resources);
  });
});

describeInEachSize("sessions", (scope) => {
  it("get a token for every write and read their own writes", async () => {
    const container = await scope.create({ partitionKey: KEYS["hash, version 2"] });
    const tokens = new Set();
    for (let n = 0; n < 20; n++) {
      const { headers } = await container.items.create({ id: `${n}`, pk: `${n}` });
      tokens.add(headers["x-ms-session-token"]);
      const read = await container.item(`${n}`, `${n}`).read();
      assert.equal(read.resource.id, `${n}`);
      assert.equal(read.headers["x-ms-session-token"], headers["x-ms-session-token"]);
    }
    assert.equal(tokens.size, 20, "each write has a token of its own");
    const ranges = new Set([...tokens].map((token) => token.split(":")[0]));
    assert.equal(ranges.size, scope.size.partitions, "each partition was written to");
  });

  it("answer a token from the future with 404 and sub-status 1002, and clients recover", async () => {
    const container = await scope.create({ partitionKey: KEYS["hash, version 2"] });
    const { headers } = await container.items.create({ id: "1", pk: "1" });
    const [range, vector] = headers["x-ms-session-token"].split(":");
    const [version, lsn, ...regions] = vector.split("#");
    const future = `${range}:${[version, Number(lsn) + 1_000_000, ...regions].join("#")}`;

    // The client hides the refusal by asking again without the token, so watch the wire.
    const refusals = [];
    const watch = async (request, diagnostics, next) => {
      try {
        return await next(request);
      } catch (error) {
        refusals.push(`${error.code}/${error.substatus}`);
        throw error;
      }
    };
    const plugins = [{ on: "request", plugin: watch }];
    const watched = new CosmosClient({ endpoint, key, plugins });
    const item = watched.database(scope.database.id).container(container.id).item("1", "1");
    const read = await item.read({ sessionToken: future });
    assert.deepEqual(refusals, ["404/1002"]);
    assert.equal(read.resource.id, "1");
  });
});

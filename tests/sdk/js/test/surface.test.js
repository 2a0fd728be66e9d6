// What the SDK offers beside items and queries: conflicts, scripts as resources, plans, endpoints,
// paths. coverage/check.js sees to it that every public member is used by some test.
import assert from "node:assert/strict";
import { it } from "node:test";
import { CosmosClient } from "@azure/cosmos";
import {
  KEYS,
  client,
  describeInDatabase,
  describeInEachSize,
  endpoint,
  key,
  refused,
  unique,
} from "../account.js";

const partitionKey = KEYS["hash, version 2"];

describeInEachSize("a container", (scope) => {
  it("has no conflicts with one region", async () => {
    const container = await scope.create({ partitionKey });
    assert.deepEqual((await container.conflicts.readAll().fetchAll()).resources, []);
    const query = "SELECT * FROM c WHERE c.operationType = 'replace'";
    assert.deepEqual((await container.conflicts.query(query).fetchAll()).resources, []);
    const conflict = container.conflict("none", "key");
    assert.ok(conflict.url.endsWith(`${container.url}/conflicts/none`));
    // This client asks for `…/conflicts/none/conflicts`, which is nothing.
    await assert.rejects(conflict.read());
    await assert.rejects(conflict.delete());
  });

  it("tells its key, its ranges and how a query would run", async () => {
    const container = await scope.create({ partitionKey });
    const { resource } = await container.getPartitionKeyDefinition();
    assert.deepEqual(resource.paths, partitionKey.paths);
    const { resources: ranges } = await container.readPartitionKeyRanges().fetchAll();
    assert.equal(ranges.length, scope.size.partitions);
    const feedRanges = await container.getFeedRanges();
    assert.equal(feedRanges.length, scope.size.partitions);
    const plan = await container.getQueryPlan("SELECT c.a FROM c ORDER BY c.a");
    assert.deepEqual(plan.result.queryInfo.orderBy, ["Ascending"]);
    const [range] = plan.result.queryRanges;
    assert.deepEqual([range.min, range.max], ["", "FF"]);
  });

  it("forgets all items of a key", async () => {
    const container = await scope.create({ partitionKey });
    for (const id of ["1", "2", "3"]) {
      await container.items.create({ id, pk: id === "3" ? "other" : "same" });
    }
    await container.deleteAllItemsForPartitionKey("same");
    const { resources } = await container.items.readAll().fetchAll();
    assert.deepEqual(resources.map((item) => item.id), ["3"]);
  });

  it("lets an iterator begin anew", async () => {
    const container = await scope.create({ partitionKey });
    for (const id of ["1", "2", "3"]) await container.items.create({ id, pk: "same" });
    const iterator = container.items.query("SELECT VALUE c.id FROM c ORDER BY c.id", {
      partitionKey: "same",
      maxItemCount: 2,
    });
    assert.deepEqual((await iterator.fetchNext()).resources, ["1", "2"]);
    assert.ok(iterator.hasMoreResults());
    iterator.reset();
    assert.deepEqual((await iterator.fetchNext()).resources, ["1", "2"]);
    assert.deepEqual((await iterator.fetchNext()).resources, ["3"]);
  });
});

const KINDS = [
  {
    name: "stored procedures",
    all: (scripts) => scripts.storedProcedures,
    one: (scripts, id) => scripts.storedProcedure(id),
    more: {},
    path: "sprocs",
  },
  {
    name: "triggers",
    all: (scripts) => scripts.triggers,
    one: (scripts, id) => scripts.trigger(id),
    more: { triggerType: "Pre", triggerOperation: "All" },
    path: "triggers",
  },
  {
    name: "user-defined functions",
    all: (scripts) => scripts.userDefinedFunctions,
    one: (scripts, id) => scripts.userDefinedFunction(id),
    more: {},
    path: "udfs",
  },
];

describeInDatabase("the scripts of a container", (scope) => {
  for (const { name, all, one, more, path } of KINDS) {
    it(`are kept: ${name}`, async () => {
      const definition = { id: unique("c"), partitionKey };
      const { container } = await scope.database.containers.create(definition);
      const script = { id: "one", body: "function () { return 1; }", ...more };
      const created = await all(container.scripts).create(script);
      assert.equal(created.statusCode, 201);
      assert.equal((created.sproc ?? created.udf ?? created.trigger).id, "one");
      await refused(all(container.scripts).create(script), 409);
      const handle = one(container.scripts, "one");
      assert.equal(handle.url, `${container.url}/${path}/one`);
      assert.equal((await handle.read()).resource.body, script.body);
      const changed = { ...script, body: "function () { return 2; }" };
      assert.equal((await handle.replace(changed)).resource.body, changed.body);
      assert.equal((await all(container.scripts).readAll().fetchAll()).resources.length, 1);
      const query = "SELECT * FROM c WHERE c.id = 'one'";
      const { resources } = await all(container.scripts).query(query).fetchAll();
      assert.equal(resources[0].body, changed.body);
      assert.equal((await handle.delete()).statusCode, 204);
      await refused(handle.read(), 404);
    });
  }
});

describeInEachSize("scripts at work", (scope) => {
  it("are run: a procedure, a trigger and a function", async () => {
    const container = await scope.create({ partitionKey });
    const { scripts } = container;
    const pair = `function (a, b) {
      const make = (id) => __.createDocument(__.getSelfLink(), { id, pk: "k" }, {}, (error) => {
        if (error) throw error;
      });
      [a, b].forEach(make);
      console.log("made");
      __.response.setBody({ made: [a, b] });
    }`;
    await scripts.storedProcedures.create({ id: "pair", body: pair });
    const run = (...ids) => scripts.storedProcedure("pair").execute("k", ids, { enableScriptLogging: true });
    const answer = await run("1", "2");
    assert.deepEqual(answer.resource, { made: ["1", "2"] });
    assert.equal(decodeURIComponent(answer.headers["x-ms-documentdb-script-log-results"]), "made");
    // Both or none.
    await assert.rejects(run("3", "1"));
    const { resources } = await container.items.query("SELECT VALUE c.id FROM c").fetchAll();
    assert.deepEqual(resources.sort(), ["1", "2"]);

    const stamp = `function () {
      const item = __.request.getBody();
      item.stamped = true;
      __.request.setBody(item);
    }`;
    const trigger = { id: "stamp", body: stamp, triggerType: "Pre", triggerOperation: "Create" };
    await scripts.triggers.create(trigger);
    const options = { preTriggerInclude: ["stamp"] };
    const { resource } = await container.items.create({ id: "4", pk: "k" }, options);
    assert.equal(resource.stamped, true);

    await scripts.userDefinedFunctions.create({ id: "twice", body: "function (n) { return 2 * n; }" });
    const query = { query: "SELECT VALUE udf.twice(21) FROM c WHERE c.id = '4'" };
    assert.deepEqual((await container.items.query(query).fetchAll()).resources, [42]);
  });
});

describeInDatabase("the client", (scope) => {
  it("finds the account where it is", async () => {
    const own = new CosmosClient({ endpoint, key });
    assert.equal((await own.getDatabaseAccount()).resource.consistencyPolicy, "Session");
    assert.ok((await own.getReadEndpoint()).startsWith(endpoint));
    assert.ok((await own.getWriteEndpoint()).startsWith(endpoint));
    for (const endpoints of [await own.getReadEndpoints(), await own.getWriteEndpoints()]) {
      assert.ok(endpoints.every((one) => one.startsWith(endpoint)));
    }
    own.dispose();
  });

  it("names resources by their paths", async () => {
    const { database } = scope;
    const path = `dbs/${database.id}`;
    assert.equal(database.url, path);
    assert.equal(database.container("c").url, `${path}/colls/c`);
    assert.equal(database.container("c").item("i", "k").url, `${path}/colls/c/docs/i`);
    assert.equal(database.user("u").url, `${path}/users/u`);
    assert.equal(database.user("u").permission("p").url, `${path}/users/u/permissions/p`);
    assert.equal(client.offer("o").url, "/offers/o");
  });

  it("makes what is not there, once", async () => {
    const id = unique("db");
    assert.equal((await client.databases.createIfNotExists({ id })).statusCode, 201);
    assert.equal((await client.databases.createIfNotExists({ id })).statusCode, 200);
    const database = client.database(id);
    const definition = { id: "c", partitionKey };
    assert.equal((await database.containers.createIfNotExists(definition)).statusCode, 201);
    assert.equal((await database.containers.createIfNotExists(definition)).statusCode, 200);
    await database.delete();
  });
});

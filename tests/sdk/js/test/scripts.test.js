// Stored procedures, triggers and user-defined functions: as resources, and at work.
import assert from "node:assert/strict";
import { it } from "node:test";
import { KEYS, describeInEachSize, refused } from "../account.js";

const HASH = { partitionKey: KEYS["hash, version 2"] };

// The three kinds, with what the SDK calls them.
const KINDS = [
  { name: "stored procedures", all: "storedProcedures", one: "storedProcedure", more: {} },
  {
    name: "triggers",
    all: "triggers",
    one: "trigger",
    more: { triggerType: "Pre", triggerOperation: "All" },
  },
  { name: "user-defined functions", all: "userDefinedFunctions", one: "userDefinedFunction", more: {} },
];

describeInEachSize("scripts", (scope) => {
  for (const { name, all, one, more } of KINDS) {
    it(`of the kind ${name} are created, read, queried, replaced and deleted`, async () => {
      const { scripts } = await scope.create(HASH);
      const definition = { id: "my script", body: "function () { return 1; }", ...more };
      const { resource: created } = await scripts[all].create(definition);
      assert.equal(created.body, definition.body);
      for (const [property, value] of Object.entries(more)) assert.equal(created[property], value);
      await refused(scripts[all].create(definition), 409);
      const script = scripts[one](definition.id);
      assert.deepEqual((await script.read()).resource, created);
      assert.equal((await scripts[all].readAll().fetchAll()).resources.length, 1);
      const query = {
        query: "SELECT * FROM root r WHERE r.id = @id",
        parameters: [{ name: "@id", value: definition.id }],
      };
      assert.equal((await scripts[all].query(query).fetchAll()).resources[0].id, definition.id);
      const changed = { ...created, body: "function () { return 2; }" };
      const { resource: replaced } = await script.replace(changed);
      assert.equal(replaced.body, changed.body);
      assert.equal(replaced._rid, created._rid);
      assert.notEqual(replaced._etag, created._etag);
      const stale = { accessCondition: { type: "IfMatch", condition: created._etag } };
      await refused(script.replace(changed, stale), 412);
      await script.delete();
      await refused(script.read(), 404);
    });
  }

  it("run procedures with arguments, answers and a log", async () => {
    const container = await scope.create(HASH);
    const { scripts } = container;
    await scripts.storedProcedures.create({
      id: "echo",
      body: (function (greeting, list) {
        console.log(`said ${greeting} & more`);
        getContext().getResponse().setBody({ greeting, sum: list.reduce((a, b) => a + b, 0) });
      }).toString(),
    });
    const procedure = scripts.storedProcedure("echo");
    const quiet = await procedure.execute("a", ["hello", [1, 2, 3]]);
    assert.deepEqual(quiet.resource, { greeting: "hello", sum: 6 });
    assert.equal(quiet.headers["x-ms-documentdb-script-log-results"], undefined);
    assert.ok(Number(quiet.requestCharge) > 0);
    const logged = await procedure.execute("a", ["hello", []], { enableScriptLogging: true });
    const log = logged.headers["x-ms-documentdb-script-log-results"];
    assert.equal(decodeURIComponent(log), "said hello & more");
    await refused(scripts.storedProcedure("nobody").execute("a", []), 404);
  });

  it("run procedures whole or not at all", async () => {
    const container = await scope.create(HASH);
    const { scripts } = container;
    await scripts.storedProcedures.create({
      id: "create",
      body: (function (ids, fail) {
        const collection = getContext().getCollection();
        let made = 0;
        for (const id of ids) {
          collection.createDocument(collection.getSelfLink(), { id, pk: "a" }, (error) => {
            if (error) throw error;
            made += 1;
            if (id === fail) throw new Error(`no more after ${id}`);
            getContext().getResponse().setBody(made);
          });
        }
      }).toString(),
    });
    const create = (...args) => scripts.storedProcedure("create").execute("a", args);
    await assert.rejects(create(["1", "2", "3"], "2"), (error) => {
      assert.equal(error.code, 400);
      assert.match(error.body.message, /no more after 2/);
      return true;
    });
    assert.equal((await container.items.readAll().fetchAll()).resources.length, 0);
    assert.equal((await create(["1", "2", "3"])).resource, 3);
    assert.equal((await container.items.readAll().fetchAll()).resources.length, 3);
    await refused(create(["4", "1"]), 400);
    assert.equal((await container.item("4", "a").read()).resource, undefined);
  });

  it("run triggers with the writes that name them", async () => {
    const container = await scope.create(HASH);
    const { scripts } = container;
    await scripts.triggers.create({
      id: "stamp",
      triggerType: "Pre",
      triggerOperation: "All",
      body: (function () {
        const request = getContext().getRequest();
        request.setBody({ ...request.getBody(), stamped: true });
      }).toString(),
    });
    await scripts.triggers.create({
      id: "count",
      triggerType: "Post",
      triggerOperation: "Create",
      body: (function () {
        const collection = getContext().getCollection();
        collection.upsertDocument(collection.getSelfLink(), { id: "last", pk: "a" });
      }).toString(),
    });
    const options = { preTriggerInclude: ["stamp"], postTriggerInclude: ["count"] };
    const { resource } = await container.items.create({ id: "1", pk: "a" }, options);
    assert.equal(resource.stamped, true);
    assert.equal((await container.item("last", "a").read()).resource.id, "last");
    const upserted = await container.items.upsert({ id: "2", pk: "a" }, { preTriggerInclude: ["stamp"] });
    assert.equal(upserted.resource.stamped, true);
    const wrong = { postTriggerInclude: ["count"] };
    await refused(container.item("1", "a").delete(wrong), 400);
    await refused(container.items.create({ id: "3", pk: "a" }, { preTriggerInclude: ["none"] }), 400);
  });

  it("lend queries functions", async () => {
    const container = await scope.create(HASH);
    await container.scripts.userDefinedFunctions.create({
      id: "twice",
      body: "function twice(n) { return n === undefined ? undefined : n * 2; }",
    });
    for (let n = 0; n < 8; n++) await container.items.create({ id: `${n}`, pk: `${n}`, n });
    const query = "SELECT VALUE udf.twice(c.n) FROM c WHERE udf.twice(c.n) >= 10 ORDER BY c.n";
    const { resources } = await container.items.query(query).fetchAll();
    assert.deepEqual(resources, [10, 12, 14]);
    await refused(container.items.query("SELECT VALUE udf.none(c.n) FROM c").fetchAll(), 400);
  });
});

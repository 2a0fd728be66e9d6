// Transactional batches and bulks.
import assert from "node:assert/strict";
import { before, it } from "node:test";
import { KEYS, describeInEachSize, withoutSystem } from "../account.js";

const BATCH_OPERATIONS_MAX = 100;

const statuses = (response) => response.result.map((result) => result.statusCode);

describeInEachSize("batches", (scope) => {
  let container;
  before(async () => {
    container = await scope.create({ partitionKey: KEYS["hash, version 2"] });
  });

  it("do all operations in one commit", async () => {
    const pk = "all";
    await container.items.create({ id: "there", pk, n: 1 });
    const first = await container.item("there", pk).read();
    const response = await container.items.batch(
      [
        { operationType: "Create", resourceBody: { id: "new", pk, text: "ä€😀\u2028" } },
        { operationType: "Read", id: "new" },
        { operationType: "Upsert", resourceBody: { id: "there", pk, n: 2 } },
        {
          operationType: "Patch",
          id: "there",
          resourceBody: { operations: [{ op: "incr", path: "/n", value: 5 }] },
        },
        { operationType: "Replace", id: "new", resourceBody: { id: "new", pk, text: "other" } },
        { operationType: "Delete", id: "there" },
      ],
      pk,
    );
    assert.equal(response.code, 200);
    assert.deepEqual(statuses(response), [201, 200, 200, 200, 200, 204]);
    assert.deepEqual(response.result[1].resourceBody, response.result[0].resourceBody);
    assert.equal(response.result[3].resourceBody.n, 7);
    assert.equal(Number(response.headers.lsn), Number(first.headers.lsn) + 1);
    const { resource } = await container.item("new", pk).read();
    assert.deepEqual(withoutSystem(resource), { id: "new", pk, text: "other" });
    assert.equal(resource._etag, response.result[4].eTag);
    const sum = response.result.reduce((sum, result) => sum + result.requestCharge, 0);
    assert.ok(Math.abs(Number(response.headers["x-ms-request-charge"]) - sum) < 0.01);
  });

  it("do nothing if one operation fails", async () => {
    const pk = "nothing";
    const failing = [
      [{ operationType: "Read", id: "none" }, 404],
      [{ operationType: "Create", resourceBody: { id: "1", pk } }, 409],
      [{ operationType: "Delete", id: "1", ifMatch: '"other"' }, 412],
      [{ operationType: "Create", resourceBody: { id: "2", pk: "elsewhere" } }, 400],
    ];
    for (const [operation, code] of failing) {
      const operations = [{ operationType: "Create", resourceBody: { id: "1", pk } }, operation];
      const response = await container.items.batch(operations, pk);
      assert.equal(response.code, 207);
      assert.deepEqual(statuses(response), [424, code]);
    }
    assert.equal((await container.item("1", pk).read()).statusCode, 404);
  });

  it("are refused as a whole if they are malformed", async () => {
    await assert.rejects(container.items.batch([], "x"), /Batch request has no operations\./);
  });
});

for (const [kind, definition] of Object.entries(KEYS)) {
  describeInEachSize(`bulks, key ${kind}`, (scope) => {
    const keyOf = (n) =>
      kind === "hierarchical"
        ? { tenant: `t${n % 7}`, user: n, session: "s" }
        : { pk: `key-${n}` };
    const valueOf = (n) => (kind === "hierarchical" ? Object.values(keyOf(n)) : `key-${n}`);
    // Over the limit of one request, and enough keys that each of five partitions gets some.
    const COUNT = 3 * BATCH_OPERATIONS_MAX;
    const documents = Array.from({ length: COUNT }, (_, n) => ({ id: `${n}`, ...keyOf(n), n }));
    const creates = documents.map((resourceBody, n) => ({
      operationType: "Create",
      partitionKey: valueOf(n),
      resourceBody,
    }));
    let container;
    before(async () => {
      container = await scope.create({ partitionKey: definition });
    });

    it("write, read and delete in all partitions", async () => {
      const created = await container.items.executeBulkOperations(creates);
      assert.deepEqual(new Set(created.map(({ response }) => response.statusCode)), new Set([201]));
      for (const n of [0, 1, COUNT - 1]) {
        const { resource } = await container.item(`${n}`, valueOf(n)).read();
        assert.deepEqual(withoutSystem(resource), documents[n]);
      }
      const mixed = documents.map((_, n) => ({
        operationType: n % 2 === 0 ? "Read" : "Delete",
        id: `${n}`,
        partitionKey: valueOf(n),
      }));
      const done = await container.items.executeBulkOperations(mixed);
      done.forEach(({ response, error }, n) => {
        assert.equal(error, undefined);
        assert.equal(response.statusCode, n % 2 === 0 ? 200 : 204);
        if (n % 2 === 0) assert.equal(response.resourceBody.n, n);
      });
    });

    it("tell each operation's error", async () => {
      const again = await container.items.executeBulkOperations(creates.slice(0, 10));
      again.forEach(({ response, error }, n) => {
        if (n % 2 === 0) assert.equal(error.code, 409);
        else assert.equal(response.statusCode, 201);
      });
    });

    it("are served to the older call too", async () => {
      const upserts = documents.slice(0, 50).map((document, n) => ({
        operationType: "Upsert",
        partitionKey: valueOf(n),
        resourceBody: { ...document, n: n + 1000 },
      }));
      const missing = { operationType: "Read", id: "none", partitionKey: valueOf(0) };
      const results = await container.items.bulk([...upserts, missing], { continueOnError: true });
      results.slice(0, 50).forEach((result, n) => {
        assert.ok([200, 201].includes(result.statusCode), JSON.stringify(result));
        assert.equal(result.resourceBody.n, n + 1000);
      });
      assert.equal(results[50].statusCode, 404);
    });
  });
}

// Items: their life under every kind of partition key, in one and in several partitions.
import assert from "node:assert/strict";
import { before, it } from "node:test";
import { KEYS, describeInEachSize, refused, unique, withoutSystem } from "../account.js";

// Enough keys that each of five partitions gets some.
const COUNT = 60;

const SHAPES = {
  "hash, version 1": { item: (n) => ({ pk: `key-${n}` }), value: (n) => `key-${n}` },
  "hash, version 2": { item: (n) => ({ pk: `key-${n}` }), value: (n) => `key-${n}` },
  hierarchical: {
    item: (n) => ({ tenant: `t${n % 7}`, user: n, session: null }),
    value: (n) => [`t${n % 7}`, n, null],
  },
};

for (const [kind, shape] of Object.entries(SHAPES)) {
  describeInEachSize(`items, key ${kind}`, (scope) => {
    let container;
    before(async () => {
      container = await scope.create({ partitionKey: KEYS[kind] });
    });

    it("are created, read, replaced, upserted and deleted", async () => {
      for (let n = 0; n < COUNT; n++) {
        const body = { id: `item-${n}`, ...shape.item(n), n, text: "ä€😀\u2028", deep: { a: [n] } };
        const created = await container.items.create(body);
        assert.equal(created.statusCode, 201);
        assert.deepEqual(withoutSystem(created.resource), body);
      }
      for (let n = 0; n < COUNT; n++) {
        const item = container.item(`item-${n}`, shape.value(n));
        const { resource, requestCharge } = await item.read();
        assert.equal(resource.n, n);
        assert.ok(requestCharge > 0);

        const replaced = await item.replace({ ...resource, n: n + 1000 });
        assert.equal(replaced.resource.n, n + 1000);
        assert.notEqual(replaced.resource._etag, resource._etag);
        assert.equal(replaced.resource._rid, resource._rid);

        const upserted = await container.items.upsert({ ...resource, n: n + 2000 });
        assert.equal(upserted.statusCode, 200);
        assert.equal((await item.read()).resource.n, n + 2000);
      }
      for (let n = 0; n < COUNT; n++) {
        const item = container.item(`item-${n}`, shape.value(n));
        assert.equal((await item.delete()).statusCode, 204);
        assert.equal((await item.read()).statusCode, 404);
      }
    });

    it("exist once per logical partition", async () => {
      await container.items.create({ id: "same", ...shape.item(1) });
      await refused(container.items.create({ id: "same", ...shape.item(1) }), 409);
      await container.items.create({ id: "same", ...shape.item(2) });
      await container.item("same", shape.value(1)).delete();
      assert.equal((await container.item("same", shape.value(2)).read()).statusCode, 200);
      await container.item("same", shape.value(2)).delete();
    });

    it("obey ETag conditions", async () => {
      const { resource, item } = await container.items.create({ id: "tag", ...shape.item(3) });
      const stale = { accessCondition: { type: "IfMatch", condition: resource._etag } };
      await item.replace({ ...resource, n: 1 }, stale);
      await refused(item.replace({ ...resource, n: 2 }, stale), 412);
      await refused(item.delete(stale), 412);
      const { resource: current } = await item.read();
      assert.equal(current.n, 1);
      const unchanged = { accessCondition: { type: "IfNoneMatch", condition: current._etag } };
      assert.equal((await item.read(unchanged)).statusCode, 304);
      await item.delete({ accessCondition: { type: "IfMatch", condition: current._etag } });
    });

    it("are patched", async () => {
      const body = { id: "patch", ...shape.item(4), n: 1, list: [1, 3], old: "x", gone: true };
      const { item } = await container.items.create(body);
      const { resource } = await item.patch([
        { op: "add", path: "/list/1", value: 2 },
        { op: "add", path: "/list/-", value: 4 },
        { op: "set", path: "/deep", value: { a: 1 } },
        { op: "replace", path: "/deep/a", value: 2 },
        { op: "incr", path: "/n", value: 41 },
        { op: "remove", path: "/gone" },
        { op: "move", from: "/old", path: "/new" },
      ]);
      const { old, gone, ...kept } = body;
      const expected = { ...kept, n: 42, list: [1, 2, 3, 4], deep: { a: 2 }, new: "x" };
      assert.deepEqual(withoutSystem(resource), expected);

      const operations = [{ op: "set", path: "/n", value: 0 }];
      await refused(item.patch({ condition: "from c where c.n = 7", operations }), 412);
      await item.patch({ condition: "from c where c.n = 42", operations });
      assert.equal((await item.read()).resource.n, 0);
      await refused(item.patch([{ op: "set", path: "/id", value: "other" }]), 400);
      await refused(item.patch([{ op: "replace", path: "/missing", value: 1 }]), 400);
      const eleven = Array.from({ length: 11 }, () => ({ op: "incr", path: "/n", value: 1 }));
      await refused(item.patch(eleven), 400);
      await item.delete();
    });
  });
}

describeInEachSize("item ids and keys", (scope) => {
  let container;
  before(async () => {
    container = await scope.create({ partitionKey: KEYS["hash, version 2"] });
  });

  const ids = [
    "with space", "ünïcödé", "数据", "😀", ",=.:~+-@()^${}[]!_", "100%", "%20", "%E9%B1%80", "a?b",
    "tab\tline\nreturn\r", "'quoted'", '"double"', "x".repeat(1023),
  ];
  for (const id of ids) {
    it(`take the id ${JSON.stringify(id.slice(0, 40))}`, async () => {
      await container.items.create({ id, pk: "p" });
      const { resource } = await container.item(id, "p").read();
      assert.equal(resource.id, id);
      await container.item(id, "p").delete();
      assert.equal((await container.item(id, "p").read()).statusCode, 404);
    });
  }

  const keys = ["", "ключ", "a/b", 0, -1.5, 9007199254740991, 1e300, true, false, null];
  for (const pk of keys) {
    it(`take the partition key ${JSON.stringify(pk)}`, async () => {
      const id = unique("key");
      await container.items.create({ id, pk });
      const { resource } = await container.item(id, pk).read();
      assert.deepEqual(resource.pk, pk);
      await container.item(id, pk).delete();
    });
  }

  it("tell a missing key from null", async () => {
    await container.items.create({ id: "none" });
    assert.equal((await container.item("none", undefined).read()).statusCode, 200);
    assert.equal((await container.item("none", null).read()).statusCode, 404);
  });

  it("make an id when none is given", async () => {
    const { resource } = await container.items.create({ pk: "p" });
    assert.match(resource.id, /^[0-9a-f-]{36}$/);
  });

  it("stay what they are written as", async () => {
    const body = { id: "exact", pk: "p", list: [1.5, -0.25, 1e21, null, true, "", {}, []] };
    await container.items.create(body);
    const { resource } = await container.item("exact", "p").read();
    assert.deepEqual(withoutSystem(resource), body);
  });

  it("are refused above 2 MB", async () => {
    const text = "x".repeat(2 * 1024 * 1024 + 1);
    await refused(container.items.create({ id: "big", pk: "p", text }), 413);
    const fits = "x".repeat(2 * 1024 * 1024 - 2000);
    await container.items.create({ id: "big", pk: "p", text: fits });
    assert.equal((await container.item("big", "p").read()).resource.text.length, fits.length);
  });
});

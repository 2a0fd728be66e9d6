// Databases: their life, their names, their feed.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { client, refused, unique } from "../account.js";

describe("databases", () => {
  it("are created, read, listed and deleted", async () => {
    const id = unique("life");
    const created = await client.databases.create({ id });
    assert.equal(created.statusCode, 201);
    assert.equal(created.resource.id, id);
    for (const property of ["_rid", "_self", "_etag", "_ts"]) {
      assert.ok(created.resource[property], property);
    }
    const read = await client.database(id).read();
    assert.deepEqual(read.resource, created.resource);
    const { resources } = await client.databases.readAll().fetchAll();
    assert.ok(resources.some((database) => database.id === id));

    assert.equal((await client.database(id).delete()).statusCode, 204);
    await refused(client.database(id).delete(), 404);
  });

  it("exist once", async () => {
    const id = unique("once");
    await client.databases.create({ id });
    await refused(client.databases.create({ id }), 409);
    const again = await client.databases.createIfNotExists({ id });
    assert.equal(again.statusCode, 200);
    await client.database(id).delete();
  });

  for (const name of ["数据库", "Datenbank mit Leerzeichen", "😀", "a+b=c&d", "100%25"]) {
    it(`may be called ${name}`, async () => {
      const id = `${unique("js")} ${name}`;
      await client.databases.create({ id });
      const { resource } = await client.database(id).read();
      assert.equal(resource.id, id);
      const { container } = await client.database(id).containers.create({
        id: name,
        partitionKey: { paths: ["/id"] },
      });
      await container.items.create({ id: "1", name });
      assert.equal((await container.item("1", "1").read()).resource.name, name);
      await client.database(id).delete();
    });
  }

  it("are listed in pages", async () => {
    const ids = [0, 1, 2, 3, 4].map((n) => unique(`page${n}`));
    for (const id of ids) await client.databases.create({ id });
    const found = [];
    const pages = client.databases.readAll({ maxItemCount: 2 });
    while (pages.hasMoreResults()) {
      const { resources = [] } = await pages.fetchNext();
      assert.ok(resources.length <= 2, `a page of ${resources.length}`);
      found.push(...resources.map((database) => database.id));
    }
    assert.equal(new Set(found).size, found.length, "no database twice");
    for (const id of ids) assert.ok(found.includes(id), id);
    for (const id of ids) await client.database(id).delete();
  });

  it("are found by a query", async () => {
    const id = unique("query");
    await client.databases.create({ id });
    const query = {
      query: "SELECT * FROM root r WHERE r.id = @id",
      parameters: [{ name: "@id", value: id }],
    };
    const { resources } = await client.databases.query(query).fetchAll();
    assert.deepEqual(resources.map((database) => database.id), [id]);
    await client.database(id).delete();
  });
});

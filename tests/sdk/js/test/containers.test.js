// Containers: definitions, defaults, partitions.
import assert from "node:assert/strict";
import { it } from "node:test";
import { KEYS, describeInEachSize, refused, unique } from "../account.js";

describeInEachSize("containers", (scope) => {
  for (const [name, partitionKey] of Object.entries(KEYS)) {
    it(`keep a partition key of kind ${name}`, async () => {
      const container = await scope.create({ partitionKey });
      const { resource } = await container.read();
      assert.deepEqual(resource.partitionKey.paths, partitionKey.paths);
      assert.equal(resource.partitionKey.kind, partitionKey.kind);
      assert.equal(resource.partitionKey.version ?? 1, partitionKey.version);
    });

    it(`start with as many partitions as their throughput asks for (${name})`, async () => {
      const container = await scope.create({ partitionKey });
      const { resources } = await container.readPartitionKeyRanges().fetchAll();
      assert.equal(resources.length, scope.size.partitions);
      const ordered = resources.toSorted((a, b) => (a.minInclusive < b.minInclusive ? -1 : 1));
      assert.equal(ordered[0].minInclusive, "");
      assert.equal(ordered.at(-1).maxExclusive, "FF");
      ordered.slice(1).forEach((range, at) => {
        assert.equal(range.minInclusive, ordered[at].maxExclusive, "no gap, no overlap");
      });
    });
  }

  it("have the service's defaults", async () => {
    const container = await scope.create({ partitionKey: KEYS["hash, version 2"] });
    const { resource } = await container.read();
    assert.equal(resource.indexingPolicy.indexingMode, "consistent");
    assert.equal(resource.indexingPolicy.automatic, true);
    assert.deepEqual(resource.indexingPolicy.includedPaths.map((p) => p.path), ["/*"]);
    assert.deepEqual(resource.indexingPolicy.excludedPaths.map((p) => p.path), ['/"_etag"/?']);
    assert.equal(resource.conflictResolutionPolicy.mode, "LastWriterWins");
  });

  it("keep indexing policy, unique keys and time to live", async () => {
    const indexingPolicy = {
      indexingMode: "consistent",
      automatic: true,
      includedPaths: [{ path: "/a/?" }],
      excludedPaths: [{ path: "/*" }],
      compositeIndexes: [
        [
          { path: "/a", order: "ascending" },
          { path: "/b", order: "descending" },
        ],
      ],
    };
    const uniqueKeyPolicy = { uniqueKeys: [{ paths: ["/email"] }] };
    const container = await scope.create({
      partitionKey: KEYS["hash, version 2"],
      indexingPolicy,
      uniqueKeyPolicy,
      defaultTtl: 3600,
    });
    const { resource } = await container.read();
    assert.deepEqual(resource.indexingPolicy.compositeIndexes, indexingPolicy.compositeIndexes);
    assert.deepEqual(resource.uniqueKeyPolicy.uniqueKeys[0].paths, ["/email"]);
    assert.equal(resource.defaultTtl, 3600);

    await container.items.create({ id: "1", pk: "x", email: "a@example.com" });
    await refused(container.items.create({ id: "2", pk: "x", email: "a@example.com" }), 409);
    await container.items.create({ id: "2", pk: "y", email: "a@example.com" });
  });

  it("are replaced, but never get another partition key", async () => {
    const container = await scope.create({ partitionKey: KEYS["hash, version 2"] });
    const { resource } = await container.read();
    await container.replace({ ...resource, defaultTtl: 60 });
    assert.equal((await container.read()).resource.defaultTtl, 60);
    const moved = { ...resource, partitionKey: { ...resource.partitionKey, paths: ["/other"] } };
    await refused(container.replace(moved), 400);
  });

  it("are listed, found by query, and deleted with all they hold", async () => {
    const container = await scope.create({ partitionKey: KEYS["hash, version 2"] });
    await container.items.create({ id: "1", pk: "x" });
    const { resources } = await scope.database.containers.readAll().fetchAll();
    assert.ok(resources.some((other) => other.id === container.id));
    const query = `SELECT * FROM c WHERE c.id = "${container.id}"`;
    const found = await scope.database.containers.query(query).fetchAll();
    assert.deepEqual(found.resources.map((other) => other.id), [container.id]);

    await container.delete();
    await refused(container.read(), 404);
    await refused(container.items.create({ id: "2", pk: "x" }), 404);
    const request = { id: container.id, partitionKey: KEYS["hash, version 2"] };
    const { container: again } = await scope.database.containers.create(request);
    assert.equal((await again.item("1", "x").read()).statusCode, 404);
  });

  it("exist once and refuse bad definitions", async () => {
    const container = await scope.create({ partitionKey: KEYS["hash, version 2"] });
    const create = (definition) => scope.database.containers.create(definition);
    await refused(create({ id: container.id, partitionKey: { paths: ["/pk"] } }), 409);
    const message = "Partition key paths must contain only valid characters";
    const error = await refused(
      create({ id: unique("bad"), partitionKey: { paths: ["/pk/"], kind: "Hash", version: 2 } }),
      400,
    );
    assert.ok(error.message.includes(message), error.message);
    const four = { paths: ["/a", "/b", "/c", "/d"], kind: "MultiHash", version: 2 };
    await refused(create({ id: unique("bad"), partitionKey: four }), 400);
  });
});

// Throughput: given at creation, read as an offer, replaced.
import assert from "node:assert/strict";
import { it } from "node:test";
import { KEYS, client, describeInDatabase, describeInEachSize, refused, unique } from "../account.js";

describeInEachSize("offers of containers", (scope) => {
  it("hold the throughput and can be replaced", async () => {
    const container = await scope.create({ partitionKey: KEYS["hash, version 2"] });
    const { resource } = await container.readOffer();
    assert.equal(resource.content.offerThroughput, scope.size.throughput);
    assert.ok(resource._self.includes(resource.id));

    const more = structuredClone(resource);
    more.content.offerThroughput = scope.size.throughput + 100;
    await client.offer(resource.id).replace(more);
    const { resource: replaced } = await client.offer(resource.id).read();
    assert.equal(replaced.content.offerThroughput, scope.size.throughput + 100);
    assert.equal(replaced.resource, resource.resource);
  });

  it("go away with their container", async () => {
    const container = await scope.create({ partitionKey: KEYS["hash, version 2"] });
    const { resource } = await container.readOffer();
    await container.delete();
    await refused(client.offer(resource.id).read(), 404);
  });
});

describeInDatabase("offers", (scope) => {
  it("may be autoscale", async () => {
    const request = { id: unique("auto"), partitionKey: { paths: ["/pk"] }, maxThroughput: 5000 };
    const { container } = await scope.database.containers.create(request);
    const { resource } = await container.readOffer();
    assert.equal(resource.content.offerAutopilotSettings.maxThroughput, 5000);
    assert.equal(resource.content.offerThroughput, 500);
  });

  it("may belong to a database, whose containers then share it", async () => {
    const { database } = await client.databases.create({ id: unique("shared"), throughput: 500 });
    assert.equal((await database.readOffer()).resource.content.offerThroughput, 500);
    const request = { id: "c", partitionKey: { paths: ["/pk"] } };
    const { container } = await database.containers.create(request);
    assert.equal((await container.readOffer()).resource, undefined);
    await database.delete();
  });

  it("are refused when out of range or not in steps of 100", async () => {
    for (const throughput of [100, 401]) {
      const request = { id: unique("bad"), partitionKey: { paths: ["/pk"] }, throughput };
      await refused(scope.database.containers.create(request), 400);
    }
  });

  it("are listed", async () => {
    const request = { id: unique("list"), partitionKey: { paths: ["/pk"] }, throughput: 400 };
    const { container, resource } = await scope.database.containers.create(request);
    const { resources } = await client.offers.readAll().fetchAll();
    const own = resources.filter((offer) => offer.offerResourceId === resource._rid);
    assert.equal(own.length, 1);
    await container.delete();
  });
});

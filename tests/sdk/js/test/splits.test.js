// Partitions are split for more throughput while clients read, write, ask and follow the change
// feed: nobody notices.
import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { it } from "node:test";
import { BulkOperationType, ChangeFeedStartFrom } from "@azure/cosmos";
import { KEYS, client, describeInDatabase, unique } from "../account.js";

const BEFORE = 300;
const keyOf = (n) => `key-${n % 97}`;
const itemOf = (n) => ({ id: `item-${n}`, pk: keyOf(n), n });
const numbers = (count) => Array.from({ length: count }, (_, n) => n);

async function changed(container) {
  const seen = new Set();
  const feed = container.items.getChangeFeedIterator({
    changeFeedStartFrom: ChangeFeedStartFrom.Beginning(),
  });
  for await (const page of feed.getAsyncIterator()) {
    if (page.statusCode === 304) break;
    page.result.forEach((item) => seen.add(item.n));
  }
  return [...seen].sort((a, b) => a - b);
}

async function splitTo(container, throughput) {
  const { resource } = await container.readOffer();
  resource.content.offerThroughput = throughput;
  await client.offer(resource.id).replace(resource);
  for (;;) {
    const { resource: now } = await client.offer(resource.id).read();
    if (!now.content.isOfferReplacePending) return;
    await pause(100);
  }
}

describeInDatabase("a split", (scope) => {
  for (const name of ["hash, version 1", "hash, version 2"]) {
    it(`is noticed by nobody (${name})`, async () => {
      const request = { id: unique("c"), partitionKey: KEYS[name], throughput: 6000 };
      const { container } = await scope.database.containers.create(request);
      let next = 0;
      let done = false;
      const create = () => container.items.create(itemOf(next++));
      for (let n = 0; n < BEFORE; n++) await create();

      const until = async (step) => {
        while (!done) await step();
      };
      const running = Promise.all([
        until(create),
        until(create),
        until(async () => {
          const first = next;
          next += 10;
          const creates = numbers(10).map((n) => ({
            operationType: BulkOperationType.Create,
            partitionKey: keyOf(first + n),
            resourceBody: itemOf(first + n),
          }));
          const results = await container.items.executeBulkOperations(creates);
          results.forEach(({ response }) => assert.equal(response?.statusCode, 201));
        }),
        until(async () => {
          const n = next % BEFORE;
          const { resource } = await container.item(`item-${n}`, keyOf(n)).read();
          assert.equal(resource.n, n);
        }),
        // Ordered by the server, in one partition: this client asks a range that is gone over and
        // over when it merges (its DocumentProducer keeps the 410 to itself).
        until(async () => {
          const text = `SELECT VALUE c.n FROM c WHERE c.n < ${BEFORE} ORDER BY c.n DESC`;
          const options = { partitionKey: keyOf(7), maxItemCount: 1 };
          const { resources } = await container.items.query(text, options).fetchAll();
          assert.deepEqual(resources, [298, 201, 104, 7]);
        }),
        until(async () => {
          const text = `SELECT VALUE c.n FROM c WHERE c.n < ${BEFORE}`;
          const options = { maxItemCount: 50 };
          const { resources } = await container.items.query(text, options).fetchAll();
          assert.deepEqual(resources.sort((a, b) => a - b), numbers(BEFORE));
        }),
        until(async () => assert.ok((await changed(container)).length >= BEFORE)),
      ]);
      try {
        await Promise.race([running, splitTo(container, 40_000)]);
        const { resources: ranges } = await container.readPartitionKeyRanges().fetchAll();
        assert.equal(ranges.length, 4);
        await pause(500);
      } finally {
        done = true;
      }
      await running;

      const { resources } = await container.items.query("SELECT VALUE c.n FROM c").fetchAll();
      assert.deepEqual(resources.sort((a, b) => a - b), numbers(next));
      assert.deepEqual(await changed(container), numbers(next));
      await container.delete();
    });
  }
});

// The change feed: latest versions and all versions, of a container and of its parts, across a split.
import {
  ChangeFeedMode,
  ChangeFeedPolicy,
  ChangeFeedRetentionTimeSpan,
  ChangeFeedStartFrom,
} from "@azure/cosmos";
import assert from "node:assert/strict";
import { it } from "node:test";
import { KEYS, client, describeInDatabase, describeInEachSize, refused } from "../account.js";

const COUNT = 40;
const OK = 200;
const NOT_MODIFIED = 304;

const partitionKey = KEYS["hash, version 2"];

async function fill(container, count = COUNT) {
  for (let n = 0; n < count; n++) {
    await container.items.upsert({ id: `item-${n}`, pk: `key-${n % 10}`, n });
  }
}

// Everything up to now, and where to go on.
async function drain(iterator) {
  const items = [];
  for await (const page of iterator.getAsyncIterator()) {
    if (page.statusCode === NOT_MODIFIED) return { items, token: page.continuationToken };
    assert.equal(page.statusCode, OK);
    assert.equal(page.count, page.result.length);
    items.push(...page.result);
  }
  throw new Error("the change feed ended");
}

const from = (container, changeFeedStartFrom, more = {}) =>
  container.items.getChangeFeedIterator({ changeFeedStartFrom, ...more });

const ids = (items) => items.map((item) => item.id).sort();

describeInEachSize("the change feed", (scope) => {
  it("has every item once, and goes on where it was", async () => {
    const container = await scope.create({ partitionKey });
    await fill(container);
    await container.item("item-3", "key-3").delete();
    const begin = ChangeFeedStartFrom.Beginning();
    const { items, token } = await drain(from(container, begin, { maxItemCount: 3 }));
    assert.equal(new Set(ids(items)).size, COUNT - 1);
    assert.equal(items.length, COUNT - 1);
    assert.ok(items.every((item) => Number.isInteger(item._lsn)));

    const resumed = ChangeFeedStartFrom.Continuation(token);
    assert.deepEqual((await drain(from(container, resumed))).items, []);
    await container.items.upsert({ id: "item-5", pk: "key-5", n: 500 });
    const { items: changed } = await drain(from(container, resumed));
    assert.deepEqual(
      changed.map((item) => [item.id, item.n]),
      [["item-5", 500]],
    );
  });

  it("of a partition key is in the order of changes", async () => {
    const container = await scope.create({ partitionKey });
    await fill(container);
    await container.items.upsert({ id: "item-2", pk: "key-2", n: -1 });
    const begin = ChangeFeedStartFrom.Beginning("key-2");
    const { items } = await drain(from(container, begin, { maxItemCount: 1 }));
    const order = items.map((item) => item.id);
    assert.deepEqual(order, ["item-12", "item-22", "item-32", "item-2"]);
  });

  it("begins now, or at a time", async () => {
    const container = await scope.create({ partitionKey });
    await fill(container, 10);
    const all = from(container, ChangeFeedStartFrom.Now());
    const one = from(container, ChangeFeedStartFrom.Now("key-1"));
    for (const iterator of [all, one]) {
      assert.deepEqual((await drain(iterator)).items, []);
    }
    await container.items.create({ id: "a", pk: "key-1" });
    await container.items.create({ id: "b", pk: "key-2" });
    assert.deepEqual(ids((await drain(all)).items), ["a", "b"]);
    assert.deepEqual(ids((await drain(one)).items), ["a"]);

    const early = ChangeFeedStartFrom.Time(new Date(Date.now() - 3_600_000));
    assert.equal((await drain(from(container, early))).items.length, 12);
    const late = ChangeFeedStartFrom.Time(new Date(Date.now() + 3_600_000));
    assert.deepEqual((await drain(from(container, late))).items, []);
  });

  it("of the feed ranges is that of the container", async () => {
    const container = await scope.create({ partitionKey });
    await fill(container);
    const ranges = await container.getFeedRanges();
    assert.equal(ranges.length, scope.size.partitions);
    const parts = [];
    for (const range of ranges) {
      const { items } = await drain(from(container, ChangeFeedStartFrom.Beginning(range)));
      parts.push(...items);
    }
    assert.equal(parts.length, COUNT);
    assert.equal(new Set(ids(parts)).size, COUNT);
  });

  it("is read by the older iterator", async () => {
    const container = await scope.create({ partitionKey });
    await fill(container, 10);
    const iterator = container.items.readChangeFeed("key-1", { startFromBeginning: true });
    const page = await iterator.fetchNext();
    assert.deepEqual(ids(page.result), ["item-1"]);
    const next = await iterator.fetchNext();
    assert.equal(next.statusCode, NOT_MODIFIED);
    assert.notEqual(next.etag, "");

    const older = container.items.changeFeed("key-1", { startFromBeginning: true });
    assert.ok(older.hasMoreResults);
    for await (const { result } of older.getAsyncIterator()) {
      assert.deepEqual(ids(result), ["item-1"]);
      break;
    }
  });

  it("tells what a page cost, and where it is", async () => {
    const container = await scope.create({ partitionKey });
    await fill(container, 10);
    const page = await from(container, ChangeFeedStartFrom.Beginning()).readNext();
    assert.ok(page.requestCharge > 0);
    assert.match(page.activityId, /^[0-9a-f-]{36}$/);
    assert.notEqual(page.sessionToken, undefined);
  });

  it("of all versions tells creates, replaces and deletes", async () => {
    const changeFeedPolicy = new ChangeFeedPolicy(ChangeFeedRetentionTimeSpan.fromMinutes(5));
    const container = await scope.create({ partitionKey, changeFeedPolicy });
    const changeFeedMode = ChangeFeedMode.AllVersionsAndDeletes;
    const iterator = from(container, ChangeFeedStartFrom.Now(), { changeFeedMode });
    assert.deepEqual((await drain(iterator)).items, []);
    await container.items.create({ id: "x", pk: "a", v: 1 });
    await container.item("x", "a").replace({ id: "x", pk: "a", v: 2 });
    await container.item("x", "a").patch([{ op: "incr", path: "/v", value: 1 }]);
    await container.item("x", "a").delete();
    const { items } = await drain(iterator);
    const told = items.map(({ current, previous, metadata }) => [
      metadata.operationType,
      previous?.v,
      current.v,
    ]);
    assert.deepEqual(told, [
      ["create", undefined, 1],
      ["replace", undefined, 2],
      ["replace", undefined, 3],
      ["delete", 3, undefined],
    ]);
    assert.equal(items[3].metadata.id, "x");

    const beginning = from(container, ChangeFeedStartFrom.Beginning(), { changeFeedMode });
    await refused(beginning.readNext(), 400);
  });

  it("of all versions must be switched on", async () => {
    const container = await scope.create({ partitionKey });
    const changeFeedMode = ChangeFeedMode.AllVersionsAndDeletes;
    const iterator = from(container, ChangeFeedStartFrom.Now(), { changeFeedMode });
    await refused(iterator.readNext(), 400);
  });
});

describeInDatabase("the change feed across a split", (scope) => {
  it("goes on in the partitions that the old one became", async () => {
    const request = { id: "split", partitionKey, throughput: 400 };
    const { container } = await scope.database.containers.create(request);
    await fill(container);
    const reader = from(container, ChangeFeedStartFrom.Beginning(), { maxItemCount: 7 });
    const first = await reader.readNext();
    const { resource: offer } = await container.readOffer();
    offer.content.offerThroughput = 11_000;
    await client.offer(offer.id).replace(offer);
    await splitDone(container);

    await container.items.upsert({ id: "item-0", pk: "key-0", n: 100 });
    await container.items.upsert({ id: "new", pk: "key-7" });
    const { items, token } = await drain(reader);
    const seen = new Map([...first.result, ...items].map((item) => [item.id, item.n]));
    assert.equal(seen.size, COUNT + 1);
    assert.equal(seen.get("item-0"), 100);
    await container.items.upsert({ id: "last", pk: "key-9" });
    const rest = await drain(from(container, ChangeFeedStartFrom.Continuation(token)));
    assert.deepEqual(ids(rest.items), ["last"]);
  });
});

async function splitDone(container) {
  for (let tries = 0; tries < 300; tries++) {
    const { resources } = await container.readPartitionKeyRanges().fetchAll();
    if (resources.length > 1) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error("the partition was not split");
}

// Somebody follows the change feed and is interrupted at random: it begins anew with another client
// from where it last wrote down how far it was. Meanwhile others write, and the partitions are split.
// Nothing may be missing, and what happens under a partition key comes in its order.
import {
  ChangeFeedMode,
  ChangeFeedPolicy,
  ChangeFeedRetentionTimeSpan,
  ChangeFeedStartFrom,
  CosmosClient,
} from "@azure/cosmos";
import assert from "node:assert/strict";
import { it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { KEYS, client, describeInDatabase, endpoint, key, unique } from "../account.js";

const ITEMS = 60;
const WRITERS = 4;
const RESTARTS = 20;
const THROUGHPUTS = [20_000, 50_000];
const partitionKey = KEYS["hash, version 2"];
const pkOf = (n) => `key-${n % 13}`;

// A generator of numbers below a limit, the same in every run.
function dice(seed) {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return (state >>> 8) % limit;
  };
}

// Writes its own items again and again: what was acknowledged, in order.
async function write(container, number, history, isDone) {
  const roll = dice(number + 1);
  const versions = new Map();
  while (!isDone()) {
    const n = roll(ITEMS / WRITERS) * WRITERS + number;
    const id = `item-${n}`;
    const version = (versions.get(id) ?? 0) + 1;
    versions.set(id, version);
    await container.items.upsert({ id, pk: pkOf(n), version });
    if (!history.has(id)) history.set(id, []);
    history.get(id).push(version);
  }
}

// What a change says, in both modes.
function changeOf(entry) {
  const item = entry.current ?? entry;
  return { id: item.id, pk: item.pk, version: item.version, lsn: entry.metadata?.lsn ?? item._lsn };
}

// Follows until nothing comes any more after the writers have ended.
async function follow(place, start, mode, told, isDone) {
  const roll = dice(99);
  let saved = start;
  for (;;) {
    const own = new CosmosClient({ endpoint, key });
    const container = own.database(place.database).container(place.container);
    const feed = container.items.getChangeFeedIterator({
      changeFeedStartFrom: saved,
      changeFeedMode: mode,
      maxItemCount: 1 + roll(20),
    });
    const last = new Map();
    for await (const page of feed.getAsyncIterator()) {
      const ended = isDone();
      for (const entry of page.statusCode === 304 ? [] : page.result) {
        const change = changeOf(entry);
        assert.ok(change.lsn >= (last.get(change.pk) ?? 0), `${change.pk} goes back`);
        last.set(change.pk, change.lsn);
        if (!told.seen.has(change.id)) told.seen.set(change.id, []);
        told.seen.get(change.id).push(change.version);
      }
      if (page.statusCode === 304 && ended) return;
      if (page.statusCode === 304) await pause(20);
      if (roll(3) === 0) saved = ChangeFeedStartFrom.Continuation(page.continuationToken);
      if (!ended && roll(6) === 0) break;
    }
    told.restarts += 1;
    own.dispose();
  }
}

async function splitTo(container, throughput) {
  const { resource } = await container.readOffer();
  resource.content.offerThroughput = throughput;
  await client.offer(resource.id).replace(resource);
  while ((await client.offer(resource.id).read()).resource.content.isOfferReplacePending) {
    await pause(50);
  }
  await pause(300);
}

describeInDatabase("a follower that is interrupted at random", (scope) => {
  async function run(changeFeedPolicy, mode) {
    const id = unique("c");
    const request = { id, partitionKey, throughput: 6_000, changeFeedPolicy };
    const { container } = await scope.database.containers.create(request);
    const feed = container.items.getChangeFeedIterator({
      changeFeedStartFrom: ChangeFeedStartFrom.Now(),
      changeFeedMode: mode,
    });
    const { continuationToken } = await feed.readNext();
    const start = ChangeFeedStartFrom.Continuation(continuationToken);
    const history = new Map();
    const told = { seen: new Map(), restarts: 0 };
    let [writing, written] = [true, false];
    const writers = Array.from({ length: WRITERS }, (_, number) =>
      write(container, number, history, () => !writing),
    );
    const place = { database: scope.database.id, container: id };
    const following = follow(place, start, mode, told, () => written);
    try {
      for (const throughput of THROUGHPUTS) {
        await Promise.race([following, ...writers, splitTo(container, throughput)]);
      }
      while (told.restarts < RESTARTS) {
        await Promise.race([following, ...writers, pause(50)]);
      }
    } finally {
      writing = false;
    }
    await Promise.all(writers);
    written = true;
    await following;
    const { resources: ranges } = await container.readPartitionKeyRanges().fetchAll();
    assert.equal(ranges.length, 5);
    assert.deepEqual([...told.seen.keys()].sort(), [...history.keys()].sort());
    await container.delete();
    return { history, seen: told.seen };
  }

  it("sees the last version of every item", async () => {
    const { history, seen } = await run(undefined, ChangeFeedMode.LatestVersion);
    for (const [id, versions] of history) assert.equal(seen.get(id).at(-1), versions.at(-1), id);
  });

  it("sees every version where all are told", async () => {
    const policy = new ChangeFeedPolicy(ChangeFeedRetentionTimeSpan.fromMinutes(5));
    const mode = ChangeFeedMode.AllVersionsAndDeletes;
    const { history, seen } = await run(policy, mode);
    for (const [id, versions] of history) {
      assert.deepEqual([...new Set(seen.get(id))].sort((a, b) => a - b), versions, id);
    }
  });
});

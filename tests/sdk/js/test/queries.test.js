// Queries: every clause, in one and in several partitions, under all the ways in which the SDK runs
// them. What comes is compared with the same question answered in JavaScript.
import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { KEYS, describeInEachSize, refused, withoutSystem } from "../account.js";

const COUNT = 120;
const ITEMS = Array.from({ length: COUNT }, (_, n) => ({
  id: `item-${n}`,
  pk: `key-${n % 20}`,
  n,
  team: `g${n % 4}`,
  even: n % 2 === 0,
  price: (n * 7) % 50 + 0.5,
  tags: [`t${n % 3}`, `t${n % 5}`, "all"],
  deep: { er: { n: -n } },
}));

const INDEXES = {
  indexingMode: "consistent",
  includedPaths: [{ path: "/*" }],
  excludedPaths: [{ path: '/"_etag"/?' }],
  compositeIndexes: [
    [{ path: "/team", order: "ascending" }, { path: "/n", order: "descending" }],
  ],
};

// The ways in which the SDK can be told to run a query over the whole container.
const WAYS = {
  "as it comes": {},
  "with a plan": { forceQueryPlan: true },
  "in small pages": { maxItemCount: 7 },
  "in parallel": { forceQueryPlan: true, maxDegreeOfParallelism: 5 },
  "with as many workers as it likes": { maxDegreeOfParallelism: -1, maxItemCount: 3 },
  buffering: { forceQueryPlan: true, bufferItems: true, maxDegreeOfParallelism: 2 },
  "page by page, when they are ready": { enableQueryControl: true, maxItemCount: 9 },
};

const by = (key) => (a, b) => key(a) - key(b);
const sum = (values) => values.reduce((a, b) => a + b, 0);
const distinct = (values) => [...new Set(values)];
const sorted = (rows) => rows.map((row) => JSON.stringify(row)).sort();

// Queries and what they must give: `any` in any order, `exact` in this one.
const CASES = [
  ["SELECT VALUE c.n FROM c", { any: ITEMS.map((item) => item.n) }],
  ["SELECT VALUE c.n FROM c WHERE c.n >= 100", { any: ITEMS.slice(100).map((item) => item.n) }],
  ["SELECT c.id, c.deep.er.n AS minus FROM c WHERE c.team = 'g1'",
    { any: ITEMS.filter((item) => item.team === "g1").map(({ id, n }) => ({ id, minus: -n })) }],
  ["SELECT VALUE c.n FROM c WHERE c.pk IN ('key-3', 'key-4') AND c.even",
    { any: ITEMS.filter((item) => item.pk === "key-4").map((item) => item.n) }],
  ["SELECT VALUE c.n FROM c WHERE c.pk = 'key-7'",
    { any: ITEMS.filter((item) => item.pk === "key-7").map((item) => item.n) }],
  ["SELECT VALUE c.n FROM c WHERE c.n = 3 OR c.deep.er.n = -5", { any: [3, 5] }],
  ["SELECT VALUE c.n FROM c WHERE c.id LIKE 'item-11%'", { any: [11, 110, 111, 112, 113, 114, 115, 116, 117, 118, 119] }],
  ["SELECT VALUE c.n FROM c WHERE STARTSWITH(c.id, 'item-10') AND NOT IS_DEFINED(c.none)",
    { any: [10, 100, 101, 102, 103, 104, 105, 106, 107, 108, 109] }],
  ["SELECT VALUE c.n FROM c WHERE (c.n BETWEEN 5 AND 8) AND ARRAY_CONTAINS(c.tags, 't0')",
    { any: ITEMS.slice(5, 9).filter((item) => item.tags.includes("t0")).map((item) => item.n) }],
  ["SELECT VALUE t FROM c JOIN t IN c.tags WHERE c.n < 3",
    { any: ITEMS.slice(0, 3).flatMap((item) => item.tags) }],
  ["SELECT VALUE c.n FROM c WHERE EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t = 't4') AND c.n < 20",
    { any: ITEMS.slice(0, 20).filter((item) => item.tags.includes("t4")).map((item) => item.n) }],
  ["SELECT VALUE c.n FROM c ORDER BY c.n", { exact: ITEMS.map((item) => item.n) }],
  ["SELECT VALUE c.n FROM c ORDER BY c.n DESC", { exact: ITEMS.map((item) => item.n).reverse() }],
  ["SELECT c.n FROM c WHERE c.even ORDER BY c.deep.er.n",
    { exact: ITEMS.filter((item) => item.even).map(({ n }) => ({ n })).reverse() }],
  ["SELECT VALUE c.n FROM c ORDER BY c.team, c.n DESC",
    { exact: [...ITEMS].sort((a, b) => a.team.localeCompare(b.team) || b.n - a.n).map((item) => item.n) }],
  ["SELECT TOP 10 VALUE c.n FROM c ORDER BY c.n", { exact: ITEMS.slice(0, 10).map((item) => item.n) }],
  ["SELECT VALUE c.n FROM c ORDER BY c.n DESC OFFSET 5 LIMIT 12",
    { exact: ITEMS.map((item) => item.n).reverse().slice(5, 17) }],
  ["SELECT DISTINCT VALUE c.team FROM c", { any: distinct(ITEMS.map((item) => item.team)) }],
  ["SELECT DISTINCT c.team, c.even FROM c WHERE c.n < 60",
    { any: [["g0", true], ["g1", false], ["g2", true], ["g3", false]].map(([team, even]) => ({ team, even })) }],
  ["SELECT DISTINCT VALUE c.team FROM c ORDER BY c.team", { exact: ["g0", "g1", "g2", "g3"] }],
  ["SELECT VALUE COUNT(1) FROM c", { exact: [COUNT] }],
  ["SELECT VALUE COUNT(c.none) FROM c", { exact: [0] }],
  ["SELECT VALUE SUM(c.n) FROM c WHERE c.even", { exact: [sum(ITEMS.filter((item) => item.even).map((item) => item.n))] }],
  ["SELECT VALUE AVG(c.price) FROM c", { exact: [sum(ITEMS.map((item) => item.price)) / COUNT] }],
  ["SELECT VALUE MIN(c.price) FROM c", { exact: [Math.min(...ITEMS.map((item) => item.price))] }],
  ["SELECT VALUE MAX(c.price) FROM c WHERE c.team = 'g2'",
    { exact: [Math.max(...ITEMS.filter((item) => item.team === "g2").map((item) => item.price))] }],
  ["SELECT c.team, COUNT(1) AS items, SUM(c.n) AS total, MAX(c.n) AS most FROM c GROUP BY c.team",
    { any: distinct(ITEMS.map((item) => item.team)).map((team) => {
      const numbers = ITEMS.filter((item) => item.team === team).map((item) => item.n);
      return { team, items: numbers.length, total: sum(numbers), most: Math.max(...numbers) };
    }) }],
  ["SELECT c.team FROM c GROUP BY c.team", { any: ["g0", "g1", "g2", "g3"].map((team) => ({ team })) }],
  ["SELECT VALUE [c.n, c.even ? 'yes' : 'no', c.none ?? 0, CONCAT(c.team, '!')] FROM c WHERE c.n = 1",
    { exact: [[1, "no", 0, "g1!"]] }],
  ["SELECT VALUE c.n FROM c WHERE false", { exact: [] }],
];

// The SDK does not continue these page by page.
const needsEverything = (query) => /GROUP BY|DISTINCT|COUNT|SUM|AVG|MIN|MAX/.test(query);

function check(rows, expected, what) {
  if (expected.exact) assert.deepEqual(rows, expected.exact, what);
  else assert.deepEqual(sorted(rows), sorted(expected.any), what);
}

async function filled(scope, definition) {
  const container = await scope.create({ indexingPolicy: INDEXES, ...definition });
  for (const item of ITEMS) await container.items.create(item);
  return container;
}

describeInEachSize("queries", (scope) => {
  let container;
  before(async () => {
    container = await filled(scope, { partitionKey: KEYS["hash, version 2"] });
  });

  for (const [way, options] of Object.entries(WAYS)) {
    describe(`fetched whole, ${way}`, () => {
      for (const [query, expected] of CASES) {
        it(query, async () => {
          const { resources, requestCharge } = await container.items.query(query, options).fetchAll();
          check(resources, expected, query);
          assert.ok(requestCharge > 0);
        });
      }
    });
  }

  it("come page by page", async () => {
    for (const [query, expected] of CASES) {
      const iterator = container.items.query(query, { maxItemCount: 11 });
      const rows = [];
      while (iterator.hasMoreResults()) {
        const { resources } = await iterator.fetchNext();
        assert.ok((resources?.length ?? 0) <= 11 || needsEverything(query), query);
        rows.push(...(resources ?? []));
      }
      check(rows, expected, query);
    }
  });

  it("can be iterated", async () => {
    const rows = [];
    const query = "SELECT VALUE c.n FROM c ORDER BY c.n";
    for await (const { resources } of container.items.query(query).getAsyncIterator()) {
      rows.push(...resources);
    }
    assert.deepEqual(rows, ITEMS.map((item) => item.n));
  });

  it("go on from a continuation token", async () => {
    const rows = [];
    let continuationToken;
    let requests = 0;
    do {
      const options = { maxItemCount: 13, continuationToken };
      const page = await container.items.query("SELECT VALUE c.n FROM c", options).fetchNext();
      rows.push(...page.resources);
      continuationToken = page.continuationToken;
      assert.ok(!continuationToken || continuationToken.length <= 1024);
      requests += 1;
    } while (continuationToken);
    check(rows, { any: ITEMS.map((item) => item.n) });
    assert.ok(requests >= COUNT / 13);
  });

  it("go on in order from a continuation token", async () => {
    for (const query of ["SELECT VALUE c.n FROM c ORDER BY c.n DESC", "SELECT VALUE c.n FROM c"]) {
      const rows = [];
      let continuationToken;
      do {
        const options = { maxItemCount: 17, continuationToken, enableQueryControl: true };
        const page = await container.items.query(query, options).fetchNext();
        rows.push(...(page.resources ?? []));
        continuationToken = page.continuationToken;
      } while (continuationToken);
      const numbers = ITEMS.map((item) => item.n);
      check(rows, query.includes("ORDER") ? { exact: numbers.reverse() } : { any: numbers }, query);
    }
  });

  it("take parameters of every type", async () => {
    const query = "SELECT VALUE c.n FROM c WHERE c.team = @group AND c.n < @max AND c.even = @even";
    const parameters = [
      { name: "@group", value: "g2" }, { name: "@max", value: 30 }, { name: "@even", value: true },
    ];
    const { resources } = await container.items.query({ query, parameters }).fetchAll();
    check(resources, { any: [2, 6, 10, 14, 18, 22, 26] });
    const value = [[1, "x", null], { a: { b: false } }];
    for (const one of value) {
      const spec = { query: "SELECT VALUE @v FROM c WHERE c.n = 1", parameters: [{ name: "@v", value: one }] };
      assert.deepEqual((await container.items.query(spec).fetchAll()).resources, [one]);
    }
    const spec = {
      query: "SELECT TOP @top VALUE c.n FROM c WHERE ARRAY_CONTAINS(@list, c.n) ORDER BY c.n",
      parameters: [{ name: "@top", value: 2 }, { name: "@list", value: [9, 7, 8] }],
    };
    assert.deepEqual((await container.items.query(spec).fetchAll()).resources, [7, 8]);
  });

  it("of one partition key may be anything", async () => {
    const options = { partitionKey: "key-3" };
    const own = ITEMS.filter((item) => item.pk === "key-3");
    for (const [query, expected] of [
      ["SELECT * FROM c", own],
      ["SELECT VALUE c.n FROM c ORDER BY c.n DESC", own.map((item) => item.n).reverse()],
      ["SELECT VALUE COUNT(1) FROM c", [own.length]],
      ["SELECT COUNT(1) AS a, MIN(c.n) AS b FROM c", [{ a: own.length, b: 3 }]],
      ["SELECT VALUE {sum: SUM(c.n) + 1} FROM c", [{ sum: sum(own.map((item) => item.n)) + 1 }]],
      ["SELECT c.even, COUNT(1) AS a FROM c GROUP BY c.even", [{ even: false, a: own.length }]],
      ["SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 2 LIMIT 2", [43, 63]],
    ]) {
      const { resources } = await container.items.query(query, options).fetchAll();
      const rows = resources.map((row) => (row?._rid ? withoutSystem(row) : row));
      assert.deepEqual(rows.sort(by((row) => row.n ?? 0)), [...expected].sort(by((row) => row.n ?? 0)), query);
    }
  });

  it("read all items", async () => {
    const { resources } = await container.items.readAll().fetchAll();
    assert.deepEqual(sorted(resources.map(withoutSystem)), sorted(ITEMS));
  });

  it("tell their metrics", async () => {
    const query = "SELECT * FROM c WHERE c.team = 'g1' AND c.n > 5";
    const options = { partitionKey: "key-1", populateQueryMetrics: true, populateIndexMetrics: true };
    const page = await container.items.query(query, options).fetchNext();
    const expected = ITEMS.filter((item) => item.pk === "key-1" && item.n > 5).length;
    assert.equal(page.resources.length, expected);
    const [metrics] = Object.values(page.queryMetrics);
    assert.equal(metrics.outputDocumentCount, expected);
    const indexes = JSON.parse(decodeURIComponent(page.headers["x-ms-cosmos-index-utilization"]));
    assert.ok(Array.isArray(indexes.UtilizedIndexes.SingleIndexes));
    assert.ok(Array.isArray(indexes.PotentialIndexes.CompositeIndexes));
    const all = await container.items.query("SELECT * FROM c ORDER BY c.n", { populateQueryMetrics: true }).fetchAll();
    assert.equal(all.resources.length, COUNT);
  });

  it("that are wrong are refused", async () => {
    const run = (query, options) => container.items.query(query, options).fetchAll();
    for (const query of [
      "SELECT * FORM c", "SELECT * FROM c WHERE", "SELECT VALUE x FROM c", "SELECT NOPE(c.n) FROM c",
      "SELECT *, c.n FROM c", "SELECT * FROM c ORDER BY c.n + 1", "", "SELECT TOP -1 * FROM c",
    ]) {
      const error = await refused(run(query), 400);
      assert.match(error.message, /Message: \{/, query);
      await refused(run(query, { partitionKey: "key-1" }), 400);
      await refused(run(query, { forceQueryPlan: true }), 400);
    }
    const error = await refused(run("SELECT VALUE x.n FROM c"), 400);
    assert.match(error.message, /Identifier 'x' could not be resolved/);
    const junk = await refused(run("SELECT * FROM c", { continuationToken: "junk" }), 400);
    assert.match(junk.message, /Invalid Continuation Token/);
    await refused(run("SELECT * FROM c ORDER BY c.price, c.n", { partitionKey: "key-1" }), 400);
    await refused(run("SELECT * FROM c ORDER BY c.price, c.n"), 400);
  });
});

describeInEachSize("queries under hierarchical keys", (scope) => {
  let container;
  const items = ITEMS.slice(0, 60).map((item) => ({
    id: item.id, tenant: `t${item.n % 4}`, user: `u${item.n % 6}`, session: item.n, n: item.n,
  }));
  before(async () => {
    container = await scope.create({ partitionKey: KEYS.hierarchical });
    for (const item of items) await container.items.create(item);
  });

  const numbers = (keep) => items.filter(keep).map((item) => item.n);

  it("are restricted to a whole key or a prefix of it", async () => {
    const query = "SELECT VALUE c.n FROM c";
    for (const [partitionKey, keep] of [
      [["t1"], (item) => item.tenant === "t1"],
      [["t1", "u3"], (item) => item.tenant === "t1" && item.user === "u3"],
      [["t1", "u3", 9], (item) => item.n === 9],
      [["none"], () => false],
    ]) {
      const { resources } = await container.items.query(query, { partitionKey }).fetchAll();
      check(resources, { any: numbers(keep) }, JSON.stringify(partitionKey));
    }
  });

  it("are ordered under a prefix", async () => {
    const query = "SELECT VALUE c.n FROM c ORDER BY c.n DESC";
    const { resources } = await container.items.query(query, { partitionKey: ["t2"] }).fetchAll();
    assert.deepEqual(resources, numbers((item) => item.tenant === "t2").reverse());
  });

  it("find the keys in the filter", async () => {
    const query = "SELECT VALUE c.n FROM c WHERE c.tenant = 't1' AND c.user IN ('u1', 'u3') ORDER BY c.n";
    const { resources } = await container.items.query(query).fetchAll();
    assert.deepEqual(resources, numbers((item) => item.tenant === "t1" && ["u1", "u3"].includes(item.user)));
  });
});

describeInEachSize("queries under old hashes", (scope) => {
  it("find their items", async () => {
    const container = await filled(scope, { partitionKey: KEYS["hash, version 1"] });
    for (const [query, expected] of CASES) {
      const { resources } = await container.items.query(query).fetchAll();
      check(resources, expected, query);
    }
  });
});

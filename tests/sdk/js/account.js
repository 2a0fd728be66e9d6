// The account under test, and the two sizes in which every container is tested.
import { CosmosClient, PartitionKeyDefinitionVersion, PartitionKeyKind } from "@azure/cosmos";
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe } from "node:test";

export const endpoint = "https://localhost:8081";
export const key =
  "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
export const client = new CosmosClient({ endpoint, key });

// A container's throughput decides how many physical partitions it starts with. It is enforced:
// with the least there is, tests would mostly wait.
export const SIZES = [
  { partitions: 1, throughput: 6_000 },
  { partitions: 5, throughput: 30_000 },
];

export const KEYS = {
  "hash, version 1": {
    paths: ["/pk"],
    kind: PartitionKeyKind.Hash,
    version: PartitionKeyDefinitionVersion.V1,
  },
  "hash, version 2": {
    paths: ["/pk"],
    kind: PartitionKeyKind.Hash,
    version: PartitionKeyDefinitionVersion.V2,
  },
  hierarchical: {
    paths: ["/tenant", "/user", "/session"],
    kind: PartitionKeyKind.MultiHash,
    version: PartitionKeyDefinitionVersion.V2,
  },
};

export const unique = (name) => `${name}-${randomUUID()}`;

// Describes something that needs a database of its own; `scope.database` is set before its tests.
export function describeInDatabase(name, body) {
  describe(name, () => {
    const scope = {};
    before(async () => {
      ({ database: scope.database } = await client.databases.create({ id: unique("js") }));
    });
    after(() => scope.database.delete());
    body(scope);
  });
}

// Describes something about containers once for each size; `scope.create` makes such a container.
export function describeInEachSize(name, body) {
  for (const size of SIZES) {
    describeInDatabase(`${name}, in ${size.partitions} partition(s)`, (scope) => {
      scope.size = size;
      scope.create = async (definition) => {
        const request = { id: unique("c"), throughput: size.throughput, ...definition };
        const { container } = await scope.database.containers.create(request);
        return container;
      };
      body(scope);
    });
  }
}

// The error a promise rejects with, checked for its status and optional sub-status.
export async function refused(promise, code, substatus) {
  const error = await promise.then(
    () => assert.fail(`expected ${code}, but it succeeded`),
    (error) => error,
  );
  assert.equal(Number(error.code), code, error.message);
  if (substatus !== undefined) assert.equal(Number(error.substatus), substatus, error.message);
  return error;
}

export const withoutSystem = (resource) =>
  Object.fromEntries(Object.entries(resource).filter(([name]) => !name.startsWith("_")));

// Users, and permissions used as resource tokens.
import { CosmosClient, PermissionMode } from "@azure/cosmos";
import assert from "node:assert/strict";
import { it } from "node:test";
import {
  describeInDatabase,
  describeInEachSize,
  endpoint,
  KEYS,
  refused,
  unique,
} from "../account.js";

// A client that has nothing but this permission: as a feed, or its token under the container's id.
const holderOf = ({ resource }) => new CosmosClient({ endpoint, permissionFeed: [resource] });
const tokenHolderOf = ({ resource }, id) =>
  new CosmosClient({ endpoint, resourceTokens: { [id]: resource._token } });

describeInDatabase("users", (scope) => {
  it("are created, read, renamed, listed, queried and deleted", async () => {
    const id = unique("user");
    const { user, resource, statusCode } = await scope.database.users.create({ id });
    assert.equal(statusCode, 201);
    assert.equal(resource.id, id);
    await refused(scope.database.users.create({ id }), 409);
    assert.deepEqual((await user.read()).resource, resource);
    assert.equal((await scope.database.users.upsert({ id })).statusCode, 200);

    const renamed = unique("renamed");
    assert.equal((await user.replace({ id: renamed })).resource._rid, resource._rid);
    const { resources: all } = await scope.database.users.readAll().fetchAll();
    assert.deepEqual(all.map((found) => found.id), [renamed]);
    const query = {
      query: "SELECT * FROM root r WHERE r.id = @id",
      parameters: [{ name: "@id", value: renamed }],
    };
    const { resources: found } = await scope.database.users.query(query).fetchAll();
    assert.deepEqual(found.map((one) => one._rid), [resource._rid]);
    assert.equal((await scope.database.user(renamed).delete()).statusCode, 204);
    await refused(scope.database.user(renamed).read(), 404);
  });
});

describeInEachSize("permissions", (scope) => {
  const granted = async (container, permissionMode, more = {}) => {
    const { user } = await scope.database.users.create({ id: unique("user") });
    const permission = { id: "p", permissionMode, resource: container.url, ...more };
    return user.permissions.create(permission);
  };

  const containerWithItems = async () => {
    const container = await scope.create({ partitionKey: KEYS["hash, version 2"] });
    await container.items.create({ id: "1", pk: "a" });
    await container.items.create({ id: "2", pk: "b" });
    return container;
  };

  it("are created, read, replaced, listed and deleted", async () => {
    const container = await containerWithItems();
    const { permission, resource } = await granted(container, PermissionMode.Read);
    assert.ok(resource._token.startsWith("type=resource&ver=1&sig="));
    assert.equal((await permission.read()).resource.permissionMode, PermissionMode.Read);
    const all = { ...resource, permissionMode: PermissionMode.All };
    assert.equal((await permission.replace(all)).resource.permissionMode, PermissionMode.All);
    const { permissions } = permission.user;
    const upserted = await permissions.upsert({ ...resource, permissionMode: PermissionMode.Read });
    assert.equal(upserted.resource.permissionMode, PermissionMode.Read);
    const { resources } = await permissions.readAll().fetchAll();
    assert.deepEqual(resources.map((found) => found._rid), [resource._rid]);
    assert.equal((await permission.delete()).statusCode, 204);
    await refused(permission.read(), 404);
  });

  it("for reading open a container's items and write nothing", async () => {
    const container = await containerWithItems();
    const holder = holderOf(await granted(container, PermissionMode.Read));
    const own = holder.database(scope.database.id).container(container.id);
    assert.equal((await own.read()).resource.id, container.id);
    assert.equal((await own.item("1", "a").read()).resource.id, "1");
    assert.equal((await own.item("2", "b").read()).resource.id, "2");
    await refused(own.items.create({ id: "3", pk: "a" }), 403);
    await refused(own.item("1", "a").delete(), 403);
    await refused(own.delete(), 403);
  });

  it("with a partition key open that key only", async () => {
    const container = await containerWithItems();
    const only = { resourcePartitionKey: ["a"] };
    const given = await granted(container, PermissionMode.All, only);
    const holder = tokenHolderOf(given, container.id);
    const own = holder.database(scope.database.id).container(container.id);
    assert.equal((await own.items.create({ id: "3", pk: "a" })).statusCode, 201);
    assert.equal((await own.item("3", "a").delete()).statusCode, 204);
    await refused(own.items.create({ id: "3", pk: "b" }), 403);
    await refused(own.item("2", "b").read(), 403);
  });

  it("that are deleted open nothing", async () => {
    const container = await containerWithItems();
    const given = await granted(container, PermissionMode.All);
    const holder = holderOf(given);
    const own = holder.database(scope.database.id).container(container.id);
    assert.equal((await own.item("1", "a").read()).resource.id, "1");
    await given.permission.delete();
    await refused(own.item("1", "a").read(), 403);
  });
});

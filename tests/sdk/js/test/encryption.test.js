// Properties that the client encrypts: keys under the database, the policy of a container, items
// that only the client can read.
import assert from "node:assert/strict";
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { it } from "node:test";
import {
  CosmosClient,
  EncryptionAlgorithm,
  EncryptionQueryBuilder,
  EncryptionType,
  KeyEncryptionAlgorithm,
} from "@azure/cosmos";
import { KEYS, client, describeInEachSize, endpoint, key, unique } from "../account.js";

// Master keys by name, in place of a vault.
class Vault {
  encryptionKeyResolverName = "TEST_VAULT";
  keys = new Map(["one", "two"].map((name) => [name, { key: randomBytes(32), iv: randomBytes(16) }]));

  async wrapKey(name, _algorithm, unwrapped) {
    const { key, iv } = this.keys.get(name);
    const cipher = createCipheriv("aes-256-cbc", key, iv);
    return new Uint8Array(Buffer.concat([cipher.update(unwrapped), cipher.final()]));
  }

  async unwrapKey(name, _algorithm, wrapped) {
    const { key, iv } = this.keys.get(name);
    const decipher = createDecipheriv("aes-256-cbc", key, iv);
    return new Uint8Array(Buffer.concat([decipher.update(wrapped), decipher.final()]));
  }
}

const wrappedBy = (name) => ({
  type: "TEST_VAULT",
  name,
  value: name,
  algorithm: KeyEncryptionAlgorithm.RSA_OAEP,
});

describeInEachSize("encrypted properties", (scope) => {
  it("are read by who has the key, also after it was wrapped anew", async () => {
    const clientEncryptionOptions = { keyEncryptionKeyResolver: new Vault() };
    const own = new CosmosClient({ endpoint, key, clientEncryptionOptions });
    const database = own.database(scope.database.id);
    const id = unique("key");
    const algorithm = EncryptionAlgorithm.AEAD_AES_256_CBC_HMAC_SHA256;
    const created = await database.createClientEncryptionKey(id, algorithm, wrappedBy("one"));
    assert.equal(created.statusCode, 201);
    const read = await database.readClientEncryptionKey(id);
    assert.equal(read.clientEncryptionKeyProperties.encryptionKeyWrapMetadata.name, "one");

    const path = (path, encryptionType) => ({
      path,
      clientEncryptionKeyId: id,
      encryptionType,
      encryptionAlgorithm: algorithm,
    });
    const includedPaths = [
      path("/name", EncryptionType.DETERMINISTIC),
      path("/secret", EncryptionType.RANDOMIZED),
    ];
    const { container } = await database.containers.create({
      id: unique("c"),
      partitionKey: KEYS["hash, version 2"],
      throughput: scope.size.throughput,
      clientEncryptionPolicy: { includedPaths, policyFormatVersion: 2 },
    });
    await container.initializeEncryption();
    for (const n of [1, 2, 3]) {
      await container.items.create({ id: `${n}`, pk: `key-${n}`, name: `name-${n}`, secret: { n } });
    }
    assert.deepEqual((await container.item("2", "key-2").read()).resource.secret, { n: 2 });

    const query = new EncryptionQueryBuilder("SELECT * FROM c WHERE c.name = @name");
    query.addParameter("@name", "name-3", "/name");
    const iterator = await container.items.getEncryptionQueryIterator(query);
    const { resources } = await iterator.fetchAll();
    assert.deepEqual(resources.map((item) => [item.id, item.secret]), [["3", { n: 3 }]]);

    // Whoever has no key sees no values.
    const plain = client.database(database.id).container(container.id);
    const { resource: stored } = await plain.item("2", "key-2").read();
    assert.notEqual(stored.name, "name-2");
    assert.equal(typeof stored.secret.n, "string");

    const rewrapped = await database.rewrapClientEncryptionKey(id, wrappedBy("two"));
    assert.equal(rewrapped.clientEncryptionKeyProperties.encryptionKeyWrapMetadata.name, "two");
    const other = new CosmosClient({ endpoint, key, clientEncryptionOptions });
    const again = other.database(database.id).container(container.id);
    assert.equal((await again.item("1", "key-1").read()).resource.name, "name-1");
    own.dispose();
    other.dispose();
  });
});

package partita;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.cosmos.ChangeFeedProcessor;
import com.azure.cosmos.ChangeFeedProcessorBuilder;
import com.azure.cosmos.CosmosAsyncClient;
import com.azure.cosmos.CosmosAsyncContainer;
import com.azure.cosmos.CosmosAsyncDatabase;
import com.azure.cosmos.CosmosAsyncUser;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosException;
import com.azure.cosmos.CosmosScripts;
import com.azure.cosmos.models.CosmosClientEncryptionKeyProperties;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosItemIdentity;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosPermissionProperties;
import com.azure.cosmos.models.CosmosPermissionRequestOptions;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.CosmosStoredProcedureProperties;
import com.azure.cosmos.models.CosmosStoredProcedureRequestOptions;
import com.azure.cosmos.models.CosmosTriggerProperties;
import com.azure.cosmos.models.CosmosUserDefinedFunctionProperties;
import com.azure.cosmos.models.CosmosUserProperties;
import com.azure.cosmos.models.EncryptionKeyWrapMetadata;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.PermissionMode;
import com.azure.cosmos.models.ThroughputProperties;
import com.azure.cosmos.models.TriggerOperation;
import com.azure.cosmos.models.TriggerType;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** What there is beside items: databases, containers, throughput, users, scripts, keys, processors. */
class ResourceTest {
    private static final CosmosQueryRequestOptions QUERY = new CosmosQueryRequestOptions();
    private static Account account;

    @BeforeAll
    static void open() {
        account = new Account();
    }

    @AfterAll
    static void close() {
        account.close();
    }

    @Test
    void databasesAndContainersAreReadListedQueriedAndReplaced() {
        String name = account.database.getId();
        assertEquals(200, account.client.createDatabaseIfNotExists(name).getStatusCode());
        assertEquals(name, account.database.read().getProperties().getId());
        assertTrue(account.client.readAllDatabases().stream().anyMatch(found -> found.getId().equals(name)));
        String query = "SELECT * FROM c WHERE c.id = '" + name + "'";
        assertEquals(1, account.client.queryDatabases(query, QUERY).stream().count());

        CosmosContainer container = account.container("/pk", 400);
        assertEquals(200, account.database.createContainerIfNotExists(container.getId(), "/pk").getStatusCode());
        CosmosContainerProperties properties = container.read().getProperties();
        properties.setDefaultTimeToLiveInSeconds(600);
        assertEquals(600, container.replace(properties).getProperties().getDefaultTimeToLiveInSeconds());
        String id = container.getId();
        assertTrue(account.database.readAllContainers().stream().anyMatch(found -> found.getId().equals(id)));
        query = "SELECT * FROM c WHERE c.id = '" + id + "'";
        assertEquals(1, account.database.queryContainers(query).stream().count());
        assertEquals(204, container.delete().getStatusCode());
        assertEquals(404, assertThrows(CosmosException.class, container::read).getStatusCode());
    }

    @Test
    void throughputIsReadAndReplacedManuallyAndByItself() {
        CosmosContainer container = account.container("/pk", 400);
        assertEquals(400, container.readThroughput().getProperties().getManualThroughput());
        container.replaceThroughput(ThroughputProperties.createManualThroughput(700));
        assertEquals(700, container.readThroughput().getProperties().getManualThroughput());
        CosmosContainerProperties scaled = new CosmosContainerProperties("scaled", "/pk");
        account.database.createContainer(scaled, ThroughputProperties.createAutoscaledThroughput(4_000));
        ThroughputProperties read = account.database.getContainer("scaled").readThroughput().getProperties();
        assertEquals(4_000, read.getAutoscaleMaxThroughput());
    }

    @Test
    void manyItemsAreReadAtOnceAndAKeyIsEmptied() {
        CosmosContainer container = account.container("/pk", 30_000);
        for (int n = 0; n < 12; n++) {
            container.createItem(Account.item("i" + n, "k" + n % 3, n));
        }
        List<CosmosItemIdentity> wanted = IntStream.range(0, 12).filter(n -> n % 2 == 0)
                .mapToObj(n -> new CosmosItemIdentity(new PartitionKey("k" + n % 3), "i" + n)).toList();
        assertEquals(6, container.readMany(wanted, ObjectNode.class).getResults().size());
        PartitionKey key = new PartitionKey("k1");
        assertEquals(4, container.readAllItems(key, ObjectNode.class).stream().count());
        container.deleteAllItemsByPartitionKey(key, new CosmosItemRequestOptions());
        assertEquals(0, container.readAllItems(key, ObjectNode.class).stream().count());
        assertEquals(8, ItemTest.query(container, "SELECT VALUE c.id FROM c", String.class).size());
    }

    @Test
    void usersAndPermissionsLive() {
        CosmosContainer container = account.container("/pk", 400);
        try (CosmosAsyncClient client = Account.async()) {
            CosmosAsyncDatabase database = client.getDatabase(account.database.getId());
            database.createUser(new CosmosUserProperties().setId("u")).block();
            database.upsertUser(new CosmosUserProperties().setId("u")).block();
            assertEquals(1, database.readAllUsers().collectList().block().size());
            assertEquals(1, database.queryUsers("SELECT * FROM c").collectList().block().size());
            CosmosAsyncUser user = database.getUser("u");
            assertEquals("u", user.read().block().getProperties().getId());

            CosmosPermissionRequestOptions options = new CosmosPermissionRequestOptions();
            CosmosPermissionProperties sent = new CosmosPermissionProperties().setId("p")
                    .setContainerName(container.getId()).setPermissionMode(PermissionMode.READ);
            assertTrue(user.createPermission(sent, options).block().getProperties().getToken().startsWith("type"));
            sent.setPermissionMode(PermissionMode.ALL);
            user.upsertPermission(sent, options).block();
            var read = user.getPermission("p").read(options).block().getProperties();
            assertEquals(PermissionMode.ALL, read.getPermissionMode());
            assertEquals(1, user.readAllPermissions().collectList().block().size());
            assertEquals(1, user.queryPermissions("SELECT * FROM c").collectList().block().size());
            user.getPermission("p").replace(read.setPermissionMode(PermissionMode.READ), options).block();
            user.getPermission("p").delete(options).block();
            user.replace(user.read().block().getProperties().setId("v")).block();
            assertEquals(204, database.getUser("v").delete().block().getStatusCode());
        }
    }

    @Test
    void scriptsAreKeptAndRun() {
        CosmosContainer container = account.container("/pk", 30_000);
        CosmosScripts scripts = container.getScripts();
        String make = """
                function (id) {
                  __.createDocument(__.getSelfLink(), { id: id, pk: "k" }, {}, (error) => {
                    if (error) throw error;
                  });
                  console.log("made");
                  __.response.setBody({ id: id });
                }""";
        scripts.createStoredProcedure(new CosmosStoredProcedureProperties("make", make));
        CosmosStoredProcedureRequestOptions options = new CosmosStoredProcedureRequestOptions();
        options.setPartitionKey(new PartitionKey("k"));
        options.setScriptLoggingEnabled(true);
        var procedure = scripts.getStoredProcedure("make");
        var answer = procedure.execute(List.of("1"), options);
        assertEquals("{\"id\":\"1\"}", answer.getResponseAsString());
        assertEquals("made", answer.getScriptLog());
        CosmosStoredProcedureProperties stored = procedure.read().getProperties();
        assertEquals(make, stored.getBody());
        stored.setBody("function () {}");
        assertEquals("function () {}", procedure.replace(stored).getProperties().getBody());
        assertEquals(1, scripts.readAllStoredProcedures().stream().count());
        assertEquals(1, scripts.queryStoredProcedures("SELECT * FROM c", QUERY).stream().count());
        assertEquals(204, procedure.delete().getStatusCode());

        String stamp = """
                function () {
                  const item = __.request.getBody();
                  item.stamped = true;
                  __.request.setBody(item);
                }""";
        scripts.createTrigger(new CosmosTriggerProperties("stamp", stamp)
                .setTriggerType(TriggerType.PRE).setTriggerOperation(TriggerOperation.CREATE));
        CosmosItemRequestOptions stamped = new CosmosItemRequestOptions().setPreTriggerInclude(List.of("stamp"));
        ObjectNode item = container.createItem(Account.item("2", "k", 2), new PartitionKey("k"), stamped).getItem();
        assertTrue(item.get("stamped").asBoolean());
        assertEquals(1, scripts.readAllTriggers().stream().count());
        assertEquals(204, scripts.getTrigger("stamp").delete().getStatusCode());

        String twice = "function (n) { return 2 * n; }";
        scripts.createUserDefinedFunction(new CosmosUserDefinedFunctionProperties("twice", twice));
        String query = "SELECT VALUE udf.twice(c.number) FROM c WHERE c.id = '2'";
        assertEquals(List.of(4), ItemTest.query(container, query, Integer.class));
        assertEquals(1, scripts.readAllUserDefinedFunctions().stream().count());
        assertEquals(204, scripts.getUserDefinedFunction("twice").delete().getStatusCode());
    }

    @Test
    void encryptionKeysAreKeptAndConflictsAreNone() {
        CosmosContainer container = account.container("/pk", 400);
        try (CosmosAsyncClient client = Account.async()) {
            CosmosAsyncDatabase database = client.getDatabase(account.database.getId());
            var metadata = new EncryptionKeyWrapMetadata("TEST", "one", "one", "RSA-OAEP");
            var key = new CosmosClientEncryptionKeyProperties(
                    "key", "AEAD_AES_256_CBC_HMAC_SHA256", new byte[] {1, 2, 3}, metadata);
            assertEquals(201, database.createClientEncryptionKey(key).block().getStatusCode());
            var read = database.getClientEncryptionKey("key").read().block().getProperties();
            assertArrayEquals(new byte[] {1, 2, 3}, read.getWrappedDataEncryptionKey());
            assertEquals(metadata, read.getEncryptionKeyWrapMetadata());
            read.setWrappedDataEncryptionKey(new byte[] {4});
            database.getClientEncryptionKey("key").replace(read).block();
            var all = database.readAllClientEncryptionKeys().collectList().block();
            assertArrayEquals(new byte[] {4}, all.get(0).getWrappedDataEncryptionKey());
            var found = database.queryClientEncryptionKeys("SELECT * FROM c WHERE c.id = 'key'");
            assertEquals(1, found.collectList().block().size());

            CosmosAsyncContainer same = database.getContainer(container.getId());
            assertEquals(List.of(), same.readAllConflicts(QUERY).collectList().block());
            assertEquals(List.of(), same.queryConflicts("SELECT * FROM c").collectList().block());
        }
    }

    @Test
    void aProcessorOfTheChangeFeedSeesEveryItem() throws Exception {
        CosmosContainer container = account.container("/pk", 30_000);
        CosmosContainer leases = account.container("/id", 400);
        Set<String> seen = ConcurrentHashMap.newKeySet();
        try (CosmosAsyncClient client = Account.async()) {
            CosmosAsyncDatabase database = client.getDatabase(account.database.getId());
            ChangeFeedProcessor processor = new ChangeFeedProcessorBuilder()
                    .hostName("host")
                    .feedContainer(database.getContainer(container.getId()))
                    .leaseContainer(database.getContainer(leases.getId()))
                    .handleLatestVersionChanges(changes ->
                            changes.forEach(change -> seen.add(change.getCurrent().get("id").asText())))
                    .buildChangeFeedProcessor();
            processor.start().block();
            // It begins now: what it sees is what is written from some moment on, again and again.
            Set<String> expected = IntStream.range(0, 50).mapToObj(n -> "i" + n).collect(Collectors.toSet());
            for (int attempt = 0; attempt < 60 && !seen.equals(expected); attempt++) {
                for (int n = 0; n < 50; n++) {
                    container.upsertItem(Account.item("i" + n, "k" + n % 7, attempt));
                }
                Thread.sleep(500);
            }
            assertEquals(expected, seen);
            processor.stop().block();
        }
    }
}

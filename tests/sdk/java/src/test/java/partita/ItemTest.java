package partita;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosException;
import com.azure.cosmos.models.CosmosBatch;
import com.azure.cosmos.models.CosmosBulkOperations;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosItemIdentity;
import com.azure.cosmos.models.CosmosItemOperation;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosPatchOperations;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.PartitionKeyBuilder;
import com.azure.cosmos.models.PartitionKeyDefinition;
import com.azure.cosmos.models.PartitionKeyDefinitionVersion;
import com.azure.cosmos.models.PartitionKind;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Items through their whole life, in one partition (400 RU/s) and in five (30 000 RU/s). */
class ItemTest {
    private static Account account;

    @BeforeAll
    static void open() {
        account = new Account();
    }

    @AfterAll
    static void close() {
        account.close();
    }

    @ParameterizedTest
    @ValueSource(ints = {400, 30_000})
    void anItemIsCreatedReadReplacedPatchedAndDeleted(int throughput) {
        CosmosContainer container = account.container("/pk", throughput);
        PartitionKey key = new PartitionKey("a");
        CosmosItemRequestOptions options = new CosmosItemRequestOptions();
        assertEquals(201, container.createItem(Account.item("1", "a", 1), key, options).getStatusCode());
        CosmosException conflict = assertThrows(CosmosException.class,
                () -> container.createItem(Account.item("1", "a", 1), key, options));
        assertEquals(409, conflict.getStatusCode());

        var read = container.readItem("1", key, ObjectNode.class);
        assertEquals(1, read.getItem().get("number").asInt());
        container.replaceItem(Account.item("1", "a", 2), "1", key, options);
        CosmosItemRequestOptions old = new CosmosItemRequestOptions().setIfMatchETag(read.getETag());
        CosmosException stale = assertThrows(CosmosException.class,
                () -> container.replaceItem(Account.item("1", "a", 3), "1", key, old));
        assertEquals(412, stale.getStatusCode());

        CosmosPatchOperations patch = CosmosPatchOperations.create().increment("/number", 5).add("/tags", List.of("x"));
        assertEquals(7, container.patchItem("1", key, patch, ObjectNode.class).getItem().get("number").asInt());
        assertEquals(200, container.upsertItem(Account.item("1", "a", 9), key, options).getStatusCode());
        assertEquals(204, container.deleteItem("1", key, options).getStatusCode());
        CosmosException gone = assertThrows(CosmosException.class,
                () -> container.readItem("1", key, ObjectNode.class));
        assertEquals(404, gone.getStatusCode());
    }

    @ParameterizedTest
    @ValueSource(ints = {400, 30_000})
    void manyItemsAreWrittenInBulkAndFoundByQueries(int throughput) {
        CosmosContainer container = account.container("/pk", throughput);
        List<CosmosItemOperation> creates = new ArrayList<>();
        for (int n = 0; n < 60; n++) {
            String pk = "key" + n % 12;
            creates.add(CosmosBulkOperations.getCreateItemOperation(Account.item("i" + n, pk, n), new PartitionKey(pk)));
        }
        container.executeBulkOperations(creates)
                .forEach(done -> assertEquals(201, done.getResponse().getStatusCode()));

        List<Integer> ordered = query(container, "SELECT VALUE c.number FROM c ORDER BY c.number DESC", Integer.class);
        assertEquals(IntStream.range(0, 60).mapToObj(n -> 59 - n).toList(), ordered);
        assertEquals(List.of(60), query(container, "SELECT VALUE COUNT(1) FROM c", Integer.class));
        assertEquals(List.of(1770.0), query(container, "SELECT VALUE SUM(c.number) FROM c", Double.class));
        assertEquals(12, query(container, "SELECT c.pk, COUNT(1) AS n FROM c GROUP BY c.pk", JsonNode.class).size());
        assertEquals(12, query(container, "SELECT DISTINCT VALUE c.pk FROM c", String.class).size());
        assertEquals(List.of(12, 13), query(container,
                "SELECT VALUE c.number FROM c ORDER BY c.number OFFSET 12 LIMIT 2", Integer.class));

        CosmosQueryRequestOptions one = new CosmosQueryRequestOptions().setPartitionKey(new PartitionKey("key3"));
        assertEquals(5, container.queryItems("SELECT * FROM c", one, ObjectNode.class).stream().count());
        assertEquals(60, container.readAllItems(new PartitionKey("key3"), ObjectNode.class).stream().count()
                + query(container, "SELECT * FROM c WHERE c.pk != 'key3'", ObjectNode.class).size());

        List<CosmosItemIdentity> wanted = IntStream.range(0, 20)
                .mapToObj(n -> new CosmosItemIdentity(new PartitionKey("key" + n % 12), "i" + n)).toList();
        assertEquals(20, container.readMany(wanted, ObjectNode.class).getResults().size());
    }

    @Test
    void aBatchHappensWholeOrNotAtAll() {
        CosmosContainer container = account.container("/pk", 30_000);
        CosmosBatch good = CosmosBatch.createCosmosBatch(new PartitionKey("b"));
        good.createItemOperation(Account.item("1", "b", 1));
        good.createItemOperation(Account.item("2", "b", 2));
        good.readItemOperation("1");
        assertTrue(container.executeCosmosBatch(good).isSuccessStatusCode());

        CosmosBatch bad = CosmosBatch.createCosmosBatch(new PartitionKey("b"));
        bad.createItemOperation(Account.item("3", "b", 3));
        bad.createItemOperation(Account.item("1", "b", 1));
        var response = container.executeCosmosBatch(bad);
        assertEquals(409, response.getStatusCode());
        assertEquals(424, response.getResults().get(0).getStatusCode());
        assertEquals(2, query(container, "SELECT * FROM c", ObjectNode.class).size());
    }

    @Test
    void aHierarchicalKeyIsReadWholeAndAskedByItsBeginning() {
        PartitionKeyDefinition definition = new PartitionKeyDefinition();
        definition.setKind(PartitionKind.MULTI_HASH);
        definition.setVersion(PartitionKeyDefinitionVersion.V2);
        definition.setPaths(List.of("/tenant", "/user"));
        CosmosContainer container = account.container(new CosmosContainerProperties("levels", definition), 30_000);
        for (int n = 0; n < 40; n++) {
            String tenant = "t" + n % 4;
            String user = "u" + n % 8;
            ObjectNode item = Account.JSON.createObjectNode()
                    .put("id", "i" + n).put("tenant", tenant).put("user", user).put("number", n);
            container.createItem(item, new PartitionKeyBuilder().add(tenant).add(user).build(), null);
        }
        PartitionKey whole = new PartitionKeyBuilder().add("t1").add("u5").build();
        assertEquals(5, container.readItem("i5", whole, ObjectNode.class).getItem().get("number").asInt());
        CosmosQueryRequestOptions tenant =
                new CosmosQueryRequestOptions().setPartitionKey(new PartitionKeyBuilder().add("t1").build());
        assertEquals(10, container.queryItems("SELECT * FROM c", tenant, ObjectNode.class).stream().count());
    }

    static <T> List<T> query(CosmosContainer container, String text, Class<T> type) {
        return container.queryItems(text, new CosmosQueryRequestOptions(), type).stream().toList();
    }
}

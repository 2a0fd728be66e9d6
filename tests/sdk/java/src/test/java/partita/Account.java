package partita;

import com.azure.cosmos.ConsistencyLevel;
import com.azure.cosmos.CosmosAsyncClient;
import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosClientBuilder;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.FeedRange;
import com.azure.cosmos.models.ThroughputProperties;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.UUID;

/** A client of the server under test, with a database of its own that goes with it. */
final class Account implements AutoCloseable {
    static final ObjectMapper JSON = new ObjectMapper();
    private static final String ENDPOINT = "https://localhost:8081/";
    private static final String KEY =
            "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

    final CosmosClient client;
    final CosmosDatabase database;

    Account() {
        client = builder().buildClient();
        String name = "java-" + UUID.randomUUID();
        client.createDatabase(name);
        database = client.getDatabase(name);
    }

    /** A client for what only the asynchronous one has. */
    static CosmosAsyncClient async() {
        return builder().buildAsyncClient();
    }

    private static CosmosClientBuilder builder() {
        return new CosmosClientBuilder()
                .endpoint(ENDPOINT)
                .key(KEY)
                .gatewayMode()
                .consistencyLevel(ConsistencyLevel.SESSION)
                .contentResponseOnWriteEnabled(true);
    }

    /** A container whose partition key is at one path. */
    CosmosContainer container(String path, int throughput) {
        return container(new CosmosContainerProperties("c-" + UUID.randomUUID(), path), throughput);
    }

    CosmosContainer container(CosmosContainerProperties properties, int throughput) {
        ThroughputProperties manual = ThroughputProperties.createManualThroughput(throughput);
        database.createContainer(properties, manual);
        return database.getContainer(properties.getId());
    }

    static int ranges(CosmosContainer container) {
        return container.getFeedRanges().size();
    }

    static ObjectNode item(String id, String pk, int number) {
        return JSON.createObjectNode().put("id", id).put("pk", pk).put("number", number);
    }

    @Override
    public void close() {
        database.delete();
        client.close();
    }
}

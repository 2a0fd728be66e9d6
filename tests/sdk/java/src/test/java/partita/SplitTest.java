package partita;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosChangeFeedRequestOptions;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.FeedRange;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.ThroughputProperties;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Partitions are split for more throughput while clients read, write and ask: nobody notices. */
class SplitTest {
    private static final int BEFORE = 500;

    @Test
    void clientsNoticeNothingOfASplit() throws Exception {
        try (Account account = new Account()) {
            CosmosContainer container = account.container("/pk", 6_000);
            assertEquals(1, Account.ranges(container));
            for (int n = 0; n < BEFORE; n++) {
                create(container, n);
            }
            AtomicInteger next = new AtomicInteger(BEFORE);
            AtomicBoolean done = new AtomicBoolean();
            ExecutorService clients = Executors.newFixedThreadPool(6);
            List<Future<Void>> running = List.of(
                    clients.submit(until(done, () -> create(container, next.getAndIncrement()))),
                    clients.submit(until(done, () -> create(container, next.getAndIncrement()))),
                    clients.submit(until(done, () -> read(container, next.get() % BEFORE))),
                    clients.submit(until(done, () -> order(container))),
                    clients.submit(until(done, () -> count(container))),
                    clients.submit(until(done, () -> changes(container))));

            container.replaceThroughput(ThroughputProperties.createManualThroughput(40_000));
            while (container.readThroughput().isReplacePending()) {
                Thread.sleep(100);
            }
            assertEquals(4, Account.ranges(container));
            Thread.sleep(500);
            done.set(true);
            for (Future<Void> client : running) {
                client.get();
            }
            clients.shutdown();

            Set<String> expected = IntStream.range(0, next.get()).mapToObj(n -> "i" + n).collect(Collectors.toSet());
            List<String> found = ItemTest.query(container, "SELECT VALUE c.id FROM c", String.class);
            assertEquals(expected.size(), found.size());
            assertEquals(expected, new HashSet<>(found));
            assertEquals(expected, changes(container));
        }
    }

    private static Callable<Void> until(AtomicBoolean done, Runnable step) {
        return () -> {
            while (!done.get()) {
                step.run();
            }
            return null;
        };
    }

    private static void create(CosmosContainer container, int n) {
        String pk = "key" + n % 97;
        container.createItem(Account.item("i" + n, pk, n), new PartitionKey(pk), new CosmosItemRequestOptions());
    }

    private static void read(CosmosContainer container, int n) {
        var read = container.readItem("i" + n, new PartitionKey("key" + n % 97), ObjectNode.class);
        assertEquals(n, read.getItem().get("number").asInt());
    }

    private static void order(CosmosContainer container) {
        List<Integer> first = ItemTest.query(container, "SELECT TOP 50 VALUE c.number FROM c ORDER BY c.number", Integer.class);
        assertEquals(IntStream.range(0, 50).boxed().toList(), first);
    }

    private static void count(CosmosContainer container) {
        List<Integer> count = ItemTest.query(container, "SELECT VALUE COUNT(1) FROM c WHERE c.number < 500", Integer.class);
        assertTrue(count.equals(List.of(BEFORE)), () -> "counted " + count);
    }

    /** All ids that the change feed of the whole container has. */
    private static Set<String> changes(CosmosContainer container) {
        CosmosChangeFeedRequestOptions options =
                CosmosChangeFeedRequestOptions.createForProcessingFromBeginning(FeedRange.forFullRange());
        return container.queryChangeFeed(options, ObjectNode.class).stream()
                .map(item -> item.get("id").asText()).collect(Collectors.toSet());
    }
}

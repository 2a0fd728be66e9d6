package partita;

import com.azure.spring.data.cosmos.core.mapping.CompositeIndex;
import com.azure.spring.data.cosmos.core.mapping.CompositeIndexPath;
import com.azure.spring.data.cosmos.core.mapping.Container;
import com.azure.spring.data.cosmos.core.mapping.CosmosIndexingPolicy;
import com.azure.spring.data.cosmos.core.mapping.PartitionKey;
import com.azure.cosmos.models.CompositePathSortOrder;
import java.util.List;
import org.springframework.data.annotation.Id;
import org.springframework.data.annotation.Version;

/** An entity in a container of several partitions. */
@Container(containerName = "books", ru = "30000")
@CosmosIndexingPolicy(compositeIndexes = {
    @CompositeIndex(paths = {
        @CompositeIndexPath(path = "/author", order = CompositePathSortOrder.ASCENDING),
        @CompositeIndexPath(path = "/year", order = CompositePathSortOrder.DESCENDING)
    })
})
public class Book {
    @Id public String id;
    @PartitionKey public String author;
    public String title;
    public int year;
    public Double price;
    public boolean inStock;
    public List<String> tags;
    public Publisher publisher;
    @Version public String _etag;

    public Book() {}

    public Book(String id, String author, String title, int year, Double price, boolean inStock,
            List<String> tags, String city) {
        this.id = id;
        this.author = author;
        this.title = title;
        this.year = year;
        this.price = price;
        this.inStock = inStock;
        this.tags = tags;
        this.publisher = new Publisher();
        this.publisher.city = city;
    }

    public static class Publisher {
        public String city;
    }
}

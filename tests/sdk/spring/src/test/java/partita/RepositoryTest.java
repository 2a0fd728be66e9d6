package partita;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.cosmos.models.CosmosPatchOperations;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.PartitionKeyBuilder;
import com.azure.cosmos.models.SqlQuerySpec;
import com.azure.spring.data.cosmos.core.CosmosTemplate;
import com.azure.spring.data.cosmos.core.query.CosmosPageRequest;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.data.domain.Page;
import org.springframework.data.domain.Slice;
import org.springframework.data.domain.Sort;

@SpringBootTest(classes = Application.class)
class RepositoryTest {
    @Autowired Books books;
    @Autowired Visit.Visits visits;
    @Autowired CosmosTemplate template;

    @BeforeEach
    void fill() {
        books.deleteAll();
        books.saveAll(List.of(
                new Book("1", "Ada", "Alpha One", 1990, 10.5, true, List.of("a", "b"), "Rome"),
                new Book("2", "Ada", "Beta", 1995, null, false, List.of("b"), "Oslo"),
                new Book("3", "Ada", "Gamma", 2000, 7.0, true, List.of("c"), "Rome"),
                new Book("4", "Bob", "alpha two", 2000, 12.0, false, List.of("a"), "Bern"),
                new Book("5", "Cid", "Delta", 2005, null, true, List.of(), "Oslo"),
                new Book("6", "Dee", "Epsilon", 2010, 3.25, true, List.of("c", "a"), "Rome")));
    }

    /** The ids, sorted: without ORDER BY there is no order. */
    private static String ids(Iterable<Book> found) {
        TreeSet<String> ids = new TreeSet<>();
        found.forEach(book -> ids.add(book.id));
        return String.join("", ids);
    }

    private static String inOrder(Iterable<Book> found) {
        List<String> ids = StreamSupport.stream(found.spliterator(), false).map(b -> b.id).toList();
        return String.join("", ids);
    }

    @Test
    void equalityAndCombinations() {
        assertEquals("123", ids(books.findByAuthor("Ada")));
        assertEquals("4", ids(books.findByTitle("alpha two")));
        assertEquals("5", books.findOptionallyByTitle("Delta").orElseThrow().id);
        assertTrue(books.findOptionallyByTitle("none").isEmpty());
        assertEquals("3", ids(books.findByAuthorAndYear("Ada", 2000)));
        assertEquals("1234", ids(books.findByAuthorOrTitle("Ada", "alpha two")));
        assertEquals("12346", ids(books.findByTitleNot("Delta")));
        assertEquals("136", ids(books.findByPublisher_City("Rome")));
    }

    @Test
    void comparisons() {
        assertEquals("234", ids(books.findByYearBetween(1995, 2000)));
        assertEquals("12", ids(books.findByYearLessThan(2000)));
        assertEquals("1234", ids(books.findByYearLessThanEqual(2000)));
        assertEquals("56", ids(books.findByYearGreaterThan(2000)));
        assertEquals("3456", ids(books.findByYearGreaterThanEqual(2000)));
        assertEquals("1", ids(books.findByYearBefore(1995)));
        assertEquals("6", ids(books.findByYearAfter(2005)));
    }

    @Test
    void nullsBooleansAndSets() {
        assertEquals("25", ids(books.findByPriceIsNull()));
        assertEquals("1346", ids(books.findByPriceIsNotNull()));
        assertEquals("1356", ids(books.findByInStockTrue()));
        assertEquals("24", ids(books.findByInStockFalse()));
        assertEquals("1346", ids(books.findByYearIn(List.of(1990, 2000, 2010))));
        assertEquals("25", ids(books.findByYearNotIn(List.of(1990, 2000, 2010))));
        assertEquals("45", ids(books.findByAuthorIn(List.of("Bob", "Cid"))));
    }

    @Test
    void texts() {
        assertEquals("1", ids(books.findByTitleContaining("pha O")));
        assertEquals("1", ids(books.findByTitleStartingWith("Alpha")));
        assertEquals("14", ids(books.findByTitleStartsWithIgnoreCase("ALPHA")));
        assertEquals("235", ids(books.findByTitleEndingWith("a")));
        assertEquals("2", ids(books.findByTitleIgnoreCase("bETA")));
        assertEquals("146", ids(books.tagged("a")));
        assertEquals("14", ids(books.like("%lpha%")));
    }

    @Test
    void sortingAndPages() {
        assertEquals("321", inOrder(books.findByAuthorOrderByYearDesc("Ada")));
        Sort byAuthorThenYear = Sort.by(Sort.Order.asc("author"), Sort.Order.desc("year"));
        assertEquals("321456", inOrder(books.findAll(byAuthorThenYear)));
        assertEquals("65", inOrder(books.findByYearGreaterThan(2000, Sort.by("title").descending())));
        assertEquals("56", inOrder(books.sortedAfter(2000, Sort.by("year"))));

        List<String> paged = new ArrayList<>();
        Page<Book> page = books.findAll(new CosmosPageRequest(0, 4, null, Sort.by("id")));
        assertEquals(6, page.getTotalElements());
        while (true) {
            page.forEach(book -> paged.add(book.id));
            if (!page.hasNext()) break;
            page = books.findAll(page.nextPageable());
        }
        assertEquals(List.of("1", "2", "3", "4", "5", "6"), paged);

        Page<Book> derived = books.findByYearGreaterThanEqual(2000, new CosmosPageRequest(0, 3, null));
        assertEquals(3, derived.getContent().size());
        assertTrue(derived.hasNext());
        assertEquals(4, derived.getTotalElements());
        Page<Book> own = books.pageAfter(1990, new CosmosPageRequest(0, 2, null));
        assertEquals(2, own.getContent().size());
        Slice<Book> slice = books.findByInStock(true, new CosmosPageRequest(0, 3, null));
        assertEquals(3, slice.getContent().size());
        assertTrue(slice.hasNext());
        assertEquals(1, books.findByInStock(true, slice.nextPageable()).getContent().size());
    }

    @Test
    void countsAndExistence() {
        assertEquals(6, books.count());
        assertEquals(3, books.countByAuthor("Ada"));
        assertEquals(4, books.countByInStock(true));
        assertTrue(books.existsByTitle("Beta"));
        assertFalse(books.existsByTitle("none"));
        assertTrue(books.existsByAuthor("Bob"));
        assertTrue(books.existsById("6"));
        assertFalse(books.existsById("7"));
    }

    @Test
    void queriesOfOurOwn() {
        assertEquals("3", ids(books.titled("Gamma")));
        assertEquals("15", ids(books.ofYears(List.of(1990, 2005))));
        assertEquals(List.of("Ada", "Bob", "Cid", "Dee"), books.authors().stream().sorted().toList());
        assertEquals(2, books.countAfter(2000));
        assertEquals(5985, books.sumOfYears("Ada"));
    }

    @Test
    void readingById() {
        assertEquals("Beta", books.findById("2").orElseThrow().title);
        PartitionKey ada = new PartitionKey("Ada");
        assertEquals("Beta", books.findById("2", ada).orElseThrow().title);
        assertTrue(books.findById("2", new PartitionKey("Bob")).isEmpty());
        assertEquals("15", ids(books.findAllById(List.of("1", "5", "9"))));
        assertEquals("123", ids(books.findAll(ada)));
        assertEquals("123456", ids(books.findAll()));
    }

    @Test
    void writingAndConflicts() {
        Book read = books.findById("3", new PartitionKey("Ada")).orElseThrow();
        String before = read._etag;
        read.price = 8.0;
        assertNotEquals(before, books.save(read)._etag);
        read._etag = before;
        assertThrows(Exception.class, () -> books.save(read));

        CosmosPatchOperations patch = CosmosPatchOperations.create().set("/title", "Gamma 2");
        Book patched = books.save("3", new PartitionKey("Ada"), Book.class, patch);
        assertEquals("Gamma 2", patched.title);
        assertEquals(8.0, patched.price);
    }

    @Test
    void deleting() {
        assertEquals("123", ids(books.deleteByAuthor("Ada")));
        assertEquals("456", ids(books.findAll()));
        books.deleteByYearLessThan(2005);
        assertEquals("56", ids(books.findAll()));
        books.deleteById("5", new PartitionKey("Cid"));
        books.delete(books.findById("6").orElseThrow());
        assertEquals(0, books.count());
    }

    @Test
    void templateOperations() {
        assertEquals("books", template.getContainerName(Book.class));
        assertEquals(6, template.count("books"));
        Book more = new Book("7", "Eve", "Zeta", 2020, 1.0, true, List.of(), "Rome");
        assertEquals("Zeta", template.insert(more, new PartitionKey("Eve")).title);
        assertThrows(Exception.class, () -> template.insert(more, new PartitionKey("Eve")));
        Book stored = template.findById("7", Book.class, new PartitionKey("Eve"));
        stored.title = "Eta";
        assertEquals("Eta", template.upsertAndReturnEntity("books", stored).title);
        SqlQuerySpec late = new SqlQuerySpec("SELECT * FROM c WHERE c.year >= 2010");
        assertEquals("67", ids(template.runQuery(late, Book.class, Book.class)));
        template.deleteById("books", "7", new PartitionKey("Eve"));
        assertEquals(6, template.count("books"));
        var properties = template.getContainerProperties("books");
        assertEquals(1, properties.getIndexingPolicy().getCompositeIndexes().size());
    }

    @Test
    void hierarchicalKeys() {
        visits.deleteAll();
        Visit first = visits.save(new Visit("t1", "u1", 3));
        assertFalse(first.id.isEmpty());
        visits.saveAll(List.of(new Visit("t1", "u2", 4), new Visit("t2", "u1", 5)));
        PartitionKey key = new PartitionKeyBuilder().add("t1").add("u1").build();
        assertEquals(3, visits.findById(first.id, key).orElseThrow().pages);
        assertEquals(2, visits.findByTenant("t1").size());
        assertEquals(1, visits.findByTenantAndUser("t1", "u2").size());
        assertEquals(3, visits.count());
        visits.deleteById(first.id, key);
        assertEquals(2, visits.count());
    }
}

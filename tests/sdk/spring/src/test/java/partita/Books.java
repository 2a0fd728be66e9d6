package partita;

import com.azure.spring.data.cosmos.repository.CosmosRepository;
import com.azure.spring.data.cosmos.repository.Query;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import org.springframework.data.domain.Page;
import org.springframework.data.domain.Pageable;
import org.springframework.data.domain.Slice;
import org.springframework.data.domain.Sort;
import org.springframework.data.repository.query.Param;

/** What Spring derives from the names of methods, and queries of our own. */
public interface Books extends CosmosRepository<Book, String> {
    List<Book> findByAuthor(String author);
    List<Book> findByTitle(String title);
    Optional<Book> findOptionallyByTitle(String title);
    List<Book> findByAuthorAndYear(String author, int year);
    List<Book> findByAuthorOrTitle(String author, String title);
    List<Book> findByTitleNot(String title);
    List<Book> findByYearBetween(int from, int to);
    List<Book> findByYearLessThan(int year);
    List<Book> findByYearLessThanEqual(int year);
    List<Book> findByYearGreaterThan(int year);
    List<Book> findByYearGreaterThanEqual(int year);
    List<Book> findByYearBefore(int year);
    List<Book> findByYearAfter(int year);
    List<Book> findByPriceIsNull();
    List<Book> findByPriceIsNotNull();
    List<Book> findByInStockTrue();
    List<Book> findByInStockFalse();
    List<Book> findByYearIn(Collection<Integer> years);
    List<Book> findByYearNotIn(Collection<Integer> years);
    List<Book> findByAuthorIn(Collection<String> authors);
    List<Book> findByTitleContaining(String part);
    List<Book> findByTitleStartingWith(String start);
    List<Book> findByTitleStartsWithIgnoreCase(String start);
    List<Book> findByTitleEndingWith(String end);
    List<Book> findByTitleIgnoreCase(String title);
    List<Book> findByPublisher_City(String city);
    List<Book> findByAuthorOrderByYearDesc(String author);
    List<Book> findByYearGreaterThan(int year, Sort sort);
    Page<Book> findByYearGreaterThanEqual(int year, Pageable page);
    Slice<Book> findByInStock(boolean inStock, Pageable page);
    long countByAuthor(String author);
    long countByInStock(boolean inStock);
    boolean existsByTitle(String title);
    boolean existsByAuthor(String author);
    List<Book> deleteByAuthor(String author);
    void deleteByYearLessThan(int year);

    @Query("SELECT * FROM c WHERE c.title = @title")
    List<Book> titled(@Param("title") String title);

    @Query("SELECT * FROM c WHERE ARRAY_CONTAINS(@years, c.year)")
    List<Book> ofYears(@Param("years") List<Integer> years);

    @Query("SELECT * FROM c WHERE ARRAY_CONTAINS(c.tags, @tag)")
    List<Book> tagged(@Param("tag") String tag);

    @Query("SELECT * FROM c WHERE c.title LIKE @pattern")
    List<Book> like(@Param("pattern") String pattern);

    @Query("SELECT DISTINCT VALUE c.author FROM c")
    List<String> authors();

    @Query("SELECT VALUE COUNT(1) FROM c WHERE c.year > @year")
    long countAfter(@Param("year") int year);

    @Query("SELECT VALUE SUM(c.year) FROM c WHERE c.author = @author")
    long sumOfYears(@Param("author") String author);

    @Query("SELECT * FROM c WHERE c.year > @year")
    Page<Book> pageAfter(@Param("year") int year, Pageable page);

    @Query("SELECT * FROM c WHERE c.year > @year")
    List<Book> sortedAfter(@Param("year") int year, Sort sort);
}

package partita;

import com.azure.spring.data.cosmos.core.mapping.Container;
import com.azure.spring.data.cosmos.core.mapping.GeneratedValue;
import com.azure.spring.data.cosmos.repository.CosmosRepository;
import java.util.List;
import org.springframework.data.annotation.Id;

/** An entity with a hierarchical partition key and an id that Spring makes. */
@Container(
        containerName = "visits",
        hierarchicalPartitionKeyPaths = {"/tenant", "/user"},
        timeToLive = 3600)
public class Visit {
    @Id @GeneratedValue public String id;
    public String tenant;
    public String user;
    public int pages;

    public Visit() {}

    public Visit(String tenant, String user, int pages) {
        this.tenant = tenant;
        this.user = user;
        this.pages = pages;
    }

    /** Its repository. */
    public interface Visits extends CosmosRepository<Visit, String> {
        List<Visit> findByTenant(String tenant);
        List<Visit> findByTenantAndUser(String tenant, String user);
    }
}

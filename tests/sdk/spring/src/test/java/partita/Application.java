package partita;

import com.azure.cosmos.CosmosClientBuilder;
import com.azure.cosmos.GatewayConnectionConfig;
import com.azure.spring.data.cosmos.config.AbstractCosmosConfiguration;
import com.azure.spring.data.cosmos.repository.config.EnableCosmosRepositories;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.annotation.Bean;

/** The program: a Spring Boot application whose repositories are on the server under test. */
@SpringBootConfiguration
@EnableAutoConfiguration
@EnableCosmosRepositories(considerNestedRepositories = true)
public class Application extends AbstractCosmosConfiguration {
    private static final String KEY =
            "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

    @Bean
    public CosmosClientBuilder client() {
        return new CosmosClientBuilder()
                .endpoint("http://localhost:8081/")
                .key(KEY)
                .gatewayMode(new GatewayConnectionConfig())
                .endpointDiscoveryEnabled(false);
    }

    @Override
    protected String getDatabaseName() {
        return "spring";
    }
}

// Dapr's state store on Cosmos DB against a running server: the conformance tests with which Dapr
// certifies its components, as they are in its module.
//
// The step `query` expects rows in the order of their creation, without ORDER BY. That is the order
// within a physical partition, there as at the service, so with five partitions it is left out.
package dapr

import (
	"context"
	"slices"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/dapr/components-contrib/state"
	"github.com/dapr/components-contrib/state/azure/cosmosdb"
	conformance "github.com/dapr/components-contrib/tests/conformance/state"
	"github.com/dapr/kit/logger"
)

const (
	endpoint = "http://localhost:8081/"
	key      = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
	database = "dapr"
	// The throughput of a new container up to which it has one partition.
	perPartition = 6000
)

func TestStateStoreConforms(t *testing.T) {
	for name, throughput := range map[string]int32{"one-partition": 400, "five-partitions": 30000} {
		t.Run(name, func(t *testing.T) {
			makeContainer(t, name, throughput)
			operations := []string{"transaction", "etag", "first-write", "ttl"}
			if throughput <= perPartition {
				operations = append(operations, "query")
			}
			config, err := conformance.NewTestConfig("azure.cosmosdb", operations, nil)
			if err != nil {
				t.Fatal(err)
			}
			properties := map[string]string{
				"url": endpoint, "masterKey": key, "database": database, "collection": name,
			}
			store := cosmosdb.NewCosmosDBStateStore(logger.NewLogger("conformance"))
			if throughput > perPartition {
				store = withoutQuery{store.(*cosmosdb.StateStore)}
			}
			conformance.ConformanceTests(t, properties, store, config)
		})
	}
}

// The store as it is, but for one feature of which it does not speak: the tests compare what a store
// says of itself with the steps that were asked for.
type withoutQuery struct{ *cosmosdb.StateStore }

func (store withoutQuery) Features() []state.Feature {
	isQuery := func(feature state.Feature) bool { return feature == state.FeatureQueryAPI }
	return slices.DeleteFunc(slices.Clone(store.StateStore.Features()), isQuery)
}

// Dapr's documents ask for a container with the partition key /partitionKey, and a default time to
// live where items are to have one.
func makeContainer(t *testing.T, name string, throughput int32) {
	t.Helper()
	credential, err := azcosmos.NewKeyCredential(key)
	if err != nil {
		t.Fatal(err)
	}
	client, err := azcosmos.NewClientWithKey(endpoint, credential, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if _, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: database}, nil); err != nil {
		t.Logf("the database is there: %v", err)
	}
	account, err := client.NewDatabase(database)
	if err != nil {
		t.Fatal(err)
	}
	never := int32(-1)
	properties := azcosmos.ContainerProperties{
		ID:                     name,
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/partitionKey"}},
		DefaultTimeToLive:      &never,
	}
	manual := azcosmos.NewManualThroughputProperties(throughput)
	options := azcosmos.CreateContainerOptions{ThroughputProperties: &manual}
	if _, err := account.CreateContainer(ctx, properties, &options); err != nil {
		t.Fatal(err)
	}
}

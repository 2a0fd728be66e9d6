// The official Go SDK, as a user installs it, against a server on http://localhost:8081. Every test
// has a database of its own.
package sdk

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

const (
	endpoint = "http://localhost:8081/"
	key      = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
)

// Throughputs that make containers of one and of five partitions.
var throughputs = []int32{400, 30_000}

type item struct {
	ID     string `json:"id"`
	PK     string `json:"pk"`
	Number int    `json:"number"`
}

// newDatabase makes a database that goes with the test.
func newDatabase(t *testing.T) *azcosmos.DatabaseClient {
	t.Helper()
	credential, err := azcosmos.NewKeyCredential(key)
	must(t, err)
	client, err := azcosmos.NewClientWithKey(endpoint, credential, nil)
	must(t, err)
	name := fmt.Sprintf("go-%d", time.Now().UnixNano())
	_, err = client.CreateDatabase(context.Background(), azcosmos.DatabaseProperties{ID: name}, nil)
	must(t, err)
	database, err := client.NewDatabase(name)
	must(t, err)
	t.Cleanup(func() {
		_, err := database.Delete(context.Background(), nil)
		must(t, err)
	})
	return database
}

func newContainer(t *testing.T, throughput int32, paths ...string) *azcosmos.ContainerClient {
	t.Helper()
	database := newDatabase(t)
	definition := azcosmos.PartitionKeyDefinition{Paths: paths, Version: 2}
	if len(paths) > 1 {
		definition.Kind = azcosmos.PartitionKeyKindMultiHash
	}
	properties := azcosmos.ContainerProperties{ID: "c", PartitionKeyDefinition: definition}
	manual := azcosmos.NewManualThroughputProperties(throughput)
	options := azcosmos.CreateContainerOptions{ThroughputProperties: &manual}
	_, err := database.CreateContainer(context.Background(), properties, &options)
	must(t, err)
	container, err := database.NewContainer("c")
	must(t, err)
	return container
}

func create(container *azcosmos.ContainerClient, it item) error {
	text, err := json.Marshal(it)
	if err != nil {
		return err
	}
	_, err = container.CreateItem(context.Background(), azcosmos.NewPartitionKeyString(it.PK), text, nil)
	return err
}

// query reads all pages of a query over all partitions.
func query(container *azcosmos.ContainerClient, text string) ([]json.RawMessage, error) {
	pager := container.NewQueryItemsPager(text, azcosmos.NewPartitionKey(), nil)
	var rows []json.RawMessage
	for pager.More() {
		page, err := pager.NextPage(context.Background())
		if err != nil {
			return nil, err
		}
		for _, row := range page.Items {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t *testing.T, found, wanted T) {
	t.Helper()
	if found != wanted {
		t.Fatalf("found %v, wanted %v", found, wanted)
	}
}

package sdk

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// newClient makes a client of its own.
func newClient(t *testing.T) *azcosmos.Client {
	t.Helper()
	text := fmt.Sprintf("AccountEndpoint=%s;AccountKey=%s;", endpoint, key)
	client, err := azcosmos.NewClientFromConnectionString(text, nil)
	must(t, err)
	t.Cleanup(client.Close)
	return client
}

func TestDatabasesAreReadQueriedAndShareThroughput(t *testing.T) {
	ctx, client := context.Background(), newClient(t)
	equal(t, client.Endpoint(), endpoint)
	name := fmt.Sprintf("go-shared-%d", time.Now().UnixNano())
	manual := azcosmos.NewManualThroughputProperties(600)
	options := azcosmos.CreateDatabaseOptions{ThroughputProperties: &manual}
	_, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: name}, &options)
	must(t, err)
	database, err := client.NewDatabase(name)
	must(t, err)
	equal(t, database.ID(), name)
	read, err := database.Read(ctx, nil)
	must(t, err)
	equal(t, read.DatabaseProperties.ID, name)
	found := 0
	pager := client.NewQueryDatabasesPager("SELECT * FROM c WHERE c.id = '"+name+"'", nil)
	for pager.More() {
		page, err := pager.NextPage(ctx)
		must(t, err)
		found += len(page.Databases)
	}
	equal(t, found, 1)
	offer, err := database.ReadThroughput(ctx, nil)
	must(t, err)
	provisioned, _ := offer.ThroughputProperties.ManualThroughput()
	equal(t, provisioned, 600)
	_, err = database.ReplaceThroughput(ctx, azcosmos.NewManualThroughputProperties(800), nil)
	must(t, err)
	_, err = database.Delete(ctx, nil)
	must(t, err)
	_, err = database.Read(ctx, nil)
	equal(t, status(t, err), 404)
}

func TestContainersAreReadReplacedQueriedAndDeleted(t *testing.T) {
	ctx, database := context.Background(), newDatabase(t)
	properties := azcosmos.ContainerProperties{
		ID:                     "c",
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}, Version: 2},
	}
	scaled := azcosmos.NewAutoscaleThroughputProperties(4_000)
	options := azcosmos.CreateContainerOptions{ThroughputProperties: &scaled}
	_, err := database.CreateContainer(ctx, properties, &options)
	must(t, err)
	container, err := database.NewContainer("c")
	must(t, err)
	equal(t, container.ID(), "c")
	read, err := container.Read(ctx, nil)
	must(t, err)
	seconds := int32(600)
	changed := *read.ContainerProperties
	changed.DefaultTimeToLive = &seconds
	replaced, err := container.Replace(ctx, changed, nil)
	must(t, err)
	equal(t, *replaced.ContainerProperties.DefaultTimeToLive, seconds)
	offer, err := container.ReadThroughput(ctx, nil)
	must(t, err)
	most, _ := offer.ThroughputProperties.AutoscaleMaxThroughput()
	equal(t, most, 4_000)
	more := azcosmos.NewAutoscaleThroughputProperties(5_000)
	_, err = container.ReplaceThroughput(ctx, more, nil)
	must(t, err)
	found := 0
	pager := database.NewQueryContainersPager("SELECT * FROM c", nil)
	for pager.More() {
		page, err := pager.NextPage(ctx)
		must(t, err)
		found += len(page.Containers)
	}
	equal(t, found, 1)
	_, err = container.Delete(ctx, nil)
	must(t, err)
	_, err = container.Read(ctx, nil)
	equal(t, status(t, err), 404)
}

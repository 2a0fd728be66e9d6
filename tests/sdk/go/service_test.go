package sdk

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// azcosmos sends the time as "… UTC", as no other SDK does.
func TestTheChangeFeedBeginsAtATime(t *testing.T) {
	for _, throughput := range throughputs {
		container := newContainer(t, throughput, "/pk")
		for number := range 20 {
			must(t, create(container, item{ID: fmt.Sprint(number), PK: fmt.Sprint(number), Number: number}))
		}
		hours := func(ago time.Duration) int {
			from := time.Now().Add(-ago * time.Hour)
			ranges, err := container.ReadFeedRanges(context.Background(), nil)
			must(t, err)
			found := 0
			for _, part := range ranges {
				options := azcosmos.ChangeFeedOptions{StartFrom: &from, FeedRange: &part}
				page, err := container.ReadChangeFeed(context.Background(), &options)
				must(t, err)
				found += len(page.Items)
			}
			return found
		}
		equal(t, hours(1), 20)
		equal(t, hours(-1), 0)
	}
}

// A filter on the partition key alone says where the rows are; azcosmos cannot merge any.
func TestAQueryThatNamesOnePartitionKeyIsAnswered(t *testing.T) {
	for _, throughput := range throughputs {
		container := newContainer(t, throughput, "/pk")
		for number := range 12 {
			must(t, create(container, item{ID: fmt.Sprintf("%02d", number), PK: fmt.Sprint(number % 3), Number: number}))
		}
		for text, wanted := range map[string]string{
			"SELECT VALUE c.id FROM c WHERE c.pk = '1' ORDER BY c.id DESC":             `["10" "07" "04" "01"]`,
			"SELECT TOP 2 VALUE c.id FROM c WHERE c.pk = '1' ORDER BY c.id":            `["01" "04"]`,
			"SELECT VALUE c.id FROM c WHERE c.pk = '1' ORDER BY c.id OFFSET 1 LIMIT 2": `["04" "07"]`,
			"SELECT DISTINCT VALUE c.pk FROM c WHERE c.pk = '1'":                       `["1"]`,
			"SELECT VALUE COUNT(1) FROM c WHERE c.pk = '1'":                            `[4]`,
		} {
			rows, err := query(container, text)
			must(t, err)
			equal(t, fmt.Sprintf("%s", rows), wanted)
		}
	}
}

func TestAContainerMadeWithoutThroughputHasAnOfferThatCanBeReplaced(t *testing.T) {
	database := newDatabase(t)
	properties := azcosmos.ContainerProperties{
		ID:                     "plain",
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}, Version: 2},
	}
	_, err := database.CreateContainer(context.Background(), properties, nil)
	must(t, err)
	container, err := database.NewContainer("plain")
	must(t, err)
	read, err := container.ReadThroughput(context.Background(), nil)
	must(t, err)
	manual, _ := read.ThroughputProperties.ManualThroughput()
	equal(t, manual, 400)
	_, err = container.ReplaceThroughput(context.Background(), azcosmos.NewManualThroughputProperties(500), nil)
	must(t, err)
	read, err = container.ReadThroughput(context.Background(), nil)
	must(t, err)
	manual, _ = read.ThroughputProperties.ManualThroughput()
	equal(t, manual, 500)
}

func TestIdsThatNoPathCanNameAreStoredAndFound(t *testing.T) {
	container := newContainer(t, 400, "/pk")
	for _, id := range []string{"a/b", `a\b`} {
		must(t, create(container, item{ID: id, PK: "p", Number: 1}))
	}
	rows, err := query(container, "SELECT * FROM c WHERE c.pk = 'p' ORDER BY c.id")
	must(t, err)
	equal(t, len(rows), 2)
	var first item
	must(t, json.Unmarshal(rows[0], &first))
	equal(t, first.ID, "a/b")
}

func TestOfTwoPropertiesOfOneNameTheLastIsKept(t *testing.T) {
	container := newContainer(t, 400, "/pk")
	key := azcosmos.NewPartitionKeyString("p")
	_, err := container.CreateItem(context.Background(), key, []byte(`{"id":"1","pk":"p","number":1,"number":2}`), nil)
	must(t, err)
	read, err := container.ReadItem(context.Background(), key, "1", nil)
	must(t, err)
	var stored item
	must(t, json.Unmarshal(read.Value, &stored))
	equal(t, stored.Number, 2)
}

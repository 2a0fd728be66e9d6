package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
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
			"SELECT c.pk FROM c WHERE c.pk = '1' GROUP BY c.pk":                        `[{"pk":"1"}]`,
			"SELECT c.pk, COUNT(1) AS n FROM c WHERE c.pk = '1' GROUP BY c.pk":         `[{"pk":"1","n":4}]`,
		} {
			rows, err := query(container, text)
			must(t, err)
			equal(t, fmt.Sprintf("%s", rows), wanted)
		}
	}
}

// Other clients merge these from a plan, which they are sent with the refusal.
func TestAggregatesOtherThanCountAreRefusedWithoutAPartitionKey(t *testing.T) {
	for _, throughput := range throughputs {
		container := newContainer(t, throughput, "/pk")
		must(t, create(container, item{ID: "1", PK: "1", Number: 1}))
		for _, text := range []string{
			"SELECT VALUE SUM(c.number) FROM c WHERE c.pk = '1'",
			"SELECT VALUE MAX(c.number) FROM c WHERE c.pk = '1'",
			"SELECT VALUE AVG(c.number) FROM c WHERE c.pk = '1'",
			"SELECT c.pk, MIN(c.number) AS least FROM c WHERE c.pk = '1' GROUP BY c.pk",
		} {
			_, err := query(container, text)
			equal(t, status(t, err), 400)
			var failed *azcore.ResponseError
			errors.As(err, &failed)
			equal(t, failed.RawResponse.Header.Get("x-ms-substatus"), "1004")
		}
		// With the key in the request there is nothing to merge.
		pager := container.NewQueryItemsPager("SELECT VALUE SUM(c.number) FROM c", azcosmos.NewPartitionKeyString("1"), nil)
		page, err := pager.NextPage(context.Background())
		must(t, err)
		equal(t, fmt.Sprintf("%s", page.Items), "[1]")
	}
}

func TestNamesOfParametersMayHaveHyphens(t *testing.T) {
	for _, throughput := range throughputs {
		container := newContainer(t, throughput, "/pk")
		for number := range 6 {
			must(t, create(container, item{ID: fmt.Sprint(number), PK: fmt.Sprint(number % 2), Number: number}))
		}
		options := azcosmos.QueryOptions{QueryParameters: []azcosmos.QueryParameter{
			{Name: "@tenant-id", Value: "1"},
			{Name: "@least", Value: 2},
		}}
		text := "SELECT VALUE c.id FROM c WHERE c.pk = @tenant-id AND c.number-1 >= @least"
		pager := container.NewQueryItemsPager(text, azcosmos.NewPartitionKeyString("1"), &options)
		page, err := pager.NextPage(context.Background())
		must(t, err)
		found := map[string]bool{}
		for _, row := range page.Items {
			found[string(row)] = true
		}
		equal(t, len(found), 2)
		equal(t, found[`"3"`] && found[`"5"`], true)
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

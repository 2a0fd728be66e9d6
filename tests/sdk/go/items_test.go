package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// status is that of a failed request.
func status(t *testing.T, err error) int {
	t.Helper()
	var failed *azcore.ResponseError
	if !errors.As(err, &failed) {
		t.Fatalf("not an error of the server: %v", err)
	}
	return failed.StatusCode
}

func TestAnItemIsCreatedReadReplacedPatchedAndDeleted(t *testing.T) {
	ctx := context.Background()
	for _, throughput := range throughputs {
		container := newContainer(t, throughput, "/pk")
		pk := azcosmos.NewPartitionKeyString("a")
		must(t, create(container, item{"1", "a", 1}))
		equal(t, status(t, create(container, item{"1", "a", 1})), 409)

		read, err := container.ReadItem(ctx, pk, "1", nil)
		must(t, err)
		_, err = container.ReplaceItem(ctx, pk, "1", []byte(`{"id":"1","pk":"a","number":2}`), nil)
		must(t, err)
		old := azcosmos.ItemOptions{IfMatchEtag: &read.ETag}
		_, err = container.ReplaceItem(ctx, pk, "1", []byte(`{"id":"1","pk":"a","number":3}`), &old)
		equal(t, status(t, err), 412)

		patch := azcosmos.PatchOperations{}
		patch.AppendIncrement("/number", 5)
		_, err = container.PatchItem(ctx, pk, "1", patch, nil)
		must(t, err)
		read, err = container.ReadItem(ctx, pk, "1", nil)
		must(t, err)
		var found item
		must(t, json.Unmarshal(read.Value, &found))
		equal(t, found, item{"1", "a", 7})

		_, err = container.UpsertItem(ctx, pk, []byte(`{"id":"1","pk":"a","number":9}`), nil)
		must(t, err)
		_, err = container.DeleteItem(ctx, pk, "1", nil)
		must(t, err)
		_, err = container.ReadItem(ctx, pk, "1", nil)
		equal(t, status(t, err), 404)
	}
}

func TestABatchHappensWholeOrNotAtAll(t *testing.T) {
	ctx := context.Background()
	container := newContainer(t, 30_000, "/pk")
	pk := azcosmos.NewPartitionKeyString("b")
	good := container.NewTransactionalBatch(pk)
	good.CreateItem([]byte(`{"id":"1","pk":"b"}`), nil)
	good.CreateItem([]byte(`{"id":"2","pk":"b"}`), nil)
	good.ReadItem("1", nil)
	done, err := container.ExecuteTransactionalBatch(ctx, good, nil)
	must(t, err)
	equal(t, done.Success, true)

	bad := container.NewTransactionalBatch(pk)
	bad.CreateItem([]byte(`{"id":"3","pk":"b"}`), nil)
	bad.CreateItem([]byte(`{"id":"1","pk":"b"}`), nil)
	done, err = container.ExecuteTransactionalBatch(ctx, bad, nil)
	must(t, err)
	equal(t, done.Success, false)
	equal(t, done.OperationResults[0].StatusCode, 424)
	equal(t, done.OperationResults[1].StatusCode, 409)
	rows, err := query(container, "SELECT * FROM c")
	must(t, err)
	equal(t, len(rows), 2)
}

func TestManyItemsAreFoundByQueriesReadManyAndTheChangeFeed(t *testing.T) {
	ctx := context.Background()
	for _, throughput := range throughputs {
		container := newContainer(t, throughput, "/pk")
		var wanted []azcosmos.ItemIdentity
		for n := range 60 {
			it := item{fmt.Sprintf("i%d", n), fmt.Sprintf("key%d", n%12), n}
			must(t, create(container, it))
			pk := azcosmos.NewPartitionKeyString(it.PK)
			wanted = append(wanted, azcosmos.ItemIdentity{ID: it.ID, PartitionKey: pk})
		}
		rows, err := query(container, "SELECT * FROM c WHERE c.number < 30")
		must(t, err)
		equal(t, len(rows), 30)
		many, err := container.ReadManyItems(ctx, wanted, nil)
		must(t, err)
		equal(t, len(many.Items), 60)
		seen, err := changes(container)
		must(t, err)
		equal(t, len(seen), 60)
	}
}

func TestAHierarchicalKeyIsReadWholeAndAskedByItsBeginning(t *testing.T) {
	ctx := context.Background()
	container := newContainer(t, 30_000, "/tenant", "/user")
	for n := range 40 {
		tenant, user := fmt.Sprintf("t%d", n%4), fmt.Sprintf("u%d", n%8)
		text := fmt.Sprintf(`{"id":"i%d","tenant":"%s","user":"%s"}`, n, tenant, user)
		pk := azcosmos.NewPartitionKeyString(tenant).AppendString(user)
		_, err := container.CreateItem(ctx, pk, []byte(text), nil)
		must(t, err)
	}
	whole := azcosmos.NewPartitionKeyString("t1").AppendString("u5")
	_, err := container.ReadItem(ctx, whole, "i5", nil)
	must(t, err)
	pager := container.NewQueryItemsPager("SELECT * FROM c", azcosmos.NewPartitionKeyString("t1"), nil)
	count := 0
	for pager.More() {
		page, err := pager.NextPage(ctx)
		must(t, err)
		count += len(page.Items)
	}
	equal(t, count, 10)
}

// changes reads the change feed of all ranges from the beginning to its end: the ids in it.
func changes(container *azcosmos.ContainerClient) (map[string]bool, error) {
	ctx := context.Background()
	ids := map[string]bool{}
	ranges, err := container.ReadFeedRanges(ctx, nil)
	if err != nil {
		return nil, err
	}
	for _, feedRange := range ranges {
		options := azcosmos.ChangeFeedOptions{FeedRange: &feedRange}
		for {
			page, err := container.ReadChangeFeed(ctx, &options)
			if err != nil {
				return nil, err
			}
			if len(page.Items) == 0 {
				break
			}
			for _, text := range page.Items {
				var it item
				if err := json.Unmarshal(text, &it); err != nil {
					return nil, err
				}
				ids[it.ID] = true
			}
			options.Continuation = &page.ContinuationToken
		}
	}
	return ids, nil
}

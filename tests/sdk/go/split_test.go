package sdk

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// Partitions are split for more throughput while clients read, write and ask: nobody notices.
func TestClientsNoticeNothingOfASplit(t *testing.T) {
	const before = 500
	ctx := context.Background()
	container := newContainer(t, 6_000, "/pk")
	numbered := func(n int) item {
		return item{fmt.Sprintf("i%d", n), fmt.Sprintf("key%d", n%97), n}
	}
	for n := range before {
		must(t, create(container, numbered(n)))
	}
	var next atomic.Int64
	next.Store(before)
	write := func() error { return create(container, numbered(int(next.Add(1)-1))) }
	read := func() error {
		it := numbered(int(next.Load()) % before)
		found, err := container.ReadItem(ctx, azcosmos.NewPartitionKeyString(it.PK), it.ID, nil)
		if err != nil {
			return err
		}
		return json.Unmarshal(found.Value, &it)
	}
	ask := func() error {
		rows, err := query(container, "SELECT * FROM c WHERE c.number < 500")
		if err == nil && len(rows) != before {
			err = fmt.Errorf("found %d items, wanted %d", len(rows), before)
		}
		return err
	}
	follow := func() error {
		_, err := changes(container)
		return err
	}

	var done atomic.Bool
	var clients sync.WaitGroup
	for _, step := range []func() error{write, write, read, ask, follow} {
		clients.Go(func() {
			for !done.Load() {
				if err := step(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	_, err := container.ReplaceThroughput(ctx, azcosmos.NewManualThroughputProperties(40_000), nil)
	must(t, err)
	for {
		offer, err := container.ReadThroughput(ctx, nil)
		must(t, err)
		if !offer.IsReplacePending {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(500 * time.Millisecond)
	done.Store(true)
	clients.Wait()

	ranges, err := container.ReadFeedRanges(ctx, nil)
	must(t, err)
	equal(t, len(ranges), 4)
	rows, err := query(container, "SELECT * FROM c")
	must(t, err)
	equal(t, len(rows), int(next.Load()))
	seen, err := changes(container)
	must(t, err)
	equal(t, len(seen), int(next.Load()))
}

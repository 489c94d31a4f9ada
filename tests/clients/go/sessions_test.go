// Waiting by a session: many waits on one connection, and whatever becomes of that.

package clients

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const lease = 10 * time.Minute

type granted struct {
	holder string
	err    error
}

// onEachSession runs a test with waits of a process of its own.
func onEachSession(t *testing.T, test func(t *testing.T, rdb *redis.Client, waits *Waits)) {
	onEachProtocol(t, func(t *testing.T, rdb *redis.Client) {
		options := options(t, "RLOCK_URL")
		options.Protocol = rdb.Options().Protocol
		options.PoolSize = 4
		process := redis.NewClient(options)
		defer process.Close()
		waits := NewWaits(process)
		test(t, rdb, waits)
		must(t, waits.Close())
		if err := rdb.Do(t.Context(), "RLOCK.CANCEL", waits.session).Err(); !redis.HasErrorPrefix(err, "NOSESSION") {
			t.Fatal("its session has not ended:", err)
		}
	})
}

// begin waits as the last of so many.
func begin(t *testing.T, rdb *redis.Client, waits *Waits, number int) <-chan granted {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	result := make(chan granted, 1)
	go func() {
		holder, err := waits.Acquire(ctx, "k", lease)
		result <- granted{holder, err}
	}()
	untilWaiting(t, rdb, number)
	return result
}

func holderOf(t *testing.T, result <-chan granted) string {
	t.Helper()
	it := <-result
	must(t, it.err)
	return it.holder
}

func figure(t *testing.T, rdb *redis.Client, name string) (value int) {
	t.Helper()
	_, text, _ := strings.Cut(rdb.Info(t.Context(), "rlock").Val(), "rlock_"+name+":")
	_, err := fmt.Sscan(text, &value)
	must(t, err)
	return value
}

func endConnections(t *testing.T, rdb *redis.Client) {
	t.Helper()
	must(t, rdb.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err())
}

func TestWhatThePageShows(t *testing.T) {
	onEachProtocol(t, func(t *testing.T, rdb *redis.Client) {
		// snippet: use
		waits := NewWaits(rdb)
		defer waits.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		holder, err := waits.Acquire(ctx, "orders:42", 30*time.Second)
		// …
		freed, _ := rdb.Do(ctx, "RLOCK.RELEASE", "orders:42", holder, "ALL").Int()
		// end
		must(t, err)
		if freed != 1 {
			t.Fatal(freed)
		}
	})
}

func TestManyWaitsHaveOneConnectionAndAreServedInOrder(t *testing.T) {
	onEachSession(t, func(t *testing.T, rdb *redis.Client, waits *Waits) {
		expect(t, rdb, redis.Nil, "RLOCK.ACQUIRE k ann 600000")
		var all []<-chan granted
		for number := range 50 {
			all = append(all, begin(t, rdb, waits, number+1))
		}
		if tickets := figure(t, rdb, "tickets"); tickets != 50 {
			t.Fatal(tickets)
		}
		var connections int
		_, text, _ := strings.Cut(rdb.Info(t.Context(), "clients").Val(), "connected_clients:")
		_, err := fmt.Sscan(text, &connections)
		must(t, err)
		if connections > 1+1+4 {
			t.Fatal(connections)
		}
		holder := "ann"
		for _, result := range all {
			expect(t, rdb, 1, "RLOCK.RELEASE k "+holder+" ALL")
			holder = holderOf(t, result)
			expect(t, rdb, "["+holder+"]", "HKEYS k")
		}
	})
}

func TestASessionsWaitEndsWithItsTime(t *testing.T) {
	onEachSession(t, func(t *testing.T, rdb *redis.Client, waits *Waits) {
		expect(t, rdb, redis.Nil, "RLOCK.ACQUIRE k ann 600000")
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if holder, err := waits.Acquire(ctx, "k", lease); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(holder, err)
		}
		leftTheQueue(t, rdb, "k", "ann")
	})
}

func TestWhoIsCancelledLeavesTheQueue(t *testing.T) {
	onEachSession(t, func(t *testing.T, rdb *redis.Client, waits *Waits) {
		expect(t, rdb, redis.Nil, "RLOCK.ACQUIRE k ann 600000")
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error)
		go func() {
			_, err := waits.Acquire(ctx, "k", lease)
			failed <- err
		}()
		untilWaiting(t, rdb, 1)
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		leftTheQueue(t, rdb, "k", "ann")
	})
}

func TestAnErrorIsReturned(t *testing.T) {
	onEachSession(t, func(t *testing.T, rdb *redis.Client, waits *Waits) {
		expect(t, rdb, redis.Nil, "RLOCK.RACQUIRE k ann 600000")
		if _, err := waits.Acquire(t.Context(), "k", lease); !redis.HasErrorPrefix(err, "WRONGKIND") {
			t.Fatal(err)
		}
	})
}

func TestPlacesOutliveTheConnection(t *testing.T) {
	onEachSession(t, func(t *testing.T, rdb *redis.Client, waits *Waits) {
		expect(t, rdb, redis.Nil, "RLOCK.ACQUIRE k ann 600000")
		first := begin(t, rdb, waits, 1)
		waited := figure(t, rdb, "waits")
		endConnections(t, rdb)
		second := begin(t, rdb, waits, 2)
		if begun := figure(t, rdb, "waits") - waited; begun != 1 {
			t.Fatal("the first has lost its place:", begun)
		}
		expect(t, rdb, 1, "RLOCK.RELEASE k ann")
		expect(t, rdb, 1, "RLOCK.RELEASE k "+holderOf(t, first)+" ALL")
		holderOf(t, second)
	})
}

func TestASessionThatIsLostIsOpenedAgain(t *testing.T) {
	onEachSession(t, func(t *testing.T, rdb *redis.Client, waits *Waits) {
		for range 2 {
			expect(t, rdb, redis.Nil, "RLOCK.ACQUIRE k ann 600000")
			result := begin(t, rdb, waits, 1)
			must(t, rdb.Do(t.Context(), "RLOCK.CANCEL", waits.session).Err())
			endConnections(t, rdb)
			untilWaiting(t, rdb, 1)
			expect(t, rdb, 1, "RLOCK.RELEASE k ann")
			expect(t, rdb, 1, "RLOCK.RELEASE k "+holderOf(t, result)+" ALL")
		}
	})
}

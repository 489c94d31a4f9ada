// Waiting in the server: a connection that may be silent for long, and every way out of the queue.

package clients

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	toBob = "RLOCK.ACQUIRE k bob 600000 WAIT "
	toCid = "RLOCK.ACQUIRE k cid 600000 FENCED WAIT "
)

// snippet: connect
// connectForWaits makes a client for waits: by default go-redis times out after 5 s, and sends the command again, at
// the end of the queue. Each running command has its own connection of the pool, whose size limits how many wait.
func connectForWaits(options redis.Options, longestWait time.Duration, howMany int) *redis.Client {
	options.ReadTimeout = longestWait + 5*time.Second
	options.MaxRetries = -1
	options.ContextTimeoutEnabled = true // a context's deadline ends a wait, too
	options.PoolSize = howMany
	return redis.NewClient(&options)
}

// end

func waitsLike(t *testing.T, rdb *redis.Client) *redis.Client {
	options := options(t, "RLOCK_URL")
	options.Protocol = rdb.Options().Protocol
	return connectForWaits(*options, time.Minute, 10)
}

// wait sends a command that will wait as the count-th, and gives the channel of its reply.
func wait(t *testing.T, rdb, waits *redis.Client, count int, command string) <-chan any {
	t.Helper()
	reply := make(chan any, 1)
	go func() { reply <- do(waits, command) }()
	untilWaiting(t, rdb, count)
	return reply
}

func TestAReleaseHandsTheLockOverInOrder(t *testing.T) {
	onEachProtocol(t, func(t *testing.T, rdb *redis.Client) {
		waits := waitsLike(t, rdb)
		defer waits.Close()
		expect(t, rdb, redis.Nil, "RLOCK.ACQUIRE k ann 600000")
		bob := wait(t, rdb, waits, 1, toBob+"20000")
		cid := wait(t, rdb, waits, 2, toCid+"20000")
		expect(t, rdb, 1, "RLOCK.RELEASE k ann")
		expect(t, rdb, "[bob]", "HKEYS k")
		arrives(t, bob, redis.Nil)
		expect(t, rdb, 1, "RLOCK.RELEASE k bob")
		expect(t, rdb, "[cid]", "HKEYS k")
		arrives(t, cid, []any{nil, 1})
		untilWaiting(t, rdb, 0)
	})
}

func TestAWriterThatLeavesLetsAllReadersIn(t *testing.T) {
	onEachProtocol(t, func(t *testing.T, rdb *redis.Client) {
		waits := waitsLike(t, rdb)
		defer waits.Close()
		expect(t, rdb, redis.Nil, "RLOCK.WACQUIRE k ann 600000")
		bob := wait(t, rdb, waits, 1, "RLOCK.RACQUIRE k bob 600000 WAIT 20000")
		cid := wait(t, rdb, waits, 2, "RLOCK.RACQUIRE k cid 600000 WAIT 20000")
		expect(t, rdb, 1, "RLOCK.RELEASE k ann")
		arrives(t, bob, redis.Nil)
		arrives(t, cid, redis.Nil)
	})
}

func TestAWaitEndsWithItsTime(t *testing.T) {
	onEachProtocol(t, func(t *testing.T, rdb *redis.Client) {
		ctx, waits := t.Context(), waitsLike(t, rdb)
		defer waits.Close()
		expect(t, rdb, redis.Nil, "RLOCK.ACQUIRE orders:42 worker-7 600000")
		// snippet: wait
		left, err := waits.Do(ctx, "RLOCK.ACQUIRE", "orders:42", "worker-8", 30_000, "WAIT", 50).Int64()
		refused := err == nil && left > 0 // redis.Nil: granted; a number: still held after 50 ms
		// end
		if !refused {
			t.Fatal(left, err)
		}
		leftTheQueue(t, rdb, "orders:42", "worker-7")
	})
}

func TestAWaitMayBeLongerThanGoRedisWaitsByItself(t *testing.T) {
	rdb := redis.NewClient(options(t, "RLOCK_URL"))
	defer rdb.Close()
	waits := waitsLike(t, rdb)
	defer waits.Close()
	must(t, rdb.FlushAll(t.Context()).Err())
	expect(t, rdb, redis.Nil, "RLOCK.ACQUIRE k ann 6000")
	expect(t, waits, redis.Nil, toBob+"20000")
}

func TestWhoClosesTheConnectionLeavesTheQueue(t *testing.T) {
	onEachProtocol(t, func(t *testing.T, rdb *redis.Client) {
		waits := waitsLike(t, rdb)
		expect(t, rdb, redis.Nil, "RLOCK.ACQUIRE k ann 600000")
		bob := wait(t, rdb, waits, 1, toBob+"0")
		must(t, waits.Close())
		if reply, isError := (<-bob).(error); !isError || reply == redis.Nil {
			t.Fatal(reply)
		}
		leftTheQueue(t, rdb, "k", "ann")
	})
}

func TestAContextsDeadlineEndsTheWait(t *testing.T) {
	onEachProtocol(t, func(t *testing.T, rdb *redis.Client) {
		waits := waitsLike(t, rdb)
		defer waits.Close()
		expect(t, rdb, redis.Nil, "RLOCK.ACQUIRE k ann 600000")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := waits.Do(ctx, "RLOCK.ACQUIRE", "k", "bob", 600_000, "WAIT", 0).Err(); err == nil || err == redis.Nil {
			t.Fatal(err)
		}
		leftTheQueue(t, rdb, "k", "ann")
	})
}

func TestGoRedisSendsTheCommandAgainByItself(t *testing.T) {
	onEachProtocol(t, func(t *testing.T, rdb *redis.Client) {
		options := options(t, "RLOCK_URL")
		options.ReadTimeout = 100 * time.Millisecond
		hasty := redis.NewClient(options)
		defer hasty.Close()
		expect(t, rdb, redis.Nil, "RLOCK.ACQUIRE k ann 600000")
		before := waitsBegun(t, rdb)
		if err, isError := do(hasty, toBob+"0").(net.Error); !isError || !err.Timeout() {
			t.Fatal(err)
		}
		if begun := waitsBegun(t, rdb) - before; begun != 1+3 {
			t.Fatalf("it was sent %d times", begun)
		}
	})
}

func waitsBegun(t *testing.T, rdb *redis.Client) (count int) {
	t.Helper()
	_, text, _ := strings.Cut(rdb.Info(t.Context(), "rlock").Val(), "rlock_waits:")
	_, err := fmt.Sscan(text, &count)
	must(t, err)
	return count
}

func arrives(t *testing.T, replies <-chan any, want any) {
	t.Helper()
	select {
	case got := <-replies:
		if got, want := fmt.Sprint(got), fmt.Sprint(want); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	case <-time.After(patience):
		t.Fatal("waited in vain for a reply")
	}
}

// leftTheQueue shows that nobody waits any longer, and that nobody is granted the lock when its holder releases it.
func leftTheQueue(t *testing.T, rdb *redis.Client, key, holder string) {
	t.Helper()
	untilWaiting(t, rdb, 0)
	expect(t, rdb, 1, "RLOCK.RELEASE "+key+" "+holder)
	expect(t, rdb, "[]", "HKEYS "+key)
}

// The idioms of Go: contexts, panics, goroutines, loggers. What every client does is tested by clients/conformance.

package rlock_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlock/rlock/clients/go"
)

func TestDoReleasesTheLockWhateverTheWorkDoes(t *testing.T) {
	rdb, locks, name := server(t), connect(t, rlock.Options{}), name(t)
	failure := errors.New("no stock")
	if err := locks.Do(t.Context(), name, func(context.Context, *rlock.Held) error { return failure }); err != failure {
		t.Fatal(err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = locks.Do(t.Context(), name, func(context.Context, *rlock.Held) error { panic("a mistake") })
	}()
	if rdb.Exists(t.Context(), name).Val() != 0 {
		t.Fatal("it is still held")
	}
}

func TestAContextsDeadlineIsALimitAsWell(t *testing.T) {
	locks, name := connect(t, rlock.Options{}), name(t)
	defer acquired(t, locks.Lock(name)).Release(context.Background())
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err := locks.Acquire(ctx, name)
	is(t, err, rlock.ErrBusy)
}

func TestTheConnectionForWaitsIsClosedWithoutWaits(t *testing.T) {
	rdb, name := server(t), name(t)
	locks := connect(t, rlock.Options{Name: "idle", IdleTimeout: 50 * time.Millisecond})
	held := acquired(t, locks.Lock(name))
	_, err := locks.Acquire(t.Context(), name, rlock.Wait(30*time.Millisecond))
	is(t, err, rlock.ErrBusy)
	until(t, "one connection is left", func() bool {
		return strings.Count(rdb.ClientList(t.Context()).Val(), " name=idle ") == 1
	})
	go func() { _ = held.Release(context.Background()) }()
	must(t, acquired(t, locks.Lock(name), rlock.Wait(patience)).Release(t.Context()))
}

func TestCloseLeavesNoGoroutine(t *testing.T) {
	rdb, name := server(t), name(t)
	must(t, rdb.Ping(t.Context()).Err())
	before := runtime.NumGoroutine()
	client := redis.NewClient(rdb.Options())
	locks, err := rlock.New(client, rlock.Options{})
	must(t, err)
	held := acquired(t, locks.Lock(name))
	for range 20 {
		go locks.Acquire(context.Background(), name)
	}
	untilWaiting(t, rdb, name, 20)
	must(t, held.Release(t.Context()))
	must(t, locks.Close(t.Context()))
	must(t, client.Close())
	untilFree(t, rdb, name)
	until(t, "its goroutines have ended", func() bool { return runtime.NumGoroutine() <= before+1 })
}

func TestALossIsOneLineInTheLog(t *testing.T) {
	rdb, name, log := server(t), name(t), &logged{}
	locks := connect(t, rlock.Options{Logger: log.logger()})
	held := acquired(t, locks.Lock(name), rlock.Lease(300*time.Millisecond))
	must(t, rdb.Do(t.Context(), "RLOCK.BREAK", name).Err())
	<-held.Context().Done()
	until(t, "the log has its line", func() bool { return strings.Contains(log.String(), name) })
	is(t, held.Release(t.Context()), rlock.ErrLost)
	if strings.Count(log.String(), "\n") != 1 {
		t.Fatal(log.String())
	}
}

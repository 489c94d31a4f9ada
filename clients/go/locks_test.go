// The idioms, the errors, and what is left behind when a wait is given up: nothing.

package rlock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlock/rlock/clients/go"
)

func TestDoHoldsTheLockAroundWork(t *testing.T) {
	rdb, locks, name := server(t), connect(t, rlock.Options{}), name(t)
	must(t, locks.Do(t.Context(), name, func(ctx context.Context, held *rlock.Held) error {
		if holder := rdb.HKeys(ctx, name).Val(); len(holder) != 1 || holder[0] != held.Holder() {
			t.Errorf("%v holds it", holder)
		}
		if held.Token() == 0 || held.Lost() || held.Remaining() < 29*time.Second {
			t.Error(held.Token(), held.Err(), held.Remaining())
		}
		return ctx.Err()
	}, rlock.Fenced(), rlock.Wait(time.Second)))
	untilFree(t, rdb, name)
}

func TestDoGivesTheLockBackWhateverTheWorkDoes(t *testing.T) {
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

func TestWhoComesWithWhom(t *testing.T) {
	locks := connect(t, rlock.Options{})
	one := func(name string) *rlock.Lock { return locks.Permit(name, 1) }
	two := func(name string) *rlock.Lock { return locks.Permit(name, 2) }
	for _, row := range []struct {
		name          string
		first, second func(string) *rlock.Lock
		together      bool
	}{
		{"lock and lock", locks.Lock, locks.Lock, false},
		{"read and read", locks.Read, locks.Read, true},
		{"read and write", locks.Read, locks.Write, false},
		{"write and read", locks.Write, locks.Read, false},
		{"two permits of two", two, two, true},
		{"two permits of one", one, one, false},
		{"all and one of them", func(n string) *rlock.Lock { return locks.All(n, n+"b") }, locks.Lock, false},
		{"one of all and all", locks.Lock, func(n string) *rlock.Lock { return locks.All(n+"b", n) }, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			name := name(t)
			held := acquired(t, row.first(name))
			other, err := row.second(name).TryAcquire(t.Context())
			if row.together {
				must(t, err)
				must(t, other.Release(t.Context()))
				must(t, held.Release(t.Context()))
				return
			}
			is(t, err, rlock.ErrBusy)
			_, err = row.second(name).Acquire(t.Context(), rlock.Wait(20*time.Millisecond))
			is(t, err, rlock.ErrBusy)
			must(t, held.Release(t.Context()))
			must(t, acquired(t, row.second(name), rlock.Wait(patience)).Release(t.Context()))
		})
	}
}

func TestAWaitIsGrantedInTurn(t *testing.T) {
	rdb, locks, name := server(t), connect(t, rlock.Options{}), name(t)
	held := acquired(t, locks.Lock(name))
	var mutex sync.Mutex
	var order []int
	var all sync.WaitGroup
	for i := range 5 {
		all.Add(1)
		go func() {
			defer all.Done()
			if err := locks.Do(t.Context(), name, func(context.Context, *rlock.Held) error {
				mutex.Lock()
				defer mutex.Unlock()
				order = append(order, i)
				return nil
			}); err != nil {
				t.Error(err)
			}
		}()
		untilWaiting(t, rdb, name, int64(i+1))
	}
	must(t, held.Release(t.Context()))
	all.Wait()
	if fmt.Sprint(order) != "[0 1 2 3 4]" {
		t.Fatal(order)
	}
}

func TestTokensGrowAndSeveralLocksHaveOneEach(t *testing.T) {
	locks, name := connect(t, rlock.Options{}), name(t)
	one := acquired(t, locks.Lock(name), rlock.Fenced())
	must(t, one.Release(t.Context()))
	both := acquired(t, locks.All(name, name+"b"), rlock.Fenced())
	if tokens := both.Tokens(); len(tokens) != 2 || tokens[0] <= one.Token() || both.Token() != tokens[0] {
		t.Fatal(one.Token(), tokens)
	}
	must(t, both.Release(t.Context()))
}

func TestAnOwnerMayAcquireAgain(t *testing.T) {
	rdb, locks, name := server(t), connect(t, rlock.Options{}), name(t)
	first := acquired(t, locks.Lock(name), rlock.Owner("ann"))
	second := acquired(t, locks.Lock(name), rlock.Owner("ann"), rlock.Wait(0))
	_, err := locks.TryAcquire(t.Context(), name, rlock.Owner("bob"))
	is(t, err, rlock.ErrBusy)
	must(t, first.Release(t.Context()))
	if second.Lost() || rdb.HGet(t.Context(), name, "ann").Val() != "1" {
		t.Fatal("the second one has not kept it")
	}
	must(t, second.Release(t.Context()))
	untilFree(t, rdb, name)
}

func TestErrorsSayWhatIsWrong(t *testing.T) {
	rdb, locks, name := server(t), connect(t, rlock.Options{}), name(t)
	plain := acquired(t, locks.Lock(name))
	defer plain.Release(context.Background())
	reader := acquired(t, locks.Read(name+"rw"), rlock.Owner("ann"))
	defer reader.Release(context.Background())
	waiting, cancel := context.WithCancel(t.Context())
	defer cancel()
	go locks.Acquire(waiting, name)
	untilWaiting(t, rdb, name, 1)
	must(t, rdb.Set(t.Context(), name+"text", "x", time.Minute).Err())
	for _, row := range []struct {
		what    string
		lock    *rlock.Lock
		options []rlock.Option
		want    error
	}{
		{"busy", locks.Lock(name), []rlock.Option{rlock.Wait(10 * time.Millisecond)}, rlock.ErrBusy},
		{"wrong kind", locks.Write(name), nil, rlock.ErrWrongKind},
		{"deadlock", locks.Write(name + "rw"), []rlock.Option{rlock.Owner("ann")}, rlock.ErrDeadlock},
		{"queue full", locks.Lock(name), []rlock.Option{rlock.MaxWaiters(1)}, rlock.ErrQueueFull},
		{"refused", locks.Lock(name + "text"), nil, rlock.ErrRefused},
		{"too few replicas", locks.Lock(name + "r"), []rlock.Option{rlock.Replicas(3, 10*time.Millisecond)},
			rlock.ErrTooFewReplicas},
	} {
		t.Run(row.what, func(t *testing.T) {
			held, err := row.lock.Acquire(t.Context(), row.options...)
			is(t, err, row.want)
			if held != nil || !strings.Contains(err.Error(), "rlock: ") {
				t.Fatal(held, err)
			}
		})
	}
	untilFree(t, rdb, name+"r")
}

func TestErrorsOfConnecting(t *testing.T) {
	address(t, "RLOCK_URL")
	for what, row := range map[string]struct {
		options rlock.Options
		want    error
	}{
		"nobody there": {rlock.Options{URL: "redis://127.0.0.1:1"}, rlock.ErrUnavailable},
		"no address":   {rlock.Options{URL: "http://127.0.0.1:1"}, rlock.ErrConfiguration},
		"nothing":      {rlock.Options{}, rlock.ErrConfiguration},
		"a wrong password": {rlock.Options{URL: strings.Replace(address(t, "RLOCK_URL"), "://", "://ann:wrong@", 1)},
			rlock.ErrNoRight},
	} {
		t.Run(what, func(t *testing.T) {
			_, err := rlock.Connect(t.Context(), row.options)
			is(t, err, row.want)
		})
	}
}

func TestAUserWithoutRights(t *testing.T) {
	rdb, user := server(t), "weak"
	must(t, rdb.Do(t.Context(), "ACL", "SETUSER", user, "on", ">weak", "~allowed*", "+rlock.acquire", "+rlock.release").Err())
	defer rdb.Do(context.Background(), "ACL", "DELUSER", user)
	locks := connect(t, rlock.Options{URL: strings.Replace(address(t, "RLOCK_URL"), "://", "://weak:weak@", 1)})
	must(t, acquired(t, locks.Lock("allowed"+name(t))).Release(t.Context()))
	_, err := locks.Acquire(t.Context(), name(t))
	is(t, err, rlock.ErrNoRight)
}

func TestAWaitThatIsCancelledLeavesNothing(t *testing.T) {
	rdb, locks, name := server(t), connect(t, rlock.Options{}), name(t)
	held := acquired(t, locks.Lock(name))
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range 100 {
		all.Add(1)
		go func() {
			defer all.Done()
			lock := locks.Lock(name)
			if i%2 == 1 {
				lock = locks.All(name, name+"b")
			}
			if held, err := lock.Acquire(ctx); held != nil || !errors.Is(err, context.Canceled) {
				t.Error(held, err)
			}
		}()
	}
	untilWaiting(t, rdb, name, 100)
	cancel()
	all.Wait()
	untilWaiting(t, rdb, name, 0)
	must(t, held.Release(t.Context()))
	untilFree(t, rdb, name)
}

func TestAContextsDeadlineIsALimitAsWell(t *testing.T) {
	locks, name := connect(t, rlock.Options{}), name(t)
	defer acquired(t, locks.Lock(name)).Release(context.Background())
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err := locks.Acquire(ctx, name)
	is(t, err, rlock.ErrBusy)
}

func TestManyWaitsTakeThreeConnectionsAtMost(t *testing.T) {
	rdb, name := server(t), name(t)
	locks := connect(t, rlock.Options{Name: "many"})
	held := acquired(t, locks.Lock(name))
	var all sync.WaitGroup
	for range 100 {
		all.Add(1)
		go func() {
			defer all.Done()
			if err := locks.Do(t.Context(), name, func(context.Context, *rlock.Held) error { return nil }); err != nil {
				t.Error(err)
			}
		}()
	}
	untilWaiting(t, rdb, name, 100)
	if count := strings.Count(rdb.ClientList(t.Context()).Val(), " name=many "); count > 3 {
		t.Fatal(count, " connections")
	}
	must(t, held.Release(t.Context()))
	all.Wait()
}

func TestTheConnectionForWaitsIsClosedWhenNobodyWaits(t *testing.T) {
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

func TestCloseEndsWaitsAndGivesBack(t *testing.T) {
	rdb, name := server(t), name(t)
	locks := connect(t, rlock.Options{})
	held := acquired(t, locks.Lock(name))
	waits := make(chan error)
	go func() {
		_, err := locks.Acquire(context.Background(), name)
		waits <- err
	}()
	untilWaiting(t, rdb, name, 1)
	must(t, locks.Close(t.Context()))
	is(t, <-waits, rlock.ErrClosed)
	if rdb.Exists(t.Context(), name).Val() != 0 {
		t.Fatal("it is still held")
	}
	must(t, held.Release(t.Context()))
	_, err := locks.TryAcquire(t.Context(), name)
	is(t, err, rlock.ErrClosed)
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

func TestAClusterHasASessionForEachNode(t *testing.T) {
	options, err := redis.ParseURL(address(t, "RLOCK_CLUSTER_URL"))
	must(t, err)
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{options.Addr}})
	defer cluster.Close()
	locks, err := rlock.New(cluster, rlock.Options{})
	must(t, err)
	var all sync.WaitGroup
	for i := range 30 {
		name := fmt.Sprint(name(t), i)
		held := acquired(t, locks.Lock(name))
		all.Add(1)
		go func() {
			defer all.Done()
			if err := locks.Do(t.Context(), name, func(context.Context, *rlock.Held) error { return nil }); err != nil {
				t.Error(err)
			}
		}()
		go func() { _ = held.Release(context.Background()) }()
	}
	all.Wait()
	both := "{" + name(t) + "}"
	must(t, acquired(t, locks.All(both+"a", both+"b")).Release(t.Context()))
	_, err = locks.All("a", "b").Acquire(t.Context())
	is(t, err, rlock.ErrRefused)
	must(t, locks.Close(t.Context()))
}

func TestALossIsOneLineInTheLog(t *testing.T) {
	rdb, name := server(t), name(t)
	var mutex sync.Mutex
	var log bytes.Buffer
	locks := connect(t, rlock.Options{Logger: slog.New(slog.NewTextHandler(locked{&mutex, &log}, nil))})
	held := acquired(t, locks.Lock(name), rlock.Lease(300*time.Millisecond))
	must(t, rdb.Do(t.Context(), "RLOCK.BREAK", name).Err())
	ends(t, held.Context())
	until(t, "the log has its line", func() bool {
		mutex.Lock()
		defer mutex.Unlock()
		return strings.Count(log.String(), name) > 0
	})
	is(t, held.Release(t.Context()), rlock.ErrLost)
	mutex.Lock()
	defer mutex.Unlock()
	if strings.Count(log.String(), "\n") != 1 {
		t.Fatal(log.String())
	}
}

type locked struct {
	mutex *sync.Mutex
	to    *bytes.Buffer
}

func (l locked) Write(line []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.to.Write(line)
}

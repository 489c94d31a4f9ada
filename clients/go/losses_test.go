// Leases that are kept, that end, and that are lost; and networks that break, stand still, and lose answers.

package rlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rlock/rlock/clients/go"
)

func TestALeaseIsKeptForAsLongAsTheWorkLasts(t *testing.T) {
	rdb, locks, name := server(t), connect(t, rlock.Options{Lease: time.Second}), name(t)
	held := acquired(t, locks.Lock(name))
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if held.Lost() || rdb.Exists(t.Context(), name).Val() != 1 {
			t.Fatal(held.Err())
		}
	}
	must(t, held.Release(t.Context()))
}

func TestAFixedLeaseEnds(t *testing.T) {
	rdb, locks, name := server(t), connect(t, rlock.Options{}), name(t)
	held := acquired(t, locks.Lock(name), rlock.FixedLease(200*time.Millisecond))
	ends(t, held.Context())
	is(t, context.Cause(held.Context()), rlock.ErrLost)
	is(t, held.Release(t.Context()), rlock.ErrLost)
	untilFree(t, rdb, name)
}

func TestWhatAWaitWasGrantedIsMadeWhole(t *testing.T) {
	rdb, locks, name := server(t), connect(t, rlock.Options{}), name(t)
	first := acquired(t, locks.Lock(name))
	go func() {
		untilWaiting(t, rdb, name, 1)
		_ = first.Release(context.Background())
	}()
	held := acquired(t, locks.Lock(name))
	until(t, "its lease is whole", func() bool { return held.Remaining() > 25*time.Second })
	must(t, held.Release(t.Context()))
}

func TestALossEndsTheWorkAndIsItsCause(t *testing.T) {
	rdb, locks, name := server(t), connect(t, rlock.Options{Lease: 300 * time.Millisecond}), name(t)
	err := locks.Do(t.Context(), name, func(ctx context.Context, held *rlock.Held) error {
		must(t, rdb.Do(ctx, "RLOCK.BREAK", name).Err())
		ends(t, ctx)
		if !held.Lost() || held.Remaining() != 0 {
			t.Error(held.Err(), held.Remaining())
		}
		return context.Cause(ctx)
	})
	is(t, err, rlock.ErrLost)
	if errors.Is(err, rlock.ErrInDoubt) {
		t.Fatal(err)
	}
}

func TestADeadlineNeedsNoNetwork(t *testing.T) {
	network, name := newNetwork(t), name(t)
	locks := connect(t, rlock.Options{URL: network.url(), Lease: time.Second})
	held := acquired(t, locks.Lock(name))
	left, from := held.Remaining(), time.Now()
	network.stop(true, true)
	ends(t, held.Context())
	if took := time.Since(from); took < left-time.Millisecond {
		t.Fatal("given up after ", took, " of ", left)
	}
	is(t, held.Err(), rlock.ErrLost)
	network.stop(false, false)
}

func TestALockThatIsForgottenIsNoticedWhenTheConnectionBreaks(t *testing.T) {
	rdb, network, name := server(t), newNetwork(t), name(t)
	locks := connect(t, rlock.Options{URL: network.url(), Lease: time.Hour})
	held := acquired(t, locks.Lock(name))
	must(t, rdb.Del(t.Context(), name).Err())
	network.breaks()
	ends(t, held.Context())
	is(t, held.Release(t.Context()), rlock.ErrLost)
}

func TestABrokenConnectionKeepsThePlace(t *testing.T) {
	rdb, network, name := server(t), newNetwork(t), name(t)
	direct, broken := connect(t, rlock.Options{}), connect(t, rlock.Options{URL: network.url()})
	held := acquired(t, direct.Lock(name))
	order := make(chan string, 2)
	wait := func(who string, locks *rlock.Locks) {
		if err := locks.Do(context.Background(), name, func(context.Context, *rlock.Held) error {
			order <- who
			return nil
		}); err != nil {
			t.Error(who, err)
		}
	}
	go wait("broken", broken)
	untilWaiting(t, rdb, name, 1)
	go wait("direct", direct)
	untilWaiting(t, rdb, name, 2)
	before := firstWaiter(t, rdb, name)["client-id"]
	network.breaks()
	until(t, "it is there again", func() bool {
		first := firstWaiter(t, rdb, name)
		return first["attended"] == int64(1) && first["client-id"] != before
	})
	must(t, held.Release(t.Context()))
	if first, second := <-order, <-order; first != "broken" || second != "direct" {
		t.Fatal(first, second)
	}
}

func TestAnAcquireWhoseAnswerIsLostIsAskedAgain(t *testing.T) {
	rdb, network, name := server(t), newNetwork(t), name(t)
	locks := connect(t, rlock.Options{URL: network.url()})
	network.stop(false, true)
	go func() {
		until(t, "the server has granted it", func() bool { return rdb.Exists(context.Background(), name).Val() == 1 })
		network.breaks()
		network.stop(false, false)
	}()
	held := acquired(t, locks.Lock(name))
	if count := rdb.HGet(t.Context(), name, held.Holder()).Val(); count != "2" {
		t.Fatal("it was granted to ", count)
	}
	must(t, held.Release(t.Context()))
	untilFree(t, rdb, name)
}

func TestAnAcquireThatIsCancelledIsTakenBack(t *testing.T) {
	rdb, network, name := server(t), newNetwork(t), name(t)
	locks := connect(t, rlock.Options{URL: network.url()})
	network.stop(false, true)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		until(t, "the server has granted it", func() bool { return rdb.Exists(context.Background(), name).Val() == 1 })
		cancel()
	}()
	_, err := locks.Acquire(ctx, name)
	is(t, err, context.Canceled)
	network.stop(false, false)
	untilFree(t, rdb, name)
}

func TestAReleaseWhoseAnswerIsLostIsInDoubt(t *testing.T) {
	rdb, network, name := server(t), newNetwork(t), name(t)
	locks := connect(t, rlock.Options{URL: network.url()})
	held := acquired(t, locks.Lock(name))
	network.stop(false, true)
	go func() {
		until(t, "the server has released it", func() bool { return rdb.Exists(context.Background(), name).Val() == 0 })
		network.breaks()
		network.stop(false, false)
	}()
	err := held.Release(t.Context())
	is(t, err, rlock.ErrInDoubt)
	is(t, err, rlock.ErrLost)
}

func TestAReleaseThatIsAnsweredLateIsOne(t *testing.T) {
	network, name := newNetwork(t), name(t)
	locks := connect(t, rlock.Options{URL: network.url(), AnswerTimeout: 100 * time.Millisecond})
	held := acquired(t, locks.Lock(name))
	network.stop(false, true)
	time.AfterFunc(500*time.Millisecond, func() { network.stop(false, false) })
	must(t, held.Release(t.Context()))
}

func TestNobodyAnswers(t *testing.T) {
	network, name := newNetwork(t), name(t)
	locks := connect(t, rlock.Options{URL: network.url(), AnswerTimeout: 50 * time.Millisecond,
		Patience: 200 * time.Millisecond})
	network.stop(true, true)
	_, err := locks.Acquire(t.Context(), name)
	is(t, err, rlock.ErrUnavailable)
	_, err = locks.TryAcquire(t.Context(), name)
	is(t, err, rlock.ErrUnavailable)
	network.stop(false, false)
	must(t, acquired(t, locks.Lock(name), rlock.Wait(patience)).Release(t.Context()))
}

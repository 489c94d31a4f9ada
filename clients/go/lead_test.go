// Leading turn by turn: contexts, panics, and the log. The turns themselves are tested by clients/conformance.

package rlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rlock/rlock/clients/go"
)

func TestTheWorksOwnErrorEndsALead(t *testing.T) {
	rdb, locks, key, failure := server(t), connect(t, rlock.Options{}), name(t), errors.New("no disk")
	fails := func(context.Context, *rlock.Held) error { return failure }
	if err := locks.Lead(t.Context(), key, fails); err != failure {
		t.Fatal(err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = locks.Lead(t.Context(), key, func(context.Context, *rlock.Held) error { panic("a mistake") })
	}()
	untilFree(t, rdb, key)
	is(t, locks.Lead(t.Context(), key, fails, rlock.Wait(time.Second)), rlock.ErrConfiguration)
	held := acquired(t, locks.Lock(key))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	is(t, locks.Lead(ctx, key, fails), context.DeadlineExceeded)
	must(t, held.Release(t.Context()))
}

func TestALeadOutlivesALossAndAnOutage(t *testing.T) {
	rdb, key, log := server(t), name(t), &logged{}
	locks := connect(t, rlock.Options{Lease: 300 * time.Millisecond, Patience: 100 * time.Millisecond,
		AnswerTimeout: 100 * time.Millisecond, Logger: log.logger()})
	ctx, cancel := context.WithCancel(t.Context())
	turns, over, failure := make(chan *rlock.Held), make(chan error, 1), errors.New("half done")
	go func() {
		defer close(turns)
		over <- locks.Lead(ctx, key, func(ctx context.Context, held *rlock.Held) error {
			turns <- held
			<-ctx.Done()
			return failure
		})
	}()
	<-turns
	must(t, rdb.Do(t.Context(), "RLOCK.BREAK", key).Err())
	lost := <-turns
	resume := paused(t, rdb)
	<-lost.Context().Done()
	until(t, "the log has the outage", func() bool { return strings.Contains(log.String(), "waits to lead") })
	resume()
	<-turns
	cancel()
	is(t, <-over, failure) // its lock was still held: it failed to stop
	untilFree(t, rdb, key)
}

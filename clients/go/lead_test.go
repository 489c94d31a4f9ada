// Leading turn by turn.

package rlock_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rlock/rlock/clients/go"
)

type turn struct {
	held *rlock.Held
	end  chan error // what the work returns, unless it is stopped first
}

// leads runs Lead with work that reports each turn and waits.
func leads(ctx context.Context, locks *rlock.Locks, key string, options ...rlock.Option) (turns chan turn, over chan error) {
	turns, over = make(chan turn), make(chan error, 1)
	go func() {
		over <- locks.Lead(ctx, key, func(ctx context.Context, held *rlock.Held) error {
			it := turn{held, make(chan error)}
			turns <- it
			select {
			case <-ctx.Done():
				if held.Lost() {
					return errors.New("the work cannot finish")
				}
				return ctx.Err()
			case err := <-it.end:
				return err
			}
		}, options...)
	}()
	return turns, over
}

func TestTwoLeadInTurns(t *testing.T) {
	key := name(t)
	ctx, cancel := context.WithCancel(t.Context())
	first, firstOver := leads(ctx, connect(t, rlock.Options{}), key, rlock.Fenced())
	now := <-first
	second, secondOver := leads(ctx, connect(t, rlock.Options{}), key, rlock.Fenced())
	rdb := server(t)
	for range 3 {
		untilWaiting(t, rdb, key, 1)
		former := now.held.Token()
		now.end <- nil
		now = <-second
		if now.held.Token() <= former {
			t.Fatal(former, now.held.Token())
		}
		untilWaiting(t, rdb, key, 1)
		now.end <- nil
		now = <-first
	}
	untilWaiting(t, rdb, key, 1)
	cancel()
	is(t, <-firstOver, context.Canceled)
	is(t, <-secondOver, context.Canceled)
	untilFree(t, rdb, key)
}

func TestTheWorksOwnErrorEndsALead(t *testing.T) {
	rdb, locks, key, failure := server(t), connect(t, rlock.Options{}), name(t), errors.New("no disk")
	turns, over := leads(t.Context(), locks, key)
	(<-turns).end <- failure
	if err := <-over; err != failure {
		t.Fatal(err)
	}
	untilFree(t, rdb, key)
	func() {
		defer func() { _ = recover() }()
		_ = locks.Lead(t.Context(), key, func(context.Context, *rlock.Held) error { panic("a mistake") })
	}()
	untilFree(t, rdb, key)
	ctx, cancel := context.WithCancel(t.Context())
	err := locks.Lead(ctx, key, func(ctx context.Context, _ *rlock.Held) error {
		cancel()
		<-ctx.Done()
		return failure // it failed to stop
	})
	is(t, err, failure)
}

func TestALeadOutlivesLossesAndOutages(t *testing.T) {
	rdb, key := server(t), name(t)
	var mutex sync.Mutex
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(locked{&mutex, &log}, nil))
	locks := connect(t, rlock.Options{Lease: 300 * time.Millisecond, Patience: 100 * time.Millisecond,
		AnswerTimeout: 100 * time.Millisecond, Logger: logger})
	ctx, cancel := context.WithCancel(t.Context())
	turns, over := leads(ctx, locks, key)
	lost := <-turns
	must(t, rdb.Do(t.Context(), "RLOCK.BREAK", key).Err())
	lost = <-turns
	resume := paused(t, rdb)
	<-lost.held.Context().Done()
	until(t, "the log has the outage", func() bool {
		mutex.Lock()
		defer mutex.Unlock()
		return strings.Contains(log.String(), "waits to lead")
	})
	resume()
	(<-turns).end <- nil
	<-turns
	cancel()
	is(t, <-over, context.Canceled)
	untilFree(t, rdb, key)
}

func TestErrorsThatStayEndALead(t *testing.T) {
	rdb, locks, key := server(t), connect(t, rlock.Options{}), name(t)
	work := func(context.Context, *rlock.Held) error { return errors.New("it ran") }
	is(t, locks.Lead(t.Context(), key, work, rlock.Wait(time.Second)), rlock.ErrConfiguration)
	is(t, locks.Lead(t.Context(), "", work), rlock.ErrConfiguration)
	permit := acquired(t, locks.Permit(key, 2))
	is(t, locks.Lead(t.Context(), key, work), rlock.ErrWrongKind)
	must(t, permit.Release(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	held := acquired(t, locks.Lock(key))
	is(t, locks.Lead(ctx, key, work), context.DeadlineExceeded)
	turns, over := leads(t.Context(), locks, key)
	must(t, held.Release(t.Context()))
	<-turns
	must(t, locks.Close(t.Context()))
	is(t, <-over, rlock.ErrClosed)
	untilFree(t, rdb, key)
}

// What a release reports, and what Do makes of it.

package rlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rlock/rlock/clients/go"
)

type releasing func(held *rlock.Held) error

// A release ends the context of what it releases, and still waits for the server under that context.
var underItsOwnContext = map[string]releasing{
	"its context": func(held *rlock.Held) error { return held.Release(held.Context()) },
	"a context derived from it": func(held *rlock.Held) error {
		ctx, cancel := context.WithTimeout(held.Context(), patience)
		defer cancel()
		return held.Release(ctx)
	},
	"its context, twice at once": func(held *rlock.Held) error {
		other := make(chan error)
		go func() { other <- held.Release(held.Context()) }()
		return errors.Join(held.Release(held.Context()), <-other)
	},
}

func TestAReleaseUnderItsOwnContextReportsWhatHappened(t *testing.T) {
	rdb, locks := server(t), connect(t, rlock.Options{})
	for what, release := range underItsOwnContext {
		t.Run(what, func(t *testing.T) {
			must(t, release(acquired(t, locks.Lock(name(t)))))
			must(t, release(acquired(t, locks.Lock(name(t)), rlock.Owner("ann"))))
			must(t, locks.Do(t.Context(), name(t), func(_ context.Context, held *rlock.Held) error { return release(held) }))
			key := name(t)
			held := acquired(t, locks.Lock(key))
			must(t, rdb.Del(t.Context(), key).Err())
			var lost *rlock.Error
			if err := release(held); !errors.As(err, &lost) || lost.Reason != rlock.NotHeld {
				t.Fatalf("got %v, want a loss by the server's word", err)
			}
		})
	}
}

func TestTheContextOfTheCallerStillLimitsARelease(t *testing.T) {
	rdb, locks := server(t), connect(t, rlock.Options{})
	limited := func(ctx context.Context, held *rlock.Held) error {
		defer paused(t, rdb)()
		ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		return held.Release(ctx)
	}
	for _, under := range []func(held *rlock.Held) context.Context{
		func(*rlock.Held) context.Context { return t.Context() }, (*rlock.Held).Context,
	} {
		held := acquired(t, locks.Lock(name(t)))
		is(t, limited(under(held), held), rlock.ErrUnavailable)
		must(t, held.Release(t.Context())) // the release went on meanwhile
	}
	caller, cancel := context.WithCancel(t.Context())
	err := locks.Do(caller, name(t), func(ctx context.Context, held *rlock.Held) error {
		defer paused(t, rdb)()
		time.AfterFunc(50*time.Millisecond, cancel)
		return held.Release(ctx)
	})
	is(t, err, rlock.ErrUnavailable)
}

func TestAReleaseThatIsAnsweredLateIsOne(t *testing.T) {
	locks := connect(t, rlock.Options{AnswerTimeout: 100 * time.Millisecond})
	held := acquired(t, locks.Lock(name(t)))
	resume, resumed := paused(t, server(t)), make(chan struct{})
	time.AfterFunc(500*time.Millisecond, func() {
		resume()
		close(resumed)
	})
	must(t, held.Release(t.Context()))
	<-resumed
}

func TestWorkSucceedsWithoutAReplyToItsReleaseAndThatIsLogged(t *testing.T) {
	rdb, key, log := server(t), name(t), &logged{}
	locks := connect(t, rlock.Options{AnswerTimeout: time.Second, Patience: time.Second, Logger: log.logger()})
	resume := func() {}
	must(t, locks.Do(t.Context(), key, func(context.Context, *rlock.Held) error {
		resume = paused(t, rdb)
		return nil
	}))
	resume()
	if !strings.Contains(log.String(), `level=WARN msg="rlock: release in doubt" lock=`+key) {
		t.Fatal(log.String())
	}
}

// What a release reports, and what Do makes of it.

package rlock_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
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
			isLostBy(t, release(held), rlock.NotHeld)
		})
	}
}

func TestTheContextOfTheCallerStillLimitsARelease(t *testing.T) {
	network := newNetwork(t)
	locks := connect(t, rlock.Options{URL: network.url()})
	limited := func(ctx context.Context, held *rlock.Held) error {
		network.stop(false, true)
		defer network.stop(false, false)
		ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		return held.Release(ctx)
	}
	for _, under := range []func(held *rlock.Held) context.Context{
		func(*rlock.Held) context.Context { return t.Context() }, (*rlock.Held).Context,
	} {
		held := acquired(t, locks.Lock(name(t)))
		is(t, limited(under(held), held), rlock.ErrUnavailable)
		must(t, held.Release(t.Context())) // it went on meanwhile
	}
	caller, cancel := context.WithCancel(t.Context())
	err := locks.Do(caller, name(t), func(ctx context.Context, held *rlock.Held) error {
		network.stop(false, true)
		defer network.stop(false, false)
		time.AfterFunc(50*time.Millisecond, cancel)
		return held.Release(ctx)
	})
	is(t, err, rlock.ErrUnavailable)
}

func TestWorkWhoseReleaseGetsNoReplySucceedsAndIsLogged(t *testing.T) {
	rdb, network, key := server(t), newNetwork(t), name(t)
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil)) // Do has logged when it returns
	locks := connect(t, rlock.Options{URL: network.url(), Logger: logger})
	must(t, locks.Do(t.Context(), key, func(ctx context.Context, held *rlock.Held) error {
		network.stop(false, true)
		go func() {
			until(t, "the server has released it", func() bool { return rdb.Exists(context.Background(), key).Val() == 0 })
			network.breaks()
			network.stop(false, false)
		}()
		return nil
	}))
	if !strings.Contains(log.String(), `level=WARN msg="rlock: release in doubt" lock=`+key) {
		t.Fatal(log.String())
	}
}

func TestALossSaysWhy(t *testing.T) {
	rdb, network := server(t), newNetwork(t)
	locks := connect(t, rlock.Options{URL: network.url(), Lease: time.Second})
	for _, row := range []struct {
		reason rlock.LossReason
		lose   func(key string) error
		text   string
	}{
		{rlock.NotHeld, func(key string) error { return rdb.Do(t.Context(), "RLOCK.BREAK", key).Err() },
			": lost: the server says that it is not held: it was broken, deleted or forgotten"},
		{rlock.Overwritten, func(key string) error { return rdb.Set(t.Context(), key, "x", time.Minute).Err() },
			": lost: its name now stores something else (WRONGTYPE "},
		{rlock.NotRenewed, func(string) error { network.stop(true, true); return nil },
			": lost: the lease could not be renewed: no answer in time"},
	} {
		t.Run(string(row.reason), func(t *testing.T) {
			defer network.stop(false, false)
			key := name(t)
			held := acquired(t, locks.Lock(key))
			must(t, row.lose(key))
			ends(t, held.Context())
			isLostBy(t, context.Cause(held.Context()), row.reason)
			if text := held.Err().Error(); !strings.HasPrefix(text, "rlock: "+key+row.text) {
				t.Error(text)
			}
			network.stop(false, false)
			isLostBy(t, held.Release(t.Context()), row.reason)
		})
	}
}

// What a hand-over promises beyond clients/conformance: contexts, options, and the texts that only this client could misread.

package rlock_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rlock/rlock/clients/go"
)

func TestADetachedLockIsOverHere(t *testing.T) {
	rdb, locks, key := server(t), connect(t, rlock.Options{}), name(t)
	var text string
	must(t, locks.Do(t.Context(), key, func(ctx context.Context, held *rlock.Held) (err error) {
		text, err = held.Detach(ctx, rlock.Lease(5*time.Second))
		must(t, err)
		if ctx.Err() == nil || held.Lost() || held.Remaining() != 0 {
			t.Error("it is not over here: ", ctx.Err(), held.Err(), held.Remaining())
		}
		must(t, held.Release(ctx))
		_, err = held.Detach(t.Context())
		is(t, err, rlock.ErrConfiguration)
		return nil
	}))
	held, err := locks.Adopt(t.Context(), text)
	must(t, err)
	must(t, held.Release(t.Context()))
	untilFree(t, rdb, key)
}

func TestADetachThatIsRefusedLeavesTheLockHeld(t *testing.T) {
	rdb, key := server(t), name(t)
	must(t, rdb.Do(t.Context(), "ACL", "SETUSER", "detacher", "on", ">secret", "~*", "&*", "+@all", "-rlock.renew").Err())
	defer rdb.Do(context.Background(), "ACL", "DELUSER", "detacher")
	url := strings.Replace(address(t, "RLOCK_URL"), "redis://", "redis://detacher:secret@", 1)
	held := acquired(t, connect(t, rlock.Options{URL: url}).Lock(key))
	_, err := held.Detach(t.Context(), rlock.Lease(time.Minute))
	is(t, err, rlock.ErrNoRight)
	for _, wrong := range []rlock.Option{rlock.Lease(0), rlock.FixedLease(time.Second), rlock.Wait(time.Second)} {
		_, err := held.Detach(t.Context(), wrong)
		is(t, err, rlock.ErrConfiguration)
	}
	must(t, held.Err())
	must(t, held.Release(t.Context()))
	lock := connect(t, rlock.Options{}).Lock(key)
	twice := []*rlock.Held{acquired(t, lock, rlock.Owner("ann")), acquired(t, lock, rlock.Owner("ann"))}
	for _, held := range twice {
		_, err := held.Detach(t.Context())
		is(t, err, rlock.ErrConfiguration)
	}
	for _, held := range twice {
		must(t, held.Release(t.Context()))
	}
}

func TestTheRenewalOfADetachIsRepeatedIfItsReplyIsLost(t *testing.T) {
	url, left := proxy(t, "RLOCK.RENEW", 2)
	text, err := acquired(t, connect(t, rlock.Options{URL: url}).Lock(name(t))).Detach(t.Context())
	must(t, err)
	if left.Load() >= 0 {
		t.Fatal("no reply was lost")
	}
	url, _ = proxy(t, "RLOCK.RENEW", 2)
	held, err := connect(t, rlock.Options{URL: url}).Adopt(t.Context(), text)
	must(t, err)
	must(t, held.Release(t.Context()))
}

func TestADetachWithoutAReplyLeavesTheLockHeld(t *testing.T) {
	rdb, locks, key := server(t), connect(t, rlock.Options{Lease: 2 * time.Second}), name(t)
	held := acquired(t, locks.Lock(key))
	resume := paused(t, rdb)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := held.Detach(ctx, rlock.Lease(time.Second))
	is(t, err, rlock.ErrUnavailable)
	is(t, err, context.DeadlineExceeded)
	resume()
	began := time.Now()
	until(t, "the first lease is over", func() bool { return time.Since(began) > 2*time.Second })
	must(t, held.Err())
	if left := held.Remaining(); left > time.Second {
		t.Fatal("the late renewal could still shorten the lease: ", left)
	}
	must(t, held.Release(t.Context()))
}

func TestATextThatNoClientWritesIsAMistake(t *testing.T) {
	locks := connect(t, rlock.Options{})
	for _, text := range []string{"rlock1/plain/030/0/-/h/a", "rlock1/plain/9223372036854775807/0/-/h/a", "rlock1/plain/1000/1/-/h/a",
		"rlock1/plain/1000/0/1,2/h/a", "rlock1/plain/1000/0/-/h/%61", "rlock1/plain/1000/0/-/h/%7b", "rlock1/plain/1000/0/-/h/a+b",
		"rlock1/plain/1000/0/-/" + strings.Repeat("h", 513) + "/a"} {
		_, err := locks.Adopt(t.Context(), text)
		is(t, err, rlock.ErrConfiguration)
	}
}

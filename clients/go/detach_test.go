// Locks that one client detaches and another one adopts.

package rlock_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlock/rlock/clients/go"
)

func TestALockOfEachKindIsAdopted(t *testing.T) {
	from, to := connect(t, rlock.Options{Lease: time.Second}), connect(t, rlock.Options{})
	all := map[string]*rlock.Held{}
	for kind, lock := range map[string]func(name string) *rlock.Lock{
		"plain/1000/0": from.Lock, "read/1000/0": from.Read, "write/1000/0": from.Write,
		"permit/1000/4":  func(name string) *rlock.Lock { return from.Permit(name+" {x}", 4) },
		"several/1000/0": func(name string) *rlock.Lock { return from.All(name+"/1", name+"/2") },
	} {
		for _, options := range [][]rlock.Option{nil, {rlock.Fenced()}} {
			held := acquired(t, lock(name(t)), options...)
			text, err := held.Detach(t.Context())
			must(t, err)
			if !strings.HasPrefix(text, "rlock1/"+kind+"/") || !regexp.MustCompile(`^[!-~]+$`).MatchString(text) {
				t.Fatal(text)
			}
			adopted, err := to.Adopt(t.Context(), text)
			must(t, err)
			if adopted.Holder() != held.Holder() || !slices.Equal(adopted.Tokens(), held.Tokens()) {
				t.Fatal(adopted.Holder(), adopted.Tokens(), text)
			}
			all[text] = adopted
		}
	}
	began := time.Now()
	until(t, "a lease and a half is over", func() bool { return time.Since(began) > 1500*time.Millisecond })
	for text, adopted := range all {
		must(t, adopted.Release(t.Context()))
		if _, err := to.Adopt(t.Context(), text); !isNotHeld(err) {
			t.Fatal(err)
		}
	}
}

func TestADetachThatIsRefusedLeavesTheLockHeld(t *testing.T) {
	rdb, key := server(t), name(t)
	must(t, rdb.Do(t.Context(), "ACL", "SETUSER", "detacher", "on", ">secret", "~*", "&*", "+@all", "-rlock.renew").Err())
	defer rdb.Do(context.Background(), "ACL", "DELUSER", "detacher")
	url := strings.Replace(address(t, "RLOCK_URL"), "redis://", "redis://detacher:secret@", 1)
	held := acquired(t, connect(t, rlock.Options{URL: url}).Lock(key))
	_, err := held.Detach(t.Context(), rlock.Lease(time.Minute))
	is(t, err, rlock.ErrNoRight)
	must(t, held.Err())
	must(t, held.Release(t.Context()))
}

func isNotHeld(err error) bool {
	var lost *rlock.Error
	return errors.As(err, &lost) && lost.Kind == rlock.ErrLost && lost.Reason == rlock.NotHeld
}

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
	if left := rdb.PTTL(t.Context(), key).Val(); left <= 0 || left > 5*time.Second {
		t.Fatal(left)
	}
	held, err := locks.Adopt(t.Context(), text)
	must(t, err)
	must(t, held.Release(t.Context()))
	untilFree(t, rdb, key)
}

func TestADetachedLockEndsWithItsLease(t *testing.T) {
	rdb, locks, key := server(t), connect(t, rlock.Options{}), name(t)
	text, err := acquired(t, locks.Lock(key)).Detach(t.Context(), rlock.Lease(100*time.Millisecond))
	must(t, err)
	untilFree(t, rdb, key)
	if _, err := locks.Adopt(t.Context(), text); !isNotHeld(err) {
		t.Fatal(err)
	}
}

func TestOfTwoAdoptersOneLosesWhatTheOtherReleases(t *testing.T) {
	locks := connect(t, rlock.Options{Lease: 300 * time.Millisecond})
	text, err := acquired(t, locks.Lock(name(t))).Detach(t.Context())
	must(t, err)
	first, err := locks.Adopt(t.Context(), text)
	must(t, err)
	second, err := locks.Adopt(t.Context(), text)
	must(t, err)
	must(t, first.Release(t.Context()))
	<-second.Context().Done()
	if !isNotHeld(second.Err()) {
		t.Fatal(second.Err())
	}
}

func TestTheRenewalOfADetachIsRepeatedIfItsReplyIsLost(t *testing.T) {
	url, left := proxy(t, "RLOCK.RENEW", 2)
	locks, key := connect(t, rlock.Options{URL: url}), name(t)
	text, err := acquired(t, locks.Lock(key)).Detach(t.Context())
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
	if left := held.Remaining(); held.Lost() || left > time.Second {
		t.Fatal("the server may have shortened the lease: ", left, held.Err())
	}
	resume()
	began := time.Now()
	until(t, "the first lease is over", func() bool { return time.Since(began) > 2*time.Second })
	must(t, held.Err())
	if left := held.Remaining(); left > time.Second {
		t.Fatal("the late renewal could still shorten the lease: ", left)
	}
	text, err := held.Detach(t.Context())
	must(t, err)
	again, err := locks.Adopt(t.Context(), text)
	must(t, err)
	must(t, again.Release(t.Context()))
}

func TestAnAdoptionWithoutAReplyCanBeRepeated(t *testing.T) {
	rdb, locks := server(t), connect(t, rlock.Options{})
	text, err := acquired(t, locks.Lock(name(t))).Detach(t.Context())
	must(t, err)
	resume := paused(t, rdb)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = locks.Adopt(ctx, text)
	resume()
	is(t, err, rlock.ErrUnavailable)
	held, err := locks.Adopt(t.Context(), text)
	must(t, err)
	must(t, held.Release(t.Context()))
}

func TestALostLockCannotBeDetached(t *testing.T) {
	rdb, locks, key := server(t), connect(t, rlock.Options{}), name(t)
	held := acquired(t, locks.Lock(key))
	must(t, rdb.Do(t.Context(), "RLOCK.BREAK", key).Err())
	if _, err := held.Detach(t.Context()); !isNotHeld(err) {
		t.Fatal(err)
	}
	if _, err := held.Detach(t.Context()); !isNotHeld(err) {
		t.Fatal(err)
	}
	is(t, held.Release(t.Context()), rlock.ErrLost)
}

func TestWhatCannotBeDetached(t *testing.T) {
	locks, key := connect(t, rlock.Options{}), name(t)
	held := acquired(t, locks.Lock(key), rlock.Owner("ann"))
	other := acquired(t, locks.Lock(key), rlock.Owner("ann"))
	_, err := held.Detach(t.Context())
	is(t, err, rlock.ErrConfiguration)
	must(t, other.Release(t.Context()))
	for _, wrong := range []rlock.Option{rlock.Lease(0), rlock.FixedLease(time.Second), rlock.Wait(time.Second)} {
		_, err := held.Detach(t.Context(), wrong)
		is(t, err, rlock.ErrConfiguration)
	}
	text, err := held.Detach(t.Context())
	must(t, err)
	held, err = locks.Adopt(t.Context(), text)
	must(t, err)
	must(t, held.Release(t.Context()))
	fixed := acquired(t, locks.Lock(key), rlock.FixedLease(time.Minute))
	_, err = fixed.Detach(t.Context())
	is(t, err, rlock.ErrConfiguration)
	must(t, fixed.Release(t.Context()))
}

func TestAMalformedTextIsAMistake(t *testing.T) {
	locks := connect(t, rlock.Options{})
	for _, text := range []string{"", "rlock1", "rlock1/plain/30000/0/-/h", "rlock2/plain/30000/0/-/h/a", "rlock1/lock/30000/0/-/h/a",
		"rlock1/plain/0/0/-/h/a", "rlock1/plain/030/0/-/h/a", "rlock1/plain/9223372036854775807/0/-/h/a", "rlock1/plain/30000/1/-/h/a",
		"rlock1/permit/30000/0/-/h/a", "rlock1/permit/30000/100001/-/h/a", "rlock1/plain/30000/0//h/a",
		"rlock1/plain/30000/0/1,2/h/a",
		"rlock1/plain/30000/0/x/h/a", "rlock1/plain/30000/0/-//a", "rlock1/plain/30000/0/-/h/", "rlock1/plain/30000/0/-/h/a/b",
		"rlock1/several/30000/0/-/h/a/a", "rlock1/several/30000/0/1/h/a/b", "rlock1/plain/30000/0/-/h/a b", "rlock1/plain/30000/0/-/h/%61",
		"rlock1/plain/30000/0/-/h/%7b", "rlock1/plain/30000/0/-/h/%7", "rlock1/plain/30000/0/-/h/a\n",
		"rlock1/plain/30000/0/-/" + strings.Repeat("h", 513) + "/a", "rlock1/several/30000/0/-/h" + strings.Repeat("/a", 65)} {
		_, err := locks.Adopt(t.Context(), text)
		is(t, err, rlock.ErrConfiguration)
	}
	for _, text := range []string{"rlock1/plain/30000/0/-/3f2a:7/orders:42", "rlock1/permit/30000/4/17/h/gpu",
		"rlock1/several/10000/0/5,9/h/a%20b/%7Bx%7Dc"} {
		if _, err := locks.Adopt(t.Context(), text); !isNotHeld(err) {
			t.Fatal(err)
		}
	}
}

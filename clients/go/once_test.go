// Work that is done once: goroutines, panics, options, and the log. What every client does is tested by clients/conformance.

package rlock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rlock/rlock/clients/go"
)

// asks calls Once in a goroutine. Its work goes to leads, and returns what it gets there.
func asks(t *testing.T, locks *rlock.Locks, key string, leads chan<- chan string) <-chan []byte {
	over := make(chan []byte, 1)
	go func() {
		value, err := locks.Once(t.Context(), key, time.Minute, func(context.Context, *rlock.Held) ([]byte, error) {
			end := make(chan string)
			leads <- end
			return []byte(<-end), nil
		})
		if err != nil {
			t.Error(err)
		}
		over <- value
	}()
	return over
}

// untilSharing waits until so many callers wait for the flight of another one.
func untilSharing(t *testing.T, count int) {
	t.Helper()
	until(t, fmt.Sprint(count, " share a flight"), func() bool {
		stacks := make([]byte, 4<<20)
		return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), ".share(") == count
	})
}

func TestEachCallerHasItsOwnBytes(t *testing.T) {
	locks, key, leads := connect(t, rlock.Options{}), name(t), make(chan chan string)
	var callers []<-chan []byte
	for range 20 {
		callers = append(callers, asks(t, locks, key, leads))
	}
	lead := <-leads
	untilSharing(t, 19)
	lead <- "42"
	for _, caller := range callers {
		value := <-caller
		if string(value) != "42" {
			t.Fatal(string(value))
		}
		value[0] = 'x'
	}
}

func TestAnyBytesAreAnAnswer(t *testing.T) {
	locks := connect(t, rlock.Options{})
	for _, value := range []string{"", "WAITING", "-ERR no\r\n", "\x00\xff"} {
		key := name(t)
		for range 2 {
			got, err := locks.Once(t.Context(), key, time.Minute,
				func(context.Context, *rlock.Held) ([]byte, error) { return []byte(value), nil })
			if err != nil || string(got) != value {
				t.Fatal(got, err)
			}
		}
	}
}

func TestWorkThatPanicsIsDoneByTheNextCaller(t *testing.T) {
	rdb, locks, key, leads := server(t), connect(t, rlock.Options{}), name(t), make(chan chan string)
	panics, panicked := make(chan struct{}), make(chan any, 1)
	go func() {
		defer func() { panicked <- recover() }()
		_, _ = locks.Once(t.Context(), key, time.Minute, func(context.Context, *rlock.Held) ([]byte, error) {
			panics <- struct{}{}
			<-panics
			panic("a mistake")
		})
	}()
	<-panics
	second := asks(t, locks, key, leads)
	untilSharing(t, 1)
	close(panics)
	if why := <-panicked; why != "a mistake" {
		t.Fatal(why)
	}
	(<-leads) <- "42"
	if value := <-second; string(value) != "42" {
		t.Fatal(value)
	}
	untilFree(t, rdb, key)
}

func TestAnAnswerWithoutAReplyIsTheCallersOwn(t *testing.T) {
	rdb, key, log := server(t), name(t), &logged{}
	locks := connect(t, rlock.Options{AnswerTimeout: 500 * time.Millisecond, Patience: 500 * time.Millisecond, Logger: log.logger()})
	resume := func() {}
	value, err := locks.Once(t.Context(), key, time.Minute, func(context.Context, *rlock.Held) ([]byte, error) {
		resume = paused(t, rdb)
		return []byte("42"), nil
	})
	resume()
	if err != nil || string(value) != "42" || !strings.Contains(log.String(), `level=WARN msg="rlock: answer in doubt" lock=`+key) {
		t.Fatal(value, err, log)
	}
	untilFree(t, rdb, key) // the release goes on in the background
}

func TestTheCallersOfOneClientShareAnOutage(t *testing.T) {
	rdb, key, over := server(t), name(t), make(chan error)
	locks := connect(t, rlock.Options{Patience: 2 * time.Second, AnswerTimeout: 500 * time.Millisecond})
	ask := func() {
		_, err := locks.Once(t.Context(), key, time.Minute, func(context.Context, *rlock.Held) ([]byte, error) { return nil, nil })
		over <- err
	}
	resume := paused(t, rdb)
	go ask()
	until(t, "the owner asks", func() bool { return strings.Contains(rdb.ClientList(t.Context()).Val(), "cmd=rlock.once") })
	go ask()
	go ask()
	untilSharing(t, 2)
	is(t, <-over, rlock.ErrUnavailable)
	began := time.Now()
	is(t, <-over, rlock.ErrUnavailable)
	is(t, <-over, rlock.ErrUnavailable)
	if time.Since(began) > time.Second {
		t.Fatal("they asked the server themselves")
	}
	resume()
	untilFree(t, rdb, key)
}

func TestMistakesAreRefused(t *testing.T) {
	rdb, locks, key := server(t), connect(t, rlock.Options{}), name(t)
	work := func(context.Context, *rlock.Held) ([]byte, error) { return nil, errors.New("it ran") }
	_, err := locks.Once(t.Context(), key, time.Millisecond-1, work)
	is(t, err, rlock.ErrConfiguration)
	for _, option := range []rlock.Option{rlock.Fenced(), rlock.Owner("ann"), rlock.FixedLease(time.Second), rlock.Replicas(1, time.Second)} {
		_, err := locks.Once(t.Context(), key, time.Minute, work, option)
		is(t, err, rlock.ErrConfiguration)
	}
	is(t, locks.Forget(t.Context(), ""), rlock.ErrConfiguration)
	_, err = locks.Once(t.Context(), key, time.Minute, func(ctx context.Context, held *rlock.Held) ([]byte, error) {
		return []byte("42"), held.Release(ctx)
	})
	is(t, err, rlock.ErrConfiguration)
	if rdb.Exists(t.Context(), "rlock_answer:{"+key+"}").Val() != 0 {
		t.Fatal("it is stored")
	}
}

func TestAServerWithoutOnce(t *testing.T) {
	for unknown, want := range map[string]error{"RLOCK.ONCE": rlock.ErrOldModule, "RLOCK.": rlock.ErrNoModule} {
		url := relay(t, func(request []byte) ([]byte, bool) {
			return bytes.ReplaceAll(request, []byte(unknown), []byte("X"+unknown[1:])), false
		})
		locks := connect(t, rlock.Options{URL: url})
		_, err := locks.Once(t.Context(), name(t), time.Minute,
			func(context.Context, *rlock.Held) ([]byte, error) { return nil, nil })
		is(t, err, want)
	}
}

func TestAnAnswerAsJSON(t *testing.T) {
	type rates struct {
		Base string
		Rate map[string]float64
	}
	locks, key, made := connect(t, rlock.Options{}), name(t), 0
	for range 2 {
		value, err := rlock.OnceJSON(t.Context(), locks, key, time.Minute, func(context.Context, *rlock.Held) (rates, error) {
			made++
			return rates{"EUR", map[string]float64{"USD": 1.25}}, nil
		})
		must(t, err)
		if value.Base != "EUR" || value.Rate["USD"] != 1.25 || made != 1 {
			t.Fatal(value, made)
		}
	}
	_, err := rlock.OnceJSON(t.Context(), locks, key, time.Minute, func(context.Context, *rlock.Held) (int, error) { return 0, nil })
	is(t, err, rlock.ErrConfiguration)
	_, err = rlock.OnceJSON(t.Context(), locks, name(t), time.Minute, func(context.Context, *rlock.Held) (any, error) {
		return make(chan int), nil
	})
	if err == nil {
		t.Fatal("a channel was stored")
	}
}

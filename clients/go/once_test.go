// Work that is done once: its leader, those who get the answer, and what goes wrong in between.

package rlock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlock/rlock/clients/go"
)

type outcome struct {
	value string
	err   error
}

// asks calls Once in a goroutine. Its work adds one to leads and waits for what it is to return, or for its context.
func asks(ctx context.Context, locks *rlock.Locks, key string, leads chan<- chan outcome, options ...rlock.Option) <-chan outcome {
	over := make(chan outcome, 1)
	go func() {
		value, err := locks.Once(ctx, key, time.Minute, func(ctx context.Context, _ *rlock.Held) ([]byte, error) {
			end := make(chan outcome)
			leads <- end
			select {
			case it := <-end:
				return []byte(it.value), it.err
			case <-ctx.Done():
				return []byte("too late"), nil // whatever the work says, it was stopped
			}
		}, options...)
		over <- outcome{string(value), err}
	}()
	return over
}

func (it outcome) is(t *testing.T, value string) {
	t.Helper()
	if it.err != nil || it.value != value {
		t.Fatal(it)
	}
}

// untilSharing waits until so many callers wait for the flight of another one.
func untilSharing(t *testing.T, count int) {
	t.Helper()
	until(t, fmt.Sprint(count, " share a flight"), func() bool {
		stacks := make([]byte, 4<<20)
		return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), ".share(") == count
	})
}

func stored(t *testing.T, rdb *redis.Client, key string) bool {
	t.Helper()
	count, err := rdb.Exists(context.Background(), "rlock_answer:{"+key+"}").Result()
	must(t, err)
	return count == 1
}

// calls is how often the server under test was sent a command.
func calls(t *testing.T, rdb *redis.Client, command string) (count int) {
	t.Helper()
	info := strings.ToLower(rdb.Info(t.Context(), "commandstats").Val())
	if _, after, isThere := strings.Cut(info, "cmdstat_"+command+":calls="); isThere {
		_, err := fmt.Sscan(strings.SplitN(after, ",", 2)[0], &count)
		must(t, err)
	}
	return count
}

func TestOneLeadsAndAllGetItsAnswer(t *testing.T) {
	rdb, key, leads := server(t), name(t), make(chan chan outcome)
	leader := asks(t.Context(), connect(t, rlock.Options{}), key, leads)
	lead := <-leads
	var last atomic.Value
	url := relay(t, func(request []byte) ([]byte, bool) {
		if bytes.Contains(request, []byte("RLOCK.ONCE")) {
			last.Store(string(request))
		}
		return request, false
	})
	waiter := asks(t.Context(), connect(t, rlock.Options{URL: url}), key, leads)
	untilWaiting(t, rdb, key, 1)
	lead <- outcome{value: "42"}
	(<-leader).is(t, "42")
	(<-waiter).is(t, "42")
	if request := last.Load().(string); strings.Contains(request, "WAIT") {
		t.Fatal("an answer that is there needs no wait: ", request)
	}
	untilFree(t, rdb, key)
	(<-asks(t.Context(), connect(t, rlock.Options{}), key, leads)).is(t, "42")
	if left := rdb.PTTL(t.Context(), "rlock_answer:{"+key+"}").Val(); left <= 0 || left > time.Minute {
		t.Fatal(left)
	}
}

func TestTheCallersOfOneClientShareARequest(t *testing.T) {
	rdb, locks, key, leads := server(t), connect(t, rlock.Options{}), name(t), make(chan chan outcome)
	before := calls(t, rdb, "rlock.once")
	var mutex sync.Mutex
	var values [][]byte
	var all sync.WaitGroup
	for range 100 {
		all.Add(1)
		go func() {
			defer all.Done()
			value, err := locks.Once(t.Context(), key, time.Minute, func(context.Context, *rlock.Held) ([]byte, error) {
				end := make(chan outcome)
				leads <- end
				return []byte((<-end).value), nil
			})
			mutex.Lock()
			defer mutex.Unlock()
			if values = append(values, value); err != nil {
				t.Error(err)
			}
		}()
	}
	lead := <-leads
	untilSharing(t, 99)
	lead <- outcome{value: "42"}
	all.Wait()
	for _, value := range values {
		if string(value) != "42" {
			t.Fatal(string(value))
		}
		value[0] = 'x' // each caller has its own
	}
	if sent := calls(t, rdb, "rlock.once") - before; sent != 1 {
		t.Fatal(sent, " requests")
	}
}

func TestAnyBytesAreAnAnswer(t *testing.T) {
	locks := connect(t, rlock.Options{})
	for _, value := range []string{"", "WAITING", "-ERR no\r\n", "\x00\xff", strings.Repeat("x", 60_000)} {
		key := name(t)
		for range 2 {
			got, err := locks.Once(t.Context(), key, time.Minute,
				func(context.Context, *rlock.Held) ([]byte, error) { return []byte(value), nil })
			outcome{string(got), err}.is(t, value)
		}
	}
}

func TestWorkThatFailsIsDoneByTheNextCaller(t *testing.T) {
	rdb, locks, key, leads, failure := server(t), connect(t, rlock.Options{}), name(t), make(chan chan outcome), errors.New("no stock")
	first := asks(t.Context(), locks, key, leads)
	lead := <-leads
	second := asks(t.Context(), locks, key, leads)
	untilSharing(t, 1)
	lead <- outcome{err: failure}
	if it := <-first; it.err != failure {
		t.Fatal(it)
	}
	lead = <-leads
	third := asks(t.Context(), connect(t, rlock.Options{}), key, leads)
	untilWaiting(t, rdb, key, 1)
	lead <- outcome{err: failure}
	if it := <-second; it.err != failure || stored(t, rdb, key) {
		t.Fatal(it)
	}
	(<-leads) <- outcome{value: "42"}
	(<-third).is(t, "42")
}

func TestWorkThatPanicsIsDoneByTheNextCaller(t *testing.T) {
	rdb, locks, key, leads := server(t), connect(t, rlock.Options{}), name(t), make(chan chan outcome)
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
	second := asks(t.Context(), locks, key, leads)
	untilSharing(t, 1)
	close(panics)
	if why := <-panicked; why != "a mistake" || stored(t, rdb, key) {
		t.Fatal(why)
	}
	(<-leads) <- outcome{value: "42"}
	(<-second).is(t, "42")
}

func TestALeaderThatIsBrokenStoresNothing(t *testing.T) {
	rdb, key, leads := server(t), name(t), make(chan chan outcome)
	locks := connect(t, rlock.Options{})
	first := asks(t.Context(), locks, key, leads, rlock.Lease(300*time.Millisecond))
	<-leads // until a renewal notices
	second := asks(t.Context(), locks, key, leads)
	untilSharing(t, 1)
	must(t, rdb.Do(t.Context(), "RLOCK.BREAK", key).Err())
	if it := <-first; !isNotHeld(it.err) || it.value != "" {
		t.Fatal(it)
	}
	lead := <-leads
	if stored(t, rdb, key) {
		t.Fatal("it is stored")
	}
	must(t, rdb.Do(t.Context(), "RLOCK.BREAK", key).Err())
	lead <- outcome{value: "42"} // the server notices
	if it := <-second; !isNotHeld(it.err) || stored(t, rdb, key) {
		t.Fatal(it)
	}
}

func TestALeaderWhoseLeaseEndsInTheWorkStoresNothing(t *testing.T) {
	rdb, key, leads := server(t), name(t), make(chan chan outcome)
	locks := connect(t, rlock.Options{})
	first := asks(t.Context(), locks, key, leads, rlock.Lease(300*time.Millisecond))
	<-leads
	resume := paused(t, rdb)
	it := <-first // without waiting for a server that does not answer
	resume()
	var lost *rlock.Error
	if !errors.As(it.err, &lost) || lost.Kind != rlock.ErrLost || lost.Reason != rlock.NotRenewed || it.value != "" {
		t.Fatal(it)
	}
	untilFree(t, rdb, key)
	if stored(t, rdb, key) {
		t.Fatal("it is stored")
	}
}

func TestACallerThatIsCancelledWhileItWaitsLeavesNothing(t *testing.T) {
	rdb, locks, key, leads := server(t), connect(t, rlock.Options{}), name(t), make(chan chan outcome)
	leader := asks(t.Context(), connect(t, rlock.Options{}), key, leads)
	lead := <-leads
	ctx, cancel := context.WithCancel(t.Context())
	owner := asks(ctx, locks, key, leads)
	untilWaiting(t, rdb, key, 1)
	sharing, cancelSharing := context.WithCancel(t.Context())
	sharer := asks(sharing, locks, key, leads)
	other := asks(t.Context(), locks, key, leads)
	limited := asks(t.Context(), locks, key, leads, rlock.Wait(20*time.Millisecond))
	is(t, (<-limited).err, rlock.ErrBusy)
	untilSharing(t, 2)
	cancelSharing()
	is(t, (<-sharer).err, context.Canceled)
	cancel()
	is(t, (<-owner).err, context.Canceled)
	untilSharing(t, 0)
	untilWaiting(t, rdb, key, 1) // the other one, instead of the owner
	lead <- outcome{value: "42"}
	(<-leader).is(t, "42")
	(<-other).is(t, "42")
	untilFree(t, rdb, key)
}

func TestALeaderThatIsCancelledReleases(t *testing.T) {
	rdb, key, leads := server(t), name(t), make(chan chan outcome)
	locks := connect(t, rlock.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error)
	begun := make(chan struct{})
	go func() {
		_, err := locks.Once(ctx, key, time.Minute, func(ctx context.Context, _ *rlock.Held) ([]byte, error) {
			close(begun)
			<-ctx.Done()
			return nil, ctx.Err()
		})
		over <- err
	}()
	<-begun
	local := asks(t.Context(), locks, key, leads)
	untilSharing(t, 1)
	cancel()
	is(t, <-over, context.Canceled)
	(<-leads) <- outcome{value: "42"}
	(<-local).is(t, "42")
	untilFree(t, rdb, key)
}

func TestAnAnswerWhoseReplyIsLostIsInDoubt(t *testing.T) {
	rdb, key, leads := server(t), name(t), make(chan chan outcome)
	url, _ := proxy(t, "RLOCK.ANSWER", 1)
	var mutex sync.Mutex
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(locked{&mutex, &log}, nil))
	locks := connect(t, rlock.Options{URL: url, Logger: logger})
	first := asks(t.Context(), locks, key, leads)
	lead := <-leads
	second := asks(t.Context(), locks, key, leads)
	untilSharing(t, 1)
	before := calls(t, rdb, "rlock.once")
	lead <- outcome{value: "42"}
	(<-first).is(t, "42")
	(<-second).is(t, "42")
	if calls(t, rdb, "rlock.once") == before {
		t.Fatal("the second caller has not asked the server")
	}
	mutex.Lock()
	defer mutex.Unlock()
	if !strings.Contains(log.String(), `level=WARN msg="rlock: answer in doubt" lock=`+key) {
		t.Fatal(log.String())
	}
}

func TestAnAnswerWithoutAReplyIsTheCallersOwn(t *testing.T) {
	rdb, key := server(t), name(t)
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil)) // Once has logged when it returns
	locks := connect(t, rlock.Options{AnswerTimeout: 500 * time.Millisecond, Patience: 500 * time.Millisecond, Logger: logger})
	resume := func() {}
	value, err := locks.Once(t.Context(), key, time.Minute, func(context.Context, *rlock.Held) ([]byte, error) {
		resume = paused(t, rdb)
		return []byte("42"), nil
	})
	resume()
	outcome{string(value), err}.is(t, "42")
	if !strings.Contains(log.String(), "answer in doubt") {
		t.Fatal(log.String())
	}
	untilFree(t, rdb, key) // it goes on in the background
}

func TestAnAnswerThatIsTooLongReleasesTheLock(t *testing.T) {
	rdb, locks, key := server(t), connect(t, rlock.Options{}), name(t)
	_, err := locks.Once(t.Context(), key, time.Minute,
		func(context.Context, *rlock.Held) ([]byte, error) { return make([]byte, 9<<20), nil })
	is(t, err, rlock.ErrRefused)
	untilFree(t, rdb, key)
	if stored(t, rdb, key) {
		t.Fatal("it is stored")
	}
}

// The process of a leader, which is killed.
func TestMain(m *testing.M) {
	if key := os.Getenv("RLOCK_LEADER"); key != "" {
		locks, err := rlock.Connect(context.Background(), rlock.Options{URL: os.Getenv("RLOCK_URL"), Lease: time.Second})
		if err == nil {
			_, err = locks.Once(context.Background(), key, time.Minute, func(context.Context, *rlock.Held) ([]byte, error) {
				fmt.Println("leads")
				select {}
			})
		}
		panic(err)
	}
	os.Exit(m.Run())
}

func TestTheNextCallerLeadsWhenTheLeadersProcessDies(t *testing.T) {
	rdb, key, leads := server(t), name(t), make(chan chan outcome)
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), "RLOCK_LEADER="+key)
	output, err := process.StdoutPipe()
	must(t, err)
	must(t, process.Start())
	defer process.Wait()
	defer process.Process.Kill()
	_, err = output.Read(make([]byte, 5))
	must(t, err)
	waiter := asks(t.Context(), connect(t, rlock.Options{}), key, leads)
	untilWaiting(t, rdb, key, 1)
	must(t, process.Process.Kill())
	(<-leads) <- outcome{value: "42"}
	(<-waiter).is(t, "42")
}

func TestAWaitingCallerSurvivesABrokenConnection(t *testing.T) {
	rdb, key, leads := server(t), name(t), make(chan chan outcome)
	leader := asks(t.Context(), connect(t, rlock.Options{}), key, leads)
	lead := <-leads
	waiter := asks(t.Context(), connect(t, rlock.Options{Name: "waiter"}), key, leads)
	untilWaiting(t, rdb, key, 1)
	for _, line := range strings.Split(rdb.ClientList(t.Context()).Val(), "\n") {
		if strings.Contains(line, " name=waiter ") {
			id, _, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
			must(t, rdb.Do(t.Context(), "CLIENT", "KILL", "ID", id).Err())
		}
	}
	lead <- outcome{value: "42"}
	(<-leader).is(t, "42")
	(<-waiter).is(t, "42")
}

func TestTheLimitsOfOnce(t *testing.T) {
	rdb, locks, key, leads := server(t), connect(t, rlock.Options{}), name(t), make(chan chan outcome)
	leader := asks(t.Context(), locks, key, leads)
	lead := <-leads
	is(t, (<-asks(t.Context(), locks, key, leads, rlock.Wait(0))).err, rlock.ErrBusy)
	other := connect(t, rlock.Options{})
	is(t, (<-asks(t.Context(), other, key, leads, rlock.Wait(0))).err, rlock.ErrBusy)
	is(t, (<-asks(t.Context(), other, key, leads, rlock.Wait(20*time.Millisecond))).err, rlock.ErrBusy)
	waiter := asks(t.Context(), other, key, leads)
	untilWaiting(t, rdb, key, 1)
	is(t, (<-asks(t.Context(), connect(t, rlock.Options{}), key, leads, rlock.MaxWaiters(1))).err, rlock.ErrQueueFull)
	lead <- outcome{value: "42"}
	(<-leader).is(t, "42")
	(<-waiter).is(t, "42")
	(<-asks(t.Context(), other, key, leads, rlock.Wait(0))).is(t, "42")
}

func TestTheCallersOfOneClientShareAnOutage(t *testing.T) {
	rdb, key, leads := server(t), name(t), make(chan chan outcome)
	locks := connect(t, rlock.Options{Patience: 2 * time.Second, AnswerTimeout: 500 * time.Millisecond})
	resume := paused(t, rdb)
	owner := asks(t.Context(), locks, key, leads)
	until(t, "the owner asks", func() bool { return strings.Contains(rdb.ClientList(t.Context()).Val(), "cmd=rlock.once") })
	sharers := []<-chan outcome{asks(t.Context(), locks, key, leads), asks(t.Context(), locks, key, leads)}
	untilSharing(t, 2)
	is(t, (<-owner).err, rlock.ErrUnavailable)
	began := time.Now()
	for _, sharer := range sharers {
		is(t, (<-sharer).err, rlock.ErrUnavailable)
	}
	if time.Since(began) > time.Second {
		t.Fatal("they asked the server themselves")
	}
	resume()
	untilFree(t, rdb, key)
}

func TestMistakesAreRefusedBeforeAnythingIsSent(t *testing.T) {
	rdb, locks, key := server(t), connect(t, rlock.Options{}), name(t)
	before := calls(t, rdb, "rlock.once")
	work := func(context.Context, *rlock.Held) ([]byte, error) { return nil, errors.New("it ran") }
	for _, keep := range []time.Duration{-time.Second, 0, time.Millisecond - 1} {
		_, err := locks.Once(t.Context(), key, keep, work)
		is(t, err, rlock.ErrConfiguration)
	}
	for _, option := range []rlock.Option{rlock.Fenced(), rlock.Owner("ann"), rlock.FixedLease(time.Second),
		rlock.Replicas(1, time.Second), rlock.Lease(0), rlock.Wait(-1), rlock.MaxWaiters(0)} {
		_, err := locks.Once(t.Context(), key, time.Minute, work, option)
		is(t, err, rlock.ErrConfiguration)
	}
	_, err := locks.Once(t.Context(), "", time.Minute, work)
	is(t, err, rlock.ErrConfiguration)
	is(t, locks.Forget(t.Context(), ""), rlock.ErrConfiguration)
	if calls(t, rdb, "rlock.once") != before {
		t.Fatal("something was sent")
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

func TestWorkThatReleasesItsLockStoresNothing(t *testing.T) {
	rdb, locks, key := server(t), connect(t, rlock.Options{}), name(t)
	_, err := locks.Once(t.Context(), key, time.Minute, func(ctx context.Context, held *rlock.Held) ([]byte, error) {
		return []byte("42"), held.Release(ctx)
	})
	is(t, err, rlock.ErrConfiguration)
	if stored(t, rdb, key) {
		t.Fatal("it is stored")
	}
}

func TestCloseEndsOnce(t *testing.T) {
	rdb, locks, key, leads := server(t), connect(t, rlock.Options{}), name(t), make(chan chan outcome)
	leader := asks(t.Context(), locks, key, leads)
	<-leads
	sharer := asks(t.Context(), locks, key, leads)
	untilSharing(t, 1)
	begun, over := make(chan struct{}), make(chan error)
	go func() {
		_, err := locks.Once(t.Context(), key+"2", time.Minute, func(ctx context.Context, _ *rlock.Held) ([]byte, error) {
			close(begun)
			<-ctx.Done()
			return nil, ctx.Err()
		})
		over <- err
	}()
	<-begun
	must(t, locks.Close(t.Context()))
	is(t, <-over, rlock.ErrClosed)
	is(t, (<-leader).err, rlock.ErrClosed)
	is(t, (<-sharer).err, rlock.ErrClosed)
	untilFree(t, rdb, key)
}

func TestAForgottenAnswerIsMadeAgain(t *testing.T) {
	rdb, locks := server(t), connect(t, rlock.Options{})
	for _, key := range []string{name(t), name(t) + "{a}"} {
		var made atomic.Int32
		for _, want := range []int32{1, 1, 2} {
			if want == 2 {
				must(t, locks.Forget(t.Context(), key))
			}
			value, err := locks.Once(t.Context(), key, time.Minute, func(context.Context, *rlock.Held) ([]byte, error) {
				return fmt.Append(nil, made.Add(1)), nil
			})
			outcome{string(value), err}.is(t, fmt.Sprint(want))
		}
	}
	resume := paused(t, rdb)
	defer resume()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	is(t, locks.Forget(ctx, name(t)), rlock.ErrUnavailable)
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

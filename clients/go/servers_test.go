// What the tests look at: the server at RLOCK_URL, and which locks are held or waited for there.

package rlock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlock/rlock/clients/go"
)

const patience = 20 * time.Second

func address(t *testing.T, variable string) string {
	t.Helper()
	address := os.Getenv(variable)
	if address == "" {
		t.Skip(variable + " says where no server is")
	}
	return address
}

// server is a client of the server under test that knows nothing of locks.
func server(t *testing.T) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(address(t, "RLOCK_URL"))
	must(t, err)
	rdb := redis.NewClient(options)
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// connect opens a client of locks, which is closed with the test.
func connect(t *testing.T, options rlock.Options) *rlock.Locks {
	t.Helper()
	if options.URL == "" && options.Redis == nil {
		options.URL = address(t, "RLOCK_URL")
	}
	locks, err := rlock.Connect(t.Context(), options)
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := locks.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return locks
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func acquired(t *testing.T, lock *rlock.Lock, options ...rlock.Option) *rlock.Held {
	t.Helper()
	held, err := lock.Acquire(t.Context(), options...)
	must(t, err)
	return held
}

func is(t *testing.T, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("got %v, want %v", err, kind)
	}
}

// until waits for a condition.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain until ", what)
		}
	}
}

func untilWaiting(t *testing.T, rdb *redis.Client, key string, count int64) {
	t.Helper()
	until(t, fmt.Sprint(count, " wait"), func() bool {
		lock, err := rdb.Do(context.Background(), "RLOCK.INSPECT", key).Result()
		must(t, err)
		return lock.(map[any]any)["waiter-count"] == count
	})
}

func untilFree(t *testing.T, rdb *redis.Client, key string) {
	t.Helper()
	until(t, "it is free", func() bool { return rdb.Exists(context.Background(), key).Val() == 0 })
}

// name is the name of a lock that no other test has.
func name(t *testing.T) string {
	return strings.ReplaceAll(t.Name(), "/", ":") + fmt.Sprint(time.Now().UnixNano())
}

// proxy passes everything on to the server under test. After a request that contains the given word has reached the
// server, it breaks the connection instead of passing on the reply, so many times.
func proxy(t *testing.T, word string, times int32) (url string, left *atomic.Int32) {
	t.Helper()
	left = new(atomic.Int32)
	left.Store(times)
	return relay(t, func(request []byte) (_ []byte, isMuted bool) {
		return request, bytes.Contains(request, []byte(word)) && left.Add(-1) >= 0
	}), left
}

// relay changes requests on their way to the server under test, and breaks the connection in place of a reply.
func relay(t *testing.T, change func(request []byte) (_ []byte, isMuted bool)) (url string) {
	t.Helper()
	options, err := redis.ParseURL(address(t, "RLOCK_URL"))
	must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", options.Addr)
			if err != nil {
				client.Close()
				continue
			}
			var isMuted atomic.Bool
			go pass(server, client, func(reply []byte) ([]byte, bool) { return reply, isMuted.Load() })
			go pass(client, server, func(request []byte) ([]byte, bool) {
				request, mutes := change(request)
				if mutes {
					isMuted.Store(true)
				}
				return request, false
			})
		}
	}()
	return "redis://" + listener.Addr().String()
}

// pass passes on until either end is closed or change says that it is over.
func pass(from, to net.Conn, change func(piece []byte) (_ []byte, isOver bool)) {
	defer from.Close()
	defer to.Close()
	for piece := make([]byte, 1<<20); ; {
		count, err := from.Read(piece)
		if err != nil {
			return
		}
		changed, isOver := change(piece[:count])
		if isOver {
			return
		}
		if _, err := to.Write(changed); err != nil {
			return
		}
	}
}

// paused keeps the server from answering commands that write, until resume is called.
func paused(t *testing.T, rdb *redis.Client) (resume func()) {
	t.Helper()
	must(t, rdb.Do(context.Background(), "CLIENT", "PAUSE", patience.Milliseconds(), "WRITE").Err())
	return func() {
		if err := rdb.Do(context.Background(), "CLIENT", "UNPAUSE").Err(); err != nil {
			t.Error(err)
		}
	}
}

// logged is a log that can be read while the client writes it.
type logged struct {
	mutex sync.Mutex
	text  []byte
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logged) Write(line []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.text = append(l.text, line...)
	return len(line), nil
}

func (l *logged) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return string(l.text)
}

// What the tests look at: the server at RLOCK_URL, who waits and who holds there, and a network that can be stopped.

package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
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

func ends(t *testing.T, ctx context.Context) {
	t.Helper()
	select {
	case <-ctx.Done():
	case <-time.After(patience):
		t.Fatal("waited in vain for the end")
	}
}

func inspected(t *testing.T, rdb *redis.Client, key string) map[any]any {
	t.Helper()
	reply, err := rdb.Do(context.Background(), "RLOCK.INSPECT", key).Result()
	must(t, err)
	return reply.(map[any]any)
}

func firstWaiter(t *testing.T, rdb *redis.Client, key string) map[any]any {
	t.Helper()
	return inspected(t, rdb, key)["waiters"].([]any)[0].(map[any]any)
}

func untilWaiting(t *testing.T, rdb *redis.Client, key string, count int64) {
	t.Helper()
	until(t, fmt.Sprint(count, " wait"), func() bool { return inspected(t, rdb, key)["waiter-count"] == count })
}

func untilFree(t *testing.T, rdb *redis.Client, key string) {
	t.Helper()
	until(t, "it is free", func() bool { return rdb.Exists(context.Background(), key).Val() == 0 })
}

// name is a lock's that no other test has.
func name(t *testing.T) string {
	return strings.ReplaceAll(t.Name(), "/", ":") + fmt.Sprint(time.Now().UnixNano())
}

// network lies between a client and the server. It can be broken, and stopped in either direction.
type network struct {
	listener net.Listener
	to       string
	mutex    sync.Mutex
	changed  *sync.Cond
	stopped  [2]bool // what goes to the server, and what comes from it
	conns    []net.Conn
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	to, err := url.Parse(address(t, "RLOCK_URL"))
	must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	n := &network{listener: listener, to: to.Host}
	n.changed = sync.NewCond(&n.mutex)
	go n.accept()
	t.Cleanup(func() {
		listener.Close()
		n.stop(false, false)
		n.breaks()
	})
	return n
}

func (n *network) url() string { return "redis://" + n.listener.Addr().String() }

func (n *network) accept() {
	for {
		here, err := n.listener.Accept()
		if err != nil {
			return
		}
		there, err := net.Dial("tcp", n.to)
		if err != nil {
			here.Close()
			continue
		}
		n.mutex.Lock()
		n.conns = append(n.conns, here, there)
		n.mutex.Unlock()
		go n.carry(0, here, there)
		go n.carry(1, there, here)
	}
}

func (n *network) carry(direction int, from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	bytes := make([]byte, 1<<16)
	for {
		count, err := from.Read(bytes)
		n.mutex.Lock()
		for n.stopped[direction] {
			n.changed.Wait()
		}
		n.mutex.Unlock()
		if count > 0 {
			if _, err := to.Write(bytes[:count]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (n *network) stop(requests, answers bool) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.stopped = [2]bool{requests, answers}
	n.changed.Broadcast()
}

// breaks closes all connections.
func (n *network) breaks() {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for _, conn := range n.conns {
		conn.Close()
	}
	n.conns = nil
}

func isLostBy(t *testing.T, err error, reason rlock.LossReason) {
	t.Helper()
	var lost *rlock.Error
	if is(t, err, rlock.ErrLost); !errors.As(err, &lost) || lost.Reason != reason {
		t.Fatalf("got %v, want a loss with the reason %s", err, reason)
	}
}

// Package rlock acquires distributed locks of Redis and Valkey servers that have the rlock module: plain locks,
// read-write locks, permits, and several locks at once. The server decides which client has a lock, and in which order; the
// client renews the lease, and ends the work's context when the lock is lost. [Locks.Once] stores the answer of work for
// all its callers, [Locks.Lead] repeats work as long as the program runs, and [Held.Detach] hands a lock over.
//
//	locks, err := rlock.Connect(ctx, rlock.Options{URL: "redis://127.0.0.1:6379"})
//	err = locks.Do(ctx, "orders:42", func(ctx context.Context, held *rlock.Held) error {
//		return ship(ctx, "orders:42") // ctx ends when the lock is lost
//	})
package rlock

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Options are the settings of a client. Each comment begins with the value that zero stands for.
type Options struct {
	URL   string                  // of one server, for Connect: redis://, rediss:// or unix://
	Redis *redis.UniversalOptions // in its place: a cluster, a master that sentinels watch, or what a URL cannot say

	Lease          time.Duration // 30 s; renewed each time that a third of it is over
	Patience       time.Duration // 10 s: for how long servers that do not answer are asked again
	AnswerTimeout  time.Duration // 3 s
	ConnectTimeout time.Duration // 2 s
	IdleTimeout    time.Duration // 30 s: after so long without a wait, the connection for waits is closed
	Name           string        // host and process: of this program, as operators see it in the holder
	Logger         *slog.Logger  // none
	Observer       Observer      // none
}

// Locks is a client. A program needs one for its servers, and may use it in any goroutine.
type Locks struct {
	options        Options
	identity       string
	connectionName string
	single         *redis.Options
	cluster        *redis.ClusterClient
	own            redis.UniversalClient

	life    context.Context // of everything in the background
	die     context.CancelFunc
	closing context.Context // when it ends, no attempt acquires any more
	close   context.CancelFunc
	look    chan struct{}
	count   atomic.Int64

	nodesMutex sync.Mutex
	nodes      map[string]*node

	mutex   sync.Mutex
	holds   map[*hold]struct{} // what is held
	named   map[[2]string]*hold
	crowds  map[string]*crowd
	flights map[string]*flight
	losses  []*Held
	looksAt time.Time
	busy    int
	settled chan struct{}
}

// Connect opens a client, and finds out whether the server can be reached. Whether it has the module shows with the
// first lock.
func Connect(ctx context.Context, options Options) (*Locks, error) {
	redisOptions := options.Redis
	if options.URL != "" {
		one, err := redis.ParseURL(options.URL)
		if err != nil {
			return nil, newError(ErrConfiguration, "connect", err)
		}
		return open(ctx, redis.NewClient(one), options)
	}
	if redisOptions == nil {
		return nil, newError(ErrConfiguration, "connect", serverError("neither a URL nor settings for go-redis"))
	}
	return open(ctx, redis.NewUniversalClient(redisOptions), options)
}

func open(ctx context.Context, client redis.UniversalClient, options Options) (*Locks, error) {
	l, err := New(client, options)
	if err == nil {
		l.own = client
		if err = l.reach(ctx); err != nil {
			_ = l.Close(ctx)
		}
	}
	if err != nil {
		client.Close()
		return nil, err
	}
	return l, nil
}

// reach makes the first connection.
func (l *Locks) reach(ctx context.Context) error {
	n, f := l.nodeOf(ctx, "")
	if f == nil {
		first := newRequest("", "PING")
		n.send(requests, first)
		select {
		case <-first.done:
			if f = first.fault; f == nil || f.code() == "NOPERM" {
				return nil
			}
		case <-ctx.Done():
			return newError(ErrUnavailable, "connect", context.Cause(ctx))
		}
	}
	return f.about("connect")
}

// New makes a client that connects with the settings of a go-redis client: a *redis.Client, of one server or by
// sentinels, or a *redis.ClusterClient. It has its own connections, at most three to a server. In a cluster
// it asks the go-redis client where slots are, so that client must not be closed before this one.
func New(client redis.UniversalClient, options Options) (*Locks, error) {
	setDefault(&options.Lease, 30*time.Second)
	setDefault(&options.Patience, 10*time.Second)
	setDefault(&options.AnswerTimeout, 3*time.Second)
	setDefault(&options.ConnectTimeout, 2*time.Second)
	setDefault(&options.IdleTimeout, 30*time.Second)
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	if options.Observer == nil {
		options.Observer = noObserver{}
	}
	l := &Locks{options: options, look: make(chan struct{}, 1), nodes: map[string]*node{}, holds: map[*hold]struct{}{},
		named: map[[2]string]*hold{}, crowds: map[string]*crowd{}, flights: map[string]*flight{},
		settled: make(chan struct{}, 1)}
	l.life, l.die = context.WithCancel(context.Background())
	l.closing, l.close = context.WithCancel(context.Background())
	switch client := client.(type) {
	case *redis.Client:
		l.single = client.Options()
		if l.single.Addr == "FailoverClient" { // go-redis has this for a client that asks sentinels
			go l.followMaster()
		}
	case *redis.ClusterClient:
		l.cluster = client
	default:
		return nil, newError(ErrConfiguration, "connect", fmt.Errorf("no locks by a %T", client))
	}
	if options.Lease < time.Millisecond {
		return nil, newError(ErrConfiguration, "connect", serverError(shortLease))
	}
	l.name(options.Name)
	go l.watch()
	return l, nil
}

func setDefault(setting *time.Duration, value time.Duration) {
	if *setting == 0 {
		*setting = value
	}
}

// name makes the names by which operators see this process: the prefix of its holders, and the name of its connections.
func (l *Locks) name(given string) {
	plain := strings.Map(func(r rune) rune {
		if r < 128 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("0123456789-_.@/+=", r)) {
			return r
		}
		return '_'
	}, given)
	plain = plain[:min(len(plain), 64)]
	l.connectionName = plain
	if given == "" {
		host, _ := os.Hostname()
		plain = host + ":" + strconv.Itoa(os.Getpid())
		l.connectionName = "rlock:" + plain
	}
	l.identity = plain + ":" + rand.Text() + ":"
}

// Close ends everything: waits get ErrClosed, and what is held is released. It returns when the server has confirmed
// that, or ctx ends.
func (l *Locks) Close(ctx context.Context) error {
	l.close()
	l.mutex.Lock()
	var all []*Held
	for h := range l.holds {
		all = append(all, h.held...)
	}
	l.mutex.Unlock()
	for _, held := range all {
		l.inBackground(func() { _ = held.Release(l.life) })
	}
	err := l.settle(ctx)
	for _, n := range l.allNodes() {
		n.closes(ctx)
	}
	l.die()
	for _, n := range l.allNodes() {
		n.leave(&fault{unreachable, ErrClosed})
	}
	if l.own != nil {
		l.own.Close()
	}
	return err
}

// closes ends the session, so that the server need not keep it.
func (n *node) closes(ctx context.Context) {
	n.mutex.Lock()
	s := n.session
	n.mutex.Unlock()
	if s == nil {
		return
	}
	last := newRequest("", "RLOCK.CANCEL", s.name)
	n.send(requests, last)
	select {
	case <-last.done:
	case <-ctx.Done():
	case <-time.After(n.locks.options.AnswerTimeout):
	}
}

// inBackground finishes work that no caller waits for.
func (l *Locks) inBackground(work func()) {
	l.begin()
	go func() {
		defer l.end()
		work()
	}()
}

func (l *Locks) begin() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.busy++
}

func (l *Locks) end() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.busy--; l.busy == 0 {
		select {
		case l.settled <- struct{}{}:
		default:
		}
	}
}

func (l *Locks) settle(ctx context.Context) error {
	for {
		l.mutex.Lock()
		isSettled := l.busy == 0
		l.mutex.Unlock()
		if isSettled {
			return nil
		}
		select {
		case <-l.settled:
		case <-ctx.Done():
			return newError(ErrUnavailable, "close", context.Cause(ctx))
		}
	}
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

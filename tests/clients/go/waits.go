// Any number of waits over one connection: a session of the server, its events, and who waits for which.

package clients

// snippet: session
import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const ttl = 10 * time.Second // how long the server keeps the waits of a process that it does not hear from

// Waits waits for locks of one server. Make one for a process, and end all waits before you close it.
type Waits struct {
	rdb, polls       *redis.Client
	session, process string
	tickets          atomic.Int64
	closed           chan struct{}

	mutex   sync.Mutex
	waiting map[string]inbox
}

type inbox struct {
	news chan event
	over chan struct{}
}

type event struct {
	outcome string
	value   any
}

// NewWaits begins a session. Every command that rdb sends for it may be sent again, as go-redis does by itself.
func NewWaits(rdb *redis.Client) *Waits {
	options := *rdb.Options()
	options.PoolSize = 1
	options.MaxRetries = -1
	options.PushNotificationProcessor = nil // each client has its own
	options.ReadTimeout = ttl / 2           // the server answers each call of EVENTS within a third of the TTL
	w := &Waits{rdb: rdb, polls: redis.NewClient(&options), session: rand.Text(), process: rand.Text(),
		closed: make(chan struct{}), waiting: map[string]inbox{}}
	go w.poll()
	return w
}

// Close ends the session.
func (w *Waits) Close() error {
	close(w.closed)
	return errors.Join(w.polls.Close(), w.rdb.Do(context.Background(), "RLOCK.CANCEL", w.session).Err())
}

// Acquire waits until the lock is granted or ctx is done, and returns the holder, for RENEW and RELEASE … ALL.
func (w *Waits) Acquire(ctx context.Context, key string, lease time.Duration) (holder string, err error) {
	ticket := strconv.FormatInt(w.tickets.Add(1), 10)
	holder = w.process + ":" + ticket
	inbox := inbox{make(chan event, 8), make(chan struct{})}
	w.mutex.Lock()
	w.waiting[ticket] = inbox
	w.mutex.Unlock()
	err = w.wait(ctx, inbox.news, key, holder, ticket, lease.Milliseconds())
	close(inbox.over)
	w.mutex.Lock()
	delete(w.waiting, ticket)
	w.mutex.Unlock()
	if err != nil {
		ctx := context.WithoutCancel(ctx)
		w.rdb.Do(ctx, "RLOCK.CANCEL", w.session, ticket)
		w.rdb.Do(ctx, "RLOCK.RELEASE", key, holder, "ALL")
		return "", err
	}
	return holder, nil
}

func (w *Waits) wait(ctx context.Context, news <-chan event, key, holder, ticket string, leaseMs int64) error {
	for {
		waitMs := int64(0) // for ever
		if deadline, limited := ctx.Deadline(); limited {
			waitMs = max(1, time.Until(deadline).Milliseconds())
		}
		// Sent again with the same ticket, it keeps its place in the queue.
		err := w.rdb.Do(ctx, "RLOCK.ACQUIRE", key, holder, leaseMs, "WAIT", waitMs, "SESSION", w.session, ticket).Err()
		if errors.Is(err, redis.Nil) {
			return nil // it was free
		}
		if err != nil && !redis.HasErrorPrefix(err, "NOSESSION") {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event := <-news:
			switch event.outcome {
			case "granted":
				// A grant may be old when it is read: the lock is ours only if it can be renewed.
				renewed, err := w.rdb.Do(ctx, "RLOCK.RENEW", key, holder, leaseMs).Int()
				if err != nil || renewed == 1 {
					return err
				}
			case "timeout":
				return context.DeadlineExceeded
			case "error":
				return fmt.Errorf("the wait for %s has ended: %v", key, event.value)
			}
		}
	}
}

func (w *Waits) poll() {
	// go-redis sends a command once the one before it is answered, so one call is under way, not two.
	for seen := int64(0); ; {
		err := w.listen(&seen)
		if redis.HasErrorPrefix(err, "NOSESSION") {
			seen = 0
		}
		select {
		case <-w.closed:
			return
		case <-time.After(100 * time.Millisecond):
			log.Print("rlock: no events, trying again: ", err)
		}
	}
}

// listen returns when the connection breaks or the session may have ended. The events up to seen are known.
func (w *Waits) listen(seen *int64) error {
	now := time.Now().Round(0)           // the wall clock, which goes on while a machine is suspended
	if err := w.read(seen); err != nil { // opens the session, or takes it up again
		return err
	}
	w.mutex.Lock()
	waiting := maps.Clone(w.waiting)
	w.mutex.Unlock()
	for _, inbox := range waiting {
		inbox.put(event{outcome: "ask again"})
	}
	for {
		if err := w.read(seen, "WAIT", 0); err != nil {
			return err
		}
		before := now
		now = time.Now().Round(0)
		if now.Sub(before) >= ttl {
			return errors.New("this process stood still, and the session may have ended")
		}
	}
}

func (w *Waits) read(seen *int64, more ...any) error {
	args := append([]any{"RLOCK.EVENTS", w.session, "ACK", *seen, "TTL", ttl.Milliseconds()}, more...)
	ctx := context.Background()
	events, err := w.polls.Do(ctx, args...).Slice()
	if err != nil {
		return err
	}
	for _, it := range events {
		it := it.([]any)
		ticket, outcome := it[1].(string), it[2].(string)
		w.mutex.Lock()
		inbox, waits := w.waiting[ticket]
		w.mutex.Unlock()
		if waits {
			inbox.put(event{outcome, it[3]})
		} else if outcome == "granted" {
			// Nobody waits any more, and it is not acknowledged yet: the server takes the lock back.
			if err := w.rdb.Do(ctx, "RLOCK.CANCEL", w.session, ticket).Err(); err != nil {
				return err
			}
		}
		*seen = it[0].(int64)
	}
	return nil
}

func (to inbox) put(event event) {
	select {
	case to.news <- event:
	case <-to.over:
	}
}

// end

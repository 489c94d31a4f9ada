// One connection to a server, and the requests on it.
//
// go-redis dials, with its own settings for TLS, users and sentinels, and says HELLO. From then on the connection is
// read and written here: a client of locks has to know whether a request was sent, when, and whether its answer can
// still come, and must not have it sent again behind its back. A caller that finds the line idle writes its request and
// reads the answer itself: each switch to another goroutine costs more than that. Else one goroutine writes what many have
// queued, in one piece, and another one reads. It reads an idle line, too, so that a connection that breaks is noticed.
//
// A late answer may still come. So a line with an overdue answer gets no new requests, and is read for a while
// longer.

package rlock

import (
	"bufio"
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

type lane int

const (
	requests lane = iota // everything that is answered at once
	rounds               // WAIT: until it is answered, a server answers nothing behind it
	polls                // the events of a session, for which a server keeps its client waiting
	lanes
)

// request is sent once. When done is closed, it has a reply or a fault.
type request struct {
	bytes  []byte
	key    string // by which the request follows a cluster's redirection; empty: it follows none
	hops   int
	sentAt time.Time // read before it was sent: whatever the server has done, it did later
	reply  any
	fault  *fault
	done   chan struct{}
	here   bool   // its caller calls readHere
	then   func() // called by the reader of the line, so it must not wait for anything
	line   atomic.Pointer[line]
	isGone atomic.Bool // sent, or withdrawn before that
}

func newRequest(key string, words ...string) *request {
	return &request{bytes: command(words...), key: key, done: make(chan struct{})}
}

func (r *request) number() (int64, *fault) {
	if r.fault != nil {
		return 0, r.fault
	}
	number, isNumber := r.reply.(int64)
	if !isNumber {
		return 0, &fault{refused, errGarbled}
	}
	return number, nil
}

func (r *request) finish(reply any, because *fault) {
	if line, isError := reply.(serverError); isError {
		reply, because = nil, faultOf(line)
	}
	if because != nil && r.line.Load().node.isSentElsewhere(r, because) {
		return
	}
	r.reply, r.fault = reply, because
	close(r.done)
	if r.then != nil {
		r.then()
	}
}

type line struct {
	node    *node
	lane    lane
	mutex   sync.Mutex
	wake    chan struct{}
	conn    net.Conn
	client  *redis.Client
	queued  []*request
	pending []*request
	writing bool // by a caller or by the line's own goroutine
	from    *bufio.Reader
	reading sync.Mutex    // held by the goroutine that reads
	watch   chan struct{} // full when the line's own goroutine is to read
	idle    *time.Timer   // until the line's own goroutine reads although no answer is due
	answers atomic.Int64
	seen    atomic.Int64 // how many of them the timer has seen
	retired bool
	ended   *fault
}

// put queues requests, one behind the other. If the line has ended, each request gets a fault.
func (l *line) put(all []*request) {
	l.mutex.Lock()
	ended := l.ended
	for _, r := range all {
		r.line.Store(l)
	}
	if ended == nil {
		l.queued = append(l.queued, all...)
	}
	// If everything that was sent is answered, a short request fits into the connection's buffer, and writing it cannot wait.
	idle := ended == nil && l.conn != nil && len(l.pending) == 0 && len(l.queued) == 1 && len(all[0].bytes) < 4096
	conn := l.conn
	l.mutex.Unlock()
	if ended != nil {
		for _, r := range all {
			r.withdraw()
			r.finish(nil, &fault{unreachable, ended.cause})
		}
		return
	}
	if !idle || !l.write(conn) {
		l.wakes()
	}
	if !all[len(all)-1].here {
		l.watches()
	}
}

// wakes the goroutine that writes.
func (l *line) wakes() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// withdraw takes a request back. False: it was sent, or is about to be.
func (r *request) withdraw() bool { return r.isGone.CompareAndSwap(false, true) }

func (l *line) run() {
	conn, why := l.dial()
	if why != nil {
		l.end(why)
		return
	}
	l.mutex.Lock()
	l.conn, l.from = conn, bufio.NewReaderSize(conn, 1<<16) // no line of an answer is longer
	l.idle = time.AfterFunc(idleFor, l.isIdle)
	ended := l.ended != nil
	l.mutex.Unlock()
	if ended {
		l.client.Close()
		return
	}
	go l.readOn(conn)
	for range l.wake {
		runtime.Gosched() // other goroutines that are about to ask join in
		l.write(conn)
		l.mutex.Lock()
		ended = l.ended != nil
		l.mutex.Unlock()
		if ended {
			return
		}
	}
}

// write writes what is queued. False: another goroutine is writing, or the line has ended.
func (l *line) write(conn net.Conn) bool {
	l.mutex.Lock()
	if l.writing || l.ended != nil {
		l.mutex.Unlock()
		return false
	}
	l.writing = true
	var bytes []byte
	now := time.Now()
	for _, r := range l.queued {
		if r.withdraw() {
			r.sentAt = now
			l.pending = append(l.pending, r)
			bytes = append(bytes, r.bytes...)
		}
	}
	l.queued = nil
	l.mutex.Unlock()
	var err error
	if len(bytes) > 0 {
		conn.SetWriteDeadline(now.Add(late))
		_, err = conn.Write(bytes)
	}
	l.mutex.Lock()
	l.writing = false
	more := len(l.queued) > 0
	l.mutex.Unlock()
	if err != nil {
		l.end(&fault{silent, err})
	} else if more { // queued meanwhile
		l.wakes()
	}
	return true
}

const (
	idleFor  = 100 * time.Millisecond
	hereLong = 100 * time.Millisecond
)

// isIdle is called by the timer. To reset the timer for each reply would wake the runtime's poller.
func (l *line) isIdle() {
	if answers := l.answers.Load(); l.seen.Swap(answers) != answers {
		l.idle.Reset(idleFor)
	} else {
		l.watches()
	}
}

// watches makes the line's own goroutine read.
func (l *line) watches() {
	select {
	case l.watch <- struct{}{}:
	default:
	}
}

// readOn reads while answers are due, and when the line has been idle for a while.
func (l *line) readOn(conn net.Conn) {
	for range l.watch {
		l.reading.Lock()
		conn.SetReadDeadline(time.Time{})
		due := true
		for due {
			var ok bool
			if due, ok = l.readOne(); !ok {
				l.reading.Unlock()
				return
			}
		}
		l.idle.Reset(idleFor)
		l.reading.Unlock()
	}
}

// readHere reads answers up to that of r, unless another goroutine reads already or the answer takes long.
func (r *request) readHere() {
	l := r.line.Load()
	if !l.reading.TryLock() {
		l.watches() // the other one may be about to stop
		return
	}
	defer l.reading.Unlock()
	l.mutex.Lock()
	conn := l.conn
	l.mutex.Unlock()
	if conn == nil { // it is not open yet
		l.watches()
		return
	}
	conn.SetReadDeadline(time.Now().Add(hereLong))
	for due := true; ; {
		select {
		case <-r.done:
			if due {
				l.watches()
			}
			return
		default:
		}
		// A deadline must not end in the middle of an answer.
		buffered, _ := l.from.Peek(l.from.Buffered())
		if !isWhole(buffered) {
			if _, err := l.from.Peek(len(buffered) + 1); err != nil {
				l.watches() // that goroutine meets the same error, unless it is the deadline
				return
			}
			continue
		}
		var ok bool
		if due, ok = l.readOne(); !ok {
			return
		}
	}
}

// readOne reads an answer, and tells whether more are due.
func (l *line) readOne() (due, ok bool) {
	reply, err := readReply(l.from, 0)
	if err != nil {
		l.end(&fault{silent, err})
		return false, false
	}
	l.mutex.Lock()
	if len(l.pending) == 0 {
		l.mutex.Unlock()
		l.end(&fault{silent, errGarbled})
		return false, false
	}
	r := l.pending[0]
	l.pending = l.pending[1:]
	isOver := l.retired && len(l.pending) == 0
	l.mutex.Unlock()
	l.answers.Add(1)
	r.finish(reply, nil)
	if isOver {
		l.end(&fault{silent, errOverdue})
		return false, false
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return len(l.pending)+len(l.queued) > 0 || l.writing, true
}

func (l *line) end(why *fault) {
	l.mutex.Lock()
	if l.ended != nil {
		l.mutex.Unlock()
		return
	}
	l.ended = why
	pending, waiting, wasOpen := l.pending, l.queued, l.conn != nil
	l.pending, l.queued = nil, nil
	if wasOpen {
		l.client.Close()
	}
	retired := l.retired
	l.mutex.Unlock()
	l.wakes() // so that its goroutines end
	l.watches()
	l.node.forgets(l)
	for _, r := range pending {
		r.finish(nil, &fault{silent, why.cause})
	}
	for _, r := range waiting {
		if !r.withdraw() {
			continue
		}
		if wasOpen {
			r.finish(nil, &fault{unreachable, why.cause})
		} else {
			r.finish(nil, why) // why the server refused the connection
		}
	}
	if wasOpen && !retired {
		l.node.locks.hasten(l.node)
	}
}

// retire keeps a line for the answers that are late, and for nothing else.
func (l *line) retire() {
	l.node.forgets(l)
	l.mutex.Lock()
	first, moved := !l.retired, l.queued
	l.retired, l.queued = true, nil
	isOver := len(l.pending) == 0
	l.mutex.Unlock()
	if isOver {
		l.end(&fault{unreachable, errOverdue})
	} else if first {
		time.AfterFunc(late, func() { l.end(&fault{silent, errOverdue}) })
	}
	if len(moved) > 0 {
		l.node.send(l.lane, moved...)
	}
}

// dial gets a connection from go-redis, in a client that has no other one, and takes it over when it has answered once.
func (l *line) dial() (net.Conn, *fault) {
	locks, options := l.node.locks, *l.node.options
	options.ClientName = locks.connectionName
	limit := locks.options.ConnectTimeout
	options.Protocol, options.PoolSize, options.MinIdleConns = 2, 1, 0
	options.MaxRetries, options.DialerRetries = -1, 1
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout, options.ContextTimeoutEnabled = limit, limit, limit, true
	options.Limiter, options.PipelineReadBufferSize, options.PipelineWriteBufferSize = nil, 0, 0
	options.ClientSideCache, options.ClientSideCacheConfig, options.PushNotificationProcessor = nil, nil, nil
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	for {
		ctx, cancel := context.WithTimeout(locks.life, limit)
		defer cancel() // there are two turns at most
		conn, err := l.node.options.Dialer(ctx, options.Network, options.Addr)
		if err != nil {
			return nil, faultOfDialing(err)
		}
		options.Dialer = func(context.Context, string, string) (net.Conn, error) { return conn, nil }
		client := redis.NewClient(&options)
		if err = client.Conn().Ping(ctx).Err(); err == nil || isNoPing(err) {
			l.client = client
			conn.SetDeadline(time.Time{})
			return conn, nil
		}
		client.Close()
		conn.Close()
		if options.ClientName == "" || !strings.Contains(err.Error(), "NOPERM") {
			return nil, faultOfDialing(err)
		}
		options.ClientName = "" // the user may have no right to set a name
	}
}

// isNoPing: a user without the right to PING is connected all the same.
func isNoPing(err error) bool {
	var line redis.Error
	return errors.As(err, &line) && strings.HasPrefix(line.Error(), "NOPERM") &&
		strings.Contains(strings.ToLower(line.Error()), "'ping'")
}

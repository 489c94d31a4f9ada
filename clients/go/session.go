// All waits of this client at one server: a session there, with a ticket for each wait, on one connection that is polled.
//
// Two polls are under way, so that one waits in the server while the reply to the other is read. When the connection breaks,
// the server keeps the places for a while: so the client reconnects at once. Waiting attempts get the fault only if that
// fails, since their locks may be elsewhere then. They ask again by the same tickets, which queues nothing twice.
//
// An event is acknowledged with the next poll. The end of a grant's lease counts from when the server began the very poll
// that reports it, so the client counts from when it sent that poll. The grant of a ticket that was given up is
// acknowledged like any other: its first lease is short, and ends it.

package rlock

import (
	"crypto/rand"
	"errors"
	"strconv"
	"sync"
	"time"
)

const (
	ttl         = 3 * time.Second         // how long the server keeps places; then it passes over a machine that is gone
	longestPoll = 1500 * time.Millisecond // a poll waits in the server for a third of the TTL
)

var errUnused = errors.New("no waits are left")

type session struct {
	node *node
	name string

	mutex    sync.Mutex
	open     bool
	over     bool
	last     int64
	waiting  map[string]*ticket
	parked   []*request // until it is open, in the order in which they have come
	received int64      // the number of the last event
	idle     time.Time  // since when there is no wait
}

// ticket is one wait.
type ticket struct {
	session *session
	name    string
	news    chan notice // has room for one event, and for one doubt before it
}

// notice is the outcome of a ticket, or a doubt whether the ticket still waits.
type notice struct {
	event  []any
	sentAt time.Time
	doubt  *fault
}

// ticket begins a wait, in the present session or in a new one.
func (n *node) ticket() *ticket {
	n.mutex.Lock()
	s := n.session
	if s == nil {
		s = &session{node: n, name: rand.Text(), waiting: map[string]*ticket{}, idle: time.Now()}
		n.session = s
		go s.run()
	}
	n.mutex.Unlock()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.last++
	t := &ticket{s, strconv.FormatInt(s.last, 10), make(chan notice, 2)}
	if !s.over {
		s.waiting[t.name] = t
	}
	return t
}

// send sends a request that waits by this ticket, once the session is open.
func (t *ticket) send(all ...*request) {
	s := t.session
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.open || s.over {
		s.node.send(requests, all...) // if the session is over, the answer says so
	} else {
		s.parked = append(s.parked, all...)
	}
}

// forget expects nothing of this ticket any more.
func (t *ticket) forget() {
	t.session.mutex.Lock()
	defer t.session.mutex.Unlock()
	t.session.remove(t.name)
}

func (s *session) remove(name string) *ticket {
	t := s.waiting[name]
	if delete(s.waiting, name); len(s.waiting) == 0 {
		s.idle = time.Now()
	}
	return t
}

func (t *ticket) isOver() bool {
	t.session.mutex.Lock()
	defer t.session.mutex.Unlock()
	return t.session.over
}

func (s *session) isOpen() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.open
}

func (s *session) run() {
	var heard time.Time
	for tries := 0; ; {
		why := s.listen(&heard)
		s.mutex.Lock()
		wasOpen, isOver := s.open, s.over
		s.open = false
		s.mutex.Unlock()
		isOver = isOver || s.node.locks.life.Err() != nil || why.cause == errUnused
		if isOver || !why.mayPass() || why.isNoSession() || !wasOpen && time.Since(heard) > ttl {
			s.end(why)
			return
		}
		if wasOpen {
			tries = 0
			continue // at once; the waits need not know if that succeeds
		}
		s.mutex.Lock()
		s.tellDoubt(why)
		parked := s.parked
		s.parked = nil
		s.mutex.Unlock()
		failAll(parked, why)
		time.Sleep(min(pause(tries), 320*time.Millisecond))
		tries++
	}
}

// tellDoubt is called with the mutex locked.
func (s *session) tellDoubt(why *fault) {
	for _, t := range s.waiting {
		if len(t.news) == 0 {
			t.news <- notice{doubt: why}
		}
	}
}

func failAll(parked []*request, why *fault) {
	for _, r := range parked {
		if r.withdraw() {
			r.reply, r.fault = nil, &fault{unreachable, why.cause}
			if !why.mayPass() {
				r.fault = why
			}
			close(r.done)
		}
	}
}

// end makes room for another session, in which all waits ask again.
func (s *session) end(why *fault) {
	s.node.mutex.Lock()
	var l *line
	if s.node.session == s {
		l, s.node.lines[polls], s.node.session = s.node.lines[polls], nil, nil
	}
	s.node.mutex.Unlock()
	s.mutex.Lock()
	s.over, s.open = true, false
	s.tellDoubt(why)
	parked := s.parked
	s.parked = nil
	s.mutex.Unlock()
	failAll(parked, why)
	if l != nil {
		l.end(&fault{unreachable, why.cause})
	}
}

// listen polls over one line, until that breaks or the session is over.
func (s *session) listen(heard *time.Time) *fault {
	l := s.node.lineTo(polls)
	defer l.end(&fault{unreachable, errOverdue})
	var under []*request
	for waits, limit := false, s.node.locks.options.ConnectTimeout+longestPoll; ; waits, limit = true, longestPoll {
		if s.received == 0 && !heard.IsZero() {
			if why := s.unknown(); why != nil {
				return why
			}
		}
		for len(under) == 0 || s.received > 0 && len(under) < 2 {
			under = append(under, s.poll(l, waits)) // the first one does not wait: it shows at once that the session is open
		}
		first := under[0]
		under = under[1:]
		if why := answerTo(l, first, limit); why != nil {
			return why
		}
		*heard = time.Now()
		events, isList := first.reply.([]any)
		if !isList && first.reply != nil {
			return &fault{refused, errGarbled}
		}
		if isUnused := s.hear(events, first.sentAt); isUnused {
			s.node.send(requests, newRequest("", "RLOCK.CANCEL", s.name))
			return &fault{unreachable, errUnused}
		}
	}
}

// unknown says that the server no longer has this session. A poll that acknowledges nothing would not get this reply: it
// opens another session of this name, without waits. So before the first event no poll is sent behind another, and each one
// only when the session is known to live.
func (s *session) unknown() *fault {
	r := newRequest("", "RLOCK.CANCEL", s.name, "0")
	s.node.send(requests, r)
	if !r.isDone(longestPoll) {
		return &fault{silent, errOverdue}
	}
	return r.fault
}

func (s *session) poll(l *line, waits bool) *request {
	words := []string{"RLOCK.EVENTS", s.name, "ACK", strconv.FormatInt(s.received, 10), "TTL", milliseconds(ttl)}
	if waits {
		words = append(words, "WAIT", "0")
	}
	r := newRequest("", words...)
	l.put([]*request{r})
	return r
}

// isDone waits for an answer.
func (r *request) isDone(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-r.done:
		return true
	case <-timer.C:
	}
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// answerTo gives up a line on which nothing comes.
func answerTo(l *line, r *request, limit time.Duration) *fault {
	if !r.isDone(limit) {
		l.end(&fault{silent, errOverdue})
		<-r.done
	}
	return r.fault
}

// hear passes events to the waits, and returns whether there has been no wait for a while.
func (s *session) hear(events []any, sentAt time.Time) (isUnused bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, it := range events {
		event, _ := it.([]any)
		if len(event) < 4 {
			continue
		}
		seq, _ := event[0].(int64)
		name, _ := event[1].(string)
		if seq <= s.received {
			continue // sent again, as its acknowledgement was lost
		}
		s.received = seq
		if t := s.remove(name); t != nil {
			t.news <- notice{event: event, sentAt: sentAt}
		}
	}
	parked := s.parked
	s.open, s.parked = !s.over, nil
	isUnused = len(s.waiting) == 0 && time.Since(s.idle) > s.node.locks.options.IdleTimeout
	if len(parked) > 0 {
		s.node.send(requests, parked...)
	}
	return isUnused
}

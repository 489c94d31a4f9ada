// One attempt to acquire: it tries once, then waits by a ticket, in the goroutine that wants the lock.
//
// A wait asks for a short lease, since a machine that vanishes keeps the lock from the next waiter for that long. A grant
// is soon renewed to the full lease, while the work runs. The renewal comes before the work if too little of the lease is
// left, if the owner has the lock already, or if the server that granted it may no longer be the master.
//
// If a reply is lost, the outcome is unknown, and the same holder asks again. An attempt that ends without the lock leaves
// in the background: it takes its ticket back, and releases what it may have been granted.

package rlock

import (
	"context"
	"errors"
	"strconv"
	"time"
)

var errGone = errors.New("no caller waits for it any longer")

type attempt struct {
	locks *Locks
	lock  *Lock
	hold  *hold
	ctx   context.Context
	began time.Time
	until time.Time // until when its caller waits; zero: forever
	isTry bool

	waiting context.Context // ends with ctx, or when the time is over
	stop    context.CancelFunc

	crowd    *crowd
	place    *int // the counter of its lock that counts it now
	waits    bool
	collects bool    // another leader has stored its answer, which is asked for without waiting
	answer   *string // another leader's answer, in place of the lock
	isBehind bool    // the server's last reply was that another request is before us
	lost     bool    // a reply was lost, or a grant that was reported
	replaced bool    // in the queue, by a request of its own that came late
	ticket   *ticket
	inFlight *request
	asked    time.Duration
	tokens   []int64
	to       *node // where a redirection leads
	asking   bool
	hops     int

	trouble *fault // why the last request was not answered
	since   time.Time
	tries   int
}

// verdict is the outcome of a request or of its ticket.
type verdict struct {
	granted bool
	busy    bool
	again   bool
	isThere bool   // another leader has stored its answer
	answer  string // that answer, unless an event reports it
	tokens  []int64
	lease   leased
	node    *node
	isEvent bool // the outcome came by an event, not by a reply
}

func (l *Locks) acquire(ctx, parent context.Context, lock *Lock) (*Held, error) {
	if mistake := lock.terms.mistake; mistake != "" {
		return nil, newError(ErrConfiguration, lock.about(), serverError(mistake))
	}
	a := l.newAttempt(ctx, lock, l.holdOf(lock.names, lock.terms.owner))
	defer a.stop()
	return a.acquire(parent)
}

// newAttempt begins an attempt, which stop ends.
func (l *Locks) newAttempt(ctx context.Context, lock *Lock, h *hold) *attempt {
	a := &attempt{locks: l, lock: lock, ctx: ctx, hold: h, began: time.Now()}
	a.limit(a.began)
	return a
}

// acquire returns neither a Held nor an error if another leader has answered.
func (a *attempt) acquire(parent context.Context) (*Held, error) {
	a.locks.begin()
	defer a.locks.end()
	held, err := a.enter(parent)
	a.observe(err)
	return held, err
}

// limit sets the end of the wait: the caller's limit, or the end of its context if that is earlier. A single try may take
// as long as an answer.
func (a *attempt) limit(now time.Time) {
	var end time.Time
	if limit := a.lock.terms.wait; limit != nil {
		a.isTry = *limit <= 0
		a.until = now.Add(max(0, *limit))
		if end = a.until.Add(untilLate); a.isTry {
			end = now.Add(a.locks.options.AnswerTimeout)
		}
	}
	if deadline, isLimited := a.ctx.Deadline(); isLimited && (a.until.IsZero() || deadline.Before(a.until)) {
		a.until = deadline
	}
	if a.waiting, a.stop = a.ctx, func() {}; !end.IsZero() {
		a.waiting, a.stop = context.WithDeadline(a.ctx, end)
	}
}

func (a *attempt) enter(parent context.Context) (*Held, error) {
	l := a.locks
	if a.hold.named && !a.passesGate() {
		a.isBehind = true
		l.leaves(a.hold)
		return nil, a.over()
	}
	a.joins()
	lease, by, err := a.run()
	a.leavesCrowd()
	if err != nil || a.answer != nil {
		a.leave()
		return nil, err
	}
	return a.hand(parent, lease, by)
}

// hand makes a Held of a grant, unless its lease or the client has ended.
func (a *attempt) hand(parent context.Context, lease leased, by *node) (*Held, error) {
	l := a.locks
	held := l.granted(parent, a, lease, by)
	a.hold.exit()
	l.leaves(a.hold)
	err := held.Err()
	if err == nil && l.closing.Err() != nil {
		err = a.over()
	}
	if err != nil {
		_ = held.Release(context.WithoutCancel(parent))
		return nil, err
	}
	return held, nil
}

// passesGate waits for other attempts and releases of the same owner.
func (a *attempt) passesGate() bool {
	select {
	case a.hold.gate <- struct{}{}:
		return true
	case <-a.waiting.Done():
	case <-a.locks.closing.Done():
	}
	return false
}

// run asks until the lock is granted and enough of its lease is left.
func (a *attempt) run() (leased, *node, error) {
	for isGranted := false; ; {
		v, f := a.ask(isGranted)
		if f == nil {
			a.trouble, a.tries, a.since, a.collects = nil, 0, time.Time{}, v.isThere
		}
		switch {
		case f != nil:
			if err := a.troubled(f); err != nil {
				if isGranted {
					a.lost = true
				}
				return leased{}, nil, err
			}
		case v.granted:
			if len(v.tokens) > 0 {
				a.tokens = v.tokens
			}
			wasGranted, wasLost := isGranted, a.lost
			isGranted, a.to, a.asking = true, nil, false
			if a.forget(); !wasGranted && !a.isSure(v) {
				break // to renew it
			}
			if a.lock.terms.replicas == nil {
				return v.lease, v.node, nil
			}
			a.lost = true // if it is not confirmed, it has to be released
			lease, why := a.confirmed(v.node)
			if why == nil {
				a.lost = wasLost
			}
			return lease, v.node, why
		case v.isThere && !v.isEvent:
			a.answer = &v.answer
			a.forget()
			return leased{}, nil, nil
		case v.busy && isGranted: // its lease had ended before it could be renewed
			isGranted = false
		case v.busy:
			a.isBehind, a.waits = true, true
			if a.forget(); a.isTry || !a.until.IsZero() && !time.Now().Before(a.until) {
				return leased{}, nil, newError(ErrBusy, a.hold.about(), nil)
			}
		}
	}
}

// isSure says whether work can begin under a grant without a renewal.
func (a *attempt) isSure(v verdict) bool {
	l, left := a.locks, time.Until(v.lease.until())
	if l.isShared(a.hold) || !isEnough(left, a.asked, a.lock.lease(), a.lock.terms.fixed) {
		return false
	}
	if !v.isEvent {
		return true
	}
	master, f := l.nodeOf(a.ctx, a.hold.names[0])
	return f == nil && master == v.node && v.node.hasSession()
}

func (n *node) hasSession() bool {
	n.mutex.Lock()
	s := n.session
	n.mutex.Unlock()
	return s != nil && s.isOpen()
}

// ask sends one request, and waits for its outcome: an answer or, with a ticket, an event.
func (a *attempt) ask(renews bool) (v verdict, f *fault) {
	l, now := a.locks, time.Now()
	if a.waiting.Err() != nil || l.closing.Err() != nil {
		return v, &fault{refused, errGone}
	}
	n := a.to
	if n == nil {
		if n, f = l.nodeOf(a.ctx, a.hold.names[0]); f != nil {
			return v, f
		}
	}
	whole := l.wanted(a.hold, a.lock.lease(), now)
	a.asked = whole
	var r *request
	var news chan notice
	var before []*request
	if a.asking {
		before = append(before, newRequest("", "ASKING"))
	}
	isByTicket := a.waits && !renews && !a.isTry && !a.collects
	switch {
	case isByTicket:
		if !l.isShared(a.hold) { // a short lease would shorten the owner's other holds
			a.asked = min(whole, leaseOfAWait)
		}
		if a.ticket == nil || a.ticket.session.node != n || a.ticket.isOver() {
			a.lost = a.lost || a.ticket != nil // its grant would never be reported
			a.forget()
			a.ticket = n.ticket()
		}
		r, news = newRequest("", a.lock.words(a.hold.holder, a.asked, a.ticket, a.until)...), a.ticket.news
		a.ticket.send(append(before, r)...)
	case renews && len(a.hold.names) == 1:
		r = newRequest("", "RLOCK.RENEW", a.hold.names[0], a.hold.holder, milliseconds(a.asked))
		n.send(requests, append(before, r)...)
	default:
		r = newRequest("", a.lock.words(a.hold.holder, a.asked, nil, time.Time{})...)
		r.here = true
		n.send(requests, append(before, r)...)
	}
	a.inFlight = r
	if r.here {
		r.readHere()
	}
	overdue := time.NewTimer(l.options.AnswerTimeout)
	defer overdue.Stop()
	for answered := r.done; ; {
		select {
		case <-answered:
			a.inFlight = nil
			v, f = a.verdict(r, renews)
			v.node = n
			if f != nil && f.isNoSession() && isByTicket {
				a.ticket.session.end(f)
			}
			if f != nil || !v.again {
				return v, a.redirected(f, n)
			}
			if a.ticket.isOver() {
				return v, &fault{unreachable, errUnused} // no event of that session is going to come
			}
			a.isQueued()
			a.isBehind, a.trouble, a.tries, a.since, answered = true, nil, 0, time.Time{}, nil
			overdue.Reset(askedAgain)
		case it := <-news:
			if it.doubt != nil {
				a.lost = true
				return v, it.doubt
			}
			a.lost = a.lost || a.inFlight != nil && !a.inFlight.withdraw()
			a.inFlight, a.ticket = nil, nil
			if v, f = verdictOf(it); f != nil {
				n.doubt(f) // for an answer, its line has done this already
			}
			v.node = n
			return v, a.redirected(f, n)
		case <-overdue.C:
			if answered == nil {
				return v, nil
			}
			a.inFlight = nil
			if r.withdraw() {
				return v, &fault{unreachable, errOverdue}
			}
			a.lost = true
			r.line.Load().retire()
			return v, &fault{silent, errOverdue}
		case <-a.waiting.Done():
			return v, &fault{refused, errGone}
		case <-l.closing.Done():
			return v, &fault{refused, errGone}
		}
	}
}

// verdict reads the answer to a request.
func (a *attempt) verdict(r *request, renews bool) (v verdict, f *fault) {
	if r.fault != nil {
		a.lost = a.lost || r.fault.what == silent
		return v, r.fault
	}
	reply := r.reply
	if renews && len(a.hold.names) == 1 {
		number, f := r.number()
		return verdict{granted: number == 1, busy: number != 1, lease: leased{r.sentAt, a.asked}}, f
	}
	if reply == status("WAITING") {
		return verdict{again: true}, nil
	}
	if answer, isAnswer := reply.(string); isAnswer && a.lock.once {
		return verdict{isThere: true, answer: answer}, nil
	}
	if pair, isPair := reply.([]any); isPair && len(pair) == 2 {
		reply, v.tokens = pair[0], tokensOf(pair[1])
	}
	_, isNumber := reply.(int64)
	if reply != nil && !isNumber {
		return v, &fault{refused, errGarbled}
	}
	v.granted, v.busy, v.lease = reply == nil, isNumber, leased{r.sentAt, a.asked}
	return v, nil
}

// verdictOf reads an event: [seq, ticket, outcome, value], and for a grant the end of its lease.
func verdictOf(it notice) (v verdict, f *fault) {
	switch value := it.event[3]; it.event[2] {
	case "granted":
		v = verdict{granted: true, isEvent: true, tokens: tokensOf(value), lease: leased{it.sentAt, 0}}
		if len(it.event) > 4 {
			endsIn, _ := it.event[4].(int64)
			v.lease.length = time.Duration(endsIn) * time.Millisecond
		}
		return v, nil
	case "timeout":
		return verdict{busy: true}, nil
	case "answered":
		return verdict{isThere: true, isEvent: true}, nil
	case "error":
		line, _ := value.(string)
		return v, faultOf(serverError(line))
	}
	return v, &fault{refused, errGarbled}
}

func tokensOf(value any) (tokens []int64) {
	switch value := value.(type) {
	case int64:
		return []int64{value}
	case []any:
		for _, it := range value {
			token, _ := it.(int64)
			tokens = append(tokens, token)
		}
	}
	return tokens
}

// redirected remembers the node to which a fault leads: the next request goes there at once.
func (a *attempt) redirected(f *fault, n *node) *fault {
	a.to, a.asking = nil, false
	if f != nil && (f.what == moved || f.what == ask) {
		if a.to = n.elsewhere(f); a.to != nil {
			a.asking = f.what == ask
		}
	}
	return f
}

func (a *attempt) forget() {
	if a.ticket != nil {
		a.ticket.forget()
		a.ticket = nil
	}
}

// troubled waits before the next try, or says why there is none.
func (a *attempt) troubled(f *fault) error {
	now := time.Now()
	isFirst := a.since.IsZero()
	if f.cause == errGone {
		return a.over()
	}
	if f.isReplaced() && a.lost && !a.replaced {
		a.replaced, f = true, &fault{notNow, f.cause}
	}
	if a.trouble = f; isFirst {
		a.since, a.hops = now, 0
	}
	if f.isFull() && !a.lost {
		a.forget() // the server replies this only to a request that it has not queued
	}
	isLast := now.Sub(a.since) >= a.locks.options.Patience || !a.until.IsZero() && !now.Before(a.until)
	if a.isTry {
		isLast = !isFirst || !f.isPrompt()
	}
	if isLast || !f.mayPass() {
		return f.about(a.hold.about())
	}
	if a.to != nil {
		if a.hops++; a.hops <= hopsMax {
			return nil
		}
		a.to = nil
	}
	if isFirst && f.isPrompt() {
		return nil // a connection that had broken unnoticed says nothing about the server
	}
	timer := time.NewTimer(pause(a.tries))
	defer timer.Stop()
	a.tries++
	select {
	case <-timer.C:
	case <-a.waiting.Done():
		return a.over()
	case <-a.locks.closing.Done():
		return a.over()
	}
	return nil
}

func (f *fault) isFull() bool { return f.code() == "QUEUEFULL" }

// over reports what is known when the time is over: that another request was before us, or only that no server replied.
func (a *attempt) over() error {
	name, cause := a.hold.about(), context.Cause(a.ctx)
	if cause != nil && a.trouble != nil {
		cause = errors.Join(cause, a.trouble.cause)
	}
	switch {
	case a.locks.closing.Err() != nil:
		return newError(ErrClosed, name, nil)
	case a.ctx.Err() == context.Canceled:
		return newError(context.Canceled, name, cause)
	case a.trouble != nil && cause == nil:
		return a.trouble.about(name)
	case a.isBehind && a.trouble == nil:
		return newError(ErrBusy, name, cause)
	case cause == nil:
		cause = errOverdue
	}
	return newError(ErrUnavailable, name, cause)
}

// leave makes sure that nothing stays behind on the server.
func (a *attempt) leave() {
	l := a.locks
	isUnsent := a.inFlight == nil || a.inFlight.withdraw()
	if isUnsent && a.ticket == nil && !a.lost {
		a.hold.exit()
		l.leaves(a.hold)
		return
	}
	l.inBackground(func() {
		lease, isToGiveBack := a.asked, false
		if a.ticket != nil {
			became := a.cancel(time.Now().Add(lease))
			isToGiveBack = became == ticketGranted
			a.lost = a.lost || became == ticketUnknown
			a.forget()
		}
		if !isUnsent {
			a.lost = a.lost || !a.inFlight.isDone(l.options.AnswerTimeout) || a.isGranted(a.inFlight)
		}
		l.mutex.Lock()
		a.hold.doubtful = a.hold.doubtful || a.lost
		isIdle := len(a.hold.held) == 0
		l.mutex.Unlock()
		if isToGiveBack || a.lost && isIdle {
			l.newReleasing(a.lock, a.hold, !a.hold.named || a.lost && isIdle, lease).run(nil)
		}
		a.hold.exit()
		l.leaves(a.hold)
	})
}

// isGranted says whether a late answer may have been a grant. A ticket that still waits was granted nothing.
func (a *attempt) isGranted(r *request) bool {
	if r.fault != nil {
		return r.fault.what == silent
	}
	pair, isPair := r.reply.([]any)
	return r.reply == nil || isPair && len(pair) == 2 && pair[0] == nil
}

// The server's replies when a ticket is taken back.
const (
	ticketUnknown   int64 = iota // the lock may have been granted at once, or its event acknowledged
	ticketWithdrawn              // it was not granted
	ticketGranted                // the hold is there, and is ours to release
)

// cancel takes the ticket back.
func (a *attempt) cancel(until time.Time) (became int64) {
	t := a.ticket
	for tries := 0; ; tries++ {
		r := newRequest("", "RLOCK.CANCEL", t.session.name, t.name)
		t.session.node.send(requests, r)
		if !r.isDone(a.locks.options.AnswerTimeout) {
			r.line.Load().retire()
		} else if each, _ := r.reply.([]any); r.fault == nil && len(each) == 1 {
			became, _ = each[0].(int64)
			return became
		} else if r.fault == nil || r.fault.isNoSession() || !r.fault.mayPass() {
			return ticketUnknown
		}
		if !time.Now().Before(until) || a.locks.life.Err() != nil {
			return ticketUnknown
		}
		time.Sleep(pause(tries))
	}
}

// words are the request, with all its options.
func (lock *Lock) words(holder string, lease time.Duration, t *ticket, until time.Time) []string {
	words := append([]string{}, lock.command()...)
	words = append(append(words, lock.names...), holder, milliseconds(lease))
	if lock.kind == permit {
		words = append(words, "LIMIT", strconv.Itoa(lock.limit))
	}
	if t != nil {
		left := "0" // forever
		if !until.IsZero() {
			left = milliseconds(max(time.Millisecond, time.Until(until)))
		}
		words = append(words, "WAIT", left)
		if lock.terms.maxWaiters > 0 {
			words = append(words, "MAX", strconv.Itoa(lock.terms.maxWaiters))
		}
		words = append(words, "SESSION", t.session.name, t.name)
	}
	if lock.terms.fenced {
		words = append(words, "FENCED")
	}
	return words
}

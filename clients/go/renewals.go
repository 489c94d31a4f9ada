// Keeps leases alive: each is renewed when a third of it is over, together with those that are due soon. One goroutine
// serves all leases, sends in one piece what is due, and never waits for an answer. It also reports leases that have ended,
// for which it needs no network.
//
// If replicas have to confirm a lease, it is renewed by a round: renewals, and one WAIT behind them, on a line of its own.
// Such a lease counts only once it is confirmed.

package rlock

import (
	"strconv"
	"sync/atomic"
	"time"
)

type replicas struct {
	wanted int
	within time.Duration
}

// renewal is one try to restart a lease.
type renewal struct {
	hold   *hold
	lease  time.Duration
	limit  time.Time
	round  *replicas
	detach *detaching
	all    []*request // one for each lock; with a round, WAIT behind them
	begins atomic.Int32
}

func (l *Locks) lookBy(at time.Time) {
	if l.looksAt.IsZero() || at.Before(l.looksAt) {
		l.looksAt = at
		select {
		case l.look <- struct{}{}:
		default:
		}
	}
}

func (l *Locks) watch() {
	timer := time.NewTimer(time.Hour)
	for {
		l.mutex.Lock()
		now := time.Now()
		due, late := l.seeTo(now)
		next := l.nextLook()
		l.looksAt = next
		l.unlock()
		for _, r := range late {
			for _, request := range r.all {
				if line := request.line.Load(); line != nil && !request.isDone(0) {
					line.retire()
				}
			}
		}
		l.sendRenewals(due)
		if wait := time.Until(next); !next.IsZero() {
			timer.Reset(wait)
		} else {
			timer.Reset(time.Hour)
		}
		select {
		case <-timer.C:
		case <-l.look:
		case <-l.life.Done():
			return
		}
	}
}

// seeTo ends what has ended, and returns the renewals that are due or overdue.
func (l *Locks) seeTo(now time.Time) (due, overdue []*renewal) {
	isDue := false
	for h := range l.holds {
		for i := len(h.held) - 1; i >= 0; i-- {
			if held := h.held[i]; !now.Before(held.until()) {
				l.lose(held, held.ended())
			}
		}
		if r := h.renewal; r != nil && !now.Before(r.limit) {
			overdue = append(overdue, r)
			l.failed(r, &fault{silent, errOverdue})
		}
		isDue = isDue || h.isDue(now)
	}
	for h := range l.holds {
		if isDue && h.isDue(now.Add(early(h.lease))) {
			due = append(due, l.begins(h, now))
		}
	}
	return due, overdue
}

func (h *hold) isDue(at time.Time) bool { return h.lease > 0 && h.renewal == nil && !at.Before(h.due) }

func (l *Locks) nextLook() (next time.Time) {
	sooner := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	for h := range l.holds {
		for _, held := range h.held {
			sooner(held.until())
		}
		if h.renewal != nil {
			sooner(h.renewal.limit)
		} else if h.lease > 0 {
			sooner(h.due)
		}
	}
	return next
}

func (l *Locks) begins(h *hold, now time.Time) *renewal {
	r := &renewal{hold: h, lease: max(h.lease, h.longestFixed(now)), detach: h.detach}
	if r.detach != nil {
		r.lease = r.detach.begins(h, now)
	}
	r.limit = now.Add(answerLimit(min(h.running, r.lease), l.options.AnswerTimeout))
	if most := h.replicas(); most != nil {
		r.round = &replicas{most.wanted, min(most.within, h.running/6)}
		r.limit = r.limit.Add(r.round.within)
	}
	h.renewal = r
	return r
}

// longestFixed is the longest fixed lease that the same owner still has: a renewal must not shorten it.
func (h *hold) longestFixed(now time.Time) (longest time.Duration) {
	for _, held := range h.held {
		if held.lock.terms.fixed {
			longest = max(longest, held.lock.lease(), held.fixedEnd.Sub(now))
		}
	}
	return longest
}

func (r *renewal) requests() []*request {
	for _, name := range r.hold.names {
		r.all = append(r.all, newRequest(name, "RLOCK.RENEW", name, r.hold.holder, milliseconds(r.lease)))
	}
	if r.round != nil {
		for _, request := range r.all {
			request.key = "" // on another node, no WAIT would come behind it
		}
		within := milliseconds(max(time.Millisecond, r.round.within))
		r.all = append(r.all, newRequest("", "WAIT", strconv.Itoa(r.round.wanted), within))
	}
	return r.all
}

func (l *Locks) sendRenewals(due []*renewal) {
	type place struct {
		node *node
		lane lane
	}
	pieces := map[place][]*request{}
	for _, r := range due {
		n, f := l.nodeOf(l.life, r.hold.names[0])
		if f != nil {
			l.mutex.Lock()
			l.failed(r, f)
			l.unlock()
			continue
		}
		to := place{n, requests}
		if r.round != nil {
			to.lane = rounds
		}
		all := r.requests()
		r.begins.Store(int32(len(all)))
		for _, request := range all {
			request.then = func() {
				if r.begins.Add(-1) == 0 {
					l.renewed(r, n)
				}
			}
		}
		pieces[to] = append(pieces[to], all...)
	}
	for to, all := range pieces {
		to.node.send(to.lane, all...)
	}
}

// came says what all answers together mean: a lease, that something is not held, or a fault.
func (r *renewal) came() (lease leased, isGone bool, worst *fault) {
	lease.length = r.lease
	for i, request := range r.all {
		number, f := request.number()
		switch {
		case f != nil && (worst == nil || f.isOverwritten()):
			worst = f
		case f != nil:
		case i == len(r.hold.names):
			if number < int64(r.round.wanted) && worst == nil {
				worst = &fault{fewReplicas, serverError(strconv.FormatInt(number, 10) + " of " + strconv.Itoa(r.round.wanted))}
			}
		case number == 0:
			isGone = true
		}
		if i == 0 || request.sentAt.Before(lease.after) {
			lease.after = request.sentAt
		}
	}
	return lease, isGone, worst
}

func (l *Locks) renewed(r *renewal, n *node) {
	lease, isGone, f := r.came()
	l.mutex.Lock()
	defer l.unlock()
	h, now := r.hold, time.Now()
	if h.renewal != r {
		return // it was overdue
	}
	switch {
	case f != nil && f.isOverwritten():
		l.loseAll(h, loss(Overwritten, h.about(), f.cause))
	case f == nil && isGone || isGone && f.what == fewReplicas:
		l.loseAll(h, loss(NotHeld, h.about(), nil))
	case f != nil:
		l.failed(r, f)
	case !now.Before(h.until):
		l.loseAll(h, h.ended())
	default:
		if until := lease.until(); until.After(h.until) {
			h.until = until
		}
		h.renewal, h.failures, h.failed, h.node, h.running = nil, 0, nil, n, r.lease
		if h.due = lease.firstDue(h.lease, now); h.again {
			h.due = now
		}
		h.again = false
		l.lookBy(h.due)
		if r.detach != nil && r.detach == h.detach {
			l.handOver(h)
		}
	}
}

// failed notes when to try again. Nothing here decides about a loss: a Held is lost when its deadline passes.
func (l *Locks) failed(r *renewal, f *fault) {
	h, now := r.hold, time.Now()
	if h.renewal != r {
		return
	}
	if !f.mayPass() && h.failures == 0 {
		go l.options.Logger.Error("rlock: the server refuses to renew", "lock", h.about(), "holder", h.holder, "why", f.cause)
	}
	if d := h.detach; d != nil && !f.mayPass() {
		d.refused = f
		h.keepOn()
		close(d.over)
	}
	h.renewal, h.again, h.failed = nil, false, f.cause
	h.due = now.Add(retryAfter(h.failures, h.until.Sub(now)))
	h.failures++
	l.lookBy(h.due)
}

// hasten renews at once what a node has granted, after its connection broke: the node may return without its locks.
func (l *Locks) hasten(n *node) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	now := time.Now()
	for h := range l.holds {
		if h.node != n || h.failures > 0 {
			continue
		}
		if h.again = h.renewal != nil; !h.again && h.due.After(now) {
			h.due = now
		}
	}
	l.lookBy(now)
}

// confirmed has replicas confirm what was granted.
func (a *attempt) confirmed(n *node) (leased, error) {
	lease, isGone, f := a.restart(n, rounds, a.lock.terms.replicas)
	switch {
	case isGone:
		return lease, loss(NotHeld, a.hold.about(), nil)
	case f != nil && f.cause == errGone:
		return lease, a.over()
	case f != nil:
		return lease, f.about(a.hold.about())
	}
	return lease, nil
}

// restart renews all locks of an attempt at once.
func (a *attempt) restart(n *node, on lane, round *replicas) (lease leased, isGone bool, f *fault) {
	r := &renewal{hold: a.hold, lease: a.locks.wanted(a.hold, a.lock.lease(), time.Now()), round: round}
	n.send(on, r.requests()...)
	limit := a.locks.options.AnswerTimeout
	if round != nil {
		limit += round.within
	}
	overdue := time.After(limit)
	for _, request := range r.all {
		if f := a.await(request, overdue); f != nil {
			return lease, false, f
		}
	}
	return r.came()
}

// await waits until a request that needs no ticket has its reply or its fault.
func (a *attempt) await(r *request, overdue <-chan time.Time) *fault {
	select {
	case <-r.done:
		return nil
	case <-overdue:
		r.line.Load().retire()
		return &fault{silent, errOverdue}
	case <-a.ctx.Done():
	case <-a.locks.closing.Done():
	}
	return &fault{refused, errGone}
}

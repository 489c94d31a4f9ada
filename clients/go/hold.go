// What one holder has of one lock, or of several that were acquired together: each Held in its name, and until when
// the lease is guaranteed. Without an owner there is one Held, under a fresh holder.
//
// An owner may have several Held. Then the server counts at least as many holds, and more if the reply to a granted
// request was lost. So the last Held to go releases all holds (doubtful), and no other does. An owner's attempts and
// releases go one after the other, through its gate: so none of them can release what another one was granted.

package rlock

import (
	"context"
	"strconv"
	"strings"
	"time"
)

type hold struct {
	names    []string
	holder   string
	named    bool
	gate     chan struct{} // full while an attempt or a release of this owner is under way
	users    int
	held     []*Held
	node     *node // that has granted or renewed it
	until    time.Time
	longest  time.Duration
	doubtful bool
	lease    time.Duration // to be kept alive; 0: it is not renewed
	running  time.Duration
	due      time.Time
	renewal  *renewal // under way
	again    bool     // a line broke during this renewal
	failures int
	failed   error // why the last one has failed
	detach   *detaching
}

func (h *hold) about() string { return strings.Join(h.names, ", ") }

// holdOf begins the use of a hold by an attempt; leaves ends it.
func (l *Locks) holdOf(names []string, owner string) *hold {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if owner == "" {
		holder := l.identity + strconv.FormatInt(l.count.Add(1), 10)
		return &hold{names: names, holder: holder, users: 1}
	}
	id := [2]string{names[0], owner}
	h := l.named[id]
	if h == nil {
		h = &hold{names: names, holder: owner, named: true, gate: make(chan struct{}, 1)}
		l.named[id] = h
	}
	h.users++
	return h
}

func (l *Locks) leaves(h *hold) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	h.users--
	if h.users == 0 && len(h.held) == 0 && h.named {
		delete(l.named, [2]string{h.names[0], h.holder})
	}
}

func (h *hold) exit() {
	if h.named {
		<-h.gate
	}
}

// wanted is the lease to ask for: at least the longest one that this holder still has, which a shorter one would cut.
func (l *Locks) wanted(h *hold, lease time.Duration, now time.Time) time.Duration {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(h.held) == 0 {
		h.longest = lease
		return lease
	}
	h.longest = max(h.longest, lease)
	return max(h.longest, h.until.Sub(now))
}

func (l *Locks) isShared(h *hold) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return len(h.held) > 0
}

// granted makes a Held of a grant. The grant's lease is now the lease of everything that this holder has.
func (l *Locks) granted(ctx context.Context, a *attempt, lease leased, n *node) *Held {
	lock, h, tokens, doubtful := a.lock, a.hold, a.tokens, a.lost
	l.mutex.Lock()
	defer l.unlock()
	now, until := time.Now(), lease.until()
	switch areOthers := len(h.held) > 0 && h.until.After(now); {
	case !areOthers:
		l.loseAll(h, h.ended())
		h.until, h.lease, h.renewal, h.failed, h.failures = until, 0, nil, nil, 0
	case h.replicas() != nil && lock.terms.replicas == nil:
		h.until = earlier(h.until, until) // no replica has confirmed this one
	case until.After(h.until):
		h.until = until
	}
	h.doubtful, h.node = h.doubtful || doubtful, n
	held := &Held{locks: l, lock: lock, hold: h, tokens: tokens, began: now, parent: ctx, released: make(chan struct{})}
	held.ctx, held.cancel = context.WithCancelCause(context.WithValue(ctx, contextOf{held}, true))
	h.held = append(h.held, held)
	if lock.terms.fixed {
		held.fixedEnd = leased{lease.after, min(lease.length, lock.lease())}.until()
	} else {
		if h.lease = max(h.lease, lock.lease()); h.renewal == nil {
			h.running = lease.length
			h.due = lease.firstDue(h.lease, now)
		}
		l.lookBy(h.due)
	}
	l.holds[h] = struct{}{}
	l.lookBy(held.until())
	return held
}

func (h *hold) replicas() *replicas {
	var most *replicas
	for _, held := range h.held {
		if r := held.lock.terms.replicas; r != nil && (most == nil || r.wanted > most.wanted) {
			most = r
		}
	}
	return most
}

// goes takes a Held out of its hold, with the mutex locked. False: it was lost before.
func (l *Locks) goes(held *Held) bool {
	h := held.hold
	for i, it := range h.held {
		if it == held {
			h.held = append(h.held[:i], h.held[i+1:]...)
			if h.detach != nil {
				close(h.detach.over)
				h.detach = nil
			}
			if len(h.held) == 0 {
				h.lease, h.renewal = 0, nil
				delete(l.holds, h)
			}
			return true
		}
	}
	return false
}

// lose notes why a Held is lost, for good: a later renewal does not protect what was done in between. The server may still
// count the hold.
func (l *Locks) lose(held *Held, why *Error) {
	if l.goes(held) {
		held.hold.doubtful = true
		held.loss = why
		l.losses = append(l.losses, held)
	}
}

func (l *Locks) loseAll(h *hold, why *Error) {
	for len(h.held) > 0 {
		l.lose(h.held[0], why)
	}
}

// ended is the loss of a lease that has ended, with the failure that kept it from being renewed.
func (h *hold) ended() *Error {
	if h.failed == nil {
		return loss(Ended, h.about(), nil)
	}
	return loss(NotRenewed, h.about(), h.failed)
}

// ended is the same for one of its holds: a fixed lease ends by itself.
func (h *Held) ended() *Error {
	if !h.fixedEnd.IsZero() && !time.Now().Before(h.fixedEnd) {
		return loss(Ended, h.hold.about(), nil)
	}
	return h.hold.ended()
}

// unlock reports losses after it has unlocked the mutex, since callers may do anything about a loss.
func (l *Locks) unlock() {
	losses := l.losses
	l.losses = nil
	l.mutex.Unlock()
	for _, held := range losses {
		held.cancel(held.loss)
		go l.reportLoss(held)
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Releasing what was held, and what may have been granted to a caller that has gone.
//
// A release goes on in the background until the server has replied. Only the reply that something was released is success:
// nothing else proves that the lock was held until then. The reply that nothing is held is a loss; or a doubt, if a request
// with a lost reply may have released the lock. While a request may still be on its way to the server, that reply is not
// the end: the client asks again, at growing intervals, for as long as a lease lasts.

package rlock

import (
	"context"
	"time"
)

// longestGiving is for how many leases a silent server is asked again: it may be suspended with a request.
const longestGiving = 10

type releasing struct {
	locks    *Locks
	lock     *Lock
	hold     *hold
	all      bool
	lease    time.Duration
	lost     *Error    // before its release
	valid    time.Time // until when it was guaranteed
	onResult func(error)
	// Stored with the release; nil once it can no longer be stored.
	answer *answer

	isReported  bool
	left        []string // the names that are not released yet
	asked       []*request
	late        map[*request]string // the answers to these may still come
	unanswered  error               // why an answer will never come
	interrupted error               // what came between: the server may have forgotten its locks
	began       time.Time
	until       time.Time
	rest        time.Duration // how long to wait before asking again
	tries       int
	absences    int
}

func (l *Locks) newReleasing(lock *Lock, h *hold, all bool, lease time.Duration) *releasing {
	now := time.Now()
	return &releasing{locks: l, lock: lock, hold: h, all: all, lease: lease, left: append([]string{}, h.names...),
		late: map[*request]string{}, began: now, until: now.Add(lease), onResult: func(error) {}}
}

// releaseAll ends the Held, and reports the result by released. An answer is stored only if the lock is not lost.
func (h *Held) releaseAll(ctx context.Context, answer *answer) {
	l := h.locks
	if h.hold.named {
		h.hold.gate <- struct{}{}
	}
	l.mutex.Lock()
	valid := h.until()
	if h.loss == nil && !time.Now().Before(valid) {
		l.lose(h, h.ended())
	}
	l.goes(h)
	h.hold.users++
	areOthers := len(h.hold.held) > 0
	all := !h.hold.named || !areOthers && h.hold.doubtful
	isNothing := areOthers && h.loss != nil
	g := l.newReleasing(h.lock, h.hold, all, h.lock.lease())
	if g.lost, g.valid = h.loss, valid; h.loss == nil {
		g.answer = answer
	}
	l.unlock()
	h.cancel(context.Canceled)
	g.onResult = func(err error) {
		if h.result = err; g.lost != nil {
			h.result = g.lost
		}
		close(h.released)
		l.options.Observer.Held(h.ctx, h.lock.kind.String(), h.began)
	}
	finish := func() {
		h.hold.exit()
		l.leaves(h.hold)
	}
	switch {
	case isNothing: // the last Held of this owner releases what the server counts too much
		g.reports(nil)
		finish()
	case g.run(orNever(ctx.Done())):
		finish()
	default:
		l.inBackground(func() {
			g.run(nil)
			finish()
		})
	}
}

func orNever(done <-chan struct{}) <-chan struct{} {
	if done == nil {
		return make(chan struct{})
	}
	return done
}

// run returns false if done came first, or if no caller waits for more than was reported: then call it again.
func (g *releasing) run(done <-chan struct{}) bool {
	for {
		if g.rest > 0 {
			select {
			case <-time.After(g.rest):
			case <-g.ends():
				return true
			case <-done:
				return false
			}
		}
		if g.rest = 0; g.asked == nil {
			g.ask()
		}
		overdue := time.NewTimer(g.locks.options.AnswerTimeout)
		for _, r := range g.asked {
			if r.here {
				r.readHere()
			}
			select {
			case <-r.done:
			case <-overdue.C:
				overdue.Reset(0)
			case <-done:
				return false
			}
		}
		overdue.Stop()
		if g.isOver(g.answered()) {
			return true
		}
		if g.isReported && done != nil {
			return false
		}
	}
}

// ends is when to stop asking: after the first report, that is when the client is closed.
func (g *releasing) ends() <-chan struct{} {
	if g.isReported {
		return g.locks.closing.Done()
	}
	return g.locks.life.Done()
}

func (g *releasing) ask() {
	for _, name := range g.left {
		words := []string{"RLOCK.RELEASE", name, g.hold.holder}
		switch {
		case g.answer != nil:
			words = []string{"RLOCK.ANSWER", name, g.hold.holder, string(g.answer.value), "KEEP", milliseconds(g.answer.keep)}
		case g.all:
			words = append(words, "ALL")
		default:
			words = append(words, g.lock.side()...)
		}
		r := newRequest(name, words...)
		g.asked = append(g.asked, r)
		if n, f := g.locks.nodeOf(g.locks.life, name); f != nil {
			r.fault = f
			close(r.done)
		} else {
			r.here = len(g.left) == 1
			n.send(requests, r)
		}
	}
}

// answered returns the worst fault, and keeps in left what is not released.
func (g *releasing) answered() (worst *fault) {
	asked := g.asked
	g.asked = nil
	var left []string
	for i, r := range asked {
		f := &fault{silent, errOverdue}
		select {
		case <-r.done:
			if f = r.fault; f == nil && r.reply != nil {
				continue
			}
			if f != nil && f.what == silent {
				g.unanswered = f.cause
			}
		default:
			if r.withdraw() {
				f.what = unreachable
			} else {
				g.late[r] = g.left[i]
			}
			r.line.Load().retire()
		}
		left = append(left, g.left[i])
		if f != nil && f.doubtsTheServer() {
			g.interrupted = f.cause
		}
		if f != nil && (worst == nil || f.what != notNow) {
			worst = f
		}
	}
	g.left = left
	return worst
}

// refusal is a loss if something else is stored under the lock's name.
func (f *fault) refusal(about string) error {
	if f.isOverwritten() {
		return loss(Overwritten, about, f.cause)
	}
	return f.about(about)
}

// isOver decides what to do about the worst fault, and says whether the release is over.
func (g *releasing) isOver(f *fault) bool {
	now, about := time.Now(), g.hold.about()
	switch {
	case len(g.left) == 0:
		g.locks.allReleased(g)
		g.reports(nil)
		return true
	case f == nil:
		return g.isAbsent(loss(NotHeld, about, nil), false)
	case g.answer != nil && !f.mayPass(): // the lock may still be held
		g.reports(f.refusal(about))
		g.answer = nil
		return false
	case f.isOverwritten(): // with something else in its place, it is not held
		return g.isAbsent(loss(Overwritten, about, f.cause), true)
	case !f.mayPass():
		g.reports(f.about(about))
		return true
	case !g.all && (f.what == silent || !now.Before(g.valid) || now.Sub(g.began) >= g.locks.options.Patience):
		// A release of one hold must not come twice, nor after its lease: it could release what another request was granted.
		if g.locks.isDoubtful(g.hold) {
			g.reports(newError(ErrInDoubt, about, f.cause))
			return true
		}
		g.all, g.began = true, now
	}
	if g.all {
		g.until = earlier(g.began.Add(longestGiving*g.lease), now.Add(g.lease))
	}
	if now.Sub(g.began) >= g.locks.options.Patience {
		g.reports(f.about(about))
	}
	if g.answer != nil && !now.Before(g.valid) { // the lock is no longer known to be this holder's
		g.reports(f.about(about))
		g.answer = nil
	}
	g.rest = pause(g.tries)
	g.tries++
	if !now.Before(g.until) || g.locks.life.Err() != nil {
		g.reports(f.about(about))
		return true
	}
	return false
}

// isAbsent: the server says that the lock is not held. A late answer may show that it was.
func (g *releasing) isAbsent(lost *Error, isCertain bool) bool {
	at := time.Now()
	for r, name := range g.late {
		if !r.isDone(g.locks.options.AnswerTimeout - time.Since(at)) {
			g.unanswered = errOverdue
		} else if r.fault == nil && r.reply != nil {
			g.left = without(g.left, name)
		} else if r.fault != nil && r.fault.what == silent {
			g.unanswered = r.fault.cause
		}
		delete(g.late, r)
	}
	hasEnded := !at.Before(g.valid)
	switch {
	case len(g.left) == 0:
		g.reports(nil)
	case g.unanswered != nil:
		g.reports(newError(ErrInDoubt, lost.Lock, g.unanswered))
	case g.interrupted != nil && hasEnded:
		g.reports(newError(ErrInDoubt, lost.Lock, g.interrupted))
	case hasEnded:
		g.reports(newError(ErrUnavailable, lost.Lock, errOverdue)) // not answered before the lease had ended
	default:
		g.reports(lost)
	}
	if isCertain || !g.all || !g.locks.mayCome(g.hold) || !at.Before(g.until) || g.locks.life.Err() != nil {
		return true
	}
	g.left, g.answer = g.hold.names, nil
	g.rest = min(50*time.Millisecond<<min(g.absences, 12), time.Until(g.until))
	g.absences += 2
	return false
}

// reports passes on the first result, and no other.
func (g *releasing) reports(err error) {
	if !g.isReported {
		g.isReported = true
		g.onResult(err)
	}
}

func without(names []string, name string) (rest []string) {
	for _, it := range names {
		if it != name {
			rest = append(rest, it)
		}
	}
	return rest
}

// isDoubtful notes that the server may have released one hold or not, and says whether the owner still has other Held.
func (l *Locks) isDoubtful(h *hold) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	h.doubtful = true
	return len(h.held) > 0
}

// mayCome: a request that was given up may still be on its way to the server.
func (l *Locks) mayCome(h *hold) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return h.doubtful
}

func (l *Locks) allReleased(g *releasing) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if g.all {
		g.hold.doubtful = false
	}
}

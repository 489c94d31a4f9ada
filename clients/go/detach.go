// Handing a held lock to another process: Detach ends it here and writes it as text, Adopt makes a Held of that text.
//
// The last renewal before the hand-over is one of the usual renewals, with another length: so it is repeated, confirmed
// by replicas, and reports a loss as they do. A renewal that may have shortened the lease counts as if it had.

package rlock

import (
	"context"
	"errors"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// detaching is a hand-over until its renewal is answered.
type detaching struct {
	within  time.Duration
	isBegun bool          // the server may have restarted the lease with this length
	isDone  bool          // the server has confirmed it
	refused *fault        // the server's final no
	over    chan struct{} // closed when it is done or refused, or the lock is released or lost
}

// Detach stops the renewal, keeps the lock on the server, and returns one line of text by which another process adopts
// it: see [Locks.Adopt]. First it restarts the lease, so the other process has that long to adopt the lock: the lock's
// own lease, or another one with the option Lease. Detach takes no other option.
//
// Then this Held is over, as after a release: Context ends, no loss is reported, and Release does nothing.
//
// If the lock is lost, the error is ErrLost. If no server answers before ctx ends or Options.Patience is over, it is
// ErrUnavailable, and the lock is still held and renewed here, with the shorter of the two leases.
//
// A lock with a FixedLease cannot be detached, nor a lock that its Owner holds several times. The text is as secret as
// the holder's name: any program that has it can release the lock.
func (h *Held) Detach(ctx context.Context, options ...Option) (text string, err error) {
	var t terms
	for _, option := range options {
		option(&t)
	}
	t.require(t == terms{length: t.length, mistake: t.mistake}, "Detach takes no option except Lease")
	t.require(!h.lock.terms.fixed, "a lock with a FixedLease cannot be detached")
	if t.mistake != "" {
		return "", newError(ErrConfiguration, h.hold.about(), serverError(t.mistake))
	}
	if h.hold.named {
		select {
		case h.hold.gate <- struct{}{}:
		case <-ctx.Done():
			return "", newError(ErrUnavailable, h.hold.about(), context.Cause(ctx))
		}
	}
	defer h.hold.exit()
	d := &detaching{within: t.length, over: make(chan struct{})}
	if d.within == 0 {
		d.within = h.lock.lease()
	}
	if err := h.beginDetach(d); err != nil {
		return "", err
	}
	ctx, stop := context.WithTimeoutCause(ctx, h.locks.options.Patience, errOverdue)
	defer stop()
	select {
	case <-d.over:
	case <-ctx.Done():
	}
	if err := h.endDetach(d, context.Cause(ctx)); err != nil {
		return "", err
	}
	h.cancel(context.Canceled)
	close(h.released)
	h.locks.options.Observer.Held(h.ctx, h.lock.kind.String(), h.began)
	return h.lock.text(h.hold.holder, h.tokens), nil
}

// beginDetach has the next renewal use the length of the hand-over, and makes that renewal due.
func (h *Held) beginDetach(d *detaching) error {
	if lost := h.Err(); lost != nil {
		return lost
	}
	l := h.locks
	l.mutex.Lock()
	defer l.mutex.Unlock()
	mistake := ""
	switch {
	case h.isGoing:
		mistake = "it is already released or detached"
	case h.loss != nil:
		return h.loss
	case h.hold.detach != nil:
		mistake = "it is already being detached"
	case len(h.hold.held) > 1:
		mistake = "its owner holds it several times: release the others first"
	}
	if mistake != "" {
		return newError(ErrConfiguration, h.hold.about(), serverError(mistake))
	}
	now := time.Now()
	h.hold.detach = d
	if h.hold.again = h.hold.renewal != nil; !h.hold.again {
		h.hold.due = now
	}
	l.lookBy(now)
	return nil
}

// endDetach reports what became of the hand-over. Unless it is done, the lock is renewed here as before.
func (h *Held) endDetach(d *detaching, ended error) error {
	l := h.locks
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if h.hold.detach == d {
		h.hold.keepOn()
	}
	switch {
	case d.isDone:
		return nil
	case h.loss != nil:
		return h.loss
	case h.isGoing:
		return newError(ErrConfiguration, h.hold.about(), serverError("it was released at the same time"))
	case d.refused != nil:
		return d.refused.about(h.hold.about())
	case h.hold.failed != nil:
		ended = errors.Join(ended, h.hold.failed)
	}
	return newError(ErrUnavailable, h.hold.about(), ended)
}

// begins returns the length of the renewal that hands the lock over. The lease counts as shortened from now on, as the
// reply may be lost.
func (d *detaching) begins(h *hold, now time.Time) time.Duration {
	d.isBegun = true
	if d.within < h.running {
		h.until = earlier(h.until, leased{now, d.within}.until())
	}
	return d.within
}

// keepOn ends a hand-over that did not succeed. A renewal that got no reply may still reach the server after later
// ones, so the later ones are not longer.
func (h *hold) keepOn() {
	if d := h.detach; d.isBegun {
		h.lease = min(h.lease, d.within)
	}
	h.detach = nil
}

// handOver ends the Held: the server has restarted the lease for the next process.
func (l *Locks) handOver(h *hold) {
	held := h.held[0]
	h.detach.isDone, held.isGoing = true, true
	l.goes(held)
}

// Adopt continues to hold a lock that another process has detached: it restarts the lease and renews it from then on.
// The Held is as if acquired here, with its tokens.
//
// If the lease has ended meanwhile, the error is ErrLost; if no server answers, ErrUnavailable, and it can be tried
// again. A malformed text is ErrConfiguration. A text can be adopted more than once: then all adopters hold the lock
// under the same name, and a release by one is a loss for the others.
func (l *Locks) Adopt(ctx context.Context, text string) (*Held, error) {
	lock, holder, tokens := l.read(text)
	if lock == nil {
		return nil, newError(ErrConfiguration, "adopt", serverError("malformed text: pass on what Detach returned"))
	}
	l.begin()
	defer l.end()
	a := l.newAttempt(ctx, lock, &hold{names: lock.names, holder: holder, users: 1})
	a.tokens = tokens
	defer a.stop()
	held, err := a.adopt(context.WithoutCancel(ctx))
	a.observe(err)
	return held, err
}

func (a *attempt) adopt(parent context.Context) (*Held, error) {
	for {
		var lease leased
		var isGone bool
		n, f := a.locks.nodeOf(a.ctx, a.hold.names[0])
		if f == nil {
			lease, isGone, f = a.restart(n, requests, nil)
		}
		switch {
		case f != nil && f.isOverwritten():
			return nil, loss(Overwritten, a.hold.about(), f.cause)
		case isGone:
			return nil, loss(NotHeld, a.hold.about(), nil)
		case f == nil:
			return a.hand(parent, lease, n)
		}
		if err := a.troubled(f); err != nil {
			return nil, err
		}
	}
}

const textVersion = "rlock1"

var textKinds = []string{plain: "plain", read: "read", write: "write", permit: "permit", several: "several"}

// text writes what is held as `rlock1/KIND/LEASE/LIMIT/TOKENS/HOLDER/KEY[/KEY…]`.
func (lock *Lock) text(holder string, tokens []int64) string {
	numbers := make([]string, len(tokens))
	for i, token := range tokens {
		numbers[i] = strconv.FormatInt(token, 10)
	}
	if len(numbers) == 0 {
		numbers = []string{"-"}
	}
	parts := []string{textVersion, textKinds[lock.kind], milliseconds(lock.lease()), strconv.Itoa(lock.limit),
		strings.Join(numbers, ","), escaped(holder)}
	for _, name := range lock.names {
		parts = append(parts, escaped(name))
	}
	return strings.Join(parts, "/")
}

// read returns no lock if the text is not exactly as text writes it.
func (l *Locks) read(text string) (lock *Lock, holder string, tokens []int64) {
	parts := strings.Split(text, "/")
	if len(parts) < 7 {
		return nil, "", nil
	}
	kindOf := slices.Index(textKinds, parts[1])
	length, _ := strconv.ParseInt(parts[2], 10, 64)
	limit, _ := strconv.Atoi(parts[3])
	if kindOf < 0 || length < 1 || length > math.MaxInt64/int64(time.Millisecond) {
		return nil, "", nil
	}
	if parts[4] != "-" {
		for _, number := range strings.Split(parts[4], ",") {
			token, _ := strconv.ParseInt(number, 10, 64)
			tokens = append(tokens, token)
		}
	}
	for i, part := range parts {
		parts[i], _ = url.PathUnescape(part) // after a wrong escape, the text below is another one
	}
	holder, names := parts[5], parts[6:]
	lock = (&Lock{locks: l, kind: kind(kindOf), names: names, limit: limit}).with(nil)
	lock.terms.length = time.Duration(length) * time.Millisecond
	lock.terms.require(lock.kind == several || len(names) == 1, "one name")
	lock.terms.require(lock.kind == permit || limit == 0, "no limit")
	lock.terms.require(len(tokens) == 0 || len(tokens) == len(names), "one token for each name")
	lock.terms.require(len(holder) >= 1 && len(holder) <= longestOwner, "a holder")
	if lock.terms.mistake != "" || lock.text(holder, tokens) != text {
		return nil, "", nil
	}
	return lock, holder, tokens
}

// inText turns a text that is escaped for a query into the form that all clients share.
var inText = strings.NewReplacer("+", "%20", "%3A", ":")

func escaped(text string) string { return inText.Replace(url.QueryEscape(text)) }

// A Held: until when it is guaranteed, whether it is lost, and how it is released.

package rlock

import (
	"context"
	"time"
)

// Held is a lock, a permit, or several locks that are held. Its methods may be called by any goroutine. Only
// Release and Detach ask a server.
type Held struct {
	locks    *Locks
	lock     *Lock
	hold     *hold
	tokens   []int64
	began    time.Time
	fixedEnd time.Time
	parent   context.Context
	ctx      context.Context
	cancel   context.CancelCauseFunc

	// Under the mutex of Locks.
	loss     *Error
	isGoing  bool
	released chan struct{}
	result   error
}

// Holder is the name under which the server knows the holder.
func (h *Held) Holder() string { return h.hold.holder }

// Token is the fencing token, or 0 without Fenced. For several locks it is the token of the first.
func (h *Held) Token() int64 {
	if len(h.tokens) == 0 {
		return 0
	}
	return h.tokens[0]
}

// Tokens are the fencing tokens of several locks, in the order of their names.
func (h *Held) Tokens() []int64 { return append([]int64(nil), h.tokens...) }

// Context ends when the lock is lost, with the loss as its context.Cause; and when it is released.
func (h *Held) Context() context.Context { return h.ctx }

// Remaining is for how long the lock is still guaranteed without a renewal.
func (h *Held) Remaining() time.Duration {
	h.locks.mutex.Lock()
	defer h.locks.mutex.Unlock()
	if h.loss != nil || h.isGoing {
		return 0
	}
	return max(0, time.Until(h.until()))
}

// Lost says whether the lock is lost. If so, treat the work as not protected.
func (h *Held) Lost() bool { return h.Err() != nil }

// Err is nil while the lock is held, and after a release in time. Otherwise it says why the lock is lost.
func (h *Held) Err() error {
	h.locks.mutex.Lock()
	defer h.locks.unlock()
	if h.loss == nil && !h.isGoing && !time.Now().Before(h.until()) {
		h.locks.lose(h, h.ended())
	}
	if h.loss == nil {
		return nil
	}
	return h.loss
}

// Release releases the lock and waits for the server's reply: nil only if the server said that the lock was held until
// then. If ctx ends first, the release continues in the background. ctx may be Context(), although the release ends that
// one. A second call reports the same.
func (h *Held) Release(ctx context.Context) error {
	h.locks.mutex.Lock()
	isFirst := !h.isGoing
	h.isGoing = true
	isKnown := h.loss != nil
	h.locks.mutex.Unlock()
	if ctx.Value(contextOf{h}) != nil && (ctx.Err() == nil || !isFirst && !isKnown) {
		var stop context.CancelFunc
		ctx, stop = h.outlive(ctx)
		defer stop()
	}
	if isFirst && h.hold.named { // other calls of its owner may be under way
		h.locks.inBackground(func() { h.releaseAll(context.Background(), nil) })
	} else if isFirst {
		h.releaseAll(ctx, nil)
	}
	select {
	case <-h.released:
		return h.result
	case <-ctx.Done():
	}
	select {
	case <-h.released:
		return h.result
	default:
	}
	if lost := h.Err(); lost != nil {
		return lost
	}
	return newError(ErrUnavailable, h.hold.about(), context.Cause(ctx))
}

// contextOf is the key by which a context is known to derive from that of this Held.
type contextOf struct{ held *Held }

// outlive returns a context for waiting for the release: it ends as ctx does, except by the release itself.
func (h *Held) outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, isLimited := ctx.Deadline(); isLimited {
		return context.WithDeadline(h.parent, deadline)
	}
	return h.parent, func() {}
}

// until is called with the mutex locked.
func (h *Held) until() time.Time {
	if h.fixedEnd.IsZero() {
		return h.hold.until
	}
	return earlier(h.fixedEnd, h.hold.until)
}

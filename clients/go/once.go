// Once: one caller leads and does the work, all others get its answer.
//
// ONCE is an attempt that may also end with the answer of another leader. Callers of one client that ask for the same
// key share a flight: its owner asks the server, the others wait for its outcome. An outcome that is about the owner
// alone, such as its cancellation or the error of its work, is not shared: then the next caller begins a flight.

package rlock

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// flight is one request for all callers of a client that ask for the same key. Its outcome is final once over is closed.
type flight struct {
	over   chan struct{}
	answer *string
	err    error // that every caller would get
}

type answer struct {
	value []byte
	keep  time.Duration
}

// Once returns the answer that is stored for the key. If there is none, one caller leads: it works with the lock of this
// name held, and stores what the work returns for the time keep. All others, in this program and in others, wait and get
// that answer. See [OnceJSON] for values other than bytes.
//
// At most one caller leads at a time, as far as a lease can guarantee it. For the time keep no caller leads, unless the
// answer is lost by a failover, an eviction, or Forget. That is not "exactly once".
//
// The context of the work ends when the lock is lost, as with Do, and when ctx ends. If the work fails, nothing is stored
// and the error reaches only its own caller; the next one leads. If the lock is lost before the answer is stored,
// nothing is stored, and the error is ErrLost. If only the reply is missing, the work was protected: Once returns the
// value of its work, and the Logger gets the doubt.
//
// The work must not call Once for its own key: it would wait for itself. Once takes the options Wait, Lease and
// MaxWaiters. The server limits the length of an answer (rlock.max-answer): a longer one is ErrRefused.
func (l *Locks) Once(ctx context.Context, key string, keep time.Duration,
	work func(context.Context, *Held) ([]byte, error), options ...Option) ([]byte, error) {
	lock := l.Lock(key).with(options)
	lock.once = true
	t := &lock.terms
	t.require(*t == terms{mistake: t.mistake, wait: t.wait, length: t.length, maxWaiters: t.maxWaiters},
		"Once takes no options except Wait, Lease and MaxWaiters")
	t.require(keep >= time.Millisecond, "an answer must be kept for at least 1 ms")
	if t.mistake != "" {
		return nil, newError(ErrConfiguration, lock.about(), serverError(t.mistake))
	}
	a := l.newAttempt(ctx, lock, l.holdOf(lock.names, ""))
	defer a.stop()
	for {
		f, isOwner := l.board(key)
		if !isOwner && a.isTry { // a single try waits for no other caller
			f, isOwner = &flight{over: make(chan struct{})}, true
		}
		if isOwner {
			return a.fly(f, keep, work)
		}
		if err := a.share(f); err != nil {
			return nil, err
		}
		if f.answer != nil || f.err != nil {
			return f.outcome()
		}
	}
}

// board returns the flight for a key. Its owner is the caller that begins it.
func (l *Locks) board(key string) (f *flight, isOwner bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if f = l.flights[key]; f != nil {
		return f, false
	}
	f = &flight{over: make(chan struct{})}
	l.flights[key] = f
	return f, true
}

func (l *Locks) land(key string, f *flight) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.flights[key] == f {
		delete(l.flights, key)
	}
	close(f.over)
}

// outcome is a copy, as each caller may change its own.
func (f *flight) outcome() ([]byte, error) {
	if f.answer == nil {
		return nil, f.err
	}
	return []byte(*f.answer), nil
}

// share waits for the flight of another caller, within the limits of this one.
func (a *attempt) share(f *flight) error {
	select {
	case <-f.over:
		return nil
	case <-a.waiting.Done():
	case <-a.locks.closing.Done():
	}
	a.isBehind = true
	return a.over()
}

// fly asks the server. It works if this caller leads.
func (a *attempt) fly(f *flight, keep time.Duration, work func(context.Context, *Held) ([]byte, error)) ([]byte, error) {
	defer a.locks.land(a.lock.names[0], f)
	held, err := a.acquire(a.ctx)
	switch {
	case err != nil:
		if err = a.orOldModule(err); a.isForAll(err) {
			f.err = err
		}
		return nil, err
	case held == nil:
		f.answer = a.answer
		return f.outcome()
	}
	value, isStored, err := held.lead(a.ctx, keep, work)
	if isStored {
		answer := string(value)
		f.answer = &answer
	}
	return value, err
}

// isForAll: no server has answered for as long as Options.Patience says, so no other caller has to find that out. Any
// other error may be about this caller's own options or limits.
func (a *attempt) isForAll(err error) bool {
	isLate := a.waiting.Err() != nil || !a.until.IsZero() && !time.Now().Before(a.until)
	return errors.Is(err, ErrUnavailable) && !isLate && !a.isTry
}

// orOldModule: a server that does not know ONCE may know the commands of an older module.
func (a *attempt) orOldModule(err error) error {
	if !errors.Is(err, ErrNoModule) {
		return err
	}
	n, f := a.locks.nodeOf(a.ctx, a.lock.names[0])
	if f != nil {
		return err
	}
	r := newRequest(a.lock.names[0], "RLOCK.RENEW", a.lock.names[0], a.hold.holder, milliseconds(a.lock.lease()))
	n.send(requests, r)
	if !r.isDone(a.locks.options.AnswerTimeout) || r.fault != nil && errors.Is(r.fault.about(""), ErrNoModule) {
		return err
	}
	return newError(ErrOldModule, a.hold.about(), errors.Unwrap(err))
}

// lead works with the lock held, and stores what the work returns.
func (h *Held) lead(ctx context.Context, keep time.Duration,
	work func(context.Context, *Held) ([]byte, error)) (value []byte, isStored bool, err error) {
	hasAnswer := false
	defer func() { // also if the work panics
		if !hasAnswer {
			h.endWork(ctx, &err)
		}
	}()
	if value, err = work(h.ctx, h); err == nil {
		err = h.Err()
	} else if ctx.Err() == nil && h.locks.closing.Err() != nil && isStop(h.ctx, err) {
		err = newError(ErrClosed, h.hold.about(), nil)
	}
	if err != nil {
		return nil, false, err
	}
	hasAnswer = true
	switch err = h.store(&answer{value, keep}); {
	case err == nil:
		return value, true, nil
	case errors.Is(err, ErrInDoubt), errors.Is(err, ErrUnavailable):
		h.locks.reportDoubt("answer", h, err)
		return value, false, nil
	}
	return nil, false, err
}

// store ends a Held with an answer, as Release does without one.
func (h *Held) store(it *answer) error {
	l := h.locks
	l.mutex.Lock()
	isFirst := !h.isGoing
	h.isGoing = true
	l.mutex.Unlock()
	if isFirst {
		h.releaseAll(context.Background(), it)
		<-h.released
		return h.result
	}
	if lost := h.Err(); lost != nil {
		return lost
	}
	if l.closing.Err() != nil {
		return newError(ErrClosed, h.hold.about(), nil)
	}
	return newError(ErrConfiguration, h.hold.about(), serverError("the work of Once has released or detached its lock"))
}

// OnceJSON is [Locks.Once] for values that are stored as JSON. All callers get the value as it was stored, including the one
// that did the work.
func OnceJSON[T any](ctx context.Context, locks *Locks, key string, keep time.Duration,
	work func(context.Context, *Held) (T, error), options ...Option) (value T, err error) {
	stored, err := locks.Once(ctx, key, keep, func(ctx context.Context, held *Held) ([]byte, error) {
		made, err := work(ctx, held)
		if err != nil {
			return nil, err
		}
		return json.Marshal(made)
	}, options...)
	if err != nil {
		return value, err
	}
	if err := json.Unmarshal(stored, &value); err != nil {
		return value, newError(ErrConfiguration, key, err)
	}
	return value, nil
}

// Forget removes the answer that Once has stored for a key. The next caller of Once leads.
func (l *Locks) Forget(ctx context.Context, key string) error {
	lock := l.Lock(key).with(nil)
	if mistake := lock.terms.mistake; mistake != "" {
		return newError(ErrConfiguration, lock.about(), serverError(mistake))
	}
	l.begin()
	defer l.end()
	a := l.newAttempt(ctx, lock, &hold{names: lock.names})
	defer a.stop()
	key = answerKey(key)
	for {
		n, f := l.nodeOf(a.ctx, key)
		r := newRequest(key, "DEL", key)
		if f == nil {
			n.send(requests, r)
			f = a.await(r, time.After(l.options.AnswerTimeout))
		}
		if f == nil {
			_, f = r.number()
		}
		if f == nil {
			return nil
		}
		if err := a.troubled(f); err != nil {
			return err
		}
	}
}

// answerKey is the key of an answer, in the slot of its lock.
func answerKey(key string) string {
	if strings.Contains(key, "{") {
		return "rlock_answer:" + key
	}
	return "rlock_answer:{" + key + "}"
}

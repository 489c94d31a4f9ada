// Leading: work that runs under a lock turn by turn, for as long as the program runs.

package rlock

import (
	"context"
	"errors"
	"time"
)

// leadPauses makes the longest pause between two failed turns a few seconds.
const leadPauses = 4

// Lead waits for the lock, works until the work ends or the lock is lost, releases the lock, and begins again at the end
// of the queue. It returns only with an error: when ctx ends, which stops the work and releases the lock; when the work
// fails while the lock is held; or when no later turn can succeed, for example without the module or an access right.
//
// A lost lock and a silent server end no lead: the next turn begins after a pause, which grows to a few seconds. The Logger
// reports why. The context of the work ends when the lock is lost, as with Do; the error of work that was stopped by a loss
// is ignored. Lead waits forever, so it does not take Wait.
func (l *Locks) Lead(ctx context.Context, name string, work func(context.Context, *Held) error, options ...Option) error {
	lock := l.Lock(name).with(options)
	lock.terms.require(lock.terms.wait == nil, "Lead waits without a limit: leave Wait out")
	for tries := 0; ; {
		failed, err := lock.turn(ctx, work)
		switch {
		case failed != nil:
			return err
		case ctx.Err() != nil:
			return newError(ctx.Err(), name, context.Cause(ctx))
		case l.closing.Err() != nil:
			return newError(ErrClosed, name, nil)
		case err == nil:
			tries = 0
			continue
		case !mayLeadLater(err):
			return err
		case !isLoss(err): // a loss is in the log already
			l.options.Logger.Warn("rlock: waits to lead", "lock", name, "why", err)
		}
		select {
		case <-time.After(leadPauses * pause(tries)):
		case <-ctx.Done():
		case <-l.closing.Done():
		}
		tries++
	}
}

// turn is one Do. Failed is the work's own error: not one that the end of its context has caused.
func (lock *Lock) turn(ctx context.Context, work func(context.Context, *Held) error) (failed, err error) {
	err = lock.Do(ctx, func(ctx context.Context, held *Held) error {
		err := work(ctx, held)
		if !held.Lost() && !isStop(ctx, err) {
			failed = err
		}
		return err
	})
	return failed, err
}

// mayLeadLater is false for errors that stay until a person corrects something. ErrBusy comes just before ctx ends.
func mayLeadLater(err error) bool {
	for _, kind := range []error{ErrLost, ErrUnavailable, ErrTooFewReplicas, ErrQueueFull, ErrBusy} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

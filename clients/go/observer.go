// What an operator sees: one line in the log for each loss, and times for metrics.

package rlock

import (
	"context"
	"errors"
	"time"
)

// Observer gets how long things took; clients/go/rlockotel has one for OpenTelemetry. The goroutines that acquire and release
// call its methods, which must not block. Kind is lock, read, write, permit or all, and outcome acquired, answered, busy,
// cancelled or failed: few words, fit for labels. The context is that of the caller, for its values; it may have ended.
type Observer interface {
	Waited(ctx context.Context, kind, outcome string, began time.Time)
	Held(ctx context.Context, kind string, began time.Time)
	Lost(ctx context.Context, kind string)
}

type noObserver struct{}

func (noObserver) Waited(context.Context, string, string, time.Time) {}
func (noObserver) Held(context.Context, string, time.Time)           {}
func (noObserver) Lost(context.Context, string)                      {}

func (a *attempt) observe(err error) {
	outcome := "failed"
	switch {
	case a.answer != nil:
		outcome = "answered"
	case err == nil:
		outcome = "acquired"
	case errors.Is(err, ErrBusy):
		outcome = "busy"
	case errors.Is(err, context.Canceled):
		outcome = "cancelled"
	}
	a.locks.options.Observer.Waited(a.ctx, a.lock.kind.String(), outcome, a.began)
}

// reportLoss runs in a goroutine of its own: a log that blocks must not keep a lease from being renewed.
func (l *Locks) reportLoss(held *Held) {
	l.options.Logger.Warn("rlock: lost", "lock", held.hold.about(), "holder", held.hold.holder,
		"reason", held.loss.Reason, "why", error(held.loss))
	l.options.Observer.Lost(held.ctx, held.lock.kind.String())
}

// reportDoubt is about work that ended while its lock was held, and a release or an answer without a reply.
func (l *Locks) reportDoubt(what string, held *Held, why error) {
	l.options.Logger.Warn("rlock: "+what+" in doubt", "lock", held.hold.about(), "holder", held.hold.holder, "why", why)
}

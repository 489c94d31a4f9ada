// A lock, and how to acquire it. Nothing is sent before it is acquired.

package rlock

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
)

type kind int

const (
	plain kind = iota
	read
	write
	permit
	several
)

func (k kind) String() string { return [...]string{"lock", "read", "write", "permit", "all"}[k] }

// Lock is a lock by its name, one side of a read-write lock, one of some permits, or several locks. It can be used any
// number of times, by any goroutine.
type Lock struct {
	locks *Locks
	kind  kind
	names []string
	limit int
	once  bool // its holder leads: see Once
	terms terms
}

type terms struct {
	mistake    string // the first, if there is one
	wait       *time.Duration
	length     time.Duration
	fixed      bool
	fenced     bool
	owner      string
	maxWaiters int
	replicas   *replicas
}

// Option says how to acquire a lock.
type Option func(*terms)

// require notes a mistake: the call that gets the option fails with it.
func (t *terms) require(isRight bool, otherwise string) {
	if !isRight && t.mistake == "" {
		t.mistake = otherwise
	}
}

// Wait limits the time for everything: connecting, waiting, and the answers. With 0 the lock is tried once. Without
// Wait, the wait lasts until its context ends.
func Wait(limit time.Duration) Option {
	return func(t *terms) {
		t.require(limit >= 0, "Wait must not be negative: leave it out to wait forever")
		t.wait = &limit
	}
}

// Lease is kept alive in place of the client's own lease.
func Lease(length time.Duration) Option { return func(t *terms) { t.lease(length, false) } }

// FixedLease is not renewed: the lock is lost when it ends.
func FixedLease(length time.Duration) Option { return func(t *terms) { t.lease(length, true) } }

func (t *terms) lease(length time.Duration, fixed bool) {
	t.require(length >= time.Millisecond, shortLease)
	t.length, t.fixed = length, fixed
}

const shortLease = "a lease must be at least 1 ms"

// Fenced asks for a token that is larger than all before it, for storage that refuses a token lower than one it has seen.
func Fenced() Option { return func(t *terms) { t.fenced = true } }

// Owner acquires under this name: the same owner can acquire the lock again while it is held. It is for one client at a time.
func Owner(name string) Option {
	return func(t *terms) {
		t.require(len(name) >= 1 && len(name) <= longestOwner, "an owner must have 1 to 512 bytes")
		t.require(name != "mode" && !strings.HasSuffix(name, ":write"), "an owner must not be mode or end in :write")
		t.owner = name
	}
}

// MaxWaiters waits only if fewer wait for this lock already; else ErrQueueFull.
func MaxWaiters(count int) Option {
	return func(t *terms) {
		t.require(count >= 1, "MaxWaiters must be at least 1: use TryAcquire not to wait")
		t.maxWaiters = count
	}
}

// Replicas has so many replicas confirm the grant and each renewal within that time. Otherwise the grant fails with
// ErrTooFewReplicas, or the lock is lost.
func Replicas(count int, within time.Duration) Option {
	return func(t *terms) {
		t.require(count >= 1, "Replicas must be at least 1: leave it out to wait for none")
		t.replicas = &replicas{count, within}
	}
}

// The server's limits.
const (
	longestOwner = 512
	mostNames    = 64
	mostPermits  = 100_000
)

// Lock is an exclusive lock.
func (l *Locks) Lock(name string) *Lock { return &Lock{locks: l, names: []string{name}} }

// Read is the side of a read-write lock that any number of readers hold at the same time.
func (l *Locks) Read(name string) *Lock { return &Lock{locks: l, kind: read, names: []string{name}} }

// Write is the side of a read-write lock that one writer holds alone.
func (l *Locks) Write(name string) *Lock { return &Lock{locks: l, kind: write, names: []string{name}} }

// Permit is one of limit permits.
func (l *Locks) Permit(name string, limit int) *Lock {
	return &Lock{locks: l, kind: permit, names: []string{name}, limit: limit}
}

// All are several plain locks, 1 to 64, all or none. In a cluster they have to be of one slot.
func (l *Locks) All(names ...string) *Lock {
	return &Lock{locks: l, kind: several, names: slices.Clone(names)}
}

// Do is Lock(name).Do.
func (l *Locks) Do(ctx context.Context, name string, work func(context.Context, *Held) error, options ...Option) error {
	return l.Lock(name).Do(ctx, work, options...)
}

// Acquire is Lock(name).Acquire.
func (l *Locks) Acquire(ctx context.Context, name string, options ...Option) (*Held, error) {
	return l.Lock(name).Acquire(ctx, options...)
}

// TryAcquire is Lock(name).TryAcquire.
func (l *Locks) TryAcquire(ctx context.Context, name string, options ...Option) (*Held, error) {
	return l.Lock(name).TryAcquire(ctx, options...)
}

// Do acquires the lock, works, and releases it. The context of the work ends when the lock is lost, with the loss as
// its context.Cause. Do returns what the work returned, joined with the loss if the lock was lost before the work ended.
// If only the release got no reply, the work was protected: that goes to the Logger.
func (lock *Lock) Do(ctx context.Context, work func(context.Context, *Held) error, options ...Option) (err error) {
	held, err := lock.locks.acquire(ctx, ctx, lock.with(options))
	if err != nil {
		return err
	}
	defer held.endWork(ctx, &err)
	return work(held.Context(), held)
}

// isStop: work fails with err because its context has ended.
func isStop(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
}

// endWork releases after work. It joins a loss to the work's error, and reports a doubt. The release of a lock that is
// lost already continues in the background.
func (h *Held) endWork(ctx context.Context, err *error) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	if h.Lost() {
		stop()
	}
	switch released := h.Release(ctx); {
	case released == nil || errors.Is(*err, released):
	case isLoss(released):
		*err = errors.Join(*err, released)
	default:
		h.locks.reportDoubt("release", h, released)
	}
}

// Acquire waits until the lock is held, or ctx ends: then neither a place in the queue nor a hold stays behind. The
// Held outlives ctx; Release ends it.
func (lock *Lock) Acquire(ctx context.Context, options ...Option) (*Held, error) {
	return lock.locks.acquire(ctx, context.WithoutCancel(ctx), lock.with(options))
}

// TryAcquire tries once: ErrBusy if the lock is held or has waiters.
func (lock *Lock) TryAcquire(ctx context.Context, options ...Option) (*Held, error) {
	return lock.Acquire(ctx, append(slices.Clone(options), Wait(0))...)
}

func (lock *Lock) with(options []Option) *Lock {
	with := *lock
	for _, option := range options {
		option(&with.terms)
	}
	t := &with.terms
	t.require(len(lock.names) >= 1 && len(lock.names) <= mostNames, "All needs 1 to 64 names")
	for i, name := range lock.names {
		t.require(name != "", "a lock must have a name")
		t.require(!slices.Contains(lock.names[:i], name), "All needs each name once")
	}
	t.require(lock.kind != permit || lock.limit >= 1 && lock.limit <= mostPermits, "the limit must be from 1 to 100,000")
	t.require(t.owner == "" || lock.kind != permit && lock.kind != several, "permits and All have no Owner")
	return &with
}

func (lock *Lock) lease() time.Duration {
	if lock.terms.length != 0 {
		return lock.terms.length
	}
	return lock.locks.options.Lease
}

func (lock *Lock) about() string { return strings.Join(lock.names, ", ") }

func (lock *Lock) command() []string {
	switch {
	case lock.once:
		return []string{"RLOCK.ONCE"}
	case lock.kind == several && len(lock.names) > 1:
		return []string{"RLOCK.MACQUIRE", strconv.Itoa(len(lock.names))}
	case lock.kind == read:
		return []string{"RLOCK.RACQUIRE"}
	case lock.kind == write:
		return []string{"RLOCK.WACQUIRE"}
	case lock.kind == permit:
		return []string{"RLOCK.PACQUIRE"}
	}
	return []string{"RLOCK.ACQUIRE"}
}

func (lock *Lock) side() []string {
	switch lock.kind {
	case read:
		return []string{"READ"}
	case write:
		return []string{"WRITE"}
	}
	return nil
}

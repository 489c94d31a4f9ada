// Why something failed. Callers get an error, which errors.Is sorts; within the client it is a fault, sorted by what to do
// next. After a fault that may pass, the client tries again; the caller gets it only when its patience is over.

package rlock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
)

// What errors.Is finds in the errors of this package. ErrInDoubt is also ErrLost.
var (
	ErrBusy           = errors.New("not free in time")
	ErrLost           = errors.New("lost")
	ErrInDoubt        = errors.New("no reply to the release: the lock may have been held until then, or lost before")
	ErrUnavailable    = errors.New("no server answers, or not now")
	ErrTooFewReplicas = errors.New("too few replicas have confirmed it in time")
	ErrQueueFull      = errors.New("no more may wait")
	ErrWrongKind      = errors.New("the lock is of another kind")
	ErrDeadlock       = errors.New("it would wait for itself")
	ErrNoModule       = errors.New("the server has no rlock module: add a loadmodule line for librlock.so to its configuration")
	ErrOldModule      = errors.New("the server's rlock module is too old; 0.1.0 or newer is needed")
	ErrNoRight        = errors.New("a wrong password, none where one is needed, or a missing access right")
	ErrRefused        = errors.New("refused")
	ErrConfiguration  = errors.New("invalid")
	ErrClosed         = errors.New("the client is closed")
)

// LossReason says why a lock was lost.
type LossReason string

const (
	NotHeld     LossReason = "not-held"    // the server says so: it was broken, deleted, or forgotten by a restart or failover
	Overwritten LossReason = "overwritten" // something else is stored under its name
	NotRenewed  LossReason = "not-renewed" // the lease ended because no renewal came through; the Cause says why
	Ended       LossReason = "ended"       // the lease ended and no renewal had failed: it was fixed, or this program stalled
)

// Error is the type of every error of this package that is about a lock or a connection.
type Error struct {
	Kind   error // one of the errors above, or that of the context: context.Canceled
	Lock   string
	Reason LossReason // why the lock was lost; empty unless Kind is ErrLost
	Cause  error      // the server's words, or the network's; or nil
}

func newError(kind error, lock string, cause error) *Error {
	return &Error{Kind: kind, Lock: lock, Cause: cause}
}

func loss(reason LossReason, lock string, cause error) *Error {
	return &Error{Kind: ErrLost, Lock: lock, Reason: reason, Cause: cause}
}

func (e *Error) Error() string {
	text := fmt.Sprintf("rlock: %s: %v", e.Lock, e.Kind)
	switch e.Reason {
	case NotHeld:
		return text + ": the server says that it is not held: it was broken, deleted or forgotten"
	case Overwritten:
		return fmt.Sprintf("%s: its name now stores something else (%v)", text, e.Cause)
	case NotRenewed:
		return fmt.Sprintf("%s: the lease could not be renewed: %v", text, e.Cause)
	case Ended:
		return text + ": the lease has ended"
	}
	if e.Cause == nil {
		return text
	}
	return fmt.Sprintf("%s: %v", text, e.Cause)
}

// Is makes the kind visible to errors.Is.
func (e *Error) Is(target error) bool {
	return target == e.Kind || e.Kind == ErrInDoubt && target == ErrLost
}

// isLoss is false for a release in doubt.
func isLoss(err error) bool {
	failure, isOurs := err.(*Error)
	return isOurs && failure.Kind == ErrLost
}

// Unwrap gives the cause, such as a network's error or that of the context.
func (e *Error) Unwrap() error { return e.Cause }

// serverError is a line with which a server refuses.
type serverError string

func (e serverError) Error() string { return string(e) }

func (e serverError) code() string {
	code, _, _ := strings.Cut(string(e), " ")
	return code
}

// what says what to do about a fault.
type what int

const (
	refused     what = iota // the server's no
	notNow                  // nothing was done; a later request may succeed
	notHere                 // nothing was done, as the server is no master any more
	moved                   // nothing was done; another node has the slot
	ask                     // the same, for this request alone
	unreachable             // nothing was sent
	silent                  // it was sent, and its outcome is unknown
	fewReplicas             // it was done, and not confirmed
)

type fault struct {
	what  what
	cause error
}

var errOverdue = errors.New("no answer in time")

func faultOf(line serverError) *fault {
	is := refused
	switch line.code() {
	case "MOVED":
		is = moved
	case "ASK":
		is = ask
	case "TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "NOREPLICAS", "BUSY", "OOM", "NOSESSION", "TAKENOVER":
		is = notNow
	case "READONLY":
		is = notHere
	case "UNBLOCKED": // these texts: the server, or its module, becomes a replica; CLIENT UNBLOCK has another text
		if strings.Contains(string(line), "state changed") || strings.Contains(string(line), "become a replica") {
			is = notHere
		}
	}
	return &fault{is, line}
}

// faultOfDialing sorts the error of a go-redis that made no connection: the server's line, or an error on the way there.
func faultOfDialing(err error) *fault {
	text := err.Error()
	var network net.Error
	switch {
	case strings.Contains(text, "max number of clients"), strings.HasPrefix(text, "LOADING"),
		strings.HasPrefix(text, "MASTERDOWN"), strings.HasPrefix(text, "BUSY"):
		return &fault{notNow, serverError(text)}
	case errors.As(err, &network), errors.Is(err, context.DeadlineExceeded):
	case strings.Contains(text, "WRONGPASS"), strings.Contains(text, "NOAUTH"), strings.Contains(text, "NOPERM"):
		return &fault{refused, serverError(text[max(0, strings.Index(text, "WRONGPASS"), strings.Index(text, "NOAUTH"),
			strings.Index(text, "NOPERM")):])}
	case strings.HasPrefix(text, "ERR "):
		return &fault{refused, serverError(text)}
	}
	return &fault{unreachable, err}
}

func (f *fault) code() string {
	line, _ := f.cause.(serverError)
	return line.code()
}

func (f *fault) mayPass() bool { return f.what != refused }

func (f *fault) isNoSession() bool { return f.code() == "NOSESSION" || f.code() == "TAKENOVER" }

// isReplaced: a later request of the same holder waits in its place.
func (f *fault) isReplaced() bool {
	return f.code() == "UNBLOCKED" && strings.Contains(f.cause.Error(), "took its place")
}

// isOverwritten: something else is in the lock's place, so it is not held.
func (f *fault) isOverwritten() bool { return f.code() == "WRONGTYPE" || f.code() == "WRONGKIND" }

// isPrompt: the fault showed at once, and not after a whole time limit.
func (f *fault) isPrompt() bool { return !errors.Is(f.cause, errOverdue) }

// doubtsTheServer: another server may be the right one now.
func (f *fault) doubtsTheServer() bool {
	switch f.code() {
	case "CLUSTERDOWN", "MASTERDOWN", "LOADING":
		return true
	}
	return f.what == notHere || f.what == unreachable || f.what == silent
}

func (f *fault) about(lock string) *Error {
	kind := ErrUnavailable
	switch {
	case f.what == fewReplicas:
		kind = ErrTooFewReplicas
	case f.what == refused:
		kind = ErrRefused
		switch f.code() {
		case "WRONGKIND":
			kind = ErrWrongKind
		case "DEADLOCK":
			kind = ErrDeadlock
		case "QUEUEFULL":
			kind = ErrQueueFull
		case "NOPERM", "NOAUTH", "WRONGPASS":
			kind = ErrNoRight
		case "ERR":
			if text := strings.ToUpper(f.cause.Error()); strings.Contains(text, "UNKNOWN COMMAND") {
				kind = ErrNoModule
				if strings.Contains(text, "RLOCK.EVENTS") {
					kind = ErrOldModule // the commands that lock exist
				}
			}
		}
	}
	return newError(kind, lock, f.cause)
}

// How long a lease is guaranteed, and when it is renewed: arithmetic alone.
//
// A lease lasts at least until the clock before the request was sent plus its length, as the server began it later than
// that. So that is the deadline, less a margin for two clocks that do not run at the same speed.

package rlock

import "time"

const (
	leaseOfAWait = 3 * time.Second       // what a wait asks for at most: so long a machine that is gone holds others up
	wholeAfter   = 50 * time.Millisecond // then a lease that is shorter than wanted is made whole
	askedAgain   = 60 * time.Second      // a wait is asked for again, so that none lasts forever
	late         = 60 * time.Second      // how long an overdue reply may still come
	untilLate    = 5 * time.Millisecond  // the server's word that the time is over needs as long to come
)

// leased is a lease that lasts at least for that long after that time, which was read before the server was asked.
type leased struct {
	after  time.Time
	length time.Duration
}

func (l leased) until() time.Time {
	return l.after.Add(max(0, l.length-l.length/100-2*time.Millisecond))
}

// firstDue is when a lease is renewed that is to be of a length: when a third is over, and soon if it is shorter than
// that.
func (l leased) firstDue(wanted time.Duration, now time.Time) time.Time {
	due := l.after.Add(min(l.length, wanted) / 3)
	if soon := now.Add(wholeAfter); l.length < wanted && soon.Before(due) {
		return soon
	}
	return due
}

// early is by how much a lease may be renewed sooner than it is due, together with others that are due.
func early(lease time.Duration) time.Duration { return lease / 6 }

// answerLimit is how long a renewal may take: two thirds of the lease are left when it begins, time for four.
func answerLimit(running, answer time.Duration) time.Duration { return min(running/6, answer) }

// retryAfter is the time to the next try after so many failures: soon at first, as a broken connection is mostly
// replaced at once, and later by the time left.
func retryAfter(failures int, left time.Duration) time.Duration {
	return min(pause(failures), min(max(left/8, 20*time.Millisecond), time.Second))
}

// pause doubles from 20 ms to a second.
func pause(tries int) time.Duration {
	return min(20*time.Millisecond<<min(tries, 10), time.Second)
}

// isEnough says whether work can begin under a grant before it is renewed. A lease that is not renewed has to be whole.
func isEnough(left, asked, length time.Duration, fixed bool) bool {
	if fixed {
		return left >= length-length/10
	}
	return left >= asked/3
}

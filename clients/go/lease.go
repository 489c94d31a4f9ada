// How long a lease is guaranteed, and when it is renewed: only arithmetic.
//
// The server begins a lease after the client has sent the request. So the lease lasts at least until the time of sending
// plus its length. That is the deadline, less a margin for two clocks that do not run at the same speed.

package rlock

import "time"

const (
	leaseOfAWait = 3 * time.Second       // the longest lease of a wait: a machine that is gone delays others that long
	wholeAfter   = 50 * time.Millisecond // after this a lease that is shorter than wanted is made whole
	askedAgain   = 60 * time.Second      // after this a wait asks again, so that none lasts forever
	late         = 60 * time.Second      // how long an overdue reply may still come
	untilLate    = 5 * time.Millisecond  // how long the server's reply that the time is over may take to come
)

// leased is a lease that lasts at least for length after the time `after`, which was read before the server was asked.
type leased struct {
	after  time.Time
	length time.Duration
}

func (l leased) until() time.Time {
	return l.after.Add(max(0, l.length-l.length/100-2*time.Millisecond))
}

// firstDue is when a lease is renewed for the first time: when a third of it is over, and soon if it is shorter than
// wanted.
func (l leased) firstDue(wanted time.Duration, now time.Time) time.Time {
	due := l.after.Add(min(l.length, wanted) / 3)
	if soon := now.Add(wholeAfter); l.length < wanted && soon.Before(due) {
		return soon
	}
	return due
}

// early is how long before it is due a lease may be renewed, together with others that are due.
func early(lease time.Duration) time.Duration { return lease / 6 }

// answerLimit is how long a renewal may take: when it begins, two thirds of the lease are left, time for four renewals.
func answerLimit(running, answer time.Duration) time.Duration { return min(running/6, answer) }

// retryAfter is the time to the next try after so many failures: at first it is short, since a broken connection is mostly
// replaced at once; later it depends on the time left.
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

package main

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// at is a moment in ms.
func at(holder string, what kind, call, ret int64) *step {
	return &step{what: what, holder: holder, call: call * ms, ret: ret * ms, lease: 100 * ms, doubt: never}
}

func take(holder string, call, ret int64) *step { return at(holder, acquired, call, ret) }
func deny(holder string, call, ret int64) *step { return at(holder, denied, call, ret) }

func token(token int64, holder string, call, ret int64) *step {
	s := take(holder, call, ret)
	s.token = token
	return s
}

// give is a release after which the lock is still held, or is not.
func give(held bool, holder string, call, ret int64) *step {
	s := at(holder, released, call, ret)
	s.held = held
	return s
}

func guard(until int64, holder string, call, ret int64) *step {
	s := take(holder, call, ret)
	s.guard, s.until = true, until*ms
	return s
}

func doubtful(from int64, s *step) *step {
	s.doubt, s.uncounted = from*ms, true
	return s
}

func all(s *step) *step {
	s.all = true
	return s
}

func event(what kind, until, call, ret int64) *step {
	s := at("", what, call, ret)
	s.until = until * ms
	return s
}

func TestTheModel(t *testing.T) {
	for _, c := range []struct {
		name  string
		right bool
		steps []*step
	}{
		{"one after the other", true, []*step{take("a", 0, 1), give(false, "a", 5, 6), take("b", 7, 8)}},
		{"two holders", false, []*step{take("a", 0, 1), take("b", 50, 51)}},
		{"the lease has ended", true, []*step{take("a", 0, 1), take("b", 99, 101)}},
		{"the lease has not ended", false, []*step{take("a", 0, 1), take("b", 90, 99)}},
		{"a wait that was granted at the release", true, []*step{take("a", 0, 1), take("b", 2, 60), give(false, "a", 40, 70)}},
		{"a wait that was granted before the release", false, []*step{take("a", 0, 1), take("b", 2, 30), give(false, "a", 40, 41)}},
		{"a lease that was waited for began at its grant, not later than its answer", true, []*step{take("a", 0, 90), take("b", 101, 102)}},
		{"three at once find room one after the other", true, []*step{take("a", 0, 300), take("b", 0, 300), take("c", 0, 300)}},
		{"four do not", false, []*step{take("a", 0, 299), take("b", 0, 299), take("c", 0, 299), take("d", 0, 299)}},
		{"a renewal restarts the lease", false, []*step{take("a", 0, 1), at("a", renewed, 80, 81), take("b", 120, 121)}},
		{"a renewed lease ends, too", true, []*step{take("a", 0, 1), at("a", renewed, 80, 81), take("b", 180, 181)}},
		{"a renewal of a hold that another client has", false, []*step{take("a", 0, 1), give(false, "a", 2, 3), take("b", 4, 5), at("a", renewed, 6, 7)}},
		{"a release of a hold that another client has", false, []*step{take("a", 0, 1), take("b", 101, 102), give(false, "a", 103, 104)}},
		{"that holder gets the reply that it has nothing", true, []*step{take("a", 0, 1), take("b", 101, 102), deny("a", 103, 104)}},
		{"a hold is lost", false, []*step{take("a", 0, 1), deny("a", 50, 51)}},
		{"a hold has ended", true, []*step{take("a", 0, 1), deny("a", 50, 101)}},
		{"a re-entry", true, []*step{take("a", 0, 1), take("a", 2, 3), give(true, "a", 4, 5), give(false, "a", 6, 7)}},
		{"a re-entry is lost", false, []*step{take("a", 0, 1), take("a", 2, 3), give(false, "a", 4, 5)}},
		{"a re-entry is added", false, []*step{take("a", 0, 1), give(true, "a", 4, 5)}},
		{"one of two releases leaves the lock held", false, []*step{take("a", 0, 1), take("a", 2, 3), give(true, "a", 4, 5), take("b", 6, 7)}},
		{"the first hold may have ended before the second grant", true, []*step{take("a", 0, 1), take("a", 98, 101), give(false, "a", 102, 103)}},
		{"a release of all holds", true, []*step{take("a", 0, 1), take("a", 2, 3), all(give(false, "a", 4, 5)), take("b", 6, 7)}},
		{"a release of all holds leaves none", false, []*step{take("a", 0, 1), take("a", 2, 3), all(give(true, "a", 4, 5))}},
		{"tokens grow", true, []*step{token(1, "a", 0, 1), give(false, "a", 2, 3), token(2, "b", 4, 5)}},
		{"tokens fall", false, []*step{token(2, "a", 0, 1), give(false, "a", 2, 3), token(1, "b", 4, 5)}},
		{"a token is given twice", false, []*step{token(1, "a", 0, 1), give(false, "a", 2, 3), token(1, "b", 4, 5)}},
		{"a token is given twice to one holder", false, []*step{token(1, "a", 0, 1), token(1, "a", 2, 3)}},
		{"tokens tell the order of waits", true, []*step{token(2, "a", 0, 90), give(false, "a", 91, 92), token(1, "b", 0, 80), give(false, "b", 20, 81)}},
		{"a guard holds what it guarantees", false, []*step{guard(150, "a", 0, 1), take("b", 120, 140)}},
		{"and no longer", true, []*step{guard(150, "a", 0, 1), take("b", 120, 151)}},
		{"a guard within a guard ends neither", false, []*step{guard(150, "a", 0, 1), guard(50, "a", 10, 11), take("b", 60, 61)}},
		{"a release without an answer may have been done", true, []*step{doubtful(40, take("a", 0, 1)), take("b", 41, 42)}},
		{"also after a renewal", true, []*step{doubtful(90, take("a", 0, 1)), doubtful(90, at("a", renewed, 50, 51)), take("b", 91, 92)}},
		{"but not before it was sent", false, []*step{doubtful(40, take("a", 0, 1)), take("b", 20, 30)}},
		{"a command on the key may end a hold", true, []*step{take("a", 0, 1), event(removed, 0, 30, 40), take("b", 35, 36)}},
		{"not before it was sent", false, []*step{take("a", 0, 1), event(removed, 0, 30, 40), take("b", 20, 29)}},
		{"nor those that came after it", false, []*step{take("a", 0, 1), event(removed, 0, 30, 40), take("b", 41, 42), take("c", 43, 44)}},
		{"a clock that was set forward ends leases sooner", true, []*step{take("a", 0, 1), event(clockSet, 50, 10, 11), take("b", 50, 51)}},
		{"by as much as it was set", false, []*step{take("a", 0, 1), event(clockSet, 50, 10, 11), take("b", 20, 30)}},
		{"a new master may not know the holder", true, []*step{take("a", 0, 1), event(promoted, 20, 10, 10), deny("a", 30, 31)}},
		{"nor that it has released", true, []*step{take("a", 0, 1), give(false, "a", 2, 3), event(promoted, 20, 10, 10), at("a", renewed, 30, 31)}},
		{"nor how often it is held", true, []*step{take("a", 0, 1), event(promoted, 20, 10, 10), give(true, "a", 30, 31), give(false, "a", 32, 33)}},
		{"but grants the lock to no other client", false, []*step{take("a", 0, 1), event(promoted, 20, 10, 10), take("b", 30, 31)}},
		{"and knows the next holder", false, []*step{take("a", 0, 1), event(promoted, 20, 10, 10), take("b", 101, 102), deny("b", 103, 104)}},
	} {
		if got := check(c.steps, time.Minute); (got == porcupine.Ok) != c.right || got == porcupine.Unknown {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

// The check of many waiting clients must not take long, whether their history is right or has a defect at its end.
func TestManyWaitForOneLock(t *testing.T) {
	var steps []*step
	for i := range int64(400) {
		waits := token(i+1, string(rune('a'+i)), max(0, i-30)*10, i*10+8)
		steps = append(steps, waits, give(false, waits.holder, i*10+8, i*10+9))
	}
	if got := check(steps, time.Minute); got != porcupine.Ok {
		t.Errorf("right: %s", got)
	}
	if got := check(append(steps, token(1, "last", 3995, 4000)), time.Minute); got != porcupine.Illegal {
		t.Errorf("wrong: %s", got)
	}
}

func TestUndecidedIsNotOk(t *testing.T) {
	if got := (verdict{judged: 1, undecided: 1}).word(); got != "undecided" {
		t.Errorf("%s", got)
	}
}

// Command porcupine judges the histories of rlock-chaos with Porcupine, a checker by other authors: see docs/proof.md.
package main

import (
	"encoding/binary"
	"sort"

	"github.com/anishathalye/porcupine"
)

type kind int

const (
	// A client was granted the lock, renewed its lease, or released a hold.
	acquired kind = iota
	renewed
	released
	// The server replied that the client does not hold the lock.
	denied
	// A command of another kind may have ended the hold.
	removed
	// The server's clock was set forward.
	clockSet
	// A replica became the master. It grants the lock to no client before the lease has ended, but may not know the holder.
	promoted
)

// step is one operation on one lock. Moments and leases are in ns.
type step struct {
	what      kind
	holder    string
	call, ret int64
	lease     int64
	// Of a guard: the end of the time for which it guarantees the lock. Of a promotion: its end. Of a clock: how far it was set.
	until int64
	guard bool
	// 0: no token.
	token int64
	// Of a release: whether it was of all holds, and whether the lock is still held.
	all, held bool
	// From this moment on, a step of this holder that was not answered may end its holds.
	doubt int64
	// A step of this holder that was not answered may have added or released a hold, or have acquired the lock at any later time.
	uncounted, ghost bool
	// Its place in the order of the returns.
	rank int
}

// state is what is known about a lock. Every moment in it is the earliest possible one. A later moment allows less, so the
// earliest ones allow everything that other moments allow.
type state struct {
	holder string
	// 0: not known.
	count int
	// `end`: the hold may have ended from this moment on.
	end, now, token int64
	// After a promotion: when it was complete. 0: the holder is known.
	unsure int64
	// The steps with a rank below `first`, and those in `later`, are done.
	first int
	later string
}

// next is the state after a step, and whether the step is possible.
func next(s state, o *step) (state, bool) {
	s.now = max(s.now, o.call)
	mine := s.holder == o.holder
	switch o.what {
	case acquired:
		if o.token != 0 && o.token <= s.token {
			return s, false
		}
		s.token = max(s.token, o.token)
		end := s.now + o.lease
		switch {
		case mine && max(s.now, s.end) > o.ret && s.count > 0:
			s.count++
		case mine: // The hold may have ended before.
			s.count = 0
		default:
			if s.holder != "" {
				s.now = max(s.now, s.end)
			}
			end = s.now + o.lease
			s.holder, s.count = o.holder, 1
			if o.call >= s.unsure {
				s.unsure = 0
			}
		}
		if o.guard {
			end = o.until
			if mine {
				end = max(end, s.end)
			}
		}
		s.end = min(end, max(s.now, o.doubt))
	case renewed:
		if !mine {
			return s, s.unsure != 0 || o.ghost
		}
		if s.end = max(s.end, o.until); !o.guard {
			s.end = min(s.now+o.lease, max(s.now, o.doubt))
		}
	case released:
		if !mine {
			return s, s.unsure != 0 || o.ghost
		}
		if s.unsure != 0 {
			s.count = 0
		}
		switch {
		case o.held && (o.all || s.count == 1), !o.held && !o.all && s.count > 1:
			return s, false
		case o.held:
			s.count = max(s.count-1, 0)
		default:
			s.holder, s.count, s.end = "", 0, 0
		}
	case denied:
		if mine && s.unsure == 0 {
			s.now = max(s.now, s.end)
			s.holder, s.count, s.end = "", 0, 0
		}
	case removed:
		s.end = min(s.end, s.now)
	case clockSet:
		s.end -= o.until
	case promoted:
		s.unsure = max(s.unsure, o.until)
	}
	if o.uncounted {
		s.count = 0
	}
	return s, s.now <= o.ret
}

// modelOf returns the model for a piece of a lock's history. By the ranks it drops a state that is later than the return of a
// step still to be done: Porcupine does not know the moments in a state, and would go on from it in vain.
func modelOf(steps []*step) porcupine.Model {
	byReturn := append([]*step(nil), steps...)
	sort.SliceStable(byReturn, func(i, j int) bool { return byReturn[i].ret < byReturn[j].ret })
	for rank, step := range byReturn {
		step.rank = rank
	}
	return porcupine.Model{
		Init: func() any { return state{} },
		Step: func(before, input, _ any) (bool, any) {
			o := input.(*step)
			after, possible := next(before.(state), o)
			if !possible {
				return false, before
			}
			after.done(o.rank)
			return after.first == len(byReturn) || after.now <= byReturn[after.first].ret, after
		},
	}
}

func (s *state) done(rank int) {
	var ranks []uint32
	for i := 0; i < len(s.later); i += 4 {
		ranks = append(ranks, binary.BigEndian.Uint32([]byte(s.later[i:i+4])))
	}
	ranks = append(ranks, uint32(rank))
	sort.Slice(ranks, func(i, j int) bool { return ranks[i] < ranks[j] })
	for len(ranks) > 0 && int(ranks[0]) == s.first {
		s.first, ranks = s.first+1, ranks[1:]
	}
	var later []byte
	for _, rank := range ranks {
		later = binary.BigEndian.AppendUint32(later, rank)
	}
	s.later = string(later)
}

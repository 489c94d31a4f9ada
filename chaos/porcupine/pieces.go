package main

import (
	"cmp"
	"slices"
)

// Why operations are left out.
const (
	otherKind  = "of another kind of lock"
	noEffect   = "had no effect"
	notKnown   = "not known what was done"
	acrossCut  = "across a failover or a flush"
	noGrant    = "of a holder without a known grant or renewal"
	inInterval = "of a guard: its interval says more"
)

// piece is a part of a lock's history in which the model applies.
type piece struct {
	lock       string
	steps      []*step
	operations int
}

type left map[string]int

// pieces splits a history by lock. A piece ends where the state of the lock is no longer known, and the next one begins after
// that. A right history stays right without all operations of one holder: so a holder about which too little is known is
// left out.
func (h *history) pieces(excuseFailovers bool, out left) []piece {
	locks := map[string][]*operation{}
	var names []string
	for _, o := range h.operations {
		if locks[o.lock] == nil {
			names = append(names, o.lock)
		}
		locks[o.lock] = append(locks[o.lock], o)
	}
	slices.Sort(names)
	var all []piece
	for _, name := range names {
		operations := locks[name]
		if slices.ContainsFunc(operations, func(o *operation) bool { return o.side() != "" && o.side() != "Plain" }) {
			out[otherKind] += len(operations)
			continue
		}
		cuts, events := h.troublesOf(name, excuseFailovers)
		used := map[*operation]bool{}
		why := map[*operation]string{}
		for i := 0; i+1 < len(cuts); i++ {
			from, to := cuts[i][1], cuts[i+1][0]
			if from > to {
				continue
			}
			before := len(used)
			if steps := stepsBetween(operations, events, from, to, used, why); steps != nil {
				all = append(all, piece{name, steps, len(used) - before})
			}
		}
		for _, o := range operations {
			if !used[o] {
				reason := why[o]
				if reason == "" {
					reason = acrossCut
				}
				out[reason]++
			}
		}
	}
	return all
}

// troublesOf returns the moments at which a history is cut, with the two ends of time; and the troubles that the model knows.
func (h *history) troublesOf(lock string, excuseFailovers bool) (cuts [][2]int64, events []*step) {
	cuts = [][2]int64{{0, 0}, {never, never}}
	for _, t := range h.troubles {
		event := &step{call: t.began, ret: t.ended}
		switch {
		case t.Locks != nil && len(t.Locks.Locks) != 0 && !slices.Contains(t.Locks.Locks, lock):
			continue
		case t.Locks != nil && t.Locks.TakesCounters, t.Failover != nil && !t.Failover.IsCovered && excuseFailovers:
			cuts = append(cuts, [2]int64{t.began, t.ended})
			continue
		case t.Locks != nil:
			event.what = removed
		case t.Failover != nil && (t.Failover.IsCovered || !excuseFailovers):
			event.what, event.ret, event.until = promoted, t.began, t.ended
		case t.ClockStep != nil && t.ClockStep.ByMs > 0:
			event.what, event.until = clockSet, t.ClockStep.ByMs*ms
		default:
			continue
		}
		events = append(events, event)
	}
	slices.SortFunc(cuts, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
	for i := 1; i+1 < len(cuts); i++ {
		cuts[i][1] = max(cuts[i][1], cuts[i-1][1])
	}
	return cuts, events
}

// stepsBetween returns the steps of a piece; none if no lock is granted in it.
func stepsBetween(operations []*operation, events []*step, from, to int64, used map[*operation]bool, why map[*operation]string) []*step {
	var steps []*step
	of := map[string][]*operation{}
	var holders []string
	for _, o := range operations {
		if of[o.holder] == nil {
			holders = append(holders, o.holder)
		}
		of[o.holder] = append(of[o.holder], o)
	}
	for _, holder := range holders {
		steps = append(steps, stepsOf(of[holder], from, to, used, why)...)
	}
	if len(steps) == 0 {
		return nil
	}
	first, last := steps[0].call, int64(0)
	for _, s := range steps {
		first, last = min(first, s.call), max(last, s.ret)
	}
	for _, e := range events {
		if e.ret >= max(first, from) && e.call <= min(last, to) {
			event := *e
			event.call, event.ret = max(e.call, from), min(e.ret, to)
			steps = append(steps, &event)
		}
	}
	return steps
}

// stepsOf returns the steps of one holder between two moments, from its first known grant or renewal on.
func stepsOf(operations []*operation, from, to int64, used map[*operation]bool, why map[*operation]string) []*step {
	var steps []*step
	doubt, uncounted, ghost := int64(never), false, false
	leave := func(o *operation, reason string) {
		if why[o] == "" {
			why[o] = reason
		}
	}
	for _, o := range operations {
		r := o.request
		isGuard := r.Guard != nil
		switch {
		case o.said == "Failed":
			leave(o, noEffect)
			continue
		case o.ret == never:
			leave(o, notKnown)
		}
		if o.call < from || o.ret > to || o.ret == never {
			if renewals := renewalsOf(o, nil, from, to); len(renewals) > 0 {
				used[o] = true
				steps = append(steps, renewals...)
			}
			if !o.isDenied() && !isGuard && o.call < to {
				uncounted = true
				if o.ret > from {
					doubt = min(doubt, o.leaseEnd(o.call))
					ghost = ghost || r.Acquire != nil
				}
			}
			continue
		}
		s := &step{holder: o.holder, call: o.call, ret: o.ret, lease: o.leaseEnd(0)}
		switch {
		case o.said == "Granted":
			s.what, s.guard = acquired, isGuard
			s.token = tokenOf(o)
			if isGuard {
				steps = append(steps, renewalsOf(o, s, from, to)...)
			}
		case steps == nil && o.isDenied():
			leave(o, noEffect)
			continue
		case steps == nil && o.said == "Renewed":
			s.what, uncounted = acquired, true
		case steps == nil:
			leave(o, noGrant)
			continue
		case isGuard || steps[0].guard:
			leave(o, inInterval)
			continue
		case o.isDenied():
			s.what = denied
		case o.said == "Renewed":
			s.what = renewed
		case o.said == "Released":
			s.what, s.all, s.held = released, r.Release.All, string(o.value) == "0"
		default:
			leave(o, noEffect)
			continue
		}
		used[o] = true
		steps = append(steps, s)
	}
	for _, s := range steps {
		s.doubt, s.uncounted, s.ghost = doubt, uncounted, ghost
		if s.guard {
			s.doubt = never
		}
	}
	return steps
}

// renewalsOf returns a guard's renewals between two moments. Without its grant, the first of them proves that it has the lock.
func renewalsOf(o *operation, grant *step, from, to int64) (renewals []*step) {
	if o.request.Guard == nil {
		return nil
	}
	for i, g := range o.guarantees() {
		if i == 0 && grant != nil {
			grant.until = g.end
		} else if g.sent >= from && g.at <= to {
			s := &step{what: renewed, holder: o.holder, call: g.sent, ret: g.at, guard: true, until: g.end}
			if grant == nil && renewals == nil {
				s.what = acquired
			}
			renewals = append(renewals, s)
		}
	}
	return renewals
}

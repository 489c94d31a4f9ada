// How many attempts of this client try or wait for one lock.

package rlock

// crowd counts the attempts of this client for one lock. If others wait, an attempt need not try first, but it must not
// overtake one that still tries.
type crowd struct{ trying, waiting int }

func (a *attempt) joins() {
	l := a.locks
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if a.isTry {
		return
	}
	if a.crowd = l.crowds[a.lock.names[0]]; a.crowd == nil {
		a.crowd = &crowd{}
		l.crowds[a.lock.names[0]] = a.crowd
	}
	a.place = &a.crowd.trying
	if a.waits = a.crowd.trying == 0 && a.crowd.waiting > 0; a.waits {
		a.place = &a.crowd.waiting
	}
	*a.place++
}

// isQueued notes that this attempt waits in the queue: the next one may go behind it.
func (a *attempt) isQueued() {
	a.locks.mutex.Lock()
	defer a.locks.mutex.Unlock()
	*a.place--
	a.place = &a.crowd.waiting
	*a.place++
}

func (a *attempt) leavesCrowd() {
	a.locks.mutex.Lock()
	defer a.locks.mutex.Unlock()
	if a.crowd == nil {
		return
	}
	if *a.place--; *a.crowd == (crowd{}) {
		delete(a.locks.crowds, a.lock.names[0])
	}
}

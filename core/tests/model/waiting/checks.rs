//! The checks at each moment and after each step: the purposes of waiting.

use super::play::Play;
use super::world::{Came, Granting, Happening, LOCKS, Left, Look, Waiting, Who, kind_of};
use rlock_core::lock::{Outcome, Side};
use std::collections::BTreeSet;

impl Play {
    /// Goes through what has happened since the last time.
    pub fn digest(&mut self) {
        let mut granted = None;
        loop {
            let happening = self.world.watcher.happenings.borrow_mut().pop_front();
            match happening {
                None => break,
                Some(Happening::Came(came)) => self.came(&came),
                Some(Happening::Granted(granting)) => {
                    assert!(granted.replace(granting).is_none(), "who is granted a lock leaves its queue");
                }
                Some(Happening::Left(left)) => self.left(&left, granted.take()),
                Some(Happening::TakenBack(named, has_waited)) => self.is_taken_back(&named, has_waited),
                Some(Happening::CancelAnswered(id, cancelled)) => self.cancel_is_answered(id, &cancelled),
                Some(Happening::SessionEnded(name)) => self.note_end(name),
                Some(Happening::GivenBack(lock, holder, side)) => self.released(lock, holder, side),
                Some(Happening::Woken(call)) => self.call_is_woken(call),
                Some(Happening::LetGo(id, outcome)) if self.clients.contains_key(&id) => {
                    self.untold.push_back((id, outcome));
                }
                // A call that was taken back.
                Some(Happening::LetGo(..)) => {}
            }
        }
        assert!(granted.is_none(), "who is granted a lock leaves its queue");
        for (name, session) in self.sessions.all() {
            assert!(
                session.call.as_ref().is_none_or(|call| !call.has_news),
                "a call of {name} waits though there is news"
            );
        }
    }

    /// Notes a session that has ended by itself, and not by its process.
    fn note_end(&mut self, name: &str) {
        if let Some(session) = self.sessions.get(name) {
            assert!(session.is_over(self.now()), "{name} ends before its time");
            self.ended(name);
        }
    }

    fn came(&mut self, came: &Came) {
        assert!(!self.world.grace().is_running(), "{} comes within the grace", came.holder);
        let overtaken = came.waiting.iter().find(|waiting| self.is_attended(waiting));
        assert!(came.was_inside || overtaken.is_none(), "{} comes and overtakes {overtaken:?}", came.holder);
    }

    fn left(&mut self, left: &Left, granted: Option<Granting>) {
        let waiter = &left.waiter;
        if let Some(granting) = granted {
            return self.granted(waiter, &left.ahead, granting);
        }
        let is_open = self.sessions.number(waiter.session).is_some();
        if waiter.is_cancelled || !is_open {
            return;
        }
        let time_is_up = waiter.deadline.is_some_and(|deadline| deadline <= self.now());
        let mut outcomes = Vec::new();
        outcomes.extend(time_is_up.then_some(Outcome::Busy { left_ms: left.left_ms }));
        outcomes.extend(waiter.is_dismissed.then_some(Outcome::NowReplica));
        outcomes.extend(left.refusal.map(Outcome::Refused));
        outcomes.extend(waiter.is_asked_anew.then_some(Outcome::Replaced));
        assert!(!outcomes.is_empty(), "{waiter:?} leaves its queue for no reason");
        self.happened(waiter, outcomes);
    }

    fn granted(&mut self, waiter: &Waiting, ahead: &[Waiting], granting: Granting) {
        let Granting { lock, holder, was_inside, held, taken, token } = granting;
        assert!(!self.world.grace().is_running(), "{waiter:?} is granted within the grace");
        assert!(self.world.held_back_until.get() <= self.now(), "{waiter:?} is granted by a server that stalled");
        assert!(!self.world.is_too_long(waiter.lease), "{waiter:?} is granted for longer than the grace");
        assert_eq!((waiter.lock, waiter.holder), (lock, holder), "who is granted the lock leaves");
        assert!(!waiter.is_cancelled, "{waiter:?} was cancelled and is granted the lock");
        let end = waiter.lease.end(self.now()).unwrap();
        assert!(waiter.side == Side::Write || held.end == end, "{waiter:?} has another lease: {held:?}, not {end}");
        let overtaken = ahead.iter().find(|ahead| self.is_attended(ahead));
        assert!(overtaken.is_none() || was_inside, "{waiter:?} overtakes {overtaken:?}");
        let is_in_bounds = waiter.side.limit().is_none_or(|limit| was_inside || taken <= limit.get());
        assert!(is_in_bounds, "{waiter:?} is granted as the {taken}th");
        let Some(number) = waiter.session else {
            if let Who::Client(id) = waiter.who {
                self.granted_to_clients.insert(id, (lock, holder, kind_of(waiter.side)));
            }
            return;
        };
        let is_open = self.sessions.number(Some(number)).is_some();
        assert!(!is_open || self.is_attended(waiter), "{waiter:?} is granted the lock, and has no client");
        self.happened(waiter, vec![Outcome::Granted { token }]);
    }

    fn happened(&mut self, waiter: &Waiting, outcomes: Vec<Outcome>) {
        assert!(!waiter.is_cancelled, "{waiter:?} was cancelled");
        if let Some(session) = self.sessions.number_mut(waiter.session) {
            session.happened(ticket_of(waiter), outcomes);
        }
    }

    /// The engine releases only grants to clients that were gone before their reply was sent.
    fn released(&mut self, lock: usize, holder: &str, side: Side) {
        let of_the_dead = self.granted_to_the_dead.iter().position(|dead| *dead == (lock, holder, side));
        self.granted_to_the_dead.remove(of_the_dead.unwrap_or_else(|| panic!("{holder}'s lock is released by nobody")));
    }

    fn call_is_woken(&mut self, call: u64) {
        let now = self.now();
        let session =
            self.sessions.all_mut().find(|session| session.call.as_ref().is_some_and(|other| other.id == call));
        match session {
            Some(session) => {
                let waited = session.answered(now).unwrap();
                assert!(waited.has_news || now >= waited.until, "call {call} is answered before there is news");
            }
            None => assert!(self.superseded.contains(&call), "call {call} is answered for no reason"),
        }
        for connection in self.connections.iter_mut().filter(|connection| connection.call == Some(call)) {
            assert!(!std::mem::replace(&mut connection.is_woken, true), "call {call} is answered twice");
        }
        self.woken.push_back(call);
    }

    /// A lock with only unattended waiters is free to all others.
    pub fn check_refusal(&self, lock: usize, holder: &str, side: Side) {
        let nobody = |waiting: &Waiting| waiting.lock != lock || !(waiting.is_dismissed || self.is_attended(waiting));
        let is_free = self.world.is_free_to(lock, holder, side) && self.waiting().iter().all(nobody);
        assert!(!is_free || self.world.turn.get() < 100, "{holder} is refused a lock that is free");
    }

    pub fn check(&self) {
        for lock in 0..LOCKS.len() {
            self.check_exclusion(lock);
        }
        assert_eq!(self.engine.fault(), None);
        let waiting = self.waiting();
        assert_eq!(self.engine.length(), waiting.len(), "everyone who is not answered waits");
        let tickets = waiting.iter().filter(|waiting| waiting.session.is_some()).count();
        assert_eq!(self.engine.sessions().waiting, tickets, "the tickets that wait");
        assert_eq!(self.engine.sessions().len(), self.sessions.len(), "the open sessions");
        if self.is_quiet() {
            self.check_quiet(&waiting);
        }
    }

    fn check_exclusion(&self, lock: usize) {
        if self.world.permits(lock).is_some() {
            return;
        }
        let fields = self.world.fields(lock);
        let mode = fields.get("mode").map(String::as_str);
        let inside: BTreeSet<_> =
            fields.keys().filter(|field| *field != "mode").map(|field| field.trim_end_matches(":write")).collect();
        let is_shared = mode == Some("read") && !fields.keys().any(|field| field.ends_with(":write"));
        assert!(is_shared || inside.len() <= 1, "someone is beside an exclusive holder: {fields:?}");
    }

    /// When everything is done that can be done.
    fn check_quiet(&self, waiting: &[Waiting]) {
        let now = self.now();
        for lock in 0..LOCKS.len() {
            let mut is_first = true;
            for waiter in waiting.iter().filter(|waiter| waiter.lock == lock && self.is_attended(waiter)) {
                let is_free = self.world.is_free_to(lock, waiter.holder, waiter.side);
                let is_its_turn = std::mem::take(&mut is_first);
                assert!(!(is_free && is_its_turn), "{waiter:?} sleeps while the lock is free to it");
            }
        }
        for waiter in waiting {
            assert!(waiter.deadline.is_none_or(|deadline| deadline > now), "{waiter:?} waits for too long");
            assert!(!waiter.is_dismissed, "{waiter:?} is not dismissed");
            assert!(waiter.session.is_none() || self.sessions.number(waiter.session).is_some(), "{waiter:?} stays");
        }
        let unattended = self.sessions.all().filter(|(_, session)| !session.is_attended(now)).count();
        let noted = self.engine.sessions().abandoned();
        assert_eq!(noted, unattended, "the sessions that nobody attends");
        for (name, session) in self.sessions.all() {
            assert!(!session.is_long_over(now), "{name} has not ended");
            assert!(session.call.as_ref().is_none_or(|call| now < call.until), "a call of {name} waits for too long");
        }
        let events: usize = self.sessions.all().map(|(_, session)| session.events()).sum();
        assert_eq!(self.engine.sessions().events, events, "the events that are kept");
        assert_eq!(self.engine.releases_due(), 0, "what clients were granted that are gone");
    }
}

fn ticket_of(waiter: &Waiting) -> &str {
    match &waiter.who {
        Who::Client(_) => "",
        Who::Ticket { ticket, .. } => ticket,
    }
}

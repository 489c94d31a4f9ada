//! What must be true after each move, and when all faults have ended: docs/promises.md, as far as it needs no real server.

use crate::program::{Guard, Heard, Releasing, Wanted};
use crate::server::{Health, Request, Server, text};
use crate::world::{LIMIT, LOCKS, Move, World};
use rlock_client_core::{Error, Kept, Side};
use std::collections::BTreeMap;
use std::time::Duration;

impl World {
    pub fn check(&mut self) {
        (0..self.programs.len()).for_each(|program| self.check_leases(program, None));
        self.check_exclusion();
    }

    pub fn check_from(&mut self, program: usize, from: usize) {
        self.check_leases(program, Some(from));
        self.check_exclusion();
        let now = self.programs[program].now(self.at);
        for (id, caller) in &self.programs[program].attempts {
            // A confirmation has its own time limit.
            let by = caller.by.filter(|_| !caller.wanted.confirmed && !self.is_stalled(program));
            assert!(by.is_none_or(|by| now < by), "attempt {id} was to be answered by {:?}", caller.by);
        }
    }

    /// A guard that is known to hold is held at the server that replied so; a loss is reported in time, and is
    /// final. `from`: the server of the latest reply.
    fn check_leases(&mut self, program: usize, from: Option<usize>) {
        let (at, is_calm) = (self.at, self.is_calm);
        let is_stalled = self.is_stalled(program);
        let it = &mut self.programs[program];
        let now = it.now(at);
        let lefts: Vec<_> =
            it.guards.values().map(|it_is| (it.left(&it_is.grant, at), it.is_notified_of_loss(&it_is.grant))).collect();
        for ((id, guard), (left, is_notified)) in it.guards.iter_mut().zip(lefts) {
            let Guard { key, holder, .. } = guard;
            if left.is_zero() {
                let was_known_to_hold = guard.until.is_some_and(|until| until > now);
                assert!(!was_known_to_hold || is_notified, "{holder} is lost, and that was not reported");
                assert!(!is_calm || !guard.is_kept || is_stalled, "{holder} is lost though nothing went wrong");
                guard.is_lost = true;
                continue;
            }
            assert!(!guard.is_lost, "{holder} was lost, and is known to hold again");
            if let Some(from) = from.filter(|_| guard.until.is_none_or(|until| until < now + left)) {
                guard.backed_by = from;
            }
            guard.until = Some(now + left);
            let server = &self.servers[guard.backed_by];
            let hold = (key.clone(), holder.clone());
            let is_taken_away = server.taken_away.contains(&hold);
            assert!(
                is_taken_away || server.health == Health::Down || server.is_held_by(key, holder),
                "guard {id}: {holder} is known to hold {key} for {left:?} more, and the server has {:?}",
                server.holds()
            );
            let others = || self.servers.iter().enumerate().filter(|(number, _)| *number != guard.backed_by);
            let by_clock = server.node.now();
            let is_known =
                |other: &Server| other.has_recorded(key, holder, by_clock) || other.taken_away.contains(&hold);
            // By the clock of a new master a lease may end sooner: then its grace keeps others out.
            let is_excused = is_taken_away || self.has_failed_over;
            assert!(
                is_excused || !guard.is_confirmed || others().any(|(_, server)| is_known(server)),
                "guard {id}: {holder} is known to hold {key} for {left:?} more, and no replica has it"
            );
        }
    }

    /// No two holders are sure of a lock at one time, unless another client deleted it.
    fn check_exclusion(&self) {
        if self.has_failed_over && !self.protection.promises_one_holder {
            return;
        }
        let mut believed: BTreeMap<&str, Vec<(&str, Side)>> = BTreeMap::new();
        for program in &self.programs {
            for guard in program.guards.values() {
                let hold = (guard.key.clone(), guard.holder.clone());
                let is_deleted = self.servers.iter().any(|server| server.deleted.contains(&hold));
                if !is_deleted && !program.left(&guard.grant, self.at).is_zero() {
                    believed.entry(&guard.key).or_default().push((&guard.holder, guard.side));
                }
            }
        }
        for (key, mut holders) in believed {
            holders.sort_unstable();
            holders.dedup();
            let writer = holders.iter().find(|(_, side)| *side == Side::Write).map(|(holder, _)| *holder);
            let is_shared = key == "p" || key == "rw" && writer.is_none();
            let mut names: Vec<_> = holders.iter().map(|(holder, _)| *holder).collect();
            names.dedup();
            let most = if key == "p" { usize::try_from(LIMIT).expect("few") } else { 1 };
            assert!(names.len() <= most || is_shared && key == "rw", "{key} has two holders: {holders:?}");
        }
    }

    /// Fencing tokens grow, whatever the server.
    pub fn check_tokens(&mut self, server: usize) {
        for lock in LOCKS {
            let Some(token) = self.servers[server].token(lock) else { continue };
            let before = self.servers[server].tokens.insert(lock, token);
            let is_new = before != Some(token);
            let last = self.tokens.entry(lock).or_insert(0);
            // Two masters that both grant may do so in one µs.
            let has_one_master = self.protection.promises_one_holder && self.protection.lag.is_some();
            let must_grow = !self.has_failed_over || has_one_master;
            if is_new && self.servers[server].is_master() {
                assert!(token > *last || !must_grow, "{lock} has the token {token} after {last}");
                *last = token.max(*last);
            }
        }
    }

    /// If a server replies that a lock is not held, the client no longer counts it as held.
    pub fn check_not_renewed(&self, program: usize, server: usize, request: Option<&Request>) {
        let Some([name, key, holder, _]) = request.map(Vec::as_slice) else { return };
        if name != b"RLOCK.RENEW" {
            return;
        }
        let (key, holder) = (text(key), text(holder));
        let program = &self.programs[program];
        for guard in program.guards.values().filter(|it| it.key == key && it.holder == holder && !it.is_named) {
            let is_known_to_hold = !program.left(&guard.grant, self.at).is_zero();
            assert!(!is_known_to_hold || guard.backed_by != server, "{holder} is not held, and is known to hold");
        }
    }

    /// What is reported to callers is true.
    pub fn hears(&mut self, program: usize, heard: Heard) {
        match heard {
            Heard::Granted { guards } => {
                for id in guards {
                    let guard = &self.programs[program].guards[&id];
                    assert!(
                        !self.programs[program].left(&guard.grant, self.at).is_zero(),
                        "a caller that is granted a lock has it"
                    );
                    self.check_leads(guard);
                    if let Some(token) = guard.grant.token {
                        let is_first = self.tokens_of_guards.insert((guard.key.clone(), token));
                        assert!(is_first || self.has_failed_over, "{} has the token {token} twice", guard.key);
                    }
                }
            }
            Heard::Answered { key, value } => {
                self.check_answered(key, &value);
                self.programs[program].answered.push(value);
            }
            Heard::Refused { by, until_granted, error } => {
                let is_over = by.is_some_and(|by| by <= self.programs[program].now(self.at));
                match &error {
                    None => assert!(!until_granted, "it was to wait until it is granted"),
                    Some(error) => assert!(!self.is_calm || is_over, "nothing went wrong: {error}"),
                }
                self.programs[program].refused.push(error);
            }
            Heard::Released(releasing, result) => {
                self.check_release(&releasing, &result);
                self.check_own_answer(&releasing, &result);
                self.programs[program].released.push(result);
            }
        }
    }

    fn check_release(&self, releasing: &Releasing, result: &Result<(), Error>) {
        let Releasing { key, holder, released_before, was_known_to_hold, is_named, .. } = releasing;
        let was_released = self.released_by_servers(key, holder) > *released_before;
        match result {
            Ok(()) => assert!(was_released, "{holder} was reported as released, and no server has said so"),
            Err(error) if error.is_lost() && !error.is_in_doubt() && *was_known_to_hold && !is_named => {
                assert!(!was_released, "{holder} was released, and is reported as lost");
            }
            Err(error) => assert!(!self.is_calm || !releasing.is_kept, "nothing went wrong: {error}"),
        }
    }

    pub fn is_settled(&self) -> bool {
        self.programs.iter().all(crate::program::Program::is_settled)
    }

    /// No more faults of the network: everything arrives at once, while no time passes.
    pub fn is_quiet(&mut self) {
        loop {
            for wire in self.cut() {
                self.take(Move::IsNoticed(wire));
            }
            for wire in self.late() {
                self.take(Move::Late { wire, arrives: true });
            }
            let Some(next) = self.possible().first().cloned() else {
                if self.cut().is_empty() && self.late().is_empty() {
                    return;
                }
                continue;
            };
            self.take(next);
        }
    }

    /// All faults end: servers are up and in step, and programs learn where the master is.
    fn heals(&mut self) {
        for server in 0..self.servers.len() {
            self.servers[server].refuses = None;
            match self.servers[server].health {
                Health::Up => {}
                Health::Suspended => self.take(Move::Resumes(server)),
                Health::Down => self.take(Move::Restarts { server, keeps: true }),
            }
            self.take(Move::Joins(server));
            self.take(Move::ReplicaGoesOn(server));
        }
        if !self.servers[self.master].is_master() {
            self.take(Move::IsPromoted(self.master));
        }
        (0..self.servers.len()).for_each(|server| self.take(Move::Follows(server)));
        self.take(Move::NameMoves);
    }

    /// All faults end, and callers release what they have: then every waiter gets its lock, and in the end nothing is left.
    pub fn comes_to_rest(&mut self) {
        self.heals();
        (0..self.programs.len()).for_each(|program| self.take(Move::Settle(program)));
        let settings = self.programs[0].settings;
        let patience = settings.patience + settings.connect + settings.answer;
        let end = self.at + self.longest_lease * 2 + patience * 3 + self.protection.grace * 2;
        let end = if self.has_ended_sessions { end + Duration::from_secs(61) } else { end };
        loop {
            self.is_quiet();
            for program in 0..self.programs.len() {
                let guards: Vec<_> = self.programs[program].guards.iter().map(|(id, it)| (*id, it.is_lead)).collect();
                for (guard, is_lead) in guards {
                    // Some leaders answer, and others fail.
                    self.take(match is_lead && guard % 2 == 0 {
                        true => Move::Answer { program, guard, keep: Duration::from_secs(1) },
                        false => Move::Release { program, guard, is_awaited: true },
                    });
                }
            }
            self.is_quiet();
            if self.programs.iter().any(|it| !it.guards.is_empty()) {
                continue;
            }
            if self.programs.iter().all(|it| it.attempts.is_empty() && it.releases.is_empty()) {
                break;
            }
            let waiting: Vec<_> = self.programs.iter().flat_map(|it| it.attempts.keys()).collect();
            assert!(self.at < end, "waiters get an answer: {waiting:?}");
            self.take(Move::Passes);
        }
        if self.is_calm {
            self.nothing_is_held();
        }
        self.is_left_alone();
    }

    /// All faults have ended: the program finds the master, and is granted a lock.
    pub fn is_served(&mut self, program: usize) {
        let before = self.programs[program].granted.len();
        let wanted = Wanted { lease: Duration::from_millis(700), ..Wanted::of(0) };
        self.take(Move::Acquire { program, wanted });
        self.is_quiet();
        let by = self.at + Duration::from_secs(600);
        while !self.programs[program].attempts.is_empty() {
            assert!(self.at < by, "all faults have ended, and program {program} waits for a free lock");
            self.take(Move::Passes);
            self.is_quiet();
        }
        let it = &self.programs[program];
        assert!(
            it.granted.len() > before,
            "all faults have ended, and program {program} hears {:?}",
            it.refused.last()
        );
        for guard in it.guards.keys().copied().collect::<Vec<_>>() {
            self.take(Move::Release { program, guard, is_awaited: true });
        }
        self.is_quiet();
    }

    fn nothing_is_held(&self) {
        let master = &self.servers[self.master];
        assert!(master.holds().is_empty(), "held, though released: {:?}", master.holds());
        assert_eq!(master.waiters(), 0, "no client waits");
    }

    /// Time passes until nothing is left anywhere.
    fn is_left_alone(&mut self) {
        let answer = self.programs[0].settings.answer;
        // A lease, the time for which a session lasts, and that for an answer.
        let gone_by = self.at + self.longest_lease + Duration::from_secs(3) + answer + self.protection.grace;
        let over_by = self.at + self.longest_lease * 11 + Duration::from_secs(90) + self.protection.grace;
        while let Some(next) = self.next() {
            if next > gone_by && self.at <= gone_by {
                self.nothing_is_held();
            }
            assert!(self.at < over_by, "it does not come to rest: {next:?}");
            self.take(Move::Passes);
            self.is_quiet();
        }
        self.nothing_is_held();
        for (number, server) in self.servers.iter().enumerate() {
            assert_eq!(server.node.engine.sessions().len(), 0, "no session lasts");
            assert!(!server.is_master() || server.node.engine.is_clean(), "the engine of server {number} is clean");
            assert_eq!(server.node.engine.fault(), None);
        }
        assert!(self.is_settled(), "each caller that asked knows that nothing is left");
        for program in self.programs.iter().filter(|program| !program.is_dead) {
            assert_eq!(program.engine.kept(), Kept::default(), "nothing is left of program {}", program.number);
            assert!(!program.engine.has_unfinished());
        }
    }
}

//! What happens to servers: replication, failures, and a replica that takes the master's place.

use super::{LOCKS, Move, World};
use crate::server::Health;

impl World {
    /// Does what follows at once from a change of a server.
    pub(super) fn has_changed(&mut self, server: usize) {
        self.check_tokens(server);
        self.trace_lock(server);
        self.notes_answers(server);
        self.replicates();
    }

    /// Replicas that are in step get what their master has.
    pub fn replicates(&mut self) {
        for master in 0..self.servers.len() {
            let it = &self.servers[master];
            if !it.is_master() || it.health != Health::Up {
                continue;
            }
            let (is_cut_off, data, version) = (it.is_cut_off, it.data.clone(), it.version);
            // Further replicas, which hold no data that matters here, follow the present master.
            let mut is_heard = !is_cut_off && self.master == master;
            is_heard |= !self.protection.replicas_move && it.health == Health::Up;
            let mut versions = Vec::new();
            for replica in 0..self.servers.len() {
                let follower = &mut self.servers[replica];
                if follower.follows != Some(master) || follower.health != Health::Up {
                    continue;
                }
                let is_linked = !is_cut_off && !follower.is_cut_off && !self.stalled_replicas.contains(&replica);
                if is_linked && follower.in_step != Some((master, version)) {
                    follower.takes_over_data(&data, (master, version));
                    self.trace_replica(replica, master);
                }
                is_heard |= is_linked;
                versions.extend(is_linked.then_some(version));
            }
            if is_heard {
                self.servers[master].heard_at = self.at;
            }
            if self.servers[master].has_waits() {
                self.servers[master].hears_of_replicas(&versions, self.at, &self.protection);
            }
        }
        let is_heard = !self.servers[self.master].is_cut_off && self.servers[self.master].health == Health::Up;
        self.silent_since = if is_heard { None } else { Some(self.silent_since.unwrap_or(self.at)) };
    }

    pub(super) fn servers_move(&mut self, taken: Move) {
        let (at, protection) = (self.at, self.protection);
        self.trace_move(&taken);
        match taken {
            Move::Deletes(lock) => {
                let master = self.master;
                if self.servers[master].health == Health::Up {
                    self.servers[master].deletes(LOCKS[lock], at, &protection);
                    self.has_changed(master);
                }
            }
            Move::Forgets(lock) => self.forgets(lock),
            Move::EndsSessions(server) if self.servers[server].health == Health::Up => {
                self.has_ended_sessions = true;
                self.servers[server].ends_sessions(at, &protection);
                self.has_changed(server);
            }
            Move::Refuses { server, line } => self.servers[server].refuses = line,
            Move::IsKilled(server) if self.servers[server].health != Health::Down => {
                self.servers[server].health = Health::Down;
                self.forgets_connections(server);
            }
            Move::Restarts { server, keeps } => {
                self.has_failed_over = true;
                self.servers[server].restarts(keeps, at, &protection);
                if !keeps {
                    self.may_lose_answers(server);
                }
                self.forgets_connections(server);
                self.has_changed(server);
            }
            Move::IsSuspended(server) if self.servers[server].health == Health::Up => {
                self.servers[server].health = Health::Suspended;
            }
            Move::Resumes(server) if self.servers[server].health == Health::Suspended => {
                self.servers[server].resumes(at, &protection);
                self.has_changed(server);
            }
            Move::IsCutOff(server) => self.servers[server].is_cut_off = true,
            Move::Joins(server) => self.servers[server].is_cut_off = false,
            Move::ReplicaStalls(server) => _ = self.stalled_replicas.insert(server),
            Move::ReplicaGoesOn(server) => _ = self.stalled_replicas.remove(&server),
            Move::IsPromoted(server) => self.promotes(server),
            Move::Follows(server) => self.follows(server),
            Move::NameMoves => self.named = self.master,
            _ => {}
        }
        self.replicates();
        self.collects();
    }

    /// Whether this replica may take the master's place now.
    pub fn can_promote(&self, server: usize) -> bool {
        let it = &self.servers[server];
        let is_silent = self.protection.failover.is_zero()
            || self.silent_since.is_some_and(|since| self.at >= since + self.protection.failover);
        !it.is_master() && it.health == Health::Up && !it.is_cut_off && is_silent
    }

    pub(super) fn promotes(&mut self, server: usize) {
        if !self.can_promote(server) {
            return;
        }
        self.has_failed_over = true;
        let former = std::mem::replace(&mut self.master, server);
        self.servers[server].is_promoted(self.at, &self.protection);
        self.may_lose_answers(server);
        self.silent_since = None;
        for other in 0..self.servers.len() {
            if self.servers[other].follows == Some(former) && other != server {
                self.servers[other].follows = Some(server);
            }
        }
        self.has_changed(server);
    }

    /// Whether this former master may become a replica now.
    pub fn can_follow(&self, server: usize) -> bool {
        let it = &self.servers[server];
        server != self.master && it.is_master() && it.health == Health::Up && !it.is_cut_off
    }

    pub(super) fn follows(&mut self, server: usize) {
        if !self.can_follow(server) {
            return;
        }
        let master = self.master;
        self.servers[server].is_demoted(master, self.at, &self.protection);
        self.may_lose_answers(server);
        self.has_changed(server);
    }
}

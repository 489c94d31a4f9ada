//! Confirmation by replicas: of a grant before its guard exists, and of each renewal before it counts. So a guard is
//! guaranteed only for as long as those replicas know about it: one of them may be the next master.
//!
//! WAIT replies how many replicas have received everything that was sent before it on the same connection. So renewals
//! that are due together, with the same requirement, form a **round**: they are sent on a connection of their own,
//! followed by one WAIT. No other request may be queued after a WAIT, and no renewal may be redirected: no WAIT would
//! follow it.

use super::connection::RENEWALS_MAX;
use super::fault::Fault;
use super::request;
use super::resp::Reply;
use super::terms::Replicas;
use super::{Asker, Body, Engine, Errand, HoldId, Lane, Name, NodeId};
use std::collections::BTreeMap;

/// A lease to restart and have confirmed. It has passed the gate.
pub(super) struct Unconfirmed {
    pub hold: HoldId,
    pub asker: Asker,
    pub errand: u64,
    /// One renewal for each lock: its name and the request.
    pub renewals: Vec<(Name, Vec<u8>)>,
    pub replicas: Replicas,
}

/// Renewals that share one WAIT.
pub(super) struct Round {
    node: NodeId,
    lane: Lane,
    members: Vec<Unconfirmed>,
}

impl Engine {
    /// Adds it to the next round, which begins at the end of this step.
    pub(super) fn joins_round(&mut self, member: Unconfirmed) {
        self.holds.entry(member.hold).and_modify(|hold| hold.users += 1);
        self.unconfirmed.push(member);
    }

    pub(super) fn begin_rounds(&mut self) {
        // One round for each requirement: a member must not wait for more replicas, or longer, than it wants.
        let mut rounds = BTreeMap::<(NodeId, Replicas), Vec<Unconfirmed>>::new();
        for member in std::mem::take(&mut self.unconfirmed) {
            match member.renewals.first().and_then(|(key, _)| self.route.node(key)) {
                Some(node) => rounds.entry((node, member.replicas)).or_default().push(member),
                None => {
                    self.look_up();
                    self.is_confirmed(&member, Err(Fault::nowhere("the server of the lock is in doubt")));
                }
            }
        }
        for ((node, replicas), mut members) in rounds {
            while !members.is_empty() {
                let rest = members.split_off(members.len().min(RENEWALS_MAX));
                self.begin_round(node, replicas, std::mem::replace(&mut members, rest));
            }
        }
    }

    fn begin_round(&mut self, node: NodeId, replicas: Replicas, mut members: Vec<Unconfirmed>) {
        let id = self.next_id();
        let lane = if self.is_quiet(node, Lane::Spare(0)) { Lane::Spare(0) } else { Lane::Spare(id) };
        let Replicas { wanted, timeout } = replicas;
        let limit = timeout.saturating_add(self.settings.answer);
        // It must not be redirected.
        let errand = |id, asker, bytes| Errand {
            to: Some(node),
            hops: u8::MAX,
            ..Errand::new(id, asker, Body::Bytes(bytes), lane, limit)
        };
        let mut all = Vec::new();
        for Unconfirmed { hold, asker, errand: id, renewals, .. } in &mut members {
            let renewals = std::mem::take(renewals).into_iter();
            all.extend(renewals.map(|(key, bytes)| Errand { key, gate: Some(*hold), ..errand(*id, *asker, bytes) }));
        }
        all.push(errand(id, Asker::Round(id), request::wait_for_replicas(wanted, timeout)));
        self.rounds.insert(id, Round { node, lane, members });
        all.into_iter().for_each(|errand| self.send(errand));
    }

    /// The reply to WAIT.
    pub(super) fn round_answered(&mut self, id: u64, answer: &Result<Reply, Fault>) {
        let Some(Round { node, lane, members }) = self.rounds.remove(&id) else { return };
        if lane != Lane::Spare(0) {
            self.close_lane(node, lane);
        }
        for member in members {
            let wanted = member.replicas.wanted;
            let confirmed = match answer {
                Ok(count) => match count.number().unwrap_or(0) {
                    enough if enough >= wanted => Ok(()),
                    confirmed => Err(Fault::too_few_replicas(wanted, confirmed)),
                },
                Err(fault) => Err(fault.clone()),
            };
            self.is_confirmed(&member, confirmed);
        }
    }

    fn is_confirmed(&mut self, member: &Unconfirmed, confirmed: Result<(), Fault>) {
        match member.asker {
            Asker::Attempt(attempt) => self.grant_confirmed(attempt, confirmed),
            _ => self.renewal_confirmed(member.hold, member.errand, confirmed),
        }
        self.opens_gate(member.hold, member.errand);
        self.leaves_hold(member.hold);
    }
}

//! What replicas have confirmed: a grant before its guard is there, and each renewal before it counts. So a guard is
//! vouched for only until what those replicas know, one of which may be the master tomorrow.
//!
//! A server confirms by WAIT, which says how many replicas have all that came before it on the same connection. So what is
//! due together, and wants the same, is a **round**: renewals on a connection of their own, and one WAIT behind all of
//! them. Nobody else's request may stand behind a WAIT, and no renewal may go elsewhere: a redirected one would be behind no WAIT.

use super::fault::Fault;
use super::line::RENEWALS_MAX;
use super::request;
use super::resp::Reply;
use super::terms::Replicas;
use super::{Asker, Body, Engine, Errand, HoldId, Lane, NodeId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A lease to be begun anew and confirmed.
pub(super) struct Unconfirmed {
    who: Who,
    errand: u64,
    /// The renewal of a lock, or of each of several.
    renewals: Vec<Renewal>,
    replicas: Replicas,
}

/// Of which lock, and what is asked for it.
pub(super) type Renewal = (Arc<[u8]>, Vec<u8>);

#[derive(Clone, Copy)]
pub(super) enum Who {
    Attempt(u64, HoldId),
    Renewal(HoldId),
}

impl Who {
    fn hold(self) -> HoldId {
        let (Self::Attempt(_, hold) | Self::Renewal(hold)) = self;
        hold
    }
}

/// What waits for one WAIT.
pub(super) struct Round {
    node: NodeId,
    lane: Lane,
    members: Vec<Unconfirmed>,
}

impl Engine {
    /// In the next round, which begins when all is seen to that has just happened.
    pub(super) fn joins_round(&mut self, who: Who, errand: u64, renewals: Vec<Renewal>, replicas: Replicas) {
        if let Some(hold) = self.holds.get_mut(&who.hold()) {
            (hold.users, hold.in_the_way) = (hold.users + 1, hold.in_the_way + 1);
        }
        self.unconfirmed.push(Unconfirmed { who, errand, renewals, replicas });
    }

    pub(super) fn begin_rounds(&mut self) {
        // With those who want more, or for longer, a member would wait in vain for what it has already.
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

    fn begin_round(&mut self, node: NodeId, replicas: Replicas, members: Vec<Unconfirmed>) {
        let id = self.next_id();
        let lane = if self.is_quiet(node, Lane::Spare(0)) { Lane::Spare(0) } else { Lane::Spare(id) };
        let Replicas { wanted, timeout } = replicas;
        let limit = timeout.saturating_add(self.settings.answer);
        let errand = |id, asker, key, bytes| {
            // No hop is left.
            let (body, to, asking, hops) = (Body::Bytes(bytes), Some(node), false, u8::MAX);
            Errand { id, asker, key, body, lane, to, asking, hops, limit }
        };
        let renewals = members.iter().flat_map(|it| it.renewals.iter().map(move |renewal| (it, renewal.clone())));
        let renewals = renewals.map(|(it, (key, bytes))| {
            let asker = match it.who {
                Who::Attempt(attempt, _) => Asker::Attempt(attempt),
                Who::Renewal(hold) => Asker::Renewal(hold),
            };
            errand(it.errand, asker, key, bytes)
        });
        let wait = errand(id, Asker::Round(id), Arc::default(), request::wait_for_replicas(wanted, timeout));
        let all: Vec<_> = renewals.chain([wait]).collect();
        self.rounds.insert(id, Round { node, lane, members });
        all.into_iter().for_each(|errand| self.send(errand));
    }

    /// The answer to WAIT.
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
        match member.who {
            Who::Attempt(attempt, _) => self.grant_confirmed(attempt, confirmed),
            Who::Renewal(hold) => self.renewal_confirmed(hold, member.errand, confirmed),
        }
        self.is_out_of_the_way(member.who.hold());
        self.leaves_hold(member.who.hold());
    }
}

//! Clients that keep a lock alive by themselves: what they send is not written down, only what they say.

use super::client::Next;
use super::lock::Time;
use super::world::{Event, World, moment};
use crate::history::{Answer, Record, Request};

impl World {
    pub(super) fn guard_begins(&mut self, client: usize) {
        let it = &self.clients[client];
        let (side, lease_ms) = (it.side, it.lease_ms);
        let request = Request::Guard { side, lease_ms, fenced: true, replicas: 0, majority: false };
        self.clients[client].guard = self.call(client, request);
        let wait_ms = Some(600);
        let request =
            Request::Acquire { side, lease_ms, wait_ms, fenced: true, by_script: false, replicas: 0, session: None };
        self.send(client, request, false);
    }

    pub(super) fn guard_is_told(&mut self, number: usize, answer: &Answer) {
        let asked = &self.asked[number];
        let (client, sent, waited) = (asked.client, asked.sent, asked.waited);
        let it = &self.clients[client];
        let until = sent + it.lease_ms * 1_000 - 500;
        let (name, guard, lease_ms) = (it.name.clone(), it.guard, it.lease_ms);
        let said = |answer| Record::Answered { at: moment(self.now), client: name.clone(), number: guard, answer };
        match answer {
            Answer::Granted { token } => {
                let token = *token;
                self.records.push(said(Answer::Granted { token }));
                self.clients[client].holds = 1;
                self.clients[client].guarded_until = until;
                self.clients[client].done_at = self.now + self.random.between((0, 400_000));
                self.clients[client].is_stalled = self.random.is(20);
                if waited {
                    return self.send(client, Request::Renew { lease_ms }, false);
                }
                self.vouch(client, until);
            }
            Answer::Renewed(true) if self.now < self.clients[client].guarded_until || until > self.now => {
                self.vouch(client, until);
            }
            Answer::Refused { left_ms } => {
                let left_ms = *left_ms;
                self.records.push(said(Answer::Refused { left_ms }));
                self.go_on(client, Next::Rest(2_000));
            }
            Answer::Renewed(_) => self.guard_ends(client),
            _ => {
                self.records.push(said(Answer::Unknown("gone".to_owned())));
                self.go_on(client, Next::Rest(2_000));
            }
        }
    }

    fn vouch(&mut self, client: usize, until: Time) {
        let it = &mut self.clients[client];
        it.guarded_until = until;
        let (name, number, pause) = (it.name.clone(), it.guard, it.lease_ms * 1_000 / 3);
        let (at, until) = (moment(self.now), moment(until));
        self.records.push(Record::Vouched { at, client: name, number, until });
        self.at(self.now + pause, Event::Wake(client));
    }

    pub(super) fn guard_goes_on(&mut self, client: usize) {
        let it = &self.clients[client];
        let lease_ms = it.lease_ms;
        if self.now >= it.done_at || self.now >= it.guarded_until {
            return self.guard_ends(client);
        }
        if it.is_stalled {
            return self.at(it.guarded_until, Event::Wake(client));
        }
        self.send(client, Request::Renew { lease_ms }, false);
    }

    fn guard_ends(&mut self, client: usize) {
        let it = &self.clients[client];
        let (name, number, side) = (it.name.clone(), it.guard, it.side);
        self.records.push(Record::Ended { at: moment(self.now), client: name, number });
        self.send(client, Request::Release { side, all: false }, true);
    }
}

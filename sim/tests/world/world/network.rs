//! Connections between programs and servers: what was sent arrives, or is late, cut or lost.

use super::{Entry, HOSTS, Late, Link, Move, State, Topology, Wire, World};
use crate::server::{Health, Request};
use rlock_client_core::{Address, Event, Fault};
use rlock_sim::resp::Requests;
use std::io;

impl World {
    pub(super) fn network(&mut self, taken: Move) {
        match taken {
            Move::Arrives(wire) => self.arrives(wire),
            Move::Answers(wire) => self.answers(wire, None),
            Move::AnswersInPieces(wire, hundredth) => self.answers(wire, Some(hundredth)),
            Move::Opens(wire) => {
                let Some(link) = self.links.get_mut(&wire) else { return };
                if !matches!(link.state, State::Opening { .. }) || self.servers[link.server].health != Health::Up {
                    return;
                }
                link.state = State::Open;
                self.servers[link.server].connects(connection(wire));
                self.step(wire.program, Event::Connected(wire.connection));
            }
            Move::IsRefused(wire) if self.opening().contains(&wire) => {
                self.links.remove(&wire);
                let fault = Fault::unreachable(io::ErrorKind::ConnectionRefused.into());
                self.step(wire.program, Event::Broken(wire.connection, fault));
            }
            Move::Breaks { wire, arrives } if self.is_in(wire, State::Open) => self.breaks(wire, arrives),
            Move::IsNoticed(wire) if self.is_in(wire, State::Cut) => self.breaks(wire, false),
            Move::IsCut(wire) => {
                if let Some(link) = self.links.get_mut(&wire).filter(|link| link.state == State::Open) {
                    link.is_cut();
                }
            }
            Move::Late { wire, arrives } => self.comes_late(wire, arrives),
            _ => {}
        }
    }

    pub(super) fn is_in(&self, wire: Wire, state: State) -> bool {
        self.links.get(&wire).is_some_and(|link| link.state == state)
    }

    pub(super) fn breaks(&mut self, wire: Wire, arrives: bool) {
        self.closes(wire, arrives);
        let fault = Fault::silent(io::ErrorKind::ConnectionReset.into());
        self.step(wire.program, Event::Broken(wire.connection, fault));
    }

    pub(super) fn arrives(&mut self, wire: Wire) {
        let is_retired = self.programs[wire.program].engine.is_retired(wire.connection);
        let Some(link) = self.links.get_mut(&wire).filter(|link| link.state == State::Open) else { return };
        let server = link.server;
        if self.servers[server].health != Health::Up {
            return;
        }
        if is_retired && !self.late_arrives {
            link.up.clear();
        }
        // The question whether a session is known goes in one write with the call after it, so nothing comes in between.
        let asks_first = |request: &Request| request[0] == b"RLOCK.CANCEL" && request[2] == b"0";
        while let Some(request) = self.links.get_mut(&wire).and_then(|link| link.up.pop_front()) {
            let goes_on = asks_first(&request);
            self.asks(server, wire, request);
            if !goes_on {
                break;
            }
        }
        self.collects();
    }

    pub(super) fn asks(&mut self, server: usize, wire: Wire, request: Request) {
        self.account.push(Entry::Asked(server, request.clone()));
        self.servers[server].asks(connection(wire), request, self.at, &self.protection);
        self.has_changed(server);
    }

    pub(super) fn comes_late(&mut self, wire: Wire, arrives: bool) {
        let Some(late) = self.late.get_mut(&wire) else { return };
        let server = late.server;
        // A first call for events that is so late could open again a session that has ended, in which no ticket waits.
        // Callers that believe that they wait ask again after a minute: that takes too long for a history.
        late.up.retain(|request| request[0] != b"RLOCK.EVENTS" || request.iter().any(|word| word == b"ACK"));
        let request = late.up.pop_front().filter(|_| arrives && self.servers[server].health == Health::Up);
        match request {
            Some(request) => self.asks(server, wire, request),
            None => {
                self.late.remove(&wire);
                self.servers[server].hangs_up(connection(wire));
                self.has_changed(server);
            }
        }
        self.collects();
    }

    /// Puts the servers' replies on their way.
    pub(super) fn collects(&mut self) {
        for (number, server) in self.servers.iter_mut().enumerate() {
            for (client, answer) in server.take_replies() {
                let wire = wire_of(client);
                if let Some(link) = self.links.get_mut(&wire).filter(|it| it.state == State::Open) {
                    assert_eq!(link.server, number, "each connection is to one server");
                    link.down.push_back(answer);
                }
            }
        }
        self.check();
    }

    pub(super) fn answers(&mut self, wire: Wire, hundredth: Option<u64>) {
        if self.is_stalled(wire.program) {
            return;
        }
        let Some(link) = self.links.get_mut(&wire).filter(|link| link.state == State::Open) else { return };
        let server = link.server;
        let Some(answer) = link.down.pop_front() else { return };
        let request = link.asked.pop_front();
        self.account.push(Entry::Answered(wire.program, answer.clone()));
        let is_retired = self.programs[wire.program].engine.is_retired(wire.connection);
        let cut = hundredth.map_or(0, |hundredth| answer.len() * usize::try_from(hundredth).expect("few") / 100);
        if cut > 0 {
            self.step_from(wire.program, Event::Received(wire.connection, &answer[..cut]), server);
        }
        self.step_from(wire.program, Event::Received(wire.connection, &answer[cut..]), server);
        if answer == b":0\r\n" && !is_retired {
            self.check_not_renewed(wire.program, server, request.as_ref());
        }
    }

    pub(super) fn closes(&mut self, wire: Wire, arrives: bool) {
        let Some(link) = self.links.remove(&wire) else { return };
        if arrives && !link.up.is_empty() && link.state == State::Open {
            self.late.insert(wire, Late { server: link.server, up: link.up });
        } else {
            self.servers[link.server].hangs_up(connection(wire));
            self.has_changed(link.server);
        }
    }

    /// What was sent to the server before it ended does not reach it after its restart.
    pub(super) fn forgets_connections(&mut self, server: usize) {
        self.late.retain(|_, late| late.server != server);
        for link in self.links.values_mut().filter(|link| link.state == State::Open && link.server == server) {
            link.is_cut();
        }
    }

    pub(super) fn connects(&mut self, wire: Wire, address: &Address) {
        let server = match self.topology {
            Topology::Single => self.named,
            _ => (0..HOSTS.len()).find(|server| address.place == super::address(*server).place).expect("a server"),
        };
        let state = State::Opening { by: self.at + self.programs[wire.program].settings.connect };
        let (up, down, asked) = Default::default();
        assert!(self.links.insert(wire, Link { server, state, up, down, asked }).is_none());
    }

    pub(super) fn sends(&mut self, wire: Wire, bytes: Vec<u8>) {
        let mut answers = Vec::new();
        let Some(link) = self.links.get_mut(&wire) else { return };
        assert!(!matches!(link.state, State::Opening { .. }), "only an open connection can be written to");
        if link.state == State::Open {
            let mut requests = Requests { bytes };
            while let Some(request) = requests.next_command().expect("commands") {
                if request[0] == b"RLOCK.ANSWER" {
                    answers.push(request.clone());
                }
                link.asked.push_back(request.clone());
                link.up.push_back(request);
            }
            assert!(requests.bytes.is_empty(), "commands are sent whole");
        }
        answers.iter().for_each(|request| self.check_sent(wire.program, request));
    }
}

impl Link {
    fn is_cut(&mut self) {
        self.state = State::Cut;
        self.up.clear();
        self.down.clear();
    }
}

/// How far apart the programs' connection numbers begin at a server.
const OF_PROGRAM: u64 = 1_000_000_000;

fn connection(wire: Wire) -> u64 {
    wire.program as u64 * OF_PROGRAM + wire.connection
}

fn wire_of(connection: u64) -> Wire {
    let program = usize::try_from(connection / OF_PROGRAM).expect("few");
    Wire { program, connection: connection % OF_PROGRAM }
}

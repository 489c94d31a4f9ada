//! What holds for all connections of a network: it is looked at with every piece that is carried.

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Requests,
    Answers,
    Both,
}

/// Who sends what is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    Client,
    Server,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    requests: Rule,
    answers: Rule,
}

/// Of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rule {
    pub delay: Duration,
    pub swallows: bool,
}

impl Rules {
    pub fn delay(&mut self, time: Duration, direction: Direction) {
        self.change(direction, |rule| rule.delay = time);
    }

    pub fn swallow(&mut self, direction: Direction) {
        self.change(direction, |rule| rule.swallows = true);
    }

    pub fn of(self, sender: Sender) -> Rule {
        match sender {
            Sender::Client => self.requests,
            Sender::Server => self.answers,
        }
    }

    fn change(&mut self, direction: Direction, change: impl Fn(&mut Rule)) {
        if direction != Direction::Answers {
            change(&mut self.requests);
        }
        if direction != Direction::Requests {
            change(&mut self.answers);
        }
    }
}

impl Sender {
    pub fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

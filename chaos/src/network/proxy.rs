//! The network between clients and a server.

use std::io;
use std::time::Duration;

/// Ends its connections when it is dropped.
pub struct Proxy {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Requests,
    Answers,
    Both,
}

/// Who is gone, while the other does not learn of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HalfOpen {
    ClientGone,
    ServerGone,
}

impl Proxy {
    pub fn start() -> io::Result<Self> {
        todo!()
    }

    pub fn port(&self) -> u16 {
        todo!()
    }

    pub fn lead_to(&self, _port: u16) {
        todo!()
    }

    pub fn cut(&self) {
        todo!()
    }

    pub fn delay(&self, _time: Duration, _direction: Direction) {
        todo!()
    }

    pub fn drop_requests(&self) {
        todo!()
    }

    pub fn drop_answers(&self) {
        todo!()
    }

    pub fn halve(&self, _gone: HalfOpen) {
        todo!()
    }

    pub fn cut_mid_reply(&self) {
        todo!()
    }

    pub fn refuse(&self) {
        todo!()
    }

    pub fn heal(&self) {
        todo!()
    }
}

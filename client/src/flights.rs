//! Callers of one client that request the same answer share one request. A *flight* is the group: its first caller asks
//! the server, and the others wait for the result. If there is no answer, the next caller starts a flight, and the
//! others follow it. If no server replies, all of them fail: otherwise each would wait for a whole outage in turn.

use crate::mutex::lock;
use rlock_client_core::Error;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot::{self, Receiver, Sender};

type Name = Arc<[u8]>;

/// The callers that wait behind the first one, by key.
#[derive(Default)]
pub(crate) struct Flights(Mutex<BTreeMap<Name, VecDeque<Sender<Landed>>>>);

pub(crate) enum Boarded {
    First(Flight),
    Behind(Receiver<Landed>),
}

/// The result for a caller behind the first one.
pub(crate) enum Landed {
    Answer(Arc<[u8]>),
    /// No server replied.
    Unavailable(Error),
    /// The caller is the first one now.
    Turn(Flight),
}

/// Held by the first caller. If it is dropped, there is no answer.
pub(crate) struct Flight {
    flights: Arc<Flights>,
    key: Option<Name>,
}

impl Flights {
    pub(crate) fn board(self: &Arc<Self>, key: &Name) -> Boarded {
        let mut flights = lock(&self.0);
        let Some(behind) = flights.get_mut(key) else {
            flights.insert(key.clone(), VecDeque::new());
            return Boarded::First(Flight { flights: self.clone(), key: Some(key.clone()) });
        };
        // Removes the places of callers that are gone.
        if behind.len() == behind.capacity() {
            behind.retain(|caller| !caller.is_closed());
        }
        let (sender, receiver) = oneshot::channel();
        behind.push_back(sender);
        Boarded::Behind(receiver)
    }
}

impl Flight {
    /// All get this answer.
    pub(crate) fn lands(self, value: &[u8]) {
        let value = Arc::<[u8]>::from(value);
        self.ends(|| Landed::Answer(value.clone()));
    }

    /// All get this error.
    pub(crate) fn fails(self, error: &Error) {
        self.ends(|| Landed::Unavailable(error.clone()));
    }

    fn ends(mut self, landed: impl Fn() -> Landed) {
        let behind = self.key.take().and_then(|key| lock(&self.flights.0).remove(&key));
        for caller in behind.into_iter().flatten() {
            _ = caller.send(landed());
        }
    }

    /// The next caller that still waits.
    fn next(&self, key: &Name) -> Option<Sender<Landed>> {
        let mut flights = lock(&self.flights.0);
        let next = flights.get_mut(key)?.pop_front();
        if next.is_none() {
            flights.remove(key);
        }
        next
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else { return };
        while let Some(next) = self.next(&key) {
            let turn = Self { flights: self.flights.clone(), key: Some(key.clone()) };
            match next.send(Landed::Turn(turn)) {
                Err(Landed::Turn(mut turn)) => turn.key = None,
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rlock_client_core::ErrorKind;

    fn first(boarded: Boarded) -> Flight {
        if let Boarded::First(flight) = boarded { flight } else { panic!("it is behind another") }
    }

    fn behind(boarded: Boarded) -> Receiver<Landed> {
        if let Boarded::Behind(receiver) = boarded { receiver } else { panic!("it is the first") }
    }

    fn turn(receiver: &mut Receiver<Landed>) -> Flight {
        if let Ok(Landed::Turn(flight)) = receiver.try_recv() { flight } else { panic!("it has no turn") }
    }

    #[test]
    fn all_get_the_answer_or_the_next_has_its_turn() {
        let (flights, key) = (Arc::<Flights>::default(), Name::from(&b"a"[..]));
        let board = || flights.board(&key);
        let flight = first(board());
        let [gone, mut second, mut third] = [(); 3].map(|()| behind(board()));
        first(flights.board(&Name::from(&b"b"[..])));
        drop(gone);
        drop(flight);
        assert!(third.try_recv().is_err());
        // The second caller gets its turn, and is dropped before it notices.
        drop(std::mem::replace(&mut second, behind(board())));
        turn(&mut third).lands(b"answer");
        assert!(matches!(second.try_recv(), Ok(Landed::Answer(value)) if *value == *b"answer"));
        assert!(lock(&flights.0).is_empty());
        let (flight, mut receiver) = (first(board()), behind(board()));
        flight.fails(&Error::new(ErrorKind::Unavailable, b"a"));
        assert!(
            matches!(receiver.try_recv(), Ok(Landed::Unavailable(error)) if error.kind() == ErrorKind::Unavailable)
        );
        drop(first(board()));
        assert!(lock(&flights.0).is_empty());
    }

    #[test]
    fn callers_that_have_gone_take_no_room() {
        let (flights, key) = (Arc::<Flights>::default(), Name::from(&b"a"[..]));
        let _flight = first(flights.board(&key));
        for _ in 0..10_000 {
            drop(behind(flights.board(&key)));
        }
        assert!(lock(&flights.0)[&key].len() < 100);
    }
}

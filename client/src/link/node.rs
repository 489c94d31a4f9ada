//! One server: the connections to it, and the session by which this program waits there.

use super::connections::Connections;
use super::fault::Fault;
use super::manner::Manner;
use super::session::Session;
use super::single_flight::SingleFlight;
use crate::runtime::Thread;
use redis::{ConnectionInfo, RedisResult};
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) struct Node {
    /// The session goes on for as long as these are there.
    connections: Arc<Connections>,
    session: Mutex<Option<Arc<Session>>>,
    opening: SingleFlight,
}

impl Deref for Node {
    type Target = Connections;

    fn deref(&self) -> &Connections {
        &self.connections
    }
}

impl Node {
    pub(crate) fn at(address: ConnectionInfo, manner: &Manner, thread: &Thread) -> RedisResult<Arc<Self>> {
        let connections = Arc::new(Connections::at(address, manner, thread)?);
        let (session, opening) = Default::default();
        Ok(Arc::new(Self { connections, session, opening }))
    }

    /// The session of this program there, when it is open.
    pub(super) async fn session(&self) -> Result<Arc<Session>, Fault> {
        let session = {
            let mut present = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            present.take_if(|session| session.is_over());
            present.get_or_insert_with(|| Session::begin(&self.connections)).clone()
        };
        // In the order in which they have come, so that they ask in that order.
        self.opening.run(session.opened()).await?;
        Ok(session)
    }

    /// Another server has taken its place: whoever waits here waits for nothing.
    pub(super) fn supersede(&self) {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(session) = session {
            session.ends(&Fault::superseded());
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

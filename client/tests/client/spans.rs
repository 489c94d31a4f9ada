//! What a program that collects traces sees of a wait: one span, which names the lock and the holder.

use crate::support::{locks_on, until_waiting, waits_for};
use rlock_testing::Server;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Writes down each span of the client, with its fields in the order in which they are named.
#[derive(Clone, Default)]
struct Notebook(Arc<Mutex<Vec<(Level, String)>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0 += &format!(" {field}={value:?}");
    }
}

impl Subscriber for Notebook {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.target().starts_with("rlock_client")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let mut line = Line(span.metadata().name().to_owned());
        span.record(&mut line);
        self.0.lock().unwrap().push((*span.metadata().level(), line.0));
        Id::from_u64(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn each_attempt_is_a_span_with_the_lock_and_its_holder() {
    let server = Server::start();
    let locks = locks_on(&server).await;
    let seen = Notebook::default();
    let listens = tracing::subscriber::set_default(seen.clone());
    let held = locks.lock("orders:42").acquire().await.unwrap();
    let waits = waits_for(locks.lock("orders:42"));
    until_waiting(&mut server.client(), 1).await;
    let holder = held.holder().into_owned();
    held.release().await.unwrap();
    let next = waits.await.unwrap().unwrap();
    let next_holder = next.holder().into_owned();
    next.release().await.unwrap();
    drop(listens);
    let expected =
        [holder, next_holder].map(|holder| (Level::DEBUG, format!("acquire lock=orders:42 holder={holder}")));
    assert_eq!(*seen.0.lock().unwrap(), expected);
}

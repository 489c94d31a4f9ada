//! A server that accepts connections and then is silent, like a restarted server that has much to load: clients do not
//! flood it.

use rlock_client::Locks;
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;
use tokio::task::JoinSet;

const CLIENTS: usize = 24;

/// As the manual promises.
const AT_A_TIME: usize = 8;

struct SilentServer {
    address: SocketAddr,
    has_ended: Arc<AtomicBool>,
    /// Returns how many connections came, and how many were open at the same time.
    counts: JoinHandle<(usize, usize)>,
}

impl SilentServer {
    fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let has_ended = Arc::new(AtomicBool::new(false));
        let counts = spawn({
            let has_ended = has_ended.clone();
            move || count(&listener, &has_ended)
        });
        Self { address, has_ended, counts }
    }

    fn end(self) -> (usize, usize) {
        self.has_ended.store(true, Ordering::Release);
        TcpStream::connect(self.address).unwrap();
        self.counts.join().unwrap()
    }
}

fn count(listener: &TcpListener, has_ended: &AtomicBool) -> (usize, usize) {
    let (mut open, mut all, mut most) = (Vec::new(), 0, 0);
    loop {
        let (stream, _) = listener.accept().unwrap();
        if has_ended.load(Ordering::Acquire) {
            return (all, most);
        }
        stream.set_nonblocking(true).unwrap();
        // If a client closed a connection before it opened this one, the end of that one has arrived.
        open.retain_mut(is_open);
        open.push(stream);
        all += 1;
        most = most.max(open.len());
    }
}

fn is_open(stream: &mut TcpStream) -> bool {
    let mut greeting = [0; 1_024];
    loop {
        match stream.read(&mut greeting) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}

#[tokio::test]
async fn at_most_eight_connections_are_being_opened_at_a_time() {
    let server = SilentServer::start();
    let address = format!("redis://{}", server.address);
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let options = Locks::options().connect_timeout(Duration::from_millis(100));
        let address = address.clone();
        clients.spawn(async move { options.connect_to(address).await.map(drop) });
    }
    for connected in clients.join_all().await {
        assert!(connected.unwrap_err().is_unavailable());
    }
    let (all, most) = server.end();
    assert!(all >= CLIENTS, "{all} connections of {CLIENTS} clients");
    assert!(most <= AT_A_TIME, "{most} at a time");
}

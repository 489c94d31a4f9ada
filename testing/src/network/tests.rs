//! The network's troubles, seen from both of its ends: a client's socket, and a server that answers what it is sent.

use super::{Order, Proxy, Sender};
use crate::{PATIENCE, wait_until};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// More than all buffers between two ends hold: after sending it, some of it was certainly taken.
const MUCH: usize = 32 * 1_024 * 1_024;
const LATE: Duration = Duration::from_millis(150);

struct Echo {
    port: u16,
    received: Arc<Mutex<Vec<u8>>>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

impl Echo {
    fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let echo = Self { port, received: Arc::default(), connections: Arc::default() };
        let (received, connections) = (Arc::clone(&echo.received), Arc::clone(&echo.connections));
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                stream.set_nodelay(true).unwrap();
                connections.lock().unwrap().push(stream.try_clone().unwrap());
                let received = Arc::clone(&received);
                thread::spawn(move || answer(stream, &received));
            }
        });
        echo
    }

    fn received(&self) -> Vec<u8> {
        self.received.lock().unwrap().clone()
    }

    fn has_received(&self, length: usize) -> bool {
        self.received.lock().unwrap().len() == length
    }

    /// The server's end of the connection that was accepted as the first, second, …
    fn connection(&self, place: usize) -> TcpStream {
        wait_until("it is accepted", || self.connections.lock().unwrap().len() > place);
        self.connections.lock().unwrap()[place].try_clone().unwrap()
    }
}

fn answer(mut stream: TcpStream, received: &Mutex<Vec<u8>>) {
    let mut buffer = vec![0; 65_536];
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        received.lock().unwrap().extend_from_slice(&buffer[..length]);
        if stream.write_all(&buffer[..length]).is_err() {
            return;
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
}

fn lead_to(port: u16) -> Order {
    Order::Lead(port)
}

const BOTH: &[Sender] = &[Sender::Client, Sender::Server];

fn delay(proxy: &Proxy, senders: &[Sender], time: Duration) {
    senders.iter().for_each(|sender| proxy.obey(Order::Delay(*sender, time)));
}

fn network_to(echo: &Echo) -> Proxy {
    let proxy = Proxy::start().unwrap();
    proxy.obey(lead_to(echo.port));
    proxy
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

fn asks(stream: &mut TcpStream, question: &[u8]) -> Vec<u8> {
    stream.write_all(question).unwrap();
    let mut answer = vec![0; question.len()];
    stream.read_exact(&mut answer).unwrap();
    answer
}

/// Connected, and known to be so at both ends.
fn connected(proxy: &Proxy) -> TcpStream {
    let mut stream = connect(proxy);
    assert_eq!(asks(&mut stream, b"hello"), b"hello");
    stream
}

/// Reads until the stream is closed or reset. Returns the bytes, and the error if it was reset.
fn rest(stream: &mut TcpStream) -> (Vec<u8>, Option<ErrorKind>) {
    let mut rest = Vec::new();
    let error = stream.read_to_end(&mut rest).err().map(|error| error.kind());
    (rest, error)
}

fn assert_reset(stream: &mut TcpStream) {
    assert_eq!(rest(stream), (Vec::new(), Some(ErrorKind::ConnectionReset)));
}

/// Whether the stream is open, with nothing to read.
fn is_silent(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let seen = stream.peek(&mut [0]);
    stream.set_nonblocking(false).unwrap();
    seen.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

fn is_ended(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let seen = stream.peek(&mut [0]);
    stream.set_nonblocking(false).unwrap();
    match seen {
        Ok(length) => length == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

#[test]
fn it_carries_much_both_ways_and_the_end_of_each_side() {
    let echo = Echo::start();
    let proxy = network_to(&echo);
    let mut stream = connect(&proxy);
    let sent: Vec<u8> = (0..MUCH).map(|place| (place % 251) as u8).collect();
    let mut sending = stream.try_clone().unwrap();
    let question = sent.clone();
    let sender = thread::spawn(move || {
        sending.write_all(&question).unwrap();
        sending.shutdown(Shutdown::Write).unwrap();
    });
    let (received, error) = rest(&mut stream);
    sender.join().unwrap();
    assert_eq!(error, None, "the server has ended in good order");
    assert!(received == sent);
}

#[test]
fn it_leads_elsewhere_on_the_same_port() {
    let (first, second) = (Echo::start(), Echo::start());
    let proxy = Proxy::start().unwrap();
    assert_reset(&mut connect(&proxy));
    proxy.obey(lead_to(first.port));
    let port = proxy.port;
    let mut stream = connected(&proxy);
    proxy.obey(lead_to(second.port));
    assert_reset(&mut stream);
    assert_eq!(asks(&mut connect(&proxy), b"second"), b"second");
    assert_eq!((first.received(), second.received()), (b"hello".to_vec(), b"second".to_vec()));
    assert_eq!(proxy.port, port);
}

#[test]
fn a_cut_is_seen_at_both_ends_and_the_next_connection_is_whole() {
    let echo = Echo::start();
    let proxy = network_to(&echo);
    let mut streams: Vec<_> = (0..5).map(|_| connected(&proxy)).collect();
    proxy.obey(Order::Cut);
    for (place, stream) in streams.iter_mut().enumerate() {
        assert_reset(stream);
        wait_until("the server learns of it", || is_ended(&echo.connection(place)));
    }
    connected(&proxy);
}

#[test]
fn each_direction_is_delayed_for_itself_and_order_is_kept() {
    let echo = Echo::start();
    let proxy = network_to(&echo);
    let mut stream = connected(&proxy);
    for (senders, expected) in [(&BOTH[..1], LATE), (&BOTH[1..], LATE), (BOTH, LATE * 2)] {
        delay(&proxy, senders, LATE);
        let began = Instant::now();
        assert_eq!(asks(&mut stream, b"late"), b"late");
        assert!(began.elapsed() >= expected, "{senders:?} took {:?} only", began.elapsed());
        delay(&proxy, senders, Duration::ZERO);
    }
    delay(&proxy, &BOTH[..1], LATE);
    stream.write_all(b"first").unwrap();
    until_taken(&proxy, Order::Delay(BOTH[0], LATE));
    proxy.obey(Order::Heal);
    stream.write_all(b"second").unwrap();
    let mut both = [0; 11];
    stream.read_exact(&mut both).unwrap();
    assert_eq!(both, *b"firstsecond", "what comes when it is over does not overtake");
}

/// Repeats an order until the network has taken what was sent before: its runtime looks for new bytes at least after every 61
/// tasks, and each order is one.
fn until_taken(proxy: &Proxy, order: Order) {
    (0..200).for_each(|_| proxy.obey(order));
}

#[test]
fn replicas_get_nothing_while_clients_are_answered() {
    let echo = Echo::start();
    let proxy = network_to(&echo);
    let (mut replica, mut client) = (connected(&proxy), connected(&proxy));
    assert_eq!(asks(&mut replica, b"PSYNC ? -1"), b"PSYNC ? -1");
    let mut to_replica = echo.connection(0);
    Order::LOSE_ALL_OF_REPLICAS.into_iter().for_each(|order| proxy.obey(order));
    to_replica.write_all(b"SET k v").unwrap();
    assert!(is_silent(&replica));
    assert_eq!(asks(&mut client, b"whole"), b"whole");
    // A new replica gets nothing meanwhile, either.
    let mut late = connected(&proxy);
    late.write_all(&[b"PSYNC ".as_slice(), &vec![1; MUCH]].concat()).unwrap();
    assert!(is_silent(&late));
    proxy.obey(Order::Heal);
    assert_reset(&mut replica);
    assert_reset(&mut late);
    assert_eq!(asks(&mut client, b"whole"), b"whole");
}

#[test]
fn one_way_the_other_still_hears() {
    let echo = Echo::start();
    let proxy = network_to(&echo);
    let mut replica = connected(&proxy);
    assert_eq!(asks(&mut replica, b"PSYNC ? -1"), b"PSYNC ? -1");
    proxy.obey(Order::LoseOfReplicas(Sender::Client));
    // If the server got this, it would echo it.
    replica.write_all(b"REPLCONF ACK 1").unwrap();
    until_taken(&proxy, Order::LoseOfReplicas(Sender::Client));
    echo.connection(0).write_all(b"SET k v").unwrap();
    let mut bytes = [0; 7];
    replica.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes, *b"SET k v");
    proxy.obey(Order::Heal);
    assert_reset(&mut replica);
}

#[test]
fn one_address_is_cut_off_and_others_are_not() {
    let echo = Echo::start();
    let proxy = network_to(&echo);
    let mut stream = connected(&proxy);
    proxy.obey(Order::LoseOf([127, 0, 0, 9].into()));
    assert_eq!(asks(&mut stream, b"whole"), b"whole");
    let cut_off = Order::LoseOf([127, 0, 0, 1].into());
    proxy.obey(cut_off);
    stream.write_all(b"lost").unwrap();
    until_taken(&proxy, cut_off);
    proxy.obey(Order::Heal);
    assert_reset(&mut stream);
}

#[test]
fn new_connections_are_refused_and_open_ones_stay() {
    let echo = Echo::start();
    let proxy = network_to(&echo);
    let mut stream = connected(&proxy);
    proxy.obey(Order::Refuse);
    assert_reset(&mut connect(&proxy));
    assert_eq!(asks(&mut stream, b"still"), b"still");
    proxy.obey(Order::Heal);
    connected(&proxy);
}

#[test]
fn when_it_is_dropped_all_is_closed() {
    let echo = Echo::start();
    let proxy = network_to(&echo);
    let (mut first, mut second) = (connected(&proxy), connected(&proxy));
    let port = proxy.port;
    proxy.obey(Order::Silence { sender: Sender::Server, hundredths: 100, seed: 1 });
    let later = connected(&proxy);
    drop(proxy);
    for stream in [&mut first, &mut second, &mut { later }] {
        assert_reset(stream);
    }
    let refused = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn what_one_side_sends_is_lost_while_it_hears_the_other() {
    for lost in BOTH {
        let echo = Echo::start();
        let proxy = network_to(&echo);
        let (mut silenced, mut idle) = (connected(&proxy), connected(&proxy));
        let hellos = echo.received().len();
        proxy.obey(Order::Lose(*lost));
        silenced.write_all(&vec![1; MUCH]).unwrap();
        if *lost == Sender::Server {
            wait_until("the server has heard it all", || echo.has_received(hellos + MUCH));
        } else {
            hears_a_push(&echo, &mut silenced);
            assert!(echo.has_received(hellos), "the server has heard nothing");
        }
        assert!(is_silent(&silenced), "it stays");
        proxy.obey(Order::Heal);
        assert_reset(&mut silenced);
        assert_eq!(asks(&mut idle, b"whole"), b"whole", "of which nothing was lost");
        connected(&proxy);
    }
}

fn hears_a_push(echo: &Echo, stream: &mut TcpStream) {
    echo.connection(0).write_all(b"push").unwrap();
    let mut pushed = [0; 4];
    stream.read_exact(&mut pushed).unwrap();
    assert_eq!(pushed, *b"push");
}

#[test]
fn a_connection_that_is_silenced_stays_so_and_a_new_one_is_whole() {
    for sender in BOTH {
        let echo = Echo::start();
        let proxy = network_to(&echo);
        let mut client = connected(&proxy);
        proxy.obey(Order::Silence { sender: *sender, hundredths: 100, seed: 1 });
        client.write_all(b"question").unwrap();
        if *sender == Sender::Server {
            wait_until("the server hears it", || echo.has_received(b"helloquestion".len()));
        } else {
            hears_a_push(&echo, &mut client);
        }
        // `Heal` does not end a silence.
        proxy.obey(Order::Heal);
        let mut new = connected(&proxy);
        assert!(is_silent(&client), "it stays silent");
        proxy.obey(Order::CutSilenced);
        assert_reset(&mut client);
        wait_until("the server learns of it", || is_ended(&echo.connection(0)));
        assert_eq!(asks(&mut new, b"stays"), b"stays");
    }
}

#[test]
fn only_half_of_an_answer_comes() {
    for late in [Duration::ZERO, LATE] {
        let echo = Echo::start();
        let proxy = network_to(&echo);
        let (mut first, mut second) = (connected(&proxy), connected(&proxy));
        delay(&proxy, BOTH, late);
        proxy.obey(Order::CutMidReply);
        let began = Instant::now();
        first.write_all(b"one two ").unwrap();
        assert_eq!(rest(&mut first), (b"one ".to_vec(), Some(ErrorKind::ConnectionReset)));
        assert!(began.elapsed() >= late * 2);
        proxy.obey(Order::Heal);
        assert_eq!(asks(&mut second, b"whole"), b"whole", "it is over");
    }
}

//! The network's troubles, seen from both of its ends: a client's socket, and a server that answers what it is sent.

use super::{Order, Proxy, Sender};
use crate::{PATIENCE, Server, wait_until};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// More than all buffers between two ends hold: who has sent it knows that some of it was taken.
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
    Order::Lead { port, tls_port: None }
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

/// Until what is sent is closed or reset, and what came before.
fn rest(stream: &mut TcpStream) -> (Vec<u8>, Option<ErrorKind>) {
    let mut rest = Vec::new();
    let error = stream.read_to_end(&mut rest).err().map(|error| error.kind());
    (rest, error)
}

fn assert_reset(stream: &mut TcpStream) {
    assert_eq!(rest(stream), (Vec::new(), Some(ErrorKind::ConnectionReset)));
}

/// Without an end so far, and with nothing to read.
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
fn many_are_carried_at_a_time() {
    let echo = Echo::start();
    let proxy = network_to(&echo);
    let mut streams: Vec<_> = (0..100).map(|_| connect(&proxy)).collect();
    for round in 0..10 {
        for (place, stream) in streams.iter_mut().enumerate() {
            stream.write_all(format!("{place:4}{round:4}").as_bytes()).unwrap();
        }
        for (place, stream) in streams.iter_mut().enumerate() {
            let mut answer = [0; 8];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(answer, format!("{place:4}{round:4}").as_bytes());
        }
    }
}

#[test]
fn it_leads_elsewhere_on_the_same_port() {
    let (first, second) = (Echo::start(), Echo::start());
    let proxy = network_to(&first);
    let port = proxy.port;
    let mut stream = connected(&proxy);
    proxy.obey(lead_to(second.port));
    assert_reset(&mut stream);
    assert_eq!(asks(&mut connect(&proxy), b"second"), b"second");
    assert_eq!((first.received(), second.received()), (b"hello".to_vec(), b"second".to_vec()));
    assert_eq!(proxy.port, port);
}

#[test]
fn it_leads_nowhere_until_it_is_told_and_where_nobody_listens() {
    let proxy = Proxy::start().unwrap();
    assert_reset(&mut connect(&proxy));
    let silent = tokio::net::TcpSocket::new_v4().unwrap();
    silent.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    proxy.obey(lead_to(silent.local_addr().unwrap().port()));
    assert_reset(&mut connect(&proxy));
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
    // With each thing that it is told it also takes what has come: so this is taken before it is over.
    (0..10).for_each(|_| delay(&proxy, &BOTH[..1], LATE));
    proxy.obey(Order::Heal);
    stream.write_all(b"second").unwrap();
    let mut both = [0; 11];
    stream.read_exact(&mut both).unwrap();
    assert_eq!(both, *b"firstsecond", "what comes when it is over does not overtake");
}

#[test]
fn what_is_delayed_is_under_way_together() {
    let echo = Echo::start();
    let proxy = network_to(&echo);
    let mut stream = connected(&proxy);
    delay(&proxy, BOTH, LATE);
    let mut sending = stream.try_clone().unwrap();
    let began = Instant::now();
    let mut sent: Vec<u8> = Vec::new();
    for number in 0..100 {
        sending.write_all(format!("{number:4}").as_bytes()).unwrap();
        sent.extend(format!("{number:4}").as_bytes());
        // So that they are pieces of their own.
        thread::sleep(Duration::from_millis(1));
    }
    let mut received = vec![0; sent.len()];
    stream.read_exact(&mut received).unwrap();
    assert_eq!(received, sent);
    assert!(began.elapsed() < LATE * 50, "one after the other it would take {:?}", LATE * 100);
    sending.shutdown(Shutdown::Write).unwrap();
    assert_eq!(rest(&mut stream), (Vec::new(), None), "the end is carried as well");
}

#[test]
fn requests_are_lost_while_answers_arrive() {
    let echo = Echo::start();
    let proxy = network_to(&echo);
    let (mut silenced, mut idle) = (connected(&proxy), connected(&proxy));
    let hellos = echo.received().len();
    proxy.obey(Order::Lose(Sender::Client));
    silenced.write_all(&vec![1; MUCH]).unwrap();
    echo.connection(0).write_all(b"push").unwrap();
    let mut pushed = [0; 4];
    silenced.read_exact(&mut pushed).unwrap();
    assert_eq!(pushed, *b"push");
    assert!(is_silent(&silenced) && is_silent(&echo.connection(0)), "it stays");
    proxy.obey(Order::Heal);
    assert_reset(&mut silenced);
    assert!(echo.has_received(hellos), "the server has heard nothing");
    assert_eq!(asks(&mut idle, b"whole"), b"whole", "of which nothing was lost");
    connected(&proxy);
}

#[test]
fn answers_are_lost_while_requests_arrive() {
    let echo = Echo::start();
    let proxy = network_to(&echo);
    let (mut silenced, mut idle) = (connected(&proxy), connected(&proxy));
    let hellos = echo.received().len();
    proxy.obey(Order::Lose(Sender::Server));
    silenced.write_all(&vec![1; MUCH]).unwrap();
    wait_until("the server has heard it all", || echo.has_received(hellos + MUCH));
    assert!(is_silent(&silenced));
    proxy.obey(Order::Heal);
    assert_reset(&mut silenced);
    assert_eq!(asks(&mut idle, b"whole"), b"whole", "of which nothing was lost");
}

#[test]
fn replicas_are_told_nothing_while_clients_are_answered() {
    let echo = Echo::start();
    let proxy = network_to(&echo);
    let (mut replica, mut client) = (connected(&proxy), connected(&proxy));
    assert_eq!(asks(&mut replica, b"PSYNC ? -1"), b"PSYNC ? -1");
    let mut to_replica = echo.connection(0);
    proxy.obey(Order::LoseOfReplicas);
    to_replica.write_all(b"SET k v").unwrap();
    assert!(is_silent(&replica));
    assert_eq!(asks(&mut client, b"whole"), b"whole");
    // One that comes meanwhile is told nothing either.
    let mut late = connected(&proxy);
    late.write_all(&[b"PSYNC ".as_slice(), &vec![1; MUCH]].concat()).unwrap();
    assert!(is_silent(&late));
    proxy.obey(Order::Heal);
    assert_reset(&mut replica);
    assert_reset(&mut late);
    assert_eq!(asks(&mut client, b"whole"), b"whole");
}

#[test]
fn a_server_does_not_learn_of_the_end_of_a_client_that_it_cannot_hear() {
    let echo = Echo::start();
    let proxy = network_to(&echo);
    let (gone, ended) = (connected(&proxy), connected(&proxy));
    proxy.obey(Order::Lose(Sender::Client));
    let (mut to_gone, mut to_ended) = (echo.connection(0), echo.connection(1));
    ended.shutdown(Shutdown::Write).unwrap();
    drop(gone);
    // Whoever is gone resets the network's end when he is sent more: that is not carried either.
    for _ in 0..10 {
        to_gone.write_all(b"are you there?").unwrap();
        to_ended.write_all(b"are you there?").unwrap();
        let mut heard = [0; 14];
        (&ended).read_exact(&mut heard).unwrap();
    }
    assert!(is_silent(&to_gone) && is_silent(&to_ended));
    proxy.obey(Order::Heal);
    wait_until("the server learns of it", || is_ended(&to_gone) && is_ended(&to_ended));
}

#[test]
fn who_is_silenced_is_not_heard_any_more_and_who_comes_new_is() {
    let echo = Echo::start();
    let proxy = network_to(&echo);
    let (mut client, mut server_side) = (connected(&proxy), echo.connection(0));
    proxy.obey(Order::Silence { sender: Sender::Client, hundredths: 100, seed: 1 });
    client.write_all(b"are you there?").unwrap();
    server_side.write_all(b"push").unwrap();
    let mut pushed = [0; 4];
    client.read_exact(&mut pushed).unwrap();
    assert_eq!(pushed, *b"push", "the server is heard");
    let mut new = connected(&proxy);
    // What heals other troubles leaves this.
    proxy.obey(Order::Heal);
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(asks(&mut new, b"whole"), b"whole");
    assert!(is_silent(&server_side) && is_silent(&client), "nobody is told");
    assert!(echo.has_received(b"hellohellowhole".len()));
    proxy.obey(Order::CutSilenced);
    assert_reset(&mut client);
    wait_until("the server learns of it", || is_ended(&server_side));
    assert_eq!(asks(&mut new, b"stays"), b"stays");
}

#[test]
fn a_server_is_silenced_and_hears_its_clients_end() {
    let echo = Echo::start();
    let proxy = network_to(&echo);
    let (mut client, ended) = (connected(&proxy), connected(&proxy));
    proxy.obey(Order::Silence { sender: Sender::Server, hundredths: 100, seed: 1 });
    client.write_all(b"question").unwrap();
    drop(ended);
    wait_until("the server hears it", || echo.has_received(b"hellohelloquestion".len()));
    wait_until("the server learns of the end", || is_ended(&echo.connection(1)));
    proxy.obey(Order::Heal);
    connected(&proxy);
    assert!(is_silent(&client));
    proxy.obey(Order::CutSilenced);
    assert_reset(&mut client);
}

#[test]
fn some_are_silenced_and_others_are_not() {
    let echo = Echo::start();
    let proxy = network_to(&echo);
    let mut streams: Vec<_> = (0..100).map(|_| connected(&proxy)).collect();
    proxy.obey(Order::Silence { sender: Sender::Server, hundredths: 30, seed: 7 });
    proxy.obey(Order::CutSilenced);
    let is_cut =
        |stream: &mut TcpStream| stream.write_all(b"whole").is_err() || stream.read_exact(&mut [0; 5]).is_err();
    let cut = streams.iter_mut().map(is_cut).filter(|is_cut| *is_cut).count();
    assert!((10..=50).contains(&cut), "{cut}");
}

#[test]
fn what_comes_by_tls_goes_elsewhere_and_suffers_the_same() {
    let (echo, tls) = (Echo::start(), Echo::start());
    let proxy = network_to(&echo);
    let connect_by_tls = || {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.tls_port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    };
    assert_reset(&mut connect_by_tls());
    proxy.obey(Order::Lead { port: echo.port, tls_port: Some(tls.port) });
    let mut stream = connect_by_tls();
    assert_eq!(asks(&mut stream, b"secret"), b"secret");
    assert_eq!(asks(&mut connect(&proxy), b"plain"), b"plain");
    assert_eq!((echo.received(), tls.received()), (b"plain".to_vec(), b"secret".to_vec()));
    proxy.obey(Order::Cut);
    assert_reset(&mut stream);
    proxy.obey(Order::Refuse);
    assert_reset(&mut connect_by_tls());
    proxy.obey(Order::Heal);
    assert_eq!(asks(&mut connect_by_tls(), b"again"), b"again");
    proxy.obey(lead_to(echo.port));
    assert_reset(&mut connect_by_tls());
}

#[test]
fn half_of_an_answer_is_all_that_comes() {
    let echo = Echo::start();
    let proxy = network_to(&echo);
    let (mut first, mut second) = (connected(&proxy), connected(&proxy));
    proxy.obey(Order::CutMidReply);
    let mut later = connected(&proxy);
    first.write_all(b"one two ").unwrap();
    assert_eq!(rest(&mut first), (b"one ".to_vec(), Some(ErrorKind::ConnectionReset)));
    proxy.obey(Order::Heal);
    assert_eq!(asks(&mut second, b"whole"), b"whole", "it is over");
    assert_eq!(asks(&mut later, b"whole"), b"whole", "it was not there");
}

#[test]
fn half_of_an_answer_comes_late_as_well() {
    let echo = Echo::start();
    let proxy = network_to(&echo);
    let mut stream = connected(&proxy);
    delay(&proxy, BOTH, LATE);
    proxy.obey(Order::CutMidReply);
    let began = Instant::now();
    stream.write_all(b"one two ").unwrap();
    assert_eq!(rest(&mut stream), (b"one ".to_vec(), Some(ErrorKind::ConnectionReset)));
    assert!(began.elapsed() >= LATE * 2);
}

#[test]
fn who_comes_new_is_refused_and_who_is_there_stays() {
    let echo = Echo::start();
    let proxy = network_to(&echo);
    let mut stream = connected(&proxy);
    proxy.obey(Order::Refuse);
    assert_reset(&mut connect(&proxy));
    assert_eq!(asks(&mut stream, b"still"), b"still");
    proxy.obey(Order::Heal);
    connected(&proxy);
}

/// Of several, since somebody else's connection may begin at the same port as one of them, and to that one it is closed.
#[test]
fn a_server_can_listen_where_a_connection_through_the_network_begins() {
    let echo = Echo::start();
    let proxy = network_to(&echo);
    let streams: Vec<_> = (0..5).map(|_| connected(&proxy)).collect();
    let begins_at: Vec<_> = (0..streams.len()).map(|place| echo.connection(place).peer_addr().unwrap()).collect();
    assert!(begins_at.iter().all(|address| address.port() != proxy.port));
    assert!(begins_at.iter().any(|address| TcpListener::bind(address).is_ok()), "{begins_at:?}");
}

#[test]
fn servers_take_who_comes_through_the_network_for_a_client_of_this_machine() {
    let server = Server::start();
    let proxy = Proxy::start().unwrap();
    proxy.obey(lead_to(server.port()));
    let mut stream = connect(&proxy);
    stream.write_all(b"RLOCK.ACQUIRE lock me 1000\r\n").unwrap();
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"$-1\r\n", "and not that the server is protected from strangers");
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

//! The network between clients and a server: a port that leads to the server's, and another one to where it listens for
//! TLS, between which all sorts of trouble can be made.
//!
//! Each has a thread, in which all connections are tasks: nobody needs a lock, and what is told to it has happened to every
//! connection when the call returns.

use super::line::{HalfOpen, Line};
use super::rules::{Direction, Rules, Sender};
use rlock_testing::Random;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::mpsc as answers;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet, LocalSet};

/// How long nothing is accepted when there are no descriptors left.
const REST: Duration = Duration::from_millis(10);

/// Ends its connections when it is dropped. What is told to it may be told from any thread.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    tls_port: u16,
    orders: Option<mpsc::UnboundedSender<(Order, answers::Sender<()>)>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Clone, Copy, Debug)]
enum Order {
    LeadTo(u16),
    LeadTlsTo(u16),
    Cut,
    Delay(Duration, Direction),
    Drop(Direction),
    Halve(HalfOpen),
    CutMidReply,
    Refuse,
    Silence { sender: Sender, hundredths: u8, seed: u64 },
    CutSilenced,
    Heal,
}

impl Proxy {
    /// It leads nowhere so far: connections are closed at once.
    ///
    /// # Errors
    /// If there is no port or no thread to be had.
    pub fn start() -> io::Result<Self> {
        let (orders, taken) = mpsc::unbounded_channel();
        let (tell_ports, ports) = answers::channel();
        let thread = std::thread::Builder::new().name("network".to_owned()).spawn(move || {
            if let Err(error) = run(&tell_ports, taken) {
                // Nobody listens if it is told already, and then nothing fails any more.
                let _ = tell_ports.send(Err(error));
            }
        })?;
        let [port, tls_port] = ports.recv().map_err(|_| io::Error::other("the network's thread has ended"))??;
        Ok(Self { port, tls_port, orders: Some(orders), thread: Some(thread) })
    }

    /// Where clients connect, as long as this lives.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where clients connect by TLS. It is not looked into what is carried.
    pub fn tls_port(&self) -> u16 {
        self.tls_port
    }

    /// New connections lead to that port of this machine, and by TLS nowhere; those that are there are cut.
    pub fn lead_to(&self, port: u16) {
        self.order(Order::LeadTo(port));
    }

    /// New connections by TLS lead to that port.
    pub fn lead_tls_to(&self, port: u16) {
        self.order(Order::LeadTlsTo(port));
    }

    /// Cuts what connections there are, with a reset to both sides.
    pub fn cut(&self) {
        self.order(Order::Cut);
    }

    /// Whatever is sent that way from now on arrives later by that, in order. Nought ends it.
    pub fn delay(&self, time: Duration, direction: Direction) {
        self.order(Order::Delay(time, direction));
    }

    /// What clients send from now on is lost, ends of connections included; answers arrive. Connections of which something
    /// was lost are cut when it is over.
    pub fn drop_requests(&self) {
        self.order(Order::Drop(Direction::Requests));
    }

    /// What the server sends from now on is lost, as with [`Self::drop_requests`].
    pub fn drop_answers(&self) {
        self.order(Order::Drop(Direction::Answers));
    }

    /// One side of each connection is cut; the other stays open until it is over, and hears nothing.
    pub fn halve(&self, gone: HalfOpen) {
        self.order(Order::Halve(gone));
    }

    /// Each connection that is there is cut in the middle of the next that the server sends on it.
    pub fn cut_mid_reply(&self) {
        self.order(Order::CutMidReply);
    }

    /// New connections are closed at once.
    pub fn refuse(&self) {
        self.order(Order::Refuse);
    }

    /// What one side sends is lost on so many in a hundred of the connections that are there, and nobody is told. New
    /// ones are whole. This alone does not end when others are healed, so that it can be beside them.
    pub fn silence(&self, sender: Sender, hundredths: u8, seed: u64) {
        self.order(Order::Silence { sender, hundredths, seed });
    }

    /// Cuts the connections on which somebody was silenced.
    pub fn cut_silenced(&self) {
        self.order(Order::CutSilenced);
    }

    /// All trouble is over, but for who is silenced. Connections that are no longer whole are cut, the others stay.
    pub fn heal(&self) {
        self.order(Order::Heal);
    }

    /// Returns when it is done.
    fn order(&self, order: Order) {
        let (done, wait) = answers::channel();
        let orders = self.orders.as_ref().expect("it is there until the end");
        orders.send((order, done)).expect("the network's thread lives as long");
        wait.recv().expect("the network's thread does what it is told");
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The thread ends when nobody can tell it anything any more, and its connections with it.
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

type Orders = mpsc::UnboundedReceiver<(Order, answers::Sender<()>)>;

fn run(tell_ports: &answers::Sender<io::Result<[u16; 2]>>, orders: Orders) -> io::Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    LocalSet::new().block_on(&runtime, async {
        let plain = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let tls = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let _ = tell_ports.send(Ok([plain.local_addr()?.port(), tls.local_addr()?.port()]));
        Network::default().serve(&plain, &tls, orders).await;
        Ok(())
    })
}

/// What the thread knows.
#[derive(Default)]
struct Network {
    target: Option<u16>,
    tls_target: Option<u16>,
    refuses: bool,
    rules: Rc<Cell<Rules>>,
    lines: HashMap<Id, (Rc<Line>, AbortHandle)>,
    tasks: JoinSet<()>,
}

impl Network {
    async fn serve(mut self, plain: &TcpListener, tls: &TcpListener, mut orders: Orders) {
        loop {
            tokio::select! {
                // What is told comes first: who connects afterwards is treated accordingly.
                biased;
                order = orders.recv() => match order {
                    Some((order, done)) => {
                        self.obey(order).await;
                        let _ = done.send(());
                    }
                    None => return,
                },
                Some(ended) = self.tasks.join_next_with_id() => {
                    self.forget(ended);
                }
                accepted = plain.accept() => self.admit(accepted, self.target).await,
                accepted = tls.accept() => self.admit(accepted, self.tls_target).await,
            }
        }
    }

    async fn admit(&mut self, accepted: io::Result<(TcpStream, SocketAddr)>, target: Option<u16>) {
        let Ok((client, _)) = accepted else { return tokio::time::sleep(REST).await };
        let Some(target) = target.filter(|_| !self.refuses) else {
            let _ = client.set_zero_linger();
            return;
        };
        let line = Rc::new(Line::new(Rc::clone(&self.rules)));
        let task = self.tasks.spawn_local(Rc::clone(&line).carry(client, target));
        self.lines.insert(task.id(), (line, task));
    }

    async fn obey(&mut self, order: Order) {
        match order {
            Order::LeadTo(port) => {
                (self.target, self.tls_target) = (Some(port), None);
                self.cut_where(|_| true).await;
            }
            Order::LeadTlsTo(port) => self.tls_target = Some(port),
            Order::Cut => self.cut_where(|_| true).await,
            Order::Delay(time, direction) => self.change_rules(|rules| rules.delay(time, direction)),
            Order::Drop(direction) => self.change_rules(|rules| rules.swallow(direction)),
            Order::Halve(gone) => self.halve(gone).await,
            Order::CutMidReply => self.lines.values().for_each(|(line, _)| line.cut_mid_reply(true)),
            Order::Refuse => self.refuses = true,
            Order::Silence { sender, hundredths, seed } => {
                let mut random = Random::from(seed);
                let chosen = self.lines.values().filter(|_| random.is(hundredths));
                chosen.for_each(|(line, _)| line.silence(sender));
            }
            Order::CutSilenced => self.cut_where(Line::is_silenced).await,
            Order::Heal => {
                self.refuses = false;
                self.rules.set(Rules::default());
                self.lines.values().for_each(|(line, _)| line.cut_mid_reply(false));
                self.cut_where(|line| !line.is_whole()).await;
            }
        }
    }

    fn change_rules(&self, change: impl FnOnce(&mut Rules)) {
        let mut rules = self.rules.get();
        change(&mut rules);
        self.rules.set(rules);
    }

    async fn halve(&self, gone: HalfOpen) {
        for (line, _) in self.lines.values() {
            line.halve(gone);
        }
        for (line, task) in self.lines.values() {
            while !line.is_halved() && !task.is_finished() {
                tokio::task::yield_now().await;
            }
        }
    }

    /// A task that is aborted drops its sockets, which resets them.
    async fn cut_where(&mut self, condition: impl Fn(&Line) -> bool) {
        let mut to_be_cut: HashSet<Id> = HashSet::new();
        for (id, (line, task)) in &self.lines {
            if condition(line) {
                task.abort();
                to_be_cut.insert(*id);
            }
        }
        while !to_be_cut.is_empty() {
            let ended = self.tasks.join_next_with_id().await.expect("tasks are known until they are joined");
            to_be_cut.remove(&self.forget(ended));
        }
    }

    fn forget(&mut self, ended: Result<(Id, ()), JoinError>) -> Id {
        let id = ended.map_or_else(|failed| failed.id(), |(id, ())| id);
        self.lines.remove(&id);
        id
    }
}
